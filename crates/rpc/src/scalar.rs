//! Small values that many messages have.

use std::time::Duration;

use millstream_types::WallTime;

use crate::error::{DecodeError, invalid, missing};

/// Longer ones are cut: more than ten thousand years, the longest that the wire allows.
const SECONDS_MAX: i64 = 315_576_000_000;

pub(crate) fn duration_to_wire(duration: Duration) -> prost_types::Duration {
    let seconds = i64::try_from(duration.as_secs())
        .unwrap_or(i64::MAX)
        .min(SECONDS_MAX);
    // Below 1,000,000,000: it fits.
    prost_types::Duration {
        seconds,
        nanos: duration.subsec_nanos() as i32,
    }
}

pub(crate) fn duration_from_wire(
    message: &'static str,
    field: &'static str,
    found: Option<prost_types::Duration>,
) -> Result<Duration, DecodeError> {
    let prost_types::Duration { seconds, nanos } = found.ok_or(missing(message, field))?;
    match (u64::try_from(seconds), u32::try_from(nanos)) {
        (Ok(whole), Ok(part)) if seconds <= SECONDS_MAX && part < 1_000_000_000 => {
            Ok(Duration::new(whole, part))
        }
        _ => {
            let what = format!("is {seconds} s and {nanos} ns, no duration from 0 on");
            Err(invalid(message, field, what))
        }
    }
}

pub(crate) fn time_to_wire(time: WallTime) -> prost_types::Timestamp {
    let millis = time.as_millis();
    // Below 1,000,000,000: it fits.
    let nanos = (millis.rem_euclid(1_000) * 1_000_000) as i32;
    prost_types::Timestamp {
        seconds: millis.div_euclid(1_000),
        nanos,
    }
}

pub(crate) fn time_from_wire(
    message: &'static str,
    field: &'static str,
    found: Option<prost_types::Timestamp>,
) -> Result<WallTime, DecodeError> {
    let prost_types::Timestamp { seconds, nanos } = found.ok_or(missing(message, field))?;
    let whole = seconds
        .checked_mul(1_000)
        .filter(|_| (0..1_000_000_000).contains(&nanos));
    let millis = whole.and_then(|whole| whole.checked_add(i64::from(nanos / 1_000_000)));
    millis.map(WallTime).ok_or_else(|| {
        invalid(
            message,
            field,
            format!("is {seconds} s and {nanos} ns, no point in time"),
        )
    })
}
