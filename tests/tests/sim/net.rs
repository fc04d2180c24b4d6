//! The simulated network as `env` wants it.

use std::collections::BTreeMap;
use std::fmt;
use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use async_trait::async_trait;
use millstream_env::net::{Accept, Conn, Listener, Net, NetError};
use parking_lot::Mutex;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use turmoil::net::{TcpListener, TcpStream};

use crate::host::Control;

/// The name service of the simulation. Cloning shares it.
#[derive(Clone, Default)]
pub struct Names(Arc<Mutex<BTreeMap<String, IpAddr>>>);

impl Names {
    /// From now on the name stands for this address.
    pub fn set(&self, name: &str, ip: IpAddr) {
        self.0.lock().insert(name.to_owned(), ip);
    }

    fn get(&self, name: &str) -> Option<IpAddr> {
        self.0.lock().get(name).copied()
    }
}

/// The network of one host.
pub struct SimNet {
    names: Names,
    control: Control,
}

impl SimNet {
    pub fn new(names: Names, control: Control) -> Self {
        Self { names, control }
    }

    fn conn(&self, stream: TcpStream) -> io::Result<Conn> {
        let (local, peer) = (stream.local_addr()?, stream.peer_addr()?);
        let control = self.control.clone();
        Ok(Conn::new(Stream { stream, control }, local, peer))
    }
}

#[async_trait]
impl Net for SimNet {
    async fn listen(&self, addr: SocketAddr) -> Result<Listener, NetError> {
        let any = SocketAddr::new(Ipv4Addr::UNSPECIFIED.into(), addr.port());
        let bound = TcpListener::bind(any).await;
        let failed = |source| NetError::Listen { addr, source };
        let listener = bound.map_err(failed)?;
        let port = listener.local_addr().map_err(failed)?.port();
        let accept = SimAccept {
            listener,
            control: self.control.clone(),
        };
        Ok(Listener::new(accept, SocketAddr::new(addr.ip(), port)))
    }

    async fn connect(&self, addr: SocketAddr) -> Result<Conn, NetError> {
        let failed = |source| NetError::Connect { addr, source };
        self.control.alive().await;
        let stream = TcpStream::connect(addr).await.map_err(failed)?;
        self.conn(stream).map_err(failed)
    }

    async fn resolve(&self, host: &str, port: u16) -> Result<Vec<SocketAddr>, NetError> {
        let ip = host.parse().ok().or_else(|| self.names.get(host));
        let ip = ip.ok_or_else(|| NetError::Resolve {
            host: host.to_owned(),
            source: io::ErrorKind::NotFound.into(),
        })?;
        Ok(vec![SocketAddr::new(ip, port)])
    }
}

impl fmt::Debug for SimNet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SimNet")
    }
}

struct SimAccept {
    listener: TcpListener,
    control: Control,
}

#[async_trait]
impl Accept for SimAccept {
    async fn accept(&mut self) -> io::Result<Conn> {
        let (stream, peer) = self.listener.accept().await?;
        let local = stream.local_addr()?;
        let control = self.control.clone();
        Ok(Conn::new(Stream { stream, control }, local, peer))
    }
}

/// A connection. Nothing leaves or reaches a process that was killed in the midst of its turn.
struct Stream {
    stream: TcpStream,
    control: Control,
}

impl AsyncRead for Stream {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        if self.control.is_dead() {
            return Poll::Pending;
        }
        Pin::new(&mut self.stream).poll_read(context, buffer)
    }
}

impl AsyncWrite for Stream {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        if self.control.is_dead() {
            return Poll::Pending;
        }
        Pin::new(&mut self.stream).poll_write(context, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}
