//! What goes into the machine of a job and what comes out.

use std::collections::BTreeMap;
use std::fmt;

use millstream_types::{Attempt, Epoch, SubtaskId, TaskmanagerId};

use super::state::{ExecutionState, JobStatus};
use crate::chain::{RestorePoint, TerminalState};
use crate::failure::{FailureInfo, FailureRecord};
use crate::restart::RestartStrategyConfig;
use crate::slots::SlotRef;

/// Something the job is told.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Event {
    /// The job shall run: it was submitted, or found in the store by a new jobmanager.
    Start,
    /// Answers [`Action::Claim`]: the claim is durable.
    Claimed {
        /// The new epoch.
        epoch: Epoch,
        /// The newest completed checkpoint below the claim.
        restore: Option<RestorePoint>,
    },
    /// Answers [`Action::Claim`]: the store was not reached; the claim is tried again.
    ClaimNotWritten,
    /// Answers [`Action::Claim`]: there can be none.
    ClaimRefused(ClaimRefusal),
    /// Answers [`Action::ConfirmClaim`]: no other claim followed so far.
    ClaimConfirmed {
        /// The epoch held.
        epoch: Epoch,
    },
    /// Another jobmanager owns the job. May come at any time.
    OwnershipLost,
    /// Answers [`Action::RequestSlots`].
    SlotsAllocated {
        /// Of the request.
        epoch: Epoch,
        /// A slot for every subtask.
        slots: BTreeMap<SubtaskId, SlotRef>,
    },
    /// Answers [`Action::RequestSlots`]: not within the time for it (F9).
    SlotsUnavailable {
        /// Of the request.
        epoch: Epoch,
        /// What was missing.
        failure: FailureInfo,
    },
    /// A taskmanager reports the state of a task.
    TaskState {
        /// Under which it was deployed.
        epoch: Epoch,
        /// Which task.
        subtask: SubtaskId,
        /// Which execution.
        attempt: Attempt,
        /// Its new state.
        state: ExecutionState,
        /// Why, where it failed.
        failure: Option<FailureInfo>,
    },
    /// A taskmanager is gone with every task on it; or about to go, where the failure's kind is
    /// `TaskmanagerLeaving`.
    TaskmanagerLost {
        /// Which.
        taskmanager: TaskmanagerId,
        /// Why.
        failure: FailureInfo,
    },
    /// Something other than a task failed the job, such as the tolerance for checkpoints.
    Failed {
        /// What.
        failure: FailureInfo,
        /// The execution it is due to, if any; ignored if that was replaced already (F83).
        attributed_to: Option<(SubtaskId, Attempt)>,
    },
    /// All that a taskmanager runs for this job, from its heartbeat (B15).
    Reported {
        /// Which taskmanager.
        taskmanager: TaskmanagerId,
        /// Its tasks of this job.
        tasks: Vec<ReportedTask>,
    },
    /// A user wants the job to end.
    Cancel,
    /// Answers [`Action::WriteTerminal`]: it is durable.
    TerminalWritten,
    /// Answers [`Action::WriteTerminal`]: it was not written; it is tried again.
    TerminalNotWritten,
    /// The deadline is due.
    Tick,
}

/// Why there can be no claim.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum ClaimRefusal {
    /// The job ended already; it never comes back.
    Ended(TerminalState),
    /// The chain is missing, broken or unreadable: nothing is started, nothing is written.
    Unusable(FailureInfo),
}

/// A task that a taskmanager says it has.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ReportedTask {
    /// Under which it was deployed.
    pub epoch: Epoch,
    /// Which task.
    pub subtask: SubtaskId,
    /// Which execution.
    pub attempt: Attempt,
    /// Its state.
    pub state: ExecutionState,
}

/// Something the shell does.
#[derive(Clone, PartialEq, Debug)]
pub enum Action {
    /// Append a CLAIM. Answered by `Claimed`, `ClaimNotWritten`, `ClaimRefused`, `OwnershipLost`.
    Claim,
    /// Ask the slot pool for slots for every subtask. Answered by `SlotsAllocated` or
    /// `SlotsUnavailable`.
    RequestSlots {
        /// For which epoch.
        epoch: Epoch,
        /// Where each subtask ran before: its local state may still be there.
        previous: BTreeMap<SubtaskId, TaskmanagerId>,
    },
    /// Look whether the claim is still the newest: it waited for slots, and taskmanagers refuse what
    /// is deployed under an older one. Answered by `ClaimConfirmed`, `OwnershipLost` or `Failed`.
    ConfirmClaim {
        /// The epoch held.
        epoch: Epoch,
    },
    /// Give back the slots of an epoch, or stop waiting for them.
    ReleaseSlots {
        /// Of which epoch.
        epoch: Epoch,
    },
    /// Start a task.
    Deploy {
        /// The epoch it runs in.
        epoch: Epoch,
        /// Which task.
        subtask: SubtaskId,
        /// Which execution.
        attempt: Attempt,
        /// Where.
        slot: SlotRef,
        /// From which checkpoint; none starts empty.
        restore: Option<RestorePoint>,
    },
    /// Checkpoints may be taken, once their coordinator sees the tasks run.
    StartCheckpointing {
        /// The epoch.
        epoch: Epoch,
        /// What was restored.
        restore: Option<RestorePoint>,
        /// The execution of each subtask whose acknowledgements count.
        attempts: BTreeMap<SubtaskId, Attempt>,
    },
    /// No checkpoints from here on; pending ones are aborted.
    SuspendCheckpointing,
    /// Tell a task to stop. Answered by `TaskState` or the loss of its taskmanager.
    CancelTask {
        /// Its taskmanager.
        taskmanager: TaskmanagerId,
        /// The epoch it runs in.
        epoch: Epoch,
        /// Which task.
        subtask: SubtaskId,
        /// Which execution.
        attempt: Attempt,
    },
    /// A task did not stop in time: kill its job process, and do not use its slot before that is
    /// reaped. The job goes on without an answer; the claim fences the task.
    AbandonTask {
        /// Where it is stuck.
        slot: SlotRef,
        /// The epoch it runs in.
        epoch: Epoch,
        /// Which task.
        subtask: SubtaskId,
        /// Which execution.
        attempt: Attempt,
    },
    /// Append TERMINAL. Answered by `TerminalWritten`, `TerminalNotWritten` or `OwnershipLost`.
    WriteTerminal {
        /// The epoch held.
        epoch: Epoch,
        /// How the job ended.
        state: TerminalState,
    },
    /// The job ended, durably: tell whoever waits.
    Announce(JobEnd),
    /// The job is in another state; to be logged and shown.
    StatusChanged {
        /// Before.
        from: JobStatus,
        /// Now.
        to: JobStatus,
    },
    /// A task is in another state; to be logged and shown.
    TaskChanged {
        /// Which task.
        subtask: SubtaskId,
        /// Which execution.
        attempt: Attempt,
        /// Before.
        from: ExecutionState,
        /// Now.
        to: ExecutionState,
        /// Why, where it failed.
        failure: Option<FailureInfo>,
    },
    /// To be logged: "`<n>` tasks will be restarted to recover the failed task `<t>`".
    WillRestart {
        /// How many tasks.
        tasks: usize,
        /// What failed.
        root: Box<FailureRecord>,
    },
    /// Three or more restarts in a row had the same root cause (F168).
    RestartLoop {
        /// How many.
        repeated: u32,
    },
}

/// How a job ended.
#[derive(Clone, PartialEq, Debug)]
pub enum JobEnd {
    /// All tasks ran to their end.
    Finished,
    /// A user ended it.
    Canceled,
    /// The failure asked for it, or starting again cannot help.
    NotRecoverable(FailureRecord),
    /// The restart strategy gave up.
    Suppressed {
        /// The strategy.
        strategy: RestartStrategyConfig,
        /// The last failure.
        failure: FailureRecord,
    },
    /// Read from its chain; the details are kept with the result.
    Earlier(TerminalState),
}

impl JobEnd {
    /// As the chain records it.
    pub fn state(&self) -> TerminalState {
        match self {
            Self::Finished => TerminalState::Finished,
            Self::Canceled => TerminalState::Canceled,
            Self::NotRecoverable(_) | Self::Suppressed { .. } => TerminalState::Failed,
            Self::Earlier(state) => *state,
        }
    }

    /// The failure it ended with.
    pub fn failure(&self) -> Option<&FailureRecord> {
        match self {
            Self::NotRecoverable(failure) | Self::Suppressed { failure, .. } => Some(failure),
            Self::Finished | Self::Canceled | Self::Earlier(_) => None,
        }
    }
}

impl fmt::Display for JobEnd {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            // Operators search for these two texts, as they stand in Flink's logs.
            Self::NotRecoverable(_) => f.write_str("The failure is not recoverable"),
            Self::Suppressed { strategy, .. } => {
                write!(f, "Recovery is suppressed by {strategy}")
            }
            Self::Finished | Self::Canceled | Self::Earlier(_) => {
                write!(f, "the job is {}", self.state())
            }
        }
    }
}
