//! The machine of a job: claim, slots, deployment, waves of failures, the end.

use std::collections::BTreeMap;
use std::time::Duration;

use millstream_types::{Attempt, Epoch, MonoTime, SubtaskId};

use super::ending::status_of;
use super::history::FailureHistory;
use super::messages::{Action, ClaimRefusal, Event, JobEnd};
use super::state::{Execution, ExecutionState, JobStatus};
use crate::chain::RestorePoint;
use crate::failure::{FailedTask, FailureInfo, FailureKind, FailureRecord};
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
    next_attempt: BTreeMap<SubtaskId, Attempt>,
    pub(super) history: FailureHistory,
}

#[derive(Clone, PartialEq, Debug)]
pub(super) enum Phase {
    Created,
    /// Waits for the claim.
    Starting,
    AwaitingSlots {
        restore: Option<RestorePoint>,
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
    Requested,
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
            Claim::None | Claim::Requested | Claim::RetryAt(_) => None,
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
            Claim::None | Claim::Requested | Claim::Held(_) => MonoTime::NEVER,
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
            Event::Start => self.on_start(actions),
            Event::Claimed { epoch, restore } => self.on_claimed(epoch, restore, actions),
            Event::ClaimNotWritten => self.on_claim_not_written(at),
            Event::ClaimRefused(refusal) => self.on_claim_refused(at, refusal, actions),
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
            self.request_claim(actions);
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
                    self.start_again(actions);
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

    fn on_start(&mut self, actions: &mut Vec<Action>) {
        if matches!(self.phase, Phase::Created) {
            self.set_status(JobStatus::Created, actions);
            self.phase = Phase::Starting;
            self.request_claim(actions);
        }
    }

    fn start_again(&mut self, actions: &mut Vec<Action>) {
        if let Some(epoch) = self.epoch() {
            actions.push(Action::ReleaseSlots { epoch });
        }
        self.phase = Phase::Starting;
        self.request_claim(actions);
    }

    pub(super) fn request_claim(&mut self, actions: &mut Vec<Action>) {
        self.claim = Claim::Requested;
        actions.push(Action::Claim);
    }

    fn on_claimed(
        &mut self,
        epoch: Epoch,
        restore: Option<RestorePoint>,
        actions: &mut Vec<Action>,
    ) {
        if self.claim != Claim::Requested {
            return;
        }
        self.claim = Claim::Held(epoch);
        if self.next_attempt.is_empty() {
            self.number_attempts_from(epoch);
        }
        if matches!(self.phase, Phase::Starting) {
            self.phase = Phase::AwaitingSlots { restore };
            let previous = self.executions.iter().filter_map(|(subtask, execution)| {
                let slot = execution.slot.as_ref()?;
                Some((*subtask, slot.taskmanager.clone()))
            });
            actions.push(Action::RequestSlots {
                epoch,
                previous: previous.collect(),
            });
        }
    }

    /// A jobmanager that takes a job over goes on with the numbers of its executions (F35). Each
    /// start claims one epoch, so the epochs before this one are at least as many as executions.
    fn number_attempts_from(&mut self, epoch: Epoch) {
        let before = u32::try_from(epoch.0.saturating_sub(1)).unwrap_or(u32::MAX);
        for (subtask, execution) in &mut self.executions {
            execution.attempt = Attempt(before);
            self.next_attempt.insert(*subtask, Attempt(before));
        }
    }

    fn on_claim_not_written(&mut self, at: Moment) {
        // A store that is not reached is no failure of the job.
        if self.claim == Claim::Requested {
            self.claim = Claim::RetryAt(at.now + self.config.chain_retry_delay);
        }
    }

    fn on_claim_refused(&mut self, at: Moment, refusal: ClaimRefusal, actions: &mut Vec<Action>) {
        if self.claim != Claim::Requested {
            return;
        }
        match refusal {
            ClaimRefusal::Ended(state) => {
                self.phase = Phase::Ended;
                self.claim = Claim::None;
                self.set_status(status_of(state), actions);
                actions.push(Action::Announce(JobEnd::Earlier(state)));
            }
            ClaimRefusal::Unusable(failure) => {
                let record = self.record(at, None, failure);
                let fingerprint = record.failure.fingerprint(None);
                self.history.push(record, fingerprint);
                self.suspend(actions);
            }
        }
    }

    fn suspend(&mut self, actions: &mut Vec<Action>) {
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

    fn on_slots(
        &mut self,
        at: Moment,
        epoch: Epoch,
        slots: BTreeMap<SubtaskId, SlotRef>,
        actions: &mut Vec<Action>,
    ) {
        let is_current = self.epoch() == Some(epoch);
        let restore = match &self.phase {
            Phase::AwaitingSlots { restore } if is_current => restore.clone(),
            Phase::Executing if is_current => return,
            _ => {
                actions.push(Action::ReleaseSlots { epoch });
                return;
            }
        };
        let missing = self.topology.subtasks().find(|s| !slots.contains_key(s));
        if let Some(missing) = missing {
            let text = format!("no slot was given for {}", self.topology.name_of(missing));
            let failure = FailureInfo::new(FailureKind::Internal, text);
            self.on_failure(at, self.record(at, None, failure), Vec::new(), actions);
            return;
        }
        self.phase = Phase::Executing;
        self.deploy(epoch, restore, slots, actions);
        self.set_status(JobStatus::Running, actions);
    }

    fn deploy(
        &mut self,
        epoch: Epoch,
        restore: Option<RestorePoint>,
        slots: BTreeMap<SubtaskId, SlotRef>,
        actions: &mut Vec<Action>,
    ) {
        let mut attempts = BTreeMap::new();
        let mut deployments = Vec::new();
        for (subtask, slot) in slots {
            let Some(execution) = self.executions.get_mut(&subtask) else {
                continue;
            };
            let next = self.next_attempt.entry(subtask).or_default();
            let attempt = *next;
            *next = Attempt(attempt.0.saturating_add(1));
            *execution = Execution {
                attempt,
                state: ExecutionState::Scheduled,
                slot: Some(slot.clone()),
            };
            attempts.insert(subtask, attempt);
            deployments.push((subtask, attempt, slot));
        }
        actions.push(Action::StartCheckpointing {
            epoch,
            restore: restore.clone(),
            attempts,
        });
        for (subtask, attempt, slot) in deployments {
            self.set_task(subtask, ExecutionState::Deploying, None, actions);
            actions.push(Action::Deploy {
                epoch,
                subtask,
                attempt,
                slot,
                restore: restore.clone(),
            });
        }
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
