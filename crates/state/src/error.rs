//! What can go wrong with state, and what to do about it.

use std::error::Error;

use millstream_types::{CheckpointId, Disposition, KeyGroup, KeyGroupRange};

use crate::StateKind;

/// An error of keyed or operator state. Each variant asks for another reaction.
#[derive(Debug, thiserror::Error)]
pub enum StateError {
    /// The declaration of an operator's states is not possible.
    #[error("state {state:?} cannot be declared: {why}")]
    Declaration {
        /// The state's name as declared.
        state: String,
        /// What is wrong with it.
        why: &'static str,
    },
    /// The bytes are no snapshot at all.
    #[error("not a snapshot of keyed state: the file starts with {found:02x?}")]
    NotASnapshot {
        /// The first bytes as found.
        found: Vec<u8>,
    },
    /// The snapshot was written by a later version.
    #[error("snapshot has format version {found}, the newest this version reads is {newest}")]
    VersionTooNew {
        /// The version in the file.
        found: u16,
        /// The newest version that can be read.
        newest: u16,
    },
    /// The snapshot's bytes are not what was written.
    #[error("snapshot is corrupt at byte {offset}: {what}")]
    Corrupt {
        /// The first byte of what does not hold.
        offset: u64,
        /// What does not hold.
        what: &'static str,
    },
    /// The snapshot could not be read.
    #[error("snapshot cannot be read at byte {offset}")]
    Unreadable {
        /// Where reading began.
        offset: u64,
        /// What the store said.
        #[source]
        source: Box<dyn Error + Send + Sync>,
    },
    /// The snapshot holds values in a schema that the job cannot read.
    #[error(
        "state {state:?} holds values of schema {found:?}, the job declares {declared:?} and reads {readable:?}"
    )]
    UnknownSchema {
        /// The state.
        state: String,
        /// The schema version in the snapshot.
        found: String,
        /// The schema version the job declares.
        declared: String,
        /// The older versions the job can read.
        readable: Vec<String>,
    },
    /// The state is of another kind in the snapshot.
    #[error("state {state:?} is a {found} in the snapshot, the job declares a {declared}")]
    KindChanged {
        /// The state.
        state: String,
        /// Its kind in the snapshot.
        found: StateKind,
        /// Its kind in the job.
        declared: StateKind,
    },
    /// The snapshot has a state that the job does not declare.
    #[error("state {state:?} is in the snapshot, and the job does not declare it")]
    Undeclared {
        /// The state.
        state: String,
    },
    /// The max parallelism of keyed state cannot change.
    #[error("snapshot was taken with max parallelism {found}, the job has {declared}")]
    MaxParallelismChanged {
        /// What the snapshot was taken with.
        found: u32,
        /// What the job has.
        declared: u32,
    },
    /// Two parts of a snapshot claim the same key group.
    #[error("key group {} is in two parts of the snapshot", group.0)]
    PartsOverlap {
        /// The first such group.
        group: KeyGroup,
    },
    /// No part of a snapshot has a key group that is needed.
    #[error("key group {} of {range} is in no part of the snapshot", group.0)]
    PartsMissing {
        /// The first such group.
        group: KeyGroup,
        /// What was to be restored.
        range: KeyGroupRange,
    },
    /// Files of one key group do not make one snapshot.
    #[error("files of key group {} change something else than what stands before them", group.0)]
    PartsUnrelated {
        /// The first such group.
        group: KeyGroup,
    },
    /// A snapshot was asked for while the one before still holds its frozen state.
    #[error("snapshot {asked} cannot start while {running} is still being taken")]
    SnapshotRunning {
        /// The one that still runs.
        running: CheckpointId,
        /// The one refused.
        asked: CheckpointId,
    },
    /// The dirty map is full while the frozen one is not yet written. Nothing was changed: try
    /// again when the running snapshot has lifted its freeze.
    #[error(
        "{active_bytes} of {limit_bytes} bytes of unwritten state are in use while snapshot {running} is written"
    )]
    Full {
        /// Bytes in the active map.
        active_bytes: usize,
        /// What it may have.
        limit_bytes: usize,
        /// The snapshot whose freeze must be lifted first.
        running: CheckpointId,
    },
    /// A key or value above the limit. Nothing was changed.
    #[error("{what} has {bytes} bytes, {limit} are allowed")]
    TooLarge {
        /// "key" or "value".
        what: &'static str,
        /// Its length.
        bytes: usize,
        /// The limit.
        limit: usize,
    },
    /// The memory for keyed state is less than it can work with.
    #[error("{found} bytes of managed memory are less than the {min} that keyed state needs")]
    BudgetTooSmall {
        /// What there is.
        found: usize,
        /// The least that works.
        min: usize,
    },
    /// A key of a key group that this subtask does not own.
    #[error("key group {} is outside {range}, which this subtask owns", group.0)]
    ForeignKeyGroup {
        /// The group.
        group: KeyGroup,
        /// What is owned.
        range: KeyGroupRange,
    },
    /// The snapshot is not wanted any more.
    #[error("snapshot was cancelled after {bytes} bytes")]
    SnapshotCancelled {
        /// What had been handed over.
        bytes: u64,
    },
    /// The snapshot's bytes could not be handed over.
    #[error("snapshot could not be handed over after {bytes} bytes")]
    SinkFailed {
        /// What had been handed over.
        bytes: u64,
        /// What the receiver said.
        #[source]
        source: Box<dyn Error + Send + Sync>,
    },
    /// The store below the working state refused or lost something.
    #[error("{action} of {object}")]
    Store {
        /// What was done: "write", "open", …
        action: &'static str,
        /// The database, directory or file.
        object: String,
        /// What to do about it.
        remedy: &'static str,
        /// What the scheduler does about it.
        disposition: Disposition,
        /// What the store said.
        #[source]
        source: Box<dyn Error + Send + Sync>,
    },
}

impl StateError {
    /// What a sink that has taken so many bytes says.
    pub fn of_sink(error: crate::SinkError, bytes: u64) -> Self {
        match error {
            crate::SinkError::Cancelled => Self::SnapshotCancelled { bytes },
            crate::SinkError::Failed(source) => Self::SinkFailed { bytes, source },
        }
    }

    /// What the scheduler does about it.
    pub fn disposition(&self) -> Disposition {
        match self {
            Self::Full { .. }
            | Self::SnapshotRunning { .. }
            | Self::SnapshotCancelled { .. }
            | Self::SinkFailed { .. }
            | Self::Unreadable { .. } => Disposition::Retry,
            Self::ForeignKeyGroup { .. } => Disposition::FailTask,
            Self::Declaration { .. }
            | Self::NotASnapshot { .. }
            | Self::VersionTooNew { .. }
            | Self::Corrupt { .. }
            | Self::UnknownSchema { .. }
            | Self::KindChanged { .. }
            | Self::Undeclared { .. }
            | Self::MaxParallelismChanged { .. }
            | Self::PartsOverlap { .. }
            | Self::PartsMissing { .. }
            | Self::PartsUnrelated { .. }
            | Self::TooLarge { .. }
            | Self::BudgetTooSmall { .. } => Disposition::FailJob,
            Self::Store { disposition, .. } => *disposition,
        }
    }

    /// What a person can do about it.
    pub fn remedy(&self) -> &str {
        match self {
            Self::Declaration { .. } => "change the state's declaration in the job",
            Self::NotASnapshot { .. } | Self::Corrupt { .. } => {
                "restore from an older checkpoint or a savepoint, and check the store that kept this one"
            }
            Self::VersionTooNew { .. } => "restore with the version that wrote it, or a later one",
            Self::Unreadable { .. } => "check that the store answers and the object still exists",
            Self::UnknownSchema { .. } => {
                "declare the old schema version as readable, or restore with the job that wrote it"
            }
            Self::KindChanged { .. } => "give the new state another name",
            Self::Undeclared { .. } => {
                "declare the state again, or allow non-restored state to drop it"
            }
            Self::MaxParallelismChanged { .. } => {
                "set the vertex's max parallelism to that of the snapshot"
            }
            Self::PartsOverlap { .. } | Self::PartsMissing { .. } | Self::PartsUnrelated { .. } => {
                "restore from another checkpoint: the metadata of this one does not fit its parts"
            }
            Self::SnapshotRunning { .. } => {
                "lengthen the checkpoint interval, or look for what slows the upload"
            }
            Self::Full { .. } => {
                "wait for the running snapshot, or give the slot more managed memory"
            }
            Self::TooLarge { .. } => "split the key or value",
            Self::BudgetTooSmall { .. } => "give the slot more managed memory",
            Self::ForeignKeyGroup { .. } => {
                "report it: a record reached a subtask that does not own its key"
            }
            Self::SnapshotCancelled { .. } => "nothing: the checkpoint was given up",
            Self::SinkFailed { .. } => "check the checkpoint storage",
            Self::Store { remedy, .. } => remedy,
        }
    }
}
