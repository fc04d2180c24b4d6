//! The texts operators search for, each with an id that never changes. The list for people is
//! `docs/spec/log-catalogue.md`; a test keeps the two equal.
//!
//! ```ignore
//! let message = catalog::checkpoint_expired(checkpoint_id, job_id);
//! info!(event_id = message.id, checkpoint_id, "{message}");
//! ```

use std::fmt::{self, Display};

/// A text of the catalogue with its values filled in.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Message {
    /// The text's id, for the field [`EVENT_ID`](crate::fields::EVENT_ID).
    pub id: &'static str,
    text: String,
}

impl Message {
    /// The text.
    pub fn as_str(&self) -> &str {
        &self.text
    }
}

impl Display for Message {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl From<Message> for String {
    fn from(message: Message) -> Self {
        message.text
    }
}

/// An entry of the catalogue.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Template {
    /// Never changes and is never used again.
    pub id: &'static str,
    /// The level it is logged at.
    pub level: &'static str,
    /// The text, with names of values in braces.
    pub text: &'static str,
}

macro_rules! catalogue {
    ($($(#[$doc:meta])* $id:literal $level:literal $name:ident($($value:ident),*) $text:literal;)*) => {
        $(
            $(#[$doc])*
            pub fn $name($($value: impl Display),*) -> Message {
                Message { id: $id, text: format!($text) }
            }
        )*

        /// All texts, in order of their ids.
        pub const CATALOGUE: &[Template] =
            &[$(Template { id: $id, level: $level, text: $text }),*];
    };
}

catalogue! {
    /// The checkpoint coordinator starts a checkpoint or savepoint.
    "CKPT-0001" "INFO" checkpoint_triggered(n, kind, ms, job)
        "Triggering checkpoint {n} (type={kind}) @ {ms} for job {job}.";
    /// A checkpoint is refused since tasks have finished and that is configured to refuse it.
    "CKPT-0002" "INFO" checkpoint_refused_after_finish(job)
        "Failed to trigger checkpoint for job {job} since some tasks of job {job} has been finished, abort the checkpoint Failure reason: Not all required tasks are currently running.";
    /// A task declined.
    "CKPT-0003" "INFO" checkpoint_declined(n, attempt, job, taskmanager, host)
        "Decline checkpoint {n} by task {attempt} of job {job} at {taskmanager} @ {host}.";
    /// The timeout passed first.
    "CKPT-0004" "INFO" checkpoint_expired(n, job)
        "Checkpoint {n} of job {job} expired before completing.";
    /// An acknowledgement came after the timeout.
    "CKPT-0005" "WARN" late_message(n, attempt, job, taskmanager)
        "Received late message for now expired checkpoint attempt {n} from task {attempt} of job {job} at {taskmanager}.";
    /// A checkpoint is complete and durable.
    "CKPT-0006" "INFO" checkpoint_completed(n, job, bytes, duration_ms, finalization_ms)
        "Completed checkpoint {n} for job {job} ({bytes} bytes, checkpointDuration={duration_ms} ms, finalizationTime={finalization_ms} ms).";
    /// A checkpoint did not complete; the count is of failures in a row.
    "CKPT-0007" "WARN" checkpoint_failed(n, job, k)
        "Failed to trigger or complete checkpoint {n} for job {job}. ({k} consecutive failed attempts so far)";
    /// More failures in a row than are tolerated; `details` say which and why.
    "CKPT-0008" "ERROR" tolerable_failures_exceeded(details)
        "Exceeded checkpoint tolerable failure threshold. {details}";
    /// A task begins its snapshot.
    "CKPT-0009" "DEBUG" task_checkpoint_started(n, kind, task, i, of)
        "Starting checkpoint ({n}) {kind} on task {task} ({i}/{of})";
    /// The part of a snapshot that held the task up is done.
    "CKPT-0010" "DEBUG" snapshot_synchronous_part(operator, location, thread, ms)
        "{operator} snapshot ({location}, synchronous part) in thread {thread} took {ms} ms.";
    /// The upload of a snapshot is done.
    "CKPT-0011" "DEBUG" snapshot_asynchronous_part(operator, location, thread, ms)
        "{operator} snapshot ({location}, asynchronous part) in thread {thread} took {ms} ms.";
    /// A barrier arrived.
    "CKPT-0012" "DEBUG" barrier_received(n, channel)
        "Received barrier for checkpoint {n} from channel {channel}";
    /// A newer barrier arrived during an alignment.
    "CKPT-0013" "WARN" barrier_overtaken(task, b, a)
        "{task}: Received checkpoint barrier for checkpoint {b} before completing current checkpoint {a}. Skipping current checkpoint.";
    /// A checkpoint was canceled during its alignment.
    "CKPT-0014" "DEBUG" alignment_aborted(n)
        "Checkpoint {n} canceled, aborting alignment.";
    /// A checkpoint was canceled before its alignment.
    "CKPT-0015" "DEBUG" alignment_skipped(n)
        "Checkpoint {n} canceled, skipping alignment.";
    /// A cancel marker of a newer checkpoint arrived during an alignment.
    "CKPT-0016" "WARN" cancellation_overtaken(task, b, a)
        "{task}: Received cancellation barrier for checkpoint {b} before completing current checkpoint {a}. Skipping current checkpoint.";
    /// The task was told that the checkpoint is off before its barrier came.
    "CKPT-0017" "INFO" abort_notified_before_barrier(n)
        "Checkpoint {n} has been notified as aborted, would not trigger any checkpoint.";
    /// A task changed its state.
    "TASK-0001" "INFO" task_switched(task, i, of, attempt, from, to)
        "{task} ({i}/{of}) ({attempt}) switched from {from} to {to}.";
    /// A task failed.
    "TASK-0002" "INFO" task_failed(task, i, of, attempt, from, to, error)
        "{task} ({i}/{of}) ({attempt}) switched from {from} to {to} with failure cause: {error}";
    /// A task is sent to its slot.
    "TASK-0003" "INFO" task_deploying(task, i, of, k, attempt, slot, host)
        "Deploying {task} ({i}/{of}) (attempt #{k}) with attempt id {attempt} to slot {slot} on {host}";
    /// A canceled task does not end.
    "TASK-0004" "WARN" task_stuck(task, i, of, k, seconds, stack)
        "Task '{task} ({i}/{of})#{k}' did not react to cancelling signal for {seconds} seconds, but is stuck in method: {stack}";
    /// A canceled task is given up.
    "TASK-0005" "ERROR" task_given_up(seconds)
        "Task did not exit gracefully within {seconds} + seconds.";
    /// The tasks of a region restart.
    "RSTR-0001" "INFO" tasks_restart(n, task)
        "{n} tasks will be restarted to recover the failed task {task}.";
    /// State is restored.
    "RSTR-0002" "INFO" restoring(job, n)
        "Restoring job {job} from Checkpoint {n}.";
    /// There is nothing to restore.
    "RSTR-0003" "INFO" nothing_to_restore()
        "No checkpoint found during restore.";
    /// The restart strategy gives up.
    "RSTR-0004" "ERROR" recovery_suppressed(strategy)
        "Recovery is suppressed by {strategy}";
    /// The failure is of a kind that a restart cannot heal.
    "RSTR-0005" "ERROR" failure_not_recoverable()
        "The failure is not recoverable";
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    const DOCUMENT: &str = include_str!("../../../docs/spec/log-catalogue.md");

    #[test]
    fn values_are_filled_in() {
        let message = checkpoint_completed(7, "00ff", 123, 45, 6);
        assert_eq!(message.id, "CKPT-0006");
        assert_eq!(
            message.to_string(),
            "Completed checkpoint 7 for job 00ff (123 bytes, checkpointDuration=45 ms, \
             finalizationTime=6 ms)."
        );
        assert_eq!(
            nothing_to_restore().as_str(),
            "No checkpoint found during restore."
        );
    }

    #[test]
    fn an_id_is_given_once() {
        let ids: BTreeSet<_> = CATALOGUE.iter().map(|template| template.id).collect();
        assert_eq!(ids.len(), CATALOGUE.len());
    }

    #[test]
    fn the_document_lists_every_text_with_its_id_and_level() {
        for Template { id, level, text } in CATALOGUE {
            let documented = text.replace('{', "<").replace('}', ">");
            let row = format!("| {id} | {level} | {documented} |");
            assert!(
                DOCUMENT.contains(&row),
                "docs/spec/log-catalogue.md lacks: {row}"
            );
        }
        let rows = DOCUMENT
            .lines()
            .filter(|line| line.starts_with("| ") && line.contains("-0"));
        assert_eq!(
            rows.count(),
            CATALOGUE.len(),
            "a row of the document has no text in the code"
        );
    }
}
