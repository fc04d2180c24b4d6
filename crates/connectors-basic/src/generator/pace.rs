//! When a row of a rate-limited generator is due.

use std::time::Duration;

use millstream_types::MonoTime;

/// What a reader that was held up makes good at once; older arrears are forgotten.
const ARREARS_MAX: Duration = Duration::from_secs(1);
/// Rows are gathered for this long before a batch leaves.
const GATHER: Duration = Duration::from_millis(2);

/// A schedule that does not drift: row `n` is due at `start + (n - first) / rate`, however late
/// the rows before it left. All subtasks together make `rate` rows a second because the row
/// numbers are dealt out among them.
#[derive(Clone, Copy, Debug)]
pub(super) struct Pace {
    rate: f64,
    first: u64,
    start: MonoTime,
}

impl Pace {
    /// Row `first` is due now.
    pub(super) fn new(rate: f64, first: u64, now: MonoTime) -> Self {
        Self {
            rate,
            first,
            start: now,
        }
    }

    /// How many of the rows `next`, `next + step`, … are due. Forgets arrears above a second, so
    /// that what was held up does not flood what it feeds.
    pub(super) fn rows_due(&mut self, next: u64, step: u64, now: MonoTime) -> u64 {
        let arrears = now.saturating_since(self.due(next));
        self.start += arrears.saturating_sub(ARREARS_MAX);
        if now < self.due(next) {
            return 0;
        }
        let elapsed = now.saturating_since(self.start).as_secs_f64();
        let last = self.first.saturating_add((elapsed * self.rate) as u64);
        last.saturating_sub(next) / step + 1
    }

    /// When to come again: as soon as a few rows are due, so that a fast generator does not wake
    /// for each of its rows. `left` is how many will ever come.
    pub(super) fn wake_at(&self, next: u64, step: u64, left: u64) -> MonoTime {
        let gathered = (GATHER.as_secs_f64() * self.rate / step as f64) as u64;
        let ahead = gathered.min(left.saturating_sub(1));
        self.due(next.saturating_add(ahead.saturating_mul(step)))
    }

    fn due(&self, row: u64) -> MonoTime {
        let seconds = row.saturating_sub(self.first) as f64 / self.rate;
        // Rounded up, so that a reader that wakes at this time finds the row due.
        let nanos = (seconds * 1e9).ceil();
        self.start + Duration::from_nanos(nanos as u64)
    }
}
