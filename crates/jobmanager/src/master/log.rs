//! Lines that operators search for, with their ids.

use millstream_coordination::checkpoint::{Level, Notice, Origin, TaskMessage, TaskNotice};
use millstream_coordination::failure::{FailureInfo, FailureRecord};
use millstream_coordination::job::ExecutionState;
use millstream_coordination::protocol::DeploySubtask;
use millstream_coordination::slots::SlotRef;
use millstream_telemetry::catalog::{self, Message};
use millstream_types::{Attempt, CheckpointId, Epoch, JobId, SubtaskId};
use tracing::{debug, error, info, warn};

use super::Master;

impl Master {
    /// How the job restarts (F17).
    pub(super) fn log_start(&self) {
        info!(
            job_id = %self.id,
            "Using restart back off time strategy {} for {} ({}).",
            self.plan.machine.restart_strategy, self.plan.graph.name, self.id
        );
    }

    pub(super) fn log_task(
        &self,
        subtask: SubtaskId,
        attempt: Attempt,
        (from, to): (ExecutionState, ExecutionState),
        failure: Option<&FailureInfo>,
    ) {
        let Some(vertex) = self.plan.topology.vertex(subtask.vertex) else {
            return;
        };
        let (name, index, of) = (&vertex.name, subtask.index + 1, vertex.parallelism);
        let id = self.attempt_name(subtask, attempt);
        let message = match failure {
            Some(failure) => {
                let error = failure_text(failure);
                catalog::task_failed(name, index, of, id, from, to, error)
            }
            None => catalog::task_switched(name, index, of, id, from, to),
        };
        info!(
            event_id = message.id,
            job_id = %self.id,
            vertex_id = subtask.vertex.0,
            subtask_index = subtask.index,
            attempt = attempt.0,
            "{message}"
        );
    }

    pub(super) fn log_deploying(&self, task: &DeploySubtask, slot: &SlotRef) {
        let Some(vertex) = self.plan.topology.vertex(task.subtask.vertex) else {
            return;
        };
        let host = self.connections.host(&slot.taskmanager);
        let message = catalog::task_deploying(
            &vertex.name,
            task.subtask.index + 1,
            vertex.parallelism,
            task.attempt,
            attempt_id(task.epoch, task.subtask, task.attempt),
            slot,
            host.as_deref().unwrap_or("unknown host"),
        );
        info!(
            event_id = message.id,
            job_id = %self.id,
            taskmanager_id = %slot.taskmanager,
            attempt = task.attempt.0,
            "{message}"
        );
    }

    /// A task that does not stop is fenced, and its job process is to be killed.
    pub(super) fn log_given_up(&self, slot: &SlotRef, (subtask, attempt): (SubtaskId, Attempt)) {
        let Some(vertex) = self.plan.topology.vertex(subtask.vertex) else {
            return;
        };
        let activity = self.record.tasks.get(&subtask);
        let activity = activity.and_then(|task| task.activity.as_deref());
        let message = catalog::task_stuck(
            &vertex.name,
            subtask.index + 1,
            vertex.parallelism,
            attempt,
            self.plan.machine.cancellation_interval.as_secs(),
            activity.unwrap_or("unknown, its process did not say"),
        );
        warn!(
            event_id = message.id,
            job_id = %self.id,
            taskmanager_id = %slot.taskmanager,
            slot_index = slot.index.0,
            attempt = attempt.0,
            "{message}"
        );
    }

    /// Names one execution, also among those of earlier jobmanagers.
    pub(super) fn attempt_name(&self, subtask: SubtaskId, attempt: Attempt) -> String {
        let epoch = self.claim.as_ref().map(|claim| claim.claimed.epoch);
        attempt_id(epoch.unwrap_or_default(), subtask, attempt)
    }
}

fn attempt_id(epoch: Epoch, subtask: SubtaskId, attempt: Attempt) -> String {
    format!("{epoch}-v{}.{}-{attempt}", subtask.vertex, subtask.index)
}

/// A failure with its place and causes.
pub(super) fn one_line(record: &FailureRecord) -> String {
    let text = failure_text(&record.failure);
    match &record.task {
        Some(task) => format!("{}: {text}", task.name),
        None => text,
    }
}

fn failure_text(failure: &FailureInfo) -> String {
    let operator = failure.operator.iter();
    let parts: Vec<&str> = operator
        .map(String::as_str)
        .chain([failure.message.as_str()])
        .chain(failure.causes.iter().map(String::as_str))
        .collect();
    parts.join(": ")
}

/// A line of the checkpoint coordinator.
pub(super) fn notice(job: JobId, notice: &Notice) {
    let (message, checkpoint, detail) = worded(notice);
    let text = message
        .as_ref()
        .map_or_else(|| notice.to_string(), ToString::to_string);
    let event_id = message.map(|message| message.id);
    let checkpoint_id = checkpoint.map(|id| id.0);
    match notice.level() {
        Level::Debug => debug!(event_id, job_id = %job, checkpoint_id, detail, "{text}"),
        Level::Info => info!(event_id, job_id = %job, checkpoint_id, detail, "{text}"),
        Level::Warn => warn!(event_id, job_id = %job, checkpoint_id, detail, "{text}"),
        Level::Error => error!(event_id, job_id = %job, checkpoint_id, detail, "{text}"),
    }
}

/// The catalogue's wording where it has one, the checkpoint, and what else there is to say.
fn worded(notice: &Notice) -> (Option<Message>, Option<CheckpointId>, Option<String>) {
    match notice {
        Notice::Triggering {
            checkpoint,
            kind,
            triggered_at,
            job,
        } => {
            let message =
                catalog::checkpoint_triggered(checkpoint, kind, triggered_at.as_millis(), job);
            (Some(message), Some(*checkpoint), None)
        }
        Notice::NotTriggered { job, .. } => {
            let refused = catalog::checkpoint_refused_after_finish(job);
            let is_it = refused.as_str() == notice.to_string();
            (is_it.then_some(refused), None, None)
        }
        Notice::Task(task) => {
            let (message, detail) = worded_task(task);
            (message, Some(task.checkpoint), detail)
        }
        Notice::Expired { checkpoint, job } => {
            let message = catalog::checkpoint_expired(checkpoint, job);
            (Some(message), Some(*checkpoint), None)
        }
        Notice::Completed {
            checkpoint,
            job,
            state_bytes,
            duration_ms,
            finalization_ms,
        } => {
            let message = catalog::checkpoint_completed(
                checkpoint,
                job,
                state_bytes,
                duration_ms,
                finalization_ms,
            );
            (Some(message), Some(*checkpoint), None)
        }
        Notice::Failed {
            checkpoint,
            job,
            consecutive,
            reason,
            message,
            ..
        } => {
            let n = checkpoint.map_or_else(|| "unknown".to_owned(), |id| id.to_string());
            let worded = catalog::checkpoint_failed(n, job, consecutive);
            let detail = format!("{reason} {message}");
            (Some(worded), *checkpoint, Some(detail))
        }
        Notice::WrongJob { .. } => (None, None, None),
        Notice::OutcomeUnknown { checkpoint, .. } => (None, Some(*checkpoint), None),
    }
}

fn worded_task(task: &TaskNotice) -> (Option<Message>, Option<String>) {
    let (n, name, job) = (task.checkpoint, &task.task, task.job);
    let Origin { taskmanager, host } = &task.from;
    match &task.what {
        TaskMessage::Declined { message } => (
            Some(catalog::checkpoint_declined(
                n,
                name,
                job,
                taskmanager,
                host,
            )),
            Some(message.clone()),
        ),
        TaskMessage::Late => (Some(catalog::late_message(n, name, job, taskmanager)), None),
        TaskMessage::UnknownCheckpoint | TaskMessage::UnknownTask | TaskMessage::Stale { .. } => {
            (None, None)
        }
    }
}
