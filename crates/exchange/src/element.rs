//! What stands in line in a channel, and what overtakes.

use std::fmt;
use std::time::Duration;

use bytes::Bytes;
use millstream_batch::Batch;
use millstream_types::{CheckpointId, Epoch, EventTime, MonoTime};

/// An input channel of one subtask, by its position among all of the subtask's inputs.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct ChannelIndex(pub u32);

/// One of the channels that an output edge of a subtask leads to.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct DestinationIndex(pub u32);

impl fmt::Display for ChannelIndex {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.0, f)
    }
}

impl fmt::Display for DestinationIndex {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.0, f)
    }
}

/// What stands in line. Everything but rows and splits costs no credit.
#[derive(Clone, Debug, PartialEq)]
pub enum Element {
    /// Rows.
    Batch(Batch),
    /// No row with an earlier event time follows.
    Watermark(EventTime),
    /// Whether the channel takes part in the watermark.
    Status(ChannelStatus),
    /// The line between two checkpoints.
    Barrier(Barrier),
    /// No row follows; `drain` says that the stream came to its own end (windows fire), and not
    /// that the job stops with a savepoint.
    EndOfData {
        /// Whether end of input is processed.
        drain: bool,
    },
    /// Nothing follows.
    EndOfPartition,
    /// Splits for a source reader, encoded by the source: only on the assign edge.
    Splits(Bytes),
}

impl Element {
    /// Bytes that count against the channel's window: those of rows and splits.
    pub fn cost(&self) -> u64 {
        match self {
            Self::Batch(batch) => batch.encoded_bytes() as u64,
            Self::Splits(splits) => splits.len() as u64,
            Self::Watermark(_)
            | Self::Status(_)
            | Self::Barrier(_)
            | Self::EndOfData { .. }
            | Self::EndOfPartition => 0,
        }
    }
}

/// Whether a channel takes part in the watermark.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
pub enum ChannelStatus {
    /// It does.
    Active,
    /// It does not, until it is active again.
    Idle,
}

/// What the checkpoint of a barrier is for.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
pub enum BarrierKind {
    /// A checkpoint: the job goes on.
    Checkpoint,
    /// A savepoint: the job goes on.
    Savepoint,
    /// A savepoint after which readers poll no more and the job ends.
    StopWithSavepoint {
        /// Whether the stream is brought to its end first: MAX watermark, end of input.
        drain: bool,
    },
}

/// The line between the rows of one checkpoint and the next.
///
/// It carries the age of its checkpoint and no point in time: clocks of hosts differ, and only the
/// time on the wire is lost.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Barrier {
    /// The checkpoint.
    pub id: CheckpointId,
    /// The lineage that triggered it.
    pub epoch: Epoch,
    /// What it is for.
    pub kind: BarrierKind,
    /// The checkpoint's age when this process learnt of it.
    pub age: Duration,
    /// When that was, on this process' clock.
    pub learnt_at: MonoTime,
    /// The newest complete checkpoint when it was triggered: what the snapshot may stand on, whether
    /// its notification arrived or not.
    pub completed: Option<CheckpointId>,
}

impl Barrier {
    /// The checkpoint's age now.
    pub fn age_at(&self, now: MonoTime) -> Duration {
        self.age + now.saturating_since(self.learnt_at)
    }
}

/// What overtakes the line.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Control {
    /// A checkpoint was given up upstream: do not wait for its barrier.
    Cancel(CancelMarker),
    /// A barrier stands in line behind rows.
    Announce(BarrierAnnouncement),
}

/// A checkpoint that was given up upstream.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
pub struct CancelMarker {
    /// The checkpoint.
    pub id: CheckpointId,
}

/// A barrier that stands in line behind rows, so that its age is known before it arrives.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct BarrierAnnouncement {
    /// The barrier.
    pub barrier: Barrier,
}

/// What a reader tells its enumerator over their channel, against the direction of the splits.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Feedback {
    /// The reader opened, restored from this checkpoint (or none), with this many unfinished
    /// splits.
    pub opened: Option<(Option<CheckpointId>, u64)>,
    /// Splits finished since then.
    pub finished: u64,
}
