//! Facts in the form in which they cross the wire.

use millstream_coordination::chain::TerminalState;
use millstream_coordination::checkpoint::CheckpointRecord;
use millstream_coordination::failure::FailureRecord;
use millstream_coordination::job::JobStatus;
use millstream_coordination::protocol::TaskAddress;
use millstream_rpc::jobs::{
    CheckpointFailureInfo, CheckpointInfo, CheckpointSubtaskInfo, CheckpointsInfo, JobEndInfo,
    JobEvent, JobFailure, JobInfo, JobSummary, SettingInfo, SlotWaitInfo, SubtaskInfo, VertexInfo,
    VertexInputInfo,
};

use crate::{
    CheckpointsDetails, EndFailure, JobDetails, JobEnded, JobOverview, SubtaskDetails,
    VertexDetails,
};

pub(super) fn summary(job: &JobOverview) -> JobSummary {
    JobSummary {
        id: job.id,
        name: job.name.clone(),
        status: job.status,
        started_at: job.started_at,
        ended_at: job.ended_at,
        last_modified_at: job.last_modified_at,
        tasks: job
            .tasks
            .iter()
            .map(|(state, n)| (*state, count(*n)))
            .collect(),
        restarts: job.restarts,
    }
}

fn count(n: usize) -> u32 {
    u32::try_from(n).unwrap_or(u32::MAX)
}

pub(super) fn info(job: &JobDetails) -> JobInfo {
    let settings = job.settings.iter().map(|setting| SettingInfo {
        key: setting.key.clone(),
        value: setting.value.clone(),
        origin: setting.origin.clone(),
    });
    let waves = job.failures.entries().rev();
    let failures = waves.flat_map(|wave| std::iter::once(&wave.root).chain(&wave.concurrent));
    JobInfo {
        summary: summary(&job.overview),
        epoch: job.epoch,
        slot_wait: job.slot_wait.map(|wait| SlotWaitInfo {
            needed: count(wait.needed),
            free: count(wait.free),
            since: wait.since,
        }),
        vertices: job.vertices.iter().map(vertex).collect(),
        settings: settings.collect(),
        warnings: job.warnings.clone(),
        failures: failures.map(failure).collect(),
        end: job.end.as_ref().map(end),
    }
}

fn vertex(vertex: &VertexDetails) -> VertexInfo {
    let inputs = vertex.inputs.iter().map(|input| VertexInputInfo {
        from: input.from,
        ship_strategy: input.ship_strategy.to_owned(),
    });
    VertexInfo {
        id: vertex.id,
        name: vertex.name.clone(),
        operators: vertex
            .operators
            .iter()
            .map(|uid| uid.as_str().to_owned())
            .collect(),
        parallelism: vertex.parallelism,
        max_parallelism: vertex.max_parallelism.get(),
        inputs: inputs.collect(),
        subtasks: vertex.subtasks.iter().map(subtask).collect(),
    }
}

fn subtask(subtask: &SubtaskDetails) -> SubtaskInfo {
    let metrics = subtask.metrics.as_ref();
    SubtaskInfo {
        index: subtask.index,
        attempt: subtask.attempt,
        state: subtask.state,
        taskmanager: subtask.slot.as_ref().map(|slot| slot.taskmanager.clone()),
        host: subtask.host.clone(),
        activity: subtask.activity.clone(),
        records_in: metrics.map_or(0, |m| m.records_in),
        records_out: metrics.map_or(0, |m| m.records_out),
        bytes_in: metrics.map_or(0, |m| m.bytes_in),
        bytes_out: metrics.map_or(0, |m| m.bytes_out),
        bad_records: metrics.map_or(0, |m| m.bad_records),
    }
}

fn failure(record: &FailureRecord) -> JobFailure {
    let task = record.task.as_ref();
    JobFailure {
        failed_at: record.failed_at,
        task: task.map(|task| task.name.clone()),
        taskmanager: task.and_then(|task| Some(task.taskmanager.as_ref()?.to_string())),
        kind: record.failure.kind.to_string(),
        operator: record.failure.operator.clone(),
        message: record.failure.message.clone(),
        causes: record.failure.causes.clone(),
        remedy: record.failure.remedy.clone(),
    }
}

fn end(ended: &JobEnded) -> JobEndInfo {
    let failure = ended
        .failure
        .as_ref()
        .map(|failure: &EndFailure| JobFailure {
            failed_at: failure.failed_at,
            task: failure.task.clone(),
            taskmanager: failure.taskmanager.clone(),
            kind: failure.kind.clone(),
            operator: failure.operator.clone(),
            message: failure.message.clone(),
            causes: failure.causes.clone(),
            remedy: failure.remedy.clone(),
        });
    JobEndInfo {
        status: match ended.state {
            TerminalState::Finished => JobStatus::Finished,
            TerminalState::Canceled => JobStatus::Canceled,
            TerminalState::Failed => JobStatus::Failed,
        },
        headline: ended.headline.clone(),
        failure,
    }
}

/// An event of a watched job.
pub fn event(event: crate::JobEvent) -> JobEvent {
    match event {
        crate::JobEvent::StatusChanged {
            status,
            at,
            failure,
        } => JobEvent::Status {
            status,
            at,
            failure,
        },
        crate::JobEvent::Output { subtask, lines } => JobEvent::Output { subtask, lines },
        crate::JobEvent::OutputDropped { lines } => JobEvent::OutputDropped { lines },
        crate::JobEvent::Ended(ended) => JobEvent::Ended(end(&ended)),
    }
}

pub(super) fn checkpoints(details: &CheckpointsDetails) -> CheckpointsInfo {
    let counts = details.history.counts();
    CheckpointsInfo {
        directory: details.directory.clone(),
        completed: counts.completed,
        failed: counts.failed,
        refused: counts.refused,
        restored: details.restored,
        latest_restored: details.history.latest_restored().map(|r| r.id),
        checkpoints: details.history.records().map(checkpoint).collect(),
    }
}

fn checkpoint(record: &CheckpointRecord) -> CheckpointInfo {
    let failure = record
        .failure
        .as_ref()
        .map(|failure| CheckpointFailureInfo {
            failed_at: failure.failed_at,
            reason: failure.reason.to_string(),
            message: failure.message.clone(),
        });
    let subtasks = record.subtasks.iter().map(|(subtask, asked)| {
        let acknowledged = asked.acknowledged.as_ref();
        CheckpointSubtaskInfo {
            task: TaskAddress {
                subtask: *subtask,
                attempt: asked.attempt,
            },
            acknowledged_at: acknowledged.map(|ack| ack.acknowledged_at),
            is_late: acknowledged.is_some_and(|ack| ack.is_late),
            state_bytes: acknowledged.map_or(0, |ack| ack.state_bytes),
            metrics: acknowledged.map(|ack| ack.metrics).unwrap_or_default(),
            activity: asked.activity.clone(),
        }
    });
    CheckpointInfo {
        id: record.id,
        epoch: record.epoch,
        kind: record.kind,
        status: record.status,
        triggered_at: record.triggered_at,
        duration: record.duration,
        finalization: record.finalization,
        state_bytes: record.state_bytes,
        metadata: record.metadata.as_ref().map(ToString::to_string),
        is_discarded: record.is_discarded,
        failure,
        subtasks: subtasks.collect(),
    }
}
