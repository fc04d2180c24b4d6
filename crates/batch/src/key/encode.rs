//! Arrow columns to key bytes, one monomorphic loop per column type.

use arrow::array::{Array, ArrayRef, ArrowPrimitiveType, AsArray, PrimitiveArray};
use arrow::buffer::NullBuffer;
use arrow::datatypes::{
    DataType, Date32Type, Decimal32Type, Decimal64Type, Decimal128Type, DurationMicrosecondType,
    DurationMillisecondType, DurationNanosecondType, DurationSecondType, Float16Type, Float32Type,
    Float64Type, Int8Type, Int16Type, Int32Type, Int64Type, Time32MillisecondType,
    Time32SecondType, Time64MicrosecondType, Time64NanosecondType, TimeUnit,
    TimestampMicrosecondType, TimestampMillisecondType, TimestampNanosecondType,
    TimestampSecondType, UInt8Type, UInt16Type, UInt32Type, UInt64Type,
};

use super::{
    TAG_BINARY, TAG_BOOLEAN, TAG_DATE, TAG_DECIMAL, TAG_DURATION, TAG_FLOAT, TAG_INTEGER, TAG_NULL,
    TAG_TEXT, TAG_TIME, TAG_TIMESTAMP, TAG_UNSIGNED, fixed_width, per_second,
};

const SIGN_64: u64 = 1 << 63;
const NANOS_PER_SECOND: i64 = 1_000_000_000;
/// The bits that every NaN is written as.
const ONE_NAN: u64 = 0x7ff8_0000_0000_0000;

/// Adds the bytes that each row of the column takes.
pub(super) fn add_lengths(column: &ArrayRef, lengths: &mut [usize]) {
    if let Some(width) = fixed_width(column.data_type()) {
        return add(column.nulls(), lengths, |_| 1 + width);
    }
    match column.data_type() {
        DataType::Utf8 => add_bytes_lengths(column.as_string::<i32>(), lengths, |a, i| {
            a.value_length(i) as usize
        }),
        DataType::LargeUtf8 => add_bytes_lengths(column.as_string::<i64>(), lengths, |a, i| {
            a.value_length(i) as usize
        }),
        DataType::Binary => add_bytes_lengths(column.as_binary::<i32>(), lengths, |a, i| {
            a.value_length(i) as usize
        }),
        DataType::LargeBinary => add_bytes_lengths(column.as_binary::<i64>(), lengths, |a, i| {
            a.value_length(i) as usize
        }),
        // The low 32 bits of a view are its length.
        DataType::Utf8View => add_bytes_lengths(column.as_string_view(), lengths, |a, i| {
            a.views()[i] as u32 as usize
        }),
        DataType::BinaryView => add_bytes_lengths(column.as_binary_view(), lengths, |a, i| {
            a.views()[i] as u32 as usize
        }),
        DataType::FixedSizeBinary(size) => {
            let size = usize::try_from(*size).unwrap_or(0);
            add(column.nulls(), lengths, |_| delimited(size));
        }
        // `KeyCodec::new` admits no other type; what is left is the column of NULLs.
        _ => lengths.iter_mut().for_each(|length| *length += 1),
    }
}

fn add_bytes_lengths<A: Array>(
    array: &A,
    lengths: &mut [usize],
    length: impl Fn(&A, usize) -> usize,
) {
    add(array.nulls(), lengths, |row| delimited(length(array, row)));
}

fn add(nulls: Option<&NullBuffer>, lengths: &mut [usize], of_row: impl Fn(usize) -> usize) {
    match nulls {
        None => lengths
            .iter_mut()
            .enumerate()
            .for_each(|(row, length)| *length += of_row(row)),
        Some(nulls) => {
            for (row, length) in lengths.iter_mut().enumerate() {
                *length += if nulls.is_null(row) { 1 } else { of_row(row) };
            }
        }
    }
}

/// Tag, LEB128 length and bytes.
const fn delimited(length: usize) -> usize {
    let bits = usize::BITS - (length | 1).leading_zeros();
    1 + bits.div_ceil(7) as usize + length
}

/// Writes each row's value at its cursor and moves the cursor behind it.
pub(super) fn write(column: &ArrayRef, cursors: &mut [usize], bytes: &mut [u8]) {
    use DataType as D;
    let mut out = Out { cursors, bytes };
    match column.data_type() {
        D::Boolean => {
            let array = column.as_boolean();
            out.fixed(array.nulls(), |row| {
                [TAG_BOOLEAN, u8::from(array.value(row))]
            });
        }
        D::Int8 => out.primitive::<Int8Type, 9>(column, |value| integer(i64::from(value))),
        D::Int16 => out.primitive::<Int16Type, 9>(column, |value| integer(i64::from(value))),
        D::Int32 => out.primitive::<Int32Type, 9>(column, |value| integer(i64::from(value))),
        D::Int64 => out.primitive::<Int64Type, 9>(column, integer),
        D::UInt8 => out.primitive::<UInt8Type, 9>(column, |value| integer(i64::from(value))),
        D::UInt16 => out.primitive::<UInt16Type, 9>(column, |value| integer(i64::from(value))),
        D::UInt32 => out.primitive::<UInt32Type, 9>(column, |value| integer(i64::from(value))),
        D::UInt64 => out.primitive::<UInt64Type, 9>(column, unsigned),
        D::Float16 => out.primitive::<Float16Type, 9>(column, |value| float(value.to_f64())),
        D::Float32 => out.primitive::<Float32Type, 9>(column, |value| float(f64::from(value))),
        D::Float64 => out.primitive::<Float64Type, 9>(column, float),
        D::Decimal32(_, scale) => {
            out.primitive::<Decimal32Type, 18>(column, |value| decimal(*scale, i128::from(value)));
        }
        D::Decimal64(_, scale) => {
            out.primitive::<Decimal64Type, 18>(column, |value| decimal(*scale, i128::from(value)));
        }
        D::Decimal128(_, scale) => {
            out.primitive::<Decimal128Type, 18>(column, |value| decimal(*scale, value));
        }
        D::Date32 => out.primitive::<Date32Type, 5>(column, date),
        D::Timestamp(unit, _) => write_timestamp(*unit, column, &mut out),
        D::Time32(unit) | D::Time64(unit) => write_time(*unit, column, &mut out),
        D::Duration(unit) => write_duration(*unit, column, &mut out),
        D::Utf8 => {
            let array = column.as_string::<i32>();
            out.delimited(TAG_TEXT, array.nulls(), |row| array.value(row).as_bytes());
        }
        D::LargeUtf8 => {
            let array = column.as_string::<i64>();
            out.delimited(TAG_TEXT, array.nulls(), |row| array.value(row).as_bytes());
        }
        D::Utf8View => {
            let array = column.as_string_view();
            out.delimited(TAG_TEXT, array.nulls(), |row| array.value(row).as_bytes());
        }
        _ => write_binary_or_null(column, &mut out),
    }
}

fn write_binary_or_null(column: &ArrayRef, out: &mut Out<'_>) {
    match column.data_type() {
        DataType::Binary => {
            let array = column.as_binary::<i32>();
            out.delimited(TAG_BINARY, array.nulls(), |row| array.value(row));
        }
        DataType::LargeBinary => {
            let array = column.as_binary::<i64>();
            out.delimited(TAG_BINARY, array.nulls(), |row| array.value(row));
        }
        DataType::BinaryView => {
            let array = column.as_binary_view();
            out.delimited(TAG_BINARY, array.nulls(), |row| array.value(row));
        }
        DataType::FixedSizeBinary(_) => {
            let array = column.as_fixed_size_binary();
            out.delimited(TAG_BINARY, array.nulls(), |row| array.value(row));
        }
        // `KeyCodec::new` admits no other type; what is left is the column of NULLs.
        _ => out.fixed(None, |_| [TAG_NULL]),
    }
}

fn write_timestamp(unit: TimeUnit, column: &ArrayRef, out: &mut Out<'_>) {
    let encode = |value| instant(TAG_TIMESTAMP, per_second(unit), value);
    match unit {
        TimeUnit::Second => out.primitive::<TimestampSecondType, 13>(column, encode),
        TimeUnit::Millisecond => out.primitive::<TimestampMillisecondType, 13>(column, encode),
        TimeUnit::Microsecond => out.primitive::<TimestampMicrosecondType, 13>(column, encode),
        TimeUnit::Nanosecond => out.primitive::<TimestampNanosecondType, 13>(column, encode),
    }
}

fn write_time(unit: TimeUnit, column: &ArrayRef, out: &mut Out<'_>) {
    let encode = |value| instant(TAG_TIME, per_second(unit), value);
    match unit {
        TimeUnit::Second => {
            out.primitive::<Time32SecondType, 13>(column, |value| encode(i64::from(value)));
        }
        TimeUnit::Millisecond => {
            out.primitive::<Time32MillisecondType, 13>(column, |value| encode(i64::from(value)));
        }
        TimeUnit::Microsecond => out.primitive::<Time64MicrosecondType, 13>(column, encode),
        TimeUnit::Nanosecond => out.primitive::<Time64NanosecondType, 13>(column, encode),
    }
}

fn write_duration(unit: TimeUnit, column: &ArrayRef, out: &mut Out<'_>) {
    let encode = |value| instant(TAG_DURATION, per_second(unit), value);
    match unit {
        TimeUnit::Second => out.primitive::<DurationSecondType, 13>(column, encode),
        TimeUnit::Millisecond => out.primitive::<DurationMillisecondType, 13>(column, encode),
        TimeUnit::Microsecond => out.primitive::<DurationMicrosecondType, 13>(column, encode),
        TimeUnit::Nanosecond => out.primitive::<DurationNanosecondType, 13>(column, encode),
    }
}

struct Out<'a> {
    cursors: &'a mut [usize],
    bytes: &'a mut [u8],
}

impl Out<'_> {
    fn primitive<T: ArrowPrimitiveType, const N: usize>(
        &mut self,
        column: &ArrayRef,
        encode: impl Fn(T::Native) -> [u8; N],
    ) {
        let array: &PrimitiveArray<T> = column.as_primitive::<T>();
        let values = array.values();
        self.fixed(array.nulls(), |row| encode(values[row]));
    }

    fn fixed<const N: usize>(
        &mut self,
        nulls: Option<&NullBuffer>,
        encode: impl Fn(usize) -> [u8; N],
    ) {
        for (row, cursor) in self.cursors.iter_mut().enumerate() {
            if nulls.is_some_and(|nulls| nulls.is_null(row)) {
                self.bytes[*cursor] = TAG_NULL;
                *cursor += 1;
            } else {
                self.bytes[*cursor..*cursor + N].copy_from_slice(&encode(row));
                *cursor += N;
            }
        }
    }

    fn delimited<'v>(
        &mut self,
        tag: u8,
        nulls: Option<&NullBuffer>,
        value: impl Fn(usize) -> &'v [u8],
    ) {
        for (row, cursor) in self.cursors.iter_mut().enumerate() {
            if nulls.is_some_and(|nulls| nulls.is_null(row)) {
                self.bytes[*cursor] = TAG_NULL;
                *cursor += 1;
                continue;
            }
            let value = value(row);
            self.bytes[*cursor] = tag;
            *cursor += 1;
            let mut left = value.len();
            while left >= 0x80 {
                self.bytes[*cursor] = left as u8 | 0x80;
                *cursor += 1;
                left >>= 7;
            }
            self.bytes[*cursor] = left as u8;
            *cursor += 1;
            self.bytes[*cursor..*cursor + value.len()].copy_from_slice(value);
            *cursor += value.len();
        }
    }
}

fn tagged<const N: usize, const M: usize>(tag: u8, value: [u8; N]) -> [u8; M] {
    let mut bytes = [tag; M];
    bytes[1..].copy_from_slice(&value);
    bytes
}

fn integer(value: i64) -> [u8; 9] {
    tagged(TAG_INTEGER, (value as u64 ^ SIGN_64).to_be_bytes())
}

fn unsigned(value: u64) -> [u8; 9] {
    match i64::try_from(value) {
        Ok(value) => integer(value),
        Err(_) => tagged(TAG_UNSIGNED, value.to_be_bytes()),
    }
}

fn float(value: f64) -> [u8; 9] {
    let bits = match value {
        value if value.is_nan() => ONE_NAN,
        // -0.0 equals 0.0 and becomes it.
        0.0 => 0,
        value => value.to_bits(),
    };
    let flipped = if bits & SIGN_64 == 0 {
        bits ^ SIGN_64
    } else {
        !bits
    };
    tagged(TAG_FLOAT, flipped.to_be_bytes())
}

fn decimal(scale: i8, value: i128) -> [u8; 18] {
    let mut bytes = [TAG_DECIMAL; 18];
    bytes[1] = scale as u8;
    bytes[2..].copy_from_slice(&(value as u128 ^ (1 << 127)).to_be_bytes());
    bytes
}

fn date(days: i32) -> [u8; 5] {
    tagged(TAG_DATE, (days as u32 ^ (1 << 31)).to_be_bytes())
}

fn instant(tag: u8, per_second: i64, value: i64) -> [u8; 13] {
    let seconds = value.div_euclid(per_second);
    let nanos = value.rem_euclid(per_second) * (NANOS_PER_SECOND / per_second);
    let mut bytes = [tag; 13];
    bytes[1..9].copy_from_slice(&(seconds as u64 ^ SIGN_64).to_be_bytes());
    bytes[9..].copy_from_slice(&(nanos as u32).to_be_bytes());
    bytes
}
