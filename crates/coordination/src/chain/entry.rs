//! What the entries of a claim chain say.

use std::fmt;

use millstream_types::{CheckpointId, Checksum, Epoch, JobId, ObjectName};

/// Position in the chain. The first entry is number 1; number 0 stands for "before the first".
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
pub struct EntryNumber(pub u64);

impl EntryNumber {
    /// Before the first entry.
    pub const NONE: Self = Self(0);
    /// The first entry.
    pub const FIRST: Self = Self(1);

    /// The number after this one.
    pub const fn next(self) -> Self {
        Self(self.0 + 1)
    }

    /// The number before this one; [`EntryNumber::NONE`] has none and answers itself.
    pub const fn previous(self) -> Self {
        Self(self.0.saturating_sub(1))
    }
}

impl fmt::Display for EntryNumber {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.0, f)
    }
}

impl fmt::Debug for EntryNumber {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "N{}", self.0)
    }
}

/// Random number drawn for one claim; every entry written under that claim carries it, so its
/// writer recognises what it wrote.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct WriterNonce(pub u128);

impl fmt::Display for WriterNonce {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:032x}", self.0)
    }
}

impl fmt::Debug for WriterNonce {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "nonce-{:x}", self.0)
    }
}

/// One object of the chain. Immutable once written.
#[derive(Clone, PartialEq, Eq, Debug, Hash)]
pub struct Entry {
    /// Its place, which is also its name.
    pub number: EntryNumber,
    /// [`Entry::hash`] of the entry before; [`Entry::root`] for the first.
    pub prev: Checksum,
    /// The epoch under which it was written; that of the nearest CLAIM at or below.
    pub epoch: Epoch,
    /// Who wrote it.
    pub nonce: WriterNonce,
    /// What it says.
    pub kind: EntryKind,
}

impl Entry {
    /// What the first entry of this job's chain names as its predecessor. An entry of another
    /// job's chain, copied here, does not fit.
    pub fn root(job: JobId) -> Checksum {
        let mut bytes = b"millstream claim chain of job ".to_vec();
        bytes.extend_from_slice(job.as_bytes());
        Checksum::of(&bytes)
    }

    /// What the next entry names as its predecessor: the checksum of the canonical bytes.
    pub fn hash(&self) -> Checksum {
        Checksum::of(&self.canonical_bytes())
    }
}

/// The five things an entry can say.
#[derive(Clone, PartialEq, Eq, Debug, Hash)]
pub enum EntryKind {
    /// The writer owns the job from here on. The claim reserves a first block of checkpoint ids,
    /// so that a restart needs one write only.
    Claim {
        /// The ids set aside for this epoch.
        ids: CheckpointIds,
    },
    /// The owner sets aside more checkpoint ids.
    Reserve {
        /// The ids set aside.
        ids: CheckpointIds,
    },
    /// A checkpoint is complete. This entry is its commit point.
    Completed(CompletedCheckpoint),
    /// The job ended and never runs again.
    Terminal(TerminalState),
    /// Says all that matters of the entries before, which may be deleted from here on.
    Boundary {
        /// The completed checkpoints that are kept, oldest first.
        retained: Vec<RestorePoint>,
        /// The ids of the current epoch, from its first to the end of its last block.
        ids: CheckpointIds,
    },
}

impl EntryKind {
    /// The kind's name, as listings show it.
    pub const fn name(&self) -> &'static str {
        match self {
            Self::Claim { .. } => "CLAIM",
            Self::Reserve { .. } => "RESERVE",
            Self::Completed(_) => "COMPLETED",
            Self::Terminal(_) => "TERMINAL",
            Self::Boundary { .. } => "BOUNDARY",
        }
    }
}

/// A half-open range of checkpoint ids.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
pub struct CheckpointIds {
    /// The first id.
    pub first: CheckpointId,
    /// The id after the last.
    pub end: CheckpointId,
}

impl CheckpointIds {
    /// `count` ids from `first` on.
    pub const fn block(first: CheckpointId, count: u32) -> Self {
        Self {
            first,
            end: CheckpointId(first.0.saturating_add(count as u64)),
        }
    }

    /// Whether `id` is one of them.
    pub const fn contains(self, id: CheckpointId) -> bool {
        self.first.0 <= id.0 && id.0 < self.end.0
    }
}

/// A completed checkpoint and where its metadata lies.
#[derive(Clone, PartialEq, Eq, Debug, Hash)]
pub struct CompletedCheckpoint {
    /// Its id.
    pub id: CheckpointId,
    /// The `_metadata` object.
    pub metadata: ObjectName,
    /// Checksum of that object, verified at restore.
    pub checksum: Checksum,
}

/// A completed checkpoint as the chain records it.
#[derive(Clone, PartialEq, Eq, Debug, Hash)]
pub struct RestorePoint {
    /// The number of its COMPLETED entry.
    pub number: EntryNumber,
    /// The epoch that took it.
    pub epoch: Epoch,
    /// The checkpoint.
    pub checkpoint: CompletedCheckpoint,
}

/// How a job ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
pub enum TerminalState {
    /// All its tasks finished, or it was stopped with a savepoint.
    Finished,
    /// It was cancelled.
    Canceled,
    /// It failed and its restart strategy gave up.
    Failed,
}

impl fmt::Display for TerminalState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Finished => "FINISHED",
            Self::Canceled => "CANCELED",
            Self::Failed => "FAILED",
        })
    }
}
