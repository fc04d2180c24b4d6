//! Lines of the coordinator's log, in the wording that operators search for (docs/spec/log-catalogue.md).

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

/// A line about a message of a task.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct TaskNotice {
    /// The checkpoint it is about.
    pub checkpoint: CheckpointId,
    /// Which task sent it.
    pub task: TaskName,
    /// Of which job.
    pub job: JobId,
    /// From where.
    pub from: Origin,
    /// What it was.
    pub what: TaskMessage,
}

/// What a task said, as the coordinator took it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum TaskMessage {
    /// It declined.
    Declined {
        /// Why.
        message: String,
    },
    /// It acknowledged a checkpoint that is over.
    Late,
    /// It acknowledged a checkpoint that nobody remembers.
    UnknownCheckpoint,
    /// It is not part of the checkpoint.
    UnknownTask,
    /// It is of an epoch that was fenced.
    Stale {
        /// Its epoch.
        epoch: Epoch,
        /// The job's.
        current: Option<Epoch>,
    },
}

impl TaskNotice {
    fn level(&self) -> Level {
        match self.what {
            TaskMessage::UnknownCheckpoint => Level::Debug,
            TaskMessage::Declined { .. } => Level::Info,
            TaskMessage::Late | TaskMessage::UnknownTask | TaskMessage::Stale { .. } => Level::Warn,
        }
    }
}

impl fmt::Display for TaskNotice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            checkpoint,
            task,
            job,
            from: Origin { taskmanager, host },
            what,
        } = self;
        match what {
            TaskMessage::Declined { .. } => write!(
                f,
                "Decline checkpoint {checkpoint} by task {task} of job {job} at {taskmanager} @ \
                 {host}."
            ),
            TaskMessage::Late => write!(
                f,
                "Received late message for now expired checkpoint attempt {checkpoint} from task \
                 {task} of job {job} at {taskmanager} @ {host}."
            ),
            TaskMessage::UnknownCheckpoint => write!(
                f,
                "Received message for an unknown checkpoint {checkpoint} from task {task} of job \
                 {job} at {taskmanager} @ {host}."
            ),
            TaskMessage::UnknownTask => write!(
                f,
                "Could not acknowledge the checkpoint {checkpoint} for the task {task} of job \
                 {job} at {taskmanager} @ {host}, because it is not part of the checkpoint."
            ),
            TaskMessage::Stale { epoch, current } => {
                write!(
                    f,
                    "Refused acknowledgement of checkpoint {checkpoint} from task {task} of job \
                     {job} at {taskmanager} @ {host}: it is of epoch {epoch}, "
                )?;
                match current {
                    Some(current) => write!(f, "the job is in epoch {current}."),
                    None => f.write_str("and the job is not running."),
                }
            }
        }
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
    /// A task said something about a checkpoint.
    Task(TaskNotice),
    /// The timeout passed.
    Expired {
        /// Which checkpoint.
        checkpoint: CheckpointId,
        /// Of which job.
        job: JobId,
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
            Self::Task(notice) => notice.level(),
            Self::Triggering { .. }
            | Self::NotTriggered { .. }
            | Self::Expired { .. }
            | Self::Completed { .. } => Level::Info,
            Self::Failed { .. } | Self::OutcomeUnknown { .. } => Level::Warn,
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
            Self::Task(notice) => fmt::Display::fmt(notice, f),
            Self::Expired { checkpoint, job } => write!(
                f,
                "Checkpoint {checkpoint} of job {job} expired before completing."
            ),
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
