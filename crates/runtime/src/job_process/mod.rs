//! All tasks of one job on one taskmanager, in one epoch.
//!
//! The same code hosts tasks in a process of their own and, in embedded mode, in threads of the
//! taskmanager: what differs is who calls [`JobProcess::handle`] and where the [`Uplink`] leads.

pub(crate) mod backend;
mod deploy;
#[cfg(feature = "rocksdb")]
mod patient;
mod rows;
mod supervise;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use arrow::datatypes::SchemaRef;
use millstream_config::{JobConfig, Layer, Resolved};
use millstream_coordination::checkpoint::CheckpointKind;
use millstream_coordination::failure::{FailureInfo, FailureKind};
use millstream_coordination::job::{ExecutionState, ReportedTask};
use millstream_coordination::protocol::{
    ChannelEndpoint, FromTaskmanager, StartJobProcess, SubtaskMetrics, TaskAddress, TaskReport,
    ToTaskmanager,
};
use millstream_env::{Env, StopSignal};
use millstream_exchange::{Barrier, BarrierKind};
use millstream_graph::{ChannelId, JobGraph, Plan};
use millstream_snapshot::Store;
use millstream_types::sabotage::Rule;
use millstream_types::{CheckpointId, Epoch, JobId, SlotIndex, SubtaskId, WallTime};
use parking_lot::Mutex;

use crate::activity::Activity;
use crate::channel::{ReceiverEnd, ReleaseCredit, SenderEnd};
use crate::counters::TaskCounters;
use crate::failure;
use crate::signal::Signal;
use crate::task::{Mailbox, TaskControl};
use backend::Backends;

/// The way to the jobmanager. Never waits.
pub trait Uplink: Send + Sync {
    /// Passes a message on. Lines of print sinks may be dropped, and are counted then; everything
    /// else must arrive or the connection counts as lost.
    fn send(&self, message: FromTaskmanager);
}

/// Channels to tasks in other processes, as the data plane offers them.
pub trait RemoteChannels: Send + Sync {
    /// What is rung when a channel to this peer has something to send or to be told.
    fn signal(&self, endpoint: &ChannelEndpoint) -> Signal;

    /// Sends to the peer what `elements` yields, under credit.
    fn open_output(
        &self,
        own: SubtaskId,
        endpoint: &ChannelEndpoint,
        schema: SchemaRef,
        elements: ReceiverEnd,
    );

    /// Puts what the peer sends into `elements`. What it returns is told of bytes worked off.
    fn open_input(
        &self,
        own: SubtaskId,
        endpoint: &ChannelEndpoint,
        schema: SchemaRef,
        elements: SenderEnd,
    ) -> Box<dyn ReleaseCredit>;

    /// Ends all channels of a task.
    fn close(&self, own: SubtaskId);
}

/// Tasks of one process at most: each has a thread, and another one while its state is written.
pub const TASKS_MAX: usize = millstream_env::THREADS_MAX / 2;

/// What a job process may use.
#[derive(Clone, Debug)]
pub struct JobProcessSettings {
    /// Encoded bytes on the way per channel.
    pub channel_window_bytes: u64,
    /// Keyed state in RocksDB, per slot.
    pub managed_bytes_per_slot: usize,
    /// Where attempts keep their working state.
    pub state_dir: PathBuf,
}

/// A task as its process knows it.
struct Hosted {
    address: TaskAddress,
    slot: SlotIndex,
    state: Arc<Mutex<ExecutionState>>,
    mailbox: Mailbox,
    stop: StopSignal,
    counters: Arc<TaskCounters>,
    activity: Activity,
}

/// Ends of local channels whose other task is not deployed yet.
#[derive(Default)]
struct Parked {
    sender: Option<SenderEnd>,
    receiver: Option<ReceiverEnd>,
}

/// The tasks of one job, in one epoch.
pub struct JobProcess {
    env: Env,
    settings: JobProcessSettings,
    job: JobId,
    epoch: Epoch,
    graph: Arc<JobGraph>,
    plan: Arc<Plan>,
    config: Arc<JobConfig>,
    store: Option<Store>,
    uplink: Arc<dyn Uplink>,
    remote: Option<Arc<dyn RemoteChannels>>,
    signals: BTreeMap<SubtaskId, Signal>,
    parked: BTreeMap<ChannelId, Parked>,
    backends: BTreeMap<SlotIndex, Backends>,
    tasks: BTreeMap<SubtaskId, Hosted>,
}

impl JobProcess {
    /// The settings of a job, as they travel in its graph.
    pub fn config(graph: &JobGraph) -> Result<JobConfig, FailureInfo> {
        let stored = graph.settings.iter().map(|setting| {
            (
                setting.key.as_str(),
                setting.value.as_str(),
                setting.origin.as_str(),
            )
        });
        let refused = |error: &(dyn std::error::Error + 'static)| {
            failure::of_error(FailureKind::Deployment, error)
        };
        let layer = Layer::stored(stored).map_err(|error| refused(&error))?;
        let resolved = Resolved::new([layer]);
        JobConfig::new(&resolved, &mut Vec::new()).map_err(|error| refused(&error))
    }

    /// A process without tasks. `store` is the job's checkpoint directory, where it has one.
    pub fn new(
        env: Env,
        settings: JobProcessSettings,
        start: &StartJobProcess,
        store: Option<Store>,
        uplink: Arc<dyn Uplink>,
        remote: Option<Arc<dyn RemoteChannels>>,
    ) -> Result<Self, FailureInfo> {
        let config = Arc::new(Self::config(&start.graph)?);
        Ok(Self {
            env,
            settings,
            job: start.job,
            epoch: start.epoch,
            plan: Arc::new(Plan::new(&start.graph, start.chaining)),
            graph: Arc::clone(&start.graph),
            config,
            store,
            uplink,
            remote,
            signals: BTreeMap::new(),
            parked: BTreeMap::new(),
            backends: BTreeMap::new(),
            tasks: BTreeMap::new(),
        })
    }

    /// Which tasks there are, and what they are called.
    pub fn plan(&self) -> &Plan {
        &self.plan
    }

    /// Whose tasks these are.
    pub fn identity(&self) -> (JobId, Epoch) {
        (self.job, self.epoch)
    }

    /// Deals with a message; what is of another job or epoch is left alone (fence F7).
    pub fn handle(&mut self, message: ToTaskmanager) {
        match message {
            ToTaskmanager::Deploy(deploy) if self.is_ours(deploy.job, deploy.epoch) => {
                let (subtask, attempt) = (deploy.subtask, deploy.attempt);
                if let Err(failure) = self.deploy(*deploy) {
                    self.uplink.send(FromTaskmanager::SubtaskState {
                        job: self.job,
                        epoch: self.epoch,
                        subtask,
                        attempt,
                        state: ExecutionState::Failed,
                        failure: Some(failure),
                    });
                }
            }
            ToTaskmanager::TriggerCheckpoint {
                job,
                epoch,
                subtasks,
                checkpoint,
                triggered_at,
                kind,
                completed,
            } if self.is_ours(job, epoch) => {
                self.trigger(&subtasks, checkpoint, triggered_at, kind, completed);
            }
            ToTaskmanager::NotifyCompleted {
                job,
                epoch,
                subtasks,
                checkpoint,
            } if self.is_ours(job, epoch) => {
                self.tell(&subtasks, TaskControl::Completed(checkpoint));
            }
            ToTaskmanager::NotifyAborted {
                job,
                epoch,
                subtasks,
                checkpoint,
                ..
            } if self.is_ours(job, epoch) => {
                self.tell(&subtasks, TaskControl::Aborted(checkpoint));
            }
            ToTaskmanager::Cancel {
                job,
                epoch,
                subtasks,
            } if self.is_ours(job, epoch) => {
                self.cancel(&subtasks);
            }
            ToTaskmanager::Deploy(_)
            | ToTaskmanager::TriggerCheckpoint { .. }
            | ToTaskmanager::NotifyCompleted { .. }
            | ToTaskmanager::NotifyAborted { .. }
            | ToTaskmanager::Cancel { .. }
            | ToTaskmanager::Registered(_)
            | ToTaskmanager::RegistrationRefused(_)
            | ToTaskmanager::Heartbeat
            | ToTaskmanager::StartJobProcess(_)
            | ToTaskmanager::Abandon { .. }
            | ToTaskmanager::ReleaseJob { .. } => {}
        }
    }

    fn is_ours(&self, job: JobId, epoch: Epoch) -> bool {
        let is_heard = epoch == self.epoch || self.env.sabotage().removed(Rule::ObeyAnyEpoch);
        job == self.job && is_heard
    }

    /// The task at this address; none if its attempt is another.
    fn hosted(&self, address: &TaskAddress) -> Option<&Hosted> {
        self.tasks
            .get(&address.subtask)
            .filter(|hosted| hosted.address == *address)
    }

    fn tell(&self, subtasks: &[TaskAddress], control: TaskControl) {
        for hosted in subtasks.iter().filter_map(|address| self.hosted(address)) {
            hosted.mailbox.put(control);
        }
    }

    fn trigger(
        &self,
        subtasks: &[TaskAddress],
        checkpoint: CheckpointId,
        triggered_at: WallTime,
        kind: CheckpointKind,
        completed: Option<CheckpointId>,
    ) {
        let kind = match kind {
            CheckpointKind::Periodic | CheckpointKind::Manual | CheckpointKind::Final => {
                BarrierKind::Checkpoint
            }
        };
        // The age is for display: between hosts it is as good as their clocks agree.
        let age = self
            .env
            .clock()
            .wall()
            .as_millis()
            .saturating_sub(triggered_at.as_millis());
        let barrier = Barrier {
            id: checkpoint,
            epoch: self.epoch,
            kind,
            age: Duration::from_millis(u64::try_from(age).unwrap_or(0)),
            learnt_at: self.env.clock().monotonic(),
            completed,
        };
        self.tell(subtasks, TaskControl::Trigger(barrier));
    }

    fn cancel(&self, subtasks: &[TaskAddress]) {
        for hosted in subtasks.iter().filter_map(|address| self.hosted(address)) {
            let mut state = hosted.state.lock();
            if !state.is_terminal() {
                *state = ExecutionState::Canceling;
            }
            drop(state);
            hosted.stop.cancel();
            hosted.mailbox.put(TaskControl::Cancel);
        }
    }

    /// Cancels every task.
    pub fn cancel_all(&self) {
        let all: Vec<_> = self.tasks.values().map(|hosted| hosted.address).collect();
        self.cancel(&all);
    }

    /// Whether every task has ended.
    pub fn is_idle(&self) -> bool {
        self.tasks
            .values()
            .all(|hosted| hosted.state.lock().is_terminal())
    }

    /// The slots in use.
    pub fn slots(&self) -> Vec<SlotIndex> {
        let running = self
            .tasks
            .values()
            .filter(|hosted| !hosted.state.lock().is_terminal());
        let mut slots: Vec<_> = running.map(|hosted| hosted.slot).collect();
        slots.sort_unstable();
        slots.dedup();
        slots
    }

    /// Every task, for a heartbeat.
    pub fn reports(&self) -> Vec<TaskReport> {
        let report = |hosted: &Hosted| TaskReport {
            task: ReportedTask {
                epoch: self.epoch,
                subtask: hosted.address.subtask,
                attempt: hosted.address.attempt,
                state: *hosted.state.lock(),
            },
            activity: hosted.activity.lasting(Duration::from_secs(1)),
        };
        self.tasks.values().map(report).collect()
    }

    /// What every task counted.
    pub fn metrics(&self) -> Vec<SubtaskMetrics> {
        let metrics =
            |hosted: &Hosted| metrics(self.job, self.epoch, hosted.address, &hosted.counters);
        self.tasks.values().map(metrics).collect()
    }
}

/// What one task counted, as a message.
fn metrics(job: JobId, epoch: Epoch, task: TaskAddress, counters: &TaskCounters) -> SubtaskMetrics {
    let counts = counters.read();
    SubtaskMetrics {
        job,
        epoch,
        task,
        records_in: counts.records_in,
        records_out: counts.records_out,
        bytes_in: counts.bytes_in,
        bytes_out: counts.bytes_out,
        bad_records: counts.bad_records,
        busy: counts.busy,
        idle: counts.idle,
        backpressured: counts.backpressured,
        watermark: counts.watermark,
    }
}
