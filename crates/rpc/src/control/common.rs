//! Ids, states and failures: what many messages hold.

use millstream_coordination::checkpoint::{CheckpointKind, DeclineReason};
use millstream_coordination::failure::{FailureInfo, FailureKind};
use millstream_coordination::job::ExecutionState;
use millstream_coordination::protocol::{CheckpointStorage, DataAddress, TaskAddress};
use millstream_types::{
    Attempt, CheckpointId, Disposition, Epoch, JobId, SubtaskId, TaskmanagerId, VertexId,
};

use crate::error::{DecodeError, invalid, missing, unknown};
use crate::pb;

/// The two conversions of an enum, total on both sides but for what the wire may hold besides.
macro_rules! wire_enum {
    ($to:ident, $from:ident: $domain:ident = $wire:ident { $($variant:ident = $name:ident,)* }) => {
        pub(crate) fn $to(value: $domain) -> i32 {
            match value {
                $($domain::$variant => pb::$wire::$name.into(),)*
            }
        }

        pub(crate) fn $from(
            message: &'static str,
            field: &'static str,
            found: i32,
        ) -> Result<$domain, DecodeError> {
            match pb::$wire::try_from(found) {
                $(Ok(pb::$wire::$name) => Ok($domain::$variant),)*
                Ok(pb::$wire::Unspecified) | Err(_) => Err(unknown(message, field, found)),
            }
        }
    };
}
pub(crate) use wire_enum;

wire_enum!(kind_to_wire, kind_from_wire: CheckpointKind = CheckpointKind {
    Periodic = Periodic,
    Manual = Manual,
    Final = Final,
});

wire_enum!(state_to_wire, state_from_wire: ExecutionState = ExecutionState {
    Created = Created,
    Scheduled = Scheduled,
    Deploying = Deploying,
    Initializing = Initializing,
    Running = Running,
    Canceling = Canceling,
    Canceled = Canceled,
    Finished = Finished,
    Failed = Failed,
});

wire_enum!(reason_to_wire, reason_from_wire: DeclineReason = DeclineReason {
    Generic = Generic,
    AsyncException = AsyncException,
    TaskNotReady = TaskNotReady,
    TaskClosing = TaskClosing,
    TaskNotCheckpointing = TaskNotCheckpointing,
    AlignmentLimit = AlignmentLimit,
    OnCancellationBarrier = OnCancellationBarrier,
    Subsumed = Subsumed,
    InputEndOfStream = InputEndOfStream,
});

wire_enum!(disposition_to_wire, disposition_from_wire: Disposition = Disposition {
    Retry = Retry,
    FailTask = FailTask,
    FailJob = FailJob,
    Fatal = Fatal,
});

wire_enum!(failure_kind_to_wire, failure_kind_from_wire: FailureKind = FailureKind {
    User = User,
    SynchronousSnapshot = SynchronousSnapshot,
    Restore = Restore,
    Connector = Connector,
    TaskmanagerLost = TaskmanagerLost,
    TaskmanagerLeaving = TaskmanagerLeaving,
    JobProcess = JobProcess,
    MemoryBudget = MemoryBudget,
    Link = Link,
    Deployment = Deployment,
    NoResourceAvailable = NoResourceAvailable,
    CheckpointTolerance = CheckpointTolerance,
    DataLoss = DataLoss,
    Internal = Internal,
});

pub(crate) fn job_id_from_wire(
    message: &'static str,
    field: &'static str,
    bytes: &[u8],
) -> Result<JobId, DecodeError> {
    let array = bytes
        .try_into()
        .map_err(|_| invalid(message, field, format!("has {} bytes, not 16", bytes.len())))?;
    Ok(JobId::from_bytes(array))
}

pub(crate) fn job_to_wire(job: JobId, epoch: Epoch) -> Option<pb::JobEpoch> {
    Some(pb::JobEpoch {
        job_id: job.as_bytes().to_vec().into(),
        epoch: epoch.0,
    })
}

pub(crate) fn job_from_wire(
    message: &'static str,
    job: Option<pb::JobEpoch>,
) -> Result<(JobId, Epoch), DecodeError> {
    let pb::JobEpoch { job_id, epoch } = job.ok_or(missing(message, "job"))?;
    Ok((
        job_id_from_wire("JobEpoch", "job_id", &job_id)?,
        Epoch(epoch),
    ))
}

pub(crate) fn subtask_to_wire(subtask: SubtaskId) -> Option<pb::SubtaskId> {
    Some(pb::SubtaskId {
        vertex: subtask.vertex.0,
        index: subtask.index,
    })
}

pub(crate) fn subtask_from_wire(
    message: &'static str,
    subtask: Option<pb::SubtaskId>,
) -> Result<SubtaskId, DecodeError> {
    let pb::SubtaskId { vertex, index } = subtask.ok_or(missing(message, "subtask"))?;
    Ok(SubtaskId::new(VertexId(vertex), index))
}

pub(crate) fn task_to_wire(task: TaskAddress) -> pb::TaskAddress {
    pb::TaskAddress {
        subtask: subtask_to_wire(task.subtask),
        attempt: task.attempt.0,
    }
}

pub(crate) fn task_from_wire(
    message: &'static str,
    task: Option<pb::TaskAddress>,
) -> Result<TaskAddress, DecodeError> {
    let pb::TaskAddress { subtask, attempt } = task.ok_or(missing(message, "task"))?;
    Ok(TaskAddress {
        subtask: subtask_from_wire("TaskAddress", subtask)?,
        attempt: Attempt(attempt),
    })
}

pub(crate) fn tasks_to_wire(tasks: &[TaskAddress]) -> Vec<pb::TaskAddress> {
    tasks.iter().map(|task| task_to_wire(*task)).collect()
}

pub(crate) fn tasks_from_wire(
    message: &'static str,
    tasks: Vec<pb::TaskAddress>,
) -> Result<Vec<TaskAddress>, DecodeError> {
    tasks
        .into_iter()
        .map(|task| task_from_wire(message, Some(task)))
        .collect()
}

pub(crate) fn checkpoint_from_wire(
    message: &'static str,
    field: &'static str,
    id: u64,
) -> Result<CheckpointId, DecodeError> {
    match id {
        0 => Err(invalid(message, field, "is 0, which no checkpoint is")),
        id => Ok(CheckpointId(id)),
    }
}

pub(crate) fn taskmanager_from_wire(
    message: &'static str,
    field: &'static str,
    id: &str,
) -> Result<TaskmanagerId, DecodeError> {
    TaskmanagerId::new(id).map_err(|error| invalid(message, field, format!("is refused: {error}")))
}

pub(crate) fn address_to_wire(address: &DataAddress) -> pb::DataAddress {
    pb::DataAddress {
        host: address.host.clone(),
        port: address.port.into(),
    }
}

pub(crate) fn address_from_wire(address: pb::DataAddress) -> Result<DataAddress, DecodeError> {
    let pb::DataAddress { host, port } = address;
    if host.is_empty() {
        return Err(missing("DataAddress", "host"));
    }
    match u16::try_from(port) {
        Ok(port) if port > 0 => Ok(DataAddress { host, port }),
        _ => Err(invalid(
            "DataAddress",
            "port",
            format!("is {port}, outside 1 to 65535"),
        )),
    }
}

pub(crate) fn failure_to_wire(failure: &FailureInfo) -> pb::FailureInfo {
    pb::FailureInfo {
        kind: failure_kind_to_wire(failure.kind),
        disposition: disposition_to_wire(failure.disposition),
        operator: failure.operator.clone(),
        message: failure.message.clone(),
        causes: failure.causes.clone(),
        remedy: failure.remedy.clone(),
    }
}

pub(crate) fn failure_from_wire(message: pb::FailureInfo) -> Result<FailureInfo, DecodeError> {
    const FAILURE: &str = "FailureInfo";
    Ok(FailureInfo {
        kind: failure_kind_from_wire(FAILURE, "kind", message.kind)?,
        disposition: disposition_from_wire(FAILURE, "disposition", message.disposition)?,
        operator: message.operator,
        message: message.message,
        causes: message.causes,
        remedy: message.remedy,
    })
}

pub(super) fn storage_to_wire(storage: CheckpointStorage) -> pb::CheckpointStorage {
    pb::CheckpointStorage {
        location: storage.location,
        cluster_id: storage.cluster_id,
        directory_id: storage.directory_id,
    }
}

pub(super) fn storage_from_wire(message: pb::CheckpointStorage) -> CheckpointStorage {
    CheckpointStorage {
        location: message.location,
        cluster_id: message.cluster_id,
        directory_id: message.directory_id,
    }
}
