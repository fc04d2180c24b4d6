//! Judges the claim chain and what it promises: I5, I8 to I11, I18. It sees every write that was
//! made to the store, in the order in which they were made.

use std::collections::{BTreeMap, BTreeSet};

use bytes::Bytes;
use futures::executor::block_on;
use millstream_coordination::chain::{
    CheckpointIds, CompletedCheckpoint, Entry, EntryKind, EntryNumber, TerminalState,
};
use millstream_snapshot::metadata::{self, CheckpointMetadata};
use millstream_snapshot::names::{CheckpointDir, Named, parse};
use millstream_types::{Checksum, Epoch, JobId, ObjectName};
use object_store::ObjectStoreExt;
use object_store::path::Path;

use crate::journal::Restored;
use crate::recorder::Recorder;

/// What was seen of the chain of one job.
pub struct ChainWatch {
    job: JobId,
    folder: String,
    parallelism: u32,
    /// Every name that was ever written, and what was.
    names: BTreeMap<String, Checksum>,
    /// Nonces in the names of states and of checkpoints.
    nonces: BTreeSet<String>,
    /// All `_metadata` that was ever written.
    metadata: BTreeMap<String, Bytes>,
    /// The newest BOUNDARY: what is below may have gone, and counts no more.
    boundary: u64,
    last: Option<Last>,
    completed: BTreeSet<u64>,
    newest: Option<CompletedCheckpoint>,
    /// The newest checkpoint as of the claim, by epoch.
    claims: BTreeMap<u64, Option<u64>>,
    /// Checkpoint ids below were handed out.
    ids_end: u64,
    end: Option<TerminalState>,
}

/// The tip.
struct Last {
    number: u64,
    hash: Checksum,
    epoch: Epoch,
}

impl ChainWatch {
    pub fn new(job: JobId, parallelism: u32) -> Self {
        Self {
            job,
            folder: format!("{job}/"),
            parallelism,
            names: BTreeMap::new(),
            nonces: BTreeSet::new(),
            metadata: BTreeMap::new(),
            boundary: 0,
            last: None,
            completed: BTreeSet::new(),
            newest: None,
            claims: BTreeMap::new(),
            ids_end: 0,
            end: None,
        }
    }

    /// Checkpoints that completed.
    pub fn n_completed(&self) -> usize {
        self.completed.len()
    }

    /// The newest of them.
    pub fn newest_completed(&self) -> Option<u64> {
        self.completed.last().copied()
    }

    /// Epochs that were claimed.
    pub fn n_epochs(&self) -> usize {
        self.claims.len()
    }

    /// I10: an epoch begins from the newest checkpoint as of its claim.
    pub fn check_restore(&self, restored: Restored) -> Result<(), String> {
        let Restored { epoch, checkpoint } = restored;
        match self.claims.get(&epoch) {
            Some(newest) if *newest == checkpoint => Ok(()),
            expected => Err(format!(
                "I10: epoch {epoch} begins from checkpoint {checkpoint:?}, and should from \
                 {expected:?}"
            )),
        }
    }

    /// F5: what a jobmanager calls completed is on the chain.
    pub fn check_completion(&self, id: u64) -> Result<(), String> {
        match self.completed.contains(&id) {
            true => Ok(()),
            false => Err(format!(
                "F5: a jobmanager says that checkpoint {id} completed, and the chain does not"
            )),
        }
    }

    /// How the chain says the job ended.
    pub fn end(&self) -> Option<TerminalState> {
        self.end
    }

    /// Judges what was written since the last look; says what is wrong.
    pub fn look(&mut self, store: &Recorder) -> Result<(), String> {
        for written in store.take_written() {
            let name = written.name.strip_prefix(&self.folder);
            let Some(name) = name.and_then(|name| ObjectName::new(name).ok()) else {
                continue;
            };
            self.take(&name, written.bytes)?;
        }
        self.check_newest(store)
    }

    fn take(&mut self, name: &ObjectName, bytes: Bytes) -> Result<(), String> {
        let checksum = Checksum::of(&bytes);
        let before = self.names.insert(name.to_string(), checksum);
        match parse(name) {
            // A writer that slept may make a number again which was deleted: it looks at the
            // boundary afterwards, and nobody else looks there any more (F6).
            Some(Named::Chain(number)) if number < self.boundary => Ok(()),
            // The same may come again, late, once it was deleted: a request that nobody waits for.
            _ if before == Some(checksum) => Ok(()),
            _ if before.is_some() => Err(format!("F9: {name} was written twice")),
            Some(Named::Chain(number)) => self.append(number, &bytes),
            Some(Named::Metadata(dir)) => {
                self.metadata.insert(name.to_string(), bytes);
                self.check_nonce(name, format!("checkpoint {}", dir.nonce))
            }
            Some(Named::Private(_)) => {
                let nonce = name.as_str().rsplit('-').next().unwrap_or_default();
                self.check_nonce(name, format!("state {nonce}"))
            }
            Some(Named::Job | Named::Result | Named::Shared(_) | Named::Unfinished(_)) | None => {
                Ok(())
            }
        }
    }

    /// F9: every name has a random number of its own.
    fn check_nonce(&mut self, name: &ObjectName, nonce: String) -> Result<(), String> {
        match self.nonces.insert(nonce) {
            true => Ok(()),
            false => Err(format!("F9: the nonce in {name} was in another name")),
        }
    }

    fn append(&mut self, number: u64, bytes: &Bytes) -> Result<(), String> {
        let entry = Entry::from_canonical_bytes(bytes)
            .map_err(|error| format!("I8: entry {number} of the chain is no entry: {error}"))?;
        if entry.number != EntryNumber(number) {
            return Err(format!("I8: entry {number} calls itself {}", entry.number));
        }
        if let Some(end) = self.end {
            return Err(format!(
                "I18: entry {number} follows the end of the job, {end:?}"
            ));
        }
        self.check_place(&entry)?;
        match &entry.kind {
            EntryKind::Claim { ids } => {
                let newest = self.newest_completed();
                self.claims.insert(entry.epoch.0, newest);
                self.hand_out(*ids)?;
            }
            EntryKind::Completed(completed) => self.complete(entry.epoch, completed)?,
            EntryKind::Boundary { .. } => self.boundary = number,
            EntryKind::Terminal(end) => self.end = Some(*end),
            EntryKind::Reserve { ids } => self.hand_out(*ids)?,
        }
        self.last = Some(Last {
            number,
            hash: entry.hash(),
            epoch: entry.epoch,
        });
        Ok(())
    }

    /// I9: nobody gets checkpoint ids that another had.
    fn hand_out(&mut self, ids: CheckpointIds) -> Result<(), String> {
        let before = std::mem::replace(&mut self.ids_end, ids.end.0);
        match ids.first.0 >= before {
            true => Ok(()),
            false => Err(format!(
                "I9: checkpoint ids from {} on are handed out again, up to {before} they were",
                ids.first
            )),
        }
    }

    /// I8: no gap, one owner of each number, rising epochs.
    fn check_place(&self, entry: &Entry) -> Result<(), String> {
        let number = entry.number.0;
        let (before, hash, epoch) = match &self.last {
            Some(last) => (last.number, last.hash, last.epoch),
            None => (0, Entry::root(self.job), Epoch(0)),
        };
        if number != before + 1 {
            return Err(format!(
                "I8: entry {number} was written after entry {before}"
            ));
        }
        if entry.prev != hash {
            return Err(format!(
                "I8: entry {number} does not name the one before it"
            ));
        }
        let fits = match entry.kind {
            EntryKind::Claim { .. } => entry.epoch > epoch,
            EntryKind::Reserve { .. }
            | EntryKind::Completed(_)
            | EntryKind::Terminal(_)
            | EntryKind::Boundary { .. } => entry.epoch == epoch,
        };
        match fits {
            true => Ok(()),
            false => Err(format!(
                "I8: entry {number}, a {}, is of epoch {}, the one before of epoch {epoch}",
                entry.kind.name(),
                entry.epoch
            )),
        }
    }

    /// I9: all snapshots are of one checkpoint and one epoch, and none is missing.
    fn complete(&mut self, epoch: Epoch, completed: &CompletedCheckpoint) -> Result<(), String> {
        let id = completed.id;
        if self.newest_completed().is_some_and(|newest| newest >= id.0) {
            return Err(format!(
                "I9: checkpoint {id} completed after a newer one, or twice"
            ));
        }
        self.completed.insert(id.0);
        self.newest = Some(completed.clone());
        let metadata = self
            .metadata(completed)
            .map_err(|error| format!("I9: checkpoint {id} completed, and {error}"))?;
        let checkpoint = &metadata.checkpoint;
        if (checkpoint.id, checkpoint.epoch) != (id, epoch) {
            return Err(format!(
                "I9: checkpoint {id} of epoch {epoch} has the metadata of checkpoint {} of epoch {}",
                checkpoint.id, checkpoint.epoch
            ));
        }
        for (uid, operator) in &checkpoint.operators {
            let is_whole = (0..operator.parallelism).eq(operator.subtasks.keys().copied());
            if !is_whole || operator.parallelism > self.parallelism {
                return Err(format!(
                    "I9: checkpoint {id} has subtasks {:?} of {uid}, of which there are {}",
                    operator.subtasks.keys(),
                    operator.parallelism
                ));
            }
        }
        let foreign = checkpoint.objects().find(|name| {
            let of = CheckpointDir::of(name).map(|dir| (dir.checkpoint, dir.epoch));
            of != Some((id, epoch))
        });
        match foreign {
            Some(name) => Err(format!("I9: {name} is in checkpoint {id} of epoch {epoch}")),
            None => Ok(()),
        }
    }

    /// I11: the checkpoint that the job would restore from is there with all that it names.
    fn check_newest(&self, store: &Recorder) -> Result<(), String> {
        // A job that ended needs its checkpoints no more.
        let (None, Some(completed)) = (self.end, &self.newest) else {
            return Ok(());
        };
        let metadata = self.metadata(completed)?;
        let names = metadata.checkpoint.objects().chain([&completed.metadata]);
        for name in names {
            let path = Path::from(format!("{}{name}", self.folder));
            if block_on(store.objects().head(&path)).is_err() {
                let id = completed.id;
                return Err(format!(
                    "I11: {name} of checkpoint {id}, the newest, is gone"
                ));
            }
        }
        Ok(())
    }

    fn metadata(&self, completed: &CompletedCheckpoint) -> Result<CheckpointMetadata, String> {
        let bytes = self.metadata.get(completed.metadata.as_str());
        let bytes = bytes.ok_or("its metadata was never written")?;
        if Checksum::of(bytes) != completed.checksum {
            return Err("its metadata has another checksum".to_owned());
        }
        metadata::decode(bytes).map_err(|fault| fault.to_string())
    }
}
