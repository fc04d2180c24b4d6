//! Two-phase sinks: what is written before a checkpoint becomes visible after it (B14).

use std::sync::Arc;

use bytes::Bytes;
use millstream_batch::Batch;
use millstream_types::CheckpointId;

use crate::{OperatorError, OperatorInfo};

/// Something written and promised by a checkpoint, made visible by a [`Committer`]. It travels in
/// the checkpoint.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Committable {
    /// Unique for ever, names sink, subtask, epoch and checkpoint; for people too.
    pub id: String,
    /// What the committer needs; carries its own format version.
    pub payload: Bytes,
}

/// Writes rows so that nobody sees them yet. Runs on its task's thread.
pub trait SinkWriter: Send {
    /// Called once, after everything promised by the restored checkpoint was committed.
    fn open(&mut self, info: &OperatorInfo, nonce: u64) -> Result<(), OperatorError>;

    /// Writes rows.
    fn write(&mut self, batch: &Batch) -> Result<(), OperatorError>;

    /// Makes what was written so far durable and hands out the promises for it. Afterwards
    /// nothing is open.
    fn prepare_commit(
        &mut self,
        checkpoint: CheckpointId,
    ) -> Result<Vec<Committable>, OperatorError>;

    /// Gives up what was not promised.
    fn abort(&mut self);
}

/// Why a commit did not succeed.
#[derive(Debug)]
pub enum CommitFailure {
    /// It may succeed later.
    Retry(OperatorError),
    /// What was promised is gone.
    Lost(OperatorError),
}

/// Makes committables visible. Runs on the I/O runtime, one call at a time per subtask, and may
/// wait.
pub trait Committer: Send + Sync {
    /// Makes one committable visible, once however often it is called.
    fn commit(&self, committable: &Committable) -> Result<(), CommitFailure>;

    /// Removes what older attempts of this subtask left unpromised. `promised` holds what must
    /// stay.
    fn abort_leftovers(&self, info: &OperatorInfo, promised: &[Committable]);
}

/// Both halves of a sink.
pub struct TwoPhaseSink {
    /// The writing half.
    pub writer: Box<dyn SinkWriter>,
    /// The committing half.
    pub committer: Arc<dyn Committer>,
}

/// Where a print sink's lines go: the process's output, or the clients attached to the job.
pub trait RowOutput: Send + Sync {
    /// Passes lines on; never waits. What does not fit is dropped and counted by the receiver.
    fn lines(&self, lines: Vec<String>);
}
