//! What the rest of the product sees: settings that were checked together.

mod checkpoint;
mod daemon;
mod job;
mod log;
mod restart;
mod storage;
#[cfg(test)]
mod tests;

pub use checkpoint::{CheckpointMode, CheckpointPolicy, Retention};
pub use daemon::{HeartbeatConfig, Isolation, JobmanagerConfig, TaskmanagerConfig};
pub use job::{JobConfig, StateBackendKind};
pub use log::{LogConfig, LogFormat};
pub use restart::{ExponentialDelay, FailureRate, FixedDelay, RestartPolicy};
pub use storage::{S3Options, StorageConfig};

use std::time::Duration;

use crate::resolved::Resolved;
use crate::value::{Host, StorageLocation, Value};

/// Typed readers of the table. A key of another type, or one without value where a value is asked
/// for, is a mistake of this crate.
impl Resolved {
    fn duration(&self, name: &str) -> Duration {
        self.duration_if_set(name).expect("the key has a default")
    }

    fn duration_if_set(&self, name: &str) -> Option<Duration> {
        match self.value(name)? {
            Value::Duration(duration) => Some(*duration),
            other => unreachable!("{name} is {other}"),
        }
    }

    fn bytes(&self, name: &str) -> u64 {
        self.bytes_if_set(name).expect("the key has a default")
    }

    fn bytes_if_set(&self, name: &str) -> Option<u64> {
        match self.value(name)? {
            Value::Bytes(bytes) => Some(*bytes),
            other => unreachable!("{name} is {other}"),
        }
    }

    fn int(&self, name: &str) -> u32 {
        self.int_if_set(name).expect("the key has a default")
    }

    /// A whole number; those of the table fit 32 bits, and `unlimited` is `None`.
    fn int_if_set(&self, name: &str) -> Option<u32> {
        match self.value(name)? {
            Value::Int(u64::MAX) => None,
            Value::Int(number) => Some(u32::try_from(*number).expect("bounded by the table")),
            other => unreachable!("{name} is {other}"),
        }
    }

    fn port(&self, name: &str) -> u16 {
        u16::try_from(self.int(name)).expect("bounded by the table")
    }

    fn float(&self, name: &str) -> f64 {
        match self.value(name) {
            Some(Value::Float(number)) => *number,
            other => unreachable!("{name} is {other:?}"),
        }
    }

    fn bool(&self, name: &str) -> bool {
        match self.value(name) {
            Some(Value::Bool(truth)) => *truth,
            other => unreachable!("{name} is {other:?}"),
        }
    }

    fn choice(&self, name: &str) -> Option<&'static str> {
        match self.value(name)? {
            Value::Choice(word) => Some(word),
            other => unreachable!("{name} is {other}"),
        }
    }

    fn text(&self, name: &str) -> Option<&str> {
        match self.value(name)? {
            Value::Text(text) => Some(text),
            other => unreachable!("{name} is {other}"),
        }
    }

    fn host(&self, name: &str) -> Option<Host> {
        match self.value(name)? {
            Value::Host(host) => Some(host.clone()),
            other => unreachable!("{name} is {other}"),
        }
    }

    fn location(&self, name: &str) -> Option<StorageLocation> {
        match self.value(name)? {
            Value::Location(location) => Some(location.clone()),
            other => unreachable!("{name} is {other}"),
        }
    }

    /// `key is value (origin)`, for messages about values that do not go together.
    fn stated(&self, name: &str) -> String {
        match self.row(name) {
            Some(row) => match &row.value {
                Some(value) => format!("{name} is {value} ({})", row.origin),
                None => format!("{name} is unset"),
            },
            None => name.to_owned(),
        }
    }
}
