//! The taskmanager as a daemon.

mod command_line;
mod network;

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use millstream_config::{Isolation, Resolved, SecretError, TaskmanagerConfig};
use millstream_env::{Env, Signals, StopSignal};
use millstream_types::errors::{self, ErrorCode};
use millstream_types::{TaskmanagerId, rounded};
use tokio::sync::mpsc;
use tracing::{info, warn};

pub use command_line::main;

use crate::advertise::Advertise;
use crate::budget::{Budget, state_dirs};
use crate::host::{HostEvent, JobHost, NetDataPlane, OpenDataPlane, Serving, ThreadHost};
use crate::leftovers;
use crate::process::{ProcessHost, ProcessSettings, StarterError};
use crate::shell::{EVENTS_MAX, Ending, Member, Shell};
use crate::sight::{OtherStorage, Sight};
use crate::storage::Stores;
use crate::supervisor::SupervisorConfig;
use millstream_launch::StorageAccess;
use network::ControlNetwork;

/// Time for what still runs after everything was told to end.
const SHUTDOWN_GRACE: Duration = Duration::from_secs(1);

/// What a taskmanager daemon is started with.
#[derive(Clone, Debug)]
pub struct DaemonSettings {
    /// Its configuration.
    pub config: TaskmanagerConfig,
    /// The table the configuration is from: job processes get it whole.
    pub table: Resolved,
    /// The program of job processes; `/proc/self/exe` unless this is not the `taskmanager` binary.
    pub program: PathBuf,
    /// Fail points of job processes; see [`ProcessSettings::fail_points`].
    pub fail_points: Option<String>,
}

/// Why a taskmanager ended that was not told to, or never began.
#[derive(Debug, thiserror::Error)]
pub enum DaemonError {
    /// A secret of the configuration is not where it should be.
    #[error("the storage's credentials cannot be used")]
    Secret(#[from] SecretError),
    /// No job process could ever be started.
    #[error("job processes cannot be started")]
    Starter(#[from] StarterError),
    /// This machine does not see the storage of the cluster.
    #[error("this taskmanager cannot work for its jobmanager")]
    OtherStorage(#[source] Box<OtherStorage>),
    /// No jobmanager within `taskmanager.registration.timeout`.
    #[error("no jobmanager at {address} took this taskmanager in for {}: {reason}", rounded(.waited))]
    NoJobmanager {
        /// Where it was looked for.
        address: String,
        /// How long.
        waited: Duration,
        /// Why the last attempt failed.
        reason: String,
    },
}

impl DaemonError {
    /// Its code.
    pub fn code(&self) -> ErrorCode {
        match self {
            Self::Secret(error) => error.code(),
            Self::Starter(_) => errors::PROCESS,
            Self::OtherStorage(_) => errors::STORE_NOT_SHARED,
            Self::NoJobmanager { .. } => errors::NO_JOBMANAGER,
        }
    }

    /// What to do about it.
    pub fn remedy(&self) -> String {
        match self {
            Self::Secret(error) => error.remedy(),
            Self::Starter(_) => {
                "raise the limits of processes and open files of this user".to_owned()
            }
            Self::OtherStorage(error) => error.remedy(),
            Self::NoJobmanager { .. } => "check jobmanager.rpc.address and jobmanager.rpc.port, \
                                          and that the jobmanager runs"
                .to_owned(),
        }
    }
}

/// Runs a taskmanager until a signal asks it to end, or until no jobmanager takes it in. The first
/// signal moves its tasks away, the second ends the process at once (see [`Signals`]).
pub async fn run(
    env: Env,
    settings: DaemonSettings,
    mut signals: Signals,
) -> Result<(), DaemonError> {
    let env = env.component("taskmanager");
    let config = &settings.config;
    leftovers::sweep(&state_dirs(config));
    let budget = Budget::new(&env, config);
    let member = member(&env, config);
    info!(
        taskmanager_id = %member.id,
        slots = member.slots,
        memory_per_slot_bytes = budget.per_slot_bytes(),
        "taskmanager starts"
    );
    let (sender, events) = mpsc::channel(EVENTS_MAX);
    let is_process = config.isolation == Isolation::Process;
    let supervisor = SupervisorConfig {
        registration_timeout: Some(config.registration_timeout),
        // Threads share this process's memory: nothing could be ended for one job's excess.
        memory_per_slot_bytes: is_process.then(|| budget.per_slot_bytes()),
    };
    let host = host(&env, &settings, budget, sender)?;
    let access = StorageAccess::new(&config.storage.s3, &env)?;
    let sight = Sight::new(&env, access, member.host.clone(), &config.storage);
    let network = Arc::new(ControlNetwork::new(&env, config, sight));
    let shell = Shell::new(env.clone(), member, supervisor, network, host, events);
    let leave = StopSignal::new();
    let mut work = std::pin::pin!(shell.run(leave.clone()));
    let ending = tokio::select! {
        ending = &mut work => ending,
        signal = signals.next() => {
            info!(%signal, "taskmanager leaves: its tasks are canceled and its jobs move");
            leave.cancel();
            work.await
        }
    };
    let report = env.shutdown(SHUTDOWN_GRACE).await;
    if !report.is_clean() {
        warn!(?report, "not everything ended by itself");
    }
    match ending {
        Ending::Drained => {
            info!("taskmanager ended");
            Ok(())
        }
        Ending::OtherStorage(other) => Err(DaemonError::OtherStorage(other)),
        Ending::GaveUp { reason } => Err(DaemonError::NoJobmanager {
            address: settings
                .config
                .jobmanager_address
                .with_port(settings.config.jobmanager_port),
            waited: settings.config.registration_timeout,
            reason,
        }),
    }
}

fn member(env: &Env, config: &TaskmanagerConfig) -> Member {
    let generated = || {
        let id = format!("tm-{:08x}", env.rng().u64() as u32);
        TaskmanagerId::new(&id).expect("letters, digits and a dash are an id")
    };
    Member {
        id: config.resource_id.clone().unwrap_or_else(generated),
        slots: config.slots,
        advertise: Advertise {
            configured: config.host.as_ref().map(|host| host.as_str().to_owned()),
            bind: config.bind_host.ip(),
        },
        host: host_name(env),
    }
}

fn host_name(env: &Env) -> String {
    let path = PathBuf::from("/proc/sys/kernel/hostname");
    let bytes = env.fs().read(&path, 1_024).unwrap_or_default();
    let name = String::from_utf8_lossy(&bytes).trim().to_owned();
    if name.is_empty() {
        return "localhost".to_owned();
    }
    name
}

fn host(
    env: &Env,
    settings: &DaemonSettings,
    budget: Budget,
    events: mpsc::Sender<HostEvent>,
) -> Result<Box<dyn JobHost>, DaemonError> {
    let config = &settings.config;
    match config.isolation {
        Isolation::Process => {
            let settings = ProcessSettings {
                program: settings.program.clone(),
                args: Vec::new(),
                config: settings.table.print_config(),
                fail_points: settings.fail_points.clone(),
                state_dirs: state_dirs(config),
            };
            Ok(Box::new(ProcessHost::new(env, settings, events)?))
        }
        Isolation::Thread => {
            let access = StorageAccess::new(&config.storage.s3, env)?;
            let default = config.storage.checkpoints.clone();
            let serving = Serving {
                env: env.clone(),
                settings: budget.job_process_settings(config),
                stores: Arc::new(Stores::new(env.clone(), default, access)),
            };
            let (env, config) = (env.clone(), config.clone());
            let data = move |identity: &crate::host::HostIdentity| -> Arc<dyn OpenDataPlane> {
                Arc::new(NetDataPlane::new(&env, &config, identity.clone()))
            };
            Ok(Box::new(ThreadHost::new(serving, data, events)))
        }
    }
}
