//! Facts about cluster and jobs as plain data, for whoever shows them.

use std::collections::BTreeMap;

use millstream_coordination::chain::TerminalState;
use millstream_coordination::checkpoint::{CheckpointHistory, CheckpointPolicy};
use millstream_coordination::failure::FailureRecord;
use millstream_coordination::job::{ExecutionState, FailureHistory, JobEnd, JobStatus};
use millstream_coordination::protocol::{SlotReport, SubtaskMetrics};
use millstream_coordination::slots::SlotRef;
use millstream_types::{
    Attempt, CheckpointId, Epoch, Incarnation, JobId, MaxParallelism, OperatorUid, TaskmanagerId,
    VertexId, WallTime,
};

/// The cluster at a glance.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct ClusterOverview {
    /// Registered taskmanagers.
    pub taskmanagers: usize,
    /// All their slots.
    pub slots_total: usize,
    /// Those that a job could have now.
    pub slots_available: usize,
    /// Jobs of this jobmanager that have not ended.
    pub jobs_running: usize,
    /// Jobs that it does not run, since another owns them or their storage is unusable.
    pub jobs_suspended: usize,
    /// Jobs that ran to their end.
    pub jobs_finished: usize,
    /// Jobs ended by a user.
    pub jobs_cancelled: usize,
    /// Jobs that failed for good.
    pub jobs_failed: usize,
    /// Whether stored jobs are still being looked for.
    pub is_recovering: bool,
}

/// One row of the list of jobs.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct JobOverview {
    /// Its id.
    pub id: JobId,
    /// Its name.
    pub name: String,
    /// Its state.
    pub status: JobStatus,
    /// When it was submitted.
    pub started_at: WallTime,
    /// When it ended.
    pub ended_at: Option<WallTime>,
    /// When its state changed last.
    pub last_modified_at: WallTime,
    /// Tasks by state.
    pub tasks: BTreeMap<ExecutionState, usize>,
    /// Restarts in the life of this jobmanager.
    pub restarts: u32,
}

/// All that is known of one job.
#[derive(Clone, PartialEq, Debug)]
pub struct JobDetails {
    /// The row of the list.
    pub overview: JobOverview,
    /// When it came into each state last.
    pub status_since: BTreeMap<JobStatus, WallTime>,
    /// The epoch it runs in.
    pub epoch: Option<Epoch>,
    /// The slots that it waits for.
    pub slot_wait: Option<SlotWait>,
    /// Its vertices in topological order; empty for a job that ended under an earlier jobmanager.
    pub vertices: Vec<VertexDetails>,
    /// Waves of failures, the newest sixteen and the first of a loop.
    pub failures: FailureHistory,
    /// Its effective settings of job scope.
    pub settings: Vec<EffectiveSetting>,
    /// What was noticed when it was submitted.
    pub warnings: Vec<String>,
    /// How it ended.
    pub end: Option<JobEnded>,
}

impl JobDetails {
    /// What caused the newest failure, on one line; empty where nothing failed.
    pub(crate) fn newest_causes(&self) -> String {
        let newest = self.failures.entries().next_back();
        let causes = newest.map(|entry| entry.root.failure.causes.join(": "));
        causes.unwrap_or_default()
    }
}

/// Slots that a job waits for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SlotWait {
    /// How many it needs, all at once.
    pub needed: usize,
    /// How many are free now; a job's master does not know, who asks for all details is told.
    pub free: usize,
    /// Since when it waits.
    pub since: WallTime,
}

/// One effective setting.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct EffectiveSetting {
    /// The key in its short form.
    pub key: String,
    /// The value as it is printed; none if unset.
    pub value: Option<String>,
    /// "job", "flag", "cluster", "default".
    pub origin: String,
}

/// One vertex of a job.
#[derive(Clone, PartialEq, Debug)]
pub struct VertexDetails {
    /// Its id.
    pub id: VertexId,
    /// Its name.
    pub name: String,
    /// The operators in its chain.
    pub operators: Vec<OperatorUid>,
    /// Number of subtasks.
    pub parallelism: u32,
    /// Number of key groups.
    pub max_parallelism: MaxParallelism,
    /// Who it shares slots with.
    pub slot_sharing_group: String,
    /// Where its rows come from.
    pub inputs: Vec<VertexInput>,
    /// Its subtasks in order.
    pub subtasks: Vec<SubtaskDetails>,
}

/// An input of a vertex.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct VertexInput {
    /// The producing vertex.
    pub from: VertexId,
    /// "FORWARD", "REBALANCE", "ASSIGN", "HASH" or "BROADCAST".
    pub ship_strategy: &'static str,
}

/// The newest execution of a subtask.
#[derive(Clone, PartialEq, Debug)]
pub struct SubtaskDetails {
    /// Its index, from 0.
    pub index: u32,
    /// Which execution.
    pub attempt: Attempt,
    /// Its state.
    pub state: ExecutionState,
    /// When it came into each state.
    pub state_since: BTreeMap<ExecutionState, WallTime>,
    /// Where it runs, or ran.
    pub slot: Option<SlotRef>,
    /// The host of that taskmanager.
    pub host: Option<String>,
    /// What it is doing, in words, where that lasts.
    pub activity: Option<String>,
    /// What it did; the last message of this execution.
    pub metrics: Option<SubtaskMetrics>,
}

/// The checkpoints of one job.
#[derive(Clone, PartialEq, Debug)]
pub struct CheckpointsDetails {
    /// How they are taken.
    pub policy: CheckpointPolicy,
    /// Rows, counts and the latest of each kind.
    pub history: CheckpointHistory,
    /// Under way, oldest first.
    pub in_progress: Vec<CheckpointId>,
    /// How often the job was restored from a checkpoint.
    pub restored: u64,
    /// Counted failures in a row.
    pub consecutive_failures: usize,
    /// Where its objects are; names in the history are relative to it.
    pub directory: String,
}

impl CheckpointsDetails {
    /// Of a job that took none in the life of this jobmanager.
    pub(crate) fn none() -> Self {
        Self {
            policy: CheckpointPolicy::default(),
            history: CheckpointHistory::new(1),
            in_progress: Vec::new(),
            restored: 0,
            consecutive_failures: 0,
            directory: String::new(),
        }
    }
}

/// How a job ended, in words and as a state.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct JobEnded {
    /// As the claim chain has it.
    pub state: TerminalState,
    /// In one line: "Recovery is suppressed by …".
    pub headline: String,
    /// What it failed with.
    pub failure: Option<EndFailure>,
}

/// The failure that a job ended with.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct EndFailure {
    /// Where it comes from: "USER", "CONNECTOR", …
    pub kind: String,
    /// When it happened.
    pub failed_at: WallTime,
    /// The task, such as `counts (1/2)`.
    pub task: Option<String>,
    /// Where it ran.
    pub taskmanager: Option<String>,
    /// The operator in whose code it happened.
    pub operator: Option<String>,
    /// The error itself.
    pub message: String,
    /// Its causes, outermost first.
    pub causes: Vec<String>,
    /// What can be done about it.
    pub remedy: Option<String>,
}

/// A registered taskmanager.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct TaskmanagerDetails {
    /// Its id.
    pub id: TaskmanagerId,
    /// Which life of it.
    pub incarnation: Incarnation,
    /// What it calls its host.
    pub host: String,
    /// The host under which others reach its job processes.
    pub advertised_host: String,
    /// Its process id.
    pub pid: u32,
    /// Its version.
    pub version: String,
    /// All its slots.
    pub slots_total: usize,
    /// Those that a job could have now.
    pub slots_available: usize,
    /// Slots in use, as it says itself.
    pub slots: Vec<SlotReport>,
    /// Whether its connection is up.
    pub is_connected: bool,
    /// When it registered.
    pub registered_at: WallTime,
    /// When anything came from it last.
    pub heard_at: WallTime,
}

impl From<&JobEnd> for JobEnded {
    fn from(end: &JobEnd) -> Self {
        Self {
            state: end.state(),
            headline: end.to_string(),
            failure: end.failure().map(EndFailure::from),
        }
    }
}

impl From<&FailureRecord> for EndFailure {
    fn from(record: &FailureRecord) -> Self {
        let task = record.task.as_ref();
        Self {
            kind: record.failure.kind.to_string(),
            failed_at: record.failed_at,
            task: task.map(|task| task.name.clone()),
            taskmanager: task
                .and_then(|task| task.taskmanager.as_ref())
                .map(ToString::to_string),
            operator: record.failure.operator.clone(),
            message: record.failure.message.clone(),
            causes: record.failure.causes.clone(),
            remedy: record.failure.remedy.clone(),
        }
    }
}
