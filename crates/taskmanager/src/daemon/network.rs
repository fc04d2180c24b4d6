//! The control stream over the network.

use std::fmt;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use millstream_config::TaskmanagerConfig;
use millstream_coordination::protocol::ToTaskmanager;
use millstream_env::Env;
use millstream_env::net::{Conn, Listener, Net, NetError};
use millstream_rpc::{Connection, ControlReceiver, connect, connect_control, describe_storage};
use parking_lot::Mutex;
use tokio::sync::mpsc;
use tracing::warn;

use crate::connect::{Connect, ConnectError, ControlConnection};
use crate::sight::{Sight, Unseen};

/// Time for one attempt to reach the jobmanager.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
/// Time for the last messages of a connection that we end.
const LAST_WORDS_TIMEOUT: Duration = Duration::from_millis(500);
/// Messages that may wait for the network. The largest restart has a few for each of 10,000 tasks.
const OUTGOING_MAX: usize = 65_536;
/// Messages that may wait for the supervisor, which takes them at once.
const INCOMING_MAX: usize = 1_024;

/// Connects to the configured jobmanager.
pub(super) struct ControlNetwork {
    env: Env,
    local: Arc<LocalAddress>,
    address: String,
    max_message_bytes: usize,
    sight: Sight,
}

impl ControlNetwork {
    pub(super) fn new(env: &Env, config: &TaskmanagerConfig, sight: Sight) -> Self {
        let local = Arc::new(LocalAddress {
            net: Arc::clone(env.net()),
            last: Mutex::new(None),
        });
        Self {
            env: env
                .component("control")
                .with_net(Arc::clone(&local) as Arc<dyn Net>),
            local,
            address: config.jobmanager_address.with_port(config.jobmanager_port),
            max_message_bytes: config.max_message_bytes,
            sight,
        }
    }

    /// Looks for the jobmanager's storage, before anything runs that would write elsewhere.
    async fn look(&self, connection: &Connection) -> Result<(), ConnectError> {
        let asked = describe_storage(connection);
        let storage = match self.env.clock().timeout(CONNECT_TIMEOUT, asked).await {
            Ok(storage) => storage.map_err(|error| unreachable(&error))?,
            Err(elapsed) => return Err(unreachable(&elapsed)),
        };
        let Some(storage) = storage else {
            return Ok(());
        };
        match self.sight.check(&self.address, &storage).await {
            Ok(()) => Ok(()),
            Err(Unseen::Refused { reason }) => {
                warn!(
                    reason,
                    "storage of the jobmanager refuses this taskmanager: jobs here will fail by it"
                );
                Ok(())
            }
            Err(Unseen::Other(other)) => Err(ConnectError::OtherStorage(other)),
            Err(Unseen::Failed { reason }) => Err(ConnectError::StorageUnseen { reason }),
        }
    }
}

fn unreachable(error: &dyn std::error::Error) -> ConnectError {
    ConnectError::Unreachable {
        reason: millstream_telemetry::chain(error),
    }
}

#[async_trait]
impl Connect for ControlNetwork {
    async fn connect(&self) -> Result<ControlConnection, ConnectError> {
        let connection = connect(&self.env, &self.address, CONNECT_TIMEOUT)
            .await
            .map_err(|error| unreachable(&error))?;
        self.look(&connection).await?;
        let local_ip = *self.local.last.lock();
        let (outgoing, to_send) = mpsc::channel(OUTGOING_MAX);
        let (received, incoming) = mpsc::channel(INCOMING_MAX);
        let stream = connect_control(&connection, to_send, self.max_message_bytes)
            .await
            .map_err(|error| unreachable(&error))?;
        let hearing = hear(self.env.clone(), self.address.clone(), stream, received);
        self.env.spawner().supervise("control stream", hearing);
        Ok(ControlConnection {
            outgoing,
            incoming,
            local_ip,
        })
    }
}

/// Passes on what the jobmanager says, until one of both sides ends the connection.
async fn hear(
    env: Env,
    address: String,
    mut stream: ControlReceiver,
    received: mpsc::Sender<ToTaskmanager>,
) {
    loop {
        let message = tokio::select! {
            message = stream.next() => message,
            () = received.closed() => break,
        };
        match message {
            Ok(Some(message)) => {
                if received.send(message).await.is_err() {
                    break;
                }
            }
            Ok(None) => return,
            Err(error) => {
                let error = millstream_telemetry::chain(&error);
                warn!(address, error, "the control stream broke");
                return;
            }
        }
    }
    // We ended it: what was said last still goes out, and the jobmanager ends its side then.
    let ended = async { while let Ok(Some(_)) = stream.next().await {} };
    let _ = env.clock().timeout(LAST_WORDS_TIMEOUT, ended).await;
}

/// The network, remembering the local address of the newest connection: under this address the
/// jobmanager sees this machine.
struct LocalAddress {
    net: Arc<dyn Net>,
    last: Mutex<Option<IpAddr>>,
}

#[async_trait]
impl Net for LocalAddress {
    async fn listen(&self, addr: SocketAddr) -> Result<Listener, NetError> {
        self.net.listen(addr).await
    }

    async fn connect(&self, addr: SocketAddr) -> Result<Conn, NetError> {
        let conn = self.net.connect(addr).await?;
        *self.last.lock() = Some(conn.local_addr().ip());
        Ok(conn)
    }

    async fn resolve(&self, host: &str, port: u16) -> Result<Vec<SocketAddr>, NetError> {
        self.net.resolve(host, port).await
    }
}

impl fmt::Debug for LocalAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("LocalAddress").field(&self.net).finish()
    }
}
