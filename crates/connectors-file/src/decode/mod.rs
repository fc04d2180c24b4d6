//! Records to rows: each by the declared columns, whole or not at all.

mod csv;
mod json;
mod rows;
mod temporal;
mod types;

use arrow::array::RecordBatch;
use arrow::datatypes::{DataType, SchemaRef};
use millstream_graph::FileFormat;
use millstream_operator::OperatorError;

use crate::fault;

use csv::CsvHeader;
use json::Names;
use rows::{Rows, Slot};
use types::ColumnType;

/// What is wrong with a record.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Flaw {
    /// Which byte of the record it is at, from 0.
    pub(crate) at: usize,
    pub(crate) what: String,
}

/// What became of a record.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Decoded {
    Row,
    /// An empty line between records.
    Nothing,
}

/// Decodes records of one file.
pub(crate) struct Decoder {
    rows: Rows,
    form: Form,
}

enum Form {
    Text,
    Json(Names),
    /// Without a header nothing was decoded yet.
    Csv {
        delimiter: u8,
        header: Option<CsvHeader>,
    },
}

impl Decoder {
    pub(crate) fn new(format: &FileFormat, schema: &SchemaRef) -> Result<Self, OperatorError> {
        let rows = Rows::new(schema)?;
        let form = match format {
            FileFormat::Text => {
                if !matches!(rows.types(), [ColumnType::Varchar]) {
                    let what = format!("a text source has one VARCHAR column, not {schema}");
                    return Err(fault::internal(what));
                }
                Form::Text
            }
            FileFormat::JsonLines => Form::Json(Names::new(schema)),
            FileFormat::Csv { delimiter } => Form::Csv {
                delimiter: check_delimiter(*delimiter)?,
                header: None,
            },
            FileFormat::Parquet => return Err(fault::internal("Parquet holds no records")),
        };
        Ok(Self { rows, form })
    }

    /// Whether a JSON object without the field of a column is a bad record.
    pub(crate) fn failing_on_missing_fields(mut self, fails: bool) -> Self {
        if let Form::Json(names) = &mut self.form {
            names.are_required(fails);
        }
        self
    }

    /// Adds a record's row.
    pub(crate) fn record(&mut self, record: &[u8]) -> Result<Decoded, Flaw> {
        let text = std::str::from_utf8(record).map_err(|error| not_utf8(error.valid_up_to()))?;
        match &self.form {
            Form::Text => {
                self.rows.begin();
                self.rows.set(0, Slot::Record(0..text.len()));
            }
            Form::Json(names) => {
                if text.trim_ascii().is_empty() {
                    return Ok(Decoded::Nothing);
                }
                self.rows.begin();
                json::record(text, names, &mut self.rows)?;
            }
            Form::Csv { header, delimiter } => {
                let header = header
                    .as_ref()
                    .expect("the header comes before the records");
                // In a file of one column an empty line is an empty field.
                if text.is_empty() && header.n_fields() > 1 {
                    return Ok(Decoded::Nothing);
                }
                self.rows.begin();
                header.record(text, *delimiter, &mut self.rows)?;
            }
        }
        self.rows.commit(text)?;
        Ok(Decoded::Row)
    }

    /// Whether the first record must be given to [`Decoder::header`].
    pub(crate) fn needs_header(&self) -> bool {
        matches!(self.form, Form::Csv { header: None, .. })
    }

    /// Takes the record that names the fields. True if it did; an empty one is passed over.
    pub(crate) fn header(&mut self, record: &[u8]) -> Result<bool, Flaw> {
        let text = std::str::from_utf8(record).map_err(|error| not_utf8(error.valid_up_to()))?;
        if text.is_empty() {
            return Ok(false);
        }
        if let Form::Csv { delimiter, header } = &mut self.form {
            *header = Some(CsvHeader::new(text, *delimiter, self.rows.schema())?);
        }
        Ok(true)
    }

    /// Rows added and not taken.
    pub(crate) fn len(&self) -> usize {
        self.rows.len()
    }

    /// About the bytes of the rows added and not taken.
    pub(crate) fn bytes(&self) -> usize {
        self.rows.bytes()
    }

    /// Takes the rows.
    pub(crate) fn take(&mut self) -> Result<RecordBatch, OperatorError> {
        self.rows.take()
    }
}

/// What people call the type of a declared column.
pub(crate) fn type_name(declared: &DataType) -> String {
    match ColumnType::of(declared) {
        Some(known) => known.name(),
        None => declared.to_string(),
    }
}

/// A delimiter is one ASCII character: half of a longer one would cut texts within a character.
pub(crate) fn check_delimiter(delimiter: u8) -> Result<u8, OperatorError> {
    if delimiter.is_ascii() && !matches!(delimiter, b'"' | b'\n' | b'\r') {
        return Ok(delimiter);
    }
    let what = format!("byte {delimiter:#04x} is no delimiter of CSV");
    Err(fault::internal(what).with_remedy("use an ASCII character that is no quote or line end"))
}

fn not_utf8(at: usize) -> Flaw {
    let what = "the bytes here are not UTF-8".to_owned();
    Flaw { at, what }
}

#[cfg(test)]
mod tests;
