//! When an operation is tried again: a pure decision over time, the kind of failure and a budget.
//!
//! Invariants: no operation outlives its deadline; a store in trouble is not asked more often
//! than it answers well: retries of all operations together draw on one budget that successes
//! refill (HND-067).

use std::time::Duration;

use millstream_types::MonoTime;

/// Limits of one operation on the store, retries included.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct StorePolicy {
    /// Longest time for one request to be answered.
    pub attempt_timeout: Duration,
    /// Longest time for an operation with all its attempts.
    pub operation_timeout: Duration,
    /// Most attempts for one operation.
    pub attempts_max: u32,
    /// Pause after the first failure; doubles from failure to failure.
    pub backoff_initial: Duration,
    /// Longest pause.
    pub backoff_max: Duration,
    /// Retries that all operations together may have made beyond what successes paid for.
    pub retry_budget: u32,
    /// Size of the parts of a large upload; at least 5 MiB on S3.
    pub part_bytes: usize,
    /// Requests in flight at most for one operation that makes many (verify, delete).
    pub concurrency: usize,
}

impl Default for StorePolicy {
    fn default() -> Self {
        Self {
            attempt_timeout: Duration::from_secs(10),
            operation_timeout: Duration::from_secs(60),
            attempts_max: 8,
            backoff_initial: Duration::from_millis(100),
            backoff_max: Duration::from_secs(5),
            retry_budget: 200,
            part_bytes: 8 * 1024 * 1024,
            concurrency: 32,
        }
    }
}

/// What all operations of one store may still spend on retries, in fifths of a retry.
#[derive(Debug)]
pub(crate) struct RetryBudget {
    fifths: u32,
    fifths_max: u32,
}

impl RetryBudget {
    pub(crate) fn new(retries: u32) -> Self {
        let fifths = retries.saturating_mul(5);
        Self {
            fifths,
            fifths_max: fifths,
        }
    }

    pub(crate) fn on_success(&mut self) {
        self.fifths = (self.fifths + 1).min(self.fifths_max);
    }

    fn take(&mut self) -> bool {
        let enough = self.fifths >= 5;
        if enough {
            self.fifths -= 5;
        }
        enough
    }
}

/// The attempts of one operation.
#[derive(Debug)]
pub(crate) struct Attempts {
    started_at: MonoTime,
    deadline: MonoTime,
    made: u32,
}

impl Attempts {
    pub(crate) fn new(now: MonoTime, policy: &StorePolicy) -> Self {
        Self {
            started_at: now,
            deadline: now + policy.operation_timeout,
            made: 0,
        }
    }

    /// Opens the next attempt; says when it must have ended.
    pub(crate) fn begin(&mut self, now: MonoTime, policy: &StorePolicy) -> MonoTime {
        self.made += 1;
        (now + policy.attempt_timeout).min(self.deadline)
    }

    /// After a failure that may pass: when to try again, or never. `random` spreads the pauses
    /// of many callers evenly over the upper half of the backoff.
    pub(crate) fn retry_at(
        &self,
        now: MonoTime,
        policy: &StorePolicy,
        budget: &mut RetryBudget,
        random: u64,
    ) -> Option<MonoTime> {
        if self.made >= policy.attempts_max {
            return None;
        }
        let doublings = self.made.saturating_sub(1).min(20);
        let backoff = policy
            .backoff_initial
            .saturating_mul(1 << doublings)
            .min(policy.backoff_max);
        let half = u64::try_from((backoff / 2).as_nanos()).unwrap_or(u64::MAX - 1);
        let retry_at = now + backoff / 2 + Duration::from_nanos(random % (half + 1));
        (retry_at < self.deadline && budget.take()).then_some(retry_at)
    }

    pub(crate) fn made(&self) -> u32 {
        self.made
    }

    pub(crate) fn elapsed(&self, now: MonoTime) -> Duration {
        now.saturating_since(self.started_at)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const POLICY: StorePolicy = StorePolicy {
        attempt_timeout: Duration::from_secs(10),
        operation_timeout: Duration::from_secs(60),
        attempts_max: 5,
        backoff_initial: Duration::from_millis(100),
        backoff_max: Duration::from_millis(500),
        retry_budget: 3,
        part_bytes: 5 << 20,
        concurrency: 4,
    };

    /// Fails every attempt at once; returns the pauses in milliseconds until given up.
    fn pauses(budget: &mut RetryBudget, random: u64) -> Vec<u64> {
        let mut now = MonoTime::from_millis(1_000);
        let mut attempts = Attempts::new(now, &POLICY);
        let mut pauses = Vec::new();
        loop {
            attempts.begin(now, &POLICY);
            match attempts.retry_at(now, &POLICY, budget, random) {
                Some(at) => {
                    pauses.push((at - now).as_millis() as u64);
                    now = at;
                }
                None => return pauses,
            }
        }
    }

    #[test]
    fn pauses_double_up_to_the_longest_and_are_spread_over_their_upper_half() {
        assert_eq!(pauses(&mut RetryBudget::new(9), 0), [50, 100, 200, 250]);
        let spread = pauses(&mut RetryBudget::new(9), 50_000_000);
        assert_eq!(spread, [100, 150, 250, 300]);
    }

    // HND-067: a store that refuses everything is not flooded with retries.
    #[test]
    fn all_operations_share_one_budget_that_successes_refill() {
        let mut budget = RetryBudget::new(3);
        assert_eq!(pauses(&mut budget, 0).len(), 3);
        assert_eq!(pauses(&mut budget, 0).len(), 0);
        for _ in 0..5 {
            budget.on_success();
        }
        assert_eq!(pauses(&mut budget, 0).len(), 1);
    }

    #[test]
    fn nothing_is_tried_at_or_after_the_deadline() {
        let start = MonoTime::from_millis(0);
        let mut attempts = Attempts::new(start, &POLICY);
        assert_eq!(
            attempts.begin(start, &POLICY),
            MonoTime::from_millis(10_000)
        );
        let late = MonoTime::from_millis(59_980);
        assert_eq!(attempts.begin(late, &POLICY), MonoTime::from_millis(60_000));
        let mut budget = RetryBudget::new(3);
        assert_eq!(attempts.retry_at(late, &POLICY, &mut budget, 0), None);
        assert_eq!(attempts.elapsed(late), Duration::from_millis(59_980));
    }
}
