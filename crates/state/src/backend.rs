//! What every backend of keyed state can do, and how snapshots leave and enter it.

use std::error::Error;

use bytes::Bytes;
use millstream_types::{CheckpointId, Checksum, StateHandle};

use crate::{
    RestorePolicy, RestoreSummary, Scan, ScanPage, StateError, StateKeys, StateTable, ValueBuffer,
};

/// The keyed state of one operator in one subtask: its states, for the key groups it owns.
///
/// It is used by one thread at a time, a slice at a time. What a snapshot still has to do after
/// [`snapshot`](Self::snapshot) returned is done by its [`SnapshotWork`] on another thread.
pub trait KeyedStateBackend: CheckpointFiles + Send {
    /// The states, with the schemas their values may have.
    fn table(&self) -> &StateTable;

    /// Fills `values`, one place a key: what was put last, or none.
    fn get(&mut self, keys: &StateKeys, values: &mut ValueBuffer) -> Result<(), StateError>;

    /// Puts one value a key; a place without a value deletes. Of equal keys the last one holds.
    ///
    /// Either all of it happens or nothing. [`StateError::Full`] asks to wait for the running
    /// snapshot and to try again.
    ///
    /// # Panics
    /// If there are more or fewer values than keys.
    fn put(&mut self, keys: &StateKeys, values: &ValueBuffer) -> Result<(), StateError>;

    /// Continues a scan: replaces `page` by up to `max_entries` (1 or more) further entries in
    /// key order. Returns whether there may be more.
    ///
    /// An entry that is not written during the scan is seen exactly once. A write during the scan
    /// may be seen or not.
    fn scan(
        &mut self,
        scan: &mut Scan,
        max_entries: usize,
        page: &mut ScanPage,
    ) -> Result<bool, StateError>;

    /// Takes the synchronous part of a snapshot: what is written from here on is not in it.
    ///
    /// At most one snapshot holds frozen state; while it does, another is refused with
    /// [`StateError::SnapshotRunning`] and nothing has changed.
    fn snapshot(&mut self, checkpoint: CheckpointId) -> Result<Box<dyn SnapshotWork>, StateError>;

    /// Loads the own key groups from the parts of a snapshot, which may have been taken with
    /// another parallelism. Called at most once, before anything else; after an error the backend
    /// must be dropped.
    fn restore(
        &mut self,
        parts: &mut [&mut dyn SnapshotSource],
        policy: RestorePolicy,
    ) -> Result<RestoreSummary, StateError>;

    /// What is in use.
    fn usage(&self) -> StateUsage;
}

/// Which files in storage later snapshots may refer to. Nothing to be done where each snapshot is of
/// everything.
pub trait CheckpointFiles {
    /// This checkpoint is complete, and no older one need be: what its files hold may be left out of
    /// later snapshots, which refer to them; files of older ones may be gone at any time.
    fn checkpoint_completed(&mut self, _checkpoint: CheckpointId) {}

    /// What was restored is what these files of a completed checkpoint hold, in their order; later
    /// snapshots may refer to them.
    fn adopt(&mut self, _checkpoint: CheckpointId, _files: &[StateHandle]) {}
}

/// Memory and waiting of a backend, for accounting and for `diagnose`.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct StateUsage {
    /// Bytes of the map that is written to.
    pub active_bytes: usize,
    /// Bytes of the map that a snapshot holds frozen.
    pub frozen_bytes: usize,
    /// Bytes of the map that was written down last and still serves reads.
    pub drained_bytes: usize,
    /// The snapshot whose freeze is not lifted yet. After [`StateError::Full`] the task goes on
    /// when there is none any more, long before the upload ends.
    pub frozen_for: Option<CheckpointId>,
    /// What the active map may have; none where nothing but the slot limits it.
    pub active_bytes_max: Option<usize>,
    /// How often a put was refused because the active map was full during a freeze.
    pub n_full: u64,
    /// Key groups of the active map that were written down without a checkpoint, because it was
    /// full; and maps whose snapshot was given up.
    pub n_inline_drains: u64,
}

/// The rest of a snapshot, to be run on a thread that may block.
///
/// Dropping it without running it gives the snapshot up: its frozen state, if it holds any, goes
/// back to the backend, and the next snapshot may start.
pub trait SnapshotWork: Send {
    /// The checkpoint this snapshot is for.
    fn checkpoint(&self) -> CheckpointId;

    /// To be called with all files of the snapshot, in their order, when they are stored; none if
    /// nobody wants to know.
    fn receipt(&self) -> Option<Receipt> {
        None
    }

    /// Writes the snapshot; returns what it wrote, a summary a file. An error leaves the backend
    /// whole, unless it is a [`StateError::Store`].
    fn run(
        self: Box<Self>,
        files: &mut dyn SnapshotFiles,
    ) -> Result<Vec<SnapshotSummary>, StateError>;
}

/// Tells a backend where the files of a snapshot lie.
pub type Receipt = Box<dyn FnOnce(&[StateHandle]) + Send>;

/// Who may refer to a file of a snapshot.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Sharing {
    /// The snapshot's checkpoint alone.
    Private,
    /// Later checkpoints too.
    Shared,
}

/// Where the files of a snapshot go, one after the other: one of all, and the changes behind it.
pub trait SnapshotFiles {
    /// A file that an earlier snapshot left in storage is the next one of this snapshot too.
    fn reuse(&mut self, file: &StateHandle) -> Result<(), SinkError>;

    /// Begins the next file. The one before has been finished.
    fn begin(&mut self, sharing: Sharing) -> &mut dyn SnapshotSink;

    /// Ends the file that was begun last.
    fn finish(&mut self, summary: &SnapshotSummary) -> Result<(), SinkError>;
}

/// A sink takes a snapshot of one file.
impl<S: SnapshotSink> SnapshotFiles for S {
    fn reuse(&mut self, _file: &StateHandle) -> Result<(), SinkError> {
        Err(SinkError::Failed("one sink takes one file".into()))
    }

    fn begin(&mut self, _sharing: Sharing) -> &mut dyn SnapshotSink {
        self
    }

    fn finish(&mut self, _summary: &SnapshotSummary) -> Result<(), SinkError> {
        Ok(())
    }
}

/// A file of a snapshot that was handed over whole.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SnapshotSummary {
    /// The checkpoint it was first part of.
    pub checkpoint: CheckpointId,
    /// Length of the file.
    pub bytes: u64,
    /// Entries of all states.
    pub n_entries: u64,
    /// Checksum of the whole file, as a [`StateHandle`](millstream_types::StateHandle) carries it.
    pub checksum: Checksum,
}

/// Why a sink takes no more.
#[derive(Debug, thiserror::Error)]
pub enum SinkError {
    /// The checkpoint was given up.
    #[error("snapshot is not wanted any more")]
    Cancelled,
    /// The bytes could not be kept.
    #[error("snapshot cannot be kept")]
    Failed(#[source] Box<dyn Error + Send + Sync>),
}

/// Where the bytes of a snapshot go, in order. May block: the upload sets the pace.
pub trait SnapshotSink {
    /// Takes the next bytes of the file.
    fn write(&mut self, chunk: Bytes) -> Result<(), SinkError>;
}

impl<S: SnapshotSink + ?Sized> SnapshotSink for &mut S {
    fn write(&mut self, chunk: Bytes) -> Result<(), SinkError> {
        (**self).write(chunk)
    }
}

impl SnapshotSink for Vec<u8> {
    fn write(&mut self, chunk: Bytes) -> Result<(), SinkError> {
        self.extend_from_slice(&chunk);
        Ok(())
    }
}

/// A snapshot's file, read from any position. May block.
pub trait SnapshotSource {
    /// The length of the file.
    fn byte_len(&self) -> u64;

    /// Fills `buffer` from `offset` on; fewer bytes are an error.
    fn read_at(
        &mut self,
        offset: u64,
        buffer: &mut [u8],
    ) -> Result<(), Box<dyn Error + Send + Sync>>;
}

impl SnapshotSource for &[u8] {
    fn byte_len(&self) -> u64 {
        self.len() as u64
    }

    fn read_at(
        &mut self,
        offset: u64,
        buffer: &mut [u8],
    ) -> Result<(), Box<dyn Error + Send + Sync>> {
        let start = usize::try_from(offset).unwrap_or(usize::MAX);
        let bytes = self
            .get(start..)
            .and_then(|rest| rest.get(..buffer.len()))
            .ok_or("unexpected end of the file")?;
        buffer.copy_from_slice(bytes);
        Ok(())
    }
}

impl SnapshotSource for Bytes {
    fn byte_len(&self) -> u64 {
        self.len() as u64
    }

    fn read_at(
        &mut self,
        offset: u64,
        buffer: &mut [u8],
    ) -> Result<(), Box<dyn Error + Send + Sync>> {
        (&mut &self[..]).read_at(offset, buffer)
    }
}
