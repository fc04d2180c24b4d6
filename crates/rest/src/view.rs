//! What the cluster tells about itself, as this crate needs it.

use std::collections::BTreeMap;

use async_trait::async_trait;
use millstream_coordination::checkpoint::{CheckpointCounts, CheckpointRecord, RestoreRecord};
use millstream_coordination::failure::FailureRecord;
use millstream_coordination::job::{ExecutionState, JobStatus};
use millstream_coordination::protocol::{SlotReport, SubtaskMetrics};
use millstream_coordination::slots::SlotRef;
use millstream_types::{
    Attempt, Incarnation, JobId, MaxParallelism, TaskmanagerId, VertexId, WallTime,
};

use crate::error::ViewError;

/// Where the facts come from: the jobmanager, or a fixture. Every answer is a copy of one moment.
#[async_trait]
pub trait ClusterView: Send + Sync + 'static {
    /// The cluster at a glance.
    async fn overview(&self) -> Result<ClusterSummary, ViewError>;
    /// All jobs, ended ones too, in the order in which they are to be shown.
    async fn jobs(&self) -> Result<Vec<JobRow>, ViewError>;
    /// One job; none if there is none with this id.
    async fn job(&self, id: JobId) -> Result<Option<JobView>, ViewError>;
    /// The checkpoints of one job; none if there is no such job.
    async fn checkpoints(&self, id: JobId) -> Result<Option<CheckpointsView>, ViewError>;
    /// All registered taskmanagers.
    async fn taskmanagers(&self) -> Result<Vec<TaskmanagerView>, ViewError>;
}

/// The cluster at a glance.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct ClusterSummary {
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
pub struct JobRow {
    /// Its id.
    pub id: JobId,
    /// Its name, as its author wrote it.
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

/// One job.
#[derive(Clone, PartialEq, Debug)]
pub struct JobView {
    /// The row of the list.
    pub row: JobRow,
    /// When it came into each state last.
    pub status_since: BTreeMap<JobStatus, WallTime>,
    /// The slots that it waits for.
    pub slot_wait: Option<SlotWaitView>,
    /// Its vertices in topological order; empty where they are not known any more.
    pub vertices: Vec<VertexView>,
    /// What failed.
    pub failures: FailuresView,
    /// How it ended, in one line.
    pub ended: Option<String>,
}

/// Slots that a job waits for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SlotWaitView {
    /// How many it needs, all at once.
    pub needed: usize,
    /// How many are free now.
    pub free: usize,
    /// Since when it waits.
    pub since: WallTime,
}

/// What failed in a job.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct FailuresView {
    /// What began the newest wave of failures.
    pub newest: Option<FailureRecord>,
    /// How many failures followed in that wave.
    pub n_concurrent: usize,
    /// The first failure of those with the newest one's cause.
    pub first: Option<FailureRecord>,
    /// How often that cause occurred in a row.
    pub repeated: u32,
}

/// One vertex of a job.
#[derive(Clone, PartialEq, Debug)]
pub struct VertexView {
    /// Its id.
    pub id: VertexId,
    /// Its name.
    pub name: String,
    /// Number of key groups.
    pub max_parallelism: MaxParallelism,
    /// Who it shares slots with.
    pub slot_sharing_group: String,
    /// Where its rows come from.
    pub inputs: Vec<VertexInputView>,
    /// Its subtasks in order; their number is the parallelism.
    pub subtasks: Vec<SubtaskView>,
}

/// An input of a vertex.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct VertexInputView {
    /// The producing vertex.
    pub from: VertexId,
    /// "FORWARD", "REBALANCE", "ASSIGN", "HASH" or "BROADCAST".
    pub ship_strategy: &'static str,
}

/// The newest execution of a subtask.
#[derive(Clone, PartialEq, Debug)]
pub struct SubtaskView {
    /// Which execution.
    pub attempt: Attempt,
    /// Its state.
    pub state: ExecutionState,
    /// When it came into each state.
    pub state_since: BTreeMap<ExecutionState, WallTime>,
    /// Where it runs, or ran.
    pub slot: Option<SlotRef>,
    /// What it is doing, in words, where that lasts.
    pub activity: Option<String>,
    /// What it did; the last message of this execution, kept when it ended.
    pub metrics: Option<SubtaskMetrics>,
}

/// The checkpoints of one job.
#[derive(Clone, PartialEq, Debug)]
pub struct CheckpointsView {
    /// The newest rows, oldest first.
    pub records: Vec<CheckpointRecord>,
    /// The newest completed one, also when it left the rows.
    pub latest_completed: Option<CheckpointRecord>,
    /// The newest failed one, also when it left the rows.
    pub latest_failed: Option<CheckpointRecord>,
    /// What the job was last restored from.
    pub latest_restored: Option<RestoreRecord>,
    /// Sums over the life of the coordinator.
    pub counts: CheckpointCounts,
    /// How many are under way.
    pub n_in_progress: usize,
    /// How often the job was restored from one.
    pub restored: u64,
    /// Counted failures in a row.
    pub consecutive_failures: usize,
    /// Where its objects are; names in the records are relative to it.
    pub directory: String,
}

/// A registered taskmanager.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct TaskmanagerView {
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
