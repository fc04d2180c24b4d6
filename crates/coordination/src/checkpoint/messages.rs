//! What goes into the checkpoint coordinator of a job and what comes out.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use millstream_types::{
    Attempt, CheckpointId, Epoch, JobId, ObjectName, SubtaskId, TaskmanagerId, WallTime,
    WriteOutcome,
};

use super::CheckpointKind;
use super::notice::Notice;
use super::queue::RequestId;
use super::reason::{DeclineReason, FailureReason};
use crate::chain::CheckpointIds;
use crate::failure::FailureInfo;
use crate::job::ExecutionState;
use crate::snapshot_types::{CheckpointMetrics, CompletedCheckpoint, StoredMetadata, TaskSnapshot};

/// A completed checkpoint that is kept.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct RetainedCheckpoint {
    /// What it holds.
    pub checkpoint: Arc<CompletedCheckpoint>,
    /// Its metadata object.
    pub metadata: ObjectName,
}

/// Where a message of a task came from.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Origin {
    /// The taskmanager.
    pub taskmanager: TaskmanagerId,
    /// Its host, for people.
    pub host: String,
}

/// A subtask's snapshot is durable.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Acknowledgement {
    /// Of which job.
    pub job: JobId,
    /// In which epoch the task runs.
    pub epoch: Epoch,
    /// Which subtask.
    pub subtask: SubtaskId,
    /// Which execution.
    pub attempt: Attempt,
    /// Which checkpoint.
    pub checkpoint: CheckpointId,
    /// Its state.
    pub snapshot: TaskSnapshot,
    /// Where the time went.
    pub metrics: CheckpointMetrics,
    /// Who sent it.
    pub from: Origin,
}

/// A subtask has no snapshot for a checkpoint, and will have none.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Decline {
    /// Of which job.
    pub job: JobId,
    /// In which epoch the task runs.
    pub epoch: Epoch,
    /// Which subtask.
    pub subtask: SubtaskId,
    /// Which execution.
    pub attempt: Attempt,
    /// Which checkpoint.
    pub checkpoint: CheckpointId,
    /// Why.
    pub reason: DeclineReason,
    /// In words.
    pub message: String,
    /// Who sent it.
    pub from: Origin,
}

/// What a subtask leaves that gave up.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct UploadStopped {
    /// In which epoch it runs.
    pub epoch: Epoch,
    /// Which subtask.
    pub subtask: SubtaskId,
    /// Which checkpoint.
    pub checkpoint: CheckpointId,
    /// Shared objects that it had stored by then: no acknowledgement will name them.
    pub objects: Vec<ObjectName>,
}

/// Something the coordinator is told.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Event {
    /// The job was deployed in a new epoch.
    Started {
        /// The epoch.
        epoch: Epoch,
        /// The execution of each subtask whose acknowledgements count.
        attempts: BTreeMap<SubtaskId, Attempt>,
        /// Checkpoint ids set aside for this epoch; they replace all earlier ones.
        ids: CheckpointIds,
        /// What was restored: the newest completed checkpoint of the chain.
        restored: Option<CheckpointId>,
        /// Completed checkpoints as the chain has them; those known already may be left out,
        /// except the restored one.
        retained: Vec<RetainedCheckpoint>,
    },
    /// The job restarts or ends: no checkpoint goes on.
    Suspended,
    /// A task changed its state.
    TaskState {
        /// In which epoch it runs.
        epoch: Epoch,
        /// Which subtask.
        subtask: SubtaskId,
        /// Which execution.
        attempt: Attempt,
        /// Its new state.
        state: ExecutionState,
    },
    /// A task has no more input and waits for its final checkpoint.
    EndOfData {
        /// In which epoch it runs.
        epoch: Epoch,
        /// Which subtask.
        subtask: SubtaskId,
        /// Which execution.
        attempt: Attempt,
    },
    /// What a task is doing, in words; shown beside what it did not acknowledge.
    Activity {
        /// Which subtask.
        subtask: SubtaskId,
        /// What; none for nothing that lasts.
        activity: Option<String>,
    },
    /// A user wants a checkpoint.
    Request(RequestId),
    /// Answers [`Action::ReserveIds`].
    IdsReserved(CheckpointIds),
    /// Answers [`Action::ReserveIds`]: the chain could not be written.
    IdsNotReserved {
        /// Why.
        message: String,
    },
    /// Answers [`Action::Trigger`] where a task could not be reached; nothing answers success.
    TriggerFailed {
        /// Of the trigger.
        epoch: Epoch,
        /// Which checkpoint.
        checkpoint: CheckpointId,
        /// Why.
        message: String,
    },
    /// A subtask acknowledges.
    Acknowledge(Box<Acknowledgement>),
    /// A subtask declines.
    Decline(Box<Decline>),
    /// A subtask uploads nothing more for a checkpoint that was given up.
    UploadStopped(UploadStopped),
    /// Answers [`Action::StoreMetadata`].
    MetadataStored {
        /// Which checkpoint.
        checkpoint: CheckpointId,
        /// What was written.
        metadata: StoredMetadata,
    },
    /// Answers [`Action::StoreMetadata`].
    MetadataNotStored {
        /// Which checkpoint.
        checkpoint: CheckpointId,
        /// What is known of the write.
        outcome: WriteOutcome,
        /// Why.
        message: String,
    },
    /// Answers [`Action::AppendCompleted`]: the checkpoint exists.
    Appended {
        /// Which checkpoint.
        checkpoint: CheckpointId,
    },
    /// Answers [`Action::AppendCompleted`]: it was not written and will not be. An unknown outcome
    /// is no answer: the chain settles it, or the next start does.
    NotAppended {
        /// Which checkpoint.
        checkpoint: CheckpointId,
        /// Why.
        message: String,
    },
    /// Answers [`Action::Delete`], also where it deleted nothing: what is left is swept later.
    Deleted {
        /// Of the action.
        ticket: u64,
    },
    /// The deadline is due.
    Tick,
}

/// Objects to be deleted.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Deletion {
    /// To be given back.
    pub ticket: u64,
    /// The checkpoint they belonged to.
    pub checkpoint: CheckpointId,
    /// The epoch that took it.
    pub epoch: Epoch,
    /// Their names.
    pub objects: Vec<ObjectName>,
    /// Also every other object below `chk-<n>/<epoch>-…`: some may be there that nobody told of.
    pub sweep: bool,
}

/// Shared objects that must stay, as the coordinator knows.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct SharedInUse {
    /// The completed checkpoints of which it knows.
    pub checkpoints: BTreeSet<CheckpointId>,
    /// What they, and checkpoints under way, refer to or may refer to.
    pub objects: BTreeSet<ObjectName>,
}

/// Something the shell does.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Action {
    /// Append RESERVE to the chain.
    ReserveIds,
    /// Tell these tasks to begin.
    Trigger {
        /// Of the job.
        epoch: Epoch,
        /// Which checkpoint.
        checkpoint: CheckpointId,
        /// Why.
        kind: CheckpointKind,
        /// Goes into the barrier.
        triggered_at: WallTime,
        /// The newest complete one; goes into the barrier too. What the tasks' snapshots refer to is
        /// of this one, or newer, and kept as long as the checkpoint is pending.
        completed: Option<CheckpointId>,
        /// Whom.
        subtasks: Vec<(SubtaskId, Attempt)>,
    },
    /// Write `_metadata`, under a name that was never used.
    StoreMetadata(Arc<CompletedCheckpoint>),
    /// Append COMPLETED to the chain.
    AppendCompleted {
        /// Of the job.
        epoch: Epoch,
        /// Which checkpoint.
        checkpoint: CheckpointId,
        /// Its metadata.
        metadata: StoredMetadata,
    },
    /// Tell these tasks that the checkpoint is complete, and all before it.
    NotifyCompleted {
        /// Of the job.
        epoch: Epoch,
        /// Which checkpoint.
        checkpoint: CheckpointId,
        /// Whom.
        subtasks: Vec<(SubtaskId, Attempt)>,
    },
    /// Tell these tasks that the checkpoint was given up; they stop uploading.
    NotifyAborted {
        /// Of the job.
        epoch: Epoch,
        /// Which checkpoint.
        checkpoint: CheckpointId,
        /// The newest complete one.
        latest_completed: Option<CheckpointId>,
        /// Whom.
        subtasks: Vec<(SubtaskId, Attempt)>,
    },
    /// Delete objects, after reading the own claim as the chain's tip once more (fence F10), and
    /// after a BOUNDARY where the checkpoint is on the chain.
    Delete(Deletion),
    /// Answer a user.
    Answer {
        /// Of the request.
        request: RequestId,
        /// The checkpoint, or why there is none.
        result: Result<CheckpointId, RequestFailure>,
    },
    /// Fail the job: more checkpoints failed than are tolerated.
    FailJob {
        /// With the streak, its reasons, and who did not acknowledge.
        failure: Box<FailureInfo>,
        /// The execution it is due to, if it is one.
        attributed_to: Option<(SubtaskId, Attempt)>,
    },
    /// Log this.
    Log(Notice),
}

/// Why a user's request led to no checkpoint.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{reason} {message}")]
pub struct RequestFailure {
    /// Why.
    pub reason: FailureReason,
    /// In words, where there is more to say.
    pub message: String,
}
