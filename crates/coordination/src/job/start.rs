//! From a claim to deployed tasks: slots, one more look at a claim that waited for them, attempts.

use std::collections::BTreeMap;

use millstream_types::{Attempt, Epoch, MonoTime, SubtaskId, TaskmanagerId};

use super::ending::status_of;
use super::machine::{Claim, Job, Phase};
use super::messages::{Action, ClaimRefusal, JobEnd};
use super::state::{Execution, ExecutionState, JobStatus};
use crate::chain::RestorePoint;
use crate::failure::{FailureInfo, FailureKind};
use crate::moment::Moment;
use crate::slots::SlotRef;

impl Job {
    pub(super) fn request_claim(&mut self, now: MonoTime, actions: &mut Vec<Action>) {
        self.claim = Claim::Requested(now);
        actions.push(Action::Claim);
    }

    pub(super) fn on_claimed(
        &mut self,
        epoch: Epoch,
        restore: Option<RestorePoint>,
        actions: &mut Vec<Action>,
    ) {
        let Claim::Requested(requested_at) = self.claim else {
            return;
        };
        self.claim = Claim::Held(epoch);
        if self.next_attempt.is_empty() {
            self.number_attempts_from(epoch);
        }
        if matches!(self.phase, Phase::Starting) {
            self.phase = Phase::AwaitingSlots {
                restore,
                claimed_at: requested_at,
                given: None,
            };
            self.request_slots(epoch, actions);
        }
    }

    fn request_slots(&self, epoch: Epoch, actions: &mut Vec<Action>) {
        let previous = self.executions.iter().filter_map(|(subtask, execution)| {
            let slot = execution.slot.as_ref()?;
            Some((*subtask, slot.taskmanager.clone()))
        });
        actions.push(Action::RequestSlots {
            epoch,
            previous: previous.collect(),
        });
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

    pub(super) fn on_claim_not_written(&mut self, at: Moment) {
        // A store that is not reached is no failure of the job.
        if let Claim::Requested(_) = self.claim {
            self.claim = Claim::RetryAt(at.now + self.config.chain_retry_delay);
        }
    }

    pub(super) fn on_claim_refused(
        &mut self,
        at: Moment,
        refusal: ClaimRefusal,
        actions: &mut Vec<Action>,
    ) {
        if !matches!(self.claim, Claim::Requested(_)) {
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

    pub(super) fn on_slots(
        &mut self,
        at: Moment,
        epoch: Epoch,
        slots: BTreeMap<SubtaskId, SlotRef>,
        actions: &mut Vec<Action>,
    ) {
        let is_current = self.epoch() == Some(epoch);
        let (restore, claimed_at) = match &self.phase {
            Phase::AwaitingSlots {
                restore,
                claimed_at,
                given: None,
            } if is_current => (restore.clone(), *claimed_at),
            Phase::AwaitingSlots { .. } | Phase::Executing if is_current => return,
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
        if at.now - claimed_at > self.config.claim_fresh_for {
            self.phase = Phase::AwaitingSlots {
                restore,
                claimed_at,
                given: Some(slots),
            };
            actions.push(Action::ConfirmClaim { epoch });
            return;
        }
        self.execute(epoch, restore, slots, actions);
    }

    pub(super) fn on_claim_confirmed(&mut self, epoch: Epoch, actions: &mut Vec<Action>) {
        let is_current = self.epoch() == Some(epoch);
        if let Phase::AwaitingSlots { restore, given, .. } = &mut self.phase
            && is_current
            && let Some(slots) = given.take()
        {
            let restore = restore.clone();
            self.execute(epoch, restore, slots, actions);
        }
    }

    /// Slots that were given and not used yet may be gone: then the job waits for others.
    pub(super) fn give_back_slots_of(
        &mut self,
        taskmanager: &TaskmanagerId,
        actions: &mut Vec<Action>,
    ) {
        let Some(epoch) = self.epoch() else {
            return;
        };
        if let Phase::AwaitingSlots { given, .. } = &mut self.phase {
            let is_hit = |slots: &mut BTreeMap<SubtaskId, SlotRef>| {
                slots.values().any(|slot| slot.taskmanager == *taskmanager)
            };
            if given.take_if(is_hit).is_some() {
                actions.push(Action::ReleaseSlots { epoch });
                self.request_slots(epoch, actions);
            }
        }
    }

    fn execute(
        &mut self,
        epoch: Epoch,
        restore: Option<RestorePoint>,
        slots: BTreeMap<SubtaskId, SlotRef>,
        actions: &mut Vec<Action>,
    ) {
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
}
