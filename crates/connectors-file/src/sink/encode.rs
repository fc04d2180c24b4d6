//! Rows to the bytes of a file.

use arrow::array::{Array, ArrayRef, AsArray, RecordBatch};
use arrow::datatypes::{DataType, SchemaRef};
use arrow::error::ArrowError;
use arrow::json::WriterBuilder;
use arrow::json::writer::LineDelimited;
use arrow::util::display::{ArrayFormatter, FormatOptions};
use millstream_graph::SinkFormat;
use millstream_operator::{ErrorKind, OperatorError};

use crate::decode::check_delimiter;
use crate::fault;

/// Writes rows as a [`FileSource`](millstream_graph::FileSource) of the same format reads them.
///
/// - JSON: NULL is written as `null`; so is a DOUBLE that is not finite, for which JSON has no form.
/// - CSV: NULL is an empty field, the empty text is `""`.
pub(super) struct Encoder {
    format: SinkFormat,
    schema: SchemaRef,
}

impl Encoder {
    pub(super) fn new(format: SinkFormat, schema: &SchemaRef) -> Result<Self, OperatorError> {
        if let SinkFormat::Csv { delimiter } = format {
            check_delimiter(delimiter)?;
        }
        if matches!(format, SinkFormat::Csv { .. })
            && let Some(nested) = schema.fields().iter().find(|f| f.data_type().is_nested())
        {
            let (name, data_type) = (nested.name(), nested.data_type());
            let what = format!("column {name:?} of type {data_type} has no form in CSV");
            return Err(OperatorError::new(ErrorKind::UserCode, what)
                .with_remedy("use format json, or select a column of a plain type"));
        }
        Ok(Self {
            format,
            schema: schema.clone(),
        })
    }

    /// What a file starts with.
    pub(super) fn header(&self, bytes: &mut Vec<u8>) {
        if let SinkFormat::Csv { delimiter } = self.format {
            for (index, field) in self.schema.fields().iter().enumerate() {
                if index > 0 {
                    bytes.push(delimiter);
                }
                csv_text(field.name(), delimiter, bytes);
            }
            bytes.push(b'\n');
        }
    }

    /// Adds rows.
    pub(super) fn rows(
        &self,
        rows: &RecordBatch,
        bytes: &mut Vec<u8>,
    ) -> Result<(), OperatorError> {
        let written = match self.format {
            SinkFormat::JsonLines => json_rows(rows, bytes),
            SinkFormat::Csv { delimiter } => csv_rows(rows, delimiter, bytes),
        };
        written.map_err(|error| fault::internal("rows cannot be written").with_source(error))
    }
}

fn json_rows(rows: &RecordBatch, bytes: &mut Vec<u8>) -> Result<(), ArrowError> {
    let builder = WriterBuilder::new().with_explicit_nulls(true);
    let mut writer = builder.build::<_, LineDelimited>(bytes);
    writer.write(rows)?;
    writer.finish()
}

/// A column with the way to write its values.
enum CsvColumn<'a> {
    Text(&'a ArrayRef),
    Other(ArrayFormatter<'a>),
}

fn csv_rows(rows: &RecordBatch, delimiter: u8, bytes: &mut Vec<u8>) -> Result<(), ArrowError> {
    let options = FormatOptions::new();
    let columns = rows
        .columns()
        .iter()
        .map(|column| match column.data_type() {
            DataType::Utf8 => Ok(CsvColumn::Text(column)),
            _ => ArrayFormatter::try_new(column, &options).map(CsvColumn::Other),
        });
    let columns: Vec<CsvColumn<'_>> = columns.collect::<Result<_, _>>()?;
    let mut text = String::new();
    for row in 0..rows.num_rows() {
        for (index, column) in columns.iter().enumerate() {
            if index > 0 {
                bytes.push(delimiter);
            }
            match column {
                CsvColumn::Text(values) if values.is_null(row) => {}
                CsvColumn::Text(values) => {
                    csv_text(values.as_string::<i32>().value(row), delimiter, bytes);
                }
                CsvColumn::Other(values) => {
                    text.clear();
                    values.value(row).write(&mut text)?;
                    if !text.is_empty() {
                        csv_text(&text, delimiter, bytes);
                    }
                }
            }
        }
        bytes.push(b'\n');
    }
    Ok(())
}

fn csv_text(text: &str, delimiter: u8, bytes: &mut Vec<u8>) {
    let is_plain = !text.is_empty()
        && !text.starts_with('\u{feff}')
        && !text
            .bytes()
            .any(|byte| matches!(byte, b'"' | b'\n' | b'\r') || byte == delimiter);
    if is_plain {
        bytes.extend_from_slice(text.as_bytes());
        return;
    }
    bytes.push(b'"');
    for byte in text.bytes() {
        if byte == b'"' {
            bytes.push(b'"');
        }
        bytes.push(byte);
    }
    bytes.push(b'"');
}
