//! Messages to a taskmanager.

use std::sync::Arc;

use bytes::Bytes;
use millstream_coordination::protocol::{
    ChannelEndpoint, ChannelPeer, ChannelToken, DeploySubtask, Registered, StartJobProcess,
    ToTaskmanager,
};
use millstream_coordination::slots::RegistrationRefusal;
use millstream_graph::{ChannelId, EdgeId};
use millstream_types::{CheckpointId, Incarnation, SlotIndex, WallTime};

use super::common::{
    address_from_wire, address_to_wire, checkpoint_from_wire, job_from_wire, job_to_wire,
    kind_from_wire, kind_to_wire, task_from_wire, task_to_wire, taskmanager_from_wire,
    tasks_from_wire, tasks_to_wire,
};
use super::state::{restore_from_wire, restore_to_wire};
use crate::error::{DecodeError, EncodeError, invalid, missing, unknown};
use crate::graph::{graph_from_wire, graph_to_wire};
use crate::pb::{self, to_taskmanager::Message};
use crate::scalar::{duration_from_wire, duration_to_wire};

pub(super) fn to_wire(message: &ToTaskmanager) -> Result<pb::ToTaskmanager, EncodeError> {
    let message = match message {
        ToTaskmanager::Registered(how) => Message::Registered(registered_to_wire(how)),
        ToTaskmanager::RegistrationRefused(refusal) => {
            Message::RegistrationRefused(refusal_to_wire(refusal))
        }
        ToTaskmanager::Heartbeat => Message::Heartbeat(pb::JobmanagerHeartbeat {}),
        ToTaskmanager::StartJobProcess(start) => Message::StartJobProcess(pb::StartJobProcess {
            job: job_to_wire(start.job, start.epoch),
            graph: Some(graph_to_wire(&start.graph)?),
            chaining: start.chaining,
        }),
        ToTaskmanager::Deploy(deploy) => Message::Deploy(deploy_to_wire(deploy)),
        ToTaskmanager::TriggerCheckpoint {
            job,
            epoch,
            subtasks,
            checkpoint,
            triggered_at,
            kind,
            completed,
        } => Message::TriggerCheckpoint(pb::TriggerCheckpoint {
            job: job_to_wire(*job, *epoch),
            tasks: tasks_to_wire(subtasks),
            checkpoint_id: checkpoint.0,
            triggered_at_unix_ms: triggered_at.as_millis(),
            kind: kind_to_wire(*kind),
            completed_id: completed.map(|completed| completed.0),
        }),
        ToTaskmanager::NotifyCompleted {
            job,
            epoch,
            subtasks,
            checkpoint,
        } => Message::NotifyCompleted(pb::NotifyCompleted {
            job: job_to_wire(*job, *epoch),
            tasks: tasks_to_wire(subtasks),
            checkpoint_id: checkpoint.0,
        }),
        ToTaskmanager::NotifyAborted {
            job,
            epoch,
            subtasks,
            checkpoint,
            latest_completed,
        } => Message::NotifyAborted(pb::NotifyAborted {
            job: job_to_wire(*job, *epoch),
            tasks: tasks_to_wire(subtasks),
            checkpoint_id: checkpoint.0,
            latest_completed_id: latest_completed.map(|id| id.0),
        }),
        ToTaskmanager::Cancel {
            job,
            epoch,
            subtasks,
        } => Message::Cancel(pb::CancelSubtasks {
            job: job_to_wire(*job, *epoch),
            tasks: tasks_to_wire(subtasks),
        }),
        ToTaskmanager::Abandon { job, epoch, slots } => Message::Abandon(pb::AbandonSlots {
            job: job_to_wire(*job, *epoch),
            slots: slots.iter().map(|slot| slot.0).collect(),
        }),
        ToTaskmanager::ReleaseJob { job, epoch } => Message::ReleaseJob(pb::ReleaseJob {
            job: job_to_wire(*job, *epoch),
        }),
    };
    Ok(pb::ToTaskmanager {
        message: Some(message),
    })
}

pub(super) fn from_wire(message: pb::ToTaskmanager) -> Result<ToTaskmanager, DecodeError> {
    Ok(
        match message.message.ok_or(missing("ToTaskmanager", "message"))? {
            Message::Registered(message) => {
                ToTaskmanager::Registered(registered_from_wire(message)?)
            }
            Message::RegistrationRefused(message) => {
                ToTaskmanager::RegistrationRefused(refusal_from_wire(&message)?)
            }
            Message::Heartbeat(_) => ToTaskmanager::Heartbeat,
            Message::StartJobProcess(message) => {
                let (job, epoch) = job_from_wire("StartJobProcess", message.job)?;
                let graph = message.graph.ok_or(missing("StartJobProcess", "graph"))?;
                ToTaskmanager::StartJobProcess(StartJobProcess {
                    job,
                    epoch,
                    graph: Arc::new(graph_from_wire(graph)?),
                    chaining: message.chaining,
                })
            }
            Message::Deploy(message) => ToTaskmanager::Deploy(Box::new(deploy_from_wire(message)?)),
            Message::TriggerCheckpoint(message) => trigger_from_wire(message)?,
            Message::NotifyCompleted(message) => {
                const COMPLETED: &str = "NotifyCompleted";
                let (job, epoch) = job_from_wire(COMPLETED, message.job)?;
                ToTaskmanager::NotifyCompleted {
                    job,
                    epoch,
                    subtasks: tasks_from_wire(COMPLETED, message.tasks)?,
                    checkpoint: checkpoint_from_wire(
                        COMPLETED,
                        "checkpoint_id",
                        message.checkpoint_id,
                    )?,
                }
            }
            Message::NotifyAborted(message) => aborted_from_wire(message)?,
            Message::Cancel(message) => {
                let (job, epoch) = job_from_wire("CancelSubtasks", message.job)?;
                let subtasks = tasks_from_wire("CancelSubtasks", message.tasks)?;
                ToTaskmanager::Cancel {
                    job,
                    epoch,
                    subtasks,
                }
            }
            Message::Abandon(message) => {
                let (job, epoch) = job_from_wire("AbandonSlots", message.job)?;
                let slots = message.slots.into_iter().map(SlotIndex).collect();
                ToTaskmanager::Abandon { job, epoch, slots }
            }
            Message::ReleaseJob(message) => {
                let (job, epoch) = job_from_wire("ReleaseJob", message.job)?;
                ToTaskmanager::ReleaseJob { job, epoch }
            }
        },
    )
}

fn registered_to_wire(registered: &Registered) -> pb::Registered {
    pb::Registered {
        jobmanager_incarnation: registered.jobmanager.0,
        heartbeat_interval: Some(duration_to_wire(registered.heartbeat_interval)),
        heartbeat_timeout: Some(duration_to_wire(registered.heartbeat_timeout)),
    }
}

fn registered_from_wire(message: pb::Registered) -> Result<Registered, DecodeError> {
    let duration = |field, found| duration_from_wire("Registered", field, found);
    Ok(Registered {
        jobmanager: Incarnation(message.jobmanager_incarnation),
        heartbeat_interval: duration("heartbeat_interval", message.heartbeat_interval)?,
        heartbeat_timeout: duration("heartbeat_timeout", message.heartbeat_timeout)?,
    })
}

fn refusal_to_wire(refusal: &RegistrationRefusal) -> pb::RegistrationRefused {
    use pb::RegistrationRefusalReason as Reason;
    let (reason, taskmanager) = match refusal {
        RegistrationRefusal::DuplicateIdentity { taskmanager } => {
            (Reason::DuplicateIdentity, taskmanager)
        }
        RegistrationRefusal::DeclaredDead { taskmanager } => (Reason::DeclaredDead, taskmanager),
        RegistrationRefusal::NoSlots { taskmanager } => (Reason::NoSlots, taskmanager),
    };
    pb::RegistrationRefused {
        reason: reason.into(),
        taskmanager_id: taskmanager.to_string(),
    }
}

fn refusal_from_wire(
    message: &pb::RegistrationRefused,
) -> Result<RegistrationRefusal, DecodeError> {
    use pb::RegistrationRefusalReason as Reason;
    const REFUSED: &str = "RegistrationRefused";
    let taskmanager = taskmanager_from_wire(REFUSED, "taskmanager_id", &message.taskmanager_id)?;
    Ok(match Reason::try_from(message.reason) {
        Ok(Reason::DuplicateIdentity) => RegistrationRefusal::DuplicateIdentity { taskmanager },
        Ok(Reason::DeclaredDead) => RegistrationRefusal::DeclaredDead { taskmanager },
        Ok(Reason::NoSlots) => RegistrationRefusal::NoSlots { taskmanager },
        Ok(Reason::Unspecified) | Err(_) => return Err(unknown(REFUSED, "reason", message.reason)),
    })
}

fn trigger_from_wire(message: pb::TriggerCheckpoint) -> Result<ToTaskmanager, DecodeError> {
    const TRIGGER: &str = "TriggerCheckpoint";
    let (job, epoch) = job_from_wire(TRIGGER, message.job)?;
    let completed = |id| checkpoint_from_wire(TRIGGER, "completed_id", id);
    Ok(ToTaskmanager::TriggerCheckpoint {
        job,
        epoch,
        subtasks: tasks_from_wire(TRIGGER, message.tasks)?,
        checkpoint: checkpoint_from_wire(TRIGGER, "checkpoint_id", message.checkpoint_id)?,
        triggered_at: WallTime(message.triggered_at_unix_ms),
        kind: kind_from_wire(TRIGGER, "kind", message.kind)?,
        completed: message.completed_id.map(completed).transpose()?,
    })
}

fn aborted_from_wire(message: pb::NotifyAborted) -> Result<ToTaskmanager, DecodeError> {
    const ABORTED: &str = "NotifyAborted";
    let (job, epoch) = job_from_wire(ABORTED, message.job)?;
    let latest = |id| checkpoint_from_wire(ABORTED, "latest_completed_id", id);
    let latest_completed: Option<CheckpointId> =
        message.latest_completed_id.map(latest).transpose()?;
    Ok(ToTaskmanager::NotifyAborted {
        job,
        epoch,
        subtasks: tasks_from_wire(ABORTED, message.tasks)?,
        checkpoint: checkpoint_from_wire(ABORTED, "checkpoint_id", message.checkpoint_id)?,
        latest_completed,
    })
}

fn deploy_to_wire(deploy: &DeploySubtask) -> pb::DeploySubtask {
    pb::DeploySubtask {
        job: job_to_wire(deploy.job, deploy.epoch),
        task: Some(task_to_wire((deploy.subtask, deploy.attempt).into())),
        vertex_name: deploy.vertex_name.clone(),
        slot: deploy.slot.0,
        inputs: deploy.inputs.iter().map(endpoint_to_wire).collect(),
        outputs: deploy.outputs.iter().map(endpoint_to_wire).collect(),
        restore: deploy.restore.as_ref().map(restore_to_wire),
    }
}

fn deploy_from_wire(message: pb::DeploySubtask) -> Result<DeploySubtask, DecodeError> {
    let (job, epoch) = job_from_wire("DeploySubtask", message.job)?;
    let task = task_from_wire("DeploySubtask", message.task)?;
    let inputs: Result<_, _> = message.inputs.into_iter().map(endpoint_from_wire).collect();
    let outputs: Result<_, _> = message
        .outputs
        .into_iter()
        .map(endpoint_from_wire)
        .collect();
    Ok(DeploySubtask {
        job,
        epoch,
        subtask: task.subtask,
        attempt: task.attempt,
        vertex_name: message.vertex_name,
        slot: SlotIndex(message.slot),
        inputs: inputs?,
        outputs: outputs?,
        restore: message.restore.map(restore_from_wire).transpose()?,
    })
}

pub(crate) fn channel_to_wire(channel: ChannelId) -> pb::ChannelId {
    pb::ChannelId {
        edge: channel.edge.0,
        from: channel.from,
        to: channel.to,
    }
}

pub(crate) fn channel_from_wire(
    message: &'static str,
    channel: Option<pb::ChannelId>,
) -> Result<ChannelId, DecodeError> {
    let pb::ChannelId { edge, from, to } = channel.ok_or(missing(message, "channel"))?;
    Ok(ChannelId {
        edge: EdgeId(edge),
        from,
        to,
    })
}

pub(crate) fn token_to_wire(token: ChannelToken) -> Bytes {
    token.0.to_be_bytes().to_vec().into()
}

pub(crate) fn token_from_wire(
    message: &'static str,
    token: &[u8],
) -> Result<ChannelToken, DecodeError> {
    // The bytes themselves are nobody's business.
    let bytes = token.try_into().map_err(|_| {
        invalid(
            message,
            "token",
            format!("has {} bytes, not 16", token.len()),
        )
    })?;
    Ok(ChannelToken(u128::from_be_bytes(bytes)))
}

fn endpoint_to_wire(endpoint: &ChannelEndpoint) -> pb::ChannelEndpoint {
    let peer = &endpoint.peer;
    pb::ChannelEndpoint {
        channel: Some(channel_to_wire(endpoint.channel)),
        task: Some(task_to_wire(peer.task)),
        taskmanager_id: peer.taskmanager.to_string(),
        incarnation: peer.incarnation.0,
        address: peer.address.as_ref().map(address_to_wire),
        token: token_to_wire(endpoint.token),
    }
}

fn endpoint_from_wire(message: pb::ChannelEndpoint) -> Result<ChannelEndpoint, DecodeError> {
    const ENDPOINT: &str = "ChannelEndpoint";
    let peer = ChannelPeer {
        task: task_from_wire(ENDPOINT, message.task)?,
        taskmanager: taskmanager_from_wire(ENDPOINT, "taskmanager_id", &message.taskmanager_id)?,
        incarnation: Incarnation(message.incarnation),
        address: message.address.map(address_from_wire).transpose()?,
    };
    Ok(ChannelEndpoint {
        channel: channel_from_wire(ENDPOINT, message.channel)?,
        peer,
        token: token_from_wire(ENDPOINT, &message.token)?,
    })
}
