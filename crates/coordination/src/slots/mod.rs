//! Taskmanagers, their slots, and which job runs where (B13.1, B13.2).
//!
//! A job gets all its slots at once or waits. Slot k of a sharing group holds subtask k of every
//! vertex of that group. Where a subtask ran before is preferred, since its local state may still
//! be there; otherwise slots are spread over the taskmanagers, evenly and always alike.
//!
//! Invariants: a slot belongs to one job at most; a slot whose task was abandoned is given to
//! nobody before its taskmanager reports it free; of one taskmanager id, one incarnation counts.

use std::collections::BTreeMap;
use std::fmt;

use millstream_types::{Incarnation, SlotIndex, SubtaskId, TaskmanagerId, VertexId};

use crate::topology::Topology;

mod messages;
mod pool;

#[cfg(test)]
mod tests;

pub use messages::{Action, Event, RegistrationRefusal};
pub use pool::SlotPool;

/// One slot of one life of a taskmanager.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct SlotRef {
    /// The taskmanager.
    pub taskmanager: TaskmanagerId,
    /// Which life of it.
    pub incarnation: Incarnation,
    /// Which of its slots.
    pub index: SlotIndex,
}

impl fmt::Display for SlotRef {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.taskmanager, self.index)
    }
}

/// The slots a job needs: sum over sharing groups of the highest parallelism in each.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SlotDemand {
    /// Of each slot, the subtasks that share it.
    pub(super) slots: Vec<Vec<SubtaskId>>,
}

impl SlotDemand {
    /// What this job needs.
    pub fn of(topology: &Topology) -> Self {
        let mut groups: BTreeMap<&str, Vec<(VertexId, u32)>> = BTreeMap::new();
        for vertex in topology.vertices() {
            let group = groups.entry(&vertex.slot_sharing_group).or_default();
            group.push((vertex.id, vertex.parallelism));
        }
        let mut slots = Vec::new();
        for vertices in groups.into_values() {
            let needed = vertices.iter().map(|(_, p)| *p).max().unwrap_or(0);
            for index in 0..needed {
                let sharing = vertices.iter().filter(|(_, p)| index < *p);
                slots.push(sharing.map(|(id, _)| SubtaskId::new(*id, index)).collect());
            }
        }
        Self { slots }
    }

    /// How many.
    pub fn count(&self) -> usize {
        self.slots.len()
    }
}
