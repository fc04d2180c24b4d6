//! `/overview`, `/jobs`, `/jobs/overview`, `/taskmanagers` and `/taskmanagers/:id`.

use std::collections::BTreeMap;

use millstream_types::WallTime;
use serde::Serialize;

use super::{EXECUTION_STATES, millis_between, millis_or_minus_one};
use crate::view::{ClusterSummary, JobRow, TaskmanagerView};

#[derive(Serialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) struct OverviewJson {
    taskmanagers: usize,
    slots_total: usize,
    slots_available: usize,
    jobs_running: usize,
    jobs_finished: usize,
    jobs_cancelled: usize,
    jobs_failed: usize,
    jobs_suspended: usize,
    version: &'static str,
    recovering: bool,
}

impl OverviewJson {
    pub(crate) fn new(summary: &ClusterSummary) -> Self {
        Self {
            taskmanagers: summary.taskmanagers,
            slots_total: summary.slots_total,
            slots_available: summary.slots_available,
            jobs_running: summary.jobs_running,
            jobs_finished: summary.jobs_finished,
            jobs_cancelled: summary.jobs_cancelled,
            jobs_failed: summary.jobs_failed,
            jobs_suspended: summary.jobs_suspended,
            version: env!("CARGO_PKG_VERSION"),
            recovering: summary.is_recovering,
        }
    }
}

#[derive(Serialize)]
pub(crate) struct JobsJson {
    jobs: Vec<JobIdJson>,
}

#[derive(Serialize)]
struct JobIdJson {
    id: String,
    status: String,
}

impl JobsJson {
    pub(crate) fn new(rows: &[JobRow]) -> Self {
        let id = |row: &JobRow| JobIdJson {
            id: row.id.to_string(),
            status: row.status.to_string(),
        };
        Self {
            jobs: rows.iter().map(id).collect(),
        }
    }
}

#[derive(Serialize)]
pub(crate) struct JobsOverviewJson {
    jobs: Vec<JobRowJson>,
}

#[derive(Serialize)]
#[serde(rename_all = "kebab-case")]
struct JobRowJson {
    jid: String,
    name: String,
    start_time: i64,
    end_time: i64,
    duration: i64,
    state: String,
    last_modification: i64,
    tasks: BTreeMap<String, usize>,
    restarts: u32,
}

impl JobsOverviewJson {
    pub(crate) fn new(rows: &[JobRow], now: WallTime) -> Self {
        let row = |row: &JobRow| JobRowJson {
            jid: row.id.to_string(),
            name: row.name.clone(),
            start_time: row.started_at.as_millis(),
            end_time: millis_or_minus_one(row.ended_at),
            duration: millis_between(row.started_at, row.ended_at.unwrap_or(now)),
            state: row.status.to_string(),
            last_modification: row.last_modified_at.as_millis(),
            tasks: lower_case_counts(row),
            restarts: row.restarts,
        };
        Self {
            jobs: rows.iter().map(row).collect(),
        }
    }
}

/// Here Flink writes the states in lower case, and adds their sum.
fn lower_case_counts(row: &JobRow) -> BTreeMap<String, usize> {
    let of = |state| row.tasks.get(&state).copied().unwrap_or(0);
    let counts = EXECUTION_STATES.map(|state| (state.to_string().to_lowercase(), of(state)));
    let total = ("total".to_owned(), row.tasks.values().sum());
    counts.into_iter().chain([total]).collect()
}

#[derive(Serialize)]
pub(crate) struct TaskmanagersJson {
    taskmanagers: Vec<TaskmanagerJson>,
}

impl TaskmanagersJson {
    pub(crate) fn new(taskmanagers: &[TaskmanagerView]) -> Self {
        Self {
            taskmanagers: taskmanagers.iter().map(TaskmanagerJson::new).collect(),
        }
    }
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct TaskmanagerJson {
    id: String,
    path: String,
    /// Each job process has a data port of its own, so there is none of the taskmanager.
    data_port: i32,
    /// In Flink, too, a point in time, whatever its name says.
    time_since_last_heartbeat: i64,
    slots_number: usize,
    free_slots: usize,
    host: String,
    pid: u32,
    version: String,
    incarnation: String,
    connected: bool,
    registered_at: i64,
}

impl TaskmanagerJson {
    fn new(taskmanager: &TaskmanagerView) -> Self {
        Self {
            id: taskmanager.id.to_string(),
            path: taskmanager.advertised_host.clone(),
            data_port: -1,
            time_since_last_heartbeat: taskmanager.heard_at.as_millis(),
            slots_number: taskmanager.slots_total,
            free_slots: taskmanager.slots_available,
            host: taskmanager.host.clone(),
            pid: taskmanager.pid,
            version: taskmanager.version.clone(),
            // A random 64-bit number would lose digits in a JSON reader that knows doubles only.
            incarnation: taskmanager.incarnation.to_string(),
            connected: taskmanager.is_connected,
            registered_at: taskmanager.registered_at.as_millis(),
        }
    }
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct TaskmanagerDetailsJson {
    #[serde(flatten)]
    taskmanager: TaskmanagerJson,
    allocated_slots: Vec<SlotJson>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct SlotJson {
    index: u32,
    job_id: String,
}

impl TaskmanagerDetailsJson {
    pub(crate) fn new(taskmanager: &TaskmanagerView) -> Self {
        let slots = taskmanager.slots.iter().map(|report| SlotJson {
            index: report.slot.0,
            job_id: report.job.to_string(),
        });
        Self {
            taskmanager: TaskmanagerJson::new(taskmanager),
            allocated_slots: slots.collect(),
        }
    }
}
