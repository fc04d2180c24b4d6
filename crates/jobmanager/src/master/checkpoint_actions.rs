//! Carries out what the checkpoint coordinator decides, and tells it what came of it.

use std::collections::BTreeMap;
use std::num::NonZeroU32;
use std::time::Duration;

use futures::FutureExt;
use millstream_coordination::checkpoint::{Action, Event};
use millstream_coordination::failure::FailureInfo;
use millstream_coordination::job;
use millstream_coordination::protocol::{TaskAddress, ToTaskmanager};
use millstream_snapshot::chain::ChainFailure;
use millstream_telemetry::{catalog, chain as error_chain};
use millstream_types::{Attempt, CheckpointId, Epoch, OperatorUid, SubtaskId, TaskmanagerId};
use tracing::error;

use super::io::{self, Answer};
use super::{Master, Work};
use crate::cleaning::n_retained;

/// Time until the next look: what somebody wrote who woke up late goes then.
const SWEEP_EVERY: Duration = Duration::from_secs(3_600);

impl Master {
    pub(super) fn carry_out_checkpoint(&mut self, action: Action) {
        let job = self.id;
        match action {
            Action::ReserveIds => self.ask_in_order(io::reserve(self.files.clone())),
            Action::Trigger {
                epoch,
                checkpoint,
                kind,
                triggered_at,
                completed,
                subtasks,
            } => {
                let unreachable =
                    self.send_to_tasks(subtasks, |subtasks| ToTaskmanager::TriggerCheckpoint {
                        job,
                        epoch,
                        subtasks,
                        checkpoint,
                        triggered_at,
                        kind,
                        completed,
                    });
                self.on_triggered(epoch, checkpoint, unreachable);
            }
            Action::StoreMetadata(checkpoint) => {
                let (files, env) = (self.files.clone(), self.env.clone());
                let request = io::store_metadata(files, env, checkpoint, self.operator_names());
                self.io.push(request.boxed());
            }
            Action::AppendCompleted {
                epoch: _,
                checkpoint,
                metadata,
            } => {
                let (files, env) = (self.files.clone(), self.env.clone());
                self.ask_in_order(io::append_completed(files, env, checkpoint, metadata));
            }
            Action::NotifyCompleted {
                epoch,
                checkpoint,
                subtasks,
            } => self.notify_completed(epoch, checkpoint, subtasks),
            Action::NotifyAborted {
                epoch,
                checkpoint,
                latest_completed,
                subtasks,
            } => {
                self.send_to_tasks(subtasks, |subtasks| ToTaskmanager::NotifyAborted {
                    job,
                    epoch,
                    subtasks,
                    checkpoint,
                    latest_completed,
                });
            }
            Action::Delete(deletion) => {
                let (files, retain) = (self.files.clone(), self.n_retained());
                self.ask_in_order(io::delete(files, deletion, retain, self.is_terminal()));
            }
            Action::Answer { request, result } => {
                if let Some(reply) = self.requests.remove(&request) {
                    // Whoever asked may have gone.
                    let _ = reply.send(result);
                }
            }
            Action::FailJob {
                failure,
                attributed_to,
            } => self.on_tolerance_exceeded(*failure, attributed_to),
            Action::Log(notice) => super::log::notice(job, &notice),
        }
    }

    pub(super) fn on_checkpoint_answer(&mut self, answer: Answer) {
        let event = match answer {
            Answer::Reserved(Ok(ids)) => Event::IdsReserved(ids),
            Answer::Reserved(Err(failure)) => {
                if self.is_fenced(&failure) {
                    return;
                }
                let message = error_chain(&failure);
                Event::IdsNotReserved { message }
            }
            Answer::MetadataStored(checkpoint, Ok(metadata)) => Event::MetadataStored {
                checkpoint,
                metadata,
            },
            Answer::MetadataStored(checkpoint, Err(error)) => Event::MetadataNotStored {
                checkpoint,
                outcome: error.outcome(),
                message: error_chain(&error),
            },
            Answer::Appended(checkpoint, Ok(())) => Event::Appended { checkpoint },
            Answer::Appended(checkpoint, Err(failure)) => {
                if self.is_fenced(&failure) {
                    return;
                }
                match failure {
                    ChainFailure::Rejected { .. } => Event::NotAppended {
                        checkpoint,
                        message: error_chain(&failure),
                    },
                    // Not known: the next claim tells.
                    ChainFailure::Fenced { .. }
                    | ChainFailure::Refused { .. }
                    | ChainFailure::GivenUp { .. }
                    | ChainFailure::RestorePoint { .. }
                    | ChainFailure::JobObject { .. }
                    | ChainFailure::Closed { .. } => return,
                }
            }
            Answer::Deleted(ticket) => Event::Deleted { ticket },
            Answer::Claimed(_)
            | Answer::Confirmed(_)
            | Answer::Terminal(_)
            | Answer::ResultStored { .. }
            | Answer::Told
            | Answer::Done => return,
        };
        self.work.push_back(Work::Checkpoint(event));
    }

    fn on_triggered(
        &mut self,
        epoch: Epoch,
        checkpoint: CheckpointId,
        unreachable: Option<TaskmanagerId>,
    ) {
        let Some(taskmanager) = unreachable else {
            return;
        };
        let message = format!("taskmanager {taskmanager} is not connected");
        self.work.push_back(Work::Checkpoint(Event::TriggerFailed {
            epoch,
            checkpoint,
            message,
        }));
    }

    /// A task that is not reached is told with the next one: "and all before it".
    fn notify_completed(
        &self,
        epoch: Epoch,
        checkpoint: CheckpointId,
        subtasks: Vec<(SubtaskId, Attempt)>,
    ) {
        let job = self.id;
        self.send_to_tasks(subtasks, |subtasks| ToTaskmanager::NotifyCompleted {
            job,
            epoch,
            subtasks,
            checkpoint,
        });
    }

    fn on_tolerance_exceeded(
        &mut self,
        failure: FailureInfo,
        attributed_to: Option<(SubtaskId, Attempt)>,
    ) {
        let message = catalog::tolerable_failures_exceeded(failure.causes.join("; "));
        error!(event_id = message.id, job_id = %self.id, "{message}");
        self.work.push_back(Work::Job(job::Event::Failed {
            failure,
            attributed_to,
        }));
    }

    /// Nobody else will ever own the job.
    fn is_terminal(&self) -> bool {
        self.completed_at_end.is_some()
    }

    pub(super) fn n_retained(&self) -> NonZeroU32 {
        n_retained(&self.plan)
    }

    /// Deletes what earlier epochs left in storage, and will look again.
    pub(super) fn sweep(&mut self) {
        self.sweep_at = self.env.clock().monotonic() + SWEEP_EVERY;
        if let Some(claim) = &self.claim {
            let (files, retain) = (self.files.clone(), self.n_retained());
            let epoch = claim.claimed.epoch;
            let shared = self.coordinator.shared_in_use();
            self.ask_in_order(io::sweep(files, epoch, retain, shared));
        }
    }

    /// One message per taskmanager; the first that was not reached.
    fn send_to_tasks(
        &self,
        subtasks: Vec<(SubtaskId, Attempt)>,
        message: impl Fn(Vec<TaskAddress>) -> ToTaskmanager,
    ) -> Option<TaskmanagerId> {
        let mut by_taskmanager: BTreeMap<TaskmanagerId, Vec<TaskAddress>> = BTreeMap::new();
        for (subtask, attempt) in subtasks {
            let execution = self.job.executions().get(&subtask);
            let slot = execution.and_then(|execution| execution.slot.as_ref());
            if let Some(slot) = slot {
                let tasks = by_taskmanager.entry(slot.taskmanager.clone()).or_default();
                tasks.push(TaskAddress { subtask, attempt });
            }
        }
        let mut unreachable = None;
        for (taskmanager, tasks) in by_taskmanager {
            if !self.connections.send(&taskmanager, message(tasks)) {
                unreachable = unreachable.or(Some(taskmanager));
            }
        }
        unreachable
    }

    fn operator_names(&self) -> BTreeMap<OperatorUid, String> {
        let operators = self.plan.graph.operators.iter();
        operators
            .map(|node| (node.uid.clone(), node.name.clone()))
            .collect()
    }
}
