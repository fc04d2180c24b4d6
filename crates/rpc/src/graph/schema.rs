//! Arrow schemas and types.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use arrow::datatypes::{
    DECIMAL32_MAX_PRECISION, DECIMAL64_MAX_PRECISION, DECIMAL128_MAX_PRECISION,
    DECIMAL256_MAX_PRECISION, DataType, Field, IntervalUnit, Schema, SchemaRef, TimeUnit,
};

use crate::error::{DecodeError, EncodeError, invalid, missing, unknown};
use crate::pb::{self, data_type::Kind};

/// How deep types may be nested: less than a message may be, so that what is written is readable.
const DEPTH_MAX: usize = 16;

pub(super) fn to_wire(schema: &Schema) -> Result<pb::Schema, EncodeError> {
    let fields: Result<_, _> = schema
        .fields()
        .iter()
        .map(|field| field_to_wire(field, 0))
        .collect();
    Ok(pb::Schema {
        fields: fields?,
        metadata: sorted(schema.metadata()),
    })
}

pub(super) fn from_wire(message: pb::Schema) -> Result<SchemaRef, DecodeError> {
    let fields: Result<Vec<Field>, _> = message
        .fields
        .into_iter()
        .map(|field| field_from_wire(field, 0))
        .collect();
    let metadata = message.metadata.into_iter().collect();
    Ok(Arc::new(Schema::new_with_metadata(fields?, metadata)))
}

fn sorted(metadata: &HashMap<String, String>) -> BTreeMap<String, String> {
    metadata
        .iter()
        .map(|(key, value)| (key.clone(), value.clone()))
        .collect()
}

fn field_to_wire(field: &Field, depth: usize) -> Result<pb::Field, EncodeError> {
    Ok(pb::Field {
        name: field.name().clone(),
        r#type: Some(Box::new(type_to_wire(
            field.name(),
            field.data_type(),
            depth,
        )?)),
        nullable: field.is_nullable(),
        metadata: sorted(field.metadata()),
    })
}

fn field_from_wire(message: pb::Field, depth: usize) -> Result<Field, DecodeError> {
    let data_type = message.r#type.ok_or(missing("Field", "type"))?;
    let field = Field::new(
        message.name,
        type_from_wire(*data_type, depth)?,
        message.nullable,
    );
    Ok(field.with_metadata(message.metadata.into_iter().collect()))
}

/// The type of `column`, which is named where the type is refused.
pub(super) fn type_to_wire(
    column: &str,
    data_type: &DataType,
    depth: usize,
) -> Result<pb::DataType, EncodeError> {
    let refused = || {
        let data_type = data_type.to_string().chars().take(200).collect();
        EncodeError::ColumnType {
            column: column.to_owned(),
            data_type,
        }
    };
    if depth > DEPTH_MAX {
        return Err(refused());
    }
    let list = |element: &Field, layout: pb::ListLayout, fixed_size: u32| {
        let element = Some(field_to_wire(element, depth + 1)?);
        Ok(Kind::List(Box::new(pb::ListType {
            element: element.map(Box::new),
            layout: layout.into(),
            fixed_size,
        })))
    };
    let decimal = |bits, precision: u8, scale: i8| {
        Kind::Decimal(pb::DecimalType {
            bits,
            precision: precision.into(),
            scale: scale.into(),
        })
    };
    let kind = match data_type {
        DataType::Timestamp(unit, time_zone) => Kind::Timestamp(pb::TimestampType {
            unit: unit_to_wire(*unit).into(),
            time_zone: time_zone.as_deref().map(str::to_owned),
        }),
        DataType::Decimal32(precision, scale) => decimal(32, *precision, *scale),
        DataType::Decimal64(precision, scale) => decimal(64, *precision, *scale),
        DataType::Decimal128(precision, scale) => decimal(128, *precision, *scale),
        DataType::Decimal256(precision, scale) => decimal(256, *precision, *scale),
        DataType::FixedSizeBinary(size) => {
            Kind::FixedSizeBinary(u32::try_from(*size).map_err(|_| refused())?)
        }
        DataType::List(element) => list(element, pb::ListLayout::Variable, 0)?,
        DataType::LargeList(element) => list(element, pb::ListLayout::Large, 0)?,
        DataType::FixedSizeList(element, size) => list(
            element,
            pb::ListLayout::Fixed,
            u32::try_from(*size).map_err(|_| refused())?,
        )?,
        DataType::Struct(fields) => {
            let fields: Result<_, _> = fields
                .iter()
                .map(|field| field_to_wire(field, depth + 1))
                .collect();
            Kind::Struct(pb::StructType { fields: fields? })
        }
        DataType::Map(entries, keys_sorted) => Kind::Map(Box::new(pb::MapType {
            entries: Some(Box::new(field_to_wire(entries, depth + 1)?)),
            keys_sorted: *keys_sorted,
        })),
        DataType::Dictionary(key, value) => Kind::Dictionary(Box::new(pb::DictionaryType {
            key: primitive_to_wire(key).ok_or_else(refused)?.into(),
            value: Some(Box::new(type_to_wire(column, value, depth + 1)?)),
        })),
        other => Kind::Primitive(primitive_to_wire(other).ok_or_else(refused)?.into()),
    };
    Ok(pb::DataType { kind: Some(kind) })
}

pub(super) fn type_from_wire(message: pb::DataType, depth: usize) -> Result<DataType, DecodeError> {
    if depth > DEPTH_MAX {
        return Err(invalid(
            "DataType",
            "kind",
            format!("is nested more than {DEPTH_MAX} deep"),
        ));
    }
    Ok(match message.kind.ok_or(missing("DataType", "kind"))? {
        Kind::Primitive(primitive) => primitive_from_wire("DataType", "primitive", primitive)?,
        Kind::Timestamp(timestamp) => {
            let unit = unit_from_wire(timestamp.unit)?;
            DataType::Timestamp(unit, timestamp.time_zone.map(Into::into))
        }
        Kind::Decimal(decimal) => decimal_from_wire(&decimal)?,
        Kind::FixedSizeBinary(size) => {
            DataType::FixedSizeBinary(size_from_wire("DataType", "fixed_size_binary", size)?)
        }
        Kind::List(list) => list_from_wire(*list, depth)?,
        Kind::Struct(parts) => {
            let fields: Result<Vec<Field>, _> = parts
                .fields
                .into_iter()
                .map(|field| field_from_wire(field, depth + 1))
                .collect();
            DataType::Struct(fields?.into())
        }
        Kind::Map(map) => {
            let entries = map.entries.ok_or(missing("MapType", "entries"))?;
            let entries = field_from_wire(*entries, depth + 1)?;
            if !matches!(entries.data_type(), DataType::Struct(parts) if parts.len() == 2) {
                return Err(invalid(
                    "MapType",
                    "entries",
                    "is not a struct of key and value",
                ));
            }
            DataType::Map(Arc::new(entries), map.keys_sorted)
        }
        Kind::Dictionary(dictionary) => {
            let key = primitive_from_wire("DictionaryType", "key", dictionary.key)?;
            if !key.is_dictionary_key_type() {
                return Err(invalid(
                    "DictionaryType",
                    "key",
                    format!("is {key}, no whole number"),
                ));
            }
            let value = dictionary.value.ok_or(missing("DictionaryType", "value"))?;
            DataType::Dictionary(Box::new(key), Box::new(type_from_wire(*value, depth + 1)?))
        }
    })
}

fn list_from_wire(message: pb::ListType, depth: usize) -> Result<DataType, DecodeError> {
    let element = message.element.ok_or(missing("ListType", "element"))?;
    let element = Arc::new(field_from_wire(*element, depth + 1)?);
    Ok(match pb::ListLayout::try_from(message.layout) {
        Ok(pb::ListLayout::Variable) => DataType::List(element),
        Ok(pb::ListLayout::Large) => DataType::LargeList(element),
        Ok(pb::ListLayout::Fixed) => {
            let size = size_from_wire("ListType", "fixed_size", message.fixed_size)?;
            DataType::FixedSizeList(element, size)
        }
        Ok(pb::ListLayout::Unspecified) | Err(_) => {
            return Err(unknown("ListType", "layout", message.layout));
        }
    })
}

fn size_from_wire(
    message: &'static str,
    field: &'static str,
    size: u32,
) -> Result<i32, DecodeError> {
    i32::try_from(size)
        .map_err(|_| invalid(message, field, format!("is {size}, above {}", i32::MAX)))
}

fn decimal_from_wire(message: &pb::DecimalType) -> Result<DataType, DecodeError> {
    let of_bits: (u8, fn(u8, i8) -> DataType) = match message.bits {
        32 => (DECIMAL32_MAX_PRECISION, DataType::Decimal32),
        64 => (DECIMAL64_MAX_PRECISION, DataType::Decimal64),
        128 => (DECIMAL128_MAX_PRECISION, DataType::Decimal128),
        256 => (DECIMAL256_MAX_PRECISION, DataType::Decimal256),
        bits => {
            return Err(invalid(
                "DecimalType",
                "bits",
                format!("is {bits}, not 32, 64, 128 or 256"),
            ));
        }
    };
    let (highest, make) = of_bits;
    let precision = u8::try_from(message.precision)
        .ok()
        .filter(|p| (1..=highest).contains(p));
    let precision = precision.ok_or_else(|| {
        let what = format!("is {}, outside 1 to {highest}", message.precision);
        invalid("DecimalType", "precision", what)
    })?;
    let scale = i8::try_from(message.scale)
        .ok()
        .filter(|scale| i32::from(*scale) <= i32::from(precision))
        .ok_or_else(|| {
            let what = format!("is {}, outside -128 to the precision", message.scale);
            invalid("DecimalType", "scale", what)
        })?;
    Ok(make(precision, scale))
}

fn unit_to_wire(unit: TimeUnit) -> pb::TimeUnit {
    match unit {
        TimeUnit::Second => pb::TimeUnit::Second,
        TimeUnit::Millisecond => pb::TimeUnit::Millisecond,
        TimeUnit::Microsecond => pb::TimeUnit::Microsecond,
        TimeUnit::Nanosecond => pb::TimeUnit::Nanosecond,
    }
}

fn unit_from_wire(unit: i32) -> Result<TimeUnit, DecodeError> {
    Ok(match pb::TimeUnit::try_from(unit) {
        Ok(pb::TimeUnit::Second) => TimeUnit::Second,
        Ok(pb::TimeUnit::Millisecond) => TimeUnit::Millisecond,
        Ok(pb::TimeUnit::Microsecond) => TimeUnit::Microsecond,
        Ok(pb::TimeUnit::Nanosecond) => TimeUnit::Nanosecond,
        Ok(pb::TimeUnit::Unspecified) | Err(_) => {
            return Err(unknown("TimestampType", "unit", unit));
        }
    })
}

/// Types without parameters beside their name on the wire.
const PRIMITIVES: [(DataType, pb::PrimitiveType); 32] = {
    use DataType as D;
    use pb::PrimitiveType as P;
    [
        (D::Null, P::Null),
        (D::Boolean, P::Boolean),
        (D::Int8, P::Int8),
        (D::Int16, P::Int16),
        (D::Int32, P::Int32),
        (D::Int64, P::Int64),
        (D::UInt8, P::Uint8),
        (D::UInt16, P::Uint16),
        (D::UInt32, P::Uint32),
        (D::UInt64, P::Uint64),
        (D::Float16, P::Float16),
        (D::Float32, P::Float32),
        (D::Float64, P::Float64),
        (D::Utf8, P::Utf8),
        (D::LargeUtf8, P::LargeUtf8),
        (D::Utf8View, P::Utf8View),
        (D::Binary, P::Binary),
        (D::LargeBinary, P::LargeBinary),
        (D::BinaryView, P::BinaryView),
        (D::Date32, P::Date32),
        (D::Date64, P::Date64),
        (D::Time32(TimeUnit::Second), P::Time32Second),
        (D::Time32(TimeUnit::Millisecond), P::Time32Millisecond),
        (D::Time64(TimeUnit::Microsecond), P::Time64Microsecond),
        (D::Time64(TimeUnit::Nanosecond), P::Time64Nanosecond),
        (D::Duration(TimeUnit::Second), P::DurationSecond),
        (D::Duration(TimeUnit::Millisecond), P::DurationMillisecond),
        (D::Duration(TimeUnit::Microsecond), P::DurationMicrosecond),
        (D::Duration(TimeUnit::Nanosecond), P::DurationNanosecond),
        (D::Interval(IntervalUnit::YearMonth), P::IntervalYearMonth),
        (D::Interval(IntervalUnit::DayTime), P::IntervalDayTime),
        (
            D::Interval(IntervalUnit::MonthDayNano),
            P::IntervalMonthDayNano,
        ),
    ]
};

fn primitive_to_wire(data_type: &DataType) -> Option<pb::PrimitiveType> {
    PRIMITIVES
        .iter()
        .find(|(known, _)| known == data_type)
        .map(|(_, wire)| *wire)
}

fn primitive_from_wire(
    message: &'static str,
    field: &'static str,
    primitive: i32,
) -> Result<DataType, DecodeError> {
    let wire = pb::PrimitiveType::try_from(primitive).ok();
    let mut known = PRIMITIVES.iter();
    let found = known.find(|(_, known)| Some(*known) == wire);
    found
        .map(|(data_type, _)| data_type.clone())
        .ok_or(unknown(message, field, primitive))
}

#[cfg(test)]
pub(super) fn primitives() -> impl Iterator<Item = DataType> {
    PRIMITIVES.into_iter().map(|(data_type, _)| data_type)
}
