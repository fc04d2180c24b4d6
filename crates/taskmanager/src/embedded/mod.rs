//! A taskmanager within another program: `millstream local`, tests, the simulator.

use std::path::PathBuf;
use std::sync::Arc;

use async_trait::async_trait;
use millstream_config::StorageLocation;
use millstream_coordination::failure::FailureInfo;
use millstream_coordination::protocol::{FromTaskmanager, ToTaskmanager};
use millstream_env::{Env, StopSignal, Task};
use millstream_runtime::JobProcessSettings;
use millstream_snapshot::Store;
use millstream_types::TaskmanagerId;
use tokio::sync::mpsc;
use tracing::warn;

use crate::advertise::Advertise;
use crate::connect::InProcess;
use crate::host::{HostIdentity, NoDataPlane, OpenDataPlane, OpenStore, Serving, ThreadHost};
use crate::shell::{EVENTS_MAX, Ending, Member, Shell};
use crate::storage::Stores;
use crate::supervisor::SupervisorConfig;
use millstream_launch::StorageAccess;

/// What an embedded taskmanager is started with.
#[derive(Clone, Debug)]
pub struct EmbeddedSettings {
    /// Its name.
    pub id: TaskmanagerId,
    /// Slots that it offers.
    pub slots: u32,
    /// Where attempts keep their working state.
    pub state_dir: PathBuf,
    /// Keyed state in RocksDB, per slot.
    pub managed_bytes_per_slot: usize,
    /// Encoded bytes on the way per channel.
    pub channel_window_bytes: u64,
    /// The store of jobs that name no checkpoint directory, as the jobmanager uses it for them.
    pub checkpoints: Option<Store>,
    /// How stores are reached that jobs name.
    pub storage: StorageAccess,
}

/// A taskmanager whose tasks are threads of this process.
pub struct EmbeddedTaskmanager {
    leave: StopSignal,
    work: Task<Ending>,
}

impl EmbeddedTaskmanager {
    /// Starts it. `connect` gives the way to the jobmanager, again whenever the last one ended:
    /// where messages to it go, and where its messages come from.
    pub fn start<C>(env: &Env, settings: EmbeddedSettings, connect: C) -> Self
    where
        C: Fn() -> (mpsc::Sender<FromTaskmanager>, mpsc::Receiver<ToTaskmanager>)
            + Send
            + Sync
            + 'static,
    {
        let env = env.component("taskmanager");
        let host_name = "localhost";
        let serving = Serving {
            env: env.clone(),
            settings: JobProcessSettings {
                channel_window_bytes: settings.channel_window_bytes,
                managed_bytes_per_slot: settings.managed_bytes_per_slot,
                state_dir: settings.state_dir,
            },
            stores: Arc::new(EmbeddedStores {
                default: settings.checkpoints,
                named: Stores::new(env.clone(), None, settings.storage),
            }),
        };
        let no_network = |identity: &HostIdentity| -> Arc<dyn OpenDataPlane> {
            let host = identity.advertised_host.clone();
            Arc::new(NoDataPlane { host })
        };
        let (sender, events) = mpsc::channel(EVENTS_MAX);
        let member = Member {
            id: settings.id,
            slots: settings.slots,
            advertise: Advertise {
                configured: Some(host_name.to_owned()),
                bind: None,
            },
            host: host_name.to_owned(),
        };
        let config = SupervisorConfig {
            registration_timeout: None,
            memory_per_slot_bytes: None,
        };
        let host = Box::new(ThreadHost::new(serving, no_network, sender));
        let connect = Arc::new(InProcess(connect));
        let shell = Shell::new(env.clone(), member, config, connect, host, events);
        let leave = StopSignal::new();
        let work = env.spawner().spawn("taskmanager", shell.run(leave.clone()));
        Self { leave, work }
    }

    /// Cancels all tasks, tells the jobmanager, and completes when everything ended.
    pub async fn stop(self) {
        self.leave.cancel();
        if let Err(error) = self.work.await {
            warn!(%error, "the taskmanager did not end as it should");
        }
    }
}

/// The given store for jobs without a directory of their own.
struct EmbeddedStores {
    default: Option<Store>,
    named: Stores,
}

#[async_trait]
impl OpenStore for EmbeddedStores {
    async fn open(&self, dir: Option<&StorageLocation>) -> Result<Option<Store>, FailureInfo> {
        match dir {
            None => Ok(self.default.clone()),
            Some(_) => self.named.open(dir).await,
        }
    }
}

#[cfg(test)]
mod tests;
