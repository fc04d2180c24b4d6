//! TCP of this machine.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::time::Duration;

use async_trait::async_trait;
use socket2::{SockRef, TcpKeepalive};
use tokio::net::{TcpListener, TcpSocket, TcpStream};

use super::{Accept, Conn, Listener, Net, NetError, no_address};
use crate::Clock;

/// Connections that wait to be accepted; the kernel's own limit may be lower.
const BACKLOG: u32 = 1024;
/// Pause after the machine ran out of descriptors or memory: accepting again at once would spin.
const EXHAUSTED_PAUSE: Duration = Duration::from_millis(100);

/// The machine's TCP.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct TcpNet {
    options: TcpOptions,
}

/// Options of every socket. Small writes always go out at once: barriers must not wait for data.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct TcpOptions {
    /// Silence after which the kernel asks the peer whether it is still there.
    pub keepalive_time: Duration,
    /// Pause between the questions.
    pub keepalive_interval: Duration,
    /// Unanswered questions after which the connection is reset.
    pub keepalive_retries: u32,
}

impl Default for TcpOptions {
    fn default() -> Self {
        Self {
            keepalive_time: Duration::from_secs(10),
            keepalive_interval: Duration::from_secs(5),
            keepalive_retries: 3,
        }
    }
}

impl TcpNet {
    /// With these options.
    pub fn new(options: TcpOptions) -> Self {
        Self { options }
    }

    fn conn(&self, stream: TcpStream) -> io::Result<Conn> {
        stream.set_nodelay(true)?;
        let keepalive = TcpKeepalive::new()
            .with_time(self.options.keepalive_time)
            .with_interval(self.options.keepalive_interval)
            .with_retries(self.options.keepalive_retries);
        SockRef::from(&stream).set_tcp_keepalive(&keepalive)?;
        let (local, peer) = (stream.local_addr()?, stream.peer_addr()?);
        Ok(Conn::new(stream, local, peer))
    }
}

/// The name service gives up after half a minute and more, which is too long for whoever waits.
const RESOLVE_TIMEOUT: Duration = Duration::from_secs(5);

fn no_answer() -> io::Error {
    let seconds = RESOLVE_TIMEOUT.as_secs();
    let text = format!("no answer from the name service within {seconds} s");
    io::Error::new(io::ErrorKind::TimedOut, text)
}

#[async_trait]
impl Net for TcpNet {
    async fn listen(&self, addr: SocketAddr) -> Result<Listener, NetError> {
        let listen = || -> io::Result<(TcpListener, SocketAddr)> {
            let socket = socket(addr)?;
            // A restarted daemon must get its port back though old connections linger.
            socket.set_reuseaddr(true)?;
            socket.bind(addr)?;
            let listener = socket.listen(BACKLOG)?;
            let local = listener.local_addr()?;
            Ok((listener, local))
        };
        let (listener, local) = listen().map_err(|source| NetError::Listen { addr, source })?;
        Ok(Listener::new(
            TcpAccept {
                net: *self,
                listener,
                clock: Clock::real(),
            },
            local,
        ))
    }

    async fn connect(&self, addr: SocketAddr) -> Result<Conn, NetError> {
        let connect = async { self.conn(socket(addr)?.connect(addr).await?) };
        connect
            .await
            .map_err(|source| NetError::Connect { addr, source })
    }

    async fn resolve(&self, host: &str, port: u16) -> Result<Vec<SocketAddr>, NetError> {
        // An address in brackets is how configuration and URLs write IPv6.
        let bare = host
            .strip_prefix('[')
            .and_then(|rest| rest.strip_suffix(']'))
            .unwrap_or(host);
        let lookup = tokio::net::lookup_host((bare, port));
        let found = Clock::real().timeout(RESOLVE_TIMEOUT, lookup).await;
        let found = found.unwrap_or_else(|_| Err(no_answer()));
        if found.is_err() && bare.eq_ignore_ascii_case("localhost") {
            // A minimal system has no hosts file, and the name means this host anyway (RFC 6761).
            let ips = [Ipv4Addr::LOCALHOST.into(), Ipv6Addr::LOCALHOST.into()];
            return Ok(ips.map(|ip: IpAddr| SocketAddr::new(ip, port)).to_vec());
        }
        let addrs: Vec<_> = found
            .map_err(|source| NetError::unknown_host(host, source))?
            .collect();
        if addrs.is_empty() {
            return Err(NetError::unknown_host(host, no_address()));
        }
        Ok(addrs)
    }
}

fn socket(addr: SocketAddr) -> io::Result<TcpSocket> {
    match addr {
        SocketAddr::V4(_) => TcpSocket::new_v4(),
        SocketAddr::V6(_) => TcpSocket::new_v6(),
    }
}

struct TcpAccept {
    net: TcpNet,
    listener: TcpListener,
    clock: Clock,
}

#[async_trait]
impl Accept for TcpAccept {
    async fn accept(&mut self) -> io::Result<Conn> {
        loop {
            match self.listener.accept().await {
                // The peer may be gone before its options are set; the next one is waited for.
                Ok((stream, _)) => {
                    if let Ok(conn) = self.net.conn(stream) {
                        return Ok(conn);
                    }
                }
                Err(error) => match after(&error) {
                    Next::Accept => {}
                    Next::Pause => self.clock.sleep(EXHAUSTED_PAUSE).await,
                    Next::Fail => return Err(error),
                },
            }
        }
    }
}

/// What an error of `accept` means for the listener.
#[derive(PartialEq, Eq, Debug)]
enum Next {
    /// It was that one connection's.
    Accept,
    /// The machine is short of something; it passes.
    Pause,
    /// The listening socket itself is broken.
    Fail,
}

fn after(error: &io::Error) -> Next {
    use rustix::io::Errno;
    match error.raw_os_error().map(Errno::from_raw_os_error) {
        Some(Errno::MFILE | Errno::NFILE | Errno::NOBUFS | Errno::NOMEM) => Next::Pause,
        Some(
            Errno::CONNABORTED
            | Errno::CONNRESET
            | Errno::INTR
            | Errno::PERM
            | Errno::PROTO
            | Errno::NETDOWN
            | Errno::NETUNREACH
            | Errno::HOSTDOWN
            | Errno::HOSTUNREACH
            | Errno::NOPROTOOPT
            | Errno::OPNOTSUPP,
        ) => Next::Accept,
        _ => Next::Fail,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lost_connection_a_shortage_and_a_broken_listener_are_told_apart() {
        let next = |errno: rustix::io::Errno| after(&errno.into());
        assert_eq!(next(rustix::io::Errno::CONNABORTED), Next::Accept);
        assert_eq!(next(rustix::io::Errno::MFILE), Next::Pause);
        assert_eq!(next(rustix::io::Errno::BADF), Next::Fail);
        assert_eq!(after(&io::Error::other("no errno")), Next::Fail);
    }

    #[tokio::test]
    async fn sockets_send_at_once_and_watch_for_a_dead_peer() {
        let net = TcpNet::default();
        let listener = TcpSocket::new_v4().unwrap();
        listener.bind("127.0.0.1:0".parse().unwrap()).unwrap();
        let listener = listener.listen(1).unwrap();
        let client = socket(listener.local_addr().unwrap()).unwrap();
        let stream = client
            .connect(listener.local_addr().unwrap())
            .await
            .unwrap();
        let descriptor = std::os::fd::AsFd::as_fd(&stream)
            .try_clone_to_owned()
            .unwrap();
        let raw = socket2::Socket::from(descriptor);
        net.conn(stream).unwrap();
        assert!(raw.tcp_nodelay().unwrap() && raw.keepalive().unwrap());
        assert_eq!(raw.tcp_keepalive_time().unwrap(), Duration::from_secs(10));
    }
}
