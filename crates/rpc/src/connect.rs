//! Connections to servers of ours.

use std::error::Error;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use hyper_util::rt::TokioIo;
use millstream_env::Env;
use millstream_env::net::{Conn, NetError};
use millstream_types::errors::{self, ErrorCode};
use millstream_types::rounded;
use tokio::sync::Mutex;
use tonic::transport::{Channel, Endpoint};
use tonic_health::pb::HealthCheckRequest;
use tonic_health::pb::health_client::HealthClient;

use crate::status::in_words;

/// Bytes on the way per stream and per connection: far above what one round trip needs.
pub(crate) const STREAM_WINDOW: u32 = 4 << 20;
pub(crate) const CONNECTION_WINDOW: u32 = 16 << 20;
/// An HTTP/2 frame: larger than the default, so that a data frame is not cut into sixty-four.
pub(crate) const HTTP2_FRAME: u32 = 256 << 10;
const HEADER_BYTES_MAX: u32 = 16 << 10;

/// Why there is no connection. Display names the address and the cause.
#[derive(Debug, thiserror::Error)]
pub enum ConnectError {
    /// The text is no address.
    #[error("{address:?} is no address: expected host:port, such as localhost:6123")]
    Address {
        /// As given.
        address: String,
    },
    /// The name stands for no address.
    #[error("cannot reach {address}: the host name cannot be resolved")]
    Resolve {
        /// The address.
        address: String,
        /// What the resolver said.
        source: io::Error,
    },
    /// Nobody listens there.
    #[error("cannot reach {address}: connection refused, nothing listens there")]
    Refused {
        /// The address.
        address: String,
    },
    /// No answer in time.
    #[error("cannot reach {address}: no answer within {}", rounded(.waited))]
    Timeout {
        /// The address.
        address: String,
        /// How long was waited.
        waited: Duration,
    },
    /// Another reason.
    #[error("cannot reach {address}: {cause}")]
    Unreachable {
        /// The address.
        address: String,
        /// In words.
        cause: String,
    },
    /// Something else listens there.
    #[error("{address} answers, but not as a Millstream {what} does: {cause}")]
    WrongProtocol {
        /// The address.
        address: String,
        /// What was expected there.
        what: &'static str,
        /// In words.
        cause: String,
    },
}

impl ConnectError {
    /// Its code.
    pub fn code(&self) -> ErrorCode {
        match self {
            Self::Address { .. } => errors::NO_ADDRESS,
            Self::Resolve { .. } => errors::UNKNOWN_HOST,
            Self::Refused { .. } => errors::NOBODY_LISTENS,
            Self::Timeout { .. } => errors::NO_ANSWER,
            Self::Unreachable { .. } => errors::UNREACHABLE,
            Self::WrongProtocol { .. } => errors::OTHER_SERVER,
        }
    }

    /// What to do about it.
    pub fn remedy(&self) -> &'static str {
        match self {
            Self::Address { .. } => "write the address as host:port, IPv6 as [::1]:6123",
            Self::Resolve { .. } => "check the spelling of the host and the name service",
            Self::Refused { .. } => "check that the daemon runs and that the port is its gRPC port",
            Self::Timeout { .. } | Self::Unreachable { .. } => {
                "check the network and firewalls between this host and that address"
            }
            Self::WrongProtocol { .. } => {
                "check the port: gRPC is 6123 by default, 8081 is the web page"
            }
        }
    }

    fn of_net(address: &str, error: NetError) -> Self {
        let address = address.to_owned();
        match error {
            NetError::Resolve { source, .. } => Self::Resolve { address, source },
            NetError::Connect { source, .. }
                if source.kind() == io::ErrorKind::ConnectionRefused =>
            {
                Self::Refused { address }
            }
            NetError::Connect { source, .. } => Self::Unreachable {
                address,
                cause: source.to_string(),
            },
            error @ (NetError::Listen { .. } | NetError::NoFreePort { .. }) => Self::Unreachable {
                address,
                cause: in_words(&error),
            },
        }
    }
}

/// A connection to one server.
#[derive(Clone, Debug)]
pub struct Connection {
    channel: Channel,
    address: String,
    may_redial: Arc<AtomicBool>,
}

impl Connection {
    /// The address as it was given.
    pub fn address(&self) -> &str {
        &self.address
    }

    pub(crate) fn channel(&self) -> Channel {
        self.channel.clone()
    }
}

/// Connects to the jobmanager at `address` ("host:port") within `timeout`, and checks that it is
/// one. A connection that breaks is made anew by the next call.
pub async fn connect(
    env: &Env,
    address: &str,
    timeout: Duration,
) -> Result<Connection, ConnectError> {
    let no_address = || ConnectError::Address {
        address: address.to_owned(),
    };
    let (host, port) = address.rsplit_once(':').ok_or_else(no_address)?;
    let port: u16 = port.parse().map_err(|_| no_address())?;
    if host.is_empty() || (host.contains(':') && !host.starts_with('[')) {
        return Err(no_address());
    }
    let connecting = async {
        let connection = open(env, address, host, port, timeout).await?;
        check(&connection, "jobmanager").await?;
        connection.may_redial.store(true, Ordering::Relaxed);
        Ok(connection)
    };
    let result = env.clock().timeout(timeout, connecting).await;
    let waited = timeout;
    result.map_err(|_| ConnectError::Timeout {
        address: address.to_owned(),
        waited,
    })?
}

/// A connection without the check of who answers. It is made once: until the check, a server that
/// hangs up is not one of ours, and dialling again would hide that.
pub(crate) async fn open(
    env: &Env,
    address: &str,
    host: &str,
    port: u16,
    timeout: Duration,
) -> Result<Connection, ConnectError> {
    let first = env.net().connect_host(host, port).await;
    let first = first.map_err(|error| ConnectError::of_net(address, error))?;
    let may_redial = Arc::new(AtomicBool::new(false));
    let dial = Dial {
        env: env.clone(),
        host: host.to_owned(),
        port,
        timeout,
        first: Arc::new(Mutex::new(Some(first))),
        may_redial: Arc::clone(&may_redial),
    };
    let connector = tower::service_fn(move |_| {
        let dial = dial.clone();
        async move { dial.next().await.map(TokioIo::new) }
    });
    // The name is for the requests' headers only: the connector knows where to.
    let endpoint = Endpoint::from_static("http://millstream")
        .http2_keep_alive_interval(Duration::from_secs(10))
        .keep_alive_timeout(Duration::from_secs(10))
        .keep_alive_while_idle(true)
        .initial_stream_window_size(STREAM_WINDOW)
        .initial_connection_window_size(CONNECTION_WINDOW)
        .max_frame_size(HTTP2_FRAME)
        .http2_max_header_list_size(HEADER_BYTES_MAX);
    let channel = endpoint
        .connect_with_connector(connector)
        .await
        .map_err(|error| ConnectError::Unreachable {
            address: address.to_owned(),
            cause: in_words(&error),
        })?;
    Ok(Connection {
        channel,
        address: address.to_owned(),
        may_redial,
    })
}

/// Whether a server of ours answers. Something else shows itself with the first request only.
async fn check(connection: &Connection, what: &'static str) -> Result<(), ConnectError> {
    let mut health = HealthClient::new(connection.channel());
    let answer = health
        .check(HealthCheckRequest {
            service: String::new(),
        })
        .await;
    answer.map(drop).map_err(|status| {
        let cause = match status.source() {
            Some(source) => in_words(source),
            None => status.message().to_owned(),
        };
        ConnectError::WrongProtocol {
            address: connection.address.clone(),
            what,
            cause,
        }
    })
}

/// Makes the connections of one channel.
#[derive(Clone)]
struct Dial {
    env: Env,
    host: String,
    port: u16,
    timeout: Duration,
    /// Made before the channel, for the sake of its error.
    first: Arc<Mutex<Option<Conn>>>,
    may_redial: Arc<AtomicBool>,
}

impl Dial {
    async fn next(&self) -> io::Result<Conn> {
        if let Some(conn) = self.first.lock().await.take() {
            return Ok(conn);
        }
        if !self.may_redial.load(Ordering::Relaxed) {
            return Err(io::Error::other(
                "it closed the connection without an answer",
            ));
        }
        let net = self.env.net();
        let connecting = net.connect_host(&self.host, self.port);
        match self.env.clock().timeout(self.timeout, connecting).await {
            Ok(Ok(conn)) => Ok(conn),
            Ok(Err(error)) => Err(io::Error::other(in_words(&error))),
            Err(elapsed) => {
                let text = format!("no answer within {}", rounded(elapsed.limit));
                Err(io::Error::new(io::ErrorKind::TimedOut, text))
            }
        }
    }
}
