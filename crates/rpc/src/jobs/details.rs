//! Jobs, vertices and failures on the wire.

use std::collections::BTreeMap;

use millstream_coordination::job::{ExecutionState, JobStatus};
use millstream_types::{Attempt, Epoch, JobId, VertexId, WallTime};

use super::types::{
    JobEndInfo, JobFailure, JobInfo, JobSummary, SettingInfo, SlotWaitInfo, SubtaskInfo,
    VertexInfo, VertexInputInfo,
};
use crate::control::common::{state_from_wire, state_to_wire, taskmanager_from_wire, wire_enum};
use crate::error::{DecodeError, invalid, missing, unknown};
use crate::pb;
use crate::scalar::{time_from_wire, time_to_wire};

wire_enum!(status_to_wire, status_from_wire: JobStatus = JobStatus {
    Initializing = Initializing,
    Created = Created,
    Running = Running,
    Failing = Failing,
    Failed = Failed,
    Cancelling = Cancelling,
    Canceled = Canceled,
    Finished = Finished,
    Restarting = Restarting,
    Suspended = Suspended,
});

pub(super) fn job_id_from_text(message: &'static str, text: &str) -> Result<JobId, DecodeError> {
    text.parse()
        .map_err(|error| invalid(message, "job_id", format!("is refused: {error}")))
}

pub(super) fn summary_to_wire(summary: &JobSummary) -> pb::JobSummary {
    let task = |(state, count): (&ExecutionState, &u32)| pb::TaskCount {
        state: state_to_wire(*state),
        count: *count,
    };
    pb::JobSummary {
        job_id: summary.id.to_string(),
        name: summary.name.clone(),
        status: status_to_wire(summary.status),
        started_at: Some(time_to_wire(summary.started_at)),
        ended_at: summary.ended_at.map(time_to_wire),
        last_modified_at: Some(time_to_wire(summary.last_modified_at)),
        tasks: summary.tasks.iter().map(task).collect(),
        restarts: summary.restarts,
    }
}

pub(super) fn summary_from_wire(message: pb::JobSummary) -> Result<JobSummary, DecodeError> {
    const SUMMARY: &str = "JobSummary";
    let mut tasks = BTreeMap::new();
    for pb::TaskCount { state, count } in message.tasks {
        tasks.insert(state_from_wire("TaskCount", "state", state)?, count);
    }
    let time = |field, found| time_from_wire(SUMMARY, field, found);
    let ended_at = message
        .ended_at
        .map(|ended| time("ended_at", Some(ended)))
        .transpose()?;
    Ok(JobSummary {
        id: job_id_from_text(SUMMARY, &message.job_id)?,
        name: message.name,
        status: status_from_wire(SUMMARY, "status", message.status)?,
        started_at: time("started_at", message.started_at)?,
        ended_at,
        last_modified_at: time("last_modified_at", message.last_modified_at)?,
        tasks,
        restarts: message.restarts,
    })
}

pub(super) fn job_to_wire(job: &JobInfo) -> pb::GetJobResponse {
    let setting = |setting: &SettingInfo| pb::EffectiveSetting {
        key: setting.key.clone(),
        value: setting.value.clone(),
        origin: setting.origin.clone(),
    };
    pb::GetJobResponse {
        summary: Some(summary_to_wire(&job.summary)),
        epoch: job.epoch.map(|epoch| epoch.0),
        slot_wait: job.slot_wait.map(|wait| pb::SlotWait {
            needed: wait.needed,
            free: wait.free,
            since: Some(time_to_wire(wait.since)),
        }),
        vertices: job.vertices.iter().map(vertex_to_wire).collect(),
        settings: job.settings.iter().map(setting).collect(),
        warnings: job.warnings.clone(),
        failures: job.failures.iter().map(failure_to_wire).collect(),
        end: job.end.as_ref().map(end_to_wire),
    }
}

pub(super) fn job_from_wire(message: pb::GetJobResponse) -> Result<JobInfo, DecodeError> {
    let setting = |setting: pb::EffectiveSetting| SettingInfo {
        key: setting.key,
        value: setting.value,
        origin: setting.origin,
    };
    let summary = message
        .summary
        .ok_or(missing("GetJobResponse", "summary"))?;
    let vertices: Result<_, _> = message.vertices.into_iter().map(vertex_from_wire).collect();
    let failures: Result<_, _> = message
        .failures
        .into_iter()
        .map(failure_from_wire)
        .collect();
    Ok(JobInfo {
        summary: summary_from_wire(summary)?,
        epoch: message.epoch.map(Epoch),
        slot_wait: message.slot_wait.map(slot_wait_from_wire).transpose()?,
        vertices: vertices?,
        settings: message.settings.into_iter().map(setting).collect(),
        warnings: message.warnings,
        failures: failures?,
        end: message.end.map(end_from_wire).transpose()?,
    })
}

fn slot_wait_from_wire(message: pb::SlotWait) -> Result<SlotWaitInfo, DecodeError> {
    Ok(SlotWaitInfo {
        needed: message.needed,
        free: message.free,
        since: time_from_wire("SlotWait", "since", message.since)?,
    })
}

fn vertex_to_wire(vertex: &VertexInfo) -> pb::VertexInfo {
    let input = |input: &VertexInputInfo| pb::VertexInput {
        from: input.from.0,
        ship_strategy: input.ship_strategy.clone(),
    };
    pb::VertexInfo {
        id: vertex.id.0,
        name: vertex.name.clone(),
        operators: vertex.operators.clone(),
        parallelism: vertex.parallelism,
        max_parallelism: vertex.max_parallelism,
        inputs: vertex.inputs.iter().map(input).collect(),
        subtasks: vertex.subtasks.iter().map(subtask_to_wire).collect(),
    }
}

fn vertex_from_wire(message: pb::VertexInfo) -> Result<VertexInfo, DecodeError> {
    let input = |input: pb::VertexInput| VertexInputInfo {
        from: VertexId(input.from),
        ship_strategy: input.ship_strategy,
    };
    let subtasks: Result<_, _> = message
        .subtasks
        .into_iter()
        .map(subtask_from_wire)
        .collect();
    Ok(VertexInfo {
        id: VertexId(message.id),
        name: message.name,
        operators: message.operators,
        parallelism: message.parallelism,
        max_parallelism: message.max_parallelism,
        inputs: message.inputs.into_iter().map(input).collect(),
        subtasks: subtasks?,
    })
}

fn subtask_to_wire(subtask: &SubtaskInfo) -> pb::SubtaskInfo {
    pb::SubtaskInfo {
        index: subtask.index,
        attempt: subtask.attempt.0,
        state: state_to_wire(subtask.state),
        taskmanager_id: subtask.taskmanager.as_ref().map(ToString::to_string),
        host: subtask.host.clone(),
        activity: subtask.activity.clone(),
        records_in: subtask.records_in,
        records_out: subtask.records_out,
        bytes_in: subtask.bytes_in,
        bytes_out: subtask.bytes_out,
        bad_records: subtask.bad_records,
    }
}

fn subtask_from_wire(message: pb::SubtaskInfo) -> Result<SubtaskInfo, DecodeError> {
    const SUBTASK: &str = "SubtaskInfo";
    let taskmanager = message.taskmanager_id.as_deref();
    let taskmanager = taskmanager.map(|id| taskmanager_from_wire(SUBTASK, "taskmanager_id", id));
    Ok(SubtaskInfo {
        index: message.index,
        attempt: Attempt(message.attempt),
        state: state_from_wire(SUBTASK, "state", message.state)?,
        taskmanager: taskmanager.transpose()?,
        host: message.host,
        activity: message.activity,
        records_in: message.records_in,
        records_out: message.records_out,
        bytes_in: message.bytes_in,
        bytes_out: message.bytes_out,
        bad_records: message.bad_records,
    })
}

fn failure_to_wire(failure: &JobFailure) -> pb::FailureRecord {
    pb::FailureRecord {
        failed_at: Some(time_to_wire(failure.failed_at)),
        task: failure.task.clone(),
        taskmanager_id: failure.taskmanager.clone(),
        kind: failure.kind.clone(),
        operator: failure.operator.clone(),
        message: failure.message.clone(),
        causes: failure.causes.clone(),
        remedy: failure.remedy.clone(),
    }
}

fn failure_from_wire(message: pb::FailureRecord) -> Result<JobFailure, DecodeError> {
    let failed_at: WallTime = time_from_wire("FailureRecord", "failed_at", message.failed_at)?;
    Ok(JobFailure {
        failed_at,
        task: message.task,
        taskmanager: message.taskmanager_id,
        kind: message.kind,
        operator: message.operator,
        message: message.message,
        causes: message.causes,
        remedy: message.remedy,
    })
}

pub(super) fn end_to_wire(end: &JobEndInfo) -> pb::JobEnd {
    pb::JobEnd {
        status: status_to_wire(end.status),
        headline: end.headline.clone(),
        failure: end.failure.as_ref().map(failure_to_wire),
    }
}

pub(super) fn end_from_wire(message: pb::JobEnd) -> Result<JobEndInfo, DecodeError> {
    Ok(JobEndInfo {
        status: status_from_wire("JobEnd", "status", message.status)?,
        headline: message.headline,
        failure: message.failure.map(failure_from_wire).transpose()?,
    })
}
