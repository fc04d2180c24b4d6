//! Installs the log of a process.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use millstream_types::WallTime;
use serde_json::Value;
use tracing::Subscriber;
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::{EnvFilter, Registry, reload};

use crate::layer::{LineLayer, write_to_stderr};
use crate::passed::{self, RECORD_MARK};
use crate::{Line, LogFormat, LogRing};

/// Bytes of recent lines kept in memory.
const RING_BYTES: usize = 1024 * 1024;

/// How a process logs.
#[derive(Clone)]
pub struct LogConfig {
    /// The form of a line.
    pub format: LogFormat,
    /// What is logged: `info`, or with exceptions by module: `info,millstream_rpc=debug`.
    pub filter: String,
    /// Keys and values added to each JSON line (`log.json.static-fields`).
    pub static_fields: BTreeMap<String, String>,
    /// The time of a line: `env`'s wall clock.
    pub now: Arc<dyn Fn() -> WallTime + Send + Sync>,
}

impl fmt::Debug for LogConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LogConfig")
            .field("format", &self.format)
            .field("filter", &self.filter)
            .field("static_fields", &self.static_fields)
            .finish_non_exhaustive()
    }
}

/// Why there is no log as configured.
#[derive(Debug, thiserror::Error)]
pub enum LogError {
    /// The filter is not one.
    #[error(
        "log.level is {filter:?}, which is no level and no list of module=level: \
         write \"info\", or \"info,millstream_rpc=debug\""
    )]
    Filter {
        /// As configured.
        filter: String,
        /// What the parser said.
        source: tracing_subscriber::filter::ParseError,
    },
    /// The process has a log already.
    #[error("the process has a log already: it is installed once, by `main`")]
    AlreadyInstalled,
    /// The log the handle belongs to is gone.
    #[error("the log whose level was to be changed is gone")]
    Gone,
}

/// Changes and reads the log of this process. Cloning shares it.
#[derive(Clone, Debug)]
pub struct LogHandle {
    filter: reload::Handle<EnvFilter, Registry>,
    ring: LogRing,
}

impl LogHandle {
    /// Sets what is logged from now on; see [`LogConfig::filter`].
    pub fn set_filter(&self, filter: &str) -> Result<(), LogError> {
        self.filter
            .reload(parse(filter)?)
            .map_err(|_| LogError::Gone)
    }

    /// The last lines.
    pub fn ring(&self) -> &LogRing {
        &self.ring
    }
}

/// Installs the log of this process on standard error.
pub fn init(config: LogConfig) -> Result<LogHandle, LogError> {
    let (subscriber, handle) = subscriber(config, write_to_stderr)?;
    tracing::subscriber::set_global_default(subscriber).map_err(|_| LogError::AlreadyInstalled)?;
    Ok(handle)
}

/// Installs the log of a child process on its standard error, in records that its parent
/// [passes on](crate::pass_on). Every line has the fields of `context`, which say whose it is.
pub fn init_child(config: LogConfig, context: Vec<(String, Value)>) -> Result<LogHandle, LogError> {
    let write = |line: &str| write_to_stderr(&format!("{RECORD_MARK}{line}"));
    let (subscriber, handle) = build(config, context, write)?;
    tracing::subscriber::set_global_default(subscriber).map_err(|_| LogError::AlreadyInstalled)?;
    Ok(handle)
}

/// A log that hands each finished line to `write`, for tests and embedders.
pub fn subscriber(
    config: LogConfig,
    write: impl Fn(&str) + Send + Sync + 'static,
) -> Result<(impl Subscriber + Send + Sync, LogHandle), LogError> {
    build(config, Vec::new(), write)
}

fn build(
    config: LogConfig,
    context: Vec<(String, Value)>,
    write: impl Fn(&str) + Send + Sync + 'static,
) -> Result<(impl Subscriber + Send + Sync, LogHandle), LogError> {
    let (filter, filter_handle) = reload::Layer::new(parse(&config.filter)?);
    let ring = LogRing::new(RING_BYTES);
    let output = Output {
        config,
        context,
        write: Box::new(write),
        ring: ring.clone(),
    };
    let subscriber = Registry::default().with(filter).with(LineLayer { output });
    Ok((
        subscriber,
        LogHandle {
            filter: filter_handle,
            ring,
        },
    ))
}

fn parse(filter: &str) -> Result<EnvFilter, LogError> {
    let parsed = EnvFilter::builder().parse(filter);
    parsed.map_err(|source| LogError::Filter {
        filter: filter.to_owned(),
        source,
    })
}

/// Where lines go.
pub(crate) struct Output {
    config: LogConfig,
    /// Fields of every line.
    context: Vec<(String, Value)>,
    write: Box<dyn Fn(&str) + Send + Sync>,
    ring: LogRing,
}

impl Output {
    pub fn now(&self) -> WallTime {
        (self.config.now)()
    }

    pub fn write(&self, line: &Line) {
        self.write_text(&line.format(self.config.format, &self.config.static_fields));
    }

    /// The fields that every line has.
    pub fn context(&self) -> &[(String, Value)] {
        &self.context
    }

    /// Writes the record of a child process, if it has the form of this log.
    pub fn pass_on(&self, record: &str) -> bool {
        let checked = passed::checked(record, self.config.format);
        checked.inspect(|line| self.write_text(line)).is_some()
    }

    fn write_text(&self, line: &str) {
        self.ring.push(line);
        (self.write)(line);
    }
}
