//! The machine of a job: what goes into it, and what has become due.

use std::collections::BTreeMap;
use std::time::Duration;

use millstream_types::{Attempt, Epoch, MonoTime, SubtaskId};

use super::history::FailureHistory;
use super::messages::{Action, Event, JobEnd};
use super::state::{Execution, ExecutionState, JobStatus};
use crate::chain::RestorePoint;
use crate::failure::{FailedTask, FailureInfo, FailureRecord};
use crate::moment::Moment;
use crate::restart::{RestartStrategy, RestartStrategyConfig};
use crate::slots::SlotRef;
use crate::topology::Topology;

/// What a job is configured with, as far as its life goes.
#[derive(Clone, PartialEq, Debug)]
pub struct JobConfig {
    /// The strategy in force.
    pub restart_strategy: RestartStrategyConfig,
    /// How long a task may take to stop before it is abandoned (`task.cancellation.interval`).
    pub cancellation_interval: Duration,
    /// Time between attempts to write to the chain while the store is not reached.
    pub chain_retry_delay: Duration,
    /// Tasks are deployed under a claim of at most this age without another look at the chain.
    pub claim_fresh_for: Duration,
    /// Root failures kept (`web.exception-history-size`).
    pub exception_history_size: usize,
}

impl JobConfig {
    /// The defaults, for a new job with this strategy.
    pub fn new(restart_strategy: RestartStrategyConfig) -> Self {
        Self {
            restart_strategy,
            cancellation_interval: Duration::from_secs(30),
            chain_retry_delay: Duration::from_secs(1),
            claim_fresh_for: Duration::from_secs(1),
            exception_history_size: 16,
        }
    }
}

/// One job.
#[derive(Clone, PartialEq, Debug)]
pub struct Job {
    pub(super) config: JobConfig,
    pub(super) topology: Topology,
    pub(super) strategy: RestartStrategy,
    pub(super) status: JobStatus,
    pub(super) phase: Phase,
    pub(super) claim: Claim,
    pub(super) executions: BTreeMap<SubtaskId, Execution>,
    /// Number of the next execution of every subtask; empty before the first claim.
    pub(super) next_attempt: BTreeMap<SubtaskId, Attempt>,
    pub(super) history: FailureHistory,
}

#[derive(Clone, PartialEq, Debug)]
pub(super) enum Phase {
    Created,
    /// Waits for the claim.
    Starting,
    AwaitingSlots {
        restore: Option<RestorePoint>,
        /// When it was asked for: reading and verifying what it restores takes time too.
        claimed_at: MonoTime,
        /// The slots, while it is looked whether the claim is still the newest.
        given: Option<BTreeMap<SubtaskId, SlotRef>>,
    },
    Executing,
    Restarting(Wave),
    Ending(Ending),
    Ended,
    Suspended,
}

/// A restart under way: its tasks stop while the delay runs.
#[derive(Clone, PartialEq, Debug)]
pub(super) struct Wave {
    pub(super) restart_at: MonoTime,
    pub(super) abandon_at: MonoTime,
}

#[derive(Clone, PartialEq, Debug)]
pub(super) struct Ending {
    pub(super) end: JobEnd,
    pub(super) abandon_at: MonoTime,
    pub(super) terminal: Terminal,
}

#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) enum Terminal {
    NotWritten,
    Writing,
    RetryAt(MonoTime),
}

#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) enum Claim {
    None,
    /// Since when.
    Requested(MonoTime),
    RetryAt(MonoTime),
    Held(Epoch),
}

impl Job {
    /// A job that was not started yet.
    pub fn new(config: JobConfig, topology: Topology) -> Self {
        let execution = Execution {
            attempt: Attempt(0),
            state: ExecutionState::Created,
            slot: None,
        };
        Self {
            strategy: RestartStrategy::new(config.restart_strategy.clone()),
            history: FailureHistory::new(config.exception_history_size),
            next_attempt: BTreeMap::new(),
            executions: topology
                .subtasks()
                .map(|subtask| (subtask, execution.clone()))
                .collect(),
            status: JobStatus::Initializing,
            phase: Phase::Created,
            claim: Claim::None,
            config,
            topology,
        }
    }

    /// Its state.
    pub fn status(&self) -> JobStatus {
        self.status
    }

    /// The epoch it holds.
    pub fn epoch(&self) -> Option<Epoch> {
        match self.claim {
            Claim::Held(epoch) => Some(epoch),
            Claim::None | Claim::Requested(_) | Claim::RetryAt(_) => None,
        }
    }

    /// The newest execution of every subtask.
    pub fn executions(&self) -> &BTreeMap<SubtaskId, Execution> {
        &self.executions
    }

    /// What failed so far.
    pub fn history(&self) -> &FailureHistory {
        &self.history
    }

    /// When [`Event::Tick`] is due.
    pub fn deadline(&self) -> MonoTime {
        let claim = match self.claim {
            Claim::RetryAt(at) => at,
            Claim::None | Claim::Requested(_) | Claim::Held(_) => MonoTime::NEVER,
        };
        let phase = match &self.phase {
            Phase::Restarting(wave) if self.any_live() => wave.abandon_at,
            Phase::Restarting(wave) => wave.restart_at,
            Phase::Ending(ending) if self.any_live() => ending.abandon_at,
            Phase::Ending(Ending {
                terminal: Terminal::RetryAt(at),
                ..
            }) => *at,
            Phase::Ending(_)
            | Phase::Created
            | Phase::Starting
            | Phase::AwaitingSlots { .. }
            | Phase::Executing
            | Phase::Ended
            | Phase::Suspended => MonoTime::NEVER,
        };
        claim.min(phase)
    }

    /// Takes an event; appends what is to be done.
    pub fn step(&mut self, at: Moment, event: Event, actions: &mut Vec<Action>) {
        match event {
            Event::Start => self.on_start(at.now, actions),
            Event::Claimed { epoch, restore } => self.on_claimed(epoch, restore, actions),
            Event::ClaimNotWritten => self.on_claim_not_written(at),
            Event::ClaimRefused(refusal) => self.on_claim_refused(at, refusal, actions),
            Event::ClaimConfirmed { epoch } => self.on_claim_confirmed(epoch, actions),
            Event::OwnershipLost => self.suspend(actions),
            Event::SlotsAllocated { epoch, slots } => self.on_slots(at, epoch, slots, actions),
            Event::SlotsUnavailable { epoch, failure } => {
                let waits = matches!(self.phase, Phase::AwaitingSlots { .. });
                if waits && self.epoch() == Some(epoch) {
                    self.on_failure(at, self.record(at, None, failure), Vec::new(), actions);
                }
            }
            Event::TaskState {
                epoch,
                subtask,
                attempt,
                state,
                failure,
            } => {
                if self.is_current(epoch, subtask, attempt) {
                    self.on_task_state(at, subtask, state, failure, actions);
                }
            }
            Event::TaskmanagerLost {
                taskmanager,
                failure,
            } => self.on_taskmanager_lost(at, &taskmanager, &failure, actions),
            Event::Failed {
                failure,
                attributed_to,
            } => self.on_failed(at, failure, attributed_to, actions),
            Event::Reported { taskmanager, tasks } => {
                self.on_reported(at, &taskmanager, &tasks, actions);
            }
            Event::Cancel => self.on_cancel(at, actions),
            Event::TerminalWritten => self.on_terminal_written(actions),
            Event::TerminalNotWritten => {
                if let Phase::Ending(ending) = &mut self.phase
                    && ending.terminal == Terminal::Writing
                {
                    ending.terminal = Terminal::RetryAt(at.now + self.config.chain_retry_delay);
                }
            }
            Event::Tick => {}
        }
        self.proceed(at, actions);
    }

    /// Whatever has become possible or due, whichever event it was.
    fn proceed(&mut self, at: Moment, actions: &mut Vec<Action>) {
        if let Claim::RetryAt(due) = self.claim
            && due <= at.now
        {
            self.request_claim(at.now, actions);
        }
        let abandon_at = match &self.phase {
            Phase::Restarting(wave) => wave.abandon_at,
            Phase::Ending(ending) => ending.abandon_at,
            Phase::Created
            | Phase::Starting
            | Phase::AwaitingSlots { .. }
            | Phase::Executing
            | Phase::Ended
            | Phase::Suspended => MonoTime::NEVER,
        };
        if abandon_at <= at.now {
            self.abandon_live(actions);
        }
        match &self.phase {
            Phase::Executing => {
                let mut states = self.executions.values().map(|execution| execution.state);
                if states.all(|state| state == ExecutionState::Finished) {
                    self.end(at, JobEnd::Finished, actions);
                    self.proceed_to_terminal(at, actions);
                }
            }
            Phase::Restarting(wave) => {
                if !self.any_live() && wave.restart_at <= at.now {
                    self.start_again(at.now, actions);
                }
            }
            Phase::Ending(_) => self.proceed_to_terminal(at, actions),
            Phase::Created
            | Phase::Starting
            | Phase::AwaitingSlots { .. }
            | Phase::Ended
            | Phase::Suspended => {}
        }
    }

    fn on_start(&mut self, now: MonoTime, actions: &mut Vec<Action>) {
        if matches!(self.phase, Phase::Created) {
            self.set_status(JobStatus::Created, actions);
            self.phase = Phase::Starting;
            self.request_claim(now, actions);
        }
    }

    fn start_again(&mut self, now: MonoTime, actions: &mut Vec<Action>) {
        if let Some(epoch) = self.epoch() {
            actions.push(Action::ReleaseSlots { epoch });
        }
        self.phase = Phase::Starting;
        self.request_claim(now, actions);
    }

    pub(super) fn suspend(&mut self, actions: &mut Vec<Action>) {
        if matches!(self.phase, Phase::Ended | Phase::Suspended) {
            return;
        }
        actions.push(Action::SuspendCheckpointing);
        self.cancel_live(actions);
        if let Some(epoch) = self.epoch() {
            actions.push(Action::ReleaseSlots { epoch });
        }
        self.claim = Claim::None;
        self.phase = Phase::Suspended;
        self.set_status(JobStatus::Suspended, actions);
    }

    pub(super) fn is_current(&self, epoch: Epoch, subtask: SubtaskId, attempt: Attempt) -> bool {
        let execution = self.executions.get(&subtask);
        self.epoch() == Some(epoch)
            && execution.is_some_and(|e| e.attempt == attempt && e.slot.is_some())
    }

    pub(super) fn any_live(&self) -> bool {
        self.executions.values().any(is_live)
    }

    pub(super) fn cancel_live(&mut self, actions: &mut Vec<Action>) {
        let Some(epoch) = self.epoch() else {
            return;
        };
        for subtask in self.live() {
            let execution = &self.executions[&subtask];
            let Some(slot) = execution.slot.clone() else {
                continue;
            };
            if execution.state == ExecutionState::Canceling {
                continue;
            }
            let attempt = execution.attempt;
            self.set_task(subtask, ExecutionState::Canceling, None, actions);
            actions.push(Action::CancelTask {
                taskmanager: slot.taskmanager,
                epoch,
                subtask,
                attempt,
            });
        }
    }

    fn abandon_live(&mut self, actions: &mut Vec<Action>) {
        let Some(epoch) = self.epoch() else {
            return;
        };
        for subtask in self.live() {
            let execution = &self.executions[&subtask];
            if let Some(slot) = execution.slot.clone() {
                actions.push(Action::AbandonTask {
                    slot,
                    epoch,
                    subtask,
                    attempt: execution.attempt,
                });
            }
            self.set_task(subtask, ExecutionState::Failed, None, actions);
        }
    }

    pub(super) fn live(&self) -> Vec<SubtaskId> {
        let live = self.executions.iter().filter(|(_, e)| is_live(e));
        live.map(|(subtask, _)| *subtask).collect()
    }

    pub(super) fn record(
        &self,
        at: Moment,
        subtask: Option<SubtaskId>,
        failure: FailureInfo,
    ) -> FailureRecord {
        let task = subtask.and_then(|subtask| {
            let execution = self.executions.get(&subtask)?;
            Some(FailedTask {
                subtask,
                name: self.topology.name_of(subtask).to_string(),
                attempt: execution.attempt,
                taskmanager: execution.slot.as_ref().map(|s| s.taskmanager.clone()),
            })
        });
        FailureRecord {
            failed_at: at.wall,
            task,
            failure,
        }
    }

    pub(super) fn set_status(&mut self, to: JobStatus, actions: &mut Vec<Action>) {
        let from = std::mem::replace(&mut self.status, to);
        if from != to {
            actions.push(Action::StatusChanged { from, to });
        }
    }

    pub(super) fn set_task(
        &mut self,
        subtask: SubtaskId,
        to: ExecutionState,
        failure: Option<FailureInfo>,
        actions: &mut Vec<Action>,
    ) {
        let Some(execution) = self.executions.get_mut(&subtask) else {
            return;
        };
        let from = std::mem::replace(&mut execution.state, to);
        actions.push(Action::TaskChanged {
            subtask,
            attempt: execution.attempt,
            from,
            to,
            failure,
        });
    }
}

/// Whether something runs that has to stop: a task that was never deployed does not.
fn is_live(execution: &Execution) -> bool {
    execution.slot.is_some() && !execution.state.is_terminal()
}
