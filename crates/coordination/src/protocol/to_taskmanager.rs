//! From a jobmanager to a taskmanager.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use millstream_graph::{ChannelId, JobGraph};
use millstream_types::{
    Attempt, CheckpointId, Epoch, Incarnation, JobId, SlotIndex, SubtaskId, TaskmanagerId, WallTime,
};

use crate::checkpoint::CheckpointKind;
use crate::restore::RestoreSubtask;
use crate::slots::RegistrationRefusal;

/// A message to a taskmanager.
#[derive(Clone, PartialEq, Debug)]
pub enum ToTaskmanager {
    /// Answers a registration: it is part of the cluster.
    Registered(Registered),
    /// Answers a registration: it is not. The stream ends.
    RegistrationRefused(RegistrationRefusal),
    /// The jobmanager is alive.
    Heartbeat,
    /// Start the job process of this epoch, unless it runs already. Comes before any deployment
    /// into it; carries the graph, once.
    StartJobProcess(StartJobProcess),
    /// Start a task.
    Deploy(Box<DeploySubtask>),
    /// Take a checkpoint.
    TriggerCheckpoint {
        /// Of which job.
        job: JobId,
        /// In which epoch.
        epoch: Epoch,
        /// The tasks at which barriers begin.
        subtasks: Vec<TaskAddress>,
        /// Which checkpoint.
        checkpoint: CheckpointId,
        /// When it was triggered; goes into the barrier.
        triggered_at: WallTime,
        /// Why.
        kind: CheckpointKind,
        /// The newest complete checkpoint; goes into the barrier.
        completed: Option<CheckpointId>,
    },
    /// A checkpoint is complete, and everything before it: commit.
    NotifyCompleted {
        /// Of which job.
        job: JobId,
        /// In which epoch.
        epoch: Epoch,
        /// To which tasks.
        subtasks: Vec<TaskAddress>,
        /// Which checkpoint.
        checkpoint: CheckpointId,
    },
    /// A checkpoint was given up: stop uploading for it.
    NotifyAborted {
        /// Of which job.
        job: JobId,
        /// In which epoch.
        epoch: Epoch,
        /// To which tasks.
        subtasks: Vec<TaskAddress>,
        /// Which checkpoint.
        checkpoint: CheckpointId,
        /// The newest complete one.
        latest_completed: Option<CheckpointId>,
    },
    /// Stop these tasks; each reports its end.
    Cancel {
        /// Of which job.
        job: JobId,
        /// In which epoch.
        epoch: Epoch,
        /// Which tasks.
        subtasks: Vec<TaskAddress>,
    },
    /// Tasks in these slots did not stop in time: kill the job process, and report the slots free
    /// when it is reaped.
    Abandon {
        /// Of which job.
        job: JobId,
        /// In which epoch.
        epoch: Epoch,
        /// Which slots.
        slots: Vec<SlotIndex>,
    },
    /// The job ended or moved away: end its process, forget its artifacts and local state.
    ReleaseJob {
        /// Which job.
        job: JobId,
        /// Everything up to this epoch.
        epoch: Epoch,
    },
}

/// Where the checkpoints of a cluster are kept, and what that place is known by.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct CheckpointStorage {
    /// The address, as the jobmanager reaches it.
    pub location: String,
    /// The cluster that it belongs to.
    pub cluster_id: String,
    /// Random: no other place has it.
    pub directory_id: String,
}

/// What a taskmanager has to know of its cluster.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Registered {
    /// The life of the jobmanager.
    pub jobmanager: Incarnation,
    /// Time between heartbeats, both ways.
    pub heartbeat_interval: Duration,
    /// Silence after which either side gives up the other.
    pub heartbeat_timeout: Duration,
}

/// An execution of a subtask, for messages that carry job and epoch already.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Hash)]
pub struct TaskAddress {
    /// The subtask.
    pub subtask: SubtaskId,
    /// Which execution.
    pub attempt: Attempt,
}

impl From<(SubtaskId, Attempt)> for TaskAddress {
    fn from((subtask, attempt): (SubtaskId, Attempt)) -> Self {
        Self { subtask, attempt }
    }
}

/// A job process to be started.
#[derive(Clone, PartialEq, Debug)]
pub struct StartJobProcess {
    /// Of which job.
    pub job: JobId,
    /// In which epoch.
    pub epoch: Epoch,
    /// The whole job; settings of job scope are inside.
    pub graph: Arc<JobGraph>,
    /// Whether operators are chained (`pipeline.operator-chaining`), from which the same plan
    /// follows everywhere.
    pub chaining: bool,
}

/// One task to be started.
#[derive(Clone, PartialEq, Debug)]
pub struct DeploySubtask {
    /// Of which job.
    pub job: JobId,
    /// In which epoch.
    pub epoch: Epoch,
    /// Which subtask.
    pub subtask: SubtaskId,
    /// Which execution.
    pub attempt: Attempt,
    /// The vertex, for people.
    pub vertex_name: String,
    /// In which slot.
    pub slot: SlotIndex,
    /// Where rows come from, in order of the plan's input channels.
    pub inputs: Vec<ChannelEndpoint>,
    /// Where rows go to, in order of the plan's output channels.
    pub outputs: Vec<ChannelEndpoint>,
    /// What it starts from; none starts empty.
    pub restore: Option<RestoreSubtask>,
}

/// One end of a channel, as the task at the other end needs it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ChannelEndpoint {
    /// Which channel.
    pub channel: ChannelId,
    /// Who is at the other end.
    pub peer: ChannelPeer,
    /// Both ends know it, nobody else does.
    pub token: ChannelToken,
}

/// The task at the other end of a channel, and where it runs.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ChannelPeer {
    /// The task.
    pub task: TaskAddress,
    /// Its taskmanager.
    pub taskmanager: TaskmanagerId,
    /// Which life of it.
    pub incarnation: Incarnation,
    /// Where its job process listens; none if it is the same process.
    pub address: Option<DataAddress>,
}

/// Where a job process listens for data, as others reach it.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug, Hash)]
pub struct DataAddress {
    /// A name or an address, without brackets.
    pub host: String,
    /// The port.
    pub port: u16,
}

impl fmt::Display for DataAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.host.contains(':') {
            write!(f, "[{}]:{}", self.host, self.port)
        } else {
            write!(f, "{}:{}", self.host, self.port)
        }
    }
}

/// A random number drawn for one epoch of one job; a peer that does not show it is no peer.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct ChannelToken(pub u128);

impl fmt::Debug for ChannelToken {
    /// Logs are read by more people than may open a channel.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ChannelToken(…)")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_ipv6_address_is_written_in_brackets() {
        let address = |host: &str| {
            let host = host.to_owned();
            DataAddress { host, port: 7070 }.to_string()
        };
        assert_eq!(address("fd00::1"), "[fd00::1]:7070");
        assert_eq!(address("tm-1.example"), "tm-1.example:7070");
    }

    #[test]
    fn a_token_does_not_show_in_logs() {
        let text = format!("{:?}", ChannelToken(0xdead_beef));
        assert!(!text.contains("dead") && !text.contains(&0xdead_beef_u32.to_string()));
    }
}
