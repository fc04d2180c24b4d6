//! The jobmanager as a daemon: gRPC for users and taskmanagers, REST and the page for browsers.

mod command_line;
mod storage;

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use millstream_config::{Host, JobmanagerConfig, Resolved, SecretError};
use millstream_env::net::{Listener, NetError};
use millstream_env::{Env, Signals, StopSignal};
use millstream_rpc::{ServerLimits, serve_jobmanager};
use millstream_snapshot::OpenError;
use millstream_types::errors::{self, ErrorCode};
use tracing::{error, info, warn};

pub use command_line::main;

use crate::gateway::{ControlStreams, Jobs, View, WireGraphs};
use crate::{Jobmanager, JobmanagerSettings, StartError};

/// Time for what still runs after everything was told to end.
const SHUTDOWN_GRACE: Duration = Duration::from_secs(5);

/// Why a jobmanager ended that was not told to, or never began.
#[derive(Debug, thiserror::Error)]
pub enum DaemonError {
    /// A secret of the configuration is not where it should be.
    #[error("the storage's credentials cannot be used")]
    Secret(#[from] SecretError),
    /// The storage is not there, or not fit.
    #[error(transparent)]
    Storage(#[from] Box<OpenError>),
    /// A host to listen on has no address.
    #[error("{key} is {host:?}, which is no address of this machine")]
    BindHost {
        /// The key.
        key: &'static str,
        /// The host.
        host: String,
    },
    /// Somebody else listens there.
    #[error("{what} cannot listen on {address}: the port is taken")]
    PortTaken {
        /// "gRPC", "REST".
        what: &'static str,
        /// Where.
        address: SocketAddr,
    },
    /// A port cannot be listened on.
    #[error("{what} cannot listen on {address}")]
    Listen {
        /// "gRPC", "REST".
        what: &'static str,
        /// Where.
        address: SocketAddr,
        /// Why.
        #[source]
        source: io::Error,
    },
    /// Its jobs cannot be looked after.
    #[error("the jobmanager cannot start")]
    Start(#[from] StartError),
    /// A server ended by itself.
    #[error("{what} ended: {cause}")]
    Server {
        /// "gRPC", "REST".
        what: &'static str,
        /// In words.
        cause: String,
    },
}

impl DaemonError {
    /// Its code.
    pub fn code(&self) -> ErrorCode {
        match self {
            Self::Secret(error) => error.code(),
            Self::Storage(error) => error.code(),
            Self::BindHost { .. } => errors::BIND_HOST,
            Self::PortTaken { .. } => errors::PORT_TAKEN,
            Self::Listen { .. } => errors::CANNOT_LISTEN,
            Self::Start(error) => error.code(),
            Self::Server { .. } => errors::SERVER_ENDED,
        }
    }

    /// What to do about it.
    pub fn remedy(&self) -> String {
        match self {
            Self::Secret(error) => error.remedy(),
            Self::Storage(error) => error.remedy(),
            Self::BindHost { key, .. } => format!("set {key} to an address, such as 127.0.0.1"),
            Self::PortTaken { what, .. } => {
                let key = port_key(what);
                format!("end what listens there, or set {key} to another port")
            }
            Self::Listen { what, address, .. } => {
                let key = port_key(what);
                format!(
                    "check that {} is an address of this machine, and that this user may use the \
                     port, or set {key} to another one",
                    address.ip()
                )
            }
            Self::Start(error) => error.remedy(),
            Self::Server { .. } => "start the jobmanager again: it resumes its jobs".to_owned(),
        }
    }
}

/// The key of the port of "gRPC" or "REST".
fn port_key(what: &str) -> &'static str {
    match what {
        "REST" => "rest.port",
        _ => "jobmanager.rpc.port",
    }
}

/// Runs a jobmanager until a signal asks it to end. Jobs go on when one is started again on the
/// same storage.
pub async fn run(
    env: Env,
    config: &JobmanagerConfig,
    table: Resolved,
    mut signals: Signals,
) -> Result<(), DaemonError> {
    let storage = storage::open(&env, &config.storage).await?;
    let rpc = listen(
        &env,
        "gRPC",
        "jobmanager.bind-host",
        &config.bind_host,
        config.rpc_port,
    );
    let rpc = rpc.await?;
    let rest = listen(
        &env,
        "REST",
        "rest.bind-host",
        &config.rest_bind_host,
        config.rest_port,
    );
    let rest = rest.await?;
    info!(
        grpc = %rpc.local_addr(),
        rest = %rest.local_addr(),
        page = %format_args!("http://{}", config.rest_address.with_port(rest.local_addr().port())),
        "jobmanager listens"
    );
    let settings = JobmanagerSettings::new(config, table, storage, Arc::new(WireGraphs));
    let jobmanager = Jobmanager::start(&env, settings).await?;
    let stop = StopSignal::new();
    let limits = ServerLimits {
        message_bytes: config.max_message_bytes,
        ..ServerLimits::default()
    };
    let jobs = Arc::new(Jobs(jobmanager.clone()));
    let control = Arc::new(ControlStreams(jobmanager.clone()));
    let grpc = serve_jobmanager(&env, rpc, limits, jobs, control, stop.clone());
    let view = Arc::new(View(jobmanager.clone()));
    let web = millstream_rest::serve(rest, view, env.clock().clone(), stop.clone());
    let ended = tokio::select! {
        ended = grpc => Err(("gRPC", ended.err().map(|e| millstream_telemetry::chain(&e)))),
        ended = web => Err(("REST", ended.err().map(|e| millstream_telemetry::chain(&e)))),
        signal = signals.next() => Ok(signal),
    };
    stop.cancel();
    let report = jobmanager.shutdown(SHUTDOWN_GRACE).await;
    if !report.is_clean() {
        warn!(?report, "not everything ended by itself");
    }
    match ended {
        Ok(signal) => {
            info!(%signal, "jobmanager ended; its jobs go on when one is started on this storage");
            Ok(())
        }
        Err((what, cause)) => {
            let cause = cause.unwrap_or_else(|| "without a reason".to_owned());
            error!("{what} ended: {cause}");
            Err(DaemonError::Server { what, cause })
        }
    }
}

async fn listen(
    env: &Env,
    what: &'static str,
    key: &'static str,
    host: &Host,
    port: u16,
) -> Result<Listener, DaemonError> {
    let none = || DaemonError::BindHost {
        key,
        host: host.as_str().to_owned(),
    };
    let ip = match host.ip() {
        Some(ip) => ip,
        None => {
            let resolved = env
                .net()
                .resolve(host.as_str(), port)
                .await
                .map_err(|_| none())?;
            resolved.first().ok_or_else(none)?.ip()
        }
    };
    let address = SocketAddr::new(ip, port);
    env.net()
        .listen(address)
        .await
        .map_err(|error| not_listening(what, address, error))
}

fn not_listening(what: &'static str, address: SocketAddr, error: NetError) -> DaemonError {
    match error {
        NetError::Listen { source, .. } if source.kind() == io::ErrorKind::AddrInUse => {
            DaemonError::PortTaken { what, address }
        }
        NetError::Listen { source, .. } => DaemonError::Listen {
            what,
            address,
            source,
        },
        error => DaemonError::Listen {
            what,
            address,
            source: io::Error::other(error),
        },
    }
}
