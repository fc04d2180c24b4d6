//! Where the tasks of a job run: in a process of their own, or in threads of this one.
//!
//! Behind [`JobHost`] the same code serves both ([`serve`]): what differs is the way that messages
//! take, and how a stuck task is got rid of.

mod links;
mod remote;
mod serve;
mod thread;
mod uplink;
mod watchdog;

use std::sync::Arc;

use async_trait::async_trait;
use millstream_config::StorageLocation;
use millstream_coordination::failure::FailureInfo;
use millstream_coordination::protocol::{DataAddress, StartJobProcess, ToTaskmanager};
use millstream_runtime::RemoteChannels;
use millstream_snapshot::Store;
use millstream_types::{Incarnation, SubtaskId, TaskmanagerId};

pub use remote::NetDataPlane;
pub use serve::{Serving, serve};
pub(crate) use thread::COMMANDS_MAX;
pub use thread::ThreadHost;
pub use uplink::QueueUplink;
pub(crate) use uplink::last_count;

use crate::supervisor::{ProcessEvent, ProcessId};

/// Runs job processes. No call waits; what comes of it is told as [`HostEvent`].
pub trait JobHost: Send {
    /// Starts a process. Whatever happens, [`ProcessEvent::Ended`] is told of it in the end.
    fn start(&mut self, process: ProcessId, identity: &HostIdentity, start: StartJobProcess);

    /// Passes a message on, in order. A process that ended does not get it.
    fn tell(&mut self, process: ProcessId, message: ToTaskmanager);

    /// Ends a process, whatever it does.
    fn kill(&mut self, process: ProcessId);
}

/// Something about a process of a host.
#[derive(Clone, PartialEq, Debug)]
pub struct HostEvent {
    /// Which process.
    pub process: ProcessId,
    /// What.
    pub event: ProcessEvent,
}

/// Whose process it is.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct HostIdentity {
    /// The taskmanager.
    pub taskmanager: TaskmanagerId,
    /// Which life of it.
    pub incarnation: Incarnation,
    /// Where others reach its job processes.
    pub advertised_host: String,
}

/// Opens checkpoint directories.
#[async_trait]
pub trait OpenStore: Send + Sync {
    /// The store of a job that names this directory, or none; none where it takes no checkpoints.
    async fn open(&self, dir: Option<&StorageLocation>) -> Result<Option<Store>, FailureInfo>;
}

/// Told which tasks lost their channels, and why.
pub type LinkFailures = Arc<dyn Fn(Vec<SubtaskId>, FailureInfo) + Send + Sync>;

/// Opens the way to tasks in other processes.
#[async_trait]
pub trait OpenDataPlane: Send + Sync {
    /// The way of this epoch. That of an earlier one is gone by then.
    async fn open(
        &self,
        start: &StartJobProcess,
        failures: LinkFailures,
    ) -> Result<DataPlane, FailureInfo>;
}

/// The way to tasks in other processes, in one epoch of a job.
pub struct DataPlane {
    /// Where others send to.
    pub address: DataAddress,
    /// Channels to them; none where all tasks run in this process.
    pub channels: Option<Arc<dyn RemoteChannels>>,
}

/// For tasks that all run in one process.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct NoDataPlane {
    /// Where the process is, to be shown; nobody listens there.
    pub host: String,
}

#[async_trait]
impl OpenDataPlane for NoDataPlane {
    async fn open(
        &self,
        _start: &StartJobProcess,
        _failures: LinkFailures,
    ) -> Result<DataPlane, FailureInfo> {
        let address = DataAddress {
            host: self.host.clone(),
            port: 0,
        };
        let channels = None;
        Ok(DataPlane { address, channels })
    }
}
