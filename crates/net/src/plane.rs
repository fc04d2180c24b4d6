//! The data plane of one job process in one epoch.

use std::collections::BTreeMap;
use std::fmt;
use std::net::{IpAddr, SocketAddr};
use std::ops::RangeInclusive;
use std::sync::Arc;
use std::time::Duration;

use arrow::datatypes::SchemaRef;
use millstream_coordination::failure::{FailureInfo, FailureKind};
use millstream_coordination::protocol::{ChannelEndpoint, ChannelPeer, ChannelToken, DataAddress};
use millstream_env::net::NetError;
use millstream_env::{Env, StopSignal};
use millstream_exchange::frame::{ELEMENT_BYTES_MAX, ElementCodec};
use millstream_rpc::data::{DataGateway, DataReceiver, DataReply, ProcessIdentity};
use millstream_rpc::{ServerLimits, serve_data};
use millstream_types::{Epoch, JobId, SubtaskId};
use parking_lot::Mutex;
use tokio::sync::{mpsc, watch};

use crate::channel::{Inlet, Outlet};
use crate::credit::Credit;
use crate::failure::{LinkFailed, of_column};
use crate::incoming;
use crate::outgoing::{self, Outgoing};
use crate::peer::{Command, Inputs, NewOutput, Offered, Peer};

/// How much is on the way, and how long is waited.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct DataPlaneSettings {
    /// Encoded bytes on the way in each channel; an element may be larger.
    pub window_bytes: u64,
    /// The largest element.
    pub element_bytes_max: u64,
    /// In which a connection must be made.
    pub connect_timeout: Duration,
    /// How much later than ours a peer's tasks may be deployed.
    pub deployment_grace: Duration,
    /// Bounds of the server.
    pub limits: ServerLimits,
}

impl Default for DataPlaneSettings {
    fn default() -> Self {
        Self {
            window_bytes: 256 << 10,
            element_bytes_max: ELEMENT_BYTES_MAX,
            connect_timeout: Duration::from_secs(10),
            deployment_grace: Duration::from_secs(20),
            limits: ServerLimits::default(),
        }
    }
}

/// Whose data plane it is.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ProcessAddress {
    /// Of which job.
    pub job: JobId,
    /// In which epoch.
    pub epoch: Epoch,
    /// Of which taskmanager, in which life.
    pub own: ProcessIdentity,
    /// The host under which others reach it.
    pub advertised_host: String,
}

/// An identity with the port it has.
pub(crate) struct Identity {
    pub(crate) job: JobId,
    pub(crate) epoch: Epoch,
    pub(crate) own: ProcessIdentity,
    advertised_host: String,
    port: u16,
}

impl Identity {
    pub(crate) fn address(&self) -> DataAddress {
        DataAddress {
            host: self.advertised_host.clone(),
            port: self.port,
        }
    }
}

/// What all connections share.
pub(crate) struct Shared {
    pub(crate) env: Env,
    pub(crate) settings: DataPlaneSettings,
    pub(crate) identity: Identity,
    pub(crate) stop: StopSignal,
    token: watch::Sender<Option<ChannelToken>>,
    peers: Mutex<BTreeMap<ProcessIdentity, Arc<Peer>>>,
    on_failure: Box<dyn Fn(LinkFailed) + Send + Sync>,
}

impl Shared {
    pub(crate) fn peer(&self, identity: &ProcessIdentity) -> Arc<Peer> {
        let mut peers = self.peers.lock();
        let peer = peers.entry(identity.clone());
        Arc::clone(peer.or_insert_with(|| Arc::new(Peer::new(identity.clone()))))
    }

    pub(crate) fn fail(&self, tasks: Vec<SubtaskId>, failure: FailureInfo) {
        if !tasks.is_empty() {
            (self.on_failure)(LinkFailed { tasks, failure });
        }
    }

    /// The token of this epoch: known with the first deployment, for which a caller may have to
    /// wait a little.
    pub(crate) async fn token(&self) -> Option<ChannelToken> {
        let mut known = self.token.subscribe();
        let waiting = known.wait_for(Option::is_some);
        let waited = self
            .env
            .clock()
            .timeout(self.settings.deployment_grace, waiting)
            .await;
        waited.ok()?.ok().and_then(|token| *token)
    }

    fn codec(&self, schema: &SchemaRef) -> Result<ElementCodec, FailureInfo> {
        let codec = ElementCodec::new(schema, self.settings.element_bytes_max);
        codec.map_err(|error| of_column(&error))
    }
}

/// Serves and makes the connections of one job process in one epoch. Dropping it ends them all.
pub struct DataPlane {
    shared: Arc<Shared>,
    local: SocketAddr,
}

impl DataPlane {
    /// Listens at the first free port of the range. `on_failure` is told once of each connection
    /// that breaks while tasks need it.
    pub async fn bind(
        env: &Env,
        ip: IpAddr,
        ports: RangeInclusive<u16>,
        process: ProcessAddress,
        settings: DataPlaneSettings,
        on_failure: impl Fn(LinkFailed) + Send + Sync + 'static,
    ) -> Result<Self, NetError> {
        let listener = env.net().listen_in(ip, ports).await?;
        let local = listener.local_addr();
        let ProcessAddress {
            job,
            epoch,
            own,
            advertised_host,
        } = process;
        let shared = Arc::new(Shared {
            env: env.component("data plane"),
            settings,
            identity: Identity {
                job,
                epoch,
                own,
                advertised_host,
                port: local.port(),
            },
            stop: StopSignal::new(),
            token: watch::Sender::new(None),
            peers: Mutex::default(),
            on_failure: Box::new(on_failure),
        });
        let gateway = Arc::new(Gateway {
            shared: Arc::clone(&shared),
        });
        let (server_env, stop) = (shared.env.clone(), shared.stop.clone());
        shared.env.spawner().supervise("data server", async move {
            // Without the server no peer connects: the peers' tasks say so.
            let _ = serve_data(&server_env, listener, settings.limits, gateway, stop).await;
        });
        Ok(Self { shared, local })
    }

    /// Where others reach it.
    pub fn address(&self) -> DataAddress {
        self.shared.identity.address()
    }

    /// Where it listens.
    pub fn local_addr(&self) -> SocketAddr {
        self.local
    }

    /// Something changed in a channel to this peer: there is an element, room, or feedback.
    pub fn wake(&self, peer: &ProcessIdentity) {
        self.shared.peer(peer).wake();
    }

    /// Sends to the peer what `elements` yields, under credit. Connects if no connection is there.
    pub fn open_output(
        &self,
        own: SubtaskId,
        endpoint: &ChannelEndpoint,
        schema: &SchemaRef,
        elements: Box<dyn Outlet>,
    ) {
        let (codec, address) = match (self.shared.codec(schema), &endpoint.peer.address) {
            (Ok(codec), Some(address)) => (codec, address),
            (Err(failure), _) => return self.shared.fail(vec![own], failure),
            (Ok(_), None) => {
                let text = format!("channel {:?} leads to no other process", endpoint.channel);
                let failure = FailureInfo::new(FailureKind::Internal, text);
                return self.shared.fail(vec![own], failure);
            }
        };
        self.learn(endpoint.token);
        let peer = self.shared.peer(&identity_of(&endpoint.peer));
        self.connect(&peer, address, endpoint.token);
        let channel = endpoint.channel;
        outgoing::tell(
            &peer,
            Command::Open(NewOutput {
                own,
                channel,
                codec,
                elements,
            }),
        );
    }

    /// Puts what the peer sends into `elements`. What it returns is told of bytes worked off.
    pub fn open_input(
        &self,
        own: SubtaskId,
        endpoint: &ChannelEndpoint,
        schema: &SchemaRef,
        elements: Box<dyn Inlet>,
    ) -> Credit {
        let peer = self.shared.peer(&identity_of(&endpoint.peer));
        let credit = Credit::new(
            self.shared.settings.window_bytes,
            Arc::clone(&peer.wake_incoming),
        );
        let codec = match self.shared.codec(schema) {
            Ok(codec) => codec,
            Err(failure) => {
                self.shared.fail(vec![own], failure);
                return credit;
            }
        };
        let mut inputs = peer.inputs.lock();
        if let Some(failure) = inputs.failure.clone() {
            drop(inputs);
            self.shared.fail(vec![own], failure);
            return credit;
        }
        let offer = Offered {
            own,
            codec,
            elements,
            credit: credit.clone(),
        };
        inputs.offered.insert(endpoint.channel, offer);
        drop(inputs);
        self.learn(endpoint.token);
        peer.wake_incoming.notify_one();
        credit
    }

    /// Ends all channels of a task. What it left in line is still sent.
    pub fn close(&self, own: SubtaskId) {
        let peers: Vec<_> = self.shared.peers.lock().values().cloned().collect();
        for peer in peers {
            outgoing::close(&peer, own);
            let mut inputs = peer.inputs.lock();
            let Inputs { offered, gone, .. } = &mut *inputs;
            let ended = offered.extract_if(.., |_, offer| offer.own == own);
            gone.extend(ended.map(|(channel, _)| channel));
            if inputs.is_connected && inputs.failure.is_none() {
                inputs.closing.insert(own);
            }
            drop(inputs);
            peer.wake();
        }
    }

    /// All endpoints of an epoch have one token; the first shows it.
    fn learn(&self, token: ChannelToken) {
        self.shared.token.send_if_modified(|known| {
            let is_news = known.is_none();
            known.get_or_insert(token);
            is_news
        });
    }

    fn connect(&self, peer: &Arc<Peer>, address: &DataAddress, token: ChannelToken) {
        let mut known = peer.outgoing.lock();
        if known.is_some() {
            return;
        }
        let (commands, received) = mpsc::unbounded_channel();
        *known = Some(commands);
        let connection = Outgoing {
            shared: Arc::clone(&self.shared),
            peer: Arc::clone(peer),
            address: address.clone(),
            token,
            commands: received,
        };
        let name = format!("data connection to {}", peer.identity.taskmanager);
        self.shared.env.spawner().supervise(name, connection.run());
    }
}

impl Drop for DataPlane {
    fn drop(&mut self) {
        self.shared.stop.cancel();
    }
}

impl fmt::Debug for DataPlane {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DataPlane")
            .field("local", &self.local)
            .finish_non_exhaustive()
    }
}

fn identity_of(peer: &ChannelPeer) -> ProcessIdentity {
    ProcessIdentity {
        taskmanager: peer.taskmanager.clone(),
        incarnation: peer.incarnation,
    }
}

/// Takes the calls of other processes.
struct Gateway {
    shared: Arc<Shared>,
}

impl DataGateway for Gateway {
    fn exchange(
        &self,
        _local: SocketAddr,
        peer: SocketAddr,
        incoming: DataReceiver,
        outgoing: mpsc::Sender<DataReply>,
    ) {
        let serving = incoming::serve(Arc::clone(&self.shared), peer, incoming, outgoing);
        self.shared
            .env
            .spawner()
            .supervise(format!("data stream from {peer}"), serving);
    }
}

#[cfg(test)]
mod tests;
