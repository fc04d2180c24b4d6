//! The three times. They never mix: there is no conversion between them.

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
