//! Types by their SQL names, and the classes of types that can stand in for one another.

use arrow::datatypes::{DataType, IntervalUnit};

/// The SQL name of a type, as error messages and references print it.
pub fn sql_name(data_type: &DataType) -> String {
    match data_type {
        DataType::Null => "NULL".into(),
        DataType::Boolean => "BOOLEAN".into(),
        DataType::Int8 => "TINYINT".into(),
        DataType::Int16 => "SMALLINT".into(),
        DataType::Int32 => "INT".into(),
        DataType::Int64 => "BIGINT".into(),
        DataType::UInt8 => "TINYINT UNSIGNED".into(),
        DataType::UInt16 => "SMALLINT UNSIGNED".into(),
        DataType::UInt32 => "INT UNSIGNED".into(),
        DataType::UInt64 => "BIGINT UNSIGNED".into(),
        DataType::Float16 | DataType::Float32 => "FLOAT".into(),
        DataType::Float64 => "DOUBLE".into(),
        DataType::Decimal32(p, s)
        | DataType::Decimal64(p, s)
        | DataType::Decimal128(p, s)
        | DataType::Decimal256(p, s) => format!("DECIMAL({p}, {s})"),
        DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View => "VARCHAR".into(),
        DataType::Binary | DataType::LargeBinary | DataType::BinaryView => "VARBINARY".into(),
        DataType::FixedSizeBinary(n) => format!("BINARY({n})"),
        DataType::Date32 | DataType::Date64 => "DATE".into(),
        DataType::Time32(_) | DataType::Time64(_) => "TIME".into(),
        DataType::Timestamp(_, None) => "TIMESTAMP".into(),
        DataType::Timestamp(_, Some(_)) => "TIMESTAMP WITH TIME ZONE".into(),
        DataType::Duration(_)
        | DataType::Interval(IntervalUnit::DayTime | IntervalUnit::MonthDayNano) => {
            "INTERVAL".into()
        }
        DataType::Interval(IntervalUnit::YearMonth) => "INTERVAL YEAR TO MONTH".into(),
        DataType::List(item)
        | DataType::LargeList(item)
        | DataType::ListView(item)
        | DataType::LargeListView(item)
        | DataType::FixedSizeList(item, _) => format!("ARRAY<{}>", sql_name(item.data_type())),
        DataType::Struct(fields) => {
            let parts: Vec<String> = fields
                .iter()
                .map(|f| format!("{} {}", f.name(), sql_name(f.data_type())))
                .collect();
            format!("ROW<{}>", parts.join(", "))
        }
        DataType::Map(entries, _) => match entries.data_type() {
            DataType::Struct(pair) if pair.len() == 2 => {
                format!(
                    "MAP<{}, {}>",
                    sql_name(pair[0].data_type()),
                    sql_name(pair[1].data_type())
                )
            }
            _ => "MAP".into(),
        },
        DataType::Dictionary(_, value) => sql_name(value),
        DataType::RunEndEncoded(_, value) => sql_name(value.data_type()),
        DataType::Union(..) => "UNION".into(),
    }
}

/// Types that may be compared with each other without a cast written by the user.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Class {
    /// NULL, which fits everything.
    Null,
    Boolean,
    Number,
    Text,
    Binary,
    /// Dates, times and points in time.
    Temporal,
    Interval,
    /// Lists, rows, maps and what else is made of other types: the planner compares their parts.
    Nested,
}

impl Class {
    /// The class of a type.
    pub(crate) fn of(data_type: &DataType) -> Self {
        match data_type {
            DataType::Null => Self::Null,
            DataType::Boolean => Self::Boolean,
            t if t.is_numeric() => Self::Number,
            DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View => Self::Text,
            DataType::Binary
            | DataType::LargeBinary
            | DataType::BinaryView
            | DataType::FixedSizeBinary(_) => Self::Binary,
            DataType::Date32
            | DataType::Date64
            | DataType::Time32(_)
            | DataType::Time64(_)
            | DataType::Timestamp(..) => Self::Temporal,
            DataType::Duration(_) | DataType::Interval(_) => Self::Interval,
            DataType::Dictionary(_, value) => Self::of(value),
            DataType::RunEndEncoded(_, value) => Self::of(value.data_type()),
            _ => Self::Nested,
        }
    }
}

/// The type a result leaves this crate with: one layout for text and binary, whatever a function
/// returns inside.
pub(crate) fn plain(data_type: &DataType) -> DataType {
    let plain_field = |field: &arrow::datatypes::FieldRef| {
        let data_type = plain(field.data_type());
        std::sync::Arc::new(field.as_ref().clone().with_data_type(data_type))
    };
    match data_type {
        DataType::Utf8View | DataType::LargeUtf8 => DataType::Utf8,
        DataType::BinaryView | DataType::LargeBinary => DataType::Binary,
        DataType::Dictionary(_, value) => plain(value),
        DataType::List(item) | DataType::LargeList(item) | DataType::FixedSizeList(item, _) => {
            DataType::List(plain_field(item))
        }
        DataType::Struct(fields) => DataType::Struct(fields.iter().map(plain_field).collect()),
        other => other.clone(),
    }
}
