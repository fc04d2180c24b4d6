//! Parameters of restart strategies (B8.2 to B8.4), as they are configured and obeyed.

use std::time::Duration;

/// `fixed-delay`: the counter never falls back (B8.2).
#[derive(Clone, Debug, PartialEq)]
pub struct FixedDelay {
    /// Restarts allowed; the job runs at most once more than this. `None` is unlimited.
    pub attempts: Option<u32>,
    /// Time from the failure to the restart.
    pub delay: Duration,
}

/// `failure-rate`: failure `max + 1` within the window is final, the boundary included (B8.3).
#[derive(Clone, Debug, PartialEq)]
pub struct FailureRate {
    /// Failures per window that are answered by a restart.
    pub max_failures_per_interval: u32,
    /// The sliding window, over the times of the failures.
    pub interval: Duration,
    /// Time from the failure to the restart.
    pub delay: Duration,
}

/// `exponential-delay` (B8.4).
#[derive(Clone, Debug, PartialEq)]
pub struct ExponentialDelay {
    /// First delay, and the least of all delays.
    pub initial_backoff: Duration,
    /// The greatest delay, not below the first.
    pub max_backoff: Duration,
    /// What a delay is multiplied with from one failure to the next.
    pub backoff_multiplier: f64,
    /// Time without failure after the planned restart that makes the delay small again.
    pub reset_backoff_threshold: Duration,
    /// Part of the delay by which it is made random, up and down: 0.1 is 10 %.
    pub jitter_factor: f64,
    /// Restarts allowed before a reset; `None` is unlimited.
    pub attempts_before_reset_backoff: Option<u32>,
}
