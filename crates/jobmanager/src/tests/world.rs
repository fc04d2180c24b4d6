//! A cluster to test against: taskmanagers that do as told, a store, time that jumps.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use arrow::datatypes::{DataType, Field, Schema};
use async_trait::async_trait;
use bytes::Bytes;
use millstream_config::{HeartbeatConfig, Layer, Resolved, StorageLocation, Target};
use millstream_coordination::checkpoint::DeclineReason;
use millstream_coordination::failure::{FailureInfo, FailureKind};
use millstream_coordination::job::{ExecutionState, JobStatus, ReportedTask};
use millstream_coordination::protocol::{
    DataAddress, DeclineMessage, DeploySubtask, FromTaskmanager, JobTasks, OutputLines,
    Registration, SnapshotMessage, TaskAddress, TaskReport, TaskmanagerHeartbeat, ToTaskmanager,
};
use millstream_coordination::snapshot_types::{
    CheckpointMetrics, OperatorSubtaskState, TaskSnapshot,
};
use millstream_env::fs::MemoryFs;
use millstream_env::{Clock, Env, EnvParts};
use millstream_graph::{
    AggregateColumn, AggregateFunction, Edge, Emit, GeneratorSource, JobGraph, OperatorId,
    OperatorKind, OperatorNode, OutputPort, Partitioning, Plan, Setting,
};
use millstream_snapshot::{OpenError, StorageConfig, Store};
use millstream_types::{
    CheckpointId, Epoch, Incarnation, JobId, MaxParallelism, OperatorUid, StateHandle, SubtaskId,
    TaskmanagerId, WallTime,
};
use parking_lot::Mutex;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use crate::*;

/// What all taskmanagers share: how they behave, and what they saw.
#[derive(Default)]
pub(super) struct Behaviour {
    /// These never acknowledge.
    pub(super) silent: BTreeSet<SubtaskId>,
    /// Every snapshot is declined.
    pub(super) declines: bool,
    /// The task of this subtask fails in the synchronous part of every snapshot.
    pub(super) throws: Option<SubtaskId>,
    /// Tasks do not stop.
    pub(super) stuck: bool,
    /// Tasks come to the end of their data at once.
    pub(super) bounded: bool,
    /// Every task that was deployed, in order.
    pub(super) deployed: Vec<(TaskmanagerId, DeploySubtask)>,
    /// Checkpoints that somebody was told are complete.
    pub(super) completed: BTreeSet<CheckpointId>,
    /// Every checkpoint that was triggered, with its epoch.
    pub(super) triggered: Vec<(Epoch, CheckpointId)>,
    barriers: Vec<mpsc::UnboundedSender<(JobId, Epoch, CheckpointId)>>,
}

pub(super) struct World {
    pub(super) env: Env,
    /// The files of [`World::on_disk`].
    pub(super) fs: MemoryFs,
    pub(super) store: Store,
    /// Where checkpoints go, if not beside the jobs.
    pub(super) checkpoints: Option<Store>,
    pub(super) codec: Arc<Codec>,
    pub(super) behaviour: Arc<Mutex<Behaviour>>,
    pub(super) slot_timeout: Duration,
}

impl World {
    pub(super) async fn new() -> Self {
        Self::at("memory://").await
    }

    /// With its storage in a directory.
    pub(super) async fn on_disk() -> Self {
        Self::at("/store").await
    }

    /// The store in a directory of the same disk.
    pub(super) async fn store_at(&self, dir: &str) -> Store {
        let config = StorageConfig::at(dir);
        millstream_snapshot::open(&config, &self.env).await.unwrap()
    }

    async fn at(location: &str) -> Self {
        let test = Env::for_test(7);
        let (fs, test) = (test.fs, test.env);
        let env = Env::from_parts(EnvParts {
            clock: Clock::simulated(WallTime(1_700_000_000_000)),
            rng: test.rng().clone(),
            net: test.net().clone(),
            fs: test.fs().clone(),
            spawner: test.spawner().clone(),
            exit: test.exit().clone(),
        });
        let config = StorageConfig::at(location);
        let store = millstream_snapshot::open(&config, &env).await.unwrap();
        Self {
            env,
            fs,
            store,
            checkpoints: None,
            codec: Arc::default(),
            behaviour: Arc::default(),
            slot_timeout: Duration::from_secs(20),
        }
    }

    pub(super) async fn jobmanager(&self) -> Jobmanager {
        let flags = Layer::flags([], Target::Daemon).unwrap();
        let settings = JobmanagerSettings {
            cluster_id: "test".to_owned(),
            heartbeat: HeartbeatConfig {
                interval: Duration::from_secs(2),
                timeout: Duration::from_secs(10),
            },
            slot_request_timeout: self.slot_timeout,
            cluster: Resolved::new([flags]),
            storage: Storage {
                jobs: self.store.clone(),
                is_durable: true,
                checkpoints: self.checkpoints.clone().or(Some(self.store.clone())),
                opener: Arc::new(NoOpener),
            },
            graphs: self.codec.clone(),
        };
        Jobmanager::start(&self.env, settings).await.unwrap()
    }

    /// A taskmanager with this many slots.
    pub(super) fn taskmanager(&self, jobmanager: &Jobmanager, name: &str, slots: u32) -> Fake {
        let stop = CancellationToken::new();
        let (barriers, barrier_receiver) = mpsc::unbounded_channel();
        self.behaviour.lock().barriers.push(barriers);
        let fake = FakeTask {
            id: TaskmanagerId::new(name).unwrap(),
            behaviour: self.behaviour.clone(),
            tasks: BTreeMap::new(),
            acknowledged: BTreeSet::new(),
        };
        let incarnation = self.env.rng().incarnation();
        let registration = registration(name, incarnation, slots);
        let run = fake.run(
            jobmanager.clone(),
            registration,
            barrier_receiver,
            stop.clone(),
        );
        self.env.spawner().supervise(format!("fake {name}"), run);
        Fake { stop }
    }

    pub(super) async fn submit(&self, jobmanager: &Jobmanager, graph: JobGraph) -> JobId {
        let submission = Submission {
            client_id: None,
            graph,
        };
        jobmanager.submit(submission).await.unwrap().job
    }

    /// Waits, for five minutes of virtual time at most.
    pub(super) async fn until(&self, what: &str, mut is_so: impl AsyncFnMut() -> bool) {
        for _ in 0..6_000 {
            if is_so().await {
                return;
            }
            self.env.clock().sleep(Duration::from_millis(50)).await;
        }
        panic!("not within 5 min: {what}");
    }

    pub(super) async fn until_status(&self, jm: &Jobmanager, job: JobId, status: JobStatus) {
        self.until(&format!("{job} is {status}"), async || {
            let details = jm.job(job).await;
            details.is_some_and(|details| details.overview.status == status)
        })
        .await;
    }

    pub(super) async fn until_all_running(&self, jm: &Jobmanager, job: JobId, n_tasks: usize) {
        self.until("all tasks run", async || {
            let details = jm.job(job).await.unwrap();
            details.overview.tasks.get(&ExecutionState::Running) == Some(&n_tasks)
        })
        .await;
    }

    /// The newest completed checkpoint that is at least this many later than `after`.
    pub(super) async fn until_checkpoint(
        &self,
        jm: &Jobmanager,
        job: JobId,
        after: CheckpointId,
    ) -> CheckpointId {
        let mut newest = after;
        self.until("a checkpoint completes", async || {
            let checkpoints = jm.checkpoints(job).await.unwrap();
            let completed = checkpoints.history.latest_completed();
            newest = completed.and_then(|record| record.id).unwrap_or(after);
            newest > after
        })
        .await;
        newest
    }
}

/// Kills its taskmanager when told; the connection ends with it.
pub(super) struct Fake {
    stop: CancellationToken,
}

impl Fake {
    pub(super) fn kill(&self) {
        self.stop.cancel();
    }
}

pub(super) fn registration(name: &str, incarnation: Incarnation, slots: u32) -> Registration {
    Registration {
        id: TaskmanagerId::new(name).unwrap(),
        incarnation,
        slots,
        advertised_host: format!("{name}.example"),
        host: format!("{name}.example"),
        pid: 1,
        version: "0.1.0".to_owned(),
    }
}

struct Deployed {
    deploy: DeploySubtask,
    operators: Vec<OperatorUid>,
    state: ExecutionState,
}

struct FakeTask {
    id: TaskmanagerId,
    behaviour: Arc<Mutex<Behaviour>>,
    tasks: BTreeMap<(JobId, SubtaskId), Deployed>,
    acknowledged: BTreeSet<(JobId, Epoch, CheckpointId)>,
}

impl FakeTask {
    async fn run(
        mut self,
        jobmanager: Jobmanager,
        registration: Registration,
        mut barriers: mpsc::UnboundedReceiver<(JobId, Epoch, CheckpointId)>,
        stop: CancellationToken,
    ) {
        let (outgoing, mut incoming) = mpsc::channel(8);
        let mut session = jobmanager.connect_taskmanager(outgoing);
        let register = FromTaskmanager::Register(registration);
        if session.receive(register).await.is_err() {
            return;
        }
        let mut graphs = BTreeMap::new();
        loop {
            let answers = tokio::select! {
                () = stop.cancelled() => return,
                barrier = barriers.recv() => {
                    let (job, epoch, checkpoint) = barrier.unwrap();
                    self.snapshot(job, epoch, checkpoint)
                }
                message = incoming.recv() => match message {
                    Some(message) => self.on_message(message, &mut graphs),
                    None => return,
                },
            };
            for answer in answers {
                if session.receive(answer).await.is_err() {
                    return;
                }
            }
        }
    }

    fn on_message(
        &mut self,
        message: ToTaskmanager,
        graphs: &mut BTreeMap<JobId, (Arc<JobGraph>, bool)>,
    ) -> Vec<FromTaskmanager> {
        match message {
            ToTaskmanager::Registered(_) | ToTaskmanager::RegistrationRefused(_) => vec![],
            ToTaskmanager::Heartbeat => vec![self.heartbeat()],
            ToTaskmanager::StartJobProcess(start) => {
                graphs.insert(start.job, (start.graph, start.chaining));
                vec![FromTaskmanager::JobProcessStarted {
                    job: start.job,
                    epoch: start.epoch,
                    address: DataAddress {
                        host: format!("{}.example", self.id),
                        port: 7000,
                    },
                }]
            }
            ToTaskmanager::Deploy(deploy) => {
                let (graph, chaining) = &graphs[&deploy.job];
                let plan = Plan::new(graph, *chaining);
                let vertex = plan.vertex(deploy.subtask.vertex).unwrap();
                let ids = vertex.operators.iter();
                let operators = ids.map(|id| graph.operator(*id).unwrap().uid.clone());
                self.deploy(*deploy, operators.collect())
            }
            ToTaskmanager::TriggerCheckpoint {
                job,
                epoch,
                checkpoint,
                ..
            } => {
                self.on_trigger(job, epoch, checkpoint);
                vec![]
            }
            ToTaskmanager::NotifyCompleted {
                job, checkpoint, ..
            } => {
                self.behaviour.lock().completed.insert(checkpoint);
                let is_bounded = self.behaviour.lock().bounded;
                let finished = is_bounded.then(|| self.set_all(job, ExecutionState::Finished));
                finished.unwrap_or_default()
            }
            ToTaskmanager::NotifyAborted {
                job,
                epoch,
                subtasks,
                checkpoint,
                ..
            } => subtasks
                .into_iter()
                .map(|task| FromTaskmanager::UploadStopped {
                    job,
                    epoch,
                    subtask: task.subtask,
                    checkpoint,
                    objects: Vec::new(),
                })
                .collect(),
            ToTaskmanager::Cancel { job, subtasks, .. } => self.on_cancel(job, subtasks),
            ToTaskmanager::Abandon { slots, .. } => slots
                .into_iter()
                .map(|slot| FromTaskmanager::SlotFreed { slot })
                .collect(),
            ToTaskmanager::ReleaseJob { job, epoch } => {
                let is_kept = |of: &JobId, task: &Deployed| *of != job || task.deploy.epoch > epoch;
                self.tasks.retain(|(of, _), task| is_kept(of, task));
                vec![]
            }
        }
    }

    /// The barrier reaches every task of the job, wherever it is.
    fn on_trigger(&self, job: JobId, epoch: Epoch, checkpoint: CheckpointId) {
        let mut behaviour = self.behaviour.lock();
        behaviour.triggered.push((epoch, checkpoint));
        behaviour
            .barriers
            .retain(|barrier| barrier.send((job, epoch, checkpoint)).is_ok());
    }

    fn on_cancel(&mut self, job: JobId, tasks: Vec<TaskAddress>) -> Vec<FromTaskmanager> {
        if self.behaviour.lock().stuck {
            return vec![];
        }
        let states = tasks
            .into_iter()
            .map(|task| self.set(job, task.subtask, ExecutionState::Canceled));
        states.flatten().collect()
    }

    fn deploy(
        &mut self,
        deploy: DeploySubtask,
        operators: Vec<OperatorUid>,
    ) -> Vec<FromTaskmanager> {
        let (job, subtask) = (deploy.job, deploy.subtask);
        let (epoch, attempt) = (deploy.epoch, deploy.attempt);
        let is_bounded = {
            let mut behaviour = self.behaviour.lock();
            behaviour.deployed.push((self.id.clone(), deploy.clone()));
            behaviour.bounded
        };
        let task = Deployed {
            deploy,
            operators,
            state: ExecutionState::Deploying,
        };
        self.tasks.insert((job, subtask), task);
        let mut messages = self.set(job, subtask, ExecutionState::Initializing);
        messages.extend(self.set(job, subtask, ExecutionState::Running));
        messages.push(FromTaskmanager::Output(OutputLines {
            job,
            epoch,
            subtask,
            lines: vec![format!("{subtask:?} of {epoch:?}")],
            dropped: 0,
        }));
        if is_bounded {
            messages.push(FromTaskmanager::EndOfData {
                job,
                epoch,
                subtask,
                attempt,
            });
        }
        messages
    }

    fn snapshot(&mut self, job: JobId, epoch: Epoch, id: CheckpointId) -> Vec<FromTaskmanager> {
        if !self.acknowledged.insert((job, epoch, id)) {
            return vec![];
        }
        let throws = self.behaviour.lock().throws;
        let mut failed = Vec::new();
        if let Some(subtask) = throws {
            failed = self.set(job, subtask, ExecutionState::Failed);
            let mut failure = FailureInfo::new(FailureKind::SynchronousSnapshot, "no room");
            failure.operator = Some("lines".to_owned());
            for message in &mut failed {
                if let FromTaskmanager::SubtaskState { failure: why, .. } = message {
                    *why = Some(failure.clone());
                }
            }
        }
        let behaviour = self.behaviour.lock();
        let tasks = self.tasks.iter().filter(|((of, subtask), task)| {
            let is_silent = behaviour.silent.contains(subtask) || throws == Some(*subtask);
            *of == job && task.deploy.epoch == epoch && !is_silent
        });
        let answers = tasks.map(|((_, subtask), task)| {
            let address = TaskAddress {
                subtask: *subtask,
                attempt: task.deploy.attempt,
            };
            if behaviour.declines {
                return FromTaskmanager::Decline(Box::new(DeclineMessage {
                    job,
                    epoch,
                    task: address,
                    checkpoint: id,
                    reason: DeclineReason::AsyncException,
                    message: "the bucket is full".to_owned(),
                }));
            }
            FromTaskmanager::Acknowledge(Box::new(snapshot(
                (job, epoch, id),
                address,
                &task.operators,
            )))
        });
        failed.into_iter().chain(answers).collect()
    }

    fn set_all(&mut self, job: JobId, state: ExecutionState) -> Vec<FromTaskmanager> {
        let tasks = self.tasks.keys().filter(|(of, _)| *of == job);
        let subtasks: Vec<SubtaskId> = tasks.map(|(_, subtask)| *subtask).collect();
        let states = subtasks.into_iter().map(|s| self.set(job, s, state));
        states.flatten().collect()
    }

    fn set(
        &mut self,
        job: JobId,
        subtask: SubtaskId,
        state: ExecutionState,
    ) -> Vec<FromTaskmanager> {
        let Some(task) = self.tasks.get_mut(&(job, subtask)) else {
            return vec![];
        };
        if task.state.is_terminal() {
            return vec![];
        }
        task.state = state;
        vec![FromTaskmanager::SubtaskState {
            job,
            epoch: task.deploy.epoch,
            subtask,
            attempt: task.deploy.attempt,
            state,
            failure: None,
        }]
    }

    fn heartbeat(&self) -> FromTaskmanager {
        let mut jobs: BTreeMap<JobId, Vec<TaskReport>> = BTreeMap::new();
        for ((job, subtask), task) in &self.tasks {
            let task = ReportedTask {
                epoch: task.deploy.epoch,
                subtask: *subtask,
                attempt: task.deploy.attempt,
                state: task.state,
            };
            let activity = Some("in one user call for 57 s".to_owned());
            let tasks = jobs.entry(*job).or_default();
            tasks.push(TaskReport { task, activity });
        }
        let jobs = jobs.into_iter().map(|(job, tasks)| JobTasks { job, tasks });
        FromTaskmanager::Heartbeat(TaskmanagerHeartbeat {
            slots: Vec::new(),
            jobs: jobs.collect(),
        })
    }
}

/// A snapshot with one inline handle per operator.
pub(super) fn snapshot(
    (job, epoch, checkpoint): (JobId, Epoch, CheckpointId),
    task: TaskAddress,
    operators: &[OperatorUid],
) -> SnapshotMessage {
    let state = || OperatorSubtaskState {
        operator: vec![StateHandle::Inline(Arc::from(b"state".as_slice()))],
        ..OperatorSubtaskState::default()
    };
    SnapshotMessage {
        job,
        epoch,
        task,
        checkpoint,
        snapshot: TaskSnapshot {
            operators: operators.iter().map(|uid| (uid.clone(), state())).collect(),
        },
        metrics: CheckpointMetrics::default(),
    }
}

/// Generator (1) -> keyed count (2) -> print (2): three tasks, two slots.
pub(super) fn word_count(settings: &[(&str, &str)]) -> JobGraph {
    let schema = Arc::new(Schema::new(vec![Field::new("word", DataType::Utf8, true)]));
    let node = |uid: &str, kind: OperatorKind, parallelism: u32| OperatorNode {
        uid: OperatorUid::new(uid).unwrap(),
        uid_generated: false,
        name: uid.to_owned(),
        kind,
        parallelism,
        max_parallelism: MaxParallelism::new(128).unwrap(),
        max_parallelism_explicit: false,
        slot_sharing_group: "default".to_owned(),
        chain_with_input: true,
        schema: schema.clone(),
    };
    let edge = |from, to, partitioning| Edge {
        from: OperatorId(from),
        port: OutputPort::Main,
        to: OperatorId(to),
        input: 0,
        partitioning,
    };
    let generator = OperatorKind::Generator(GeneratorSource {
        rows: None,
        rate: None,
        seed: 0,
        columns: vec![],
    });
    let count = OperatorKind::Aggregate {
        keys: vec![0],
        aggregates: vec![AggregateColumn {
            name: "count".to_owned(),
            function: AggregateFunction::Count,
            argument: None,
            input_type: None,
            output_type: DataType::Int64,
        }],
        emit: Emit::Each,
    };
    JobGraph {
        name: "word-count".to_owned(),
        operators: vec![
            node("lines", generator, 1),
            node("counts", count, 2),
            node("out", OperatorKind::Print { label: None }, 2),
        ],
        edges: vec![
            edge(0, 1, Partitioning::Hash { columns: vec![0] }),
            edge(1, 2, Partitioning::Forward),
        ],
        settings: settings
            .iter()
            .map(|(key, value)| Setting {
                key: (*key).to_owned(),
                value: (*value).to_owned(),
                origin: "job".to_owned(),
            })
            .collect(),
    }
}

pub(super) const N_TASKS: usize = 3;

/// Checkpoints each second, restarts after a second for ever.
pub(super) const CHECKPOINTED: &[(&str, &str)] = &[
    ("checkpointing.interval", "1 s"),
    ("restart-strategy.type", "fixed-delay"),
    ("restart-strategy.fixed-delay.attempts", "100"),
    ("restart-strategy.fixed-delay.delay", "1 s"),
];

/// Knows the graphs it saw by their number.
#[derive(Default)]
pub(super) struct Codec {
    graphs: Mutex<Vec<JobGraph>>,
}

impl GraphCodec for Codec {
    fn encode(&self, graph: &JobGraph) -> Result<Bytes, GraphCodecError> {
        let mut graphs = self.graphs.lock();
        let known = graphs.iter().position(|known| known == graph);
        let number = known.unwrap_or_else(|| {
            graphs.push(graph.clone());
            graphs.len() - 1
        });
        Ok(Bytes::from(vec![number as u8]))
    }

    fn decode(&self, bytes: &[u8]) -> Result<JobGraph, GraphCodecError> {
        let graphs = self.graphs.lock();
        let graph = bytes.first().and_then(|n| graphs.get(usize::from(*n)));
        graph.cloned().ok_or_else(|| GraphCodecError {
            what: "no such number".to_owned(),
        })
    }
}

struct NoOpener;

#[async_trait]
impl StorageOpener for NoOpener {
    async fn open(&self, location: &StorageLocation) -> Result<Store, OpenError> {
        Err(OpenError::Location {
            found: location.to_string(),
            reason: "these tests have one store",
        })
    }
}
