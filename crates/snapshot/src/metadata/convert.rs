//! Between the message on the wire and the checked type.

use std::collections::BTreeMap;

use millstream_coordination::checkpoint::CheckpointKind;
use millstream_coordination::snapshot_types::{
    CompletedCheckpoint, KeyedHandle, OperatorState, OperatorSubtaskState,
};
use millstream_types::{
    CheckpointId, Checksum, Epoch, JobId, KeyGroup, KeyGroupRange, MaxParallelism, ObjectName,
    OperatorUid, StateHandle, VertexId, WallTime,
};

use super::{CheckpointMetadata, MetadataFault};
use crate::pb;

impl From<&CheckpointMetadata> for pb::CheckpointMetadata {
    fn from(metadata: &CheckpointMetadata) -> Self {
        let checkpoint = &metadata.checkpoint;
        let operators = checkpoint.operators.iter().map(|(uid, state)| {
            let name = metadata
                .operator_names
                .get(uid)
                .cloned()
                .unwrap_or_default();
            operator_to_wire(uid, name, state)
        });
        Self {
            job_id: metadata.job.as_bytes().to_vec().into(),
            checkpoint_id: checkpoint.id.0,
            epoch: checkpoint.epoch.0,
            triggered_at_unix_ms: checkpoint.triggered_at.as_millis(),
            kind: kind_to_wire(checkpoint.kind).into(),
            operators: operators.collect(),
            properties: metadata
                .properties
                .iter()
                .map(|(name, value)| pb::Property {
                    name: name.clone(),
                    value: value.clone(),
                })
                .collect(),
        }
    }
}

fn kind_to_wire(kind: CheckpointKind) -> pb::CheckpointKind {
    match kind {
        CheckpointKind::Periodic => pb::CheckpointKind::Periodic,
        CheckpointKind::Manual => pb::CheckpointKind::Manual,
        CheckpointKind::Final => pb::CheckpointKind::Final,
    }
}

fn kind_from_wire(kind: i32) -> Option<CheckpointKind> {
    match pb::CheckpointKind::try_from(kind).ok()? {
        pb::CheckpointKind::Unspecified => None,
        pb::CheckpointKind::Periodic => Some(CheckpointKind::Periodic),
        pb::CheckpointKind::Manual => Some(CheckpointKind::Manual),
        pb::CheckpointKind::Final => Some(CheckpointKind::Final),
    }
}

fn operator_to_wire(
    uid: &OperatorUid,
    name: String,
    state: &OperatorState,
) -> pb::OperatorMetadata {
    pb::OperatorMetadata {
        uid: uid.to_string(),
        name,
        vertex: state.vertex.0,
        parallelism: state.parallelism,
        max_parallelism: state.max_parallelism.get(),
        fully_finished: state.fully_finished,
        subtasks: state.subtasks.values().map(subtask_to_wire).collect(),
    }
}

fn subtask_to_wire(subtask: &OperatorSubtaskState) -> pb::SubtaskMetadata {
    pb::SubtaskMetadata {
        finished: subtask.finished,
        keyed: subtask
            .keyed
            .iter()
            .map(|keyed| pb::KeyedState {
                first_key_group: keyed.range.first().0.into(),
                last_key_group: keyed.range.last().0.into(),
                handle: Some(handle_to_wire(&keyed.handle)),
            })
            .collect(),
        operator_state: subtask.operator.iter().map(handle_to_wire).collect(),
    }
}

fn handle_to_wire(handle: &StateHandle) -> pb::StateHandle {
    use pb::state_handle::Place;
    let place = match handle {
        StateHandle::Inline(bytes) => Place::Inline(bytes.to_vec().into()),
        StateHandle::Object {
            name,
            size,
            checksum,
        } => Place::Object(pb::ObjectHandle {
            name: name.to_string(),
            size: *size,
            checksum: checksum.0.to_be_bytes().to_vec().into(),
        }),
    };
    pb::StateHandle { place: Some(place) }
}

impl TryFrom<pb::CheckpointMetadata> for CheckpointMetadata {
    type Error = MetadataFault;

    fn try_from(message: pb::CheckpointMetadata) -> Result<Self, MetadataFault> {
        let field = |field, what| fault("CheckpointMetadata", field, what);
        let job = message.job_id[..].try_into().map_err(|_| {
            field(
                "job_id",
                format!("has {} bytes, not 16", message.job_id.len()),
            )
        })?;
        if message.checkpoint_id == 0 {
            return Err(field(
                "checkpoint_id",
                "is 0, which no checkpoint is".into(),
            ));
        }
        let kind = kind_from_wire(message.kind)
            .ok_or_else(|| field("kind", format!("is {}, which is unknown", message.kind)))?;
        let (mut operators, mut operator_names) = (BTreeMap::new(), BTreeMap::new());
        for operator in message.operators {
            let (uid, name, state) = operator_from_wire(operator)?;
            if operators.insert(uid.clone(), state).is_some() {
                return Err(field("operators", format!("has uid {uid} twice")));
            }
            if !name.is_empty() {
                operator_names.insert(uid, name);
            }
        }
        let mut properties = BTreeMap::new();
        for pb::Property { name, value } in message.properties {
            if properties.insert(name.clone(), value).is_some() {
                return Err(field("properties", format!("has {name:?} twice")));
            }
        }
        let checkpoint = CompletedCheckpoint {
            id: CheckpointId(message.checkpoint_id),
            epoch: Epoch(message.epoch),
            kind,
            triggered_at: WallTime(message.triggered_at_unix_ms),
            operators,
        };
        Ok(Self {
            job: JobId::from_bytes(job),
            checkpoint,
            operator_names,
            properties,
        })
    }
}

fn operator_from_wire(
    message: pb::OperatorMetadata,
) -> Result<(OperatorUid, String, OperatorState), MetadataFault> {
    let field = |field, what| fault("OperatorMetadata", field, what);
    let parallelism = message.parallelism;
    let uid = OperatorUid::new(&message.uid).map_err(|error| field("uid", error.to_string()))?;
    let max_parallelism = MaxParallelism::new(message.max_parallelism)
        .and_then(|max| max.check(parallelism).map(|()| max))
        .map_err(|error| field("max_parallelism", format!("of {uid}: {error}")))?;
    if parallelism == 0 || message.subtasks.len() != parallelism as usize {
        let n = message.subtasks.len();
        let what = format!("of {uid} has {n} elements where parallelism is {parallelism}");
        return Err(field("subtasks", what));
    }
    let subtasks = (0..)
        .zip(message.subtasks)
        .map(|(index, subtask)| subtask_from_wire(subtask).map(|subtask| (index, subtask)))
        .collect::<Result<_, _>>()?;
    let state = OperatorState {
        vertex: VertexId(message.vertex),
        parallelism,
        max_parallelism,
        fully_finished: message.fully_finished,
        subtasks,
    };
    Ok((uid, message.name, state))
}

fn subtask_from_wire(message: pb::SubtaskMetadata) -> Result<OperatorSubtaskState, MetadataFault> {
    let keyed = message
        .keyed
        .into_iter()
        .map(keyed_from_wire)
        .collect::<Result<_, _>>()?;
    let operator = message
        .operator_state
        .into_iter()
        .map(|handle| handle_from_wire("SubtaskMetadata", Some(handle)))
        .collect::<Result<_, _>>()?;
    Ok(OperatorSubtaskState {
        keyed,
        operator,
        finished: message.finished,
    })
}

fn keyed_from_wire(message: pb::KeyedState) -> Result<KeyedHandle, MetadataFault> {
    let (first, last) = (message.first_key_group, message.last_key_group);
    let group = |group| u16::try_from(group).ok().map(KeyGroup);
    let range = group(first)
        .zip(group(last))
        .and_then(|(first, last)| KeyGroupRange::new(first, last))
        .ok_or_else(|| {
            fault(
                "KeyedState",
                "last_key_group",
                format!("makes {first}..={last} no range"),
            )
        })?;
    Ok(KeyedHandle {
        range,
        handle: handle_from_wire("KeyedState", message.handle)?,
    })
}

fn handle_from_wire(
    owner: &'static str,
    message: Option<pb::StateHandle>,
) -> Result<StateHandle, MetadataFault> {
    use pb::state_handle::Place;
    let missing = || fault(owner, "handle", "is missing".into());
    match message.ok_or_else(missing)?.place {
        None => Err(fault("StateHandle", "place", "is missing".into())),
        Some(Place::Inline(bytes)) => Ok(StateHandle::Inline(bytes.as_ref().into())),
        Some(Place::Object(object)) => {
            let field = |field, what| fault("ObjectHandle", field, what);
            let name =
                ObjectName::new(&object.name).map_err(|error| field("name", error.to_string()))?;
            let checksum = object.checksum[..].try_into().map_err(|_| {
                let n = object.checksum.len();
                field("checksum", format!("of {name} has {n} bytes, not 16"))
            })?;
            let checksum = Checksum(u128::from_be_bytes(checksum));
            Ok(StateHandle::Object {
                name,
                size: object.size,
                checksum,
            })
        }
    }
}

fn fault(message: &'static str, field: &'static str, what: String) -> MetadataFault {
    MetadataFault::Field {
        message,
        field,
        what,
    }
}
