//! Snapshots: what tasks acknowledge and what they start from.

use std::collections::BTreeMap;
use std::time::Duration;

use millstream_coordination::restore::RestoreSubtask;
use millstream_coordination::snapshot_types::{
    CheckpointMetrics, KeyedHandle, OperatorSubtaskState,
};
use millstream_types::{Checksum, KeyGroup, KeyGroupRange, ObjectName, OperatorUid, StateHandle};

use super::common::checkpoint_from_wire;
use crate::error::{DecodeError, invalid, missing};
use crate::pb;
use crate::scalar::{duration_from_wire, duration_to_wire};

type Operators = BTreeMap<OperatorUid, OperatorSubtaskState>;

pub(super) fn operators_to_wire(operators: &Operators) -> Vec<pb::OperatorSnapshot> {
    let operator = |(uid, state): (&OperatorUid, &OperatorSubtaskState)| pb::OperatorSnapshot {
        uid: uid.to_string(),
        state: Some(state_to_wire(state)),
    };
    operators.iter().map(operator).collect()
}

pub(super) fn operators_from_wire(
    operators: Vec<pb::OperatorSnapshot>,
) -> Result<Operators, DecodeError> {
    const OPERATOR: &str = "OperatorSnapshot";
    let mut found = Operators::new();
    for pb::OperatorSnapshot { uid, state } in operators {
        let uid = OperatorUid::new(&uid)
            .map_err(|error| invalid(OPERATOR, "uid", format!("is refused: {error}")))?;
        let state = state_from_wire(state.ok_or(missing(OPERATOR, "state"))?)?;
        if found.insert(uid.clone(), state).is_some() {
            return Err(invalid(OPERATOR, "uid", format!("is {uid} twice")));
        }
    }
    Ok(found)
}

pub(super) fn restore_to_wire(restore: &RestoreSubtask) -> pb::RestoreSubtask {
    pb::RestoreSubtask {
        checkpoint_id: restore.checkpoint.0,
        operators: operators_to_wire(&restore.operators),
    }
}

pub(super) fn restore_from_wire(
    message: pb::RestoreSubtask,
) -> Result<RestoreSubtask, DecodeError> {
    Ok(RestoreSubtask {
        checkpoint: checkpoint_from_wire("RestoreSubtask", "checkpoint_id", message.checkpoint_id)?,
        operators: operators_from_wire(message.operators)?,
    })
}

fn state_to_wire(state: &OperatorSubtaskState) -> pb::SubtaskMetadata {
    let keyed = |keyed: &KeyedHandle| pb::KeyedState {
        first_key_group: keyed.range.first().0.into(),
        last_key_group: keyed.range.last().0.into(),
        handle: Some(handle_to_wire(&keyed.handle)),
    };
    pb::SubtaskMetadata {
        finished: state.finished,
        keyed: state.keyed.iter().map(keyed).collect(),
        operator_state: state.operator.iter().map(handle_to_wire).collect(),
    }
}

fn state_from_wire(message: pb::SubtaskMetadata) -> Result<OperatorSubtaskState, DecodeError> {
    let keyed: Result<_, _> = message.keyed.into_iter().map(keyed_from_wire).collect();
    let operator: Result<_, _> = message
        .operator_state
        .into_iter()
        .map(handle_from_wire)
        .collect();
    Ok(OperatorSubtaskState {
        keyed: keyed?,
        operator: operator?,
        finished: message.finished,
    })
}

fn keyed_from_wire(message: pb::KeyedState) -> Result<KeyedHandle, DecodeError> {
    const KEYED: &str = "KeyedState";
    let (first, last) = (message.first_key_group, message.last_key_group);
    let groups = u16::try_from(first).ok().zip(u16::try_from(last).ok());
    let range =
        groups.and_then(|(first, last)| KeyGroupRange::new(KeyGroup(first), KeyGroup(last)));
    let range = range.ok_or_else(|| {
        let what = format!("and last_key_group are {first} and {last}, which is no range");
        invalid(KEYED, "first_key_group", what)
    })?;
    let handle = message.handle.ok_or(missing(KEYED, "handle"))?;
    Ok(KeyedHandle {
        range,
        handle: handle_from_wire(handle)?,
    })
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

fn handle_from_wire(message: pb::StateHandle) -> Result<StateHandle, DecodeError> {
    use pb::state_handle::Place;
    const OBJECT: &str = "ObjectHandle";
    Ok(
        match message.place.ok_or(missing("StateHandle", "place"))? {
            Place::Inline(bytes) => StateHandle::Inline((&bytes[..]).into()),
            Place::Object(object) => {
                let name = ObjectName::new(&object.name)
                    .map_err(|error| invalid(OBJECT, "name", format!("is refused: {error}")))?;
                let checksum = object.checksum[..].try_into().map_err(|_| {
                    let what = format!("has {} bytes, not 16", object.checksum.len());
                    invalid(OBJECT, "checksum", what)
                })?;
                let checksum = Checksum(u128::from_be_bytes(checksum));
                StateHandle::Object {
                    name,
                    size: object.size,
                    checksum,
                }
            }
        },
    )
}

pub(crate) fn metrics_to_wire(metrics: &CheckpointMetrics) -> pb::CheckpointMetrics {
    let duration = |duration: Duration| Some(duration_to_wire(duration));
    pb::CheckpointMetrics {
        start_delay: duration(metrics.start_delay),
        alignment: duration(metrics.alignment),
        pre_barrier: duration(metrics.pre_barrier),
        synchronous: duration(metrics.synchronous),
        asynchronous: duration(metrics.asynchronous),
        processed_in_flight_bytes: metrics.processed_in_flight_bytes,
        persisted_in_flight_bytes: metrics.persisted_in_flight_bytes,
        is_unaligned: metrics.is_unaligned,
    }
}

pub(crate) fn metrics_from_wire(
    message: pb::CheckpointMetrics,
) -> Result<CheckpointMetrics, DecodeError> {
    let duration = |field, found| duration_from_wire("CheckpointMetrics", field, found);
    Ok(CheckpointMetrics {
        start_delay: duration("start_delay", message.start_delay)?,
        alignment: duration("alignment", message.alignment)?,
        pre_barrier: duration("pre_barrier", message.pre_barrier)?,
        synchronous: duration("synchronous", message.synchronous)?,
        asynchronous: duration("asynchronous", message.asynchronous)?,
        processed_in_flight_bytes: message.processed_in_flight_bytes,
        persisted_in_flight_bytes: message.persisted_in_flight_bytes,
        is_unaligned: message.is_unaligned,
    })
}
