//! Carries out what the machine of the job decides, and tells it what came of it.

use std::collections::BTreeMap;

use futures::FutureExt;
use millstream_coordination::chain::Refusal;
use millstream_coordination::checkpoint;
use millstream_coordination::failure::{FailureKind, FailureRecord};
use millstream_coordination::job::{self, Action, ExecutionState, JobStatus};
use millstream_coordination::protocol::{TaskAddress, ToTaskmanager};
use millstream_coordination::slots::{SlotDemand, SlotRef};
use millstream_snapshot::chain::ChainFailure;
use millstream_telemetry::{catalog, chain as error_chain};
use millstream_types::sabotage::Rule;
use millstream_types::{Attempt, Epoch, SlotIndex, SubtaskId, TaskmanagerId};
use tracing::{info, warn};

use super::io::{self, Answer, ClaimFailure};
use super::{Master, Work, failure};
use crate::cleaning::SWEEP_AFTER;
use crate::cluster::ClusterEvent;
use crate::details::SlotWait;
use crate::registry::Outcome;

/// Messages that are sent together once all actions of a step are known.
#[derive(Default)]
struct Batches {
    cancel: BTreeMap<(TaskmanagerId, Epoch), Vec<TaskAddress>>,
    abandon: BTreeMap<(TaskmanagerId, Epoch), Vec<SlotIndex>>,
}

impl Master {
    pub(super) fn carry_out_job(&mut self, actions: Vec<Action>) {
        let mut batches = Batches::default();
        for action in actions {
            self.carry_out_one(action, &mut batches);
        }
        self.start_deployment();
        let job = self.id;
        for ((taskmanager, epoch), subtasks) in batches.cancel {
            let message = ToTaskmanager::Cancel {
                job,
                epoch,
                subtasks,
            };
            // One that is not reached is lost soon, or asked again when it reports the tasks.
            self.connections.send(&taskmanager, message);
        }
        for ((taskmanager, epoch), slots) in batches.abandon {
            let message = ToTaskmanager::Abandon { job, epoch, slots };
            self.connections.send(&taskmanager, message);
        }
    }

    fn carry_out_one(&mut self, action: Action, batches: &mut Batches) {
        match action {
            Action::Claim => self.ask_for_claim(),
            Action::RequestSlots { epoch, previous } => self.request_slots(epoch, previous),
            Action::ConfirmClaim { epoch } => self.ask_to_confirm(epoch),
            Action::ReleaseSlots { epoch } => {
                let job = self.id;
                self.record.slot_wait = None;
                self.tell_cluster(ClusterEvent::ReleaseSlots { job, epoch });
            }
            Action::Deploy {
                epoch,
                subtask,
                attempt,
                slot,
                restore: _,
            } => self.collect_deployment(epoch, subtask, attempt, slot),
            Action::StartCheckpointing {
                epoch, attempts, ..
            } => self.start_checkpointing(epoch, attempts),
            Action::SuspendCheckpointing => {
                let event = checkpoint::Event::Suspended;
                self.work.push_back(Work::Checkpoint(event));
            }
            Action::CancelTask {
                taskmanager,
                epoch,
                subtask,
                attempt,
            } => {
                if !self.withdraw(epoch, subtask, attempt) {
                    let tasks = batches.cancel.entry((taskmanager, epoch)).or_default();
                    tasks.push(TaskAddress { subtask, attempt });
                }
            }
            Action::AbandonTask {
                slot,
                epoch,
                subtask,
                attempt,
            } => self.abandon(slot, epoch, (subtask, attempt), batches),
            Action::WriteTerminal { epoch: _, state } => {
                let request = io::append_terminal(self.files.clone(), state);
                self.ask_in_order(request);
            }
            Action::Announce(end) => self.on_end(&end),
            Action::StatusChanged { from, to } => self.on_status(from, to),
            Action::TaskChanged {
                subtask,
                attempt,
                from,
                to,
                failure,
            } => {
                self.log_task(subtask, attempt, (from, to), failure.as_ref());
                self.on_task_changed(subtask, attempt, to);
            }
            Action::WillRestart { tasks, root } => self.on_restart(tasks, &root),
            Action::RestartLoop { repeated } => warn!(
                job_id = %self.id,
                repeated,
                "restart loop: the same root cause has failed the job again and again"
            ),
        }
    }

    fn request_slots(&mut self, epoch: Epoch, previous: BTreeMap<SubtaskId, TaskmanagerId>) {
        let demand = SlotDemand::of(&self.plan.topology);
        self.record.slot_wait = Some(SlotWait {
            needed: demand.count(),
            free: 0,
            since: self.env.clock().wall(),
        });
        self.tell_cluster(ClusterEvent::RequestSlots {
            job: self.id,
            epoch,
            demand,
            previous,
        });
    }

    fn tell_cluster(&mut self, event: ClusterEvent) {
        let waiting = self.telling.tell(event);
        self.io.extend(waiting);
    }

    fn on_restart(&mut self, n_tasks: usize, root: &FailureRecord) {
        self.record.restarts += 1;
        let task = root.task.as_ref();
        let name = task.map_or("of the whole job", |task| task.name.as_str());
        let message = catalog::tasks_restart(n_tasks, name);
        info!(event_id = message.id, job_id = %self.id, cause = %root.failure, "{message}");
    }

    fn ask_for_claim(&mut self) {
        let (files, topology) = (self.files.clone(), self.plan.topology.clone());
        match self.first_claim.take() {
            None => self.io.push(io::claim(files, topology).boxed()),
            Some(claimed) => {
                let prepared = io::prepare(files, topology, claimed);
                self.io
                    .push(prepared.map(|c| Answer::Claimed(c.map(Box::new))).boxed());
            }
        }
    }

    /// For calls on the claim chain, whose order counts.
    pub(super) fn ask_in_order(&mut self, request: impl Future<Output = Answer> + Send + 'static) {
        match io::ordered(request) {
            Ok(answer) => self.work.push_back(Work::Answer(answer)),
            Err(waiting) => self.io.push(waiting),
        }
    }

    fn abandon(
        &mut self,
        slot: SlotRef,
        epoch: Epoch,
        task: (SubtaskId, Attempt),
        batches: &mut Batches,
    ) {
        self.log_given_up(&slot, task);
        let slots = batches
            .abandon
            .entry((slot.taskmanager.clone(), epoch))
            .or_default();
        if !slots.contains(&slot.index) {
            slots.push(slot.index);
            self.tell_cluster(ClusterEvent::AbandonSlot(slot));
        }
    }

    fn start_checkpointing(&mut self, epoch: Epoch, attempts: BTreeMap<SubtaskId, Attempt>) {
        let Some(claim) = &self.claim else {
            return;
        };
        let restored = claim.restored.clone();
        self.work
            .push_back(Work::Checkpoint(checkpoint::Event::Started {
                epoch,
                attempts,
                ids: claim.claimed.ids,
                restored: restored.as_ref().map(|r| r.checkpoint.id),
                retained: restored.into_iter().collect(),
            }));
    }

    fn on_status(&mut self, from: JobStatus, to: JobStatus) {
        info!(job_id = %self.id, "job {} switched from {from} to {to}", self.plan.graph.name);
        if let Some(newest) = self.job.history().entries().next_back() {
            self.record.last_failure = Some(super::log::one_line(&newest.root));
        }
        self.record.status(to, self.env.clock().wall());
        if to == JobStatus::Suspended {
            let because = self.record.suspended_because.clone();
            let why = because
                .or_else(|| self.record.last_failure.clone())
                .unwrap_or_else(|| "another jobmanager owns it".to_owned());
            warn!(job_id = %self.id, why, "job suspended");
            self.outcome.send_replace(Outcome::Suspended(why));
            self.record.close_watches();
        }
    }

    fn on_task_changed(&mut self, subtask: SubtaskId, attempt: Attempt, to: ExecutionState) {
        let record = self.record.tasks.entry(subtask).or_default();
        if to == ExecutionState::Deploying {
            *record = super::record::TaskRecord::default();
        }
        record.state_since.insert(to, self.env.clock().wall());
        if let Some(claim) = &self.claim {
            let epoch = claim.claimed.epoch;
            self.work
                .push_back(Work::Checkpoint(checkpoint::Event::TaskState {
                    epoch,
                    subtask,
                    attempt,
                    state: to,
                }));
        }
    }

    pub(super) fn on_answer(&mut self, answer: Answer) {
        match answer {
            Answer::Claimed(Ok(claim)) => self.on_claimed(*claim),
            Answer::Claimed(Err(failure)) => self.on_claim_failure(&failure),
            Answer::Confirmed(Ok(epoch)) => {
                let event = job::Event::ClaimConfirmed { epoch };
                self.work.push_back(Work::Job(event));
            }
            Answer::Confirmed(Err(failure)) => self.on_claim_not_confirmed(&failure),
            Answer::Terminal(Ok(completed)) => {
                self.completed_at_end = Some(completed);
                self.work.push_back(Work::Job(job::Event::TerminalWritten));
            }
            Answer::Terminal(Err(failure)) => {
                if !self.is_fenced(&failure) {
                    warn!(job_id = %self.id, error = error_chain(&failure), "end not written");
                    self.work
                        .push_back(Work::Job(job::Event::TerminalNotWritten));
                }
            }
            Answer::ResultStored { is_stored } => self.announce(is_stored),
            Answer::Told => {
                let waiting = self.telling.told();
                self.io.extend(waiting);
            }
            Answer::Done => {}
            Answer::Reserved(_)
            | Answer::MetadataStored(..)
            | Answer::Appended(..)
            | Answer::Deleted(_) => self.on_checkpoint_answer(answer),
        }
    }

    fn on_claimed(&mut self, claim: io::Claim) {
        let epoch = claim.claimed.epoch;
        let restore = claim.claimed.restore.as_ref().map(|r| r.point.clone());
        match &claim.restored {
            Some(restored) => {
                self.record.restored += 1;
                let message = catalog::restoring(self.id, restored.checkpoint.id);
                info!(event_id = message.id, job_id = %self.id, leader_epoch = epoch.0, "{message}");
            }
            None => {
                let message = catalog::nothing_to_restore();
                info!(event_id = message.id, job_id = %self.id, leader_epoch = epoch.0, "{message}");
            }
        }
        self.claim = Some(claim);
        self.sweep_at = self.env.clock().monotonic() + SWEEP_AFTER;
        self.work
            .push_back(Work::Job(job::Event::Claimed { epoch, restore }));
    }

    fn on_claim_failure(&mut self, failure: &ClaimFailure) {
        match failure {
            ClaimFailure::Chain(ChainFailure::Refused {
                refusal: Refusal::Terminal { completed, .. },
                ..
            }) => self.completed_at_end = Some(completed.clone()),
            _ => warn!(job_id = %self.id, error = error_chain(failure), "job not claimed"),
        }
        if let ClaimFailure::Chain(chain) = failure
            && self.is_fenced(chain)
        {
            return;
        }
        let directory = self.files.store.address();
        self.work
            .push_back(Work::Job(failure::claim_event(failure, &directory)));
    }

    fn ask_to_confirm(&mut self, epoch: Epoch) {
        if self.env.sabotage().removed(Rule::DeployUnconfirmed) {
            let event = job::Event::ClaimConfirmed { epoch };
            return self.work.push_back(Work::Job(event));
        }
        self.ask_in_order(io::confirm(self.files.clone()));
    }

    fn on_claim_not_confirmed(&mut self, failure: &ChainFailure) {
        warn!(job_id = %self.id, error = error_chain(failure), "claim not confirmed");
        if self.is_fenced(failure) {
            return;
        }
        // A newer claim of our own asks for itself; a chain that is closed is asked nothing.
        if let ChainFailure::GivenUp { .. } | ChainFailure::Closed { .. } = failure {
            return;
        }
        let failure = failure::info(failure, FailureKind::Internal, Some(failure.remedy()));
        self.work.push_back(Work::Job(job::Event::Failed {
            failure,
            attributed_to: None,
        }));
    }

    /// Whether another jobmanager owns the job; then everything of it stops here.
    pub(super) fn is_fenced(&mut self, failure: &ChainFailure) -> bool {
        let is_fenced = matches!(failure, ChainFailure::Fenced { .. });
        if is_fenced {
            self.record.suspended_because = Some(error_chain(failure));
            self.work.push_back(Work::Job(job::Event::OwnershipLost));
        }
        is_fenced
    }
}
