//! A scripted jobmanager around one [`JobProcess`].

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use millstream_coordination::checkpoint::CheckpointKind;
use millstream_coordination::failure::FailureInfo;
use millstream_coordination::job::ExecutionState;
use millstream_coordination::protocol::{
    ChannelEndpoint, ChannelPeer, ChannelToken, DeploySubtask, FromTaskmanager, StartJobProcess,
    TaskAddress, ToTaskmanager,
};
use millstream_coordination::restore::RestoreSubtask;
use millstream_coordination::snapshot_types::TaskSnapshot;
use millstream_env::Env;
use millstream_graph::{
    AggregateColumn, AggregateFunction, Edge, Emit, FileSink, GeneratorColumn, GeneratorSource,
    GeneratorValue, JobGraph, OperatorId, OperatorKind, OperatorNode, OutputPort, Partitioning,
    Plan, Setting, SinkFormat,
};
use millstream_snapshot::{StorageConfig, Store};
use millstream_types::{
    Attempt, CheckpointId, Epoch, Incarnation, JobId, MaxParallelism, OperatorUid, SlotIndex,
    SubtaskId, TaskmanagerId,
};
use tokio::sync::mpsc;

use crate::{JobProcess, JobProcessSettings, Uplink};

const PATIENCE: Duration = Duration::from_secs(60);

struct Up(mpsc::UnboundedSender<FromTaskmanager>);

impl Uplink for Up {
    fn send(&self, message: FromTaskmanager) {
        // The script may be over.
        let _ = self.0.send(message);
    }
}

/// How a job ended.
#[derive(Debug)]
pub(super) struct End {
    pub(super) states: BTreeMap<SubtaskId, ExecutionState>,
    pub(super) failure: Option<FailureInfo>,
    pub(super) lines: Vec<String>,
}

/// One epoch of one job.
pub(super) struct Script {
    env: Env,
    process: JobProcess,
    plan: Plan,
    epoch: Epoch,
    messages: mpsc::UnboundedReceiver<FromTaskmanager>,
    states: BTreeMap<SubtaskId, ExecutionState>,
    at_end: BTreeSet<SubtaskId>,
    failure: Option<FailureInfo>,
    lines: Vec<String>,
    acknowledged: BTreeMap<CheckpointId, BTreeMap<SubtaskId, TaskSnapshot>>,
    /// Uploads that were given up.
    stopped: BTreeMap<CheckpointId, BTreeSet<SubtaskId>>,
}

pub(super) fn job_id() -> JobId {
    JobId::from_bytes([7; 16])
}

pub(super) async fn store(env: &Env, dir: &Path) -> Store {
    let config = StorageConfig::at(dir.join("checkpoints").display().to_string());
    millstream_snapshot::open(&config, env)
        .await
        .unwrap()
        .job(job_id())
}

impl Script {
    /// Starts the job and waits until every task runs or one has ended.
    pub(super) async fn start(
        env: &Env,
        dir: &Path,
        graph: &JobGraph,
        epoch: u64,
        restore: Option<(CheckpointId, &BTreeMap<SubtaskId, TaskSnapshot>)>,
    ) -> Self {
        let restore = restore.map(|(checkpoint, snapshots)| {
            let own = |snapshot: &TaskSnapshot| RestoreSubtask {
                checkpoint,
                operators: snapshot.operators.clone(),
            };
            let all = snapshots.iter();
            all.map(|(subtask, snapshot)| (*subtask, own(snapshot)))
                .collect()
        });
        let store = store(env, dir).await;
        Self::start_on(store, env, dir, graph, epoch, restore).await
    }

    /// The same on this store, each subtask from what is planned for it.
    pub(super) async fn start_on(
        store: Store,
        env: &Env,
        dir: &Path,
        graph: &JobGraph,
        epoch: u64,
        restore: Option<BTreeMap<SubtaskId, RestoreSubtask>>,
    ) -> Self {
        graph.validate().unwrap();
        let (sender, messages) = mpsc::unbounded_channel();
        let start = StartJobProcess {
            job: job_id(),
            epoch: Epoch(epoch),
            graph: Arc::new(graph.clone()),
            chaining: true,
        };
        let settings = JobProcessSettings {
            channel_window_bytes: 256 * 1024,
            managed_bytes_per_slot: 64 << 20,
            state_dir: dir.join("state"),
        };
        let process = JobProcess::new(
            env.clone(),
            settings,
            &start,
            Some(store),
            Arc::new(Up(sender)),
            None,
        );
        let mut script = Self {
            env: env.clone(),
            process: process.unwrap(),
            plan: Plan::new(graph, true),
            epoch: Epoch(epoch),
            messages,
            states: BTreeMap::new(),
            at_end: BTreeSet::new(),
            failure: None,
            lines: Vec::new(),
            acknowledged: BTreeMap::new(),
            stopped: BTreeMap::new(),
        };
        script.deploy(restore.as_ref());
        let all = script.plan.subtasks().count();
        script
            .until(|s| {
                let begun = |state: &ExecutionState| *state >= ExecutionState::Running;
                s.states.len() == all && s.states.values().all(begun)
            })
            .await;
        script
    }

    fn deploy(&mut self, restore: Option<&BTreeMap<SubtaskId, RestoreSubtask>>) {
        let plan = self.plan.clone();
        for subtask in plan.subtasks() {
            let inputs = plan.input_channels(subtask).into_iter();
            let outputs = plan
                .outputs_of(subtask.vertex)
                .flat_map(|edge| plan.output_channels(edge, subtask.index));
            let endpoint = |channel| ChannelEndpoint {
                channel,
                peer: ChannelPeer {
                    task: TaskAddress {
                        subtask,
                        attempt: Attempt(0),
                    },
                    taskmanager: TaskmanagerId::new("tm").unwrap(),
                    incarnation: Incarnation(1),
                    address: None,
                },
                token: ChannelToken(1),
            };
            let deploy = DeploySubtask {
                job: job_id(),
                epoch: self.epoch,
                subtask,
                attempt: Attempt(self.epoch.0 as u32),
                vertex_name: String::new(),
                slot: SlotIndex(0),
                inputs: inputs.map(endpoint).collect(),
                outputs: outputs.map(endpoint).collect(),
                restore: restore.map(|planned| planned[&subtask].clone()),
            };
            self.process.handle(ToTaskmanager::Deploy(Box::new(deploy)));
        }
    }

    /// Takes messages in until this holds.
    pub(super) async fn until(&mut self, holds: impl Fn(&Self) -> bool) {
        let clock = self.env.clock().clone();
        let done = clock.timeout(PATIENCE, async {
            while !holds(self) {
                let message = self.messages.recv().await.unwrap();
                self.take(message);
            }
        });
        assert!(
            done.await.is_ok(),
            "not within {PATIENCE:?}: {:?}",
            self.process.reports()
        );
    }

    fn take(&mut self, message: FromTaskmanager) {
        match message {
            FromTaskmanager::SubtaskState {
                subtask,
                state,
                failure,
                ..
            } => {
                self.states.insert(subtask, state);
                self.failure = self.failure.take().or(failure);
            }
            FromTaskmanager::Acknowledge(ack) => {
                let snapshots = self.acknowledged.entry(ack.checkpoint).or_default();
                snapshots.insert(ack.task.subtask, ack.snapshot);
            }
            FromTaskmanager::UploadStopped {
                subtask,
                checkpoint,
                ..
            } => {
                self.stopped.entry(checkpoint).or_default().insert(subtask);
            }
            FromTaskmanager::EndOfData { subtask, .. } => {
                self.at_end.insert(subtask);
            }
            FromTaskmanager::Output(output) => self.lines.extend(output.lines),
            FromTaskmanager::Metrics(_) => {}
            other => panic!("unexpected: {other:?}"),
        }
    }

    fn addresses(&self) -> Vec<TaskAddress> {
        let attempt = Attempt(self.epoch.0 as u32);
        self.plan
            .subtasks()
            .map(|subtask| TaskAddress { subtask, attempt })
            .collect()
    }

    /// Triggers a checkpoint at the sources that run and waits for the acknowledgement of every task
    /// that does.
    pub(super) async fn checkpoint(&mut self, id: u64) -> BTreeMap<SubtaskId, TaskSnapshot> {
        let checkpoint = CheckpointId(id);
        self.trigger(id);
        let all = self.plan.subtasks().count() - self.n_finished();
        self.until(|s| {
            s.acknowledged
                .get(&checkpoint)
                .is_some_and(|acks| acks.len() == all)
        })
        .await;
        self.acknowledged[&checkpoint].clone()
    }

    /// Triggers a checkpoint at the sources that run.
    pub(super) fn trigger(&mut self, id: u64) {
        let checkpoint = CheckpointId(id);
        let is_source = |address: &TaskAddress| {
            let state = self.states.get(&address.subtask);
            state != Some(&ExecutionState::Finished)
                && self.plan.inputs_of(address.subtask.vertex).is_empty()
        };
        let sources = self.addresses().into_iter().filter(is_source).collect();
        self.process.handle(ToTaskmanager::TriggerCheckpoint {
            job: job_id(),
            epoch: self.epoch,
            subtasks: sources,
            checkpoint,
            triggered_at: self.env.clock().wall(),
            kind: CheckpointKind::Periodic,
            completed: None,
        });
    }

    /// Says that a checkpoint will not be.
    pub(super) fn abort(&mut self, id: u64) {
        self.process.handle(ToTaskmanager::NotifyAborted {
            job: job_id(),
            epoch: self.epoch,
            subtasks: self.addresses(),
            checkpoint: CheckpointId(id),
            latest_completed: None,
        });
    }

    /// Waits until these many tasks have given up their uploads for a checkpoint.
    pub(super) async fn uploads_stopped(&mut self, id: u64, n_tasks: usize) {
        let of = |s: &Self| s.stopped.get(&CheckpointId(id)).map_or(0, BTreeSet::len);
        self.until(|s| of(s) == n_tasks).await;
    }

    /// Tasks that have acknowledged a checkpoint.
    pub(super) fn n_acknowledged(&self, id: u64) -> usize {
        let acknowledged = self.acknowledged.get(&CheckpointId(id));
        acknowledged.map_or(0, BTreeMap::len)
    }

    /// Tasks that ran to their end.
    pub(super) fn n_finished(&self) -> usize {
        let states = self.states.values();
        states.filter(|s| **s == ExecutionState::Finished).count()
    }

    /// Says that a checkpoint is complete.
    pub(super) fn complete(&mut self, id: u64) {
        self.process.handle(ToTaskmanager::NotifyCompleted {
            job: job_id(),
            epoch: self.epoch,
            subtasks: self.addresses(),
            checkpoint: CheckpointId(id),
        });
    }

    /// Waits until every task is at the end of its data, or ended before.
    pub(super) async fn end_of_data(&mut self) {
        let all: Vec<_> = self.plan.subtasks().collect();
        let is_there = |s: &Self, subtask: &SubtaskId| {
            s.at_end.contains(subtask) || s.states[subtask] == ExecutionState::Finished
        };
        self.until(|s| all.iter().all(|subtask| is_there(s, subtask)))
            .await;
    }

    /// Waits until a task fails, and says why it did.
    pub(super) async fn failed(&mut self) -> FailureInfo {
        self.until(|s| s.failure.is_some()).await;
        self.failure.clone().unwrap()
    }

    pub(super) fn cancel(&mut self) {
        self.process.cancel_all();
    }

    /// Waits until every task has ended.
    pub(super) async fn end(mut self) -> End {
        let all = self.plan.subtasks().count();
        self.until(|s| {
            let over = |state: &ExecutionState| state.is_terminal();
            s.states.len() == all && s.states.values().all(over)
        })
        .await;
        End {
            states: self.states,
            failure: self.failure,
            lines: self.lines,
        }
    }

    pub(super) fn metrics_in_and_out(&self) -> Vec<(u64, u64)> {
        self.process
            .metrics()
            .iter()
            .map(|m| (m.records_in, m.records_out))
            .collect()
    }
}

pub(super) fn schema(fields: &[(&str, DataType)]) -> SchemaRef {
    let field = |(name, data_type): &(&str, DataType)| Field::new(*name, data_type.clone(), true);
    Arc::new(Schema::new(fields.iter().map(field).collect::<Vec<_>>()))
}

/// Operators in a row, each with its schema, joined as given.
pub(super) fn line(
    nodes: Vec<(&str, OperatorKind, SchemaRef)>,
    edges: &[Partitioning],
    parallelism: u32,
    settings: &[(&str, &str)],
) -> JobGraph {
    let operators = nodes.into_iter().map(|(uid, kind, schema)| OperatorNode {
        uid: OperatorUid::new(uid).unwrap(),
        uid_generated: false,
        name: uid.to_owned(),
        kind,
        parallelism,
        max_parallelism: MaxParallelism::new(128).unwrap(),
        max_parallelism_explicit: false,
        slot_sharing_group: "default".to_owned(),
        chain_with_input: true,
        schema,
    });
    let edge = |(from, partitioning): (usize, &Partitioning)| Edge {
        from: OperatorId(from as u32),
        port: OutputPort::Main,
        to: OperatorId(from as u32 + 1),
        input: 0,
        partitioning: partitioning.clone(),
    };
    let setting = |(key, value): &(&str, &str)| Setting {
        key: (*key).to_owned(),
        value: (*value).to_owned(),
        origin: "job".to_owned(),
    };
    JobGraph {
        name: "test".to_owned(),
        operators: operators.collect(),
        edges: edges.iter().enumerate().map(edge).collect(),
        settings: settings.iter().map(setting).collect(),
    }
}

/// Rows (key, n): `n` counts the rows of each of `keys` keys from 1.
pub(super) fn generator(rows: u64, keys: u64, rate: Option<f64>) -> (OperatorKind, SchemaRef) {
    let column = |name: &str, value| GeneratorColumn {
        name: name.to_owned(),
        value,
    };
    let source = GeneratorSource {
        rows: Some(rows),
        rate,
        seed: 1,
        columns: vec![
            column("key", GeneratorValue::RoundRobinKey { keys }),
            column("n", GeneratorValue::RoundRobinSequence { keys }),
        ],
    };
    let schema = schema(&[("key", DataType::Int64), ("n", DataType::Int64)]);
    (OperatorKind::Generator(source), schema)
}

/// Running count and sum of n per key.
pub(super) fn sums(emit: Emit) -> (OperatorKind, SchemaRef) {
    let column = |name: &str, function, argument: Option<&str>| AggregateColumn {
        name: name.to_owned(),
        function,
        argument: argument.map(str::to_owned),
        input_type: argument.map(|_| DataType::Int64),
        output_type: DataType::Int64,
    };
    let aggregates = vec![
        column("n", AggregateFunction::Count, None),
        column("sum", AggregateFunction::Sum, Some("n")),
    ];
    let kind = OperatorKind::Aggregate {
        keys: vec![0],
        aggregates,
        emit,
    };
    let bigint = DataType::Int64;
    (
        kind,
        schema(&[
            ("key", bigint.clone()),
            ("n", bigint.clone()),
            ("sum", bigint),
        ]),
    )
}

/// A sink of JSON lines.
pub(super) fn file_sink(dir: &Path) -> OperatorKind {
    OperatorKind::FileSink(FileSink {
        path: dir.join("out").display().to_string(),
        format: SinkFormat::Csv { delimiter: b',' },
        roll_bytes: 1 << 20,
    })
}

/// The rows of all committed files.
pub(super) fn committed(env: &Env, dir: &Path) -> Vec<String> {
    let fs = env.fs();
    let out = dir.join("out");
    let mut rows = Vec::new();
    for entry in fs.list(&out).unwrap_or_default() {
        let name = entry.name.to_string_lossy().into_owned();
        if name.starts_with('.') {
            continue;
        }
        let bytes = fs.read(&out.join(&name), 64 << 20).unwrap();
        let text = String::from_utf8(bytes).unwrap();
        rows.extend(text.lines().skip(1).map(str::to_owned));
    }
    rows.sort();
    rows
}
