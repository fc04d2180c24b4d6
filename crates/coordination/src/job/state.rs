//! States of a job and of its tasks, with Flink's names.

use std::fmt;

use millstream_types::Attempt;

use crate::slots::SlotRef;

/// State of a job.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Hash)]
pub enum JobStatus {
    /// Known to the jobmanager, not started yet.
    Initializing,
    /// Claims, and waits for slots.
    Created,
    /// Deployed.
    Running,
    /// A final failure: its tasks are being cancelled.
    Failing,
    /// Failed for good.
    Failed,
    /// A user wants it to end: its tasks are being cancelled.
    Cancelling,
    /// Ended by a user.
    Canceled,
    /// All tasks finished.
    Finished,
    /// A failure is being recovered.
    Restarting,
    /// Given up by this jobmanager because another owns it, or because its chain is unusable.
    Suspended,
}

impl JobStatus {
    /// Each of them once.
    pub const ALL: [Self; 10] = [
        Self::Initializing,
        Self::Created,
        Self::Running,
        Self::Failing,
        Self::Failed,
        Self::Cancelling,
        Self::Canceled,
        Self::Finished,
        Self::Restarting,
        Self::Suspended,
    ];

    /// Whether the job never changes its state again, anywhere.
    pub const fn is_globally_terminal(self) -> bool {
        matches!(self, Self::Failed | Self::Canceled | Self::Finished)
    }
}

impl fmt::Display for JobStatus {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Initializing => "INITIALIZING",
            Self::Created => "CREATED",
            Self::Running => "RUNNING",
            Self::Failing => "FAILING",
            Self::Failed => "FAILED",
            Self::Cancelling => "CANCELLING",
            Self::Canceled => "CANCELED",
            Self::Finished => "FINISHED",
            Self::Restarting => "RESTARTING",
            Self::Suspended => "SUSPENDED",
        })
    }
}

/// State of one execution of a subtask (B9).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Hash)]
pub enum ExecutionState {
    /// Not asked to run yet.
    Created,
    /// Waits for its slot.
    Scheduled,
    /// Sent to its taskmanager.
    Deploying,
    /// Restores its state.
    Initializing,
    /// Runs.
    Running,
    /// Was told to stop.
    Canceling,
    /// Stopped because it was told to.
    Canceled,
    /// Ran to its end.
    Finished,
    /// Ended by an error, or lost with its taskmanager.
    Failed,
}

impl ExecutionState {
    /// Whether the execution is over.
    pub const fn is_terminal(self) -> bool {
        matches!(self, Self::Canceled | Self::Finished | Self::Failed)
    }

    /// Whether an execution in this state can come into `next`: reports may arrive late or twice,
    /// and states may be skipped, but none is taken back.
    pub fn may_become(self, next: Self) -> bool {
        !self.is_terminal() && (next.is_terminal() || next > self)
    }
}

impl fmt::Display for ExecutionState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Created => "CREATED",
            Self::Scheduled => "SCHEDULED",
            Self::Deploying => "DEPLOYING",
            Self::Initializing => "INITIALIZING",
            Self::Running => "RUNNING",
            Self::Canceling => "CANCELING",
            Self::Canceled => "CANCELED",
            Self::Finished => "FINISHED",
            Self::Failed => "FAILED",
        })
    }
}

/// The newest execution of a subtask.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Execution {
    /// Which it is.
    pub attempt: Attempt,
    /// How far it is.
    pub state: ExecutionState,
    /// Where it runs, or ran; none before its first deployment.
    pub slot: Option<SlotRef>,
}
