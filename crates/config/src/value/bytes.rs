//! Memory sizes: always with a unit; all units are binary, as Flink reads them.

use super::ValueFault;

const UNITS: [(u64, &str, &[&str]); 5] = [
    (1 << 40, "TiB", &["t", "tb", "tib", "tebibytes"]),
    (1 << 30, "GiB", &["g", "gb", "gib", "gibibytes"]),
    (1 << 20, "MiB", &["m", "mb", "mib", "mebibytes"]),
    (1 << 10, "KiB", &["k", "kb", "kib", "kibibytes"]),
    (1, "B", &["b", "byte", "bytes"]),
];

/// Reads `32 KiB`, `64 mb` (binary, like Flink), `1g`, `512 B`.
///
/// # Errors
/// A [`ValueFault`]; for a number without a unit with both readings it could have.
pub fn parse_bytes(text: &str) -> Result<u64, ValueFault> {
    let text = text.trim();
    let refused = |why: &str| ValueFault::Refused {
        found: text.to_owned(),
        why: why.to_owned(),
    };
    if text.is_empty() {
        return Err(ValueFault::Empty);
    }
    if text.starts_with('-') {
        return Err(refused("a size is not negative"));
    }
    let (number, unit) = text.split_at(
        text.find(|c: char| !c.is_ascii_digit())
            .unwrap_or(text.len()),
    );
    if number.is_empty() || unit.starts_with(['.', ',']) {
        return Err(refused(
            "a size is a whole number with a unit, like 512 KiB",
        ));
    }
    let too_large = || refused("larger than the largest size, 8388607 TiB");
    let number: u64 = number.parse().map_err(|_| too_large())?;
    let unit = unit.trim().to_ascii_lowercase();
    if unit.is_empty() {
        return Err(no_unit(number));
    }
    let (size, ..) = UNITS
        .iter()
        .find(|(_, _, names)| names.contains(&unit.as_str()))
        .ok_or_else(|| refused("the unit is none of B, KiB, MiB, GiB, TiB"))?;
    number
        .checked_mul(*size)
        .filter(|bytes| i64::try_from(*bytes).is_ok())
        .ok_or_else(too_large)
}

fn no_unit(number: u64) -> ValueFault {
    let bytes = format!("{number} B (= {})", human_bytes(number));
    let readings = match number.checked_mul(1 << 20) {
        Some(mebibytes) => format!("{bytes} or {number} MiB (= {})", human_bytes(mebibytes)),
        None => bytes,
    };
    ValueFault::NoUnit { readings }
}

/// The largest unit that divides the size: `32 KiB`, `1536 B`; read back by [`parse_bytes`].
#[must_use]
pub fn human_bytes(bytes: u64) -> String {
    let (size, name, _) = UNITS
        .iter()
        .find(|(size, ..)| bytes > 0 && bytes.is_multiple_of(*size))
        .unwrap_or(&UNITS[UNITS.len() - 1]);
    format!("{} {name}", bytes / size)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_binary_in_every_spelling() {
        for text in [
            "64 mb",
            "64m",
            "64 MiB",
            "64 MB",
            "65536 kb",
            " 67108864 bytes ",
        ] {
            assert_eq!(parse_bytes(text), Ok(64 << 20), "{text}");
        }
        assert_eq!(parse_bytes("32 KiB"), Ok(32 << 10));
        assert_eq!(parse_bytes("2 tb"), Ok(2 << 40));
        assert_eq!(parse_bytes("0 b"), Ok(0));
    }

    #[test]
    fn a_size_without_a_unit_is_refused_with_both_readings() {
        let message = parse_bytes("32768")
            .expect_err("no unit")
            .message("network.buffer-size");
        assert_eq!(
            message,
            "network.buffer-size has no unit: write 32768 B (= 32 KiB) or 32768 MiB (= 32 GiB)"
        );
    }

    #[test]
    fn what_is_no_size_is_refused() {
        for text in [
            "",
            "-1 kb",
            "1.5 gb",
            "12 parsecs",
            "kb",
            "99999999999999999999 b",
            "9 eb",
        ] {
            assert!(parse_bytes(text).is_err(), "{text}");
        }
        assert!(parse_bytes("8388608 tb").is_err());
        assert!(parse_bytes("8388607 tb").is_ok());
    }

    #[test]
    fn the_printed_form_is_read_back_exactly() {
        for bytes in [0, 1, 1536, 20 << 10, 64 << 20, 3 << 30, (1 << 20) + 1] {
            assert_eq!(parse_bytes(&human_bytes(bytes)), Ok(bytes));
        }
        assert_eq!(human_bytes(20 << 10), "20 KiB");
    }
}
