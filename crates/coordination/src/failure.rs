//! What is known of a failure, and how two of them are told apart.

use std::fmt;

use millstream_types::errors::{self, ErrorCode};
use millstream_types::{Attempt, Disposition, SubtaskId, TaskmanagerId, WallTime};

/// Where a failure comes from (B8.10).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Hash)]
pub enum FailureKind {
    /// User code, an expression, or a record that the job's policy does not accept.
    User,
    /// The synchronous part of a snapshot: the task fails, not the checkpoint (F84).
    SynchronousSnapshot,
    /// State could not be restored.
    Restore,
    /// A source or a sink outside of us did not do what was asked.
    Connector,
    /// A taskmanager was lost, and its tasks with it.
    TaskmanagerLost,
    /// A taskmanager was shut down on purpose; not counted (F36).
    TaskmanagerLeaving,
    /// The job process of a taskmanager ended.
    JobProcess,
    /// The job process used more memory than its budget.
    MemoryBudget,
    /// A channel between two tasks broke or carried bytes with a wrong checksum.
    Link,
    /// A task could not be started where it was sent.
    Deployment,
    /// No slots within the time given for it (F9).
    NoResourceAvailable,
    /// More consecutive checkpoints failed than are tolerated.
    CheckpointTolerance,
    /// A checkpoint promised a commit that can no longer be made.
    DataLoss,
    /// A state that our own code must not reach.
    Internal,
}

impl FailureKind {
    /// All kinds.
    pub const ALL: [Self; 14] = [
        Self::User,
        Self::SynchronousSnapshot,
        Self::Restore,
        Self::Connector,
        Self::TaskmanagerLost,
        Self::TaskmanagerLeaving,
        Self::JobProcess,
        Self::MemoryBudget,
        Self::Link,
        Self::Deployment,
        Self::NoResourceAvailable,
        Self::CheckpointTolerance,
        Self::DataLoss,
        Self::Internal,
    ];

    /// Its code.
    pub fn code(self) -> ErrorCode {
        match self {
            Self::User => errors::USER_CODE,
            Self::SynchronousSnapshot => errors::SYNCHRONOUS_SNAPSHOT,
            Self::Restore => errors::RESTORE,
            Self::Connector => errors::CONNECTOR,
            Self::TaskmanagerLost => errors::TASKMANAGER_LOST,
            Self::TaskmanagerLeaving => errors::TASKMANAGER_LEAVING,
            Self::JobProcess => errors::JOB_PROCESS,
            Self::MemoryBudget => errors::MEMORY_BUDGET,
            Self::Link => errors::LINK,
            Self::Deployment => errors::DEPLOYMENT,
            Self::NoResourceAvailable => errors::NO_SLOTS,
            Self::CheckpointTolerance => errors::CHECKPOINT_TOLERANCE,
            Self::DataLoss => errors::DATA_LOSS,
            Self::Internal => errors::INTERNAL,
        }
    }
}

impl fmt::Display for FailureKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::User => "USER",
            Self::SynchronousSnapshot => "SYNCHRONOUS_SNAPSHOT",
            Self::Restore => "RESTORE",
            Self::Connector => "CONNECTOR",
            Self::TaskmanagerLost => "TASKMANAGER_LOST",
            Self::TaskmanagerLeaving => "TASKMANAGER_LEAVING",
            Self::JobProcess => "JOB_PROCESS",
            Self::MemoryBudget => "MEMORY_BUDGET",
            Self::Link => "LINK",
            Self::Deployment => "DEPLOYMENT",
            Self::NoResourceAvailable => "NO_RESOURCE_AVAILABLE",
            Self::CheckpointTolerance => "CHECKPOINT_TOLERANCE",
            Self::DataLoss => "DATA_LOSS",
            Self::Internal => "INTERNAL",
        })
    }
}

/// A failure as it is reported, recorded and shown.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct FailureInfo {
    /// Where it comes from.
    pub kind: FailureKind,
    /// What it asks of the scheduler.
    pub disposition: Disposition,
    /// The operator in whose code it happened, by its name.
    pub operator: Option<String>,
    /// The error itself.
    pub message: String,
    /// Its causes, outermost first.
    pub causes: Vec<String>,
    /// What the operator of the cluster can do about it.
    pub remedy: Option<String>,
}

impl FailureInfo {
    /// A failure that the restart strategy decides about.
    pub fn new(kind: FailureKind, message: impl Into<String>) -> Self {
        Self {
            kind,
            disposition: Disposition::FailTask,
            operator: None,
            message: message.into(),
            causes: Vec::new(),
            remedy: None,
        }
    }

    /// The same failure, asking for this.
    #[must_use]
    pub fn with_disposition(mut self, disposition: Disposition) -> Self {
        self.disposition = disposition;
        self
    }

    /// Whether starting again cannot help, whatever the restart strategy says.
    pub fn is_non_recoverable(&self) -> bool {
        self.kind == FailureKind::DataLoss
            || matches!(self.disposition, Disposition::FailJob | Disposition::Fatal)
    }

    /// Equal for failures that are the same one again: numbers in the texts do not count, since
    /// they hold offsets, ports and times.
    pub fn fingerprint(&self, vertex_name: Option<&str>) -> Fingerprint {
        let mut text = self.kind.to_string();
        let parts = vertex_name
            .into_iter()
            .chain(self.operator.as_deref())
            .chain([self.message.as_str()])
            .chain(self.causes.iter().map(String::as_str));
        for part in parts {
            text.push('|');
            let mut in_number = false;
            for c in part.chars() {
                let is_digit = c.is_ascii_digit();
                if !is_digit {
                    text.push(c);
                } else if !in_number {
                    text.push('#');
                }
                in_number = is_digit;
            }
        }
        Fingerprint(text)
    }
}

impl fmt::Display for FailureInfo {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

/// What two occurrences of the same failure have in common.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug, Hash)]
pub struct Fingerprint(String);

impl fmt::Display for Fingerprint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// The task that a failure came from.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct FailedTask {
    /// The subtask.
    pub subtask: SubtaskId,
    /// Its name, such as `words -> non-empty (1/2)`.
    pub name: String,
    /// Which of its executions.
    pub attempt: Attempt,
    /// Where it ran.
    pub taskmanager: Option<TaskmanagerId>,
}

/// One failure with its place and time.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct FailureRecord {
    /// When the jobmanager learned of it.
    pub failed_at: WallTime,
    /// The task; none for a failure of the job as a whole.
    pub task: Option<FailedTask>,
    /// What happened.
    pub failure: FailureInfo,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_error_at_another_offset_has_the_same_fingerprint() {
        let at = |line: u32| {
            FailureInfo::new(
                FailureKind::User,
                format!("division by zero in line {line}"),
            )
            .fingerprint(Some("divide"))
        };
        assert_eq!(at(7), at(1234));
        assert_eq!(at(7).to_string(), "USER|divide|division by zero in line #");
        let other = FailureInfo::new(FailureKind::User, "overflow").fingerprint(Some("divide"));
        assert_ne!(at(7), other);
    }

    #[test]
    fn a_lost_promised_commit_is_never_recoverable() {
        let failure = FailureInfo::new(FailureKind::DataLoss, "upload gone");
        assert!(failure.is_non_recoverable());
        let other = |disposition| {
            FailureInfo::new(FailureKind::User, "x")
                .with_disposition(disposition)
                .is_non_recoverable()
        };
        assert!(!other(Disposition::FailTask) && !other(Disposition::Retry));
        assert!(other(Disposition::FailJob) && other(Disposition::Fatal));
    }
}
