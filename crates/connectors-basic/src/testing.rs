//! What the tests of this crate share.

use std::sync::Arc;
use std::task::{Context as TaskContext, Waker};

use arrow::datatypes::{Schema, SchemaRef};
use millstream_batch::Batch;
use millstream_operator::{
    Context, Emitted, Operator, OperatorError, OperatorInfo, OperatorSnapshot, Progress,
    RestoredState,
};
use millstream_types::{CheckpointId, Epoch, MaxParallelism, MonoTime, OperatorUid};

pub(crate) fn waker() -> &'static Waker {
    TaskContext::from_waker(Waker::noop()).waker()
}

pub(crate) fn info(subtask_index: u32, parallelism: u32, attempt: u32) -> OperatorInfo {
    let none: SchemaRef = Arc::new(Schema::empty());
    OperatorInfo {
        uid: OperatorUid::new("op").unwrap(),
        name: "op".to_owned(),
        subtask_index,
        parallelism,
        max_parallelism: MaxParallelism::new(128).unwrap(),
        attempt,
        epoch: Epoch(1),
        inputs: vec![Arc::clone(&none)],
        output: none,
    }
}

/// An operator with what it emits.
pub(crate) struct Harness<O> {
    pub(crate) operator: O,
    info: OperatorInfo,
    output: Vec<Emitted>,
}

impl<O: Operator> Harness<O> {
    pub(crate) fn new(operator: O, info: OperatorInfo) -> Self {
        Self {
            operator,
            info,
            output: Vec::new(),
        }
    }

    fn with<T>(&mut self, call: impl FnOnce(&mut O, &mut Context<'_>) -> T) -> T {
        let mut wake_at = MonoTime::NEVER;
        let mut ctx = Context::new(
            &self.info,
            MonoTime::ZERO,
            None,
            &mut self.output,
            &mut wake_at,
        );
        call(&mut self.operator, &mut ctx)
    }

    pub(crate) fn open(&mut self, restored: &OperatorSnapshot) {
        let restored = RestoredState {
            is_restored: !restored.elements.is_empty(),
            elements: restored.elements.clone(),
        };
        self.with(|operator, ctx| operator.open(restored, ctx))
            .unwrap();
    }

    pub(crate) fn process(&mut self, batch: Batch) -> Result<Progress, OperatorError> {
        self.with(|operator, ctx| operator.process(0, batch, ctx))
    }

    pub(crate) fn resume(&mut self) -> Result<Progress, OperatorError> {
        self.with(|operator, ctx| operator.resume(ctx))
    }

    pub(crate) fn snapshot(&mut self) -> Result<OperatorSnapshot, OperatorError> {
        self.with(|operator, ctx| operator.snapshot(CheckpointId(1), ctx))
    }

    /// Rows emitted since the last call.
    pub(crate) fn rows(&mut self) -> usize {
        let emitted = self.output.drain(..);
        emitted.map(|emitted| emitted.batch.num_rows()).sum()
    }
}
