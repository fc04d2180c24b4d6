//! One job process, as the supervisor knows it.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use millstream_coordination::failure::FailureInfo;
use millstream_coordination::job::{ExecutionState, ReportedTask};
use millstream_coordination::protocol::{
    DataAddress, DeploySubtask, FromTaskmanager, JobTasks, SlotReport, StartJobProcess,
    SubtaskMetrics, TaskAddress, TaskReport,
};
use millstream_types::{Attempt, Epoch, JobId, MonoTime, SlotIndex, SubtaskId};

use super::ProcessId;

/// Where a job process is in its life.
#[derive(Clone, PartialEq, Debug)]
pub(super) enum Phase {
    /// Being made ready for its epoch.
    Starting,
    /// Takes deployments.
    Running {
        /// Where it listens for data.
        address: DataAddress,
    },
    /// Its tasks were told to stop; killed once they did, or then.
    Stopping {
        /// When patience ends.
        by: MonoTime,
        /// How long that was.
        after: Duration,
    },
    /// Being killed; what it says does not count any more.
    Killed {
        /// What the jobmanager has to be told of it, where it was not the one who asked.
        failure: Option<FailureInfo>,
    },
}

/// A task in it.
#[derive(Clone, PartialEq, Debug)]
pub(super) struct Task {
    attempt: Attempt,
    slot: SlotIndex,
    pub(super) state: ExecutionState,
    activity: Option<String>,
}

/// A job process with its tasks.
#[derive(Clone, PartialEq, Debug)]
pub(super) struct Process {
    pub(super) id: ProcessId,
    pub(super) job: JobId,
    pub(super) epoch: Epoch,
    pub(super) phase: Phase,
    pub(super) tasks: BTreeMap<SubtaskId, Task>,
    /// Slots that are reported free when it is reaped.
    pub(super) abandoned: BTreeSet<SlotIndex>,
    /// What starts when it is reaped.
    pub(super) next: Option<StartJobProcess>,
    /// Since when nothing runs in it.
    pub(super) idle_since: Option<MonoTime>,
}

impl Process {
    pub(super) fn new(id: ProcessId, job: JobId, epoch: Epoch, now: MonoTime) -> Self {
        Self {
            id,
            job,
            epoch,
            phase: Phase::Starting,
            tasks: BTreeMap::new(),
            abandoned: BTreeSet::new(),
            next: None,
            idle_since: Some(now),
        }
    }

    /// The same process serves the next epoch: every old task ended.
    pub(super) fn reuse(&mut self, epoch: Epoch, now: MonoTime) {
        self.epoch = epoch;
        self.phase = Phase::Starting;
        self.tasks.clear();
        self.idle_since = Some(now);
    }

    pub(super) fn is_killed(&self) -> bool {
        matches!(self.phase, Phase::Killed { .. })
    }

    /// Whether it takes messages of this epoch.
    pub(super) fn serves(&self, epoch: Epoch) -> bool {
        self.epoch == epoch && !self.is_killed()
    }

    /// Whether what it says is about what it runs now. Old epochs, other jobs and whatever comes
    /// after it was given up count for nothing.
    pub(super) fn is_current(&self, message: &FromTaskmanager) -> bool {
        let (job, epoch) = match message {
            FromTaskmanager::JobProcessStarted { job, epoch, .. }
            | FromTaskmanager::JobProcessFailed { job, epoch, .. }
            | FromTaskmanager::SubtaskState { job, epoch, .. }
            | FromTaskmanager::UploadStopped { job, epoch, .. }
            | FromTaskmanager::EndOfData { job, epoch, .. } => (*job, *epoch),
            FromTaskmanager::Acknowledge(message) => (message.job, message.epoch),
            FromTaskmanager::Decline(message) => (message.job, message.epoch),
            FromTaskmanager::Output(output) => (output.job, output.epoch),
            FromTaskmanager::Metrics(metrics) => {
                let is_ours = |m: &SubtaskMetrics| m.job == self.job && m.epoch == self.epoch;
                return !self.is_killed() && metrics.iter().all(is_ours);
            }
            FromTaskmanager::Heartbeat(_) => return !self.is_killed(),
            FromTaskmanager::Register(_)
            | FromTaskmanager::SlotFreed { .. }
            | FromTaskmanager::Leaving => return false,
        };
        job == self.job && self.serves(epoch)
    }

    /// Tasks that did not end.
    pub(super) fn live(&self) -> impl Iterator<Item = TaskAddress> {
        let live = self
            .tasks
            .iter()
            .filter(|(_, task)| !task.state.is_terminal());
        live.map(|(subtask, task)| TaskAddress::from((*subtask, task.attempt)))
    }

    pub(super) fn has_live_tasks(&self) -> bool {
        self.live().next().is_some()
    }

    /// Slots whose tasks did not end.
    pub(super) fn slots(&self) -> BTreeSet<SlotIndex> {
        let live = self.tasks.values().filter(|task| !task.state.is_terminal());
        live.map(|task| task.slot).collect()
    }

    pub(super) fn deploy(&mut self, deploy: &DeploySubtask) {
        let task = Task {
            attempt: deploy.attempt,
            slot: deploy.slot,
            state: ExecutionState::Deploying,
            activity: None,
        };
        self.idle_since = None;
        // A second deployment over a running task is refused by the process, which says so of the
        // second one's attempt: what is known of the first stays.
        let runs = self
            .tasks
            .get(&deploy.subtask)
            .is_some_and(|old| !old.state.is_terminal());
        if !runs {
            self.tasks.insert(deploy.subtask, task);
        }
    }

    pub(super) fn cancel(&mut self, subtasks: &[TaskAddress]) {
        for address in subtasks {
            if let Some(task) = self.tasks.get_mut(&address.subtask)
                && task.attempt == address.attempt
                && task.state.may_become(ExecutionState::Canceling)
            {
                task.state = ExecutionState::Canceling;
            }
        }
    }

    /// A task changed its state.
    pub(super) fn on_state(&mut self, now: MonoTime, address: TaskAddress, state: ExecutionState) {
        if let Some(task) = self.tasks.get_mut(&address.subtask)
            && task.attempt == address.attempt
            && task.state.may_become(state)
        {
            task.state = state;
        }
        if self.idle_since.is_none() && !self.has_live_tasks() {
            self.idle_since = Some(now);
        }
    }

    /// What its tasks are doing, in words.
    pub(super) fn on_reports(&mut self, reports: Vec<TaskReport>) {
        for report in reports {
            if report.task.epoch == self.epoch
                && let Some(task) = self.tasks.get_mut(&report.task.subtask)
                && task.attempt == report.task.attempt
            {
                task.activity = report.activity;
            }
        }
    }

    /// Its part of a heartbeat: as deployments and states passed here, so that it never lags behind
    /// what the jobmanager was told by other messages of the same stream.
    pub(super) fn report(&self) -> (Vec<SlotReport>, JobTasks) {
        let (job, epoch) = (self.job, self.epoch);
        let slots = self
            .slots()
            .into_iter()
            .chain(self.abandoned.iter().copied());
        let slots: BTreeSet<SlotIndex> = slots.collect();
        let tasks = self.tasks.iter().map(|(subtask, task)| TaskReport {
            task: ReportedTask {
                epoch,
                subtask: *subtask,
                attempt: task.attempt,
                state: task.state,
            },
            activity: task.activity.clone(),
        });
        (
            slots
                .into_iter()
                .map(|slot| SlotReport { slot, job, epoch })
                .collect(),
            JobTasks {
                job,
                tasks: tasks.collect(),
            },
        )
    }

    /// For the jobmanager: tasks that ended with the process, because that was asked for.
    pub(super) fn canceled_tasks(&self) -> impl Iterator<Item = FromTaskmanager> {
        let (job, epoch) = (self.job, self.epoch);
        self.live()
            .map(move |address| FromTaskmanager::SubtaskState {
                job,
                epoch,
                subtask: address.subtask,
                attempt: address.attempt,
                state: ExecutionState::Canceled,
                failure: None,
            })
    }
}
