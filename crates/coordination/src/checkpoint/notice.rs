//! Lines of the coordinator's log, in the wording that operators search for (SEMANTICS G).

use std::fmt;

use millstream_types::{Attempt, CheckpointId, Epoch, JobId, SubtaskId, WallTime};

use super::CheckpointKind;
use super::messages::Origin;
use super::reason::FailureReason;

/// How much a line matters.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Level {
    /// Details.
    Debug,
    /// A checkpoint changed its state.
    Info,
    /// Something went wrong and was recovered.
    Warn,
    /// Someone must act.
    Error,
}

/// A task by its name, such as `counts (1/2)#0`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct TaskName {
    /// The subtask.
    pub subtask: SubtaskId,
    /// `name (i/n)`.
    pub name: String,
    /// Which execution.
    pub attempt: Attempt,
}

impl fmt::Display for TaskName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}#{}", self.name, self.attempt)
    }
}

/// One line; its `Display` is the message.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Notice {
    /// A checkpoint begins.
    Triggering {
        /// Which.
        checkpoint: CheckpointId,
        /// Why.
        kind: CheckpointKind,
        /// When.
        triggered_at: WallTime,
        /// Of which job.
        job: JobId,
    },
    /// A checkpoint was not begun.
    NotTriggered {
        /// Of which job.
        job: JobId,
        /// What stood in the way.
        cause: String,
        /// The reason in one word.
        reason: FailureReason,
    },
    /// A task declined.
    Declined {
        /// Which checkpoint.
        checkpoint: CheckpointId,
        /// Which task.
        task: TaskName,
        /// Of which job.
        job: JobId,
        /// From where.
        from: Origin,
        /// Why.
        message: String,
    },
    /// The timeout passed.
    Expired {
        /// Which checkpoint.
        checkpoint: CheckpointId,
        /// Of which job.
        job: JobId,
    },
    /// An acknowledgement of a checkpoint that is over.
    Late {
        /// Which checkpoint.
        checkpoint: CheckpointId,
        /// Which task.
        task: TaskName,
        /// Of which job.
        job: JobId,
        /// From where.
        from: Origin,
    },
    /// An acknowledgement of a checkpoint that nobody remembers.
    UnknownCheckpoint {
        /// Which checkpoint.
        checkpoint: CheckpointId,
        /// Which task.
        task: TaskName,
        /// Of which job.
        job: JobId,
    },
    /// An acknowledgement of a task that is not part of the checkpoint.
    UnknownTask {
        /// Which checkpoint.
        checkpoint: CheckpointId,
        /// Which task.
        task: TaskName,
        /// Of which job.
        job: JobId,
    },
    /// A message of an epoch that was fenced.
    Stale {
        /// Which checkpoint.
        checkpoint: CheckpointId,
        /// Which task.
        task: TaskName,
        /// Its epoch.
        epoch: Epoch,
        /// The job's.
        current: Option<Epoch>,
    },
    /// A message for another job.
    WrongJob {
        /// The other job.
        found: JobId,
        /// This one.
        job: JobId,
    },
    /// A checkpoint is on the chain.
    Completed {
        /// Which.
        checkpoint: CheckpointId,
        /// Of which job.
        job: JobId,
        /// Bytes of all state.
        state_bytes: u64,
        /// From trigger to completion.
        duration_ms: u128,
        /// From the last acknowledgement to completion.
        finalization_ms: u128,
    },
    /// A checkpoint, or the request for one, failed.
    Failed {
        /// Which; none before it had an id.
        checkpoint: Option<CheckpointId>,
        /// Of which job.
        job: JobId,
        /// Counted failures in a row.
        consecutive: usize,
        /// How many are tolerated.
        tolerable: u32,
        /// Why.
        reason: FailureReason,
        /// In words.
        message: String,
    },
    /// It is not known whether a write happened; nothing is deleted.
    OutcomeUnknown {
        /// Which checkpoint.
        checkpoint: CheckpointId,
        /// Of which job.
        job: JobId,
        /// What was written.
        message: String,
    },
}

impl Notice {
    /// How much it matters.
    pub fn level(&self) -> Level {
        match self {
            Self::UnknownCheckpoint { .. } => Level::Debug,
            Self::Triggering { .. }
            | Self::NotTriggered { .. }
            | Self::Declined { .. }
            | Self::Expired { .. }
            | Self::Completed { .. } => Level::Info,
            Self::Late { .. }
            | Self::UnknownTask { .. }
            | Self::Stale { .. }
            | Self::Failed { .. }
            | Self::OutcomeUnknown { .. } => Level::Warn,
            Self::WrongJob { .. } => Level::Error,
        }
    }
}

impl fmt::Display for Notice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Triggering {
                checkpoint,
                kind,
                triggered_at,
                job,
            } => write!(
                f,
                "Triggering checkpoint {checkpoint} (type={kind}) @ {} for job {job}.",
                triggered_at.as_millis()
            ),
            Self::NotTriggered { job, cause, reason } => write!(
                f,
                "Failed to trigger checkpoint for job {job} since {cause} Failure reason: {reason}"
            ),
            Self::Declined {
                checkpoint,
                task,
                job,
                from,
                ..
            } => write!(
                f,
                "Decline checkpoint {checkpoint} by task {task} of job {job} at {} @ {}.",
                from.taskmanager, from.host
            ),
            Self::Expired { checkpoint, job } => write!(
                f,
                "Checkpoint {checkpoint} of job {job} expired before completing."
            ),
            Self::Late {
                checkpoint,
                task,
                job,
                from,
            } => write!(
                f,
                "Received late message for now expired checkpoint attempt {checkpoint} from task \
                 {task} of job {job} at {} @ {}.",
                from.taskmanager, from.host
            ),
            Self::UnknownCheckpoint {
                checkpoint,
                task,
                job,
            } => write!(
                f,
                "Received message for an unknown checkpoint {checkpoint} from task {task} of job \
                 {job}."
            ),
            Self::UnknownTask {
                checkpoint,
                task,
                job,
            } => write!(
                f,
                "Could not acknowledge the checkpoint {checkpoint} for the task {task} of job \
                 {job}, because it is not part of the checkpoint."
            ),
            Self::Stale {
                checkpoint,
                task,
                epoch,
                current,
            } => {
                write!(
                    f,
                    "Refused acknowledgement of checkpoint {checkpoint} from task {task}: it is \
                     of epoch {epoch}, "
                )?;
                match current {
                    Some(current) => write!(f, "the job is in epoch {current}."),
                    None => f.write_str("and the job is not running."),
                }
            }
            Self::WrongJob { found, job } => {
                write!(
                    f,
                    "Received checkpoint message of job {found} at job {job}."
                )
            }
            Self::Completed {
                checkpoint,
                job,
                state_bytes,
                duration_ms,
                finalization_ms,
            } => write!(
                f,
                "Completed checkpoint {checkpoint} for job {job} ({state_bytes} bytes, \
                 checkpointDuration={duration_ms} ms, finalizationTime={finalization_ms} ms)."
            ),
            Self::Failed {
                checkpoint,
                job,
                consecutive,
                reason,
                message,
                ..
            } => {
                let id = checkpoint.map_or_else(|| "unknown".to_owned(), |id| id.to_string());
                write!(
                    f,
                    "Failed to trigger or complete checkpoint {id} for job {job}. \
                     ({consecutive} consecutive failed attempts so far) {reason} {message}"
                )
            }
            Self::OutcomeUnknown {
                checkpoint,
                job,
                message,
            } => write!(
                f,
                "It is unknown whether checkpoint {checkpoint} of job {job} was written; its \
                 files are kept: {message}"
            ),
        }
    }
}
