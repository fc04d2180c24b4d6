//! A clock that a test moves by hand.

use std::collections::BTreeMap;
use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use futures::future::BoxFuture;
use millstream_types::{MonoTime, WallTime};
use parking_lot::Mutex;

use crate::{Clock, TimeSource};

/// Time stands still until the test moves it. Cloning shares the time.
#[derive(Clone)]
pub struct ManualClock {
    shared: Arc<Shared>,
}

struct Shared {
    state: Mutex<State>,
}

struct State {
    now: MonoTime,
    wall: WallTime,
    /// Who waits, by deadline and then by who asked first: woken in that order.
    sleepers: BTreeMap<(MonoTime, u64), Waker>,
    next_sleeper: u64,
}

impl ManualClock {
    /// Monotonic time zero, and this time of day.
    pub fn new(wall: WallTime) -> Self {
        let state = State {
            now: MonoTime::ZERO,
            wall,
            sleepers: BTreeMap::new(),
            next_sleeper: 0,
        };
        Self {
            shared: Arc::new(Shared {
                state: Mutex::new(state),
            }),
        }
    }

    /// The handle for the code under test.
    pub fn clock(&self) -> Clock {
        Clock::new(Arc::new(self.clone()))
    }

    /// Moves both clocks and wakes who is due, in order of deadlines. They run when the test next
    /// gives way; each sees the time after the whole move.
    pub fn advance(&self, duration: Duration) {
        let due = {
            let mut state = self.shared.state.lock();
            state.now += duration;
            let millis = i64::try_from(duration.as_millis()).unwrap_or(i64::MAX);
            state.wall = WallTime(state.wall.as_millis().saturating_add(millis));
            let now = state.now;
            let later = state.sleepers.split_off(&(now, u64::MAX));
            std::mem::replace(&mut state.sleepers, later)
        };
        // Outside the lock: a waker may read the clock.
        for waker in due.into_values() {
            waker.wake();
        }
    }

    /// Moves to the earliest deadline anyone waits for and returns it; `None` if nobody waits.
    pub fn advance_to_next(&self) -> Option<MonoTime> {
        let (now, next) = {
            let state = self.shared.state.lock();
            let next = state.sleepers.keys().next().map(|(deadline, _)| *deadline);
            (state.now, next)
        };
        let next = next?;
        self.advance(next - now);
        Some(next)
    }

    /// Sets the time of day, also backwards, as an administrator may. Monotonic time stays.
    pub fn set_wall(&self, wall: WallTime) {
        self.shared.state.lock().wall = wall;
    }

    /// How many wait.
    pub fn n_sleepers(&self) -> usize {
        self.shared.state.lock().sleepers.len()
    }
}

impl fmt::Debug for ManualClock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let state = self.shared.state.lock();
        f.debug_struct("ManualClock")
            .field("now", &state.now)
            .field("n_sleepers", &state.sleepers.len())
            .finish()
    }
}

impl TimeSource for ManualClock {
    fn monotonic(&self) -> MonoTime {
        self.shared.state.lock().now
    }

    fn wall(&self) -> WallTime {
        self.shared.state.lock().wall
    }

    fn sleep_until(&self, deadline: MonoTime) -> BoxFuture<'static, ()> {
        Box::pin(Sleep {
            shared: self.shared.clone(),
            deadline,
            sleeper: None,
        })
    }
}

/// Waits for a deadline; leaves nothing behind when dropped.
struct Sleep {
    shared: Arc<Shared>,
    deadline: MonoTime,
    sleeper: Option<u64>,
}

impl Future for Sleep {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        if self.deadline == MonoTime::NEVER {
            return Poll::Pending;
        }
        let shared = self.shared.clone();
        let mut state = shared.state.lock();
        if state.now >= self.deadline {
            return Poll::Ready(());
        }
        let sleeper = *self.sleeper.get_or_insert_with(|| {
            state.next_sleeper += 1;
            state.next_sleeper
        });
        state
            .sleepers
            .insert((self.deadline, sleeper), context.waker().clone());
        Poll::Pending
    }
}

impl Drop for Sleep {
    fn drop(&mut self) {
        if let Some(sleeper) = self.sleeper {
            self.shared
                .state
                .lock()
                .sleepers
                .remove(&(self.deadline, sleeper));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures::FutureExt;

    fn start() -> (ManualClock, Clock) {
        let manual = ManualClock::new(WallTime(1_000));
        let clock = manual.clock();
        (manual, clock)
    }

    #[test]
    fn a_sleeper_wakes_at_its_deadline_and_not_before() {
        let (manual, clock) = start();
        let mut sleep = Box::pin(clock.sleep(Duration::from_millis(10)));
        assert!(sleep.as_mut().now_or_never().is_none());
        manual.advance(Duration::from_millis(9));
        assert!(sleep.as_mut().now_or_never().is_none());
        manual.advance(Duration::from_millis(1));
        assert!(sleep.as_mut().now_or_never().is_some());
        assert_eq!(
            (clock.monotonic().as_millis(), clock.wall()),
            (10, WallTime(1_010))
        );
    }

    #[test]
    fn a_dropped_sleeper_is_forgotten() {
        let (manual, clock) = start();
        let mut sleep = Box::pin(clock.sleep(Duration::from_secs(1)));
        assert!(sleep.as_mut().now_or_never().is_none());
        assert_eq!(manual.n_sleepers(), 1);
        drop(sleep);
        assert_eq!(manual.n_sleepers(), 0);
    }

    #[test]
    fn the_test_can_go_from_deadline_to_deadline() {
        let (manual, clock) = start();
        let mut late = Box::pin(clock.sleep(Duration::from_secs(9)));
        let mut early = Box::pin(clock.sleep(Duration::from_secs(3)));
        assert!(late.as_mut().now_or_never().is_none());
        assert!(early.as_mut().now_or_never().is_none());
        assert_eq!(manual.advance_to_next(), Some(MonoTime::from_millis(3_000)));
        assert!(early.as_mut().now_or_never().is_some());
        assert!(late.as_mut().now_or_never().is_none());
        assert_eq!(manual.advance_to_next(), Some(MonoTime::from_millis(9_000)));
        assert_eq!(manual.advance_to_next(), None);
    }

    #[test]
    fn never_is_never() {
        let (manual, clock) = start();
        let mut sleep = Box::pin(clock.sleep_until(MonoTime::NEVER));
        manual.advance(Duration::MAX);
        assert!(sleep.as_mut().now_or_never().is_none());
    }

    #[test]
    fn the_wall_clock_may_jump_back_without_effect_on_the_monotonic_one() {
        let (manual, clock) = start();
        manual.advance(Duration::from_secs(5));
        manual.set_wall(WallTime(0));
        assert_eq!(
            (clock.monotonic().as_millis(), clock.wall()),
            (5_000, WallTime(0))
        );
    }

    #[test]
    fn an_interval_skips_missed_ticks_and_keeps_its_schedule() {
        let (manual, clock) = start();
        let mut interval = clock.interval(Duration::from_millis(10));
        let mut next = |after: u64| {
            manual.advance(Duration::from_millis(after));
            interval.tick().now_or_never().map(MonoTime::as_millis)
        };
        assert_eq!(next(9), None);
        assert_eq!(next(1), Some(10));
        assert_eq!(next(25), Some(20));
        assert_eq!(next(4), None);
        assert_eq!(next(1), Some(40));
    }
}
