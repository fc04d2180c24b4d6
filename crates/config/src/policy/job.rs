//! All settings of one job.

use std::time::Duration;

use super::checkpoint::CheckpointPolicy;
use super::restart::RestartPolicy;
use crate::error::{ConfigError, ConfigErrors, Warning};
use crate::resolved::Resolved;

/// Where keyed state is while the job runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StateBackendKind {
    /// In memory.
    Hashmap,
    /// In RocksDB, larger than memory.
    Rocksdb,
}

/// All settings of one job, checked together.
#[derive(Debug, Clone, PartialEq)]
pub struct JobConfig {
    /// Checkpoints.
    pub checkpoints: CheckpointPolicy,
    /// Restarts; may be [`RestartPolicy::Fallback`].
    pub restart: RestartPolicy,
    /// Where keyed state is.
    pub state_backend: StateBackendKind,
    /// Subtasks of a vertex that does not say otherwise.
    pub parallelism: u32,
    /// Key groups, if given.
    pub max_parallelism: Option<u32>,
    /// Whether operators may share a task.
    pub chaining: bool,
    /// Whether an operator with state needs a uid.
    pub require_uids: bool,
    /// Whether `inject` steps are allowed.
    pub allow_fault_injection: bool,
    /// Time that rows wait for others to be sent together.
    pub linger: Duration,
    /// Time between two reminders of a task that does not stop.
    pub cancellation_interval: Duration,
    /// Time until a task that does not stop is killed with its process; `None` is never.
    pub cancellation_timeout: Option<Duration>,
}

impl JobConfig {
    /// Checks what the table says about a job.
    ///
    /// # Errors
    /// Values that do not go together.
    pub fn new(table: &Resolved, warnings: &mut Vec<Warning>) -> Result<Self, ConfigErrors> {
        let parallelism = table.int("parallelism.default");
        let max_parallelism = table.int_if_set("pipeline.max-parallelism");
        if max_parallelism.is_some_and(|max| max < parallelism) {
            return Err(ConfigError::Conflict {
                what: format!(
                    "{} and {}: more subtasks than key groups",
                    table.stated("parallelism.default"),
                    table.stated("pipeline.max-parallelism")
                ),
                remedy: format!("set pipeline.max-parallelism to {parallelism} or more"),
            }
            .into());
        }
        let killed_after = table.duration("task.cancellation.timeout");
        Ok(Self {
            checkpoints: CheckpointPolicy::new(table, warnings)?,
            restart: RestartPolicy::new(table)?,
            state_backend: match table.choice("state.backend.type") {
                Some("rocksdb") => StateBackendKind::Rocksdb,
                _ => StateBackendKind::Hashmap,
            },
            parallelism,
            max_parallelism,
            chaining: table.bool("pipeline.operator-chaining.enabled"),
            require_uids: table.bool("pipeline.require-uids"),
            allow_fault_injection: table.bool("pipeline.allow-fault-injection"),
            linger: table.duration("execution.buffer-timeout"),
            cancellation_interval: table.duration("task.cancellation.interval"),
            cancellation_timeout: (!killed_after.is_zero()).then_some(killed_after),
        })
    }
}
