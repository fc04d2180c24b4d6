//! Facts about jobs as they cross the wire.

use std::collections::BTreeMap;
use std::time::Duration;

use millstream_coordination::checkpoint::{CheckpointKind, CheckpointStatus};
use millstream_coordination::job::{ExecutionState, JobStatus};
use millstream_coordination::protocol::TaskAddress;
use millstream_coordination::snapshot_types::CheckpointMetrics;
use millstream_types::{
    Attempt, CheckpointId, Epoch, JobId, SubtaskId, TaskmanagerId, VertexId, WallTime,
};

/// A job at a glance.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct JobSummary {
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
    /// Tasks by state; no zeros.
    pub tasks: BTreeMap<ExecutionState, u32>,
    /// Restarts in the life of this jobmanager.
    pub restarts: u32,
}

/// All that is known of one job.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct JobInfo {
    /// At a glance.
    pub summary: JobSummary,
    /// The epoch it runs in.
    pub epoch: Option<Epoch>,
    /// The slots that it waits for.
    pub slot_wait: Option<SlotWaitInfo>,
    /// Its vertices in topological order.
    pub vertices: Vec<VertexInfo>,
    /// Its effective settings of job scope.
    pub settings: Vec<SettingInfo>,
    /// What was noticed when it was submitted.
    pub warnings: Vec<String>,
    /// Its failures, the newest first.
    pub failures: Vec<JobFailure>,
    /// How it ended.
    pub end: Option<JobEndInfo>,
}

/// Slots that a job waits for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SlotWaitInfo {
    /// How many it needs, all at once.
    pub needed: u32,
    /// How many are free now.
    pub free: u32,
    /// Since when it waits.
    pub since: WallTime,
}

/// One effective setting.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SettingInfo {
    /// The key in its short form.
    pub key: String,
    /// The value as it is printed; none if unset.
    pub value: Option<String>,
    /// "job", "flag", "cluster", "default".
    pub origin: String,
}

/// One vertex.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct VertexInfo {
    /// Its position in the plan.
    pub id: VertexId,
    /// Its name.
    pub name: String,
    /// Uids of the operators in its chain.
    pub operators: Vec<String>,
    /// Number of subtasks.
    pub parallelism: u32,
    /// Number of key groups.
    pub max_parallelism: u32,
    /// Where its rows come from.
    pub inputs: Vec<VertexInputInfo>,
    /// Its subtasks in order.
    pub subtasks: Vec<SubtaskInfo>,
}

/// An input of a vertex.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct VertexInputInfo {
    /// The producing vertex.
    pub from: VertexId,
    /// "FORWARD", "REBALANCE", "ASSIGN", "HASH" or "BROADCAST".
    pub ship_strategy: String,
}

/// The newest execution of a subtask.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SubtaskInfo {
    /// Its index, from 0.
    pub index: u32,
    /// Which execution.
    pub attempt: Attempt,
    /// Its state.
    pub state: ExecutionState,
    /// Where it runs, or ran.
    pub taskmanager: Option<TaskmanagerId>,
    /// The host of that taskmanager.
    pub host: Option<String>,
    /// What it is doing, in words, where that lasts.
    pub activity: Option<String>,
    /// Rows taken in.
    pub records_in: u64,
    /// Rows sent on.
    pub records_out: u64,
    /// Bytes taken in.
    pub bytes_in: u64,
    /// Bytes sent on.
    pub bytes_out: u64,
    /// Records of a source that were no rows: left out, or sent on as dead letters.
    pub bad_records: u64,
}

/// A failure with its place and time.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct JobFailure {
    /// When the jobmanager learned of it.
    pub failed_at: WallTime,
    /// The task, such as `counts (1/2)`; none for a failure of the job as a whole.
    pub task: Option<String>,
    /// Where it ran.
    pub taskmanager: Option<String>,
    /// Where it comes from: "USER", "CONNECTOR", …
    pub kind: String,
    /// The operator in whose code it happened.
    pub operator: Option<String>,
    /// The error itself.
    pub message: String,
    /// Its causes, outermost first.
    pub causes: Vec<String>,
    /// What can be done about it.
    pub remedy: Option<String>,
}

/// How a job ended.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct JobEndInfo {
    /// Its last state.
    pub status: JobStatus,
    /// In one line.
    pub headline: String,
    /// What it failed with.
    pub failure: Option<JobFailure>,
}

/// Something that happened to a watched job.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum JobEvent {
    /// It is in this state.
    Status {
        /// The state.
        status: JobStatus,
        /// Since when.
        at: WallTime,
        /// What it failed with, in one line, where it is restarting or failing.
        failure: Option<String>,
    },
    /// A print sink wrote.
    Output {
        /// Which subtask.
        subtask: SubtaskId,
        /// The lines, without line ends.
        lines: Vec<String>,
    },
    /// Lines of print sinks were dropped here, because they were not taken in time.
    OutputDropped {
        /// How many.
        lines: u64,
    },
    /// It ended; nothing follows.
    Ended(JobEndInfo),
}

/// The checkpoints of one job.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct CheckpointsInfo {
    /// Where its objects are; names of metadata are relative to it.
    pub directory: String,
    /// Completed in the life of this jobmanager.
    pub completed: u64,
    /// Given up.
    pub failed: u64,
    /// Never begun.
    pub refused: u64,
    /// How often the job was restored.
    pub restored: u64,
    /// What it was last restored from.
    pub latest_restored: Option<CheckpointId>,
    /// The newest, oldest first.
    pub checkpoints: Vec<CheckpointInfo>,
}

/// One checkpoint.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct CheckpointInfo {
    /// Its id; none if it was refused.
    pub id: Option<CheckpointId>,
    /// The epoch that took it.
    pub epoch: Option<Epoch>,
    /// Why it was taken.
    pub kind: CheckpointKind,
    /// How far it came.
    pub status: CheckpointStatus,
    /// When it was triggered.
    pub triggered_at: WallTime,
    /// From the trigger to its completion.
    pub duration: Option<Duration>,
    /// From the last acknowledgement to its completion.
    pub finalization: Option<Duration>,
    /// Bytes of all state.
    pub state_bytes: Option<u64>,
    /// Its metadata object.
    pub metadata: Option<String>,
    /// Its data was deleted since.
    pub is_discarded: bool,
    /// Why it failed or was refused.
    pub failure: Option<CheckpointFailureInfo>,
    /// Every subtask that had to acknowledge.
    pub subtasks: Vec<CheckpointSubtaskInfo>,
}

/// Why and when a checkpoint failed.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct CheckpointFailureInfo {
    /// When.
    pub failed_at: WallTime,
    /// Why.
    pub reason: String,
    /// In words, where there is more to say.
    pub message: String,
}

/// What one subtask had to do with a checkpoint.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct CheckpointSubtaskInfo {
    /// Which execution was asked.
    pub task: TaskAddress,
    /// When its acknowledgement came; none if it never did.
    pub acknowledged_at: Option<WallTime>,
    /// It came after the checkpoint had been given up.
    pub is_late: bool,
    /// Bytes of its state.
    pub state_bytes: u64,
    /// Where its time went.
    pub metrics: CheckpointMetrics,
    /// What it was doing when the checkpoint failed, where that is known.
    pub activity: Option<String>,
}
