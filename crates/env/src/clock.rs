//! Reading and waiting for time.

use std::fmt;
use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use futures::future::{BoxFuture, Either, select};
use millstream_types::{MonoTime, WallTime, rounded};

/// Where a [`Clock`] gets its time from.
pub trait TimeSource: Send + Sync {
    /// Time since the source's origin; never goes back.
    fn monotonic(&self) -> MonoTime;
    /// Time of day; may jump. For display and records only.
    fn wall(&self) -> WallTime;
    /// Completes when [`TimeSource::monotonic`] is `deadline` or later, never for
    /// [`MonoTime::NEVER`].
    fn sleep_until(&self, deadline: MonoTime) -> BoxFuture<'static, ()>;
}

/// A handle to one source of time.
#[derive(Clone)]
pub struct Clock {
    source: Arc<dyn TimeSource>,
}

/// The limit of [`Clock::timeout`] passed first.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[error("not done within {}", rounded(.limit))]
pub struct Elapsed {
    /// The time that was allowed.
    pub limit: Duration,
}

impl Clock {
    /// A clock over any source.
    pub fn new(source: Arc<dyn TimeSource>) -> Self {
        Self { source }
    }

    /// The machine's clocks; its origin is now.
    pub fn real() -> Self {
        Self::new(Arc::new(TokioTime {
            origin: tokio_now(),
            wall_at_origin: None,
        }))
    }

    /// Monotonic time from tokio, which a simulation may have paused, and a wall clock that starts
    /// at `wall_at_origin` and goes with it: nothing depends on the day the test is run.
    pub fn simulated(wall_at_origin: WallTime) -> Self {
        Self::new(Arc::new(TokioTime {
            origin: tokio_now(),
            wall_at_origin: Some(wall_at_origin),
        }))
    }

    /// Time since this clock's origin; never goes back. What timeouts are decided by.
    pub fn monotonic(&self) -> MonoTime {
        self.source.monotonic()
    }

    /// Time of day. For display and records, never for a decision.
    pub fn wall(&self) -> WallTime {
        self.source.wall()
    }

    /// Waits until the monotonic clock shows `deadline`.
    pub async fn sleep_until(&self, deadline: MonoTime) {
        self.source.sleep_until(deadline).await;
    }

    /// Waits for `duration`.
    pub async fn sleep(&self, duration: Duration) {
        self.sleep_until(self.monotonic() + duration).await;
    }

    /// Runs `future` for at most `limit`; what it had not done by then is dropped. A result that is
    /// ready at the limit counts.
    pub async fn timeout<F: Future>(
        &self,
        limit: Duration,
        future: F,
    ) -> Result<F::Output, Elapsed> {
        let sleep = self.source.sleep_until(self.monotonic() + limit);
        match select(pin!(future), sleep).await {
            Either::Left((output, _)) => Ok(output),
            Either::Right(((), _)) => Err(Elapsed { limit }),
        }
    }

    /// A tick each `period`, the first after one period.
    pub fn interval(&self, period: Duration) -> Interval {
        let period = period.max(Duration::from_millis(1));
        Interval {
            clock: self.clone(),
            period,
            next: self.monotonic() + period,
        }
    }
}

impl fmt::Debug for Clock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Clock").field(&self.monotonic()).finish()
    }
}

/// Ticks on a fixed schedule; see [`Clock::interval`].
#[derive(Debug)]
pub struct Interval {
    clock: Clock,
    period: Duration,
    next: MonoTime,
}

impl Interval {
    /// Waits for the next tick and returns the time it was planned for. After a delay the missed
    /// ticks are left out and the schedule is kept. Dropping the future loses nothing.
    pub async fn tick(&mut self) -> MonoTime {
        self.clock.sleep_until(self.next).await;
        let planned = self.next;
        let late = self.clock.monotonic().saturating_since(planned);
        let periods = late.as_nanos() / self.period.as_nanos() + 1;
        self.next = planned
            + self
                .period
                .saturating_mul(u32::try_from(periods).unwrap_or(u32::MAX));
        planned
    }
}

/// Time of the runtime; real, or virtual where the runtime's time is paused.
struct TokioTime {
    origin: tokio::time::Instant,
    /// The wall clock at the origin, if it is not the machine's.
    wall_at_origin: Option<WallTime>,
}

impl TimeSource for TokioTime {
    fn monotonic(&self) -> MonoTime {
        let passed = tokio_now().saturating_duration_since(self.origin);
        MonoTime::ZERO + passed
    }

    fn wall(&self) -> WallTime {
        match self.wall_at_origin {
            Some(WallTime(origin)) => {
                let passed = i64::try_from(self.monotonic().as_millis()).unwrap_or(i64::MAX);
                WallTime(origin.saturating_add(passed))
            }
            None => machine_wall(),
        }
    }

    fn sleep_until(&self, deadline: MonoTime) -> BoxFuture<'static, ()> {
        let until_deadline = deadline.saturating_since(MonoTime::ZERO);
        // `NEVER`, and what lies beyond what the runtime can represent, is the same to a waiter.
        match self
            .origin
            .checked_add(until_deadline)
            .filter(|_| deadline != MonoTime::NEVER)
        {
            Some(instant) => Box::pin(tokio::time::sleep_until(instant)),
            None => Box::pin(futures::future::pending()),
        }
    }
}

/// The runtime's monotonic clock.
fn tokio_now() -> tokio::time::Instant {
    tokio::time::Instant::now()
}

#[expect(
    clippy::disallowed_methods,
    reason = "this is the one place that reads the wall clock"
)]
fn machine_wall() -> WallTime {
    let since_1970 = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    // A machine set before 1970 shows 1970: the wall clock decides nothing.
    let millis = since_1970.map(|passed| passed.as_millis()).unwrap_or(0);
    WallTime(i64::try_from(millis).unwrap_or(i64::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn real_time_passes_while_sleeping_and_never_goes_back() {
        let clock = Clock::real();
        let before = clock.monotonic();
        clock.sleep(Duration::from_millis(20)).await;
        assert!(clock.monotonic() - before >= Duration::from_millis(20));
        assert!(clock.wall() > WallTime(1_600_000_000_000));
    }

    #[tokio::test]
    async fn a_timeout_drops_what_is_too_slow_and_keeps_what_is_ready() {
        let clock = Clock::real();
        let limit = Duration::from_millis(5);
        let slow = clock
            .timeout(limit, clock.sleep_until(MonoTime::NEVER))
            .await;
        assert_eq!(slow, Err(Elapsed { limit }));
        assert_eq!(clock.timeout(Duration::ZERO, async { 7 }).await, Ok(7));
    }

    #[tokio::test]
    async fn a_simulated_wall_clock_starts_where_it_is_told() {
        let clock = Clock::simulated(WallTime(5_000));
        let first = clock.wall();
        assert!(
            first >= WallTime(5_000) && first < WallTime(60_000),
            "{first:?}"
        );
    }
}
