//! How a job is checkpointed.

use std::time::Duration;

use crate::error::{ConfigError, ConfigErrors, Warning};
use crate::resolved::Resolved;
use crate::value::{StorageLocation, human_duration};

/// What a restart guarantees for state.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CheckpointMode {
    /// Each row counts once.
    ExactlyOnce,
    /// A row may count again after a restart.
    AtLeastOnce,
}

/// Which checkpoints stay when a job ends (B1.11). A finished job keeps none.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Retention {
    /// None.
    Never,
    /// Those of a failed job.
    DeleteOnCancellation,
    /// Those of a failed or cancelled job.
    RetainOnCancellation,
}

/// How a job is checkpointed.
#[derive(Debug, Clone, PartialEq)]
pub struct CheckpointPolicy {
    /// Time between periodic checkpoints, never below the pause; `None` is off.
    pub interval: Option<Duration>,
    /// The guarantee.
    pub mode: CheckpointMode,
    /// Time from the trigger to expiry.
    pub timeout: Duration,
    /// Time from a completion to the next periodic trigger. Zero if several may run at a time.
    pub min_pause: Duration,
    /// Checkpoints under way at one time.
    pub max_concurrent: u32,
    /// Failures in a row that are tolerated; one more fails the job.
    pub tolerable_failures: u32,
    /// Which checkpoints stay when the job ends.
    pub retention: Retention,
    /// Completed checkpoints kept while the job runs; at least 1.
    pub num_retained: u32,
    /// Where they are; `None` if nobody said.
    pub dir: Option<StorageLocation>,
    /// State up to this size travels in the acknowledgement.
    pub inline_threshold_bytes: u64,
    /// Whether a checkpoint of RocksDB state may refer to files of the one before.
    pub incremental: bool,
}

impl CheckpointPolicy {
    /// Checks what the table says about checkpoints.
    ///
    /// # Errors
    /// Values that do not go together.
    pub fn new(table: &Resolved, warnings: &mut Vec<Warning>) -> Result<Self, ConfigErrors> {
        let min_pause = table.duration("checkpointing.min-pause");
        let max_concurrent = table.int("checkpointing.max-concurrent-checkpoints");
        if !min_pause.is_zero() && max_concurrent > 1 {
            return Err(pause_with_concurrency(table).into());
        }
        let policy = Self {
            interval: effective_interval(table, min_pause, warnings),
            mode: match table.choice("checkpointing.mode") {
                Some("at-least-once") => CheckpointMode::AtLeastOnce,
                _ => CheckpointMode::ExactlyOnce,
            },
            timeout: table.duration("checkpointing.timeout"),
            min_pause,
            max_concurrent,
            tolerable_failures: table.int("checkpointing.tolerable-failed-checkpoints"),
            retention: match table.choice("checkpointing.externalized-checkpoint-retention") {
                Some("no-externalized-checkpoints") => Retention::Never,
                Some("retain-on-cancellation") => Retention::RetainOnCancellation,
                _ => Retention::DeleteOnCancellation,
            },
            num_retained: table.int("checkpointing.num-retained"),
            dir: table.location("checkpointing.dir"),
            inline_threshold_bytes: table.bytes("checkpointing.data-inline-threshold"),
            incremental: table.bool("checkpointing.incremental"),
        };
        Ok(policy)
    }

    /// The directory, which a job on a cluster with checkpoints must have.
    ///
    /// # Errors
    /// [`ConfigError::Missing`].
    pub fn required_dir(&self) -> Result<&StorageLocation, ConfigErrors> {
        let missing = ConfigError::Missing {
            key: "checkpointing.dir",
            because: "checkpoints have no place to go",
        };
        self.dir.as_ref().ok_or_else(|| missing.into())
    }
}

/// An interval below the pause could never be kept.
fn effective_interval(
    table: &Resolved,
    min_pause: Duration,
    warnings: &mut Vec<Warning>,
) -> Option<Duration> {
    let interval = table.duration_if_set("checkpointing.interval")?;
    if interval < min_pause {
        warnings.push(Warning::Adjusted {
            key: "checkpointing.interval",
            given: human_duration(interval),
            effective: human_duration(min_pause),
            because: "an interval is not shorter than checkpointing.min-pause",
        });
    }
    Some(interval.max(min_pause))
}

fn pause_with_concurrency(table: &Resolved) -> ConfigError {
    ConfigError::Conflict {
        what: format!(
            "{} and {}: a pause between checkpoints leaves no room for two at a time",
            table.stated("checkpointing.min-pause"),
            table.stated("checkpointing.max-concurrent-checkpoints"),
        ),
        remedy:
            "set checkpointing.max-concurrent-checkpoints to 1 or checkpointing.min-pause to 0 s"
                .to_owned(),
    }
}
