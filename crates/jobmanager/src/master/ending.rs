//! The end of a job: its result is stored, then everybody is told, then storage is cleaned up; also
//! where the jobmanager that wrote the end went before it had stored a result. One that went later is
//! made up for by the next ([`crate::cleaning`]).

use futures::FutureExt;
use millstream_coordination::chain::TerminalState;
use millstream_coordination::checkpoint::{Deletion, RetainedCheckpoint};
use millstream_coordination::job::JobEnd;
use millstream_coordination::protocol::ToTaskmanager;
use millstream_telemetry::catalog;
use millstream_types::{Epoch, MonoTime, TaskmanagerId};
use parking_lot::Mutex;
use tracing::{error, info};

use super::io::Answer;
use super::{Master, io};
use crate::cleaning;
use crate::details::JobEnded;
use crate::registry::{EndedJob, Outcome};
use crate::result;
use crate::watch::JobEvent;

/// No checkpoint of a running job has such a number; tickets of the coordinator stay below.
const NO_TICKET: u64 = u64::MAX;

impl Master {
    /// TERMINAL is durable.
    pub(super) fn on_end(&mut self, end: &JobEnd) {
        self.log_end(end);
        self.record.end = Some((JobEnded::from(end), self.env.clock().wall()));
        for (taskmanager, epoch) in std::mem::take(&mut self.involved) {
            self.send_release(&taskmanager, epoch);
        }
        self.deployment = None;
        self.sweep_at = MonoTime::NEVER;
        let result = result::encode(&self.details());
        self.io
            .push(io::store_result(self.files.clone(), result).boxed());
        self.clean_up(end.state());
    }

    /// The result is stored, or will be.
    pub(super) fn announce(&mut self, is_stored: bool) {
        let Some((ended, _)) = self.record.end.clone() else {
            return;
        };
        let details = self.details();
        if !is_stored {
            let request = io::store_result_later(
                self.files.clone(),
                self.env.clone(),
                result::encode(&details),
            );
            self.io.push(request.boxed());
        }
        let checkpoints = Some(self.checkpoints());
        self.registry.end(
            self.id,
            EndedJob {
                details,
                checkpoints,
                unwatched: Mutex::new(self.record.take_unwatched()),
            },
        );
        self.is_announced = true;
        self.outcome.send_replace(Outcome::Ended(ended.clone()));
        self.record.publish(&JobEvent::Ended(ended));
        self.requests.clear();
    }

    /// Deletes what the job does not keep.
    fn clean_up(&mut self, state: TerminalState) {
        // What the chain has is known of every job that ended; in doubt everything stays.
        let Some(completed) = &self.completed_at_end else {
            return;
        };
        let kept = cleaning::kept(state, &self.plan, completed);
        let deletions = match kept.is_empty() {
            true => self.coordinator.retained().map(deletion_of).collect(),
            false => Vec::new(),
        };
        let request = cleaning::clean_up(self.files.clone(), self.env.clone(), deletions, kept);
        self.io.push(request.map(|()| Answer::Done).boxed());
    }

    pub(super) fn send_release(&self, taskmanager: &TaskmanagerId, epoch: Epoch) {
        let job = self.id;
        // One that is not reached says what it has when it is back, and is told then.
        self.connections
            .send(taskmanager, ToTaskmanager::ReleaseJob { job, epoch });
    }

    fn log_end(&self, end: &JobEnd) {
        let name = &self.plan.graph.name;
        let message = match end {
            JobEnd::Finished | JobEnd::Canceled | JobEnd::Earlier(_) => {
                info!(job_id = %self.id, "job {name} ended: {end}");
                return;
            }
            JobEnd::NotRecoverable(_) => catalog::failure_not_recoverable(),
            JobEnd::Suppressed { strategy, .. } => catalog::recovery_suppressed(strategy),
        };
        let failure = end.failure().map(super::log::one_line).unwrap_or_default();
        error!(event_id = message.id, job_id = %self.id, error = failure, "{message}");
    }
}

fn deletion_of(retained: &RetainedCheckpoint) -> Deletion {
    let checkpoint = &retained.checkpoint;
    let objects = checkpoint.objects().chain([&retained.metadata]);
    Deletion {
        ticket: NO_TICKET,
        checkpoint: checkpoint.id,
        epoch: checkpoint.epoch,
        objects: objects.cloned().collect(),
        sweep: true,
    }
}
