//! Checkpoints on the wire.

use std::time::Duration;

use millstream_coordination::checkpoint::CheckpointStatus;
use millstream_types::{CheckpointId, Epoch};

use super::types::{CheckpointFailureInfo, CheckpointInfo, CheckpointSubtaskInfo, CheckpointsInfo};
use crate::control::common::{
    checkpoint_from_wire, kind_from_wire, kind_to_wire, task_from_wire, task_to_wire, wire_enum,
};
use crate::control::state::{metrics_from_wire, metrics_to_wire};
use crate::error::{DecodeError, missing, unknown};
use crate::pb;
use crate::scalar::{duration_from_wire, duration_to_wire, time_from_wire, time_to_wire};

wire_enum!(status_to_wire, status_from_wire: CheckpointStatus = CheckpointStatus {
    InProgress = InProgress,
    Completed = Completed,
    Failed = Failed,
    Refused = Refused,
});

const INFO: &str = "CheckpointInfo";

pub(super) fn to_wire(info: &CheckpointsInfo) -> pb::GetCheckpointsResponse {
    pb::GetCheckpointsResponse {
        directory: info.directory.clone(),
        completed: info.completed,
        failed: info.failed,
        refused: info.refused,
        restored: info.restored,
        latest_restored_id: info.latest_restored.map(|id| id.0),
        checkpoints: info.checkpoints.iter().map(checkpoint_to_wire).collect(),
    }
}

pub(super) fn from_wire(
    message: pb::GetCheckpointsResponse,
) -> Result<CheckpointsInfo, DecodeError> {
    let id = |id| checkpoint_from_wire("GetCheckpointsResponse", "latest_restored_id", id);
    let latest_restored: Option<CheckpointId> = message.latest_restored_id.map(id).transpose()?;
    let rows: Result<_, _> = message.checkpoints.into_iter().map(row_from_wire).collect();
    Ok(CheckpointsInfo {
        directory: message.directory,
        completed: message.completed,
        failed: message.failed,
        refused: message.refused,
        restored: message.restored,
        latest_restored,
        checkpoints: rows?,
    })
}

fn checkpoint_to_wire(row: &CheckpointInfo) -> pb::CheckpointInfo {
    let failure = |failure: &CheckpointFailureInfo| pb::CheckpointFailure {
        failed_at: Some(time_to_wire(failure.failed_at)),
        reason: failure.reason.clone(),
        message: failure.message.clone(),
    };
    let subtask = |subtask: &CheckpointSubtaskInfo| pb::CheckpointSubtask {
        task: Some(task_to_wire(subtask.task)),
        acknowledged_at: subtask.acknowledged_at.map(time_to_wire),
        is_late: subtask.is_late,
        state_bytes: subtask.state_bytes,
        metrics: Some(metrics_to_wire(&subtask.metrics)),
        activity: subtask.activity.clone(),
    };
    pb::CheckpointInfo {
        id: row.id.map(|id| id.0),
        epoch: row.epoch.map(|epoch| epoch.0),
        kind: kind_to_wire(row.kind),
        status: status_to_wire(row.status),
        triggered_at: Some(time_to_wire(row.triggered_at)),
        duration: row.duration.map(duration_to_wire),
        finalization: row.finalization.map(duration_to_wire),
        state_bytes: row.state_bytes,
        metadata: row.metadata.clone(),
        is_discarded: row.is_discarded,
        failure: row.failure.as_ref().map(failure),
        subtasks: row.subtasks.iter().map(subtask).collect(),
    }
}

fn row_from_wire(message: pb::CheckpointInfo) -> Result<CheckpointInfo, DecodeError> {
    let duration = |field, found: Option<_>| -> Result<Option<Duration>, DecodeError> {
        found
            .map(|found| duration_from_wire(INFO, field, Some(found)))
            .transpose()
    };
    let id: Option<Result<_, _>> = message.id.map(|id| checkpoint_from_wire(INFO, "id", id));
    let subtasks: Result<_, _> = message
        .subtasks
        .into_iter()
        .map(subtask_from_wire)
        .collect();
    Ok(CheckpointInfo {
        id: id.transpose()?,
        epoch: message.epoch.map(Epoch),
        kind: kind_from_wire(INFO, "kind", message.kind)?,
        status: status_from_wire(INFO, "status", message.status)?,
        triggered_at: time_from_wire(INFO, "triggered_at", message.triggered_at)?,
        duration: duration("duration", message.duration)?,
        finalization: duration("finalization", message.finalization)?,
        state_bytes: message.state_bytes,
        metadata: message.metadata,
        is_discarded: message.is_discarded,
        failure: message.failure.map(failure_from_wire).transpose()?,
        subtasks: subtasks?,
    })
}

fn failure_from_wire(message: pb::CheckpointFailure) -> Result<CheckpointFailureInfo, DecodeError> {
    Ok(CheckpointFailureInfo {
        failed_at: time_from_wire("CheckpointFailure", "failed_at", message.failed_at)?,
        reason: message.reason,
        message: message.message,
    })
}

fn subtask_from_wire(message: pb::CheckpointSubtask) -> Result<CheckpointSubtaskInfo, DecodeError> {
    const SUBTASK: &str = "CheckpointSubtask";
    let time = |at| time_from_wire(SUBTASK, "acknowledged_at", Some(at));
    Ok(CheckpointSubtaskInfo {
        task: task_from_wire(SUBTASK, message.task)?,
        acknowledged_at: message.acknowledged_at.map(time).transpose()?,
        is_late: message.is_late,
        state_bytes: message.state_bytes,
        metrics: metrics_from_wire(message.metrics.ok_or(missing(SUBTASK, "metrics"))?)?,
        activity: message.activity,
    })
}
