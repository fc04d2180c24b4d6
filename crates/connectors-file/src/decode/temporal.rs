//! Dates and times of day as ISO 8601 writes them.

const SECOND_US: i64 = 1_000_000;
const MINUTE_US: i64 = 60 * SECOND_US;
const DAY_US: i64 = 24 * 60 * MINUTE_US;
/// Digits of a fraction that count.
const FRACTION_DIGITS: usize = 6;
/// 1970-01-01 counted from 0000-03-01.
const EPOCH_DAYS: i64 = 719_468;

/// `2024-05-01`, as days since 1970.
pub(super) fn date_days(text: &str) -> Option<i32> {
    let (date, rest) = date(text)?;
    rest.is_empty().then_some(date)
}

/// `2024-05-01`, then optionally `T` or a space, `12:30`, `:00`, `.250`, and `Z` or `+02:00`; as
/// microseconds since 1970. Without an offset it is taken as UTC. Digits below a microsecond are cut
/// off.
pub(super) fn timestamp_us(text: &str) -> Option<i64> {
    let (days, rest) = date(text)?;
    let midnight = i64::from(days) * DAY_US;
    if rest.is_empty() {
        return Some(midnight);
    }
    let rest = rest.strip_prefix(['T', ' '])?;
    let (hour, rest) = two_digits(rest, 23)?;
    let (minute, mut rest) = two_digits(rest.strip_prefix(':')?, 59)?;
    let mut us = (hour * 60 + minute) * MINUTE_US;
    if let Some(seconds) = rest.strip_prefix(':') {
        let (second, after) = two_digits(seconds, 59)?;
        us += second * SECOND_US;
        rest = after;
        if let Some(fraction) = rest.strip_prefix('.') {
            let length = fraction.bytes().take_while(u8::is_ascii_digit).count();
            if !(1..=9).contains(&length) {
                return None;
            }
            let kept = length.min(FRACTION_DIGITS);
            let missing = (FRACTION_DIGITS - kept) as u32;
            us += digits(&fraction.as_bytes()[..kept])? * 10_i64.pow(missing);
            rest = &fraction[length..];
        }
    }
    Some(midnight + us - offset_us(rest)?)
}

fn offset_us(text: &str) -> Option<i64> {
    if text.is_empty() || text == "Z" {
        return Some(0);
    }
    let sign = match text.as_bytes()[0] {
        b'+' => 1,
        b'-' => -1,
        _ => return None,
    };
    let (hours, rest) = two_digits(text.get(1..)?, 23)?;
    let (minutes, rest) = match rest.strip_prefix(':').unwrap_or(rest) {
        "" if rest.is_empty() => (0, ""),
        minutes => two_digits(minutes, 59)?,
    };
    rest.is_empty()
        .then_some(sign * (hours * 60 + minutes) * MINUTE_US)
}

fn date(text: &str) -> Option<(i32, &str)> {
    let year = digits(text.as_bytes().get(..4)?)?;
    let (month, rest) = two_digits(text[4..].strip_prefix('-')?, 12)?;
    let (day, rest) = two_digits(rest.strip_prefix('-')?, 31)?;
    if month == 0 || day == 0 || day > days_in_month(year, month) {
        return None;
    }
    let days = i32::try_from(days_since_1970(year, month, day)).ok()?;
    Some((days, rest))
}

fn two_digits(text: &str, max: i64) -> Option<(i64, &str)> {
    let value = digits(text.as_bytes().get(..2)?)?;
    (value <= max).then_some((value, &text[2..]))
}

/// The number that a few decimal digits make.
fn digits(text: &[u8]) -> Option<i64> {
    let mut value = 0;
    for digit in text {
        if !digit.is_ascii_digit() {
            return None;
        }
        value = value * 10 + i64::from(digit - b'0');
    }
    Some(value)
}

fn days_in_month(year: i64, month: i64) -> i64 {
    let is_leap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
    match month {
        2 => 28 + i64::from(is_leap),
        4 | 6 | 9 | 11 => 30,
        _ => 31,
    }
}

/// The year is counted from March, so that the leap day is its last.
fn days_since_1970(year: i64, month: i64, day: i64) -> i64 {
    let (year, month) = if month > 2 {
        (year, month - 3)
    } else {
        (year - 1, month + 9)
    };
    let leap_days = year.div_euclid(4) - year.div_euclid(100) + year.div_euclid(400);
    365 * year + leap_days + (153 * month + 2) / 5 + day - 1 - EPOCH_DAYS
}
