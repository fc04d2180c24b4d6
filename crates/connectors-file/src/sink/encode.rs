//! Rows to the bytes of a file.

use arrow::array::{Array, ArrayRef, AsArray, RecordBatch, RecordBatchOptions};
use arrow::datatypes::{DataType, FieldRef, Schema, SchemaRef};
use arrow::error::ArrowError;
use arrow::json::WriterBuilder;
use arrow::json::writer::LineDelimited;
use arrow::util::display::{ArrayFormatter, FormatOptions};
use millstream_graph::{ParquetCompression, SinkFormat};
use millstream_operator::{ErrorKind, OperatorError};
use parquet::arrow::ArrowSchemaConverter;
use parquet::arrow::arrow_writer::ArrowWriterOptions;
use parquet::basic::{Compression, ZstdLevel};
use parquet::file::properties::WriterProperties;

use crate::decode::check_delimiter;
use crate::fault;

/// Writes rows as a [`FileSource`](millstream_graph::FileSource) of the same format reads them.
///
/// - JSON: NULL is written as `null`; so is a DOUBLE that is not finite, for which JSON has no form.
/// - CSV: NULL is an empty field, the empty text is `""`.
/// - Parquet: every value is written as it is.
pub(super) struct Encoder {
    format: SinkFormat,
    schema: SchemaRef,
    /// How Parquet is written, where it is.
    parquet: Option<ArrowWriterOptions>,
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
        let parquet = match format {
            SinkFormat::JsonLines | SinkFormat::Csv { .. } => None,
            SinkFormat::Parquet { compression } => Some(parquet_options(compression, schema)?),
        };
        Ok(Self {
            format,
            schema: schema.clone(),
            parquet,
        })
    }

    /// The schema of the rows.
    pub(super) fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    /// How Parquet is written, where it is.
    pub(super) fn parquet(&self) -> Option<&ArrowWriterOptions> {
        self.parquet.as_ref()
    }

    /// Rows under the very schema that a Parquet file was begun with.
    pub(super) fn as_declared(&self, rows: &RecordBatch) -> Result<RecordBatch, OperatorError> {
        let columns = rows.columns().to_vec();
        let options = RecordBatchOptions::new().with_row_count(Some(rows.num_rows()));
        RecordBatch::try_new_with_options(SchemaRef::clone(&self.schema), columns, &options)
            .map_err(|error| fault::internal("rows are not as planned").with_source(error))
    }

    /// What a text file starts with.
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

    /// Adds rows to a text file.
    pub(super) fn rows(
        &self,
        rows: &RecordBatch,
        bytes: &mut Vec<u8>,
    ) -> Result<(), OperatorError> {
        let written = match self.format {
            SinkFormat::JsonLines => json_rows(rows, bytes),
            SinkFormat::Csv { delimiter } => csv_rows(rows, delimiter, bytes),
            SinkFormat::Parquet { .. } => return Err(fault::internal("Parquet is no text")),
        };
        written.map_err(|error| fault::internal("rows cannot be written").with_source(error))
    }
}

fn parquet_options(
    compression: ParquetCompression,
    schema: &SchemaRef,
) -> Result<ArrowWriterOptions, OperatorError> {
    if let Some(field) = schema.fields().iter().find(|field| has_no_form(field)) {
        let (name, data_type) = (field.name(), field.data_type());
        let what = format!("column {name:?} of type {data_type} has no form in Parquet");
        return Err(OperatorError::new(ErrorKind::UserCode, what)
            .with_remedy("use format json, or cast the column in a select step"));
    }
    let compression = match compression {
        ParquetCompression::Zstd => Compression::ZSTD(ZstdLevel::default()),
        ParquetCompression::Snappy => Compression::SNAPPY,
        ParquetCompression::None => Compression::UNCOMPRESSED,
    };
    let properties = WriterProperties::builder().set_compression(compression);
    // Other readers take the types from the format itself, and so does our source.
    Ok(ArrowWriterOptions::new()
        .with_properties(properties.build())
        .with_skip_arrow_metadata(true))
}

/// Spans of time come back as plain numbers from a Parquet file, if they can be written at all.
fn has_no_form(field: &FieldRef) -> bool {
    let is_span = matches!(
        field.data_type(),
        DataType::Interval(_) | DataType::Duration(_)
    );
    let alone = Schema::new(vec![FieldRef::clone(field)]);
    is_span || ArrowSchemaConverter::new().convert(&alone).is_err()
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
