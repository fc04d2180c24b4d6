//! Key bytes back to arrow columns of a known type.

use std::sync::Arc;

use arrow::array::{
    ArrayRef, ArrowPrimitiveType, BinaryBuilder, BinaryViewBuilder, BooleanBuilder,
    FixedSizeBinaryBuilder, LargeBinaryBuilder, LargeStringBuilder, NullArray, PrimitiveBuilder,
    StringBuilder, StringViewBuilder,
};
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
    TAG_TEXT, TAG_TIME, TAG_TIMESTAMP, TAG_UNSIGNED, per_second,
};

type Half = <Float16Type as ArrowPrimitiveType>::Native;

const ENDS_EARLY: &str = "the end of the key";
const OTHER_TYPE: &str = "a value of another type";
const OUT_OF_RANGE: &str = "a value that the column cannot hold";
const NOT_UTF8: &str = "text that is not UTF-8";
const BAD_LENGTH: &str = "a length that is not in its shortest form";

/// Where and why a key could not be read.
#[derive(Debug)]
pub(super) struct BadKey {
    pub(super) key_index: usize,
    pub(super) offset: usize,
    pub(super) found: &'static str,
}

type Parsed<T> = Result<T, &'static str>;

/// One key, read column by column.
#[derive(Debug)]
pub(super) struct KeyReader<'a> {
    key: &'a [u8],
    offset: usize,
}

impl<'a> KeyReader<'a> {
    pub(super) fn new(key: &'a [u8]) -> Self {
        Self { key, offset: 0 }
    }

    pub(super) fn is_at_end(&self) -> bool {
        self.offset == self.key.len()
    }

    pub(super) fn offset(&self) -> usize {
        self.offset
    }

    fn byte(&mut self) -> Parsed<u8> {
        let byte = *self.key.get(self.offset).ok_or(ENDS_EARLY)?;
        self.offset += 1;
        Ok(byte)
    }

    fn bytes(&mut self, length: usize) -> Parsed<&'a [u8]> {
        let left = &self.key[self.offset..];
        let bytes = left.get(..length).ok_or(ENDS_EARLY)?;
        self.offset += length;
        Ok(bytes)
    }

    fn array<const N: usize>(&mut self) -> Parsed<[u8; N]> {
        self.bytes(N)?.try_into().map_err(|_| ENDS_EARLY)
    }

    /// The tag of the value here; `None` for NULL.
    fn tag(&mut self) -> Parsed<Option<u8>> {
        Ok(Some(self.byte()?).filter(|tag| *tag != TAG_NULL))
    }

    /// Whether a value with this tag follows; false for NULL.
    fn expect(&mut self, tag: u8) -> Parsed<bool> {
        match self.tag()? {
            None => Ok(false),
            Some(found) if found == tag => Ok(true),
            Some(_) => Err(OTHER_TYPE),
        }
    }

    fn delimited(&mut self, tag: u8) -> Parsed<Option<&'a [u8]>> {
        if !self.expect(tag)? {
            return Ok(None);
        }
        let mut length = 0u64;
        for shift in (0..u64::BITS).step_by(7) {
            let byte = self.byte()?;
            let part = u64::from(byte & 0x7f);
            if (part << shift) >> shift != part || (byte == 0 && shift > 0) {
                return Err(BAD_LENGTH);
            }
            length |= part << shift;
            if byte < 0x80 {
                let length = usize::try_from(length).map_err(|_| ENDS_EARLY)?;
                return self.bytes(length).map(Some);
            }
        }
        Err(BAD_LENGTH)
    }

    fn text(&mut self) -> Parsed<Option<&'a str>> {
        let bytes = self.delimited(TAG_TEXT)?;
        bytes
            .map(|bytes| std::str::from_utf8(bytes).map_err(|_| NOT_UTF8))
            .transpose()
    }

    fn binary(&mut self) -> Parsed<Option<&'a [u8]>> {
        self.delimited(TAG_BINARY)
    }

    fn boolean(&mut self) -> Parsed<Option<bool>> {
        if !self.expect(TAG_BOOLEAN)? {
            return Ok(None);
        }
        match self.byte()? {
            0 => Ok(Some(false)),
            1 => Ok(Some(true)),
            _ => Err(OUT_OF_RANGE),
        }
    }

    fn integer<T: TryFrom<i128>>(&mut self) -> Parsed<Option<T>> {
        let value = match self.tag()? {
            None => return Ok(None),
            Some(TAG_INTEGER) => i128::from(signed_64(self.array()?)),
            Some(TAG_UNSIGNED) => i128::from(u64::from_be_bytes(self.array()?)),
            Some(_) => return Err(OTHER_TYPE),
        };
        T::try_from(value).map(Some).map_err(|_| OUT_OF_RANGE)
    }

    fn float(&mut self) -> Parsed<Option<f64>> {
        if !self.expect(TAG_FLOAT)? {
            return Ok(None);
        }
        let bits = u64::from_be_bytes(self.array()?);
        let positive = bits & (1 << 63) != 0;
        Ok(Some(f64::from_bits(if positive {
            bits ^ (1 << 63)
        } else {
            !bits
        })))
    }

    fn decimal<T: TryFrom<i128>>(&mut self, scale: i8) -> Parsed<Option<T>> {
        if !self.expect(TAG_DECIMAL)? {
            return Ok(None);
        }
        if self.byte()? != scale as u8 {
            return Err("a decimal of another scale");
        }
        let value = (u128::from_be_bytes(self.array()?) ^ (1 << 127)) as i128;
        T::try_from(value).map(Some).map_err(|_| OUT_OF_RANGE)
    }

    fn date(&mut self) -> Parsed<Option<i32>> {
        if !self.expect(TAG_DATE)? {
            return Ok(None);
        }
        Ok(Some((u32::from_be_bytes(self.array()?) ^ (1 << 31)) as i32))
    }

    fn instant<T: TryFrom<i128>>(&mut self, tag: u8, per_second: i64) -> Parsed<Option<T>> {
        if !self.expect(tag)? {
            return Ok(None);
        }
        let seconds = i128::from(signed_64(self.array()?));
        let nanos = i128::from(u32::from_be_bytes(self.array()?));
        let nanos_per_unit = i128::from(1_000_000_000 / per_second);
        if nanos >= 1_000_000_000 || nanos % nanos_per_unit != 0 {
            return Err(OUT_OF_RANGE);
        }
        let value = seconds * i128::from(per_second) + nanos / nanos_per_unit;
        T::try_from(value).map(Some).map_err(|_| OUT_OF_RANGE)
    }
}

fn signed_64(bytes: [u8; 8]) -> i64 {
    (u64::from_be_bytes(bytes) ^ (1 << 63)) as i64
}

/// Reads the next column of every key.
pub(super) fn column(data_type: &DataType, keys: &mut [KeyReader<'_>]) -> Result<ArrayRef, BadKey> {
    use DataType as D;
    match data_type {
        D::Boolean => {
            let mut builder = BooleanBuilder::with_capacity(keys.len());
            each(keys, KeyReader::boolean, |value| {
                builder.append_option(value)
            })?;
            Ok(Arc::new(builder.finish()))
        }
        D::Int8 => primitive::<Int8Type>(data_type, keys, KeyReader::integer),
        D::Int16 => primitive::<Int16Type>(data_type, keys, KeyReader::integer),
        D::Int32 => primitive::<Int32Type>(data_type, keys, KeyReader::integer),
        D::Int64 => primitive::<Int64Type>(data_type, keys, KeyReader::integer),
        D::UInt8 => primitive::<UInt8Type>(data_type, keys, KeyReader::integer),
        D::UInt16 => primitive::<UInt16Type>(data_type, keys, KeyReader::integer),
        D::UInt32 => primitive::<UInt32Type>(data_type, keys, KeyReader::integer),
        D::UInt64 => primitive::<UInt64Type>(data_type, keys, KeyReader::integer),
        D::Float16 => {
            primitive::<Float16Type>(data_type, keys, |key| Ok(key.float()?.map(Half::from_f64)))
        }
        D::Float32 => {
            primitive::<Float32Type>(data_type, keys, |key| Ok(key.float()?.map(|v| v as f32)))
        }
        D::Float64 => primitive::<Float64Type>(data_type, keys, KeyReader::float),
        D::Decimal32(_, scale) => {
            primitive::<Decimal32Type>(data_type, keys, |key| key.decimal(*scale))
        }
        D::Decimal64(_, scale) => {
            primitive::<Decimal64Type>(data_type, keys, |key| key.decimal(*scale))
        }
        D::Decimal128(_, scale) => {
            primitive::<Decimal128Type>(data_type, keys, |key| key.decimal(*scale))
        }
        D::Date32 => primitive::<Date32Type>(data_type, keys, KeyReader::date),
        D::Timestamp(unit, _) | D::Time32(unit) | D::Time64(unit) | D::Duration(unit) => {
            instants(data_type, *unit, keys)
        }
        _ => bytes_or_nulls(data_type, keys),
    }
}

fn instants(
    data_type: &DataType,
    unit: TimeUnit,
    keys: &mut [KeyReader<'_>],
) -> Result<ArrayRef, BadKey> {
    macro_rules! of {
        ($tag:ident, $s:ty, $ms:ty, $us:ty, $ns:ty) => {{
            let n = per_second(unit);
            match unit {
                TimeUnit::Second => primitive::<$s>(data_type, keys, |key| key.instant($tag, n)),
                TimeUnit::Millisecond => {
                    primitive::<$ms>(data_type, keys, |key| key.instant($tag, n))
                }
                TimeUnit::Microsecond => {
                    primitive::<$us>(data_type, keys, |key| key.instant($tag, n))
                }
                TimeUnit::Nanosecond => {
                    primitive::<$ns>(data_type, keys, |key| key.instant($tag, n))
                }
            }
        }};
    }
    match data_type {
        DataType::Timestamp(_, _) => of!(
            TAG_TIMESTAMP,
            TimestampSecondType,
            TimestampMillisecondType,
            TimestampMicrosecondType,
            TimestampNanosecondType
        ),
        DataType::Duration(_) => of!(
            TAG_DURATION,
            DurationSecondType,
            DurationMillisecondType,
            DurationMicrosecondType,
            DurationNanosecondType
        ),
        _ => of!(
            TAG_TIME,
            Time32SecondType,
            Time32MillisecondType,
            Time64MicrosecondType,
            Time64NanosecondType
        ),
    }
}

fn bytes_or_nulls(data_type: &DataType, keys: &mut [KeyReader<'_>]) -> Result<ArrayRef, BadKey> {
    macro_rules! build {
        ($builder:expr, $parse:path) => {{
            let mut builder = $builder;
            each(keys, $parse, |value| builder.append_option(value))?;
            Ok(Arc::new(builder.finish()))
        }};
    }
    match data_type {
        DataType::Utf8 => build!(StringBuilder::new(), KeyReader::text),
        DataType::LargeUtf8 => build!(LargeStringBuilder::new(), KeyReader::text),
        DataType::Utf8View => build!(StringViewBuilder::new(), KeyReader::text),
        DataType::Binary => build!(BinaryBuilder::new(), KeyReader::binary),
        DataType::LargeBinary => build!(LargeBinaryBuilder::new(), KeyReader::binary),
        DataType::BinaryView => build!(BinaryViewBuilder::new(), KeyReader::binary),
        DataType::FixedSizeBinary(size) => fixed_size_binary(*size, keys),
        // `KeyCodec::new` admits no other type; what is left is the column of NULLs.
        _ => {
            let nothing = |key: &mut KeyReader<'_>| match key.tag()? {
                None => Ok(()),
                Some(_) => Err(OTHER_TYPE),
            };
            each(keys, nothing, |()| ())?;
            Ok(Arc::new(NullArray::new(keys.len())))
        }
    }
}

fn fixed_size_binary(size: i32, keys: &mut [KeyReader<'_>]) -> Result<ArrayRef, BadKey> {
    let mut builder = FixedSizeBinaryBuilder::with_capacity(keys.len(), size);
    let width = usize::try_from(size).unwrap_or(0);
    let parse = |key: &mut KeyReader<'_>| -> Parsed<Option<Vec<u8>>> {
        match key.binary()? {
            Some(value) if value.len() != width => Err(OUT_OF_RANGE),
            value => Ok(value.map(<[u8]>::to_vec)),
        }
    };
    each(keys, parse, |value| match value {
        Some(value) => builder
            .append_value(value)
            .expect("the width was compared above"),
        None => builder.append_null(),
    })?;
    Ok(Arc::new(builder.finish()))
}

fn primitive<'a, T: ArrowPrimitiveType>(
    data_type: &DataType,
    keys: &mut [KeyReader<'a>],
    parse: impl Fn(&mut KeyReader<'a>) -> Parsed<Option<T::Native>>,
) -> Result<ArrayRef, BadKey> {
    let builder = PrimitiveBuilder::<T>::with_capacity(keys.len());
    // Keeps the time zone, the precision and the scale of the schema.
    let mut builder = builder.with_data_type(data_type.clone());
    each(keys, parse, |value| builder.append_option(value))?;
    Ok(Arc::new(builder.finish()))
}

fn each<'a, T>(
    keys: &mut [KeyReader<'a>],
    parse: impl Fn(&mut KeyReader<'a>) -> Parsed<T>,
    mut append: impl FnMut(T),
) -> Result<(), BadKey> {
    for (key_index, key) in keys.iter_mut().enumerate() {
        let offset = key.offset;
        append(parse(key).map_err(|found| BadKey {
            key_index,
            offset,
            found,
        })?);
    }
    Ok(())
}
