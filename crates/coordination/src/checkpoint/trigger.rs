//! From a request to a pending checkpoint (B1.1, B1.2).

use std::collections::BTreeMap;

use millstream_types::{CheckpointId, Epoch, SubtaskId};

use super::CheckpointKind;
use super::coordinator::{Coordinator, Pending, Phase};
use super::history::{CheckpointFailure, CheckpointRecord, CheckpointStatus, SubtaskRecord};
use super::messages::{Action, RequestFailure};
use super::notice::Notice;
use super::plan::{Plan, PlanError};
use super::queue::Request;
use super::reason::FailureReason;
use crate::chain::CheckpointIds;
use crate::moment::Moment;

impl Coordinator {
    pub(super) fn enqueue(&mut self, at: Moment, request: Request, actions: &mut Vec<Action>) {
        if self.run.is_none() {
            let reason = FailureReason::CoordinatorSuspend;
            self.refuse(
                at,
                request,
                reason,
                "the job is not running".into(),
                actions,
            );
        } else if let Some(evicted) = self.queue.push(request) {
            let reason = FailureReason::TooManyRequests;
            self.refuse(at, evicted, reason, String::new(), actions);
        }
    }

    /// Starts what may start. One request at a time is looked at: the head of the queue.
    pub(super) fn serve_queue(&mut self, at: Moment, actions: &mut Vec<Action>) {
        while let Some(request) = self.queue.head() {
            let open = self.pending.values().filter(|p| !p.is_overdue()).count();
            let is_full = open >= self.policy.max_concurrent
                // Back-pressure by clean-up: whoever cannot delete must not write ever more.
                || self.retention.in_flight() > self.policy.max_concurrent;
            if self.is_reserving || is_full || self.run.is_none() {
                return;
            }
            let is_idle = match request.kind {
                CheckpointKind::Periodic => self.wait_for_pause(at),
                CheckpointKind::Final => self.has_final(),
                CheckpointKind::Manual => false,
            };
            if is_idle {
                self.queue.pop();
                continue;
            }
            match self.plan() {
                Err((cause, message)) => {
                    self.queue.pop();
                    let reason = FailureReason::NotAllRequiredTasksRunning;
                    let job = self.job;
                    actions.push(Action::Log(Notice::NotTriggered { job, cause, reason }));
                    self.refuse(at, request, reason, message, actions);
                    if request.kind == CheckpointKind::Final {
                        self.retry_final_later(at.now);
                    }
                }
                Ok(plan) => {
                    if self.ids.first >= self.ids.end {
                        self.is_reserving = true;
                        actions.push(Action::ReserveIds);
                        return;
                    }
                    self.queue.pop();
                    self.begin(at, request, plan, actions);
                }
            }
        }
    }

    /// Whether another checkpoint does already what a final one is for.
    pub(super) fn has_final(&self) -> bool {
        self.run.as_ref().is_some_and(|run| run.is_final_complete)
            || self.pending.values().any(|p| p.is_after_end_of_data)
    }

    /// The pause counts from the last completion of any kind; a failure does not restart it. The
    /// schedule moves to the end of the pause.
    fn wait_for_pause(&mut self, at: Moment) -> bool {
        let Some(ends_at) = self
            .last_completion
            .map(|last| last + self.policy.min_pause)
        else {
            return false;
        };
        if ends_at <= at.now {
            return false;
        }
        if let Some(run) = &mut self.run {
            run.next_periodic = Some(ends_at);
        }
        true
    }

    /// The plan of this instant, or what stands in its way: as it is logged, and with names.
    fn plan(&self) -> Result<Plan, (String, String)> {
        let Some(run) = &self.run else {
            let text = "the job is not running.".to_owned();
            return Err((text.clone(), text));
        };
        let after_finish = self.policy.after_tasks_finish;
        Plan::new(&self.topology, &run.tasks, after_finish).map_err(|error| match error {
            PlanError::Finished(subtasks) => {
                let cause = format!(
                    "some tasks of job {} has been finished, abort the checkpoint",
                    self.job
                );
                let message = format!("{cause}: {} FINISHED", self.names(&subtasks));
                (cause, message)
            }
            PlanError::NotRunning(subtasks) => {
                let cause = format!("not running: {}.", self.names(&subtasks));
                (cause.clone(), cause)
            }
        })
    }

    fn names(&self, subtasks: &[SubtaskId]) -> String {
        let names: Vec<_> = subtasks
            .iter()
            .map(|subtask| self.topology.name_of(*subtask).to_string())
            .collect();
        names.join(", ")
    }

    fn begin(&mut self, at: Moment, request: Request, plan: Plan, actions: &mut Vec<Action>) {
        let Some(run) = &self.run else {
            return;
        };
        let id = self.ids.first;
        self.ids.first = id.next();
        self.newest_begun = id;
        let epoch = run.epoch;
        let subtasks = plan.wait.iter().filter_map(|subtask| {
            let record = SubtaskRecord {
                attempt: run.tasks.get(subtask)?.attempt,
                acknowledged: None,
                activity: None,
            };
            Some((*subtask, record))
        });
        let mut record = new_record(request.kind, at);
        record.id = Some(id);
        record.epoch = Some(epoch);
        record.subtasks = subtasks.collect();
        let pending = Pending {
            epoch,
            kind: request.kind,
            request: request.id,
            created_at: at.now,
            triggered_at: at.wall,
            expires_at: at.now + self.policy.timeout,
            awaiting: plan.wait.clone(),
            is_after_end_of_data: run.is_at_end_of_data(),
            plan,
            snapshots: BTreeMap::new(),
            acknowledged_at: None,
            phase: Phase::Collecting,
        };
        self.history.begin(record);
        actions.push(Action::Log(Notice::Triggering {
            checkpoint: id,
            kind: request.kind,
            triggered_at: at.wall,
            job: self.job,
        }));
        actions.push(Action::Trigger {
            epoch,
            checkpoint: id,
            kind: request.kind,
            triggered_at: at.wall,
            completed: self.retention.latest(),
            subtasks: self.addressed(&pending.plan.trigger),
        });
        self.pending.insert(id, pending);
        self.complete_if_acknowledged(at, id, actions);
    }

    pub(super) fn on_ids_reserved(&mut self, ids: CheckpointIds) {
        // An older block belongs to an epoch that was fenced since.
        if self.is_reserving && ids.first >= self.ids.end {
            self.is_reserving = false;
            self.ids = ids;
        }
    }

    pub(super) fn on_trigger_failed(
        &mut self,
        at: Moment,
        epoch: Epoch,
        id: CheckpointId,
        message: String,
        actions: &mut Vec<Action>,
    ) {
        // Late where every task acknowledged: it was told by other means, and its entry may be on
        // the chain.
        let is_collecting = |p: &Pending| p.epoch == epoch && matches!(p.phase, Phase::Collecting);
        if self.pending.get(&id).is_some_and(is_collecting) {
            self.abort(
                at,
                id,
                FailureReason::TriggerFailure,
                message,
                None,
                actions,
            );
        }
    }

    pub(super) fn on_ids_not_reserved(
        &mut self,
        at: Moment,
        message: String,
        actions: &mut Vec<Action>,
    ) {
        if !std::mem::take(&mut self.is_reserving) {
            return;
        }
        if let Some(request) = self.queue.pop() {
            self.refuse(at, request, FailureReason::IoException, message, actions);
            if request.kind == CheckpointKind::Final {
                self.retry_final_later(at.now);
            }
        }
    }

    /// A request that leads to no checkpoint: a row without id, and an answer.
    pub(super) fn refuse(
        &mut self,
        at: Moment,
        request: Request,
        reason: FailureReason,
        message: String,
        actions: &mut Vec<Action>,
    ) {
        let mut record = new_record(request.kind, at);
        record.status = CheckpointStatus::Refused;
        record.failure = Some(CheckpointFailure {
            failed_at: at.wall,
            reason,
            message: message.clone(),
        });
        self.history.refuse(record);
        if let Some(request) = request.id {
            let message = message.clone();
            actions.push(Action::Answer {
                request,
                result: Err(RequestFailure { reason, message }),
            });
        }
        self.count_failure(None::<CheckpointId>, reason, message, &[], None, actions);
    }
}

fn new_record(kind: CheckpointKind, at: Moment) -> CheckpointRecord {
    CheckpointRecord {
        id: None,
        epoch: None,
        kind,
        status: CheckpointStatus::InProgress,
        triggered_at: at.wall,
        duration: None,
        finalization: None,
        state_bytes: None,
        metadata: None,
        is_discarded: false,
        failure: None,
        subtasks: BTreeMap::new(),
    }
}
