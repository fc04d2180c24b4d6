//! Listening and connecting. The real network, one in memory, and the seam for a simulated one.

mod memory;
mod tcp;

use std::fmt;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::ops::RangeInclusive;
use std::pin::Pin;
use std::task::{Context, Poll};

use async_trait::async_trait;
use futures::stream::{self, Stream};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

pub use memory::MemoryNet;
pub use tcp::{TcpNet, TcpOptions};

/// A network: the machine's, one in memory, or a simulated one.
#[async_trait]
pub trait Net: Send + Sync + fmt::Debug {
    /// Listens at the address; port 0 takes any free one.
    async fn listen(&self, addr: SocketAddr) -> Result<Listener, NetError>;
    /// Connects to the address. Without a limit in time: the caller has its own.
    async fn connect(&self, addr: SocketAddr) -> Result<Conn, NetError>;
    /// The addresses of a host name or of an address written as text; at least one.
    async fn resolve(&self, host: &str, port: u16) -> Result<Vec<SocketAddr>, NetError>;
}

impl dyn Net + '_ {
    /// Resolves the host and connects to the first of its addresses that answers.
    ///
    /// # Errors
    /// The first address's error: it is the preferred one.
    pub async fn connect_host(&self, host: &str, port: u16) -> Result<Conn, NetError> {
        let mut first_error = None;
        for addr in self.resolve(host, port).await? {
            match self.connect(addr).await {
                Ok(conn) => return Ok(conn),
                Err(error) => first_error = first_error.or(Some(error)),
            }
        }
        Err(first_error.unwrap_or_else(|| NetError::unknown_host(host, no_address())))
    }

    /// Listens at the first free port of the range.
    pub async fn listen_in(
        &self,
        ip: IpAddr,
        ports: RangeInclusive<u16>,
    ) -> Result<Listener, NetError> {
        for port in ports.clone() {
            match self.listen(SocketAddr::new(ip, port)).await {
                Err(NetError::Listen { source, .. })
                    if source.kind() == io::ErrorKind::AddrInUse => {}
                other => return other,
            }
        }
        Err(NetError::NoFreePort {
            ip,
            first: *ports.start(),
            last: *ports.end(),
        })
    }
}

/// Why there is no connection or no listener.
#[derive(Debug, thiserror::Error)]
pub enum NetError {
    /// No listener at this address.
    #[error("cannot listen at {addr}")]
    Listen {
        /// The address.
        addr: SocketAddr,
        /// What the operating system said.
        source: io::Error,
    },
    /// Every port of the range is taken.
    #[error("no free port at {ip} in {first}-{last}: widen the port range or end what holds it")]
    NoFreePort {
        /// The address.
        ip: IpAddr,
        /// The range's first port.
        first: u16,
        /// The range's last port.
        last: u16,
    },
    /// Nobody answers at this address.
    #[error("cannot connect to {addr}")]
    Connect {
        /// The address.
        addr: SocketAddr,
        /// What the operating system said.
        source: io::Error,
    },
    /// The name stands for no address.
    #[error("cannot resolve host {host:?}: check its spelling and the name service")]
    Resolve {
        /// The name.
        host: String,
        /// What the resolver said.
        source: io::Error,
    },
}

impl NetError {
    fn unknown_host(host: &str, source: io::Error) -> Self {
        Self::Resolve {
            host: host.to_owned(),
            source,
        }
    }
}

fn no_address() -> io::Error {
    io::Error::new(io::ErrorKind::NotFound, "the name has no address")
}

/// What a connection is made of.
pub trait Stream2Way: AsyncRead + AsyncWrite + Send + Unpin {}
impl<T: AsyncRead + AsyncWrite + Send + Unpin> Stream2Way for T {}

/// A connection: bytes both ways, and who is at the other end.
pub struct Conn {
    stream: Box<dyn Stream2Way>,
    local: SocketAddr,
    peer: SocketAddr,
}

impl Conn {
    /// A connection over any stream of bytes.
    pub fn new(stream: impl Stream2Way + 'static, local: SocketAddr, peer: SocketAddr) -> Self {
        Self {
            stream: Box::new(stream),
            local,
            peer,
        }
    }

    /// This end.
    pub fn local_addr(&self) -> SocketAddr {
        self.local
    }

    /// The other end.
    pub fn peer_addr(&self) -> SocketAddr {
        self.peer
    }
}

impl fmt::Debug for Conn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Conn({} - {})", self.local, self.peer)
    }
}

impl AsyncRead for Conn {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(context, buffer)
    }
}

impl AsyncWrite for Conn {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(context, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write_vectored(context, slices)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }
}

/// Accepts connections for a [`Listener`].
#[async_trait]
pub trait Accept: Send {
    /// The next connection. Dropping the future loses none.
    async fn accept(&mut self) -> io::Result<Conn>;
}

/// Takes connections at one address.
pub struct Listener {
    accept: Box<dyn Accept>,
    local: SocketAddr,
}

impl Listener {
    /// A listener at `local` over any source of connections.
    pub fn new(accept: impl Accept + 'static, local: SocketAddr) -> Self {
        Self {
            accept: Box::new(accept),
            local,
        }
    }

    /// Where it listens, with the port that was taken.
    pub fn local_addr(&self) -> SocketAddr {
        self.local
    }

    /// Waits for the next connection. An error ends the listener.
    pub async fn accept(&mut self) -> io::Result<Conn> {
        self.accept.accept().await
    }

    /// All connections, for a server that takes a stream of them; an error is its last item.
    pub fn into_stream(self) -> impl Stream<Item = io::Result<Conn>> + Send {
        stream::unfold(Some(self), |listener| async move {
            let mut listener = listener?;
            match listener.accept().await {
                Ok(conn) => Some((Ok(conn), Some(listener))),
                Err(error) => Some((Err(error), None)),
            }
        })
    }
}

impl fmt::Debug for Listener {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Listener").field(&self.local).finish()
    }
}

#[cfg(test)]
mod tests;
