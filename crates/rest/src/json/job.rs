//! `/jobs/:id`.

use std::collections::BTreeMap;
use std::time::Duration;

use millstream_coordination::job::{ExecutionState, JobStatus};
use millstream_types::WallTime;
use serde::Serialize;

use super::{EXECUTION_STATES, millis, millis_between, millis_or_minus_one};
use crate::view::{JobView, SubtaskView, VertexInputView, VertexView};

#[derive(Serialize)]
pub(crate) struct JobDetailsJson {
    jid: String,
    name: String,
    state: String,
    #[serde(rename = "start-time")]
    start_time: i64,
    #[serde(rename = "end-time")]
    end_time: i64,
    duration: i64,
    #[serde(rename = "maxParallelism")]
    max_parallelism: i64,
    now: i64,
    timestamps: BTreeMap<String, i64>,
    /// Not in Flink: null unless the job waits for slots.
    #[serde(rename = "slot-wait")]
    slot_wait: Option<SlotWaitJson>,
    vertices: Vec<VertexJson>,
    /// Vertices by status.
    #[serde(rename = "status-counts")]
    status_counts: BTreeMap<String, usize>,
    plan: PlanJson,
}

impl JobDetailsJson {
    pub(crate) fn new(job: &JobView, now: WallTime) -> Self {
        let row = &job.row;
        let max_parallelism = job
            .vertices
            .iter()
            .map(|vertex| vertex.max_parallelism.get());
        let since = |status| job.status_since.get(&status).map_or(0, |at| at.as_millis());
        Self {
            jid: row.id.to_string(),
            name: row.name.clone(),
            state: row.status.to_string(),
            start_time: row.started_at.as_millis(),
            end_time: millis_or_minus_one(row.ended_at),
            duration: millis_between(row.started_at, row.ended_at.unwrap_or(now)),
            max_parallelism: max_parallelism.max().map_or(-1, i64::from),
            now: now.as_millis(),
            timestamps: JobStatus::ALL
                .map(|status| (status.to_string(), since(status)))
                .into(),
            slot_wait: job.slot_wait.map(|wait| SlotWaitJson {
                needed: wait.needed,
                free: wait.free,
                since: wait.since.as_millis(),
            }),
            vertices: job
                .vertices
                .iter()
                .map(|vertex| VertexJson::new(vertex, now))
                .collect(),
            status_counts: counts(job.vertices.iter().map(vertex_status)),
            plan: PlanJson::new(job),
        }
    }
}

#[derive(Serialize)]
struct SlotWaitJson {
    needed: usize,
    free: usize,
    since: i64,
}

#[derive(Serialize)]
struct VertexJson {
    id: String,
    #[serde(rename = "slotSharingGroupId")]
    slot_sharing_group: String,
    name: String,
    #[serde(rename = "maxParallelism")]
    max_parallelism: u32,
    parallelism: usize,
    status: String,
    #[serde(rename = "start-time")]
    start_time: i64,
    #[serde(rename = "end-time")]
    end_time: i64,
    duration: i64,
    tasks: BTreeMap<String, usize>,
    metrics: Io,
}

impl VertexJson {
    fn new(vertex: &VertexView, now: WallTime) -> Self {
        let started = vertex.subtasks.iter().filter_map(started_at).min();
        let ended: Option<Vec<WallTime>> = vertex.subtasks.iter().map(ended_at).collect();
        let ended = ended.and_then(|ends| ends.into_iter().max());
        let duration = started.map(|from| millis_between(from, ended.unwrap_or(now)));
        Self {
            id: vertex.id.to_string(),
            slot_sharing_group: vertex.slot_sharing_group.clone(),
            name: vertex.name.clone(),
            max_parallelism: vertex.max_parallelism.get(),
            parallelism: vertex.subtasks.len(),
            status: vertex_status(vertex).to_string(),
            start_time: millis_or_minus_one(started),
            end_time: millis_or_minus_one(ended),
            duration: duration.unwrap_or(-1),
            tasks: counts(vertex.subtasks.iter().map(|subtask| subtask.state)),
            metrics: Io::of(&vertex.subtasks),
        }
    }
}

/// When it was deployed, or, of one that skipped that state, when it came into a later one.
fn started_at(subtask: &SubtaskView) -> Option<WallTime> {
    let mut since = subtask.state_since.range(ExecutionState::Deploying..);
    since.next().map(|(_, at)| *at)
}

fn ended_at(subtask: &SubtaskView) -> Option<WallTime> {
    let since = subtask.state_since.get(&subtask.state).copied();
    since.filter(|_| subtask.state.is_terminal())
}

/// The state of a vertex that stands for its subtasks, by Flink's precedence.
pub(crate) fn vertex_status(vertex: &VertexView) -> ExecutionState {
    const STRONGEST_FIRST: [ExecutionState; 5] = [
        ExecutionState::Failed,
        ExecutionState::Canceling,
        ExecutionState::Canceled,
        ExecutionState::Initializing,
        ExecutionState::Running,
    ];
    let states = || vertex.subtasks.iter().map(|subtask| subtask.state);
    let strongest = STRONGEST_FIRST
        .into_iter()
        .find(|s| states().any(|state| state == *s));
    let n_finished = states().filter(|s| *s == ExecutionState::Finished).count();
    match strongest {
        Some(state) => state,
        None if n_finished == 0 => ExecutionState::Created,
        None if n_finished == vertex.subtasks.len() => ExecutionState::Finished,
        None => ExecutionState::Running,
    }
}

/// A count for every state, zeros too.
fn counts(states: impl Iterator<Item = ExecutionState>) -> BTreeMap<String, usize> {
    let mut counts: BTreeMap<String, usize> =
        EXECUTION_STATES.map(|state| (state.to_string(), 0)).into();
    for state in states {
        *counts.entry(state.to_string()).or_default() += 1;
    }
    counts
}

/// What the subtasks of a vertex took in and gave out: sums of what each said last. A subtask that
/// finished keeps its counts (A0-1).
#[derive(Serialize, Clone, Copy, Default)]
#[serde(rename_all = "kebab-case")]
pub(crate) struct Io {
    pub(crate) read_bytes: u64,
    read_bytes_complete: bool,
    pub(crate) write_bytes: u64,
    write_bytes_complete: bool,
    pub(crate) read_records: u64,
    read_records_complete: bool,
    pub(crate) write_records: u64,
    write_records_complete: bool,
    /// Ours: records of a source that were no rows.
    pub(crate) bad_records: u64,
    accumulated_backpressured_time: i64,
    accumulated_idle_time: i64,
    accumulated_busy_time: i64,
}

impl Io {
    pub(crate) fn of(subtasks: &[SubtaskView]) -> Self {
        let is_complete = subtasks.iter().all(|subtask| subtask.metrics.is_some());
        let all = || {
            subtasks
                .iter()
                .filter_map(|subtask| subtask.metrics.as_ref())
        };
        let time = |of: fn(&_) -> Duration| millis(all().map(of).sum());
        Self {
            read_bytes: all().map(|metrics| metrics.bytes_in).sum(),
            read_bytes_complete: is_complete,
            write_bytes: all().map(|metrics| metrics.bytes_out).sum(),
            write_bytes_complete: is_complete,
            read_records: all().map(|metrics| metrics.records_in).sum(),
            read_records_complete: is_complete,
            write_records: all().map(|metrics| metrics.records_out).sum(),
            write_records_complete: is_complete,
            bad_records: all().map(|metrics| metrics.bad_records).sum(),
            accumulated_backpressured_time: time(|metrics| metrics.backpressured),
            accumulated_idle_time: time(|metrics| metrics.idle),
            accumulated_busy_time: time(|metrics| metrics.busy),
        }
    }

    /// Whether every subtask has said what it did.
    pub(crate) fn is_complete(&self) -> bool {
        self.read_records_complete
    }
}

#[derive(Serialize)]
struct PlanJson {
    jid: String,
    name: String,
    #[serde(rename = "type")]
    job_type: &'static str,
    nodes: Vec<NodeJson>,
}

#[derive(Serialize)]
struct NodeJson {
    id: String,
    parallelism: usize,
    description: String,
    inputs: Vec<InputJson>,
}

#[derive(Serialize)]
struct InputJson {
    num: usize,
    id: String,
    ship_strategy: &'static str,
}

impl PlanJson {
    fn new(job: &JobView) -> Self {
        let input = |(num, input): (usize, &VertexInputView)| InputJson {
            num,
            id: input.from.to_string(),
            ship_strategy: input.ship_strategy,
        };
        let node = |vertex: &VertexView| NodeJson {
            id: vertex.id.to_string(),
            parallelism: vertex.subtasks.len(),
            description: vertex.name.clone(),
            inputs: vertex.inputs.iter().enumerate().map(input).collect(),
        };
        Self {
            jid: job.row.id.to_string(),
            name: job.row.name.clone(),
            job_type: "STREAMING",
            nodes: job.vertices.iter().map(node).collect(),
        }
    }
}
