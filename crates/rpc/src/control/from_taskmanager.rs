//! Messages of a taskmanager.

use millstream_coordination::job::ReportedTask;
use millstream_coordination::protocol::{
    DeclineMessage, FromTaskmanager, JobTasks, OutputLines, Registration, SlotReport,
    SnapshotMessage, SubtaskMetrics, TaskReport, TaskmanagerHeartbeat,
};
use millstream_coordination::snapshot_types::TaskSnapshot;
use millstream_types::{Epoch, EventTime, Incarnation, ObjectName, SlotIndex};

use super::common::{
    address_from_wire, address_to_wire, checkpoint_from_wire, failure_from_wire, failure_to_wire,
    job_from_wire, job_id_from_wire, job_to_wire, reason_from_wire, reason_to_wire,
    state_from_wire, state_to_wire, subtask_from_wire, subtask_to_wire, task_from_wire,
    task_to_wire, taskmanager_from_wire,
};
use super::state::{metrics_from_wire, metrics_to_wire, operators_from_wire, operators_to_wire};
use crate::error::{DecodeError, invalid, missing};
use crate::pb::{self, from_taskmanager::Message};
use crate::scalar::{duration_from_wire, duration_to_wire};

pub(super) fn to_wire(message: &FromTaskmanager) -> pb::FromTaskmanager {
    let message = match message {
        FromTaskmanager::Register(new) => Message::Register(register_to_wire(new)),
        FromTaskmanager::Heartbeat(heartbeat) => Message::Heartbeat(heartbeat_to_wire(heartbeat)),
        FromTaskmanager::JobProcessStarted {
            job,
            epoch,
            address,
        } => {
            let (job, address) = (job_to_wire(*job, *epoch), Some(address_to_wire(address)));
            Message::JobProcessStarted(pb::JobProcessStarted { job, address })
        }
        FromTaskmanager::JobProcessFailed {
            job,
            epoch,
            failure,
        } => {
            let (job, failure) = (job_to_wire(*job, *epoch), Some(failure_to_wire(failure)));
            Message::JobProcessFailed(pb::JobProcessFailed { job, failure })
        }
        FromTaskmanager::SubtaskState {
            job,
            epoch,
            subtask,
            attempt,
            state,
            failure,
        } => Message::SubtaskState(pb::SubtaskStateChange {
            job: job_to_wire(*job, *epoch),
            task: Some(task_to_wire((*subtask, *attempt).into())),
            state: state_to_wire(*state),
            failure: failure.as_ref().map(failure_to_wire),
        }),
        FromTaskmanager::Acknowledge(message) => Message::Acknowledge(ack_to_wire(message)),
        FromTaskmanager::Decline(message) => Message::Decline(decline_to_wire(message)),
        FromTaskmanager::UploadStopped {
            job,
            epoch,
            subtask,
            checkpoint,
            objects,
        } => Message::UploadStopped(pb::UploadStopped {
            job: job_to_wire(*job, *epoch),
            subtask: subtask_to_wire(*subtask),
            checkpoint_id: checkpoint.0,
            objects: objects.iter().map(ToString::to_string).collect(),
        }),
        FromTaskmanager::EndOfData {
            job,
            epoch,
            subtask,
            attempt,
        } => {
            let task = Some(task_to_wire((*subtask, *attempt).into()));
            Message::EndOfData(pb::EndOfData {
                job: job_to_wire(*job, *epoch),
                task,
            })
        }
        FromTaskmanager::SlotFreed { slot } => Message::SlotFreed(pb::SlotFreed { slot: slot.0 }),
        FromTaskmanager::Output(output) => Message::Output(output_to_wire(output)),
        FromTaskmanager::Metrics(metrics) => {
            let tasks = metrics.iter().map(task_metrics_to_wire).collect();
            Message::Metrics(pb::MetricsReport { tasks })
        }
        FromTaskmanager::Leaving => Message::Leaving(pb::Leaving {}),
    };
    pb::FromTaskmanager {
        message: Some(message),
    }
}

pub(super) fn from_wire(message: pb::FromTaskmanager) -> Result<FromTaskmanager, DecodeError> {
    Ok(
        match message
            .message
            .ok_or(missing("FromTaskmanager", "message"))?
        {
            Message::Register(message) => FromTaskmanager::Register(register_from_wire(message)?),
            Message::Heartbeat(message) => {
                FromTaskmanager::Heartbeat(heartbeat_from_wire(message)?)
            }
            Message::JobProcessStarted(message) => started_from_wire(message)?,
            Message::JobProcessFailed(message) => failed_from_wire(message)?,
            Message::SubtaskState(message) => state_change_from_wire(message)?,
            Message::Acknowledge(message) => {
                FromTaskmanager::Acknowledge(Box::new(ack_from_wire(message)?))
            }
            Message::Decline(message) => {
                FromTaskmanager::Decline(Box::new(decline_from_wire(message)?))
            }
            Message::UploadStopped(message) => {
                const STOPPED: &str = "UploadStopped";
                let (job, epoch) = job_from_wire(STOPPED, message.job)?;
                FromTaskmanager::UploadStopped {
                    job,
                    epoch,
                    subtask: subtask_from_wire(STOPPED, message.subtask)?,
                    checkpoint: checkpoint_from_wire(
                        STOPPED,
                        "checkpoint_id",
                        message.checkpoint_id,
                    )?,
                    objects: message
                        .objects
                        .iter()
                        .map(|name| ObjectName::new(name))
                        .collect::<Result<_, _>>()
                        .map_err(|error| invalid(STOPPED, "objects", error.to_string()))?,
                }
            }
            Message::EndOfData(message) => {
                let (job, epoch) = job_from_wire("EndOfData", message.job)?;
                let task = task_from_wire("EndOfData", message.task)?;
                FromTaskmanager::EndOfData {
                    job,
                    epoch,
                    subtask: task.subtask,
                    attempt: task.attempt,
                }
            }
            Message::SlotFreed(message) => FromTaskmanager::SlotFreed {
                slot: SlotIndex(message.slot),
            },
            Message::Output(message) => FromTaskmanager::Output(output_from_wire(message)?),
            Message::Metrics(message) => {
                let tasks: Result<_, _> = message
                    .tasks
                    .into_iter()
                    .map(task_metrics_from_wire)
                    .collect();
                FromTaskmanager::Metrics(tasks?)
            }
            Message::Leaving(_) => FromTaskmanager::Leaving,
        },
    )
}

fn started_from_wire(message: pb::JobProcessStarted) -> Result<FromTaskmanager, DecodeError> {
    const STARTED: &str = "JobProcessStarted";
    let (job, epoch) = job_from_wire(STARTED, message.job)?;
    let address = address_from_wire(message.address.ok_or(missing(STARTED, "address"))?)?;
    Ok(FromTaskmanager::JobProcessStarted {
        job,
        epoch,
        address,
    })
}

fn failed_from_wire(message: pb::JobProcessFailed) -> Result<FromTaskmanager, DecodeError> {
    const FAILED: &str = "JobProcessFailed";
    let (job, epoch) = job_from_wire(FAILED, message.job)?;
    let failure = failure_from_wire(message.failure.ok_or(missing(FAILED, "failure"))?)?;
    Ok(FromTaskmanager::JobProcessFailed {
        job,
        epoch,
        failure,
    })
}

fn state_change_from_wire(message: pb::SubtaskStateChange) -> Result<FromTaskmanager, DecodeError> {
    const CHANGE: &str = "SubtaskStateChange";
    let (job, epoch) = job_from_wire(CHANGE, message.job)?;
    let task = task_from_wire(CHANGE, message.task)?;
    Ok(FromTaskmanager::SubtaskState {
        job,
        epoch,
        subtask: task.subtask,
        attempt: task.attempt,
        state: state_from_wire(CHANGE, "state", message.state)?,
        failure: message.failure.map(failure_from_wire).transpose()?,
    })
}

fn register_to_wire(registration: &Registration) -> pb::Registration {
    pb::Registration {
        id: registration.id.to_string(),
        incarnation: registration.incarnation.0,
        slots: registration.slots,
        advertised_host: registration.advertised_host.clone(),
        host: registration.host.clone(),
        pid: registration.pid,
        version: registration.version.clone(),
    }
}

fn register_from_wire(message: pb::Registration) -> Result<Registration, DecodeError> {
    Ok(Registration {
        id: taskmanager_from_wire("Registration", "id", &message.id)?,
        incarnation: Incarnation(message.incarnation),
        slots: message.slots,
        advertised_host: message.advertised_host,
        host: message.host,
        pid: message.pid,
        version: message.version,
    })
}

fn heartbeat_to_wire(heartbeat: &TaskmanagerHeartbeat) -> pb::TaskmanagerHeartbeat {
    let slot = |report: &SlotReport| pb::SlotReport {
        slot: report.slot.0,
        job: job_to_wire(report.job, report.epoch),
    };
    let task = |report: &TaskReport| pb::TaskReport {
        epoch: report.task.epoch.0,
        task: Some(task_to_wire(
            (report.task.subtask, report.task.attempt).into(),
        )),
        state: state_to_wire(report.task.state),
        activity: report.activity.clone(),
    };
    let job = |job: &JobTasks| pb::JobTasks {
        job_id: job.job.as_bytes().to_vec().into(),
        tasks: job.tasks.iter().map(task).collect(),
    };
    pb::TaskmanagerHeartbeat {
        slots: heartbeat.slots.iter().map(slot).collect(),
        jobs: heartbeat.jobs.iter().map(job).collect(),
    }
}

fn heartbeat_from_wire(
    message: pb::TaskmanagerHeartbeat,
) -> Result<TaskmanagerHeartbeat, DecodeError> {
    let slot = |report: pb::SlotReport| {
        let (job, epoch) = job_from_wire("SlotReport", report.job)?;
        Ok(SlotReport {
            slot: SlotIndex(report.slot),
            job,
            epoch,
        })
    };
    let task = |report: pb::TaskReport| {
        let task = task_from_wire("TaskReport", report.task)?;
        let state = state_from_wire("TaskReport", "state", report.state)?;
        let task = ReportedTask {
            epoch: Epoch(report.epoch),
            subtask: task.subtask,
            attempt: task.attempt,
            state,
        };
        Ok(TaskReport {
            task,
            activity: report.activity,
        })
    };
    let job = |job: pb::JobTasks| {
        let tasks: Result<_, DecodeError> = job.tasks.into_iter().map(task).collect();
        Ok(JobTasks {
            job: job_id_from_wire("JobTasks", "job_id", &job.job_id)?,
            tasks: tasks?,
        })
    };
    let slots: Result<_, DecodeError> = message.slots.into_iter().map(slot).collect();
    let jobs: Result<_, DecodeError> = message.jobs.into_iter().map(job).collect();
    Ok(TaskmanagerHeartbeat {
        slots: slots?,
        jobs: jobs?,
    })
}

fn ack_to_wire(message: &SnapshotMessage) -> pb::SnapshotAcknowledgement {
    pb::SnapshotAcknowledgement {
        job: job_to_wire(message.job, message.epoch),
        task: Some(task_to_wire(message.task)),
        checkpoint_id: message.checkpoint.0,
        operators: operators_to_wire(&message.snapshot.operators),
        metrics: Some(metrics_to_wire(&message.metrics)),
    }
}

fn ack_from_wire(message: pb::SnapshotAcknowledgement) -> Result<SnapshotMessage, DecodeError> {
    const ACK: &str = "SnapshotAcknowledgement";
    let (job, epoch) = job_from_wire(ACK, message.job)?;
    Ok(SnapshotMessage {
        job,
        epoch,
        task: task_from_wire(ACK, message.task)?,
        checkpoint: checkpoint_from_wire(ACK, "checkpoint_id", message.checkpoint_id)?,
        snapshot: TaskSnapshot {
            operators: operators_from_wire(message.operators)?,
        },
        metrics: metrics_from_wire(message.metrics.ok_or(missing(ACK, "metrics"))?)?,
    })
}

fn decline_to_wire(message: &DeclineMessage) -> pb::SnapshotDecline {
    pb::SnapshotDecline {
        job: job_to_wire(message.job, message.epoch),
        task: Some(task_to_wire(message.task)),
        checkpoint_id: message.checkpoint.0,
        reason: reason_to_wire(message.reason),
        message: message.message.clone(),
    }
}

fn decline_from_wire(message: pb::SnapshotDecline) -> Result<DeclineMessage, DecodeError> {
    const DECLINE: &str = "SnapshotDecline";
    let (job, epoch) = job_from_wire(DECLINE, message.job)?;
    Ok(DeclineMessage {
        job,
        epoch,
        task: task_from_wire(DECLINE, message.task)?,
        checkpoint: checkpoint_from_wire(DECLINE, "checkpoint_id", message.checkpoint_id)?,
        reason: reason_from_wire(DECLINE, "reason", message.reason)?,
        message: message.message,
    })
}

fn output_to_wire(output: &OutputLines) -> pb::OutputLines {
    pb::OutputLines {
        job: job_to_wire(output.job, output.epoch),
        subtask: subtask_to_wire(output.subtask),
        lines: output.lines.clone(),
        dropped: output.dropped,
    }
}

fn output_from_wire(message: pb::OutputLines) -> Result<OutputLines, DecodeError> {
    let (job, epoch) = job_from_wire("OutputLines", message.job)?;
    let subtask = subtask_from_wire("OutputLines", message.subtask)?;
    Ok(OutputLines {
        job,
        epoch,
        subtask,
        lines: message.lines,
        dropped: message.dropped,
    })
}

fn task_metrics_to_wire(metrics: &SubtaskMetrics) -> pb::SubtaskMetrics {
    pb::SubtaskMetrics {
        job: job_to_wire(metrics.job, metrics.epoch),
        task: Some(task_to_wire(metrics.task)),
        records_in: metrics.records_in,
        records_out: metrics.records_out,
        bytes_in: metrics.bytes_in,
        bytes_out: metrics.bytes_out,
        bad_records: metrics.bad_records,
        busy: Some(duration_to_wire(metrics.busy)),
        idle: Some(duration_to_wire(metrics.idle)),
        backpressured: Some(duration_to_wire(metrics.backpressured)),
        watermark_ms: metrics.watermark.map(|watermark| watermark.0),
    }
}

fn task_metrics_from_wire(message: pb::SubtaskMetrics) -> Result<SubtaskMetrics, DecodeError> {
    const METRICS: &str = "SubtaskMetrics";
    let (job, epoch) = job_from_wire(METRICS, message.job)?;
    let duration = |field, found| duration_from_wire(METRICS, field, found);
    Ok(SubtaskMetrics {
        job,
        epoch,
        task: task_from_wire(METRICS, message.task)?,
        records_in: message.records_in,
        records_out: message.records_out,
        bytes_in: message.bytes_in,
        bytes_out: message.bytes_out,
        bad_records: message.bad_records,
        busy: duration("busy", message.busy)?,
        idle: duration("idle", message.idle)?,
        backpressured: duration("backpressured", message.backpressured)?,
        watermark: message.watermark_ms.map(EventTime),
    })
}
