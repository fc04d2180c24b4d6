//! Why a checkpoint failed, and which of these failures count against the job (B1.9).

use std::fmt;

/// Why a checkpoint, or the request for one, failed.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Hash)]
pub enum FailureReason {
    /// It took longer than the timeout.
    Expired,
    /// A task declined it.
    Declined,
    /// A task could not upload its state.
    AsyncException,
    /// The jobmanager could not reserve an id.
    IoException,
    /// Metadata or the chain's entry could not be written.
    FinalizeFailure,
    /// Periodic checkpoints are off.
    PeriodicSchedulerShutdown,
    /// The queue of requests is full.
    TooManyRequests,
    /// The pause after the last one is not over.
    MinimumTime,
    /// Not every task that it needs is running.
    NotAllRequiredTasksRunning,
    /// A newer one completed first.
    Subsumed,
    /// The job is restarting or ended.
    CoordinatorSuspend,
    /// The coordinator was shut down.
    CoordinatorShutdown,
    /// The job failed.
    JobFailure,
    /// A region restarts.
    JobFailoverRegion,
    /// A task had not restored its state yet.
    DeclinedTaskNotReady,
    /// A task was finishing.
    DeclinedTaskClosing,
    /// A task takes no checkpoints.
    DeclinedTaskNotCheckpointing,
    /// Alignment took too much.
    DeclinedAlignmentLimit,
    /// A task upstream gave it up.
    DeclinedOnCancellationBarrier,
    /// A task saw the barrier of a newer one.
    DeclinedSubsumed,
    /// An input ended during alignment.
    DeclinedInputEndOfStream,
    /// A task failed before it acknowledged.
    TaskFailure,
    /// A task could not be told to take it.
    TriggerFailure,
}

impl FailureReason {
    /// Every reason.
    pub const ALL: [Self; 23] = [
        Self::Expired,
        Self::Declined,
        Self::AsyncException,
        Self::IoException,
        Self::FinalizeFailure,
        Self::PeriodicSchedulerShutdown,
        Self::TooManyRequests,
        Self::MinimumTime,
        Self::NotAllRequiredTasksRunning,
        Self::Subsumed,
        Self::CoordinatorSuspend,
        Self::CoordinatorShutdown,
        Self::JobFailure,
        Self::JobFailoverRegion,
        Self::DeclinedTaskNotReady,
        Self::DeclinedTaskClosing,
        Self::DeclinedTaskNotCheckpointing,
        Self::DeclinedAlignmentLimit,
        Self::DeclinedOnCancellationBarrier,
        Self::DeclinedSubsumed,
        Self::DeclinedInputEndOfStream,
        Self::TaskFailure,
        Self::TriggerFailure,
    ];

    /// Whether it counts against the failures tolerated. Unlike Flink's, a failure to finalise
    /// counts: an unwritable bucket would be silent otherwise.
    pub const fn is_counted(self) -> bool {
        match self {
            Self::Expired
            | Self::Declined
            | Self::AsyncException
            | Self::IoException
            | Self::FinalizeFailure => true,
            Self::PeriodicSchedulerShutdown
            | Self::TooManyRequests
            | Self::MinimumTime
            | Self::NotAllRequiredTasksRunning
            | Self::Subsumed
            | Self::CoordinatorSuspend
            | Self::CoordinatorShutdown
            | Self::JobFailure
            | Self::JobFailoverRegion
            | Self::DeclinedTaskNotReady
            | Self::DeclinedTaskClosing
            | Self::DeclinedTaskNotCheckpointing
            | Self::DeclinedAlignmentLimit
            | Self::DeclinedOnCancellationBarrier
            | Self::DeclinedSubsumed
            | Self::DeclinedInputEndOfStream
            | Self::TaskFailure
            | Self::TriggerFailure => false,
        }
    }

    /// Whether it happens before a checkpoint exists.
    pub const fn is_pre_flight(self) -> bool {
        matches!(
            self,
            Self::IoException
                | Self::PeriodicSchedulerShutdown
                | Self::TooManyRequests
                | Self::MinimumTime
                | Self::NotAllRequiredTasksRunning
        )
    }
}

impl fmt::Display for FailureReason {
    /// Flink's wording where operators search for it.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Expired => "Checkpoint expired before completing.",
            Self::Declined => "Checkpoint was declined.",
            Self::AsyncException => "Asynchronous task checkpoint failed.",
            Self::IoException => {
                "An Exception occurred while triggering the checkpoint. IO-problem detected."
            }
            Self::FinalizeFailure => "Failure to finalize checkpoint.",
            Self::PeriodicSchedulerShutdown => "Periodic checkpoint scheduler is shut down.",
            Self::TooManyRequests => "The maximum number of queued checkpoint requests exceeded",
            Self::MinimumTime => {
                "The minimum time between checkpoints is still pending. Checkpoint will be \
                 triggered after the minimum time."
            }
            Self::NotAllRequiredTasksRunning => "Not all required tasks are currently running.",
            Self::Subsumed => "Checkpoint has been subsumed.",
            Self::CoordinatorSuspend => "Checkpoint Coordinator is suspending.",
            Self::CoordinatorShutdown => "CheckpointCoordinator shutdown.",
            Self::JobFailure => "The job has failed.",
            Self::JobFailoverRegion => "FailoverRegion is restarting.",
            Self::DeclinedTaskNotReady => "Checkpoint was declined (tasks not ready)",
            Self::DeclinedTaskClosing => {
                "Checkpoint was declined (task's operators partially closed)"
            }
            Self::DeclinedTaskNotCheckpointing => {
                "Checkpoint was declined (task does not support checkpointing)"
            }
            Self::DeclinedAlignmentLimit => "Checkpoint was declined (alignment limit exceeded)",
            Self::DeclinedOnCancellationBarrier => {
                "Task received cancellation from one of its inputs"
            }
            Self::DeclinedSubsumed => {
                "Checkpoint was canceled because a barrier from newer checkpoint was received."
            }
            Self::DeclinedInputEndOfStream => {
                "Checkpoint was declined because one input stream is finished"
            }
            Self::TaskFailure => "Task has failed.",
            Self::TriggerFailure => "Failure while triggering checkpoint",
        })
    }
}

/// Why a task declines a checkpoint.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Hash)]
pub enum DeclineReason {
    /// Something else.
    Generic,
    /// Its state could not be uploaded.
    AsyncException,
    /// It has not restored its state yet.
    TaskNotReady,
    /// It is finishing, or has finished.
    TaskClosing,
    /// It takes no checkpoints.
    TaskNotCheckpointing,
    /// Alignment took too much.
    AlignmentLimit,
    /// A cancel marker came from upstream.
    OnCancellationBarrier,
    /// A newer barrier came during alignment.
    Subsumed,
    /// An input ended during alignment.
    InputEndOfStream,
}

impl From<DeclineReason> for FailureReason {
    fn from(reason: DeclineReason) -> Self {
        match reason {
            DeclineReason::Generic => Self::Declined,
            DeclineReason::AsyncException => Self::AsyncException,
            DeclineReason::TaskNotReady => Self::DeclinedTaskNotReady,
            DeclineReason::TaskClosing => Self::DeclinedTaskClosing,
            DeclineReason::TaskNotCheckpointing => Self::DeclinedTaskNotCheckpointing,
            DeclineReason::AlignmentLimit => Self::DeclinedAlignmentLimit,
            DeclineReason::OnCancellationBarrier => Self::DeclinedOnCancellationBarrier,
            DeclineReason::Subsumed => Self::DeclinedSubsumed,
            DeclineReason::InputEndOfStream => Self::DeclinedInputEndOfStream,
        }
    }
}
