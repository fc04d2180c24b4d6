//! The declared columns among those of a Parquet file.

use std::path::Path;
use std::sync::Arc;

use arrow::array::{ArrayRef, RecordBatch, RecordBatchOptions};
use arrow::compute::{CastOptions, cast_with_options};
use arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use arrow::error::ArrowError;
use millstream_operator::{ErrorKind, OperatorError};

use crate::decode::type_name;

/// Columns named in a message.
const NAMES_SHOWN: usize = 20;

/// Which of a file's columns are wanted.
pub(super) struct Columns {
    declared: SchemaRef,
    /// For each declared column, which of the file's it is.
    of_file: Vec<usize>,
    /// The same, sorted: the order in which they are read.
    in_order: Vec<usize>,
}

impl Columns {
    /// Finds them.
    ///
    /// # Errors
    /// If one is not there, is there twice, or may hold what its declared type does not.
    pub(super) fn new(
        path: &Path,
        file: &Schema,
        declared: &SchemaRef,
    ) -> Result<Self, OperatorError> {
        let of_file = declared
            .fields()
            .iter()
            .map(|field| find(path, file, field));
        let of_file = of_file.collect::<Result<Vec<_>, _>>()?;
        let mut in_order = of_file.clone();
        in_order.sort_unstable();
        Ok(Self {
            declared: Arc::clone(declared),
            of_file,
            in_order,
        })
    }

    /// The file's columns to read.
    pub(super) fn wanted(&self) -> &[usize] {
        &self.in_order
    }

    /// What was read, as it was declared.
    pub(super) fn convert(&self, read: &RecordBatch) -> Result<RecordBatch, ArrowError> {
        let options = CastOptions {
            safe: false,
            ..CastOptions::default()
        };
        let column = |(field, wanted): (&Arc<Field>, &usize)| {
            let found = self.in_order.iter().position(|index| index == wanted);
            let found = found.expect("what is wanted was read");
            cast_with_options(read.column(found), field.data_type(), &options)
        };
        let columns = self.declared.fields().iter().zip(&self.of_file);
        let columns = columns.map(column).collect::<Result<Vec<ArrayRef>, _>>()?;
        let rows = RecordBatchOptions::new().with_row_count(Some(read.num_rows()));
        RecordBatch::try_new_with_options(Arc::clone(&self.declared), columns, &rows)
    }
}

fn find(path: &Path, file: &Schema, declared: &Field) -> Result<usize, OperatorError> {
    let name = declared.name();
    let refused = |what: String, remedy: String| {
        let what = format!("source file {path:?}: {what}");
        Err(OperatorError::new(ErrorKind::External, what).with_remedy(remedy))
    };
    let fields = file.fields().iter().enumerate();
    let mut found = fields.filter(|(_, field)| field.name() == name);
    let Some((index, field)) = found.next() else {
        let what = format!("it has no column {name:?}; it has {}", names(file));
        let remedy = "declare the columns by the names in the file, in the same case";
        return refused(what, remedy.to_owned());
    };
    if found.next().is_some() {
        let what = format!("it has more than one column {name:?}");
        return refused(what, "write it with one name for each column".to_owned());
    }
    if !fits(field.data_type(), declared.data_type()) {
        let (holds, wanted) = (field.data_type(), type_name(declared.data_type()));
        let what = format!("column {name:?} holds {holds}, which does not fit {wanted}");
        let remedy = match smallest(field.data_type()) {
            Some(smallest) => format!("declare it as {smallest}, and cast it in a select step"),
            None => "leave the column out, or write it with a plain type".to_owned(),
        };
        return refused(what, remedy);
    }
    Ok(index)
}

fn names(file: &Schema) -> String {
    let names = file
        .fields()
        .iter()
        .map(|field| format!("{:?}", field.name()));
    let mut shown: Vec<String> = names.take(NAMES_SHOWN).collect();
    let more = file.fields().len().saturating_sub(shown.len());
    if more > 0 {
        shown.push(format!("{more} more"));
    }
    match shown.is_empty() {
        true => "none".to_owned(),
        false => shown.join(", "),
    }
}

/// Whether every value of one type is one of the other.
fn fits(holds: &DataType, wanted: &DataType) -> bool {
    use DataType as T;
    match (holds, wanted) {
        (T::Int8, T::Int16 | T::Int32 | T::Int64)
        | (T::UInt8, T::Int16 | T::Int32 | T::Int64)
        | (T::Int16, T::Int32 | T::Int64)
        | (T::UInt16, T::Int32 | T::Int64)
        | (T::Int32 | T::UInt32, T::Int64)
        | (T::Float16, T::Float32 | T::Float64)
        | (T::Float32, T::Float64)
        | (T::LargeUtf8 | T::Utf8View, T::Utf8)
        | (T::Timestamp(..), T::Timestamp(..)) => true,
        (
            T::Decimal32(p, s) | T::Decimal64(p, s) | T::Decimal128(p, s),
            T::Decimal128(precision, scale),
        ) => {
            let whole = |precision: u8, scale: i8| i16::from(precision) - i16::from(scale);
            scale >= s && whole(*precision, *scale) >= whole(*p, *s)
        }
        (holds, wanted) => holds == wanted,
    }
}

/// The smallest declared type that holds all of this.
fn smallest(holds: &DataType) -> Option<String> {
    use DataType as T;
    let name = match holds {
        T::Int8 => "TINYINT",
        T::UInt8 | T::Int16 => "SMALLINT",
        T::UInt16 | T::Int32 => "INT",
        T::UInt32 | T::Int64 => "BIGINT",
        T::Float16 | T::Float32 => "FLOAT",
        T::Float64 => "DOUBLE",
        T::Boolean => "BOOLEAN",
        T::Utf8 | T::LargeUtf8 | T::Utf8View => "VARCHAR",
        T::Date32 => "DATE",
        T::Timestamp(..) => "TIMESTAMP",
        T::Decimal32(p, s) | T::Decimal64(p, s) | T::Decimal128(p, s) if *s >= 0 => {
            return Some(format!("DECIMAL({p}, {s})"));
        }
        _ => return None,
    };
    Some(name.to_owned())
}
