//! What follows a failure.

pub use millstream_types::restart::{ExponentialDelay, FailureRate, FixedDelay};

use crate::error::{ConfigError, ConfigErrors};
use crate::resolved::Resolved;

/// What follows a failure (B8.2 to B8.6).
#[derive(Debug, Clone, PartialEq)]
pub enum RestartPolicy {
    /// The first failure is final.
    None,
    /// So many restarts in the life of the job.
    FixedDelay(FixedDelay),
    /// So many restarts within a sliding window.
    FailureRate(FailureRate),
    /// Restarts whose delay grows while failures follow one another.
    ExponentialDelay(ExponentialDelay),
    /// Whatever the cluster says, see [`RestartPolicy::or`].
    Fallback,
}

impl RestartPolicy {
    /// Checks what the table says about restarts.
    ///
    /// # Errors
    /// Values that do not go together.
    pub fn new(table: &Resolved) -> Result<Self, ConfigErrors> {
        let policy = match table.choice("restart-strategy.type") {
            Some("none") => Self::None,
            Some("fixed-delay") => Self::FixedDelay(FixedDelay {
                attempts: table.int_if_set("restart-strategy.fixed-delay.attempts"),
                delay: table.duration("restart-strategy.fixed-delay.delay"),
            }),
            Some("failure-rate") => Self::FailureRate(FailureRate {
                max_failures_per_interval: table
                    .int("restart-strategy.failure-rate.max-failures-per-interval"),
                interval: table.duration("restart-strategy.failure-rate.failure-rate-interval"),
                delay: table.duration("restart-strategy.failure-rate.delay"),
            }),
            Some("exponential-delay") => Self::ExponentialDelay(exponential(table)?),
            _ => Self::Fallback,
        };
        Ok(policy)
    }

    /// The policy in effect (B8.6): a job without one has the cluster's; where the cluster has none,
    /// checkpointing decides between `exponential-delay` with its defaults and `none`.
    #[must_use]
    pub fn or(self, cluster: Self, checkpointing: bool) -> Self {
        match (self, cluster) {
            (Self::Fallback, Self::Fallback) if checkpointing => {
                let defaults = exponential(&Resolved::new([]));
                Self::ExponentialDelay(defaults.expect("the defaults of the table go together"))
            }
            (Self::Fallback, Self::Fallback) => Self::None,
            (Self::Fallback, cluster) => cluster,
            (own, _) => own,
        }
    }
}

fn exponential(table: &Resolved) -> Result<ExponentialDelay, ConfigErrors> {
    const INITIAL: &str = "restart-strategy.exponential-delay.initial-backoff";
    const MAX: &str = "restart-strategy.exponential-delay.max-backoff";
    let (initial_backoff, max_backoff) = (table.duration(INITIAL), table.duration(MAX));
    if max_backoff < initial_backoff {
        return Err(ConfigError::Conflict {
            what: format!(
                "{} and {}: the greatest delay is below the least",
                table.stated(INITIAL),
                table.stated(MAX)
            ),
            remedy: format!(
                "set {MAX} to {} or more",
                crate::human_duration(initial_backoff)
            ),
        }
        .into());
    }
    Ok(ExponentialDelay {
        initial_backoff,
        max_backoff,
        backoff_multiplier: table.float("restart-strategy.exponential-delay.backoff-multiplier"),
        reset_backoff_threshold: table
            .duration("restart-strategy.exponential-delay.reset-backoff-threshold"),
        jitter_factor: table.float("restart-strategy.exponential-delay.jitter-factor"),
        attempts_before_reset_backoff: table
            .int_if_set("restart-strategy.exponential-delay.attempts-before-reset-backoff"),
    })
}
