//! What a jobmanager and a taskmanager say to each other on their control stream, as plain data.
//!
//! Every message about a running job carries its epoch, and every one about a task its attempt:
//! whoever has seen a higher epoch refuses a lower one (fences F1, F14). How messages look on the
//! wire is the business of `rpc`.

mod from_taskmanager;
mod to_taskmanager;

pub use from_taskmanager::{
    DeclineMessage, FromTaskmanager, JobTasks, OutputLines, Registration, SlotReport,
    SnapshotMessage, SubtaskMetrics, TaskReport, TaskmanagerHeartbeat,
};
pub use to_taskmanager::{
    ChannelEndpoint, ChannelPeer, ChannelToken, CheckpointStorage, DataAddress, DeploySubtask,
    Registered, StartJobProcess, TaskAddress, ToTaskmanager,
};
