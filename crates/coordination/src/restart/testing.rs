//! Strategies for tests.

use std::time::Duration;

use super::{ExponentialDelay, FailureRate, FixedDelay, RestartStrategyConfig};

/// So many restarts, each this many seconds after its failure.
pub(crate) fn fixed(attempts: u32, delay_s: u64) -> RestartStrategyConfig {
    RestartStrategyConfig::FixedDelay(FixedDelay {
        attempts: Some(attempts),
        delay: Duration::from_secs(delay_s),
    })
}

/// So many restarts within this many seconds.
pub(crate) fn rate(max: u32, interval_s: u64) -> RestartStrategyConfig {
    RestartStrategyConfig::FailureRate(FailureRate {
        max_failures_per_interval: max,
        interval: Duration::from_secs(interval_s),
        delay: Duration::from_secs(10),
    })
}

/// Delays from 1 s to 1 min, half as long again each time.
pub(crate) fn exponential(jitter_factor: f64, attempts: Option<u32>) -> ExponentialDelay {
    ExponentialDelay {
        initial_backoff: Duration::from_secs(1),
        max_backoff: Duration::from_secs(60),
        backoff_multiplier: 1.5,
        reset_backoff_threshold: Duration::from_secs(3_600),
        jitter_factor,
        attempts_before_reset_backoff: attempts,
    }
}
