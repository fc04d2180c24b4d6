use std::collections::BTreeMap;

use millstream_types::{
    Attempt, Disposition, Epoch, Incarnation, MonoTime, SlotIndex, SubtaskId, TaskmanagerId,
    VertexId,
};

use super::*;
use crate::chain::TerminalState;
use crate::failure::{FailureInfo, FailureKind};
use crate::moment::Moment;
use crate::restart::testing::{exponential, fixed, rate};
use crate::restart::{ExponentialDelay, RestartStrategyConfig};
use crate::slots::SlotRef;
use crate::topology::testing::source_and_sink;

mod failover;
mod life;
mod looks;
mod random;

/// A job of `source (1/p)` .. -> `sink (1/p)` .., with a shell that answers what has one answer:
/// claims and slots at once, cancellation only when told.
struct Script {
    job: Job,
    parallelism: u32,
    taskmanagers: u32,
    epoch: u64,
    log: Vec<Action>,
    answers_claims: bool,
    answers_slots: bool,
    answers_cancels: bool,
}

fn subtask(vertex: u32, index: u32) -> SubtaskId {
    SubtaskId::new(VertexId(vertex), index)
}

fn taskmanager(index: u32) -> TaskmanagerId {
    TaskmanagerId::new(&format!("tm-{index}")).unwrap()
}

/// Subtask i of every vertex runs on taskmanager i, modulo their number.
fn slot(index: u32) -> SlotRef {
    SlotRef {
        taskmanager: taskmanager(index),
        incarnation: Incarnation(1),
        index: SlotIndex(0),
    }
}

fn user_error() -> FailureInfo {
    FailureInfo::new(FailureKind::User, "division by zero")
}

impl Script {
    fn new(strategy: RestartStrategyConfig, parallelism: u32) -> Self {
        Self {
            job: Job::new(JobConfig::new(strategy), source_and_sink(parallelism)),
            parallelism,
            taskmanagers: parallelism,
            epoch: 0,
            log: Vec::new(),
            answers_claims: true,
            answers_slots: true,
            answers_cancels: true,
        }
    }

    /// The same, deployed and running.
    fn running(strategy: RestartStrategyConfig, parallelism: u32) -> Self {
        let mut script = Self::new(strategy, parallelism);
        script.at(0, Event::Start);
        script.all_run(0);
        script
    }

    /// Steps at this second and answers; returns all actions.
    fn at(&mut self, second: u64, event: Event) -> Vec<Action> {
        self.at_millis(second * 1000, event)
    }

    fn at_millis(&mut self, millis: u64, event: Event) -> Vec<Action> {
        let mut all = Vec::new();
        let mut events = vec![event];
        while let Some(event) = events.pop() {
            let mut actions = Vec::new();
            self.job.step(Moment::test(millis), event, &mut actions);
            for action in &actions {
                events.extend(self.answer(action));
            }
            all.extend(actions);
        }
        let now = MonoTime::from_millis(millis);
        assert!(
            self.job.deadline() > now,
            "due at {:?}",
            self.job.deadline()
        );
        self.log.extend(all.clone());
        all
    }

    fn answer(&mut self, action: &Action) -> Option<Event> {
        match action {
            Action::Claim if self.answers_claims => {
                self.epoch += 1;
                Some(Event::Claimed {
                    epoch: Epoch(self.epoch),
                    restore: None,
                })
            }
            Action::RequestSlots { epoch, .. } if self.answers_slots => {
                Some(Event::SlotsAllocated {
                    epoch: *epoch,
                    slots: self.slots(),
                })
            }
            Action::CancelTask {
                epoch,
                subtask,
                attempt,
                ..
            } if self.answers_cancels => Some(Event::TaskState {
                epoch: *epoch,
                subtask: *subtask,
                attempt: *attempt,
                state: ExecutionState::Canceled,
                failure: None,
            }),
            Action::WriteTerminal { .. } if self.answers_claims => Some(Event::TerminalWritten),
            _ => None,
        }
    }

    fn slots(&self) -> BTreeMap<SubtaskId, SlotRef> {
        (0..2)
            .flat_map(|vertex| (0..self.parallelism).map(move |index| (vertex, index)))
            .map(|(vertex, index)| (subtask(vertex, index), slot(index % self.taskmanagers)))
            .collect()
    }

    fn report(
        &self,
        subtask: SubtaskId,
        state: ExecutionState,
        failure: Option<FailureInfo>,
    ) -> Event {
        Event::TaskState {
            epoch: Epoch(self.epoch),
            subtask,
            attempt: self.job.executions()[&subtask].attempt,
            state,
            failure,
        }
    }

    fn all(&mut self, second: u64, state: ExecutionState) -> Vec<Action> {
        let subtasks: Vec<_> = self.job.executions().keys().copied().collect();
        let mut actions = Vec::new();
        for subtask in subtasks {
            actions.extend(self.at(second, self.report(subtask, state, None)));
        }
        actions
    }

    fn all_run(&mut self, second: u64) {
        self.all(second, ExecutionState::Running);
    }

    fn fail(&mut self, second: u64, subtask: SubtaskId) -> Vec<Action> {
        self.at(
            second,
            self.report(subtask, ExecutionState::Failed, Some(user_error())),
        )
    }

    fn lose(&mut self, second: u64, index: u32, kind: FailureKind) -> Vec<Action> {
        self.at(
            second,
            Event::TaskmanagerLost {
                taskmanager: taskmanager(index),
                failure: FailureInfo::new(kind, format!("taskmanager tm-{index} is gone")),
            },
        )
    }

    fn end(&self) -> Option<&JobEnd> {
        self.log.iter().find_map(|action| match action {
            Action::Announce(end) => Some(end),
            _ => None,
        })
    }

    fn attempts_of(&self, of: SubtaskId) -> Vec<u32> {
        let deployed = self.log.iter().filter_map(|action| match action {
            Action::Deploy {
                subtask, attempt, ..
            } if *subtask == of => Some(attempt.0),
            _ => None,
        });
        deployed.collect()
    }

    fn kinds(actions: &[Action]) -> Vec<&'static str> {
        actions
            .iter()
            .map(|action| match action {
                Action::Claim => "claim",
                Action::RequestSlots { .. } => "request slots",
                Action::ConfirmClaim { .. } => "confirm claim",
                Action::ReleaseSlots { .. } => "release slots",
                Action::Deploy { .. } => "deploy",
                Action::StartCheckpointing { .. } => "start checkpointing",
                Action::SuspendCheckpointing => "suspend checkpointing",
                Action::CancelTask { .. } => "cancel",
                Action::AbandonTask { .. } => "abandon",
                Action::WriteTerminal { .. } => "write terminal",
                Action::Announce(_) => "announce",
                Action::StatusChanged { .. } => "status",
                Action::TaskChanged { .. } => "task",
                Action::WillRestart { .. } => "will restart",
                Action::RestartLoop { .. } => "restart loop",
            })
            .filter(|kind| !matches!(*kind, "task" | "status"))
            .collect()
    }
}
