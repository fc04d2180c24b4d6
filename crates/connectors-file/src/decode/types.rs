//! The column types of files, and values of them from text.

use std::str::FromStr;

use arrow::datatypes::{DataType, TimeUnit};

use super::rows::Slot;
use super::temporal;

/// Digits that a 128-bit decimal holds.
const DECIMAL_DIGITS_MAX: u32 = 38;

/// A declared type.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum ColumnType {
    BigInt,
    Int,
    SmallInt,
    TinyInt,
    Double,
    Float,
    Boolean,
    Varchar,
    /// Microseconds since 1970.
    Timestamp,
    /// Days since 1970.
    Date,
    Decimal {
        precision: u8,
        scale: i8,
    },
}

impl ColumnType {
    pub(super) fn of(data_type: &DataType) -> Option<Self> {
        Some(match data_type {
            DataType::Int64 => Self::BigInt,
            DataType::Int32 => Self::Int,
            DataType::Int16 => Self::SmallInt,
            DataType::Int8 => Self::TinyInt,
            DataType::Float64 => Self::Double,
            DataType::Float32 => Self::Float,
            DataType::Boolean => Self::Boolean,
            DataType::Utf8 => Self::Varchar,
            DataType::Timestamp(TimeUnit::Microsecond, _) => Self::Timestamp,
            DataType::Date32 => Self::Date,
            DataType::Decimal128(precision, scale) if *scale >= 0 => Self::Decimal {
                precision: *precision,
                scale: *scale,
            },
            _ => return None,
        })
    }

    pub(super) fn name(self) -> String {
        match self {
            Self::BigInt => "BIGINT".to_owned(),
            Self::Int => "INT".to_owned(),
            Self::SmallInt => "SMALLINT".to_owned(),
            Self::TinyInt => "TINYINT".to_owned(),
            Self::Double => "DOUBLE".to_owned(),
            Self::Float => "FLOAT".to_owned(),
            Self::Boolean => "BOOLEAN".to_owned(),
            Self::Varchar => "VARCHAR".to_owned(),
            Self::Timestamp => "TIMESTAMP".to_owned(),
            Self::Date => "DATE".to_owned(),
            Self::Decimal { precision, scale } => format!("DECIMAL({precision}, {scale})"),
        }
    }

    /// A value of this type written as text; not for VARCHAR, which is the text itself.
    pub(super) fn parse(self, text: &str) -> Result<Slot, String> {
        let slot = match self {
            Self::BigInt => text.parse().ok().map(Slot::Int),
            Self::Int => small::<i32>(text),
            Self::SmallInt => small::<i16>(text),
            Self::TinyInt => small::<i8>(text),
            Self::Double => double(text).map(Slot::Double),
            Self::Float => float(text).map(Slot::Double),
            Self::Boolean => boolean(text).map(Slot::Bool),
            Self::Varchar => None,
            Self::Timestamp => temporal::timestamp_us(text).map(Slot::Int),
            Self::Date => temporal::date_days(text).map(|days| Slot::Int(days.into())),
            Self::Decimal { precision, scale } => {
                decimal(text, precision, scale).map(Slot::Decimal)
            }
        };
        slot.ok_or_else(|| self.refusal(text))
    }

    fn refusal(self, text: &str) -> String {
        let mut shown: String = text.chars().take(40).collect();
        if shown.len() < text.len() {
            shown.push('…');
        }
        let expected = match self {
            Self::Timestamp => ", written like 2024-05-01T12:30:00.250Z",
            Self::Date => ", written like 2024-05-01",
            Self::BigInt
            | Self::Int
            | Self::SmallInt
            | Self::TinyInt
            | Self::Double
            | Self::Float
            | Self::Boolean
            | Self::Varchar
            | Self::Decimal { .. } => "",
        };
        format!("{shown:?} is no {}{expected}", self.name())
    }
}

fn boolean(text: &str) -> Option<bool> {
    if text.eq_ignore_ascii_case("true") {
        return Some(true);
    }
    text.eq_ignore_ascii_case("false").then_some(false)
}

/// An integer of at most 32 bits.
fn small<T: FromStr + Into<i64>>(text: &str) -> Option<Slot> {
    let value: T = text.parse().ok()?;
    Some(Slot::Int(value.into()))
}

fn double(text: &str) -> Option<f64> {
    let value: f64 = text.parse().ok()?;
    is_in_range(text, value).then_some(value)
}

/// The nearest number of 32 bits.
fn float(text: &str) -> Option<f64> {
    let value: f32 = text.parse().ok()?;
    is_in_range(text, value.into()).then_some(value.into())
}

/// A number that became infinite was too large.
fn is_in_range(text: &str, value: f64) -> bool {
    value.is_finite() || !text.bytes().any(|byte| byte.is_ascii_digit())
}

/// The exact value times 10^scale; none if it needs more digits than there are.
fn decimal(text: &str, precision: u8, scale: i8) -> Option<i128> {
    let (mantissa, exponent) = match text.find(['e', 'E']) {
        Some(at) => (&text[..at], text[at + 1..].parse::<i32>().ok()?),
        None => (text, 0),
    };
    let unsigned = mantissa.strip_prefix(['-', '+']).unwrap_or(mantissa);
    let (whole, fraction) = unsigned.split_once('.').unwrap_or((unsigned, ""));
    let digits = || whole.bytes().chain(fraction.bytes());
    if digits().next().is_none() || !digits().all(|digit| digit.is_ascii_digit()) {
        return None;
    }
    let mut value: i128 = 0;
    for digit in digits() {
        value = value
            .checked_mul(10)?
            .checked_add(i128::from(digit - b'0'))?;
    }
    let fraction_digits = i32::try_from(fraction.len()).ok()?;
    let shift = i32::from(scale)
        .checked_sub(fraction_digits)?
        .checked_add(exponent)?;
    let value = shifted(value, shift)?;
    let limit = 10i128.checked_pow(precision.into())?;
    let value = (value < limit).then_some(value)?;
    Some(if mantissa.starts_with('-') {
        -value
    } else {
        value
    })
}

/// `value * 10^shift`, if that is a whole number that fits.
fn shifted(value: i128, shift: i32) -> Option<i128> {
    if value == 0 {
        return Some(0);
    }
    let places = shift.unsigned_abs();
    let factor = 10i128.checked_pow(places.min(DECIMAL_DIGITS_MAX + 1));
    match factor {
        Some(factor) if shift >= 0 => value.checked_mul(factor),
        Some(factor) => (value % factor == 0).then_some(value / factor),
        None => None,
    }
}
