//! Where the tasks of a job run: in a process of their own, or in threads of this one.
//!
//! Behind [`JobHost`] the same code serves both ([`serve`]): what differs is the way that messages
//! take, and how a stuck task is got rid of.

mod serve;
mod thread;
mod uplink;

use std::sync::Arc;

use async_trait::async_trait;
use millstream_config::StorageLocation;
use millstream_coordination::failure::FailureInfo;
use millstream_coordination::protocol::{DataAddress, StartJobProcess, ToTaskmanager};
use millstream_runtime::RemoteChannels;
use millstream_snapshot::Store;
use millstream_types::{Incarnation, TaskmanagerId};

pub use serve::{Serving, serve};
pub use thread::ThreadHost;
pub use uplink::QueueUplink;

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

/// The way to tasks in other processes.
pub trait DataPlane: Send + Sync {
    /// Where others send to.
    fn address(&self) -> DataAddress;

    /// Channels of this epoch; those of an earlier one are closed.
    fn channels(&self, start: &StartJobProcess) -> Option<Arc<dyn RemoteChannels>>;
}

/// The data plane of tasks that all run in one process.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct NoDataPlane {
    address: DataAddress,
}

impl NoDataPlane {
    /// Reached by nobody; `host` is only shown.
    pub fn new(host: &str) -> Self {
        let address = DataAddress {
            host: host.to_owned(),
            port: 0,
        };
        Self { address }
    }
}

impl DataPlane for NoDataPlane {
    fn address(&self) -> DataAddress {
        self.address.clone()
    }

    fn channels(&self, _start: &StartJobProcess) -> Option<Arc<dyn RemoteChannels>> {
        None
    }
}
