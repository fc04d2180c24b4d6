//! Which subtasks a checkpoint is taken of (B5.1).

use std::collections::{BTreeMap, BTreeSet};

use millstream_types::{Attempt, SubtaskId};

use crate::job::ExecutionState;
use crate::topology::Topology;

/// What the coordinator knows of a subtask.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Task {
    pub(super) attempt: Attempt,
    pub(super) state: ExecutionState,
    /// It has no more input and waits for its final checkpoint (B5.6).
    pub(super) is_at_end_of_data: bool,
}

pub(super) type Tasks = BTreeMap<SubtaskId, Task>;

/// The subtasks of one checkpoint.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Plan {
    /// Told to begin.
    pub(super) trigger: BTreeSet<SubtaskId>,
    /// Have to acknowledge, and are told of the end.
    pub(super) wait: BTreeSet<SubtaskId>,
    /// Had finished before.
    pub(super) finished: BTreeSet<SubtaskId>,
}

/// Why there can be no checkpoint now.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum PlanError {
    NotRunning(Vec<SubtaskId>),
    /// Only where checkpoints after tasks finish are off.
    Finished(Vec<SubtaskId>),
}

impl Plan {
    /// The plan for these states, all of one instant.
    pub(super) fn new(
        topology: &Topology,
        tasks: &Tasks,
        after_tasks_finish: bool,
    ) -> Result<Self, PlanError> {
        let state = |subtask: SubtaskId| tasks.get(&subtask).map(|task| task.state);
        let in_state = |wanted: ExecutionState| {
            topology
                .subtasks()
                .filter(move |subtask| state(*subtask) == Some(wanted))
        };
        let finished: BTreeSet<_> = in_state(ExecutionState::Finished).collect();
        let wait: BTreeSet<_> = in_state(ExecutionState::Running).collect();
        let others: Vec<_> = topology
            .subtasks()
            .filter(|subtask| !finished.contains(subtask) && !wait.contains(subtask))
            .collect();
        if !finished.is_empty() && !after_tasks_finish {
            return Err(PlanError::Finished(finished.into_iter().collect()));
        }
        if !others.is_empty() {
            return Err(PlanError::NotRunning(others));
        }
        let trigger = wait
            .iter()
            .copied()
            .filter(|subtask| {
                let upstream = topology.upstream_of(*subtask);
                upstream.iter().all(|upstream| !wait.contains(upstream))
            })
            .collect();
        Ok(Self {
            trigger,
            wait,
            finished,
        })
    }
}

#[cfg(test)]
mod tests {
    use millstream_types::VertexId;

    use super::*;
    use crate::topology::Connection::{AllToAll, Pointwise};
    use crate::topology::testing::vertex;

    /// a (2) -pointwise-> b (2) -all-to-all-> c (2), with these subtasks in another state.
    fn plan(exceptions: &[(u32, u32, ExecutionState)], after: bool) -> Result<Plan, PlanError> {
        let topology = Topology::new(vec![
            vertex(0, "a", 2, &[]),
            vertex(1, "b", 2, &[(0, Pointwise)]),
            vertex(2, "c", 2, &[(1, AllToAll)]),
        ])
        .unwrap();
        let mut tasks: Tasks = topology
            .subtasks()
            .map(|subtask| {
                let task = Task {
                    attempt: Attempt(0),
                    state: ExecutionState::Running,
                    is_at_end_of_data: false,
                };
                (subtask, task)
            })
            .collect();
        for (vertex, index, state) in exceptions {
            tasks.get_mut(&subtask(*vertex, *index)).unwrap().state = *state;
        }
        Plan::new(&topology, &tasks, after)
    }

    fn subtask(vertex: u32, index: u32) -> SubtaskId {
        SubtaskId::new(VertexId(vertex), index)
    }

    const FINISHED: ExecutionState = ExecutionState::Finished;

    #[test]
    fn sources_are_triggered_while_everything_runs() {
        let plan = plan(&[], true).unwrap();
        assert_eq!(plan.trigger, BTreeSet::from([subtask(0, 0), subtask(0, 1)]));
        assert_eq!(plan.wait.len(), 6);
    }

    // Proves F113.
    #[test]
    fn the_roots_of_the_running_part_are_triggered_once_sources_finished() {
        let half = plan(&[(0, 0, FINISHED)], true).unwrap();
        assert_eq!(half.trigger, BTreeSet::from([subtask(0, 1), subtask(1, 0)]));
        assert_eq!(half.wait.len(), 5);
        // One running b is enough to bring barriers to both c.
        let finished = [(0, 0, FINISHED), (0, 1, FINISHED), (1, 0, FINISHED)];
        let plan = plan(&finished, true).unwrap();
        assert_eq!(plan.trigger, BTreeSet::from([subtask(1, 1)]));
        assert_eq!(plan.finished.len(), 3);
    }

    // Proves F114, as far as the plan goes.
    #[test]
    fn finished_tasks_stop_checkpoints_where_that_is_wanted() {
        let refused = plan(&[(0, 1, FINISHED)], false);
        assert_eq!(refused, Err(PlanError::Finished(vec![subtask(0, 1)])));
    }

    #[test]
    fn a_task_that_does_not_run_yet_stops_a_checkpoint_wherever_it_stands() {
        for state in [
            ExecutionState::Created,
            ExecutionState::Deploying,
            ExecutionState::Initializing,
            ExecutionState::Canceling,
            ExecutionState::Failed,
        ] {
            let refused = plan(&[(2, 1, state)], true);
            assert_eq!(refused, Err(PlanError::NotRunning(vec![subtask(2, 1)])));
        }
    }
}
