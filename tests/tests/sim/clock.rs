//! The time of the simulation, as its hosts see it.

use std::cell::Cell;
use std::sync::Arc;
use std::time::Duration;

use futures::future::BoxFuture;
use millstream_env::{Clock, TimeSource};
use millstream_types::{MonoTime, WallTime};

/// The time of day when a simulation begins.
const BEGIN: i64 = 1_700_000_000_000;

thread_local! {
    /// What was read last; for code that runs while its host goes down, which has no clock.
    static LAST: Cell<Duration> = const { Cell::new(Duration::ZERO) };
}

/// Time since the simulation began, on the host that asks.
pub fn elapsed() -> Duration {
    let has_clock = turmoil::in_simulation() && tokio::runtime::Handle::try_current().is_ok();
    let now = has_clock.then(turmoil::sim_elapsed).flatten();
    if let Some(now) = now {
        LAST.set(now);
    }
    now.unwrap_or_else(|| LAST.get())
}

/// Tells this thread the time between two steps, when no host runs.
pub fn set_elapsed(now: Duration) {
    LAST.set(now);
}

/// The time of day at a point of the simulation.
pub fn wall(elapsed: Duration) -> WallTime {
    WallTime(BEGIN + i64::try_from(elapsed.as_millis()).unwrap_or(0))
}

/// A clock that begins now, as that of a process does.
pub fn of_process() -> Clock {
    Clock::new(Arc::new(SimTime { origin: elapsed() }))
}

/// A clock that begins with the simulation.
pub fn of_simulation() -> Clock {
    let origin = Duration::ZERO;
    Clock::new(Arc::new(SimTime { origin }))
}

struct SimTime {
    origin: Duration,
}

impl TimeSource for SimTime {
    fn monotonic(&self) -> MonoTime {
        MonoTime::ZERO + elapsed().saturating_sub(self.origin)
    }

    fn wall(&self) -> WallTime {
        wall(elapsed())
    }

    fn sleep_until(&self, deadline: MonoTime) -> BoxFuture<'static, ()> {
        if deadline == MonoTime::NEVER {
            return Box::pin(std::future::pending());
        }
        let wait = deadline.saturating_since(self.monotonic());
        Box::pin(async move {
            if !wait.is_zero() {
                tokio::time::sleep(wait).await;
            }
        })
    }
}
