//! The state of a coordinator and the order in which it looks at things.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use millstream_types::sabotage::Sabotage;
use millstream_types::{Attempt, CheckpointId, Epoch, JobId, MonoTime, SubtaskId, WallTime};

use super::CheckpointKind;
use super::failures::FailureManager;
use super::history::CheckpointHistory;
use super::messages::{Action, Event, RetainedCheckpoint, SharedInUse};
use super::notice::TaskName;
use super::plan::{Plan, Task, Tasks};
use super::policy::{CheckpointPolicy, TriggerWhen};
use super::queue::{Queue, Request, RequestId};
use super::reason::FailureReason;
use super::retention::Retention;
use crate::chain::CheckpointIds;
use crate::job::ExecutionState;
use crate::moment::Moment;
use crate::snapshot_types::{CompletedCheckpoint, StoredMetadata, TaskSnapshot};
use crate::topology::Topology;

/// Ids of checkpoints that are over, remembered to tell late messages from senseless ones.
const RECENT_IDS: usize = 16;

/// A final checkpoint that failed is tried again after this, or after the interval if shorter.
const FINAL_RETRY: Duration = Duration::from_secs(5);

/// The checkpoint coordinator of one job, for the life of its jobmanager.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Coordinator {
    pub(super) job: JobId,
    pub(super) policy: CheckpointPolicy,
    pub(super) topology: Topology,
    pub(super) sabotage: Sabotage,
    pub(super) run: Option<Run>,
    pub(super) queue: Queue,
    /// The head of the queue waits for ids.
    pub(super) is_reserving: bool,
    pub(super) ids: CheckpointIds,
    pub(super) newest_begun: CheckpointId,
    pub(super) pending: BTreeMap<CheckpointId, Pending>,
    pub(super) last_completion: Option<MonoTime>,
    pub(super) failures: FailureManager,
    pub(super) recent: VecDeque<CheckpointId>,
    pub(super) retention: Retention,
    pub(super) history: CheckpointHistory,
    pub(super) activities: BTreeMap<SubtaskId, String>,
}

/// One epoch of the job.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Run {
    pub(super) epoch: Epoch,
    pub(super) tasks: Tasks,
    /// When the next periodic trigger is planned; none before the scheduler is on.
    pub(super) next_periodic: Option<MonoTime>,
    /// Random bits for the first trigger.
    pub(super) random: u64,
    pub(super) is_final_complete: bool,
    pub(super) retry_final_at: MonoTime,
}

/// A checkpoint under way.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Pending {
    pub(super) epoch: Epoch,
    pub(super) kind: CheckpointKind,
    pub(super) request: Option<RequestId>,
    pub(super) created_at: MonoTime,
    pub(super) triggered_at: WallTime,
    pub(super) expires_at: MonoTime,
    pub(super) plan: Plan,
    pub(super) awaiting: BTreeSet<SubtaskId>,
    pub(super) snapshots: BTreeMap<SubtaskId, TaskSnapshot>,
    /// Begun after the last running task came to the end of its data.
    pub(super) is_after_end_of_data: bool,
    pub(super) acknowledged_at: Option<MonoTime>,
    pub(super) phase: Phase,
}

/// How far a pending checkpoint is.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum Phase {
    Collecting,
    Storing {
        checkpoint: Arc<CompletedCheckpoint>,
    },
    /// Its entry may be on the chain any moment, and then it exists, whatever the timeout says.
    Appending {
        checkpoint: Arc<CompletedCheckpoint>,
        metadata: StoredMetadata,
        /// It took longer than the timeout and was counted; it makes room for the next one.
        is_overdue: bool,
    },
}

impl Coordinator {
    /// A coordinator that was not started. `history_size` is `web.checkpoints.history`.
    pub fn new(
        job: JobId,
        policy: CheckpointPolicy,
        topology: Topology,
        history_size: usize,
    ) -> Self {
        Self {
            failures: FailureManager::new(policy.tolerable_failed),
            retention: Retention::new(policy.num_retained),
            history: CheckpointHistory::new(history_size),
            ids: CheckpointIds {
                first: CheckpointId(1),
                end: CheckpointId(1),
            },
            newest_begun: CheckpointId(0),
            sabotage: Sabotage::default(),
            run: None,
            queue: Queue::default(),
            is_reserving: false,
            pending: BTreeMap::new(),
            last_completion: None,
            recent: VecDeque::new(),
            activities: BTreeMap::new(),
            job,
            policy,
            topology,
        }
    }

    /// Takes rules away, for tests that show that they are needed.
    pub fn sabotage(&mut self, sabotage: Sabotage) {
        self.sabotage = sabotage;
    }

    /// What is kept of past checkpoints.
    pub fn history(&self) -> &CheckpointHistory {
        &self.history
    }

    /// The completed checkpoints that are kept, oldest first.
    pub fn retained(&self) -> impl DoubleEndedIterator<Item = &RetainedCheckpoint> {
        self.retention.retained()
    }

    /// Shared objects that must stay; none while some checkpoint is in doubt.
    pub fn shared_in_use(&self) -> Option<SharedInUse> {
        self.retention.shared_in_use()
    }

    /// Checkpoints under way, oldest first.
    pub fn pending(&self) -> impl Iterator<Item = CheckpointId> {
        self.pending.keys().copied()
    }

    /// Counted failures in a row, and how many are tolerated.
    pub fn consecutive_failures(&self) -> (usize, u32) {
        (self.failures.consecutive(), self.policy.tolerable_failed)
    }

    /// The policy in force.
    pub fn policy(&self) -> &CheckpointPolicy {
        &self.policy
    }

    /// When [`Event::Tick`] is due.
    pub fn deadline(&self) -> MonoTime {
        let expiry = self.pending.values().map(Pending::deadline).min();
        let run = self.run.as_ref();
        let periodic = run.and_then(|run| run.next_periodic);
        let retry = run
            .filter(|run| self.wants_final(run))
            .map(|run| run.retry_final_at);
        [expiry, periodic, retry]
            .into_iter()
            .flatten()
            .fold(self.retention.deadline(), MonoTime::min)
    }

    /// Takes an event; appends what is to be done.
    pub fn step(&mut self, at: Moment, event: Event, actions: &mut Vec<Action>) {
        match event {
            Event::Started {
                epoch,
                attempts,
                ids,
                restored,
                retained,
            } => {
                self.suspend(at, actions);
                self.settle(at, restored, retained, actions);
                self.start(at, epoch, attempts, ids);
            }
            Event::Suspended => self.suspend(at, actions),
            Event::TaskState {
                epoch,
                subtask,
                attempt,
                state,
            } => self.on_task_state(at, (epoch, subtask, attempt), state, actions),
            Event::EndOfData {
                epoch,
                subtask,
                attempt,
            } => {
                if let Some(task) = self.task_mut(epoch, subtask, attempt) {
                    task.is_at_end_of_data = true;
                }
            }
            Event::Activity { subtask, activity } => match activity {
                Some(activity) if self.topology.contains(subtask) => {
                    self.activities.insert(subtask, activity);
                }
                Some(_) => {}
                None => {
                    self.activities.remove(&subtask);
                }
            },
            Event::Request(id) => self.enqueue(at, Request::by_user(id), actions),
            Event::IdsReserved(ids) => self.on_ids_reserved(ids),
            Event::IdsNotReserved { message } => self.on_ids_not_reserved(at, message, actions),
            Event::TriggerFailed {
                epoch,
                checkpoint,
                message,
            } => self.on_trigger_failed(at, epoch, checkpoint, message, actions),
            Event::Acknowledge(ack) => self.on_acknowledge(at, *ack, actions),
            Event::Decline(decline) => self.on_decline(at, *decline, actions),
            Event::UploadStopped(stopped) => self.on_upload_stopped(&stopped, actions),
            Event::MetadataStored {
                checkpoint,
                metadata,
            } => self.on_metadata_stored(checkpoint, metadata, actions),
            Event::MetadataNotStored {
                checkpoint,
                outcome,
                message,
            } => self.on_metadata_not_stored(at, checkpoint, outcome, message, actions),
            Event::Appended { checkpoint } => self.on_appended(at, checkpoint, actions),
            Event::NotAppended {
                checkpoint,
                message,
            } => self.on_not_appended(at, checkpoint, message, actions),
            Event::Deleted { ticket } => self.retention.on_deleted(ticket),
            Event::Tick => {}
        }
        self.proceed(at, actions);
    }

    /// Whatever has become due or possible, whichever event it was.
    fn proceed(&mut self, at: Moment, actions: &mut Vec<Action>) {
        self.expire(at, actions);
        self.switch_scheduler_on(at.now);
        self.plan_periodic(at, actions);
        self.plan_final(at, actions);
        self.serve_queue(at, actions);
        let oldest = self.pending.keys().next().copied();
        self.retention.proceed(at.now, oldest, actions);
    }

    fn start(
        &mut self,
        at: Moment,
        epoch: Epoch,
        attempts: BTreeMap<SubtaskId, Attempt>,
        ids: CheckpointIds,
    ) {
        self.ids = ids;
        let task = |attempt| Task {
            attempt,
            state: ExecutionState::Deploying,
            is_at_end_of_data: false,
        };
        self.activities.clear();
        self.run = Some(Run {
            epoch,
            tasks: attempts
                .into_iter()
                .map(|(subtask, attempt)| (subtask, task(attempt)))
                .collect(),
            next_periodic: None,
            random: at.random,
            is_final_complete: false,
            retry_final_at: MonoTime::ZERO,
        });
    }

    /// Periodic triggers begin at a random time between the pause and the interval, so that many
    /// jobs started together do not checkpoint together.
    fn switch_scheduler_on(&mut self, now: MonoTime) {
        let (Some(interval), Some(run)) = (self.policy.interval, self.run.as_mut()) else {
            return;
        };
        let is_ready = match self.policy.trigger_when {
            TriggerWhen::JobRunning => true,
            TriggerWhen::AllRunning => run.tasks.values().all(|task| {
                matches!(
                    task.state,
                    ExecutionState::Running | ExecutionState::Finished
                )
            }),
        };
        if run.next_periodic.is_none() && is_ready {
            let span = interval.saturating_sub(self.policy.min_pause);
            let unit = run.random as f64 / u64::MAX as f64;
            run.next_periodic = Some(now + self.policy.min_pause + span.mul_f64(unit));
        }
    }

    /// The interval is a schedule, not a gap: the next trigger follows the planned time of the
    /// last one, however long that takes.
    fn plan_periodic(&mut self, at: Moment, actions: &mut Vec<Action>) {
        let (Some(interval), Some(run)) = (self.policy.interval, self.run.as_mut()) else {
            return;
        };
        let Some(planned) = run.next_periodic.filter(|planned| *planned <= at.now) else {
            return;
        };
        let missed = (at.now - planned).as_nanos() / interval.as_nanos().max(1);
        let steps = u32::try_from(missed + 1).unwrap_or(u32::MAX);
        let next = planned + interval.saturating_mul(steps);
        run.next_periodic = Some(next.max(at.now + Duration::from_nanos(1)));
        self.enqueue(at, Request::of(CheckpointKind::Periodic), actions);
    }

    /// A bounded job does not wait for the interval to end (B5.7).
    fn plan_final(&mut self, at: Moment, actions: &mut Vec<Action>) {
        let wanted = self
            .run
            .as_ref()
            .is_some_and(|run| run.retry_final_at <= at.now && self.wants_final(run));
        if wanted {
            self.enqueue(at, Request::of(CheckpointKind::Final), actions);
        }
    }

    fn wants_final(&self, run: &Run) -> bool {
        self.policy.interval.is_some()
            && run.is_at_end_of_data()
            && !self.queue.contains(CheckpointKind::Final)
            && !self.has_final()
    }

    pub(super) fn retry_final_later(&mut self, now: MonoTime) {
        let delay = self
            .policy
            .interval
            .map_or(FINAL_RETRY, |i| i.min(FINAL_RETRY));
        if let Some(run) = &mut self.run {
            run.retry_final_at = now + delay;
        }
    }

    fn on_task_state(
        &mut self,
        at: Moment,
        (epoch, subtask, attempt): (Epoch, SubtaskId, Attempt),
        state: ExecutionState,
        actions: &mut Vec<Action>,
    ) {
        let Some(task) = self.task_mut(epoch, subtask, attempt) else {
            return;
        };
        if !task.state.may_become(state) {
            return;
        }
        task.state = state;
        let reason = match state {
            // It finished between plan and trigger (B5.2): the next attempt goes without it.
            ExecutionState::Finished => FailureReason::DeclinedTaskClosing,
            ExecutionState::Failed | ExecutionState::Canceled => FailureReason::TaskFailure,
            ExecutionState::Created
            | ExecutionState::Scheduled
            | ExecutionState::Deploying
            | ExecutionState::Initializing
            | ExecutionState::Running
            | ExecutionState::Canceling => return,
        };
        let unacknowledged: Vec<_> = self
            .pending
            .iter()
            .filter(|(_, pending)| pending.awaiting.contains(&subtask))
            .map(|(id, _)| *id)
            .collect();
        for id in unacknowledged {
            let message = format!("{} is {state}", self.topology.name_of(subtask));
            self.abort(at, id, reason, message, None, actions);
        }
    }

    pub(super) fn task_mut(
        &mut self,
        epoch: Epoch,
        subtask: SubtaskId,
        attempt: Attempt,
    ) -> Option<&mut Task> {
        let run = self.run.as_mut().filter(|run| run.epoch == epoch)?;
        let task = run.tasks.get_mut(&subtask)?;
        (task.attempt == attempt).then_some(task)
    }

    pub(super) fn task_name(&self, subtask: SubtaskId, attempt: Attempt) -> TaskName {
        TaskName {
            subtask,
            name: self.topology.name_of(subtask).to_string(),
            attempt,
        }
    }

    /// Subtasks with the execution that is addressed.
    pub(super) fn addressed(&self, subtasks: &BTreeSet<SubtaskId>) -> Vec<(SubtaskId, Attempt)> {
        let Some(run) = &self.run else {
            return Vec::new();
        };
        let address = |subtask: &SubtaskId| Some((*subtask, run.tasks.get(subtask)?.attempt));
        subtasks.iter().filter_map(address).collect()
    }

    pub(super) fn remember(&mut self, id: CheckpointId) {
        if self.recent.len() == RECENT_IDS {
            self.recent.pop_front();
        }
        self.recent.push_back(id);
    }
}

impl Run {
    /// Every task that runs has no more input, and there is one.
    pub(super) fn is_at_end_of_data(&self) -> bool {
        let mut waiting = 0;
        for task in self.tasks.values() {
            match task.state {
                ExecutionState::Finished => {}
                ExecutionState::Running if task.is_at_end_of_data => waiting += 1,
                ExecutionState::Running
                | ExecutionState::Created
                | ExecutionState::Scheduled
                | ExecutionState::Deploying
                | ExecutionState::Initializing
                | ExecutionState::Canceling
                | ExecutionState::Canceled
                | ExecutionState::Failed => return false,
            }
        }
        waiting > 0
    }
}

impl Pending {
    fn deadline(&self) -> MonoTime {
        if self.is_overdue() {
            MonoTime::NEVER
        } else {
            self.expires_at
        }
    }

    pub(super) fn is_overdue(&self) -> bool {
        match self.phase {
            Phase::Collecting | Phase::Storing { .. } => false,
            Phase::Appending { is_overdue, .. } => is_overdue,
        }
    }
}
