//! Operators of a chain.

use arrow::datatypes::SchemaRef;
use bytes::Bytes;
use millstream_batch::Batch;
use millstream_state::{KeyedStateBackend, StateDescriptor};
use millstream_types::{CheckpointId, Epoch, EventTime, MaxParallelism, MonoTime, OperatorUid};

use crate::OperatorError;

/// Who an operator is.
#[derive(Clone, Debug)]
pub struct OperatorInfo {
    /// Its state's identity.
    pub uid: OperatorUid,
    /// For messages.
    pub name: String,
    /// Subtask index, from 0.
    pub subtask_index: u32,
    /// Number of subtasks.
    pub parallelism: u32,
    /// Number of key groups.
    pub max_parallelism: MaxParallelism,
    /// How often this subtask was started before.
    pub attempt: u32,
    /// The claim that it runs under: of two attempts that run at once, the one with the lower epoch
    /// is over and does not know it.
    pub epoch: Epoch,
    /// Schemas of the inputs, in order.
    pub inputs: Vec<SchemaRef>,
    /// Schema of the output.
    pub output: SchemaRef,
}

/// What an operator says of itself before the job runs.
#[derive(Default)]
pub struct Declaration {
    /// Keyed states, in the order of their ids. None: no backend is opened for it.
    pub keyed: Vec<StateDescriptor>,
}

/// What a call leaves behind.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Progress {
    /// The input was dealt with.
    Done,
    /// There is more output than is good at once: [`Operator::resume`] goes on after what was
    /// emitted has left the chain.
    More,
}

/// What an operator is told besides its data.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Event {
    /// Event time reached this point on all inputs.
    Watermark(EventTime),
    /// A barrier is about to pass: emit what must be in front of it.
    PreBarrier(CheckpointId),
    /// The time asked for with [`Context::wake_at`] has come.
    Wake,
    /// All inputs are at their end and will not come back; results may leave.
    EndOfInput,
    /// The job is finishing: flush. Comes after `EndOfInput`, and not at a stop without drain.
    Finish,
    /// The checkpoint is complete, and so is everything before it.
    CheckpointCompleted(CheckpointId),
    /// The checkpoint will never complete.
    CheckpointAborted(CheckpointId),
}

/// Operator state given back at the start, redistributed over the subtasks.
#[derive(Clone, Default, Debug)]
pub struct RestoredState {
    /// Whether there was a checkpoint at all, even one without state of this operator.
    pub is_restored: bool,
    /// The list elements that fall to this subtask.
    pub elements: Vec<Bytes>,
}

/// Operator state handed out for a checkpoint: list elements, dealt out evenly at a restore with
/// another parallelism. Keyed state is not in here: the runtime takes it from the backend.
#[derive(Clone, Default, Debug, PartialEq, Eq)]
pub struct OperatorSnapshot {
    /// The elements.
    pub elements: Vec<Bytes>,
}

/// A batch on its way out of an operator.
#[derive(Clone, Debug)]
pub struct Emitted {
    /// Whether it goes to the dead-letter output.
    pub dead_letter: bool,
    /// The rows.
    pub batch: Batch,
}

/// What an operator may use during a call.
pub struct Context<'a> {
    /// Who it is.
    pub info: &'a OperatorInfo,
    /// The clock's reading at the start of the slice.
    pub now: MonoTime,
    keyed: Option<&'a mut dyn KeyedStateBackend>,
    output: &'a mut Vec<Emitted>,
    wake_at: &'a mut MonoTime,
}

impl<'a> Context<'a> {
    /// Made by the runtime, and by tests of operators.
    pub fn new(
        info: &'a OperatorInfo,
        now: MonoTime,
        keyed: Option<&'a mut dyn KeyedStateBackend>,
        output: &'a mut Vec<Emitted>,
        wake_at: &'a mut MonoTime,
    ) -> Self {
        Self {
            info,
            now,
            keyed,
            output,
            wake_at,
        }
    }

    /// Sends rows on. Empty batches are left out.
    pub fn emit(&mut self, batch: Batch) {
        if batch.num_rows() > 0 {
            self.output.push(Emitted {
                dead_letter: false,
                batch,
            });
        }
    }

    /// The keyed state.
    ///
    /// # Errors
    /// If the operator declared none.
    pub fn keyed(&mut self) -> Result<&mut (dyn KeyedStateBackend + 'a), OperatorError> {
        match self.keyed.as_deref_mut() {
            Some(backend) => Ok(backend),
            None => Err(OperatorError::new(
                crate::ErrorKind::Internal,
                format!("operator {} declared no keyed state", self.info.uid),
            )),
        }
    }

    /// Asks for [`Event::Wake`] at this time. Only the last request counts.
    pub fn wake_at(&mut self, at: MonoTime) {
        *self.wake_at = at;
    }
}

/// An operator of a chain.
pub trait Operator: Send {
    /// The state it needs; asked once, before [`Operator::open`].
    fn declare(&self) -> Declaration {
        Declaration::default()
    }

    /// Called once before any data, with the state of the checkpoint restored from.
    fn open(
        &mut self,
        _restored: RestoredState,
        _ctx: &mut Context<'_>,
    ) -> Result<(), OperatorError> {
        Ok(())
    }

    /// Deals with a slice of rows from one input.
    fn process(
        &mut self,
        input: u32,
        batch: Batch,
        ctx: &mut Context<'_>,
    ) -> Result<Progress, OperatorError>;

    /// Goes on after [`Progress::More`].
    fn resume(&mut self, _ctx: &mut Context<'_>) -> Result<Progress, OperatorError> {
        Ok(Progress::Done)
    }

    /// Deals with everything that is not data.
    fn event(&mut self, _event: &Event, _ctx: &mut Context<'_>) -> Result<Progress, OperatorError> {
        Ok(Progress::Done)
    }

    /// Hands out its operator state. Must be quick: the task waits.
    fn snapshot(
        &mut self,
        _checkpoint: CheckpointId,
        _ctx: &mut Context<'_>,
    ) -> Result<OperatorSnapshot, OperatorError> {
        Ok(OperatorSnapshot::default())
    }

    /// Called once at the end, also after a failure; must not fail and not wait.
    fn close(&mut self) {}
}
