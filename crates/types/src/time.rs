//! The three times. They never mix: there is no conversion between them.

use std::borrow::Borrow;
use std::fmt;
use std::ops::{Add, AddAssign, Sub};
use std::time::Duration;

/// A point on the monotonic clock of this process (or of the simulation). Decides timeouts.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
pub struct MonoTime(u64);

impl MonoTime {
    /// The clock's origin.
    pub const ZERO: Self = Self(0);
    /// A deadline that is never reached.
    pub const NEVER: Self = Self(u64::MAX);

    /// This many nanoseconds after the origin.
    pub const fn from_nanos(nanos: u64) -> Self {
        Self(nanos)
    }

    /// This many milliseconds after the origin; used by scripts of tests.
    pub const fn from_millis(millis: u64) -> Self {
        Self(millis.saturating_mul(1_000_000))
    }

    /// Nanoseconds since the origin.
    pub const fn as_nanos(self) -> u64 {
        self.0
    }

    /// Milliseconds since the origin, rounded down.
    pub const fn as_millis(self) -> u64 {
        self.0 / 1_000_000
    }

    /// Time passed since `earlier`; zero if that is later.
    pub const fn saturating_since(self, earlier: Self) -> Duration {
        Duration::from_nanos(self.0.saturating_sub(earlier.0))
    }
}

impl Add<Duration> for MonoTime {
    type Output = Self;

    /// Saturates at [`MonoTime::NEVER`].
    fn add(self, duration: Duration) -> Self {
        let nanos = u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX);
        Self(self.0.saturating_add(nanos))
    }
}

impl AddAssign<Duration> for MonoTime {
    fn add_assign(&mut self, duration: Duration) {
        *self = *self + duration;
    }
}

impl Sub for MonoTime {
    type Output = Duration;

    /// Zero if `earlier` is later.
    fn sub(self, earlier: Self) -> Duration {
        self.saturating_since(earlier)
    }
}

impl fmt::Debug for MonoTime {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if *self == Self::NEVER {
            f.write_str("never")
        } else {
            write!(f, "+{:?}", Duration::from_nanos(self.0))
        }
    }
}

/// Milliseconds since 1970 on the wall clock. For display and records, never for decisions.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Default, Debug)]
pub struct WallTime(pub i64);

impl WallTime {
    /// Milliseconds since 1970-01-01T00:00:00Z.
    pub const fn as_millis(self) -> i64 {
        self.0
    }
}

/// Milliseconds since 1970 in the time of the events themselves.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub struct EventTime(pub i64);

impl EventTime {
    /// No watermark was emitted yet.
    pub const MIN: Self = Self(i64::MIN);
    /// The watermark after all data.
    pub const MAX: Self = Self(i64::MAX);
}

/// A duration as people read it, to the millisecond below a minute and in two units above it:
/// `40 µs`, `250 ms`, `29.817 s`, `30 s`, `1 min 30 s`, `5 h 2 min`, `4 d`.
pub fn rounded(duration: impl Borrow<Duration>) -> String {
    let duration = *duration.borrow();
    let seconds = duration.as_secs();
    match seconds {
        0 if duration < Duration::from_millis(1) && !duration.is_zero() => {
            format!("{} µs", duration.as_micros())
        }
        0 => format!("{} ms", duration.as_millis()),
        1..60 => {
            let text = format!("{seconds}.{:03}", duration.subsec_millis());
            format!("{} s", text.trim_end_matches('0').trim_end_matches('.'))
        }
        60..3_600 => two_units((seconds / 60, "min"), (seconds % 60, "s")),
        3_600..86_400 => two_units((seconds / 3_600, "h"), (seconds / 60 % 60, "min")),
        _ => two_units((seconds / 86_400, "d"), (seconds / 3_600 % 24, "h")),
    }
}

fn two_units((large, of_large): (u64, &str), (small, of_small): (u64, &str)) -> String {
    match small {
        0 => format!("{large} {of_large}"),
        _ => format!("{large} {of_large} {small} {of_small}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_rounded_to_what_a_reader_needs() {
        let read = [
            0,
            250,
            1_500,
            29_817,
            30_000,
            90_000,
            300_000,
            18_120_000,
            345_600_000,
        ];
        let read = read.map(|millis| rounded(Duration::from_millis(millis)));
        let expected = [
            "0 ms",
            "250 ms",
            "1.5 s",
            "29.817 s",
            "30 s",
            "1 min 30 s",
            "5 min",
            "5 h 2 min",
            "4 d",
        ];
        assert_eq!(read, expected);
        assert_eq!(rounded(Duration::from_nanos(40_123)), "40 µs");
        assert_eq!(rounded(Duration::from_nanos(2_000_000_999)), "2 s");
    }
}
