//! From a taskmanager to a jobmanager.

use std::time::Duration;

use millstream_types::{
    Attempt, CheckpointId, Epoch, EventTime, Incarnation, JobId, ObjectName, SlotIndex, SubtaskId,
    TaskmanagerId,
};

use super::to_taskmanager::{DataAddress, TaskAddress};
use crate::checkpoint::{Acknowledgement, Decline, DeclineReason, Origin};
use crate::failure::FailureInfo;
use crate::job::{ExecutionState, ReportedTask};
use crate::snapshot_types::{CheckpointMetrics, TaskSnapshot};

/// A message from a taskmanager.
#[derive(Clone, PartialEq, Debug)]
pub enum FromTaskmanager {
    /// It wants to be part of the cluster; the first message of a stream.
    Register(Registration),
    /// It is alive, and this is what it has.
    Heartbeat(TaskmanagerHeartbeat),
    /// A job process listens for data, and can be deployed to.
    JobProcessStarted {
        /// Of which job.
        job: JobId,
        /// In which epoch.
        epoch: Epoch,
        /// Where.
        address: DataAddress,
    },
    /// A job process could not be started, or ended by itself; its tasks are gone.
    JobProcessFailed {
        /// Of which job.
        job: JobId,
        /// In which epoch.
        epoch: Epoch,
        /// Why.
        failure: FailureInfo,
    },
    /// A task changed its state.
    SubtaskState {
        /// Of which job.
        job: JobId,
        /// In which epoch.
        epoch: Epoch,
        /// Which subtask.
        subtask: SubtaskId,
        /// Which execution.
        attempt: Attempt,
        /// Its new state.
        state: ExecutionState,
        /// Why, where it failed.
        failure: Option<FailureInfo>,
    },
    /// A snapshot is durable.
    Acknowledge(Box<SnapshotMessage>),
    /// There will be no snapshot.
    Decline(Box<DeclineMessage>),
    /// A task uploads nothing more for a checkpoint that was given up.
    UploadStopped {
        /// Of which job.
        job: JobId,
        /// In which epoch.
        epoch: Epoch,
        /// Which subtask.
        subtask: SubtaskId,
        /// Which checkpoint.
        checkpoint: CheckpointId,
        /// Shared objects that it had stored by then.
        objects: Vec<ObjectName>,
    },
    /// A task has no more input and waits for its final checkpoint.
    EndOfData {
        /// Of which job.
        job: JobId,
        /// In which epoch.
        epoch: Epoch,
        /// Which subtask.
        subtask: SubtaskId,
        /// Which execution.
        attempt: Attempt,
    },
    /// A process that held an abandoned slot is reaped.
    SlotFreed {
        /// Which slot.
        slot: SlotIndex,
    },
    /// What a print sink wrote, for attached clients.
    Output(OutputLines),
    /// What tasks did since they started.
    Metrics(Vec<SubtaskMetrics>),
    /// It shuts down on purpose: its tasks are to move, and that is no failure.
    Leaving,
}

/// Who a taskmanager is.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Registration {
    /// Its id.
    pub id: TaskmanagerId,
    /// Which life of it.
    pub incarnation: Incarnation,
    /// How many slots it offers.
    pub slots: u32,
    /// The host under which others reach its job processes.
    pub advertised_host: String,
    /// What it calls its host.
    pub host: String,
    /// Its process id, for people.
    pub pid: u32,
    /// Its version; another major version is refused.
    pub version: String,
}

/// What a taskmanager has.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct TaskmanagerHeartbeat {
    /// Every slot in use.
    pub slots: Vec<SlotReport>,
    /// Every task, by job.
    pub jobs: Vec<JobTasks>,
}

/// A slot in use.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SlotReport {
    /// Which slot.
    pub slot: SlotIndex,
    /// By which job.
    pub job: JobId,
    /// In which epoch.
    pub epoch: Epoch,
}

/// All tasks of one job on one taskmanager.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct JobTasks {
    /// Which job.
    pub job: JobId,
    /// Its tasks.
    pub tasks: Vec<TaskReport>,
}

/// A task as a heartbeat shows it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct TaskReport {
    /// The task and its state.
    pub task: ReportedTask,
    /// What it is doing, in words, where that lasts: "in one user call for 57 s".
    pub activity: Option<String>,
}

/// A snapshot that is durable.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SnapshotMessage {
    /// Of which job.
    pub job: JobId,
    /// In which epoch.
    pub epoch: Epoch,
    /// Which task.
    pub task: TaskAddress,
    /// Which checkpoint.
    pub checkpoint: CheckpointId,
    /// Its state.
    pub snapshot: TaskSnapshot,
    /// Where the time went.
    pub metrics: CheckpointMetrics,
}

impl SnapshotMessage {
    /// As the checkpoint coordinator takes it.
    pub fn into_acknowledgement(self, from: Origin) -> Acknowledgement {
        Acknowledgement {
            job: self.job,
            epoch: self.epoch,
            subtask: self.task.subtask,
            attempt: self.task.attempt,
            checkpoint: self.checkpoint,
            snapshot: self.snapshot,
            metrics: self.metrics,
            from,
        }
    }
}

/// A snapshot that will not be.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct DeclineMessage {
    /// Of which job.
    pub job: JobId,
    /// In which epoch.
    pub epoch: Epoch,
    /// Which task.
    pub task: TaskAddress,
    /// Which checkpoint.
    pub checkpoint: CheckpointId,
    /// Why.
    pub reason: DeclineReason,
    /// In words.
    pub message: String,
}

impl DeclineMessage {
    /// As the checkpoint coordinator takes it.
    pub fn into_decline(self, from: Origin) -> Decline {
        Decline {
            job: self.job,
            epoch: self.epoch,
            subtask: self.task.subtask,
            attempt: self.task.attempt,
            checkpoint: self.checkpoint,
            reason: self.reason,
            message: self.message,
            from,
        }
    }
}

/// Lines of a print sink.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct OutputLines {
    /// Of which job.
    pub job: JobId,
    /// In which epoch.
    pub epoch: Epoch,
    /// Which subtask wrote them.
    pub subtask: SubtaskId,
    /// The lines, without line ends.
    pub lines: Vec<String>,
    /// How many were dropped before these, because nobody took them in time.
    pub dropped: u64,
}

/// What one task did since it started; sums, so that a lost message costs nothing.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SubtaskMetrics {
    /// Of which job.
    pub job: JobId,
    /// In which epoch.
    pub epoch: Epoch,
    /// Which task.
    pub task: TaskAddress,
    /// Rows taken in.
    pub records_in: u64,
    /// Rows sent on.
    pub records_out: u64,
    /// Bytes taken in.
    pub bytes_in: u64,
    /// Bytes sent on.
    pub bytes_out: u64,
    /// Records of a source that were no rows: left out, or sent on as dead letters.
    pub bad_records: u64,
    /// Time at work.
    pub busy: Duration,
    /// Time without input.
    pub idle: Duration,
    /// Time in which nobody took its output.
    pub backpressured: Duration,
    /// The watermark at its input.
    pub watermark: Option<EventTime>,
}

#[cfg(test)]
mod tests {
    use millstream_types::VertexId;

    use super::*;

    #[test]
    fn an_acknowledgement_reaches_the_coordinator_with_its_epoch_and_attempt() {
        let message = SnapshotMessage {
            job: JobId::from_bytes([1; 16]),
            epoch: Epoch(3),
            task: TaskAddress::from((SubtaskId::new(VertexId(2), 1), Attempt(4))),
            checkpoint: CheckpointId(9),
            snapshot: TaskSnapshot::default(),
            metrics: CheckpointMetrics::default(),
        };
        let from = Origin {
            taskmanager: TaskmanagerId::new("tm-1").unwrap(),
            host: "host-1".to_owned(),
        };
        let ack = message.clone().into_acknowledgement(from.clone());
        assert_eq!((ack.epoch, ack.attempt), (Epoch(3), Attempt(4)));
        assert_eq!(
            (ack.subtask, ack.checkpoint),
            (message.task.subtask, CheckpointId(9))
        );
        assert_eq!(ack.from, from);
    }
}
