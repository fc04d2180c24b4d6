//! The network's data plane as tasks use it.

use std::collections::BTreeMap;
use std::sync::Arc;

use arrow::datatypes::SchemaRef;
use async_trait::async_trait;
use millstream_config::{Host, PortRange, TaskmanagerConfig};
use millstream_coordination::failure::{FailureInfo, FailureKind};
use millstream_coordination::protocol::{ChannelEndpoint, StartJobProcess};
use millstream_env::net::NetError;
use millstream_env::{Env, StopSignal};
use millstream_exchange::queue::Popped;
use millstream_exchange::{Control, Element, Feedback};
use millstream_net::{Credit, DataPlaneSettings, Inlet, LinkFailed, Outlet, ProcessAddress};
use millstream_rpc::data::ProcessIdentity;
use millstream_runtime::{ReceiverEnd, ReleaseCredit, RemoteChannels, SenderEnd, Signal};
use millstream_types::SubtaskId;
use parking_lot::Mutex;

use super::{DataPlane, HostIdentity, LinkFailures, OpenDataPlane};

/// Listens for channels at a port of the configured range, anew in each epoch.
pub struct NetDataPlane {
    env: Env,
    identity: HostIdentity,
    bind_host: Host,
    ports: PortRange,
    settings: DataPlaneSettings,
}

impl NetDataPlane {
    /// For the job processes of this taskmanager.
    pub fn new(env: &Env, config: &TaskmanagerConfig, identity: HostIdentity) -> Self {
        Self {
            env: env.clone(),
            identity,
            bind_host: config.bind_host.clone(),
            ports: config.data_ports.clone(),
            settings: DataPlaneSettings {
                window_bytes: config.channel_window_bytes,
                ..DataPlaneSettings::default()
            },
        }
    }
}

#[async_trait]
impl OpenDataPlane for NetDataPlane {
    async fn open(
        &self,
        start: &StartJobProcess,
        failures: LinkFailures,
    ) -> Result<DataPlane, FailureInfo> {
        let plane = self.bind(start, failures).await.map_err(|error| {
            let text = millstream_telemetry::chain(&error);
            let mut failure = FailureInfo::new(FailureKind::JobProcess, text);
            failure.remedy = Some(
                "check taskmanager.bind-host, and give taskmanager.data.port-range a port for \
                 each job"
                    .to_owned(),
            );
            failure
        })?;
        let address = plane.address();
        let channels = NetChannels {
            env: self.env.component("data plane wakers"),
            plane: Arc::new(plane),
            signals: Mutex::default(),
            stop: StopSignal::new(),
        };
        Ok(DataPlane {
            address,
            channels: Some(Arc::new(channels)),
        })
    }
}

impl NetDataPlane {
    async fn bind(
        &self,
        start: &StartJobProcess,
        failures: LinkFailures,
    ) -> Result<millstream_net::DataPlane, NetError> {
        let listeners = self.env.net().resolve(self.bind_host.as_str(), 0).await?;
        // A name has an address, or it is an error.
        let ip = listeners[0].ip();
        let mut last = NetError::NoFreePort {
            ip,
            first: 0,
            last: 0,
        };
        for port in self.ports.iter() {
            let process = ProcessAddress {
                job: start.job,
                epoch: start.epoch,
                own: ProcessIdentity {
                    taskmanager: self.identity.taskmanager.clone(),
                    incarnation: self.identity.incarnation,
                },
                advertised_host: self.identity.advertised_host.clone(),
            };
            let failures = Arc::clone(&failures);
            let on_failure = move |failed: LinkFailed| failures(failed.tasks, failed.failure);
            let settings = self.settings;
            let bound = millstream_net::DataPlane::bind(
                &self.env,
                ip,
                port..=port,
                process,
                settings,
                on_failure,
            );
            match bound.await {
                Err(error @ NetError::NoFreePort { .. }) => last = error,
                other => return other,
            }
        }
        Err(last)
    }
}

/// Channels of one epoch.
struct NetChannels {
    env: Env,
    plane: Arc<millstream_net::DataPlane>,
    signals: Mutex<BTreeMap<ProcessIdentity, Signal>>,
    stop: StopSignal,
}

impl RemoteChannels for NetChannels {
    fn signal(&self, endpoint: &ChannelEndpoint) -> Signal {
        let peer = ProcessIdentity {
            taskmanager: endpoint.peer.taskmanager.clone(),
            incarnation: endpoint.peer.incarnation,
        };
        let mut signals = self.signals.lock();
        if let Some(signal) = signals.get(&peer) {
            return signal.clone();
        }
        let signal = Signal::new();
        signals.insert(peer.clone(), signal.clone());
        let (rung, stop) = (signal.clone(), self.stop.clone());
        // Weak: the plane ends with the epoch, not with its wakers.
        let plane = Arc::downgrade(&self.plane);
        let name = format!("wake {}", peer.taskmanager);
        self.env.spawner().supervise(name, async move {
            loop {
                tokio::select! {
                    () = stop.cancelled() => return,
                    () = rung.rung() => {}
                }
                let Some(plane) = plane.upgrade() else {
                    return;
                };
                plane.wake(&peer);
            }
        });
        signal
    }

    fn open_output(
        &self,
        own: SubtaskId,
        endpoint: &ChannelEndpoint,
        schema: SchemaRef,
        elements: ReceiverEnd,
    ) {
        let elements = Box::new(TaskOutlet(elements));
        self.plane.open_output(own, endpoint, &schema, elements);
    }

    fn open_input(
        &self,
        own: SubtaskId,
        endpoint: &ChannelEndpoint,
        schema: SchemaRef,
        elements: SenderEnd,
    ) -> Box<dyn ReleaseCredit> {
        let elements = Box::new(TaskInlet(elements));
        let credit = self.plane.open_input(own, endpoint, &schema, elements);
        Box::new(TaskCredit(credit))
    }

    fn close(&self, own: SubtaskId) {
        self.plane.close(own);
    }
}

impl Drop for NetChannels {
    fn drop(&mut self) {
        self.stop.cancel();
    }
}

struct TaskOutlet(ReceiverEnd);

impl Outlet for TaskOutlet {
    fn pop_control(&self) -> Option<Control> {
        self.0.pop_control()
    }

    fn pop(&self) -> Option<Popped> {
        self.0.pop()
    }

    fn send_feedback(&self, feedback: Feedback) {
        self.0.send_feedback(feedback);
    }
}

struct TaskInlet(SenderEnd);

impl Inlet for TaskInlet {
    fn push(&self, element: Element) {
        self.0.push(element);
    }

    fn push_control(&self, control: Control) {
        self.0.push_control(control);
    }

    fn take_feedback(&self) -> Option<Feedback> {
        self.0.take_feedback()
    }
}

struct TaskCredit(Credit);

impl ReleaseCredit for TaskCredit {
    fn release(&self, bytes: u64) {
        self.0.release(bytes);
    }
}
