//! A network in memory: embedded clusters and tests.

use std::collections::BTreeMap;
use std::fmt;
use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::Arc;

use async_trait::async_trait;
use parking_lot::Mutex;
use tokio::sync::mpsc;

use super::{Accept, Conn, Listener, Net, NetError, no_address};

/// Bytes in flight each way on a connection; more wait for the reader, as on a socket.
const PIPE_BYTES: usize = 256 * 1024;
/// Connections that wait to be accepted.
const BACKLOG: usize = 1024;
/// Ports given out for port 0 and to clients: the range the kernel uses by default.
const EPHEMERAL: std::ops::RangeInclusive<u16> = 32_768..=60_999;

/// Listeners and connections of one process, reachable by address as on a real network. Cloning
/// shares the network.
#[derive(Clone, Default)]
pub struct MemoryNet {
    shared: Arc<Mutex<Shared>>,
}

#[derive(Default)]
struct Shared {
    listeners: BTreeMap<SocketAddr, mpsc::Sender<Conn>>,
    hosts: BTreeMap<String, Vec<IpAddr>>,
    n_ports_given: u16,
}

impl MemoryNet {
    /// Lets a host name stand for these addresses; `localhost` is known anyway.
    pub fn add_host(&self, name: &str, addresses: Vec<IpAddr>) {
        self.shared.lock().hosts.insert(name.to_owned(), addresses);
    }
}

impl Shared {
    /// The next port of the ephemeral range that no listener holds at this address.
    fn free_port(&mut self, ip: IpAddr) -> Option<u16> {
        let n_ports = EPHEMERAL.end() - EPHEMERAL.start() + 1;
        for _ in 0..n_ports {
            let port = EPHEMERAL.start() + self.n_ports_given % n_ports;
            self.n_ports_given = self.n_ports_given.wrapping_add(1);
            if self.is_free(SocketAddr::new(ip, port)) {
                return Some(port);
            }
        }
        None
    }

    /// Whether nobody listens there; a listener that was dropped frees its address.
    fn is_free(&mut self, addr: SocketAddr) -> bool {
        self.listeners.retain(|_, listener| !listener.is_closed());
        !self.listeners.contains_key(&addr)
    }

    /// Who takes connections to this address: its own listener, or one at all addresses.
    fn listener(&self, addr: SocketAddr) -> Option<&mpsc::Sender<Conn>> {
        let any: IpAddr = match addr.ip() {
            IpAddr::V4(_) => Ipv4Addr::UNSPECIFIED.into(),
            IpAddr::V6(_) => std::net::Ipv6Addr::UNSPECIFIED.into(),
        };
        let exact = self.listeners.get(&addr);
        exact.or_else(|| self.listeners.get(&SocketAddr::new(any, addr.port())))
    }
}

#[async_trait]
impl Net for MemoryNet {
    async fn listen(&self, addr: SocketAddr) -> Result<Listener, NetError> {
        let mut shared = self.shared.lock();
        let in_use = || NetError::Listen {
            addr,
            source: io::ErrorKind::AddrInUse.into(),
        };
        let mut local = addr;
        if addr.port() == 0 {
            local.set_port(shared.free_port(addr.ip()).ok_or_else(in_use)?);
        } else if !shared.is_free(addr) {
            return Err(in_use());
        }
        let (sender, connections) = mpsc::channel(BACKLOG);
        shared.listeners.insert(local, sender);
        Ok(Listener::new(MemoryAccept { connections }, local))
    }

    async fn connect(&self, addr: SocketAddr) -> Result<Conn, NetError> {
        let refused = || NetError::Connect {
            addr,
            source: io::ErrorKind::ConnectionRefused.into(),
        };
        let mut shared = self.shared.lock();
        let listener = shared.listener(addr).cloned().ok_or_else(refused)?;
        let client = SocketAddr::new(addr.ip(), shared.free_port(addr.ip()).ok_or_else(refused)?);
        let (near, far) = tokio::io::duplex(PIPE_BYTES);
        // A full backlog refuses, as a closed listener does; the caller tries again.
        listener
            .try_send(Conn::new(far, addr, client))
            .map_err(|_| refused())?;
        Ok(Conn::new(near, client, addr))
    }

    async fn resolve(&self, host: &str, port: u16) -> Result<Vec<SocketAddr>, NetError> {
        let bare = host
            .strip_prefix('[')
            .and_then(|rest| rest.strip_suffix(']'))
            .unwrap_or(host);
        let addresses = match bare.parse::<IpAddr>() {
            Ok(ip) => vec![ip],
            Err(_) if bare == "localhost" => vec![Ipv4Addr::LOCALHOST.into()],
            Err(_) => self
                .shared
                .lock()
                .hosts
                .get(bare)
                .cloned()
                .unwrap_or_default(),
        };
        if addresses.is_empty() {
            return Err(NetError::unknown_host(host, no_address()));
        }
        Ok(addresses
            .into_iter()
            .map(|ip| SocketAddr::new(ip, port))
            .collect())
    }
}

impl fmt::Debug for MemoryNet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let shared = self.shared.lock();
        f.debug_tuple("MemoryNet")
            .field(&shared.listeners.keys().collect::<Vec<_>>())
            .finish()
    }
}

struct MemoryAccept {
    connections: mpsc::Receiver<Conn>,
}

#[async_trait]
impl Accept for MemoryAccept {
    async fn accept(&mut self) -> io::Result<Conn> {
        // The network holds the other end as long as this listener lives.
        self.connections
            .recv()
            .await
            .ok_or_else(|| io::ErrorKind::NotConnected.into())
    }
}
