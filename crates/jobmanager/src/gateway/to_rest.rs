//! Facts in the form in which REST and the page show them.

use millstream_rest::{
    CheckpointsView, ClusterSummary, FailuresView, JobRow, JobView, SlotWaitView, SubtaskView,
    TaskmanagerView, VertexInputView, VertexView,
};

use crate::{
    CheckpointsDetails, ClusterOverview, JobDetails, JobOverview, SubtaskDetails,
    TaskmanagerDetails, VertexDetails,
};

pub(super) fn overview(cluster: &ClusterOverview) -> ClusterSummary {
    ClusterSummary {
        taskmanagers: cluster.taskmanagers,
        slots_total: cluster.slots_total,
        slots_available: cluster.slots_available,
        jobs_running: cluster.jobs_running,
        jobs_suspended: cluster.jobs_suspended,
        jobs_finished: cluster.jobs_finished,
        jobs_cancelled: cluster.jobs_cancelled,
        jobs_failed: cluster.jobs_failed,
        is_recovering: cluster.is_recovering,
    }
}

pub(super) fn row(job: JobOverview) -> JobRow {
    JobRow {
        id: job.id,
        name: job.name,
        status: job.status,
        started_at: job.started_at,
        ended_at: job.ended_at,
        last_modified_at: job.last_modified_at,
        tasks: job.tasks,
        restarts: job.restarts,
    }
}

pub(super) fn job(job: JobDetails) -> JobView {
    let newest = job.failures.entries().next_back();
    let failures = FailuresView {
        newest: newest.map(|wave| wave.root.clone()),
        n_concurrent: newest.map_or(0, |wave| {
            wave.concurrent.len() + wave.concurrent_dropped as usize
        }),
        first: job.failures.first_of_loop().map(|wave| wave.root.clone()),
        repeated: job.failures.repeated(),
    };
    JobView {
        row: row(job.overview),
        status_since: job.status_since,
        slot_wait: job.slot_wait.map(|wait| SlotWaitView {
            needed: wait.needed,
            free: wait.free,
            since: wait.since,
        }),
        vertices: job.vertices.into_iter().map(vertex).collect(),
        failures,
        ended: job.end.map(|end| end.headline),
    }
}

fn vertex(vertex: VertexDetails) -> VertexView {
    let inputs = vertex.inputs.iter();
    let inputs = inputs.map(|input| VertexInputView {
        from: input.from,
        ship_strategy: input.ship_strategy,
    });
    VertexView {
        id: vertex.id,
        name: vertex.name,
        max_parallelism: vertex.max_parallelism,
        slot_sharing_group: vertex.slot_sharing_group,
        inputs: inputs.collect(),
        subtasks: vertex.subtasks.into_iter().map(subtask).collect(),
    }
}

fn subtask(subtask: SubtaskDetails) -> SubtaskView {
    SubtaskView {
        attempt: subtask.attempt,
        state: subtask.state,
        state_since: subtask.state_since,
        slot: subtask.slot,
        activity: subtask.activity,
        metrics: subtask.metrics,
    }
}

pub(super) fn checkpoints(details: &CheckpointsDetails) -> CheckpointsView {
    let history = &details.history;
    CheckpointsView {
        records: history.records().cloned().collect(),
        latest_completed: history.latest_completed().cloned(),
        latest_failed: history.latest_failed().cloned(),
        latest_restored: history.latest_restored(),
        counts: history.counts(),
        n_in_progress: details.in_progress.len(),
        restored: details.restored,
        consecutive_failures: details.consecutive_failures,
        directory: details.directory.clone(),
    }
}

pub(super) fn taskmanager(taskmanager: TaskmanagerDetails) -> TaskmanagerView {
    TaskmanagerView {
        id: taskmanager.id,
        incarnation: taskmanager.incarnation,
        host: taskmanager.host,
        advertised_host: taskmanager.advertised_host,
        pid: taskmanager.pid,
        version: taskmanager.version,
        slots_total: taskmanager.slots_total,
        slots_available: taskmanager.slots_available,
        slots: taskmanager.slots,
        is_connected: taskmanager.is_connected,
        registered_at: taskmanager.registered_at,
        heard_at: taskmanager.heard_at,
    }
}
