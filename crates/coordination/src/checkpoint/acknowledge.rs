//! From acknowledgements to an entry on the chain (SEMANTICS B1.3 to B1.5).

use std::collections::BTreeMap;
use std::sync::Arc;

use millstream_types::{CheckpointId, MonoTime, OperatorUid, SubtaskId, WriteOutcome};

use super::coordinator::{Coordinator, Pending, Phase};
use super::history::AckRecord;
use super::messages::{Acknowledgement, Action, Decline, RetainedCheckpoint};
use super::notice::Notice;
use super::reason::FailureReason;
use super::sabotage::Rule;
use crate::moment::Moment;
use crate::snapshot_types::{
    CompletedCheckpoint, OperatorState, OperatorSubtaskState, StoredMetadata,
};

/// What an acknowledgement is to its checkpoint.
enum Answer {
    Counts,
    /// Acknowledged already: its state is part of the checkpoint and must not be deleted.
    Duplicate,
    /// Of an execution that is not part of the checkpoint.
    Unknown,
    /// Of an epoch that was fenced.
    Stale,
    /// Of a checkpoint that is over.
    Over,
}

impl Coordinator {
    pub(super) fn on_acknowledge(
        &mut self,
        at: Moment,
        ack: Acknowledgement,
        actions: &mut Vec<Action>,
    ) {
        if ack.job != self.job {
            let (found, job) = (ack.job, self.job);
            actions.push(Action::Log(Notice::WrongJob { found, job }));
            return;
        }
        match self.judge(&ack) {
            Answer::Duplicate => {}
            Answer::Counts => self.accept(at, ack, actions),
            Answer::Unknown => {
                actions.push(Action::Log(Notice::UnknownTask {
                    checkpoint: ack.checkpoint,
                    task: self.task_name(ack.subtask, ack.attempt),
                    job: self.job,
                }));
                self.discard(&ack, actions);
            }
            Answer::Stale => {
                actions.push(Action::Log(Notice::Stale {
                    checkpoint: ack.checkpoint,
                    task: self.task_name(ack.subtask, ack.attempt),
                    epoch: ack.epoch,
                    current: self.run.as_ref().map(|run| run.epoch),
                }));
                self.discard(&ack, actions);
            }
            Answer::Over => self.on_late(at, &ack, actions),
        }
    }

    fn judge(&self, ack: &Acknowledgement) -> Answer {
        let run = self.run.as_ref();
        let ignores_epoch = self.sabotage.removed(Rule::AcceptAnyEpoch);
        if run.is_none_or(|run| run.epoch != ack.epoch) && !ignores_epoch {
            return Answer::Stale;
        }
        let Some(pending) = self.pending.get(&ack.checkpoint) else {
            return Answer::Over;
        };
        let task = run.and_then(|run| run.tasks.get(&ack.subtask));
        if task.is_none_or(|task| task.attempt != ack.attempt) && !ignores_epoch {
            Answer::Unknown
        } else if pending.awaiting.contains(&ack.subtask) {
            Answer::Counts
        } else if pending.snapshots.contains_key(&ack.subtask)
            || !matches!(pending.phase, Phase::Collecting)
        {
            Answer::Duplicate
        } else {
            Answer::Unknown
        }
    }

    fn accept(&mut self, at: Moment, ack: Acknowledgement, actions: &mut Vec<Action>) {
        let record = ack_record(at, &ack, false);
        let Some(pending) = self.pending.get_mut(&ack.checkpoint) else {
            return;
        };
        pending.awaiting.remove(&ack.subtask);
        pending.snapshots.insert(ack.subtask, ack.snapshot);
        self.history
            .acknowledge(ack.checkpoint, ack.subtask, record);
        self.complete_if_acknowledged(at, ack.checkpoint, actions);
    }

    /// The uploader is done, so its private objects can go. Shared ones are orphans for the sweep.
    fn on_late(&mut self, at: Moment, ack: &Acknowledgement, actions: &mut Vec<Action>) {
        let record = ack_record(at, ack, true);
        self.history
            .acknowledge(ack.checkpoint, ack.subtask, record);
        let task = self.task_name(ack.subtask, ack.attempt);
        let (checkpoint, job) = (ack.checkpoint, self.job);
        actions.push(Action::Log(if self.recent.contains(&checkpoint) {
            Notice::Late {
                checkpoint,
                task,
                job,
                from: ack.from.clone(),
            }
        } else {
            Notice::UnknownCheckpoint {
                checkpoint,
                task,
                job,
            }
        }));
        self.retention.on_upload_stopped(checkpoint, ack.subtask);
        self.discard(ack, actions);
    }

    /// Deletes the private objects of an acknowledgement that no checkpoint took, unless it may
    /// repeat one that was taken: then what it names is in use.
    fn discard(&mut self, ack: &Acknowledgement, actions: &mut Vec<Action>) {
        let id = ack.checkpoint;
        let Some(run) = &self.run else {
            return;
        };
        let is_of_this_run = ack.epoch == run.epoch;
        let may_be_taken = match self.pending.get(&id) {
            // Another attempt's objects have other names than those of the one that counts.
            Some(pending) => pending.epoch == ack.epoch && !is_of_this_run,
            // Of an earlier epoch, anything up to the newest may have completed.
            None => !is_of_this_run && self.retention.latest().is_some_and(|last| id <= last),
        };
        if !may_be_taken && !self.retention.must_keep(id) {
            let objects = ack.snapshot.objects();
            self.retention.discard(id, ack.epoch, objects, actions);
        }
    }

    pub(super) fn on_decline(&mut self, at: Moment, decline: Decline, actions: &mut Vec<Action>) {
        if decline.job != self.job {
            let (found, job) = (decline.job, self.job);
            actions.push(Action::Log(Notice::WrongJob { found, job }));
            return;
        }
        let Decline {
            subtask,
            attempt,
            checkpoint,
            ..
        } = decline;
        self.retention.on_upload_stopped(checkpoint, subtask);
        let is_current = self.task_mut(decline.epoch, subtask, attempt).is_some();
        let is_awaited = self
            .pending
            .get(&checkpoint)
            .is_some_and(|pending| pending.awaiting.contains(&subtask));
        if !is_current || !is_awaited {
            return;
        }
        actions.push(Action::Log(Notice::Declined {
            checkpoint,
            task: self.task_name(subtask, attempt),
            job: self.job,
            from: decline.from,
            message: decline.message.clone(),
        }));
        let reason = decline.reason.into();
        let by = Some((subtask, attempt));
        self.abort(at, checkpoint, reason, decline.message, by, actions);
    }

    pub(super) fn complete_if_acknowledged(
        &mut self,
        at: Moment,
        id: CheckpointId,
        actions: &mut Vec<Action>,
    ) {
        let Some(pending) = self.pending.get_mut(&id) else {
            return;
        };
        if !pending.awaiting.is_empty() || !matches!(pending.phase, Phase::Collecting) {
            return;
        }
        pending.acknowledged_at = Some(at.now);
        let checkpoint = Arc::new(assemble(id, pending, &self.topology));
        pending.phase = Phase::Storing {
            checkpoint: checkpoint.clone(),
        };
        actions.push(Action::StoreMetadata(checkpoint));
    }

    pub(super) fn on_metadata_stored(
        &mut self,
        id: CheckpointId,
        metadata: StoredMetadata,
        actions: &mut Vec<Action>,
    ) {
        let Some(pending) = self.pending.get_mut(&id) else {
            // Given up meanwhile: the metadata is the last of its objects. The epoch is in its
            // name; the sweep of that checkpoint finds it as well.
            let names = std::iter::once(&metadata.name);
            let epoch = self.history.record(id).and_then(|record| record.epoch);
            if let Some(epoch) = epoch.filter(|_| !self.retention.must_keep(id)) {
                self.retention.discard(id, epoch, names, actions);
            }
            return;
        };
        let Phase::Storing { checkpoint } = &pending.phase else {
            return;
        };
        pending.phase = Phase::Appending {
            checkpoint: checkpoint.clone(),
            metadata: metadata.clone(),
            is_overdue: false,
        };
        let epoch = pending.epoch;
        if self.sabotage.removed(Rule::NotifyBeforeDurable) {
            let subtasks = pending.plan.wait.clone();
            actions.push(Action::NotifyCompleted {
                epoch,
                checkpoint: id,
                subtasks: self.addressed(&subtasks),
            });
        }
        actions.push(Action::AppendCompleted {
            epoch,
            checkpoint: id,
            metadata,
        });
    }

    pub(super) fn on_metadata_not_stored(
        &mut self,
        at: Moment,
        id: CheckpointId,
        outcome: WriteOutcome,
        message: String,
        actions: &mut Vec<Action>,
    ) {
        let is_storing = |p: &Pending| matches!(p.phase, Phase::Storing { .. });
        if !self.pending.get(&id).is_some_and(is_storing) {
            return;
        }
        let reason = FailureReason::FinalizeFailure;
        match outcome {
            WriteOutcome::DidNotHappen => self.abort(at, id, reason, message, None, actions),
            WriteOutcome::MayHaveHappened => {
                actions.push(Action::Log(Notice::OutcomeUnknown {
                    checkpoint: id,
                    job: self.job,
                    message: message.clone(),
                }));
                self.abort_keeping_data(at, id, reason, message, actions);
            }
        }
    }

    /// The entry is durable: from here on the checkpoint exists, and everybody may know.
    pub(super) fn on_appended(&mut self, at: Moment, id: CheckpointId, actions: &mut Vec<Action>) {
        let is_appending = |p: &Pending| matches!(p.phase, Phase::Appending { .. });
        if !self.pending.get(&id).is_some_and(is_appending) {
            return;
        }
        let Some(pending) = self.pending.remove(&id) else {
            return;
        };
        let Phase::Appending {
            checkpoint,
            metadata,
            is_overdue,
        } = pending.phase
        else {
            return;
        };
        self.remember(id);
        self.failures.on_success(id);
        self.last_completion = Some(at.now);
        let duration = at.now - pending.created_at;
        let finalization = at.now - pending.acknowledged_at.unwrap_or(at.now);
        actions.push(Action::Log(Notice::Completed {
            checkpoint: id,
            job: self.job,
            state_bytes: checkpoint.size(),
            duration_ms: duration.as_millis(),
            finalization_ms: finalization.as_millis(),
        }));
        self.history.complete(id, |record| {
            record.duration = Some(duration);
            record.finalization = Some(finalization);
            record.state_bytes = Some(checkpoint.size());
            record.metadata = Some(metadata.name.clone());
            record.failure = None;
        });
        self.retention.keep(RetainedCheckpoint {
            checkpoint,
            metadata: metadata.name,
        });
        if let (Some(request), false) = (pending.request, is_overdue) {
            let result = Ok(id);
            actions.push(Action::Answer { request, result });
        }
        if let Some(run) = self.run.as_mut().filter(|run| run.epoch == pending.epoch) {
            run.is_final_complete |= pending.is_after_end_of_data;
        }
        self.subsume_older(at, id, actions);
        // Tasks of a later epoch restored it, or will: they need no notice.
        let is_current = self
            .run
            .as_ref()
            .is_some_and(|run| run.epoch == pending.epoch);
        if is_current && !self.sabotage.removed(Rule::NotifyBeforeDurable) {
            actions.push(Action::NotifyCompleted {
                epoch: pending.epoch,
                checkpoint: id,
                subtasks: self.addressed(&pending.plan.wait),
            });
        }
        for forgotten in self.retention.forget_oldest(self.newest_begun, actions) {
            self.history.discard(forgotten);
        }
    }

    pub(super) fn on_not_appended(
        &mut self,
        at: Moment,
        id: CheckpointId,
        message: String,
        actions: &mut Vec<Action>,
    ) {
        let is_appending = |p: &Pending| matches!(p.phase, Phase::Appending { .. });
        if self.pending.get(&id).is_some_and(is_appending) {
            let reason = FailureReason::FinalizeFailure;
            self.abort(at, id, reason, message, None, actions);
        }
    }

    fn subsume_older(&mut self, at: Moment, id: CheckpointId, actions: &mut Vec<Action>) {
        let older: Vec<_> = self
            .pending
            .range(..id)
            .filter(|(_, pending)| !matches!(pending.phase, Phase::Appending { .. }))
            .map(|(older, _)| *older)
            .collect();
        for older in older {
            let message = format!("checkpoint {id} completed");
            self.abort(at, older, FailureReason::Subsumed, message, None, actions);
        }
    }

    pub(super) fn expire(&mut self, at: Moment, actions: &mut Vec<Action>) {
        let due = |pending: &Pending| pending.expires_at <= at.now && !pending.is_overdue();
        let due: Vec<CheckpointId> = self
            .pending
            .iter()
            .filter(|(_, pending)| due(pending))
            .map(|(id, _)| *id)
            .collect();
        for id in due {
            let job = self.job;
            actions.push(Action::Log(Notice::Expired {
                checkpoint: id,
                job,
            }));
            let text = format!("not complete after {:?}", self.policy.timeout);
            self.expire_one(at, id, text, actions);
        }
    }

    fn expire_one(
        &mut self,
        at: Moment,
        id: CheckpointId,
        message: String,
        actions: &mut Vec<Action>,
    ) {
        let reason = FailureReason::Expired;
        let Some(pending) = self.pending.get_mut(&id) else {
            return;
        };
        if let Phase::Appending { is_overdue, .. } = &mut pending.phase {
            // The entry may be there already. Nobody is told anything before that is known, but
            // the failure counts, and the next checkpoint may begin.
            *is_overdue = true;
            let request = pending.request;
            self.record_failure(at, id, reason, &message);
            self.answer_failed(request, reason, &message, actions);
            self.count_failure(Some(id), reason, message, &[], None, actions);
        } else {
            self.abort(at, id, reason, message, None, actions);
        }
    }
}

fn ack_record(at: Moment, ack: &Acknowledgement, is_late: bool) -> AckRecord {
    AckRecord {
        acknowledged_at: at.wall,
        state_bytes: ack.snapshot.size(),
        metrics: ack.metrics,
        is_late,
    }
}

/// Turns snapshots by subtask into state by operator (B5.3).
fn assemble(
    id: CheckpointId,
    pending: &Pending,
    topology: &crate::topology::Topology,
) -> CompletedCheckpoint {
    let mut operators: BTreeMap<OperatorUid, OperatorState> = BTreeMap::new();
    for vertex in topology.vertices() {
        for uid in &vertex.operators {
            let states = vertex.subtasks().map(|subtask| {
                let state = state_of(pending, subtask, uid);
                (subtask.index, state)
            });
            let subtasks: BTreeMap<u32, OperatorSubtaskState> = states.collect();
            let state = OperatorState {
                vertex: vertex.id,
                parallelism: vertex.parallelism,
                max_parallelism: vertex.max_parallelism,
                fully_finished: subtasks.values().all(|state| state.finished),
                subtasks,
            };
            operators.insert(uid.clone(), state);
        }
    }
    CompletedCheckpoint {
        id,
        epoch: pending.epoch,
        kind: pending.kind,
        triggered_at: pending.triggered_at,
        operators,
    }
}

fn state_of(pending: &Pending, subtask: SubtaskId, uid: &OperatorUid) -> OperatorSubtaskState {
    let snapshot = pending.snapshots.get(&subtask);
    let state = snapshot.and_then(|snapshot| snapshot.operators.get(uid));
    let mut state = state.cloned().unwrap_or_default();
    state.finished |= pending.plan.finished.contains(&subtask);
    state
}

impl Coordinator {
    /// When the newest checkpoint completed.
    pub fn last_completion(&self) -> Option<MonoTime> {
        self.last_completion
    }
}
