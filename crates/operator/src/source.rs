//! Sources: enumerators that find splits and readers that read them.

use std::task::{Poll, Waker};

use bytes::Bytes;
use millstream_batch::Batch;
use millstream_types::MonoTime;

use crate::OperatorError;

/// A part of a source's data with the position reached in it. What the bytes mean is known to the
/// source alone; they carry their own format version.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Split {
    /// Unique within the source, for people too: `docs/a.md:0+4096`.
    pub id: String,
    /// What to read and where to go on.
    pub state: Bytes,
}

/// How much a reader may return at once.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Budget {
    /// Rows at most.
    pub rows: usize,
    /// About this many bytes.
    pub bytes: usize,
}

/// What a poll of a reader brings.
#[derive(Clone, Debug)]
pub enum ReaderOutput {
    /// Rows of one split.
    Batch(Batch),
    /// Records that could not be read, for the dead-letter output.
    DeadLetters(Batch),
    /// The split with this id has been read to its end.
    SplitFinished(String),
    /// Nothing before this time.
    WaitUntil(MonoTime),
    /// Nothing until more splits are added.
    WaitForSplits,
    /// Nothing ever again.
    Finished,
}

/// Reads splits. Runs on its task's thread.
pub trait SplitReader: Send {
    /// Takes over splits, from the enumerator or from a checkpoint.
    fn add_splits(&mut self, splits: Vec<Split>) -> Result<(), OperatorError>;

    /// No more splits will be added.
    fn no_more_splits(&mut self);

    /// The next rows. Never waits: where there is nothing yet it returns [`Poll::Pending`] and
    /// wakes the waker, or says until when.
    fn poll_batch(
        &mut self,
        budget: Budget,
        now: MonoTime,
        waker: &Waker,
    ) -> Poll<Result<ReaderOutput, OperatorError>>;

    /// The unfinished splits with the positions reached, for a checkpoint.
    fn snapshot(&mut self) -> Result<Vec<Split>, OperatorError>;

    /// Records left out so far because they could not be read.
    fn bad_records(&self) -> u64 {
        0
    }

    /// The first of them: where it is, and what is wrong with it.
    fn first_bad_record(&self) -> Option<&str> {
        None
    }
}

/// The splits that a discovery found.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Discovery {
    /// Every split there is now, in a stable order.
    pub splits: Vec<Split>,
    /// Whether there will never be others.
    pub is_final: bool,
}

/// Finds splits. Runs on the I/O runtime, where it may wait.
pub trait Enumerator: Send + Sync {
    /// Looks for splits.
    fn discover(&self) -> Result<Discovery, OperatorError>;
}
