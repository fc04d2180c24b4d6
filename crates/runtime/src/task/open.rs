//! From a deployment to a running task: operators built, state restored, sinks caught up.

use std::collections::VecDeque;
use std::path::PathBuf;
use std::sync::Arc;

use bytes::Bytes;
use millstream_config::CheckpointMode;
use millstream_coordination::failure::{FailureInfo, FailureKind};
use millstream_coordination::restore::RestoreSubtask;
use millstream_env::StopSignal;
use millstream_exchange::align::{AlignMode, Alignment};
use millstream_exchange::watermark::WatermarkValve;
use millstream_exchange::{Element, coalesce::CoalesceLimits};
use millstream_graph::{JobGraph, Plan, Vertex, VertexEdge};
use millstream_operator::{OperatorInfo, RestoredState, RowOutput};
use millstream_snapshot::Store;
use millstream_state::{KeyedStateBackend, StateTable};
use millstream_types::{EventTime, KeyGroupRange, MonoTime};

use super::finish::Finish;
use super::{EnumeratorHead, Head, Mailbox, ReaderHead, Task, TaskEnd, pace};
use crate::activity::Activity;
use crate::chain::{Chain, ChainOperator};
use crate::channel::{ReceiverEnd, SenderEnd};
use crate::counters::TaskCounters;
use crate::factory::{self, Built, SourceHead};
use crate::failure;
use crate::gate::Gate;
use crate::job_process::backend::Backends;
use crate::output::{OutputEdge, Outputs};
use crate::restore::Restorer;
use crate::signal::Signal;
use crate::snapshot::{SnapshotTarget, Uploads};
use crate::two_phase::TwoPhaseOperator;

/// Everything a task is made of.
pub(crate) struct TaskSetup {
    pub(crate) name: String,
    pub(crate) target: SnapshotTarget,
    pub(crate) graph: Arc<JobGraph>,
    pub(crate) plan: Arc<Plan>,
    pub(crate) vertex: Vertex,
    pub(crate) mode: CheckpointMode,
    pub(crate) is_checkpointing: bool,
    pub(crate) limits: CoalesceLimits,
    pub(crate) inputs: Vec<(ReceiverEnd, u32)>,
    pub(crate) outputs: Vec<(VertexEdge, Vec<SenderEnd>)>,
    pub(crate) restore: Option<RestoreSubtask>,
    pub(crate) store: Option<Store>,
    pub(crate) backends: Backends,
    pub(crate) state_dir: PathBuf,
    pub(crate) row_output: Arc<dyn RowOutput>,
    pub(crate) signal: Signal,
    pub(crate) mailbox: Mailbox,
    pub(crate) stop: StopSignal,
    pub(crate) counters: Arc<TaskCounters>,
    pub(crate) activity: Activity,
}

/// Runs a task to its end. `on_running` is called when it has restored its state and its sinks
/// have caught up.
pub(crate) async fn run(setup: TaskSetup, on_running: impl FnOnce()) -> TaskEnd {
    let (stop, signal) = (setup.stop.clone(), setup.signal.clone());
    let opened = tokio::select! {
        biased;
        () = stop.cancelled() => return TaskEnd::Canceled,
        opened = open(setup) => opened,
    };
    let mut task = match opened {
        Err(failure) => return TaskEnd::Failed(failure),
        Ok(Opened::Finished(outputs)) => {
            on_running();
            return tokio::select! {
                biased;
                () = stop.cancelled() => TaskEnd::Canceled,
                end = leave(outputs, &signal) => end,
            };
        }
        Ok(Opened::Task(task)) => task,
    };
    let end = match task.catch_up(&stop).await {
        Ok(true) => {
            on_running();
            task.work().await.unwrap_or_else(TaskEnd::Failed)
        }
        Ok(false) => TaskEnd::Canceled,
        Err(failure) => TaskEnd::Failed(failure),
    };
    if !matches!(end, TaskEnd::Finished) {
        task.uploads.abort_all();
    }
    task.chain.close();
    end
}

enum Opened {
    Task(Box<Task>),
    /// The checkpoint says that it was at its end already (B5.5).
    Finished(Outputs),
}

async fn leave(mut outputs: Outputs, signal: &Signal) -> TaskEnd {
    outputs.watermark(MonoTime::ZERO, EventTime::MAX);
    let marks = [Element::EndOfData { drain: true }, Element::EndOfPartition];
    if let Err(failure) = marks.iter().try_for_each(|mark| outputs.mark(mark)) {
        return TaskEnd::Failed(failure);
    }
    while !outputs.are_taken() {
        signal.rung().await;
    }
    TaskEnd::Finished
}

async fn open(mut setup: TaskSetup) -> Result<Opened, FailureInfo> {
    let outputs = outputs(&mut setup)?;
    if setup.restore.as_ref().is_some_and(Restorer::has_finished) {
        return Ok(Opened::Finished(outputs));
    }
    let (operators, head) = operators(&setup).await?;
    let chain = Chain::new(
        operators,
        setup.activity.clone(),
        Arc::clone(&setup.counters),
    );
    let n_channels = setup.inputs.len();
    let mode = match setup.mode {
        CheckpointMode::ExactlyOnce => AlignMode::ExactlyOnce,
        CheckpointMode::AtLeastOnce => AlignMode::AtLeastOnce,
    };
    let mut task = Task {
        name: setup.name,
        vertex_name: setup.vertex.name,
        parallelism: setup.vertex.parallelism,
        target: setup.target,
        is_checkpointing: setup.is_checkpointing,
        signal: setup.signal,
        mailbox: setup.mailbox,
        gate: Gate::new(setup.inputs),
        alignment: Alignment::new(mode, n_channels as u32, true),
        valve: WatermarkValve::new(n_channels),
        aligned: VecDeque::new(),
        current: None,
        chain,
        outputs,
        head,
        uploads: Uploads::default(),
        counters: setup.counters,
        pace: pace::Pace::new(),
        ended: vec![None; n_channels],
        finish: Finish::Running,
    };
    let now = task.now();
    task.chain.open(now, &mut task.outputs)?;
    if let Head::Reader(reader) = &task.head {
        task.gate.send_feedback(reader.feedback());
    }
    Ok(Opened::Task(Box::new(task)))
}

fn outputs(setup: &mut TaskSetup) -> Result<Outputs, FailureInfo> {
    let mut edges = Vec::new();
    for (edge, senders) in std::mem::take(&mut setup.outputs) {
        let operator = setup
            .vertex
            .operators
            .iter()
            .position(|id| *id == edge.from_operator);
        let operator = operator.unwrap_or(setup.vertex.operators.len() - 1);
        let index = setup.target.task.subtask.index;
        edges.push(OutputEdge::new(
            &edge,
            &setup.plan,
            operator,
            index,
            setup.limits,
            senders,
        )?);
    }
    Ok(Outputs::new(edges))
}

/// Builds the chain from head to tail, with restored state.
async fn operators(setup: &TaskSetup) -> Result<(Vec<ChainOperator>, Head), FailureInfo> {
    let mut operators = Vec::new();
    let mut head = Head::Operator;
    for id in &setup.vertex.operators {
        let node = setup
            .graph
            .operator(*id)
            .expect("a plan's operators are those of its graph");
        let info = info(setup, *id);
        let built = factory::build(
            node,
            &info,
            setup.target.job,
            &setup.target.env,
            &setup.row_output,
        )?;
        let restored = restored(setup, &info).await?;
        let mut commits = None;
        let operator: Box<dyn millstream_operator::Operator> = match built {
            Built::Operator(operator) => operator,
            Built::Sink(sink) => {
                let checkpoint = setup.restore.as_ref().map(|restore| restore.checkpoint);
                let (env, signal) = (setup.target.env.clone(), setup.signal.clone());
                let (operator, status) = TwoPhaseOperator::new(sink, checkpoint, env, signal);
                commits = Some(status);
                Box::new(operator)
            }
            Built::Reader(reader, own_split) => {
                let checkpoint = setup.restore.as_ref().map(|restore| restore.checkpoint);
                let waker = setup.signal.waker();
                let name = info.name.clone();
                let own_split = own_split.filter(|_| !restored.is_restored);
                let restored = (restored.elements.as_slice(), checkpoint);
                let has_enumerator = !setup.inputs.is_empty();
                let opened =
                    ReaderHead::open(name, reader, waker, restored, own_split, has_enumerator)?;
                head = Head::Reader(Box::new(opened));
                Box::new(SourceHead)
            }
            Built::Enumerator(enumerator) => {
                let opened = open_enumerator(setup, &info, enumerator, &restored.elements)?;
                head = Head::Enumerator(Box::new(opened));
                Box::new(SourceHead)
            }
        };
        let backend = keyed(setup, &info, operator.as_ref()).await?;
        operators.push(ChainOperator {
            info,
            operator,
            backend,
            restored,
            commits,
        });
    }
    Ok((operators, head))
}

fn open_enumerator(
    setup: &TaskSetup,
    info: &OperatorInfo,
    enumerator: Arc<dyn millstream_operator::Enumerator>,
    elements: &[Bytes],
) -> Result<EnumeratorHead, FailureInfo> {
    let mut outputs = setup.plan.outputs_of(setup.vertex.id);
    let readers = outputs.next().and_then(|edge| setup.plan.vertex(edge.to));
    let readers = readers.map_or(1, |vertex| vertex.parallelism);
    let restored = setup
        .restore
        .as_ref()
        .map(|restore| (elements, restore.checkpoint));
    let (env, signal) = (&setup.target.env, &setup.signal);
    EnumeratorHead::open(
        info.name.clone(),
        enumerator,
        readers,
        restored,
        env,
        signal,
    )
}

fn info(setup: &TaskSetup, id: millstream_graph::OperatorId) -> OperatorInfo {
    let node = setup
        .graph
        .operator(id)
        .expect("a plan's operators are those of its graph");
    let inputs = setup.graph.inputs_of(id);
    OperatorInfo {
        uid: node.uid.clone(),
        name: node.name.clone(),
        subtask_index: setup.target.task.subtask.index,
        parallelism: setup.vertex.parallelism,
        max_parallelism: setup.vertex.max_parallelism,
        attempt: setup.target.task.attempt.0,
        epoch: setup.target.epoch,
        inputs: inputs
            .iter()
            .map(|edge| setup.graph.edge_schema(edge))
            .collect(),
        output: Arc::clone(&node.schema),
    }
}

fn restorer(setup: &TaskSetup) -> Result<Option<Restorer<'_>>, FailureInfo> {
    let Some(restore) = &setup.restore else {
        return Ok(None);
    };
    let store = setup.store.as_ref().ok_or_else(|| {
        let text = "the job restores from a checkpoint but names no checkpoint directory";
        FailureInfo::new(FailureKind::Restore, text)
    })?;
    Ok(Some(Restorer {
        env: &setup.target.env,
        store,
        restore,
        state_dir: setup.state_dir.clone(),
        stop: setup.stop.clone(),
    }))
}

async fn restored(setup: &TaskSetup, info: &OperatorInfo) -> Result<RestoredState, FailureInfo> {
    match restorer(setup)? {
        Some(restorer) => restorer.operator_state(&info.uid).await,
        None => Ok(RestoredState::default()),
    }
}

async fn keyed(
    setup: &TaskSetup,
    info: &OperatorInfo,
    operator: &dyn millstream_operator::Operator,
) -> Result<Option<Box<dyn KeyedStateBackend>>, FailureInfo> {
    let declared = operator.declare().keyed;
    if declared.is_empty() {
        return Ok(None);
    }
    let table = StateTable::declare(declared)
        .map_err(|error| failure::of_error(FailureKind::Deployment, &error))?;
    let max = info.max_parallelism;
    let range = KeyGroupRange::of_subtask(info.subtask_index, info.parallelism, max);
    let task = &setup.target;
    let name = format!(
        "{}-{}-{}-{}-{}",
        task.job, info.uid, info.subtask_index, task.epoch, task.task.attempt
    );
    let backend = setup
        .backends
        .create(&name, table, range, max, &setup.stop)?;
    match restorer(setup)? {
        Some(restorer) => restorer.keyed_state(&info.uid, backend).await.map(Some),
        None => Ok(Some(backend)),
    }
}

impl Task {
    /// Waits until every sink has committed what the restored checkpoint promised. Returns `false`
    /// if the task was cancelled meanwhile.
    async fn catch_up(&mut self, stop: &StopSignal) -> Result<bool, FailureInfo> {
        while !self.chain.may_write() {
            if stop.is_cancelled() {
                return Ok(false);
            }
            let deadline = self.chain.deadline();
            tokio::select! {
                biased;
                () = stop.cancelled() => return Ok(false),
                () = self.wait(deadline) => {}
            }
            let now = self.now();
            self.chain.wake(now);
            self.chain.run(now, &mut self.outputs, false)?;
        }
        Ok(!stop.is_cancelled())
    }
}
