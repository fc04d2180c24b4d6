//! From the last acknowledgement to an entry on the chain (B1.5, B1.8).

use std::collections::BTreeMap;
use std::sync::Arc;

use millstream_types::sabotage::Rule;
use millstream_types::{CheckpointId, MonoTime, OperatorUid, SubtaskId, WriteOutcome, rounded};

use super::coordinator::{Coordinator, Pending, Phase};
use super::messages::{Action, RetainedCheckpoint};
use super::notice::Notice;
use super::reason::FailureReason;
use crate::moment::Moment;
use crate::snapshot_types::{
    CompletedCheckpoint, OperatorState, OperatorSubtaskState, StoredMetadata,
};
use crate::topology::Topology;

impl Coordinator {
    /// When the newest checkpoint completed.
    pub fn last_completion(&self) -> Option<MonoTime> {
        self.last_completion
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
        let due: Vec<(CheckpointId, String)> = self
            .pending
            .iter()
            .filter(|(_, pending)| due(pending))
            .map(|(id, pending)| (*id, self.missing(pending)))
            .collect();
        for (id, missing) in due {
            let job = self.job;
            actions.push(Action::Log(Notice::Expired {
                checkpoint: id,
                job,
            }));
            let text = format!(
                "not complete after {}: {missing}",
                rounded(self.policy.timeout)
            );
            self.expire_one(at, id, text, actions);
        }
    }

    /// What an open checkpoint waits for.
    fn missing(&self, pending: &Pending) -> String {
        match &pending.phase {
            Phase::Collecting => {
                let late: Vec<_> = pending.awaiting.iter().copied().collect();
                format!(
                    "not acknowledged by {}",
                    self.describe(&self.with_activity(&late))
                )
            }
            Phase::Storing { .. } => "storage has not taken its metadata".to_owned(),
            Phase::Appending { .. } => {
                "storage has not taken its entry on the claim chain".to_owned()
            }
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

/// Turns snapshots by subtask into state by operator (B5.3).
fn assemble(id: CheckpointId, pending: &Pending, topology: &Topology) -> CompletedCheckpoint {
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
