//! The operators of a task, one behind the other.
//!
//! Work stands on a stack: what an operator emits is dealt with by those behind it before anything
//! else, so that rows and events keep their order and nothing is buffered between operators.

use std::sync::Arc;

use millstream_batch::Batch;
use millstream_coordination::failure::{FailureInfo, FailureKind};
use millstream_env::Clock;
use millstream_operator::{
    Context, Emitted, ErrorKind, Event, Operator, OperatorError, OperatorInfo, Progress,
    RestoredState,
};
use millstream_state::KeyedStateBackend;
use millstream_types::{CheckpointId, MonoTime};

use crate::activity::Activity;
use crate::counters::TaskCounters;
use crate::failure;
use crate::output::Outputs;
use crate::snapshot::OperatorWork;
use crate::two_phase::CommitStatus;

/// One operator with its state.
pub(crate) struct ChainOperator {
    pub(crate) info: OperatorInfo,
    pub(crate) operator: Box<dyn Operator>,
    pub(crate) backend: Option<Box<dyn KeyedStateBackend>>,
    pub(crate) restored: RestoredState,
    /// For a two-phase sink: how far its commits are.
    pub(crate) commits: Option<CommitStatus>,
}

struct Link {
    name: Arc<str>,
    inner: ChainOperator,
    wake_at: MonoTime,
}

/// Something to be done at a position of the chain; behind the last it goes to the outputs.
#[expect(
    clippy::large_enum_variant,
    reason = "rows are the common case; boxing allocates per slice"
)]
enum Work {
    Rows { at: usize, input: u32, batch: Batch },
    Event { at: usize, event: Event },
    Resume { at: usize },
}

/// The chain.
pub(crate) struct Chain {
    links: Vec<Link>,
    stack: Vec<Work>,
    /// Memory for turning the order of rows round on their way to the stack.
    passed: Vec<Work>,
    emitted: Vec<Emitted>,
    activity: Activity,
    counters: Arc<TaskCounters>,
}

/// Why a snapshot's synchronous part did not happen.
pub(crate) enum SnapshotError {
    /// An operator refused: the checkpoint is declined, the task goes on.
    Refused(FailureInfo),
    /// The task fails.
    Failed(FailureInfo),
}

impl Chain {
    pub(crate) fn new(
        operators: Vec<ChainOperator>,
        activity: Activity,
        counters: Arc<TaskCounters>,
    ) -> Self {
        let link = |inner: ChainOperator| Link {
            name: Arc::from(inner.info.name.as_str()),
            inner,
            wake_at: MonoTime::NEVER,
        };
        Self {
            links: operators.into_iter().map(link).collect(),
            stack: Vec::new(),
            passed: Vec::new(),
            emitted: Vec::new(),
            activity,
            counters,
        }
    }

    /// Opens every operator with its restored state, tail first: an operator may emit when it is
    /// opened, and finds those behind it open.
    pub(crate) fn open(&mut self, now: MonoTime, outputs: &mut Outputs) -> Result<(), FailureInfo> {
        for at in (0..self.links.len()).rev() {
            let restored = std::mem::take(&mut self.links[at].inner.restored);
            let progress = self.call(at, "open", now, |operator, ctx| {
                operator.open(restored, ctx).map(|()| Progress::Done)
            })?;
            self.after(at, progress, now, outputs)?;
        }
        Ok(())
    }

    /// Whether nothing is under way.
    pub(crate) fn is_empty(&self) -> bool {
        self.stack.is_empty()
    }

    /// Hands rows to the head. The chain must be empty.
    pub(crate) fn push_rows(&mut self, input: u32, batch: Batch) {
        debug_assert!(self.is_empty(), "between slices the chain is empty");
        self.stack.push(Work::Rows {
            at: 0,
            input,
            batch,
        });
    }

    /// Hands rows past the head: those that a source made.
    pub(crate) fn push_source_rows(
        &mut self,
        dead_letter: bool,
        batch: Batch,
        now: MonoTime,
        outputs: &mut Outputs,
    ) -> Result<(), FailureInfo> {
        debug_assert!(self.is_empty(), "between slices the chain is empty");
        self.emitted.push(Emitted { dead_letter, batch });
        self.after(0, Progress::Done, now, outputs)
    }

    /// Sends an event through the chain, behind what is under way.
    pub(crate) fn push_event(&mut self, event: Event) {
        self.stack.insert(0, Work::Event { at: 0, event });
    }

    /// Deals with what is under way until it is done or, if `outputs` are to be heeded, full.
    pub(crate) fn run(
        &mut self,
        now: MonoTime,
        outputs: &mut Outputs,
        heed_room: bool,
    ) -> Result<(), FailureInfo> {
        while let Some(work) = self.stack.pop() {
            match work {
                Work::Rows { at, input, batch } => {
                    let progress = self.call(at, "process", now, |operator, ctx| {
                        operator.process(input, batch, ctx)
                    })?;
                    self.after(at, progress, now, outputs)?;
                }
                Work::Resume { at } => {
                    if heed_room && !outputs.has_room() {
                        self.stack.push(Work::Resume { at });
                        return Ok(());
                    }
                    let progress =
                        self.call(at, "resume", now, |operator, ctx| operator.resume(ctx))?;
                    self.after(at, progress, now, outputs)?;
                }
                Work::Event { at, event } => self.event(at, event, now, outputs)?,
            }
        }
        Ok(())
    }

    fn event(
        &mut self,
        at: usize,
        event: Event,
        now: MonoTime,
        outputs: &mut Outputs,
    ) -> Result<(), FailureInfo> {
        if at == self.links.len() {
            if let Event::Watermark(watermark) = event {
                outputs.watermark(now, watermark);
            }
            return Ok(());
        }
        let progress = self.call(at, event_name(&event), now, |operator, ctx| {
            operator.event(&event, ctx)
        })?;
        // A timer is of one operator; everything else concerns those behind it as well.
        if event != Event::Wake {
            self.stack.push(Work::Event { at: at + 1, event });
        }
        self.after(at, progress, now, outputs)
    }

    /// Puts what the operator emitted on top of the stack, first rows uppermost; side outputs
    /// leave at once.
    fn after(
        &mut self,
        at: usize,
        progress: Progress,
        now: MonoTime,
        outputs: &mut Outputs,
    ) -> Result<(), FailureInfo> {
        if progress == Progress::More {
            self.stack.push(Work::Resume { at });
        }
        let is_tail = at + 1 == self.links.len();
        for emitted in self.emitted.drain(..) {
            if is_tail || emitted.dead_letter {
                let batch = &emitted.batch;
                self.counters
                    .sent(batch.num_rows(), batch.encoded_bytes() as u64);
                outputs.emit(now, at, emitted.dead_letter, batch)?;
            } else {
                self.passed.push(Work::Rows {
                    at: at + 1,
                    input: 0,
                    batch: emitted.batch,
                });
            }
        }
        self.stack.extend(self.passed.drain(..).rev());
        Ok(())
    }

    fn call(
        &mut self,
        at: usize,
        function: &'static str,
        now: MonoTime,
        call: impl FnOnce(&mut dyn Operator, &mut Context<'_>) -> Result<Progress, OperatorError>,
    ) -> Result<Progress, FailureInfo> {
        let link = &mut self.links[at];
        self.activity.enter(&link.name, function, now);
        let ChainOperator {
            info,
            operator,
            backend,
            ..
        } = &mut link.inner;
        let keyed = backend
            .as_mut()
            .map(|backend| &mut **backend as &mut dyn KeyedStateBackend);
        let mut ctx = Context::new(info, now, keyed, &mut self.emitted, &mut link.wake_at);
        let result = call(operator.as_mut(), &mut ctx);
        self.activity.leave();
        result.map_err(|error| failure::of_operator(&link.name, &error))
    }

    /// Wakes the operators whose time has come or whose commits have news.
    pub(crate) fn wake(&mut self, now: MonoTime) {
        for at in (0..self.links.len()).rev() {
            let link = &mut self.links[at];
            let has_news = link
                .inner
                .commits
                .as_ref()
                .is_some_and(CommitStatus::take_news);
            if has_news || link.wake_at <= now {
                link.wake_at = MonoTime::NEVER;
                self.stack.insert(
                    0,
                    Work::Event {
                        at,
                        event: Event::Wake,
                    },
                );
            }
        }
    }

    /// When [`Chain::wake`] is due next.
    pub(crate) fn deadline(&self) -> MonoTime {
        self.links
            .iter()
            .map(|link| link.wake_at)
            .min()
            .unwrap_or(MonoTime::NEVER)
    }

    /// Whether every sink may write.
    pub(crate) fn may_write(&self) -> bool {
        self.links
            .iter()
            .all(|l| l.inner.commits.as_ref().is_none_or(CommitStatus::may_write))
    }

    /// Whether every sink has committed what this checkpoint promised.
    pub(crate) fn has_committed(&self, checkpoint: CheckpointId) -> bool {
        let committed = |commits: &CommitStatus| commits.has_committed(checkpoint);
        self.links
            .iter()
            .all(|link| link.inner.commits.as_ref().is_none_or(committed))
    }

    /// A checkpoint is complete: snapshots may stand on it.
    pub(crate) fn checkpoint_completed(&mut self, checkpoint: CheckpointId) {
        for link in &mut self.links {
            if let Some(backend) = &mut link.inner.backend {
                backend.checkpoint_completed(checkpoint);
            }
        }
    }

    /// The synchronous part of a snapshot: freezes keyed state and takes operator state.
    pub(crate) fn snapshot(
        &mut self,
        checkpoint: CheckpointId,
        now: MonoTime,
        clock: &Clock,
    ) -> Result<Vec<OperatorWork>, SnapshotError> {
        let mut parts = Vec::new();
        for link in &mut self.links {
            let begun_at = clock.monotonic();
            self.activity.enter(&link.name, "snapshot", now);
            let ChainOperator {
                info,
                operator,
                backend,
                ..
            } = &mut link.inner;
            let mut work = OperatorWork::new(&info.uid, &link.name);
            if let Some(backend) = backend {
                let frozen = backend.snapshot(checkpoint).map_err(|error| {
                    let failure = failure::of_error(FailureKind::SynchronousSnapshot, &error);
                    match error {
                        millstream_state::StateError::SnapshotRunning { .. } => {
                            SnapshotError::Refused(failure)
                        }
                        _ => SnapshotError::Failed(failure),
                    }
                })?;
                work.keyed = Some(frozen);
            }
            let keyed = backend
                .as_mut()
                .map(|b| &mut **b as &mut dyn KeyedStateBackend);
            let mut ctx = Context::new(info, now, keyed, &mut self.emitted, &mut link.wake_at);
            let taken = operator.snapshot(checkpoint, &mut ctx).map_err(|error| {
                let mut failure = failure::of_operator(&link.name, &error);
                if error.kind() == ErrorKind::SnapshotRefused {
                    return SnapshotError::Refused(failure);
                }
                failure.kind = FailureKind::SynchronousSnapshot;
                SnapshotError::Failed(failure)
            })?;
            work.elements = taken.elements;
            work.synchronous = clock.monotonic().saturating_since(begun_at);
            parts.push(work);
        }
        self.activity.leave();
        Ok(parts)
    }

    /// Closes every operator.
    pub(crate) fn close(&mut self) {
        for link in &mut self.links {
            link.inner.operator.close();
        }
    }
}

fn event_name(event: &Event) -> &'static str {
    match event {
        Event::Watermark(_) => "on watermark",
        Event::PreBarrier(_) => "before barrier",
        Event::Wake => "on timer",
        Event::EndOfInput => "end of input",
        Event::Finish => "finish",
        Event::CheckpointCompleted(_) => "checkpoint completed",
        Event::CheckpointAborted(_) => "checkpoint aborted",
    }
}
