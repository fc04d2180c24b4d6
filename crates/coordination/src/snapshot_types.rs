//! What tasks acknowledge and what a completed checkpoint holds.
//!
//! Operators' state is opaque here: handles with the key groups they cover. Committables of sinks
//! travel as operator state.

use std::collections::BTreeMap;
use std::time::Duration;

use millstream_types::{
    CheckpointId, Checksum, Epoch, KeyGroupRange, MaxParallelism, ObjectName, OperatorUid,
    StateHandle, VertexId, WallTime,
};

use crate::checkpoint::CheckpointKind;

/// Keyed state of a range of key groups.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct KeyedHandle {
    /// The key groups inside.
    pub range: KeyGroupRange,
    /// Where it lies.
    pub handle: StateHandle,
}

/// State of one operator in one subtask.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct OperatorSubtaskState {
    /// Keyed state and timers.
    pub keyed: Vec<KeyedHandle>,
    /// Lists, broadcast state, splits, committables; in the operator's own order.
    pub operator: Vec<StateHandle>,
    /// The operator had finished: a restored one does nothing any more.
    pub finished: bool,
}

impl OperatorSubtaskState {
    /// Every handle inside.
    pub fn handles(&self) -> impl Iterator<Item = &StateHandle> {
        let keyed = self.keyed.iter().map(|keyed| &keyed.handle);
        keyed.chain(&self.operator)
    }
}

/// All that one subtask adds to a checkpoint, by the uid of the operators in its chain.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct TaskSnapshot {
    /// State of each operator.
    pub operators: BTreeMap<OperatorUid, OperatorSubtaskState>,
}

impl TaskSnapshot {
    /// Bytes of all state inside.
    pub fn size(&self) -> u64 {
        self.handles().map(StateHandle::size).sum()
    }

    /// Every object that it refers to.
    pub fn objects(&self) -> impl Iterator<Item = &ObjectName> {
        self.handles().filter_map(StateHandle::object)
    }

    /// Every handle inside.
    pub fn handles(&self) -> impl Iterator<Item = &StateHandle> {
        let operators = self.operators.values();
        operators.flat_map(OperatorSubtaskState::handles)
    }
}

/// Where the time of one subtask's snapshot went (B2).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct CheckpointMetrics {
    /// From the barrier's creation to its first sight at this subtask.
    pub start_delay: Duration,
    /// From the first barrier to the last.
    pub alignment: Duration,
    /// In the operators' hook before the barrier went out.
    pub pre_barrier: Duration,
    /// In which nothing else was processed.
    pub synchronous: Duration,
    /// In which state was uploaded beside processing.
    pub asynchronous: Duration,
    /// Bytes processed between the first barrier and the last.
    pub processed_in_flight_bytes: u64,
    /// Bytes in flight that are part of the snapshot.
    pub persisted_in_flight_bytes: u64,
    /// Whether it overtook data.
    pub is_unaligned: bool,
}

/// State of one operator in all its subtasks.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct OperatorState {
    /// The vertex it was part of.
    pub vertex: VertexId,
    /// Subtasks at the time of the checkpoint.
    pub parallelism: u32,
    /// Key groups, fixed for the life of the state.
    pub max_parallelism: MaxParallelism,
    /// Every subtask had finished (B5.3).
    pub fully_finished: bool,
    /// By index; a subtask that had finished before has an entry with nothing but its mark.
    pub subtasks: BTreeMap<u32, OperatorSubtaskState>,
}

/// A consistent checkpoint of a job: what `_metadata` says.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct CompletedCheckpoint {
    /// Its id.
    pub id: CheckpointId,
    /// The epoch that took it.
    pub epoch: Epoch,
    /// Why it was taken.
    pub kind: CheckpointKind,
    /// When it was triggered.
    pub triggered_at: WallTime,
    /// State by operator.
    pub operators: BTreeMap<OperatorUid, OperatorState>,
}

impl CompletedCheckpoint {
    /// Bytes of all state inside.
    pub fn size(&self) -> u64 {
        self.handles().map(StateHandle::size).sum()
    }

    /// Every object that it refers to.
    pub fn objects(&self) -> impl Iterator<Item = &ObjectName> {
        self.handles().filter_map(StateHandle::object)
    }

    fn handles(&self) -> impl Iterator<Item = &StateHandle> {
        let subtasks = self.operators.values().flat_map(|o| o.subtasks.values());
        subtasks.flat_map(OperatorSubtaskState::handles)
    }
}

/// The `_metadata` object of a checkpoint, as it was written.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct StoredMetadata {
    /// Where it lies.
    pub name: ObjectName,
    /// Its length in bytes.
    pub size: u64,
    /// Its checksum, part of the chain's entry.
    pub checksum: Checksum,
}
