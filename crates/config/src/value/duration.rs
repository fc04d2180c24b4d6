//! Durations: always with a unit, exact, printed in a form that is read back.

use std::time::Duration;

use super::ValueFault;

/// The longest duration: what fits 63 bits of nanoseconds, some 292 years.
pub const MAX_DURATION: Duration = Duration::from_nanos(i64::MAX as u64);

const UNITS: [(u64, &[&str]); 7] = [
    (86_400_000_000_000, &["d", "day", "days"]),
    (3_600_000_000_000, &["h", "hour", "hours"]),
    (60_000_000_000, &["m", "min", "mins", "minute", "minutes"]),
    (1_000_000_000, &["s", "sec", "secs", "second", "seconds"]),
    (
        1_000_000,
        &["ms", "milli", "millis", "millisecond", "milliseconds"],
    ),
    (
        1_000,
        &["us", "µs", "micro", "micros", "microsecond", "microseconds"],
    ),
    (1, &["ns", "nano", "nanos", "nanosecond", "nanoseconds"]),
];

/// Reads `10ms`, `10 min`, `1h30m`, `3d 11h 20m`: whole numbers with units, each unit once, from
/// large to small. Case does not matter; blanks around and between do not either.
///
/// # Errors
/// A [`ValueFault`]; for a number without a unit with both readings it could have.
pub fn parse_duration(text: &str) -> Result<Duration, ValueFault> {
    let text = text.trim();
    if text.is_empty() {
        return Err(ValueFault::Empty);
    }
    if text.starts_with('-') {
        return Err(refused(text, "a duration is not negative"));
    }
    if text.bytes().all(|b| b.is_ascii_digit()) {
        return Err(no_unit(text));
    }
    let mut rest = text;
    let mut total = 0_u64;
    let mut next_unit = 0;
    while !rest.is_empty() {
        let (number, behind) = split_where(rest, |c| !c.is_ascii_digit());
        let (unit, behind) = split_where(behind.trim_start(), |c| !c.is_alphabetic());
        if number.is_empty() || behind.trim_start().starts_with(['.', ',']) && unit.is_empty() {
            return Err(refused(
                text,
                "a duration is whole numbers with units, like 1s 500ms",
            ));
        }
        if unit.is_empty() {
            return Err(refused(text, "a part of the duration has no unit"));
        }
        let index = unit_index(unit)
            .ok_or_else(|| refused(text, "the unit is none of d, h, min (or m), s, ms, us, ns"))?;
        if index < next_unit {
            return Err(refused(text, "each unit stands once, from large to small"));
        }
        next_unit = index + 1;
        total = number
            .parse::<u64>()
            .ok()
            .and_then(|number| number.checked_mul(UNITS[index].0))
            .and_then(|nanos| total.checked_add(nanos))
            .filter(|total| u128::from(*total) <= MAX_DURATION.as_nanos())
            .ok_or_else(|| refused(text, "longer than the longest duration, 106751d"))?;
        rest = behind.trim_start();
    }
    Ok(Duration::from_nanos(total))
}

fn split_where(text: &str, stop: impl Fn(char) -> bool) -> (&str, &str) {
    text.split_at(text.find(stop).unwrap_or(text.len()))
}

fn unit_index(unit: &str) -> Option<usize> {
    let unit = unit.to_lowercase();
    UNITS
        .iter()
        .position(|(_, names)| names.contains(&unit.as_str()))
}

fn refused(text: &str, why: &'static str) -> ValueFault {
    ValueFault::Refused {
        found: text.to_owned(),
        why: why.to_owned(),
    }
}

/// `86400` as seconds and as milliseconds, so that the writer sees what either would mean.
fn no_unit(digits: &str) -> ValueFault {
    let Ok(number) = digits.parse::<u64>() else {
        return refused(digits, "longer than the longest duration, 106751d");
    };
    let reading = |unit: &'static str, nanos: u64| {
        let duration = Duration::from_nanos(number.checked_mul(nanos)?);
        (duration <= MAX_DURATION).then(|| format!("{number}{unit} (= {})", spoken(duration)))
    };
    let readings = [reading("s", UNITS[3].0), reading("ms", UNITS[4].0)];
    let readings: Vec<String> = readings.into_iter().flatten().collect();
    ValueFault::NoUnit {
        readings: readings.join(" or "),
    }
}

/// The exact form that [`parse_duration`] reads back: `5m`, `1d`, `1m 26s 400ms`, `0s`.
#[must_use]
pub fn human_duration(duration: Duration) -> String {
    let mut nanos = duration.as_nanos();
    let mut parts = Vec::new();
    for (size, names) in UNITS {
        let count = nanos / u128::from(size);
        nanos %= u128::from(size);
        if count > 0 {
            parts.push(format!("{count}{}", names[0]));
        }
    }
    if parts.is_empty() {
        "0s".to_owned()
    } else {
        parts.join(" ")
    }
}

/// Like [`human_duration`], but with a fraction of a second, as one would say it: `1m 26.4s`.
fn spoken(duration: Duration) -> String {
    let millis = duration.subsec_millis();
    if millis == 0 || duration.as_secs() == 0 {
        return human_duration(duration);
    }
    let fraction = format!("{millis:03}");
    let seconds = format!(
        "{}.{}s",
        duration.as_secs() % 60,
        fraction.trim_end_matches('0')
    );
    match Duration::from_secs(duration.as_secs() / 60 * 60) {
        Duration::ZERO => seconds,
        minutes => format!("{} {seconds}", human_duration(minutes)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn millis(text: &str) -> u128 {
        parse_duration(text).expect(text).as_millis()
    }

    fn fault(text: &str) -> String {
        parse_duration(text)
            .expect_err(text)
            .message("checkpointing.interval")
    }

    // Proves HND-077.
    #[test]
    fn every_spelling_of_a_duration_is_the_same_duration() {
        for ten_minutes in [
            "10 min",
            "10min",
            "10 minutes",
            "10m",
            " 10  MIN ",
            "600s",
            "600 sec",
        ] {
            assert_eq!(millis(ten_minutes), 600_000, "{ten_minutes}");
        }
        assert_eq!(millis("10ms"), 10);
        assert_eq!(millis(" 5 s "), 5_000);
        assert_eq!(millis("1h30m"), 5_400_000);
        assert_eq!(millis("1h 30min"), 5_400_000);
        assert_eq!(millis("3d 11h 20m"), 300_000_000);
        assert_eq!(
            parse_duration("250us").expect("unit"),
            Duration::from_micros(250)
        );
        assert_eq!(
            parse_duration("7 µs").expect("unit"),
            Duration::from_micros(7)
        );
    }

    // Proves HND-077.
    #[test]
    fn what_is_no_duration_is_refused_with_key_and_value() {
        let refused = [
            ("1.5 s", "whole numbers"),
            ("1,5 s", "whole numbers"),
            ("-5 s", "not negative"),
            ("10 parsecs", "the unit is none of"),
            ("99999999999 d", "longer than"),
            ("99999999999999999999999 ms", "longer than"),
            ("99999999999999999999999", "longer than"),
            ("PT5M", "whole numbers"),
            ("30m1h", "from large to small"),
            ("1s 1s", "from large to small"),
            ("1h30", "no unit"),
            ("5 s !", "whole numbers"),
            ("s", "whole numbers"),
            ("١٠ s", "whole numbers"),
        ];
        for (text, why) in refused {
            let message = fault(text);
            assert!(message.contains(why), "{text}: {message}");
            assert!(message.contains("checkpointing.interval"), "{message}");
            assert!(message.contains(text.trim()), "{message}");
        }
        assert_eq!(fault(""), "checkpointing.interval has no value");
        assert_eq!(fault("  "), "checkpointing.interval has no value");
    }

    // Proves F1: both readings of 300000 are offered.
    #[test]
    fn a_number_without_a_unit_is_refused_with_both_readings() {
        assert_eq!(
            fault("300000"),
            "checkpointing.interval has no unit: write 300000s (= 3d 11h 20m) or 300000ms (= 5m)"
        );
        assert_eq!(
            parse_duration("86400")
                .expect_err("no unit")
                .message("interval"),
            "interval has no unit: write 86400s (= 1d) or 86400ms (= 1m 26.4s)"
        );
        assert_eq!(
            fault("500"),
            "checkpointing.interval has no unit: write 500s (= 8m 20s) or 500ms (= 500ms)"
        );
        assert_eq!(
            fault("1500"),
            "checkpointing.interval has no unit: write 1500s (= 25m) or 1500ms (= 1.5s)"
        );
        // As seconds this would be longer than any duration.
        assert_eq!(
            fault("10000000000"),
            "checkpointing.interval has no unit: write 10000000000ms (= 115d 17h 46m 40s)"
        );
    }

    #[test]
    fn the_printed_form_is_read_back_exactly() {
        let ladder = [
            0, 1, 999, 1_500, 300_000, 86_400_000, 86_400_400, 5_400_000, 90_061_001,
        ];
        for millis in ladder {
            let duration = Duration::from_millis(millis);
            assert_eq!(parse_duration(&human_duration(duration)), Ok(duration));
        }
        assert_eq!(
            parse_duration(&human_duration(MAX_DURATION)),
            Ok(MAX_DURATION)
        );
        assert_eq!(human_duration(Duration::from_millis(300_000)), "5m");
        assert_eq!(
            human_duration(Duration::from_millis(86_400)),
            "1m 26s 400ms"
        );
        assert_eq!(human_duration(Duration::ZERO), "0s");
    }
}
