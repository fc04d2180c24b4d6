//! What the jobmanager asks of job processes.

use millstream_coordination::failure::{FailureInfo, FailureKind};
use millstream_coordination::job::ExecutionState;
use millstream_coordination::protocol::{
    DeploySubtask, FromTaskmanager, StartJobProcess, TaskAddress, ToTaskmanager,
};
use millstream_types::sabotage::Rule;
use millstream_types::{Epoch, JobId, MonoTime, SlotIndex};

use super::machine::{STOP_TIMEOUT, Supervisor};
use super::messages::{Action, KillReason, Notice, ProcessId};
use super::process::{Phase, Process};

/// Jobs whose last epoch is remembered after their process is gone.
const FLOORS_MAX: usize = 10_000;

impl Supervisor {
    pub(super) fn on_start(
        &mut self,
        now: MonoTime,
        start: StartJobProcess,
        actions: &mut Vec<Action>,
    ) {
        let (job, epoch) = (start.job, start.epoch);
        if self.is_stale(job, epoch) {
            return self.note_stale(job, epoch, "start of a job process", actions);
        }
        self.set_floor(job, epoch);
        let Some(process) = self.processes.get_mut(&job) else {
            return self.start(now, start, actions);
        };
        if process.serves(epoch) {
            if let Phase::Running { address } = &process.phase {
                let address = address.clone();
                actions.push(Action::Send(FromTaskmanager::JobProcessStarted {
                    job,
                    epoch,
                    address,
                }));
            }
            return;
        }
        if self.sabotage.removed(Rule::StartBesideOld) && process.epoch != epoch {
            return self.start(now, start, actions);
        }
        let is_free = matches!(process.phase, Phase::Running { .. }) && !process.has_live_tasks();
        if is_free && epoch > process.epoch {
            process.reuse(epoch, now);
            let (process, message) = (process.id, ToTaskmanager::StartJobProcess(start));
            actions.push(Action::Tell { process, message });
        } else {
            process.next = Some(start);
            self.kill(job, KillReason::Replaced, None, actions);
        }
    }

    pub(super) fn start(
        &mut self,
        now: MonoTime,
        start: StartJobProcess,
        actions: &mut Vec<Action>,
    ) {
        let id = ProcessId(self.next_process);
        self.next_process += 1;
        let process = Process::new(id, start.job, start.epoch, now);
        self.processes.insert(start.job, process);
        actions.push(Action::StartProcess { process: id, start });
    }

    pub(super) fn on_deploy(&mut self, deploy: Box<DeploySubtask>, actions: &mut Vec<Action>) {
        let (job, epoch) = (deploy.job, deploy.epoch);
        if self.is_stale(job, epoch) {
            return self.note_stale(job, epoch, "deployment", actions);
        }
        self.freed.remove(&deploy.slot);
        match self.serving(job, epoch) {
            Some(process) => {
                process.deploy(&deploy);
                let (process, message) = (process.id, ToTaskmanager::Deploy(deploy));
                actions.push(Action::Tell { process, message });
            }
            None => {
                let text = format!("no process of job {job} runs here in epoch {epoch}");
                actions.push(Action::Send(FromTaskmanager::SubtaskState {
                    job,
                    epoch,
                    subtask: deploy.subtask,
                    attempt: deploy.attempt,
                    state: ExecutionState::Failed,
                    failure: Some(FailureInfo::new(FailureKind::Deployment, text)),
                }));
            }
        }
    }

    pub(super) fn on_cancel(
        &mut self,
        job: JobId,
        epoch: Epoch,
        subtasks: Vec<TaskAddress>,
        actions: &mut Vec<Action>,
    ) {
        if self.is_stale(job, epoch) {
            return self.note_stale(job, epoch, "cancellation", actions);
        }
        match self.serving(job, epoch) {
            Some(process) => {
                process.cancel(&subtasks);
                let message = ToTaskmanager::Cancel {
                    job,
                    epoch,
                    subtasks,
                };
                actions.push(Action::Tell {
                    process: process.id,
                    message,
                });
            }
            // What does not run here has ended; whoever waits for its end is told.
            None => actions.extend(subtasks.iter().map(|address| {
                Action::Send(FromTaskmanager::SubtaskState {
                    job,
                    epoch,
                    subtask: address.subtask,
                    attempt: address.attempt,
                    state: ExecutionState::Canceled,
                    failure: None,
                })
            })),
        }
    }

    /// Passes a message on to the process of exactly this epoch.
    pub(super) fn pass(
        &mut self,
        job: JobId,
        epoch: Epoch,
        message: ToTaskmanager,
        what: &'static str,
        actions: &mut Vec<Action>,
    ) {
        match self.serving(job, epoch) {
            Some(process) => actions.push(Action::Tell {
                process: process.id,
                message,
            }),
            None => self.note_stale(job, epoch, what, actions),
        }
    }

    pub(super) fn on_abandon(
        &mut self,
        job: JobId,
        epoch: Epoch,
        slots: Vec<SlotIndex>,
        actions: &mut Vec<Action>,
    ) {
        let Some(process) = self.processes.get_mut(&job) else {
            return self.free(slots, actions);
        };
        let used = process.slots();
        let holds = process.epoch <= epoch && slots.iter().any(|slot| used.contains(slot));
        if !holds {
            // The tasks ended after all. A newer epoch began only after they had, and what it uses
            // by now is its own.
            let unused = slots.into_iter().filter(|slot| !used.contains(slot));
            return self.free(unused, actions);
        }
        process.abandoned.extend(slots);
        self.kill(job, KillReason::Abandoned, None, actions);
    }

    pub(super) fn free(
        &mut self,
        slots: impl IntoIterator<Item = SlotIndex>,
        actions: &mut Vec<Action>,
    ) {
        for slot in slots {
            self.freed.insert(slot);
            actions.push(Action::Send(FromTaskmanager::SlotFreed { slot }));
        }
    }

    pub(super) fn on_release(
        &mut self,
        now: MonoTime,
        job: JobId,
        epoch: Epoch,
        actions: &mut Vec<Action>,
    ) {
        if self.is_stale(job, epoch) {
            return self.note_stale(job, epoch, "release", actions);
        }
        self.set_floor(job, epoch.next());
        if let Some(process) = self.processes.get_mut(&job) {
            process.next.take_if(|next| next.epoch <= epoch);
            if process.epoch <= epoch {
                self.stop(now, job, STOP_TIMEOUT, actions);
            }
        }
    }

    /// The process that takes messages of this epoch.
    fn serving(&mut self, job: JobId, epoch: Epoch) -> Option<&mut Process> {
        let hears_all = self.sabotage.removed(Rule::ObeyAnyEpoch);
        let process = self.processes.get_mut(&job)?;
        (process.serves(epoch) || (hears_all && !process.is_killed())).then_some(process)
    }

    pub(super) fn is_stale(&self, job: JobId, epoch: Epoch) -> bool {
        let is_below = self.floors.get(&job).is_some_and(|floor| epoch < *floor);
        is_below && !self.sabotage.removed(Rule::ObeyAnyEpoch)
    }

    pub(super) fn set_floor(&mut self, job: JobId, floor: Epoch) {
        self.floors.insert(job, floor);
        if self.floors.len() > FLOORS_MAX {
            let gone = self
                .floors
                .keys()
                .find(|other| !self.processes.contains_key(other));
            if let Some(gone) = gone.copied().filter(|gone| *gone != job) {
                self.floors.remove(&gone);
            }
        }
    }

    pub(super) fn note_stale(
        &self,
        job: JobId,
        epoch: Epoch,
        what: &'static str,
        actions: &mut Vec<Action>,
    ) {
        actions.push(Action::Note(Notice::Stale { job, epoch, what }));
    }
}
