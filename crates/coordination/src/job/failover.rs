//! From a report or a loss to a wave of restarts, or to the end of the job.

use std::collections::BTreeSet;
use std::time::Duration;

use millstream_types::{Attempt, SubtaskId, TaskmanagerId};

use super::machine::{Job, Phase, Wave};
use super::messages::{Action, JobEnd, ReportedTask};
use super::state::{ExecutionState, JobStatus};
use crate::failure::{FailureInfo, FailureKind, FailureRecord};
use crate::moment::Moment;
use crate::restart::RestartDecision;

/// From this many restarts with the same root cause on, a loop is reported.
const LOOP_FROM: u32 = 3;

impl Job {
    pub(super) fn on_task_state(
        &mut self,
        at: Moment,
        subtask: SubtaskId,
        state: ExecutionState,
        failure: Option<FailureInfo>,
        actions: &mut Vec<Action>,
    ) {
        let before = self.executions[&subtask].state;
        if !before.may_become(state) {
            return;
        }
        let failure = match state {
            ExecutionState::Failed => Some(failure.unwrap_or_else(|| {
                FailureInfo::new(FailureKind::Internal, "the task failed and did not say why")
            })),
            // Nobody here asked for it: its taskmanager gave up on this jobmanager, and the task
            // is as lost as if it had failed.
            ExecutionState::Canceled if before != ExecutionState::Canceling => {
                Some(FailureInfo::new(
                    FailureKind::TaskmanagerLost,
                    "the taskmanager cancelled the task by itself",
                ))
            }
            _ => failure,
        };
        let state = match (&failure, state) {
            (Some(_), ExecutionState::Canceled) => ExecutionState::Failed,
            _ => state,
        };
        self.set_task(subtask, state, failure.clone(), actions);
        if let (ExecutionState::Failed, Some(failure)) = (state, failure) {
            let record = self.record(at, Some(subtask), failure);
            self.on_failure(at, record, Vec::new(), actions);
        }
    }

    pub(super) fn on_taskmanager_lost(
        &mut self,
        at: Moment,
        taskmanager: &TaskmanagerId,
        failure: &FailureInfo,
        actions: &mut Vec<Action>,
    ) {
        self.give_back_slots_of(taskmanager, actions);
        let lost: Vec<SubtaskId> = self
            .executions
            .iter()
            .filter(|(_, execution)| !execution.state.is_terminal())
            .filter(|(_, execution)| {
                let slot = execution.slot.as_ref();
                slot.is_some_and(|slot| slot.taskmanager == *taskmanager)
            })
            .map(|(subtask, _)| *subtask)
            .collect();
        for subtask in &lost {
            self.set_task(
                *subtask,
                ExecutionState::Failed,
                Some(failure.clone()),
                actions,
            );
        }
        // One taskmanager is one failure, however many tasks it had (F29).
        let mut records = lost
            .into_iter()
            .map(|subtask| self.record(at, Some(subtask), failure.clone()));
        let Some(root) = records.next() else {
            return;
        };
        let concurrent: Vec<_> = records.collect();
        self.on_failure(at, root, concurrent, actions);
    }

    pub(super) fn on_failed(
        &mut self,
        at: Moment,
        failure: FailureInfo,
        attributed_to: Option<(SubtaskId, Attempt)>,
        actions: &mut Vec<Action>,
    ) {
        let subtask = match attributed_to {
            None => None,
            Some((subtask, attempt)) => {
                let execution = self.executions.get(&subtask);
                if execution.is_none_or(|execution| execution.attempt != attempt) {
                    return;
                }
                Some(subtask)
            }
        };
        self.on_failure(at, self.record(at, subtask, failure), Vec::new(), actions);
    }

    /// Every failure ends up here.
    pub(super) fn on_failure(
        &mut self,
        at: Moment,
        root: FailureRecord,
        concurrent: Vec<FailureRecord>,
        actions: &mut Vec<Action>,
    ) {
        let is_final = root.failure.is_non_recoverable();
        match &self.phase {
            Phase::Executing | Phase::AwaitingSlots { .. } => {}
            Phase::Restarting(_) if !is_final => {
                for record in [root].into_iter().chain(concurrent) {
                    self.history.attach(record);
                }
                return;
            }
            Phase::Restarting(_) | Phase::Starting if is_final => {}
            // Errors of tasks that are being cancelled are of no interest any more (F34), and
            // what fails between two deployments belongs to the one before.
            Phase::Restarting(_)
            | Phase::Created
            | Phase::Starting
            | Phase::Ending(_)
            | Phase::Ended
            | Phase::Suspended => return,
        }
        self.remember(&root, concurrent, actions);
        actions.push(Action::SuspendCheckpointing);
        if is_final {
            self.fail(at, JobEnd::NotRecoverable(root), actions);
            return;
        }
        let delay = if root.failure.kind == FailureKind::TaskmanagerLeaving {
            Duration::ZERO
        } else {
            match self.strategy.on_failure(at.now, at.random) {
                RestartDecision::Restart { delay, .. } => delay,
                RestartDecision::GiveUp => {
                    let end = JobEnd::Suppressed {
                        strategy: self.strategy.config().clone(),
                        failure: root,
                    };
                    self.fail(at, end, actions);
                    return;
                }
            }
        };
        self.open_wave(at, root, delay, actions);
    }

    fn remember(
        &mut self,
        root: &FailureRecord,
        concurrent: Vec<FailureRecord>,
        actions: &mut Vec<Action>,
    ) {
        let vertex = root
            .task
            .as_ref()
            .and_then(|task| self.topology.vertex(task.subtask.vertex))
            .map(|vertex| vertex.name.as_str());
        let fingerprint = root.failure.fingerprint(vertex);
        self.history.push(root.clone(), fingerprint);
        for record in concurrent {
            self.history.attach(record);
        }
        if self.history.repeated() >= LOOP_FROM {
            actions.push(Action::RestartLoop {
                repeated: self.history.repeated(),
            });
        }
    }

    fn open_wave(
        &mut self,
        at: Moment,
        root: FailureRecord,
        delay: Duration,
        actions: &mut Vec<Action>,
    ) {
        self.set_status(JobStatus::Restarting, actions);
        let failed = match &root.task {
            Some(task) => BTreeSet::from([task.subtask]),
            None => self.topology.subtasks().collect(),
        };
        actions.push(Action::WillRestart {
            tasks: self.topology.restart_set(&failed).len(),
            root: Box::new(root),
        });
        self.phase = Phase::Restarting(Wave {
            restart_at: at.now + delay,
            abandon_at: at.now + self.config.cancellation_interval,
        });
        self.cancel_live(actions);
    }

    fn fail(&mut self, at: Moment, end: JobEnd, actions: &mut Vec<Action>) {
        self.set_status(JobStatus::Failing, actions);
        self.end(at, end, actions);
    }

    pub(super) fn on_reported(
        &mut self,
        at: Moment,
        taskmanager: &TaskmanagerId,
        tasks: &[ReportedTask],
        actions: &mut Vec<Action>,
    ) {
        for task in tasks {
            if self.is_current(task.epoch, task.subtask, task.attempt) {
                self.on_task_state(at, task.subtask, task.state, None, actions);
            } else {
                actions.push(Action::CancelTask {
                    taskmanager: taskmanager.clone(),
                    epoch: task.epoch,
                    subtask: task.subtask,
                    attempt: task.attempt,
                });
            }
        }
        // A deployment may still be on its way, so only what was seen there can be missing.
        let missing: Vec<SubtaskId> = self
            .executions
            .iter()
            .filter(|(_, execution)| {
                let slot = execution.slot.as_ref();
                execution.state > ExecutionState::Deploying
                    && !execution.state.is_terminal()
                    && slot.is_some_and(|slot| slot.taskmanager == *taskmanager)
            })
            .map(|(subtask, _)| *subtask)
            .filter(|subtask| !tasks.iter().any(|task| task.subtask == *subtask))
            .collect();
        for subtask in missing {
            let text = format!("taskmanager {taskmanager} does not have the task any more");
            let failure = FailureInfo::new(FailureKind::TaskmanagerLost, text);
            self.on_task_state(at, subtask, ExecutionState::Failed, Some(failure), actions);
        }
    }
}
