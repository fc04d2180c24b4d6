//! What job processes say, and how they end.

use std::time::Duration;

use millstream_coordination::failure::{FailureInfo, FailureKind};
use millstream_coordination::protocol::{FromTaskmanager, TaskAddress, ToTaskmanager};
use millstream_types::{JobId, MonoTime};

use super::machine::Supervisor;
use super::messages::{Action, KillReason, Notice, ProcessEvent, ProcessId};
use super::process::Phase;

impl Supervisor {
    pub(super) fn on_process(
        &mut self,
        now: MonoTime,
        id: ProcessId,
        event: ProcessEvent,
        actions: &mut Vec<Action>,
    ) {
        let found = self.processes.values().find(|process| process.id == id);
        let Some(job) = found.map(|process| process.job) else {
            return;
        };
        match event {
            ProcessEvent::Said(message) => self.on_said(now, job, message, actions),
            ProcessEvent::Resident { bytes } => self.on_resident(job, bytes, actions),
            ProcessEvent::Ended(failure) => self.on_ended(now, job, failure, actions),
        }
    }

    pub(super) fn on_said(
        &mut self,
        now: MonoTime,
        job: JobId,
        message: FromTaskmanager,
        actions: &mut Vec<Action>,
    ) {
        let Some(process) = self.processes.get_mut(&job) else {
            return;
        };
        if !process.is_current(&message) {
            return;
        }
        match &message {
            FromTaskmanager::Heartbeat(heartbeat) => {
                let jobs = heartbeat.jobs.iter().filter(|tasks| tasks.job == job);
                process.on_reports(jobs.flat_map(|tasks| tasks.tasks.clone()).collect());
                return;
            }
            FromTaskmanager::JobProcessStarted { address, .. } => {
                if process.phase == Phase::Starting {
                    process.phase = Phase::Running {
                        address: address.clone(),
                    };
                }
            }
            FromTaskmanager::JobProcessFailed { failure, .. } => {
                let failure = Some(failure.clone());
                return self.kill(job, KillReason::NotStarted, failure, actions);
            }
            FromTaskmanager::SubtaskState {
                subtask,
                attempt,
                state,
                ..
            } => {
                process.on_state(now, TaskAddress::from((*subtask, *attempt)), *state);
            }
            FromTaskmanager::Acknowledge(_)
            | FromTaskmanager::Decline(_)
            | FromTaskmanager::UploadStopped { .. }
            | FromTaskmanager::EndOfData { .. }
            | FromTaskmanager::Output(_)
            | FromTaskmanager::Metrics(_) => {}
            FromTaskmanager::Register(_)
            | FromTaskmanager::SlotFreed { .. }
            | FromTaskmanager::Leaving => return,
        }
        actions.push(Action::Send(message));
    }

    pub(super) fn on_resident(&mut self, job: JobId, bytes: u64, actions: &mut Vec<Action>) {
        let Some((process, per_slot)) = self
            .processes
            .get(&job)
            .zip(self.config.memory_per_slot_bytes)
        else {
            return;
        };
        let budget_bytes = per_slot.saturating_mul(process.slots().len().max(1) as u64);
        if bytes <= budget_bytes.saturating_add(budget_bytes / 10) || process.is_killed() {
            return;
        }
        let why = KillReason::OverBudget {
            resident_bytes: bytes,
            budget_bytes,
        };
        let mut failure = FailureInfo::new(FailureKind::MemoryBudget, why.to_string());
        failure.remedy = Some(
            "raise taskmanager.memory.process.size, lower taskmanager.memory.managed.fraction, or \
             give the job more slots"
                .to_owned(),
        );
        self.kill(job, why, Some(failure), actions);
    }

    pub(super) fn on_ended(
        &mut self,
        now: MonoTime,
        job: JobId,
        failure: FailureInfo,
        actions: &mut Vec<Action>,
    ) {
        let Some(process) = self.processes.remove(&job) else {
            return;
        };
        let epoch = process.epoch;
        let told = match &process.phase {
            Phase::Killed {
                failure: Some(cause),
            } => Some(cause.clone()),
            Phase::Killed { failure: None } => None,
            Phase::Starting | Phase::Running { .. } | Phase::Stopping { .. } => {
                let notice = Notice::ProcessFailed {
                    job,
                    epoch,
                    failure: failure.clone(),
                };
                actions.push(Action::Note(notice));
                Some(failure)
            }
        };
        match told {
            Some(failure) => {
                actions.push(Action::Send(FromTaskmanager::JobProcessFailed {
                    job,
                    epoch,
                    failure,
                }));
            }
            None => actions.extend(process.canceled_tasks().map(Action::Send)),
        }
        self.free(process.abandoned, actions);
        if let Some(next) = process.next
            && !self.is_stale(job, next.epoch)
            && !self.is_going()
        {
            self.start(now, next, actions);
        }
    }

    /// Tells all tasks of a process to stop, and kills it once they did, or after `patience`.
    pub(super) fn stop(
        &mut self,
        now: MonoTime,
        job: JobId,
        patience: Duration,
        actions: &mut Vec<Action>,
    ) {
        let Some(process) = self.processes.get_mut(&job) else {
            return;
        };
        let by = now + patience;
        match &mut process.phase {
            Phase::Killed { .. } => return,
            Phase::Stopping { by: earlier, .. } if *earlier <= by => return,
            Phase::Starting | Phase::Running { .. } | Phase::Stopping { .. } => {}
        }
        let subtasks: Vec<_> = process.live().collect();
        process.phase = Phase::Stopping {
            by,
            after: patience,
        };
        if !subtasks.is_empty() {
            process.cancel(&subtasks);
            let message = ToTaskmanager::Cancel {
                job,
                epoch: process.epoch,
                subtasks,
            };
            actions.push(Action::Tell {
                process: process.id,
                message,
            });
        }
    }

    pub(super) fn kill(
        &mut self,
        job: JobId,
        why: KillReason,
        failure: Option<FailureInfo>,
        actions: &mut Vec<Action>,
    ) {
        let Some(process) = self
            .processes
            .get_mut(&job)
            .filter(|process| !process.is_killed())
        else {
            return;
        };
        process.phase = Phase::Killed { failure };
        let (id, epoch) = (process.id, process.epoch);
        actions.push(Action::Note(Notice::Killing { job, epoch, why }));
        actions.push(Action::KillProcess { process: id });
    }
}
