//! Which state of a checkpoint each subtask starts from (B5.5, B11).
//!
//! Invariants: every key group is restored by exactly the subtask that owns it now; every handle
//! of operator state goes to exactly one subtask; state that the job has no operator for is
//! refused, never left out in silence.

use std::collections::BTreeMap;

use millstream_types::{CheckpointId, KeyGroupRange, MaxParallelism, OperatorUid, SubtaskId};

use crate::snapshot_types::{
    CompletedCheckpoint, KeyedHandle, OperatorState, OperatorSubtaskState,
};
use crate::topology::{Topology, TopologyVertex};

/// What one subtask starts from.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct RestoreSubtask {
    /// The checkpoint.
    pub checkpoint: CheckpointId,
    /// State by operator. A keyed handle may reach beyond the subtask's own key groups: it reads
    /// only its own. An operator that is new to the job has no entry.
    pub operators: BTreeMap<OperatorUid, OperatorSubtaskState>,
}

/// A checkpoint that does not fit the job.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RestoreError {
    /// The job has no such operator any more.
    #[error(
        "checkpoint {checkpoint} has state of operator {uid}, which the job does not have: give \
         the operator its old uid back, or start without the checkpoint"
    )]
    UnknownOperator {
        /// The checkpoint.
        checkpoint: CheckpointId,
        /// The operator.
        uid: OperatorUid,
    },
    /// Keys are spread over another number of key groups.
    #[error(
        "operator {uid} has max parallelism {found} in the job and {expected} in checkpoint \
         {checkpoint}: set it to {expected}"
    )]
    MaxParallelism {
        /// The checkpoint.
        checkpoint: CheckpointId,
        /// The operator.
        uid: OperatorUid,
        /// In the checkpoint.
        expected: MaxParallelism,
        /// In the job.
        found: MaxParallelism,
    },
    /// An operator that had finished now stands in one chain with one that had not.
    #[error(
        "operator {uid} had finished in checkpoint {checkpoint}, but others of its chain \
         {vertex:?} had not: restore with the same chains"
    )]
    PartlyFinishedChain {
        /// The checkpoint.
        checkpoint: CheckpointId,
        /// The operator.
        uid: OperatorUid,
        /// The chain.
        vertex: String,
    },
}

/// What every subtask of the job starts from.
pub fn restore_plan(
    topology: &Topology,
    checkpoint: &CompletedCheckpoint,
) -> Result<BTreeMap<SubtaskId, RestoreSubtask>, RestoreError> {
    check_operators(topology, checkpoint)?;
    let mut plan = BTreeMap::new();
    for vertex in topology.vertices() {
        check_finished(vertex, checkpoint)?;
        for subtask in vertex.subtasks() {
            let states = vertex.operators.iter().filter_map(|uid| {
                let state = checkpoint.operators.get(uid)?;
                Some((uid.clone(), state_for(vertex, subtask.index, state)))
            });
            let restore = RestoreSubtask {
                checkpoint: checkpoint.id,
                operators: states.collect(),
            };
            plan.insert(subtask, restore);
        }
    }
    Ok(plan)
}

fn check_operators(
    topology: &Topology,
    checkpoint: &CompletedCheckpoint,
) -> Result<(), RestoreError> {
    for (uid, state) in &checkpoint.operators {
        let mut vertices = topology.vertices().iter();
        let Some(vertex) = vertices.find(|vertex| vertex.operators.contains(uid)) else {
            return Err(RestoreError::UnknownOperator {
                checkpoint: checkpoint.id,
                uid: uid.clone(),
            });
        };
        let is_keyed = state
            .subtasks
            .values()
            .any(|subtask| !subtask.keyed.is_empty());
        if is_keyed && vertex.max_parallelism != state.max_parallelism {
            return Err(RestoreError::MaxParallelism {
                checkpoint: checkpoint.id,
                uid: uid.clone(),
                expected: state.max_parallelism,
                found: vertex.max_parallelism,
            });
        }
    }
    Ok(())
}

/// A task does nothing when it had finished, and all of it or none.
fn check_finished(
    vertex: &TopologyVertex,
    checkpoint: &CompletedCheckpoint,
) -> Result<(), RestoreError> {
    let finished = |uid: &&OperatorUid| {
        let state = checkpoint.operators.get(*uid);
        state.is_some_and(|state| state.fully_finished)
    };
    match vertex.operators.iter().find(finished) {
        Some(uid) if !vertex.operators.iter().all(|uid| finished(&uid)) => {
            Err(RestoreError::PartlyFinishedChain {
                checkpoint: checkpoint.id,
                uid: uid.clone(),
                vertex: vertex.name.clone(),
            })
        }
        Some(_) | None => Ok(()),
    }
}

fn state_for(vertex: &TopologyVertex, index: u32, state: &OperatorState) -> OperatorSubtaskState {
    if vertex.parallelism == state.parallelism {
        return state.subtasks.get(&index).cloned().unwrap_or_default();
    }
    let own = KeyGroupRange::of_subtask(index, vertex.parallelism, vertex.max_parallelism);
    let is_ours = |keyed: &&KeyedHandle| own.intersection(keyed.range).is_some();
    let subtasks = state.subtasks.values();
    let operator = state
        .subtasks
        .iter()
        .filter(|(old, _)| *old % vertex.parallelism == index)
        .flat_map(|(_, subtask)| subtask.operator.iter().cloned());
    OperatorSubtaskState {
        keyed: subtasks
            .flat_map(|subtask| subtask.keyed.iter().filter(is_ours).cloned())
            .collect(),
        operator: operator.collect(),
        // Of a source that finished in part, the rest is read by all (F116).
        finished: state.fully_finished,
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use millstream_types::{Epoch, KeyGroup, StateHandle, VertexId, WallTime};

    use super::*;
    use crate::checkpoint::CheckpointKind;
    use crate::topology::testing::source_and_sink;

    fn handle(name: &str) -> StateHandle {
        StateHandle::Inline(Arc::from(name.as_bytes()))
    }

    fn uid(name: &str) -> OperatorUid {
        OperatorUid::new(name).unwrap()
    }

    /// `sink` with this parallelism: each subtask has keyed state of its range and one list.
    fn checkpoint(parallelism: u32) -> CompletedCheckpoint {
        let max_parallelism = MaxParallelism::derived(parallelism);
        let subtask = |index| OperatorSubtaskState {
            keyed: vec![KeyedHandle {
                range: KeyGroupRange::of_subtask(index, parallelism, max_parallelism),
                handle: handle(&format!("keyed-{index}")),
            }],
            operator: vec![handle(&format!("list-{index}"))],
            finished: false,
        };
        let state = OperatorState {
            vertex: VertexId(1),
            parallelism,
            max_parallelism,
            fully_finished: false,
            subtasks: (0..parallelism).map(|i| (i, subtask(i))).collect(),
        };
        CompletedCheckpoint {
            id: CheckpointId(7),
            epoch: Epoch(1),
            kind: CheckpointKind::Periodic,
            triggered_at: WallTime(0),
            operators: BTreeMap::from([(uid("sink"), state)]),
        }
    }

    fn sink(plan: &BTreeMap<SubtaskId, RestoreSubtask>, index: u32) -> &OperatorSubtaskState {
        &plan[&SubtaskId::new(VertexId(1), index)].operators[&uid("sink")]
    }

    // Proves F139.
    #[test]
    fn with_the_same_parallelism_every_subtask_gets_its_own_state_back() {
        let checkpoint = checkpoint(3);
        let plan = restore_plan(&source_and_sink(3), &checkpoint).unwrap();
        for (index, state) in &checkpoint.operators[&uid("sink")].subtasks {
            assert_eq!(sink(&plan, *index), state);
        }
        let source = &plan[&SubtaskId::new(VertexId(0), 0)];
        assert!(source.operators.is_empty(), "new to the job");
    }

    // Proves F136, as far as assignment goes.
    #[test]
    fn with_another_parallelism_every_key_group_and_every_list_has_one_owner() {
        for (old, new) in [(4, 3), (3, 7), (1, 5), (7, 2)] {
            let checkpoint = checkpoint(old);
            let plan = restore_plan(&source_and_sink(new), &checkpoint).unwrap();
            let max = MaxParallelism::derived(new);
            for group in (0..max.get()).map(|group| KeyGroup(group as u16)) {
                let owners = (0..new).filter(|index| {
                    let own = KeyGroupRange::of_subtask(*index, new, max);
                    let restored = &sink(&plan, *index).keyed;
                    own.contains(group) && restored.iter().any(|k| k.range.contains(group))
                });
                assert_eq!(owners.count(), 1, "{old} to {new}, {group:?}");
            }
            let lists: usize = (0..new)
                .map(|index| sink(&plan, index).operator.len())
                .sum();
            assert_eq!(lists, old as usize);
        }
    }

    // Proves F116, as far as assignment goes: of a source that ended in three of four subtasks.
    #[test]
    fn what_a_partly_finished_source_has_left_has_one_owner_and_nobody_else_counts_as_finished() {
        let mut checkpoint = checkpoint(4);
        let state = checkpoint.operators.get_mut(&uid("sink")).unwrap();
        for (_, ended) in state.subtasks.range_mut(..3) {
            *ended = OperatorSubtaskState {
                finished: true,
                ..OperatorSubtaskState::default()
            };
        }
        for new in 1..=9 {
            let plan = restore_plan(&source_and_sink(new), &checkpoint).unwrap();
            let subtasks = || (0..new).map(|index| sink(&plan, index));
            let left: Vec<_> = subtasks().flat_map(|state| &state.operator).collect();
            assert_eq!(left, [&handle("list-3")], "4 to {new}");
            let n_finished = subtasks().filter(|state| state.finished).count();
            assert_eq!(n_finished, if new == 4 { 3 } else { 0 }, "4 to {new}");
        }
    }

    // Proves F143's first half.
    #[test]
    fn state_without_an_operator_is_refused_by_name() {
        let mut checkpoint = checkpoint(1);
        let state = checkpoint.operators.remove(&uid("sink")).unwrap();
        checkpoint.operators.insert(uid("gone"), state);
        let error = restore_plan(&source_and_sink(1), &checkpoint).unwrap_err();
        assert!(error.to_string().contains("operator gone"), "{error}");
    }

    // Proves F137's second half.
    #[test]
    fn another_number_of_key_groups_is_refused_with_both() {
        let mut checkpoint = checkpoint(1);
        let state = checkpoint.operators.get_mut(&uid("sink")).unwrap();
        state.max_parallelism = MaxParallelism::new(64).unwrap();
        let error = restore_plan(&source_and_sink(1), &checkpoint).unwrap_err();
        let text = error.to_string();
        assert!(text.contains("128 in the job and 64"), "{text}");
    }

    // Proves F115 on this side: the mark reaches every subtask, whatever their number.
    #[test]
    fn a_fully_finished_operator_stays_finished() {
        let mut checkpoint = checkpoint(2);
        checkpoint
            .operators
            .get_mut(&uid("sink"))
            .unwrap()
            .fully_finished = true;
        let plan = restore_plan(&source_and_sink(3), &checkpoint).unwrap();
        assert!((0..3).all(|index| sink(&plan, index).finished));
    }
}
