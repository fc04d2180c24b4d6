//! How checkpoints are taken: the checked configuration.

use std::time::Duration;

/// Checkpoint settings of a job.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct CheckpointPolicy {
    /// Time between planned triggers; `None` takes no periodic checkpoints.
    pub interval: Option<Duration>,
    /// Least time from a completion to the next periodic trigger.
    pub min_pause: Duration,
    /// From the creation of a checkpoint to its completion.
    pub timeout: Duration,
    /// How many may be pending at once, at least one.
    pub max_concurrent: usize,
    /// Consecutive counted failures that do not fail the job.
    pub tolerable_failed: u32,
    /// Completed checkpoints kept, at least one.
    pub num_retained: usize,
    /// Whether checkpoints go on when some tasks finished. Off only to show what that was like.
    pub after_tasks_finish: bool,
    /// When periodic triggers begin after a start.
    pub trigger_when: TriggerWhen,
}

/// When periodic triggers begin after a start.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum TriggerWhen {
    /// When every task is running or finished.
    AllRunning,
    /// When the job is; the first triggers may be refused.
    JobRunning,
}

impl Default for CheckpointPolicy {
    fn default() -> Self {
        Self {
            interval: None,
            min_pause: Duration::ZERO,
            timeout: Duration::from_secs(600),
            max_concurrent: 1,
            tolerable_failed: 0,
            num_retained: 2,
            after_tasks_finish: true,
            trigger_when: TriggerWhen::AllRunning,
        }
    }
}

/// Settings that do not go together.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PolicyError {
    /// With several at once a pause between two has no meaning.
    #[error(
        "checkpointing.min-pause is {min_pause:?} while checkpointing.max-concurrent-checkpoints \
         is {max_concurrent}: a pause between checkpoints needs max-concurrent-checkpoints 1"
    )]
    PauseWithConcurrency {
        /// The pause.
        min_pause: Duration,
        /// How many at once.
        max_concurrent: usize,
    },
    /// A number that cannot be zero.
    #[error("checkpointing.{key} is 0: set it to 1 or more")]
    Zero {
        /// Which.
        key: &'static str,
    },
}

/// A setting that was changed to what can be done.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "checkpointing.interval {interval:?} is below checkpointing.min-pause {min_pause:?}: \
     checkpoints are triggered every {min_pause:?}"
)]
pub struct IntervalRaised {
    /// As configured.
    pub interval: Duration,
    /// What is in effect.
    pub min_pause: Duration,
}

impl CheckpointPolicy {
    /// Refuses what cannot be, raises an interval below the pause, and says so.
    pub fn checked(mut self) -> Result<(Self, Option<IntervalRaised>), PolicyError> {
        let zero = |key| Err(PolicyError::Zero { key });
        if self.max_concurrent == 0 {
            return zero("max-concurrent-checkpoints");
        }
        if self.num_retained == 0 {
            return zero("num-retained");
        }
        if self.timeout.is_zero() {
            return zero("timeout");
        }
        if self.interval.is_some_and(|interval| interval.is_zero()) {
            return zero("interval");
        }
        if self.max_concurrent > 1 && !self.min_pause.is_zero() {
            return Err(PolicyError::PauseWithConcurrency {
                min_pause: self.min_pause,
                max_concurrent: self.max_concurrent,
            });
        }
        let min_pause = self.min_pause;
        let raised = self
            .interval
            .filter(|interval| *interval < min_pause)
            .map(|interval| IntervalRaised {
                interval,
                min_pause,
            });
        if raised.is_some() {
            self.interval = Some(min_pause);
        }
        Ok((self, raised))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn policy() -> CheckpointPolicy {
        CheckpointPolicy {
            interval: Some(Duration::from_secs(10)),
            ..CheckpointPolicy::default()
        }
    }

    // Proves F5.
    #[test]
    fn a_pause_with_two_checkpoints_at_once_is_refused_with_the_reason() {
        let error = CheckpointPolicy {
            min_pause: Duration::from_millis(500),
            max_concurrent: 2,
            ..policy()
        }
        .checked()
        .unwrap_err();
        let text = error.to_string();
        assert!(text.contains("min-pause is 500ms"), "{text}");
        assert!(
            text.contains("needs max-concurrent-checkpoints 1"),
            "{text}"
        );
    }

    // Proves F55.
    #[test]
    fn an_interval_below_the_pause_is_raised_to_it_and_said_so() {
        let (effective, raised) = CheckpointPolicy {
            min_pause: Duration::from_secs(30),
            ..policy()
        }
        .checked()
        .unwrap();
        assert_eq!(effective.interval, Some(Duration::from_secs(30)));
        assert!(raised.unwrap().to_string().contains("every 30s"));
    }

    #[test]
    fn zeros_are_refused_by_name() {
        let zero = CheckpointPolicy {
            num_retained: 0,
            ..policy()
        };
        let error = zero.checked().unwrap_err().to_string();
        assert!(error.contains("checkpointing.num-retained"), "{error}");
    }
}
