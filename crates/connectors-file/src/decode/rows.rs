//! Columns under construction. A row is set value by value and then committed, so that a record
//! that turns out bad leaves nothing behind.

use std::fmt::Debug;
use std::ops::Range;
use std::sync::Arc;

use arrow::array::{
    ArrayRef, BooleanBuilder, Date32Builder, Decimal128Builder, Float32Builder, Float64Builder,
    Int8Builder, Int16Builder, Int32Builder, Int64Builder, RecordBatch, RecordBatchOptions,
    StringBuilder, TimestampMicrosecondBuilder,
};
use arrow::datatypes::{DataType, Field, SchemaRef};
use millstream_operator::OperatorError;

use crate::fault;

use super::Flaw;
use super::types::ColumnType;

/// One value of the row that is being set.
#[derive(Clone, PartialEq, Debug)]
pub(super) enum Slot {
    /// The record says nothing of it: NULL.
    Missing,
    Null,
    Int(i64),
    Double(f64),
    Bool(bool),
    Decimal(i128),
    /// Text as it stands in the record.
    Record(Range<usize>),
    /// Text that was written with escapes, in [`Rows::scratch`].
    Scratch(Range<usize>),
}

/// The rows of the next batch.
pub(super) struct Rows {
    schema: SchemaRef,
    types: Vec<ColumnType>,
    /// Columns that must not be NULL.
    required: Vec<usize>,
    builders: Vec<Builder>,
    slots: Vec<Slot>,
    /// Texts without their escapes.
    pub(super) scratch: String,
    rows: usize,
    bytes: usize,
}

enum Builder {
    BigInt(Int64Builder),
    Int(Int32Builder),
    SmallInt(Int16Builder),
    TinyInt(Int8Builder),
    Double(Float64Builder),
    Float(Float32Builder),
    Boolean(BooleanBuilder),
    Varchar(StringBuilder),
    Timestamp(TimestampMicrosecondBuilder),
    Date(Date32Builder),
    Decimal(Decimal128Builder),
}

impl Rows {
    pub(super) fn new(schema: &SchemaRef) -> Result<Self, OperatorError> {
        let types = schema.fields().iter().map(|field| {
            ColumnType::of(field.data_type()).ok_or_else(|| {
                let what = format!(
                    "a file source makes no column {:?} of type {}",
                    field.name(),
                    field.data_type()
                );
                fault::internal(what)
            })
        });
        let types: Vec<ColumnType> = types.collect::<Result<_, _>>()?;
        let builders = schema.fields().iter().zip(&types);
        let required = schema.fields().iter().enumerate();
        let required = required.filter(|(_, field)| !field.is_nullable());
        Ok(Self {
            required: required.map(|(column, _)| column).collect(),
            schema: Arc::clone(schema),
            builders: builders
                .map(|(field, of)| Builder::new(field, *of))
                .collect(),
            slots: vec![Slot::Missing; types.len()],
            types,
            scratch: String::new(),
            rows: 0,
            bytes: 0,
        })
    }

    pub(super) fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    pub(super) fn types(&self) -> &[ColumnType] {
        &self.types
    }

    pub(super) fn len(&self) -> usize {
        self.rows
    }

    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }

    /// Forgets what was set and not committed.
    pub(super) fn begin(&mut self) {
        self.slots.fill(Slot::Missing);
        self.scratch.clear();
    }

    /// Sets a value, which has the column's type; the last one counts.
    pub(super) fn set(&mut self, column: usize, slot: Slot) {
        self.slots[column] = slot;
    }

    /// The name of the first column that was not set.
    pub(super) fn first_missing(&self) -> Option<&str> {
        let column = self.slots.iter().position(|slot| *slot == Slot::Missing)?;
        Some(self.schema.field(column).name())
    }

    /// Adds the row that was set.
    pub(super) fn commit(&mut self, record: &str) -> Result<(), Flaw> {
        let is_null = |column: &&usize| matches!(self.slots[**column], Slot::Missing | Slot::Null);
        if let Some(column) = self.required.iter().find(is_null) {
            let name = self.schema.field(*column).name();
            let what = format!("column {name:?} is missing or NULL and must not be");
            return Err(Flaw { at: 0, what });
        }
        for (builder, slot) in self.builders.iter_mut().zip(&self.slots) {
            self.bytes += builder.append(slot, record, &self.scratch);
        }
        self.rows += 1;
        Ok(())
    }

    pub(super) fn take(&mut self) -> Result<RecordBatch, OperatorError> {
        let columns = self.builders.iter_mut().map(Builder::finish).collect();
        let options = RecordBatchOptions::new().with_row_count(Some(self.rows));
        (self.rows, self.bytes) = (0, 0);
        RecordBatch::try_new_with_options(Arc::clone(&self.schema), columns, &options)
            .map_err(|error| fault::internal("decoded columns make no batch").with_source(error))
    }
}

impl Builder {
    fn new(field: &Field, of: ColumnType) -> Self {
        match of {
            ColumnType::BigInt => Self::BigInt(Int64Builder::new()),
            ColumnType::Int => Self::Int(Int32Builder::new()),
            ColumnType::SmallInt => Self::SmallInt(Int16Builder::new()),
            ColumnType::TinyInt => Self::TinyInt(Int8Builder::new()),
            ColumnType::Double => Self::Double(Float64Builder::new()),
            ColumnType::Float => Self::Float(Float32Builder::new()),
            ColumnType::Boolean => Self::Boolean(BooleanBuilder::new()),
            ColumnType::Varchar => Self::Varchar(StringBuilder::new()),
            ColumnType::Timestamp => {
                let zone = match field.data_type() {
                    DataType::Timestamp(_, zone) => zone.clone(),
                    _ => None,
                };
                Self::Timestamp(TimestampMicrosecondBuilder::new().with_timezone_opt(zone))
            }
            ColumnType::Date => Self::Date(Date32Builder::new()),
            ColumnType::Decimal { .. } => {
                let builder = Decimal128Builder::new().with_data_type(field.data_type().clone());
                Self::Decimal(builder)
            }
        }
    }

    /// Adds a value; returns about its bytes.
    fn append(&mut self, slot: &Slot, record: &str, scratch: &str) -> usize {
        match (self, slot) {
            (Self::Varchar(builder), Slot::Record(range)) => {
                builder.append_value(&record[range.clone()]);
                return size_of::<i32>() + range.len();
            }
            (Self::Varchar(builder), Slot::Scratch(range)) => {
                builder.append_value(&scratch[range.clone()]);
                return size_of::<i32>() + range.len();
            }
            (Self::BigInt(builder), Slot::Int(value)) => builder.append_value(*value),
            (Self::Int(builder), Slot::Int(value)) => builder.append_value(narrow(*value)),
            (Self::SmallInt(builder), Slot::Int(value)) => builder.append_value(narrow(*value)),
            (Self::TinyInt(builder), Slot::Int(value)) => builder.append_value(narrow(*value)),
            (Self::Timestamp(builder), Slot::Int(value)) => builder.append_value(*value),
            (Self::Date(builder), Slot::Int(value)) => builder.append_value(narrow(*value)),
            (Self::Double(builder), Slot::Double(value)) => builder.append_value(*value),
            (Self::Float(builder), Slot::Double(value)) => builder.append_value(*value as f32),
            (Self::Boolean(builder), Slot::Bool(value)) => builder.append_value(*value),
            (Self::Decimal(builder), Slot::Decimal(value)) => builder.append_value(*value),
            (builder, Slot::Missing | Slot::Null) => builder.append_null(),
            _ => unreachable!("a slot was set to a value of another type than its column's"),
        }
        size_of::<i64>()
    }

    fn append_null(&mut self) {
        match self {
            Self::BigInt(builder) => builder.append_null(),
            Self::Int(builder) => builder.append_null(),
            Self::SmallInt(builder) => builder.append_null(),
            Self::TinyInt(builder) => builder.append_null(),
            Self::Double(builder) => builder.append_null(),
            Self::Float(builder) => builder.append_null(),
            Self::Boolean(builder) => builder.append_null(),
            Self::Varchar(builder) => builder.append_null(),
            Self::Timestamp(builder) => builder.append_null(),
            Self::Date(builder) => builder.append_null(),
            Self::Decimal(builder) => builder.append_null(),
        }
    }

    fn finish(&mut self) -> ArrayRef {
        match self {
            Self::BigInt(builder) => Arc::new(builder.finish()),
            Self::Int(builder) => Arc::new(builder.finish()),
            Self::SmallInt(builder) => Arc::new(builder.finish()),
            Self::TinyInt(builder) => Arc::new(builder.finish()),
            Self::Double(builder) => Arc::new(builder.finish()),
            Self::Float(builder) => Arc::new(builder.finish()),
            Self::Boolean(builder) => Arc::new(builder.finish()),
            Self::Varchar(builder) => Arc::new(builder.finish()),
            Self::Timestamp(builder) => Arc::new(builder.finish()),
            Self::Date(builder) => Arc::new(builder.finish()),
            Self::Decimal(builder) => Arc::new(builder.finish()),
        }
    }
}

/// The value was parsed as one of the column's width.
fn narrow<T: TryFrom<i64, Error: Debug>>(value: i64) -> T {
    T::try_from(value).expect("a value was parsed in the width of its column")
}
