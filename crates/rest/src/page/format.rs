//! Numbers as people read them.

use std::time::Duration;

use millstream_telemetry::rfc3339;
use millstream_types::WallTime;

/// In UTC, as in logs: the reader may sit in another time zone than the cluster.
pub(super) fn time(at: WallTime) -> String {
    rfc3339(at)
}

pub(super) fn ago(at: WallTime, now: WallTime) -> String {
    format!("{} ago", duration(at, now))
}

pub(super) fn duration(from: WallTime, to: WallTime) -> String {
    millis(to.as_millis().saturating_sub(from.as_millis()).max(0))
}

/// `short` of milliseconds that are not negative.
pub(super) fn millis(millis: i64) -> String {
    short(Duration::from_millis(u64::try_from(millis).unwrap_or(0)))
}

/// Two units at most: `7 ms`, `1.5 s`, `3 min 20 s`, `5 h 2 min`, `4 d 3 h`.
pub(super) fn short(duration: Duration) -> String {
    let seconds = duration.as_secs();
    match seconds {
        0 if duration < Duration::from_millis(1) && !duration.is_zero() => {
            format!("{} µs", duration.as_micros())
        }
        0 => format!("{} ms", duration.as_millis()),
        1..60 => format!("{seconds}.{} s", duration.subsec_millis() / 100),
        60..3_600 => format!("{} min {} s", seconds / 60, seconds % 60),
        3_600..86_400 => format!("{} h {} min", seconds / 3_600, seconds / 60 % 60),
        _ => format!("{} d {} h", seconds / 86_400, seconds / 3_600 % 24),
    }
}

/// With one decimal from 1 KiB on: `812 B`, `1.5 KiB`.
pub(super) fn bytes(bytes: u64) -> String {
    const UNITS: [&str; 4] = ["KiB", "MiB", "GiB", "TiB"];
    if bytes < 1024 {
        return format!("{bytes} B");
    }
    let mut unit = 0;
    let mut tenths = u128::from(bytes) * 10 / 1024;
    while tenths >= 10 * 1024 && unit + 1 < UNITS.len() {
        tenths /= 1024;
        unit += 1;
    }
    format!("{}.{} {}", tenths / 10, tenths % 10, UNITS[unit])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_keep_one_decimal_and_the_largest_fitting_unit() {
        let read = [0, 1023, 1536, 1 << 20, 5 << 40].map(bytes);
        assert_eq!(read, ["0 B", "1023 B", "1.5 KiB", "1.0 MiB", "5.0 TiB"]);
        assert_eq!(bytes(u64::MAX), "16777215.9 TiB");
    }

    #[test]
    fn durations_have_two_units_at_most() {
        let read = [7, 1_550, 200_000, 18_120_000, 356_400_000].map(millis);
        assert_eq!(
            read,
            ["7 ms", "1.5 s", "3 min 20 s", "5 h 2 min", "4 d 3 h"]
        );
        assert_eq!(short(Duration::from_micros(40)), "40 µs");
    }

    #[test]
    fn a_clock_set_back_gives_no_negative_age() {
        assert_eq!(ago(WallTime(10), WallTime(3)), "0 ms ago");
    }
}
