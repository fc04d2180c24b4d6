//! What a machine may know of the outside when it takes a step.

use millstream_types::{MonoTime, WallTime};

/// Time and randomness of one step, read by the shell.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Moment {
    /// Decides.
    pub now: MonoTime,
    /// Is recorded and shown.
    pub wall: WallTime,
    /// Any 64 random bits, drawn anew for every step.
    pub random: u64,
}

#[cfg(test)]
impl Moment {
    /// This many milliseconds after the start of a test that began at wall time 1,000,000.
    pub(crate) fn test(millis: u64) -> Self {
        Self {
            now: MonoTime::from_millis(millis),
            wall: WallTime(1_000_000 + millis as i64),
            random: u64::MAX / 2,
        }
    }
}
