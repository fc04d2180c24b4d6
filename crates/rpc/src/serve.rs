//! Servers over connections of `env`, with every limit written down.

use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use futures::future::BoxFuture;
use futures::{FutureExt, StreamExt};
use millstream_env::net::{Conn, Listener};
use millstream_env::{Env, StopSignal};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tonic::service::{Routes, RoutesBuilder};
use tonic::transport::Server;
use tonic::transport::server::Connected;
use tonic_health::ServingStatus;

use crate::connect::{CONNECTION_WINDOW, HTTP2_FRAME, STREAM_WINDOW};
use crate::control::{ControlGateway, control_service};
use crate::data::{DataGateway, data_service};
use crate::jobs::{JobGateway, job_service};
use crate::status::in_words;

/// The file descriptors of all services, for clients that know none.
const DESCRIPTORS: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/descriptors.bin"));

/// What an HTTP/2 client says first.
const PREFACE_BYTES: usize = 24;
/// Resets by the peer that may wait, and resets that it may provoke (rapid reset).
const PENDING_RESETS_MAX: usize = 20;
const PROVOKED_RESETS_MAX: usize = 1_024;
/// How long calls may go on when the server stops.
const GRACE: Duration = Duration::from_millis(500);

/// Bounds of a server.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ServerLimits {
    /// Largest control message (`rpc.max-message-size`).
    pub message_bytes: usize,
    /// Calls at once on one connection.
    pub streams: u32,
    /// Headers of one request.
    pub header_bytes: u32,
    /// Connections at once; further ones wait to be accepted.
    pub connections: usize,
    /// In which a new connection must have said what it is.
    pub handshake_timeout: Duration,
    /// Silence after which a peer is asked whether it is there.
    pub keepalive_interval: Duration,
    /// In which it must answer.
    pub keepalive_timeout: Duration,
    /// In which a call must be answered; streams only have to begin by then.
    pub call_timeout: Duration,
}

impl Default for ServerLimits {
    fn default() -> Self {
        Self {
            message_bytes: crate::control::MESSAGE_BYTES_MAX,
            streams: 200,
            header_bytes: 16 << 10,
            connections: 2_000,
            handshake_timeout: Duration::from_secs(5),
            keepalive_interval: Duration::from_secs(10),
            keepalive_timeout: Duration::from_secs(10),
            call_timeout: Duration::from_secs(120),
        }
    }
}

/// A server that cannot go on.
#[derive(Debug, thiserror::Error)]
#[error("the gRPC server at {address} ended: {cause}")]
pub struct ServeError {
    /// Where it listened.
    pub address: SocketAddr,
    /// In words.
    pub cause: String,
}

/// Serves a jobmanager: jobs for users, control streams for taskmanagers, health and reflection.
/// Returns when `stop` is given and its connections are closed.
pub async fn serve_jobmanager(
    env: &Env,
    listener: Listener,
    limits: ServerLimits,
    jobs: Arc<dyn JobGateway>,
    control: Arc<dyn ControlGateway>,
    stop: StopSignal,
) -> Result<(), ServeError> {
    let mut routes = RoutesBuilder::default();
    routes.add_service(job_service(jobs));
    routes.add_service(control_service(env, control, limits.message_bytes));
    let (health, health_service) = tonic_health::server::health_reporter();
    for service in ["millstream.v1.JobService", "millstream.v1.ControlService"] {
        health
            .set_service_status(service, ServingStatus::Serving)
            .await;
    }
    routes.add_service(health_service);
    let reflection = || {
        tonic_reflection::server::Builder::configure()
            .register_encoded_file_descriptor_set(DESCRIPTORS)
            .register_encoded_file_descriptor_set(tonic_health::pb::FILE_DESCRIPTOR_SET)
    };
    let refused = |error: tonic_reflection::server::Error| ServeError {
        address: listener.local_addr(),
        cause: in_words(&error),
    };
    routes.add_service(reflection().build_v1().map_err(refused)?);
    routes.add_service(reflection().build_v1alpha().map_err(refused)?);
    serve(env, listener, limits, routes.routes(), stop).await
}

/// Serves the data plane of a job process. Returns when `stop` is given and its connections are
/// closed.
pub async fn serve_data(
    env: &Env,
    listener: Listener,
    limits: ServerLimits,
    gateway: Arc<dyn DataGateway>,
    stop: StopSignal,
) -> Result<(), ServeError> {
    let mut routes = RoutesBuilder::default();
    routes.add_service(data_service(gateway));
    serve(env, listener, limits, routes.routes(), stop).await
}

async fn serve(
    env: &Env,
    listener: Listener,
    limits: ServerLimits,
    routes: Routes,
    stop: StopSignal,
) -> Result<(), ServeError> {
    let address = listener.local_addr();
    let cut = StopSignal::new();
    let _cut_at_the_end = cut.clone().drop_guard();
    let connections = Arc::new(Semaphore::new(limits.connections));
    let incoming = listener.into_stream().then(|accepted| {
        let (connections, cut) = (Arc::clone(&connections), cut.clone());
        async move {
            let permit = connections
                .acquire_owned()
                .await
                .map_err(io::Error::other)?;
            Ok::<_, io::Error>(ServerConn::new(
                accepted?,
                permit,
                env,
                limits.handshake_timeout,
                cut,
            ))
        }
    });
    let server = Server::builder()
        .max_concurrent_streams(limits.streams)
        .http2_max_header_list_size(limits.header_bytes)
        .http2_keepalive_interval(Some(limits.keepalive_interval))
        .http2_keepalive_timeout(Some(limits.keepalive_timeout))
        .http2_max_pending_accept_reset_streams(Some(PENDING_RESETS_MAX))
        .http2_max_local_error_reset_streams(Some(PROVOKED_RESETS_MAX))
        .initial_stream_window_size(STREAM_WINDOW)
        .initial_connection_window_size(CONNECTION_WINDOW)
        .max_frame_size(HTTP2_FRAME)
        .accept_http1(false)
        .timeout(limits.call_timeout)
        .add_routes(routes);
    let serving = server.serve_with_incoming_shutdown(incoming, stop.clone().cancelled_owned());
    let too_long = async {
        stop.cancelled().await;
        env.clock().sleep(GRACE).await;
    };
    tokio::select! {
        result = serving => result.map_err(|error| ServeError { address, cause: in_words(&error) }),
        () = too_long => Ok(()),
    }
}

/// A connection that is closed when it does not say what it is, and when its server ends.
struct ServerConn {
    conn: Conn,
    greeting: Option<Greeting>,
    cut: BoxFuture<'static, ()>,
    _permit: OwnedSemaphorePermit,
}

struct Greeting {
    missing: usize,
    deadline: BoxFuture<'static, ()>,
}

impl ServerConn {
    fn new(
        conn: Conn,
        permit: OwnedSemaphorePermit,
        env: &Env,
        timeout: Duration,
        cut: StopSignal,
    ) -> Self {
        let clock = env.clock().clone();
        let deadline = async move { clock.sleep(timeout).await }.boxed();
        Self {
            conn,
            greeting: Some(Greeting {
                missing: PREFACE_BYTES,
                deadline,
            }),
            cut: cut.cancelled_owned().boxed(),
            _permit: permit,
        }
    }
}

/// Both ends of a connection, for handlers.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ends {
    pub(crate) local: SocketAddr,
    pub(crate) peer: SocketAddr,
}

impl Connected for ServerConn {
    type ConnectInfo = Ends;

    fn connect_info(&self) -> Ends {
        Ends {
            local: self.conn.local_addr(),
            peer: self.conn.peer_addr(),
        }
    }
}

impl AsyncRead for ServerConn {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        if self.cut.poll_unpin(context).is_ready() {
            return Poll::Ready(Err(io::ErrorKind::ConnectionAborted.into()));
        }
        if let Some(greeting) = &mut self.greeting
            && greeting.deadline.poll_unpin(context).is_ready()
        {
            return Poll::Ready(Err(io::ErrorKind::TimedOut.into()));
        }
        let before = buffer.filled().len();
        let read = Pin::new(&mut self.conn).poll_read(context, buffer);
        let arrived = buffer.filled().len() - before;
        if let Some(greeting) = &mut self.greeting {
            greeting.missing = greeting.missing.saturating_sub(arrived);
            if greeting.missing == 0 {
                self.greeting = None;
            }
        }
        read
    }
}

impl AsyncWrite for ServerConn {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.conn).poll_write(context, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.conn).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.conn).poll_shutdown(context)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.conn).poll_write_vectored(context, slices)
    }

    fn is_write_vectored(&self) -> bool {
        self.conn.is_write_vectored()
    }
}

#[cfg(test)]
mod tests;
