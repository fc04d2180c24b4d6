//! Restart strategies (B8.2 to B8.6): whether a failed job starts again, and when.
//!
//! A strategy counts *waves*, not single errors: whoever calls [`RestartStrategy::on_failure`]
//! has merged the failures of one wave already (B8.1). Time and randomness are arguments.

use std::collections::VecDeque;
use std::fmt;
use std::time::Duration;

use millstream_types::MonoTime;
pub use millstream_types::restart::{ExponentialDelay, FailureRate, FixedDelay};

#[cfg(test)]
pub(crate) mod testing;
#[cfg(test)]
mod tests;

/// A restart strategy as configured.
#[derive(Clone, Debug, PartialEq)]
pub enum RestartStrategyConfig {
    /// The first failure is final.
    None,
    /// So many restarts in the life of the job, each after the same delay.
    FixedDelay(FixedDelay),
    /// So many restarts within a sliding window.
    FailureRate(FailureRate),
    /// Restarts whose delay grows while failures follow one another.
    ExponentialDelay(ExponentialDelay),
}

impl fmt::Display for RestartStrategyConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::None => f.write_str("NoRestartBackoffTimeStrategy"),
            Self::FixedDelay(c) => write!(
                f,
                "FixedDelayRestartBackoffTimeStrategy(maxNumberRestartAttempts={}, \
                 backoffTimeMS={})",
                c.attempts.unwrap_or(u32::MAX),
                c.delay.as_millis()
            ),
            Self::FailureRate(c) => write!(
                f,
                "FailureRateRestartBackoffTimeStrategy(failuresIntervalMS={}, backoffTimeMS={}, \
                 maxFailuresPerInterval={})",
                c.interval.as_millis(),
                c.delay.as_millis(),
                c.max_failures_per_interval
            ),
            Self::ExponentialDelay(c) => write!(
                f,
                "ExponentialDelayRestartBackoffTimeStrategy(initialBackoffMS={}, \
                 maxBackoffMS={}, backoffMultiplier={}, resetBackoffThresholdMS={}, \
                 jitterFactor={}, attemptsBeforeResetBackoff={})",
                c.initial_backoff.as_millis(),
                c.max_backoff.as_millis(),
                c.backoff_multiplier,
                c.reset_backoff_threshold.as_millis(),
                c.jitter_factor,
                c.attempts_before_reset_backoff
                    .map_or_else(|| "unlimited".to_owned(), |attempts| attempts.to_string())
            ),
        }
    }
}

/// What a strategy answers to a failure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RestartDecision {
    /// Start again, `delay` after the failure.
    Restart {
        /// Time from now to the restart; cancelling the old tasks runs meanwhile.
        delay: Duration,
        /// False where the failure fell into a restart that was planned already.
        is_new_attempt: bool,
    },
    /// The failure is final: "Recovery is suppressed by" this strategy.
    GiveUp,
}

/// A strategy with what it remembers. A new jobmanager starts with a fresh one (F35).
#[derive(Clone, Debug, PartialEq)]
pub struct RestartStrategy {
    config: RestartStrategyConfig,
    memory: Memory,
}

#[derive(Clone, Debug, PartialEq)]
enum Memory {
    None,
    /// Failures so far.
    FixedDelay {
        failures: u32,
    },
    /// The last `max + 1` failures, oldest first.
    FailureRate {
        failed_at: VecDeque<MonoTime>,
    },
    ExponentialDelay {
        attempt: u32,
        next_restart_at: Option<MonoTime>,
    },
}

impl RestartStrategy {
    /// A strategy that has seen no failure.
    pub fn new(config: RestartStrategyConfig) -> Self {
        let memory = match &config {
            RestartStrategyConfig::None => Memory::None,
            RestartStrategyConfig::FixedDelay(_) => Memory::FixedDelay { failures: 0 },
            RestartStrategyConfig::FailureRate(_) => Memory::FailureRate {
                failed_at: VecDeque::new(),
            },
            RestartStrategyConfig::ExponentialDelay(_) => Memory::ExponentialDelay {
                attempt: 0,
                next_restart_at: None,
            },
        };
        Self { config, memory }
    }

    /// The configuration; its `Display` is what "Recovery is suppressed by" names.
    pub fn config(&self) -> &RestartStrategyConfig {
        &self.config
    }

    /// Counts one failure and decides. `random` is any 64 random bits, used for jitter alone.
    pub fn on_failure(&mut self, now: MonoTime, random: u64) -> RestartDecision {
        match (&self.config, &mut self.memory) {
            (RestartStrategyConfig::FixedDelay(config), Memory::FixedDelay { failures }) => {
                *failures = failures.saturating_add(1);
                let allowed = config.attempts.is_none_or(|attempts| *failures <= attempts);
                decide(allowed, config.delay)
            }
            (RestartStrategyConfig::FailureRate(config), Memory::FailureRate { failed_at }) => {
                failed_at.push_back(now);
                let kept = config.max_failures_per_interval as usize + 1;
                if failed_at.len() > kept {
                    failed_at.pop_front();
                }
                let oldest = failed_at.front().copied().unwrap_or(now);
                let allowed = failed_at.len() < kept || now - oldest > config.interval;
                decide(allowed, config.delay)
            }
            (
                RestartStrategyConfig::ExponentialDelay(config),
                Memory::ExponentialDelay {
                    attempt,
                    next_restart_at,
                },
            ) => exponential(config, attempt, next_restart_at, now, random),
            // `None` on either side; `new` pairs the two, so nothing else meets here.
            (
                RestartStrategyConfig::None
                | RestartStrategyConfig::FixedDelay(_)
                | RestartStrategyConfig::FailureRate(_)
                | RestartStrategyConfig::ExponentialDelay(_),
                _,
            ) => RestartDecision::GiveUp,
        }
    }
}

fn exponential(
    config: &ExponentialDelay,
    attempt: &mut u32,
    next_restart_at: &mut Option<MonoTime>,
    now: MonoTime,
    random: u64,
) -> RestartDecision {
    if let Some(planned) = *next_restart_at {
        if now <= planned {
            return RestartDecision::Restart {
                delay: planned - now,
                is_new_attempt: false,
            };
        }
        // Measured from the planned restart, not from the failure before it.
        if now - planned >= config.reset_backoff_threshold {
            *attempt = 0;
        }
    }
    let delay = backoff(config, *attempt, random);
    *next_restart_at = Some(now + delay);
    *attempt = attempt.saturating_add(1);
    let allowed = config
        .attempts_before_reset_backoff
        .is_none_or(|limit| *attempt <= limit);
    decide(allowed, delay)
}

/// Jitter never leads below the initial delay nor above the greatest one.
fn backoff(config: &ExponentialDelay, attempt: u32, random: u64) -> Duration {
    let unit = random as f64 / u64::MAX as f64;
    let jitter = 1.0 + config.jitter_factor * (2.0 * unit - 1.0);
    let exponent = i32::try_from(attempt).unwrap_or(i32::MAX);
    let grown =
        config.initial_backoff.as_secs_f64() * config.backoff_multiplier.powi(exponent) * jitter;
    // Compared as numbers: a power of any size ends at the maximum instead of overflowing.
    let delay = if grown < config.max_backoff.as_secs_f64() {
        Duration::try_from_secs_f64(grown).unwrap_or(config.initial_backoff)
    } else {
        config.max_backoff
    };
    delay.max(config.initial_backoff)
}

fn decide(allowed: bool, delay: Duration) -> RestartDecision {
    if allowed {
        RestartDecision::Restart {
            delay,
            is_new_attempt: true,
        }
    } else {
        RestartDecision::GiveUp
    }
}
