//! Restart strategies (B8.2 to B8.6): whether a failed job starts again, and when.
//!
//! A strategy counts *waves*, not single errors: whoever calls [`RestartStrategy::on_failure`]
//! has merged the failures of one wave already (B8.1). Time and randomness are arguments.

use std::collections::VecDeque;
use std::fmt;
use std::time::Duration;

use millstream_types::MonoTime;

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

/// `fixed-delay`: the counter never falls back (B8.2).
#[derive(Clone, Debug, PartialEq)]
pub struct FixedDelay {
    /// Restarts allowed; the job runs at most once more than this.
    pub attempts: u32,
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
    /// The greatest delay.
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

impl Default for FixedDelay {
    fn default() -> Self {
        Self {
            attempts: 1,
            delay: Duration::from_secs(1),
        }
    }
}

impl Default for FailureRate {
    fn default() -> Self {
        Self {
            max_failures_per_interval: 1,
            interval: Duration::from_secs(60),
            delay: Duration::from_secs(1),
        }
    }
}

impl Default for ExponentialDelay {
    fn default() -> Self {
        Self {
            initial_backoff: Duration::from_secs(1),
            max_backoff: Duration::from_secs(60),
            backoff_multiplier: 1.5,
            reset_backoff_threshold: Duration::from_secs(3600),
            jitter_factor: 0.1,
            attempts_before_reset_backoff: None,
        }
    }
}

impl fmt::Display for RestartStrategyConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::None => f.write_str("NoRestartBackoffTimeStrategy"),
            Self::FixedDelay(c) => write!(
                f,
                "FixedDelayRestartBackoffTimeStrategy(maxNumberRestartAttempts={}, \
                 backoffTimeMS={})",
                c.attempts,
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
                decide(*failures <= config.attempts, config.delay)
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
            ) => config.on_failure(attempt, next_restart_at, now, random),
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

impl ExponentialDelay {
    fn on_failure(
        &self,
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
            if now - planned >= self.reset_backoff_threshold {
                *attempt = 0;
            }
        }
        let delay = self.backoff(*attempt, random);
        *next_restart_at = Some(now + delay);
        *attempt = attempt.saturating_add(1);
        let allowed = self
            .attempts_before_reset_backoff
            .is_none_or(|limit| *attempt <= limit);
        decide(allowed, delay)
    }

    /// Jitter never leads below the initial delay nor above the greatest one.
    fn backoff(&self, attempt: u32, random: u64) -> Duration {
        let unit = random as f64 / u64::MAX as f64;
        let jitter = 1.0 + self.jitter_factor * (2.0 * unit - 1.0);
        let exponent = i32::try_from(attempt).unwrap_or(i32::MAX);
        let grown =
            self.initial_backoff.as_secs_f64() * self.backoff_multiplier.powi(exponent) * jitter;
        // Compared as numbers: a power of any size ends at the maximum instead of overflowing.
        let delay = if grown < self.max_backoff.as_secs_f64() {
            Duration::try_from_secs_f64(grown).unwrap_or(self.initial_backoff)
        } else {
            self.max_backoff
        };
        delay.max(self.initial_backoff)
    }
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
