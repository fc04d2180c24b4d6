//! The backend: three layers, the lowest of them a database.

use std::sync::Arc;

use millstream_state::format::{Contents, SnapshotHeader, SnapshotWriter};
use millstream_state::layers::{Freeze, Layers};
use millstream_state::{
    CheckpointFiles, KeyedStateBackend, Receipt, RestorePolicy, RestoreSummary, Scan, ScanPage,
    Sharing, SnapshotFiles, SnapshotSource, SnapshotSummary, SnapshotWork, StateError, StateKeys,
    StateTable, StateUsage, ValueBuffer, restore_parts,
};
use millstream_types::{CheckpointId, KeyGroupRange, MaxParallelism, StateHandle};

use crate::base::RocksBase;
use crate::journal::Cut;
use crate::{RocksMemory, StateDirectory};

/// Keyed state in RocksDB, below two dirty maps in memory.
///
/// The dirty maps take every write. They are drained into the database by the thread of a
/// snapshot; and, where checkpoints are rare or off, by the task itself, a key group at a time,
/// whenever the active map has used up its share and nothing is frozen: counted in
/// [`StateUsage::n_inline_drains`].
#[derive(Debug)]
pub struct RocksBackend {
    table: StateTable,
    max: MaxParallelism,
    layers: Layers<RocksBase>,
    /// Whether what was restored is in files that changes may stand behind.
    restored_own: bool,
}

/// What snapshots are made of.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum SnapshotForm {
    /// Everything, each time.
    Full,
    /// Mostly what changed, behind the files of a completed checkpoint.
    Incremental,
}

impl RocksBackend {
    /// Empty state for these key groups, in a new database that goes with the backend and with the
    /// last snapshot taken from it.
    pub fn create(
        directory: StateDirectory,
        table: StateTable,
        range: KeyGroupRange,
        max: MaxParallelism,
        memory: &RocksMemory,
        form: SnapshotForm,
    ) -> Result<Self, StateError> {
        let changes_of = match form {
            SnapshotForm::Full => None,
            SnapshotForm::Incremental => Some(header(&table, range, max, CheckpointId(0))),
        };
        let base = RocksBase::create(directory, table.len(), memory, changes_of)?;
        let base = Arc::new(base);
        Ok(Self {
            restored_own: false,
            table,
            max,
            layers: Layers::new(base, range, memory.dirty_bytes_max()),
        })
    }
}

fn header(
    table: &StateTable,
    range: KeyGroupRange,
    max_parallelism: MaxParallelism,
    checkpoint: CheckpointId,
) -> SnapshotHeader {
    SnapshotHeader {
        checkpoint,
        contents: Contents::All,
        max_parallelism,
        range,
        states: table.stored(),
    }
}

impl CheckpointFiles for RocksBackend {
    fn checkpoint_completed(&mut self, checkpoint: CheckpointId) {
        if let Some(journal) = self.layers.base().journal() {
            journal.completed(checkpoint);
        }
    }

    fn adopt(&mut self, checkpoint: CheckpointId, files: &[StateHandle]) {
        if let Some(journal) = self.layers.base().journal().filter(|_| self.restored_own) {
            let header = header(&self.table, self.layers.range(), self.max, checkpoint);
            journal.adopt(header, files);
        }
    }
}

impl KeyedStateBackend for RocksBackend {
    fn table(&self) -> &StateTable {
        &self.table
    }

    fn get(&mut self, keys: &StateKeys, values: &mut ValueBuffer) -> Result<(), StateError> {
        self.layers.get(keys, values)
    }

    fn put(&mut self, keys: &StateKeys, values: &ValueBuffer) -> Result<(), StateError> {
        self.layers.put(keys, values)
    }

    fn scan(
        &mut self,
        scan: &mut Scan,
        max_entries: usize,
        page: &mut ScanPage,
    ) -> Result<bool, StateError> {
        self.layers.scan(scan, max_entries, page)
    }

    fn snapshot(&mut self, checkpoint: CheckpointId) -> Result<Box<dyn SnapshotWork>, StateError> {
        let freeze = self.layers.freeze(checkpoint)?;
        let header = header(&self.table, self.layers.range(), self.max, checkpoint);
        let base = self.layers.base().clone();
        if let Some(journal) = base.journal() {
            journal.begin(header.clone());
        }
        Ok(Box::new(RocksSnapshot {
            header,
            base,
            freeze,
        }))
    }

    fn restore(
        &mut self,
        parts: &mut [&mut dyn SnapshotSource],
        policy: RestorePolicy,
    ) -> Result<RestoreSummary, StateError> {
        let (range, max) = (self.layers.range(), self.max);
        let mut ingest = self.layers.base().restoring()?;
        let summary = restore_parts(parts, &mut self.table, range, max, policy, |key, stored| {
            ingest.put(key, Some(stored))
        })?;
        ingest.finish()?;
        self.restored_own = summary.is_own;
        self.layers.base().has_grown(summary.bytes);
        Ok(summary)
    }

    fn usage(&self) -> StateUsage {
        self.layers.usage()
    }
}

struct RocksSnapshot {
    header: SnapshotHeader,
    freeze: Freeze<RocksBase>,
    base: Arc<RocksBase>,
}

impl SnapshotWork for RocksSnapshot {
    fn checkpoint(&self) -> CheckpointId {
        self.header.checkpoint
    }

    fn receipt(&self) -> Option<Receipt> {
        let (base, checkpoint) = (self.base.clone(), self.header.checkpoint);
        base.journal()?;
        Some(Box::new(move |files| {
            if let Some(journal) = base.journal() {
                journal.stored(checkpoint, files);
            }
        }))
    }

    fn run(
        self: Box<Self>,
        files: &mut dyn SnapshotFiles,
    ) -> Result<Vec<SnapshotSummary>, StateError> {
        let Self {
            header,
            freeze,
            base,
        } = *self;
        // Nothing is flushed: the view covers write buffers too, and the file is made from the
        // view. The freeze is lifted before the upload, which may take minutes.
        let (cut, view, live_bytes) = freeze.drain_and_lift(|_| {
            let live_bytes = base.live_bytes();
            let cut = match base.journal() {
                Some(journal) => journal.cut(header.checkpoint, live_bytes)?,
                None => Cut::All(Sharing::Private),
            };
            Ok((cut, base.db().snapshot(), live_bytes))
        })?;
        match cut {
            Cut::All(sharing) => {
                let mut writer = SnapshotWriter::new(&header, files.begin(sharing))?;
                base.write_snapshot(&view, header.range, &mut writer)?;
                let summary = writer.finish()?;
                base.were(live_bytes, summary.bytes);
                let stored = files.finish(&summary);
                stored.map_err(|error| StateError::of_sink(error, summary.bytes))?;
                Ok(vec![summary])
            }
            Cut::Changes {
                behind,
                files: changes,
            } => {
                drop(view);
                for file in &behind {
                    let reused = files.reuse(file);
                    reused.map_err(|error| StateError::of_sink(error, 0))?;
                }
                let written: Result<_, _> =
                    changes.iter().map(|change| change.upload(files)).collect();
                if let (Err(StateError::Store { .. }), Some(journal)) = (&written, base.journal()) {
                    journal.reset();
                }
                written
            }
        }
    }
}
