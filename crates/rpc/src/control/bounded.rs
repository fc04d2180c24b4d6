//! Bounds on what is sent, and what happens to a message that is beyond them: whoever waits for it
//! is told, by name and size, and nothing hangs (HND-073).

use bytes::Bytes;
use millstream_coordination::checkpoint::DeclineReason;
use millstream_coordination::failure::{FailureInfo, FailureKind};
use millstream_coordination::job::ExecutionState;
use millstream_coordination::protocol::{
    DeclineMessage, FromTaskmanager, OutputLines, ToTaskmanager,
};
use millstream_types::Disposition;
use prost::Message;

use super::{from_taskmanager, to_taskmanager};
use crate::error::{DecodeError, EncodeError};
use crate::pb;

/// The largest control message unless configured otherwise (`rpc.max-message-size`).
pub const MESSAGE_BYTES_MAX: usize = 16 << 20;

/// A message of the control stream, as bytes and back.
pub trait ControlMessage: Sized + Send + 'static {
    /// What it is, for errors: "acknowledgement of checkpoint 7 by v1/0 of job …".
    fn describe(&self) -> String;

    /// Its bytes, at most `limit`.
    fn to_bytes(&self, limit: usize) -> Result<Bytes, EncodeError>;

    /// The message of these bytes.
    fn from_bytes(bytes: &[u8]) -> Result<Self, DecodeError>;
}

impl ControlMessage for FromTaskmanager {
    fn describe(&self) -> String {
        match self {
            Self::Register(registration) => format!("the registration of {}", registration.id),
            Self::Heartbeat(_) => "a heartbeat".to_owned(),
            Self::JobProcessStarted { job, .. } => format!("the start of a process of job {job}"),
            Self::JobProcessFailed { job, .. } => format!("the failure of a process of job {job}"),
            Self::SubtaskState {
                job,
                subtask,
                state,
                ..
            } => {
                format!("state {state} of {subtask} of job {job}")
            }
            Self::Acknowledge(message) => format!(
                "the acknowledgement of checkpoint {} by {} of job {}",
                message.checkpoint, message.task.subtask, message.job
            ),
            Self::Decline(message) => format!(
                "the decline of checkpoint {} by {} of job {}",
                message.checkpoint, message.task.subtask, message.job
            ),
            Self::UploadStopped {
                job, checkpoint, ..
            } => {
                format!("the end of uploads for checkpoint {checkpoint} of job {job}")
            }
            Self::EndOfData { job, subtask, .. } => {
                format!("the end of data at {subtask} of job {job}")
            }
            Self::SlotFreed { slot } => format!("the release of slot {slot}"),
            Self::Output(output) => {
                format!("{} printed lines of job {}", output.lines.len(), output.job)
            }
            Self::Metrics(metrics) => format!("the metrics of {} tasks", metrics.len()),
            Self::Leaving => "a farewell".to_owned(),
        }
    }

    fn to_bytes(&self, limit: usize) -> Result<Bytes, EncodeError> {
        Ok(from_to_wire(self, limit)?.encode_to_vec().into())
    }

    fn from_bytes(bytes: &[u8]) -> Result<Self, DecodeError> {
        let message =
            pb::FromTaskmanager::decode(bytes).map_err(|source| DecodeError::Malformed {
                message: "FromTaskmanager",
                source,
            })?;
        from_taskmanager::from_wire(message)
    }
}

impl ControlMessage for ToTaskmanager {
    fn describe(&self) -> String {
        match self {
            Self::Registered(_) => "the answer to a registration".to_owned(),
            Self::RegistrationRefused(_) => "the refusal of a registration".to_owned(),
            Self::Heartbeat => "a heartbeat".to_owned(),
            Self::StartJobProcess(start) => format!("the graph of job {}", start.job),
            Self::Deploy(deploy) => format!(
                "the deployment of {} ({}) of job {} with its restored state",
                deploy.vertex_name, deploy.subtask, deploy.job
            ),
            Self::TriggerCheckpoint {
                job, checkpoint, ..
            } => {
                format!("the trigger of checkpoint {checkpoint} of job {job}")
            }
            Self::NotifyCompleted {
                job, checkpoint, ..
            } => {
                format!("the completion of checkpoint {checkpoint} of job {job}")
            }
            Self::NotifyAborted {
                job, checkpoint, ..
            } => {
                format!("the abort of checkpoint {checkpoint} of job {job}")
            }
            Self::Cancel { job, .. } => format!("the cancellation of tasks of job {job}"),
            Self::Abandon { job, .. } => format!("the end of slots of job {job}"),
            Self::ReleaseJob { job, .. } => format!("the release of job {job}"),
        }
    }

    fn to_bytes(&self, limit: usize) -> Result<Bytes, EncodeError> {
        Ok(to_to_wire(self, limit)?.encode_to_vec().into())
    }

    fn from_bytes(bytes: &[u8]) -> Result<Self, DecodeError> {
        let message =
            pb::ToTaskmanager::decode(bytes).map_err(|source| DecodeError::Malformed {
                message: "ToTaskmanager",
                source,
            })?;
        to_taskmanager::from_wire(message)
    }
}

pub(super) fn from_to_wire(
    message: &FromTaskmanager,
    limit: usize,
) -> Result<pb::FromTaskmanager, EncodeError> {
    let wire = from_taskmanager::to_wire(message);
    check(wire.encoded_len(), limit, message)?;
    Ok(wire)
}

pub(super) fn to_to_wire(
    message: &ToTaskmanager,
    limit: usize,
) -> Result<pb::ToTaskmanager, EncodeError> {
    let wire = to_taskmanager::to_wire(message)?;
    check(wire.encoded_len(), limit, message)?;
    Ok(wire)
}

fn check(found: usize, limit: usize, message: &impl ControlMessage) -> Result<(), EncodeError> {
    if found <= limit {
        return Ok(());
    }
    let (found, limit) = (found as u64, limit as u64);
    Err(EncodeError::TooLarge {
        what: message.describe(),
        found,
        limit,
    })
}

/// What a taskmanager says instead of a message that cannot be sent; none if nobody waits for it.
pub(super) fn instead(message: FromTaskmanager, error: &EncodeError) -> Option<FromTaskmanager> {
    match message {
        FromTaskmanager::Acknowledge(ack) => {
            Some(FromTaskmanager::Decline(Box::new(DeclineMessage {
                job: ack.job,
                epoch: ack.epoch,
                task: ack.task,
                checkpoint: ack.checkpoint,
                reason: DeclineReason::AsyncException,
                message: format!("{error}: lower state.storage.fs.memory-threshold"),
            })))
        }
        FromTaskmanager::Decline(decline) => {
            let message = error.to_string();
            Some(FromTaskmanager::Decline(Box::new(DeclineMessage {
                message,
                ..*decline
            })))
        }
        FromTaskmanager::Output(output) => Some(FromTaskmanager::Output(OutputLines {
            dropped: output.dropped + output.lines.len() as u64,
            lines: Vec::new(),
            ..output
        })),
        FromTaskmanager::SubtaskState {
            job,
            epoch,
            subtask,
            attempt,
            state,
            failure,
        } => Some(FromTaskmanager::SubtaskState {
            job,
            epoch,
            subtask,
            attempt,
            state,
            failure: failure.map(|failure| shortened(&failure, error)),
        }),
        FromTaskmanager::JobProcessFailed {
            job,
            epoch,
            failure,
        } => {
            let failure = shortened(&failure, error);
            Some(FromTaskmanager::JobProcessFailed {
                job,
                epoch,
                failure,
            })
        }
        FromTaskmanager::Register(_)
        | FromTaskmanager::Heartbeat(_)
        | FromTaskmanager::JobProcessStarted { .. }
        | FromTaskmanager::UploadStopped { .. }
        | FromTaskmanager::EndOfData { .. }
        | FromTaskmanager::SlotFreed { .. }
        | FromTaskmanager::Metrics(_)
        | FromTaskmanager::Leaving => None,
    }
}

/// The same failure without its texts.
fn shortened(failure: &FailureInfo, error: &EncodeError) -> FailureInfo {
    let text = format!("its message cannot be shown: {error}");
    FailureInfo::new(failure.kind, text).with_disposition(failure.disposition)
}

/// What a taskmanager would answer to a message that cannot be sent to it: the deployment failed.
pub(super) fn answer(message: &ToTaskmanager, error: &EncodeError) -> Option<FromTaskmanager> {
    let mut failure = FailureInfo::new(FailureKind::Deployment, error.to_string())
        .with_disposition(Disposition::FailJob);
    failure.remedy = Some("raise rpc.max-message-size on all daemons".to_owned());
    match message {
        ToTaskmanager::Deploy(deploy) => Some(FromTaskmanager::SubtaskState {
            job: deploy.job,
            epoch: deploy.epoch,
            subtask: deploy.subtask,
            attempt: deploy.attempt,
            state: ExecutionState::Failed,
            failure: Some(failure),
        }),
        ToTaskmanager::StartJobProcess(start) => {
            let (job, epoch) = (start.job, start.epoch);
            Some(FromTaskmanager::JobProcessFailed {
                job,
                epoch,
                failure,
            })
        }
        ToTaskmanager::Registered(_)
        | ToTaskmanager::RegistrationRefused(_)
        | ToTaskmanager::Heartbeat
        | ToTaskmanager::TriggerCheckpoint { .. }
        | ToTaskmanager::NotifyCompleted { .. }
        | ToTaskmanager::NotifyAborted { .. }
        | ToTaskmanager::Cancel { .. }
        | ToTaskmanager::Abandon { .. }
        | ToTaskmanager::ReleaseJob { .. } => None,
    }
}
