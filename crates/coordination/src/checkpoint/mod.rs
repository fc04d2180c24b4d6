//! The checkpoint coordinator of one job (B1, B5; DESIGN 7).
//!
//! A request waits in the queue; it becomes a pending checkpoint with a plan, an id and a timeout;
//! tasks acknowledge; metadata is stored; COMPLETED is appended to the chain; only then is anybody
//! told. Every other way out is an abort, which tells the tasks, counts the failure if it is of a
//! kind that counts, and deletes what is known to be unreachable.
//!
//! Invariants: a checkpoint completes only from acknowledgements of one epoch, of all subtasks of
//! its plan, for one id (I9); completion is announced only after its entry is durable (fence F5);
//! an outcome that is not known deletes nothing; no id is used twice; every request is answered
//! once.

mod abort;
mod acknowledge;
mod complete;
mod coordinator;
mod failures;
mod history;
mod messages;
mod notice;
mod plan;
mod policy;
mod queue;
mod reason;
mod retention;
mod trigger;

#[cfg(test)]
mod tests;

use std::fmt;

pub use coordinator::Coordinator;
pub use failures::CountedFailure;
pub use history::{
    AckRecord, CheckpointCounts, CheckpointFailure, CheckpointHistory, CheckpointRecord,
    CheckpointStatus, RestoreRecord, SubtaskRecord,
};
pub use messages::{
    Acknowledgement, Action, Decline, Deletion, Event, Origin, RequestFailure, RetainedCheckpoint,
    SharedInUse, UploadStopped,
};
pub use notice::{Level, Notice, TaskMessage, TaskName, TaskNotice};
pub use policy::{CheckpointPolicy, TriggerWhen};
pub use queue::RequestId;
pub use reason::{DeclineReason, FailureReason};

/// Why a checkpoint is taken.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Hash)]
pub enum CheckpointKind {
    /// The interval passed.
    Periodic,
    /// A user asked for it.
    Manual,
    /// Every running task is at the end of its data and waits for it (B5.7).
    Final,
}

impl fmt::Display for CheckpointKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Periodic => "CHECKPOINT",
            Self::Manual => "MANUAL_CHECKPOINT",
            Self::Final => "FINAL_CHECKPOINT",
        })
    }
}
