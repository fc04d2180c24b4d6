//! How a checkpoint is given up (B1.6 to B1.9), and what a restart does to open ones.

use std::collections::BTreeSet;

use millstream_types::{Attempt, CheckpointId, Disposition, SubtaskId};

use super::coordinator::{Coordinator, Pending, Phase};
use super::failures::CountedFailure;
use super::history::CheckpointFailure;
use super::messages::{Action, RequestFailure, RetainedCheckpoint};
use super::notice::Notice;
use super::queue::RequestId;
use super::reason::FailureReason;
use crate::failure::{FailureInfo, FailureKind};
use crate::moment::Moment;

/// Subtasks that a message names at most.
const NAMED_MAX: usize = 10;

impl Coordinator {
    /// Gives up a pending checkpoint and deletes what it has.
    pub(super) fn abort(
        &mut self,
        at: Moment,
        id: CheckpointId,
        reason: FailureReason,
        message: String,
        by: Option<(SubtaskId, Attempt)>,
        actions: &mut Vec<Action>,
    ) {
        let Some(pending) = self.take(at, id, reason, &message, actions) else {
            return;
        };
        let mut objects: BTreeSet<_> = pending
            .snapshots
            .values()
            .flat_map(|snapshot| snapshot.objects().cloned())
            .collect();
        if let Phase::Appending { metadata, .. } = &pending.phase {
            objects.insert(metadata.name.clone());
        }
        let mut uploading = pending.awaiting.clone();
        if let Some((subtask, _)) = by {
            uploading.remove(&subtask);
        }
        self.retention
            .give_up(at.now, id, pending.epoch, objects, uploading);
        let unacknowledged: Vec<_> = pending.awaiting.iter().copied().collect();
        self.count_failure(Some(id), reason, message, &unacknowledged, by, actions);
    }

    /// Gives up a pending checkpoint and deletes nothing, since it may be complete after all.
    pub(super) fn abort_keeping_data(
        &mut self,
        at: Moment,
        id: CheckpointId,
        reason: FailureReason,
        message: String,
        actions: &mut Vec<Action>,
    ) {
        if self.take(at, id, reason, &message, actions).is_some() {
            self.retention.keep_in_doubt(id);
            self.count_failure(Some(id), reason, message, &[], None, actions);
        }
    }

    /// Removes it, answers and tells.
    fn take(
        &mut self,
        at: Moment,
        id: CheckpointId,
        reason: FailureReason,
        message: &str,
        actions: &mut Vec<Action>,
    ) -> Option<Pending> {
        let pending = self.pending.remove(&id)?;
        self.remember(id);
        if !pending.is_overdue() {
            self.record_failure(at, id, reason, message);
            self.answer_failed(pending.request, reason, message, actions);
        }
        if pending.is_after_end_of_data {
            self.retry_final_later(at.now);
        }
        let is_current = self
            .run
            .as_ref()
            .is_some_and(|run| run.epoch == pending.epoch);
        if is_current {
            actions.push(Action::NotifyAborted {
                epoch: pending.epoch,
                checkpoint: id,
                latest_completed: self.retention.latest(),
                subtasks: self.addressed(&pending.plan.wait),
            });
        }
        Some(pending)
    }

    pub(super) fn record_failure(
        &mut self,
        at: Moment,
        id: CheckpointId,
        reason: FailureReason,
        message: &str,
    ) {
        let failure = CheckpointFailure {
            failed_at: at.wall,
            reason,
            message: message.to_owned(),
        };
        self.history.fail(id, failure, &self.activities);
    }

    pub(super) fn answer_failed(
        &self,
        request: Option<RequestId>,
        reason: FailureReason,
        message: &str,
        actions: &mut Vec<Action>,
    ) {
        if let Some(request) = request {
            let message = message.to_owned();
            actions.push(Action::Answer {
                request,
                result: Err(RequestFailure { reason, message }),
            });
        }
    }

    /// Tells the failure manager, logs, and fails the job where that is too much.
    pub(super) fn count_failure(
        &mut self,
        checkpoint: Option<CheckpointId>,
        reason: FailureReason,
        message: String,
        unacknowledged: &[SubtaskId],
        by: Option<(SubtaskId, Attempt)>,
        actions: &mut Vec<Action>,
    ) {
        let exceeded = self.failures.on_failure(CountedFailure {
            checkpoint,
            reason,
            unacknowledged: self.with_activity(unacknowledged),
        });
        let streak = exceeded
            .as_ref()
            .map_or(self.failures.consecutive(), Vec::len);
        actions.push(Action::Log(Notice::Failed {
            checkpoint,
            job: self.job,
            consecutive: streak,
            tolerable: self.policy.tolerable_failed,
            reason,
            message,
        }));
        if let Some(streak) = exceeded {
            let failure = Box::new(self.threshold_exceeded(&streak));
            actions.push(Action::FailJob {
                failure,
                attributed_to: by,
            });
        }
    }

    /// The text operators search for, and what they need to know: ids, reasons, who was late, and
    /// with what.
    fn threshold_exceeded(&self, streak: &[CountedFailure]) -> FailureInfo {
        let causes = streak.iter().map(|failure| {
            let id = failure
                .checkpoint
                .map_or("unknown".to_owned(), |id| id.to_string());
            let text = format!("checkpoint {id}: {}", failure.reason);
            match failure.unacknowledged.as_slice() {
                [] => text,
                late => format!("{text} Not acknowledged by {}", self.describe(late)),
            }
        });
        FailureInfo {
            kind: FailureKind::CheckpointTolerance,
            disposition: Disposition::FailTask,
            operator: None,
            message: "Exceeded checkpoint tolerable failure threshold.".to_owned(),
            causes: causes.collect(),
            remedy: Some(format!(
                "look at what the tasks that did not acknowledge were doing; \
                 checkpointing.tolerable-failed-checkpoints is {}",
                self.policy.tolerable_failed
            )),
        }
    }

    /// Subtasks, each with what it was last seen doing.
    pub(super) fn with_activity(&self, subtasks: &[SubtaskId]) -> Vec<(SubtaskId, Option<String>)> {
        let activity = |subtask: &SubtaskId| (*subtask, self.activities.get(subtask).cloned());
        subtasks.iter().map(activity).collect()
    }

    /// The first of these in words, and how many more there are.
    pub(super) fn describe(&self, subtasks: &[(SubtaskId, Option<String>)]) -> String {
        let name = |(subtask, activity): &(SubtaskId, Option<String>)| {
            let name = self.topology.name_of(*subtask);
            match activity {
                Some(activity) => format!("{name} ({activity})"),
                None => name.to_string(),
            }
        };
        let named: Vec<_> = subtasks.iter().take(NAMED_MAX).map(name).collect();
        let text = named.join(", ");
        match subtasks.len() - named.len() {
            0 => text,
            more => format!("{text} and {more} more"),
        }
    }

    /// The job restarts or ends.
    pub(super) fn suspend(&mut self, at: Moment, actions: &mut Vec<Action>) {
        self.is_reserving = false;
        let reason = FailureReason::CoordinatorSuspend;
        let message = || "the job restarts or ends".to_owned();
        for request in self.queue.drain() {
            self.refuse(at, request, reason, message(), actions);
        }
        let is_open = |pending: &Pending| !matches!(pending.phase, Phase::Appending { .. });
        let open: Vec<_> = self
            .pending
            .iter()
            .filter(|(_, pending)| is_open(pending))
            .map(|(id, _)| *id)
            .collect();
        for id in open {
            self.abort(at, id, reason, message(), None, actions);
        }
        self.run = None;
    }

    /// The claim settled every append that was under way: what the chain has, exists.
    pub(super) fn settle(
        &mut self,
        at: Moment,
        restored: Option<CheckpointId>,
        retained: Vec<RetainedCheckpoint>,
        actions: &mut Vec<Action>,
    ) {
        for checkpoint in retained {
            if !self.retention.contains(checkpoint.checkpoint.id) {
                self.retention.keep(checkpoint);
            }
        }
        let open: Vec<CheckpointId> = self.pending.keys().copied().collect();
        for id in open {
            if self.retention.contains(id) || Some(id) == restored {
                self.on_appended(at, id, actions);
            } else if restored.is_none_or(|restored| id > restored) {
                let text = "its entry is not on the claim chain".to_owned();
                self.abort(
                    at,
                    id,
                    FailureReason::CoordinatorSuspend,
                    text,
                    None,
                    actions,
                );
            } else {
                // It may be on the chain below the restored one: in doubt, leak.
                let text = "overtaken by a restart".to_owned();
                let reason = FailureReason::CoordinatorSuspend;
                self.abort_keeping_data(at, id, reason, text, actions);
            }
        }
        if let Some(restored) = restored {
            self.failures.on_success(restored);
            self.history.restored(restored, at.wall);
        }
        for forgotten in self.retention.forget_oldest(self.newest_begun, actions) {
            self.history.discard(forgotten);
        }
    }
}
