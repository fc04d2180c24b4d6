//! Settings of the two daemons.

use std::path::PathBuf;
use std::time::Duration;

use millstream_types::TaskmanagerId;

use super::log::LogConfig;
use super::storage::StorageConfig;
use crate::error::{ConfigError, ConfigErrors};
use crate::resolved::Resolved;
use crate::value::{Host, PortRange, Value, ValueFault};

/// Liveness between jobmanager and taskmanagers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct HeartbeatConfig {
    /// Time between two heartbeats, at most a half of the timeout.
    pub interval: Duration,
    /// Silence after which the other side counts as lost.
    pub timeout: Duration,
}

/// What the tasks of one job run in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Isolation {
    /// A process of their own.
    Process,
    /// Threads of the taskmanager.
    Thread,
}

/// Settings of a jobmanager.
#[derive(Debug, Clone, PartialEq)]
pub struct JobmanagerConfig {
    /// Address that others connect to.
    pub rpc_address: Host,
    /// Port of gRPC; 0 is any.
    pub rpc_port: u16,
    /// Address that gRPC listens on.
    pub bind_host: Host,
    /// Address of the web page for others.
    pub rest_address: Host,
    /// Port of the web page and REST; 0 is any.
    pub rest_port: u16,
    /// Address that the web page and REST listen on.
    pub rest_bind_host: Host,
    /// Liveness of taskmanagers.
    pub heartbeat: HeartbeatConfig,
    /// Name of the cluster.
    pub cluster_id: String,
    /// Time that a job waits for slots.
    pub slot_request_timeout: Duration,
    /// The largest gRPC message.
    pub max_message_bytes: usize,
    /// Durable things.
    pub storage: StorageConfig,
    /// Logs.
    pub log: LogConfig,
}

impl JobmanagerConfig {
    /// Checks what the table says about a jobmanager.
    ///
    /// # Errors
    /// Values that do not go together; listeners beyond loopback without `security.transport`.
    pub fn new(table: &Resolved) -> Result<Self, ConfigErrors> {
        let mut faults = Vec::new();
        let config = Self {
            rpc_address: host(table, "jobmanager.rpc.address"),
            rpc_port: table.port("jobmanager.rpc.port"),
            bind_host: listener(table, "jobmanager.bind-host", &mut faults),
            rest_address: table
                .host("rest.address")
                .unwrap_or_else(|| host(table, "jobmanager.rpc.address")),
            rest_port: table.port("rest.port"),
            rest_bind_host: listener(table, "rest.bind-host", &mut faults),
            heartbeat: heartbeat(table, &mut faults),
            cluster_id: table
                .text("high-availability.cluster-id")
                .unwrap_or_default()
                .to_owned(),
            slot_request_timeout: table.duration("slot.request.timeout"),
            max_message_bytes: max_message(table),
            storage: StorageConfig::new(table)?,
            log: LogConfig::new(table),
        };
        if config.rpc_port != 0 && config.rpc_port == config.rest_port {
            faults.push(ConfigError::Conflict {
                what: format!(
                    "{} and {}: one port for two listeners",
                    table.stated("jobmanager.rpc.port"),
                    table.stated("rest.port")
                ),
                remedy: "choose another rest.port".to_owned(),
            });
        }
        ConfigErrors::check(faults)?;
        Ok(config)
    }
}

/// Settings of a taskmanager.
#[derive(Debug, Clone, PartialEq)]
pub struct TaskmanagerConfig {
    /// Where its jobmanager is.
    pub jobmanager_address: Host,
    /// The jobmanager's port of gRPC.
    pub jobmanager_port: u16,
    /// Its name; `None` is generated.
    pub resource_id: Option<TaskmanagerId>,
    /// Slots, at least 1.
    pub slots: u32,
    /// Address that others connect to; `None` is the local address of the control connection.
    pub host: Option<Host>,
    /// Address that the data ports listen on.
    pub bind_host: Host,
    /// Ports of the job processes.
    pub data_ports: PortRange,
    /// What tasks run in.
    pub isolation: Isolation,
    /// Time to find and join a jobmanager.
    pub registration_timeout: Duration,
    /// Liveness of the jobmanager.
    pub heartbeat: HeartbeatConfig,
    /// Memory of the taskmanager with its job processes; `None` is what the container allows.
    pub process_memory_bytes: Option<u64>,
    /// Part of the memory for keyed state in RocksDB.
    pub managed_memory_fraction: f64,
    /// Encoded bytes on the way per channel.
    pub channel_window_bytes: u64,
    /// Working directories of RocksDB; empty is the temporary directory.
    pub state_dirs: Vec<PathBuf>,
    /// The largest gRPC message.
    pub max_message_bytes: usize,
    /// Durable things.
    pub storage: StorageConfig,
    /// Logs.
    pub log: LogConfig,
}

impl TaskmanagerConfig {
    /// Checks what the table says about a taskmanager.
    ///
    /// # Errors
    /// Values that do not go together; listeners beyond loopback without `security.transport`.
    pub fn new(table: &Resolved) -> Result<Self, ConfigErrors> {
        let mut faults = Vec::new();
        let config = Self {
            jobmanager_address: host(table, "jobmanager.rpc.address"),
            jobmanager_port: table.port("jobmanager.rpc.port"),
            resource_id: resource_id(table, &mut faults),
            slots: table.int("taskmanager.numberOfTaskSlots"),
            host: table.host("taskmanager.host"),
            bind_host: listener(table, "taskmanager.bind-host", &mut faults),
            data_ports: match table.value("taskmanager.data.port-range") {
                Some(Value::Ports(ports)) => ports.clone(),
                other => unreachable!("taskmanager.data.port-range is {other:?}"),
            },
            isolation: match table.choice("taskmanager.isolation") {
                Some("thread") => Isolation::Thread,
                _ => Isolation::Process,
            },
            registration_timeout: table.duration("taskmanager.registration.timeout"),
            heartbeat: heartbeat(table, &mut faults),
            process_memory_bytes: table.bytes_if_set("taskmanager.memory.process.size"),
            managed_memory_fraction: table.float("taskmanager.memory.managed.fraction"),
            channel_window_bytes: table.bytes("taskmanager.network.memory.window"),
            state_dirs: match table.value("state.backend.rocksdb.localdir") {
                Some(Value::List(dirs)) => dirs.iter().map(PathBuf::from).collect(),
                _ => Vec::new(),
            },
            max_message_bytes: max_message(table),
            storage: StorageConfig::new(table)?,
            log: LogConfig::new(table),
        };
        ConfigErrors::check(faults)?;
        Ok(config)
    }
}

fn resource_id(table: &Resolved, faults: &mut Vec<ConfigError>) -> Option<TaskmanagerId> {
    const KEY: &str = "taskmanager.resource-id";
    let text = table.text(KEY)?;
    let id = TaskmanagerId::new(text);
    if let Err(error) = &id {
        faults.push(ConfigError::Value {
            origin: table.row(KEY)?.origin.clone(),
            key: KEY.to_owned(),
            fault: ValueFault::Refused {
                found: text.to_owned(),
                why: error.to_string(),
            },
        });
    }
    id.ok()
}

fn host(table: &Resolved, name: &str) -> Host {
    table.host(name).expect("the key has a default")
}

/// An address to listen on. Until connections are protected, whoever listens where others reach him
/// must have written down that he knows.
fn listener(table: &Resolved, key: &'static str, faults: &mut Vec<ConfigError>) -> Host {
    let host = host(table, key);
    if !host.is_loopback() && table.choice("security.transport").is_none() {
        faults.push(ConfigError::Unprotected {
            key,
            host: host.to_string(),
        });
    }
    host
}

fn heartbeat(table: &Resolved, faults: &mut Vec<ConfigError>) -> HeartbeatConfig {
    let config = HeartbeatConfig {
        interval: table.duration("heartbeat.interval"),
        timeout: table.duration("heartbeat.timeout"),
    };
    if config.timeout < config.interval.saturating_mul(2) {
        faults.push(ConfigError::Conflict {
            what: format!(
                "{} and {}: one lost heartbeat would be a failure",
                table.stated("heartbeat.interval"),
                table.stated("heartbeat.timeout")
            ),
            remedy: "set heartbeat.timeout to twice heartbeat.interval or more".to_owned(),
        });
    }
    config
}

fn max_message(table: &Resolved) -> usize {
    usize::try_from(table.bytes("rpc.max-message-size")).expect("bounded by the table")
}
