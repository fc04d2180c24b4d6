//! CSV records (RFC 4180): fields by the header's names.
//!
//! An empty field is NULL, an empty field in quotes is the empty text. Quotes count only where a
//! field starts with one. Spaces are part of a text, and ignored around other values.

use std::ops::Range;

use arrow::datatypes::SchemaRef;
use memchr::memchr;

use super::Flaw;
use super::rows::{Rows, Slot};
use super::types::ColumnType;

/// Which field of a record belongs to which declared column.
pub(super) struct CsvHeader {
    /// By field: the column, if it is declared.
    columns: Vec<Option<usize>>,
}

impl CsvHeader {
    /// Reads the first record. Fields that are not declared are passed over.
    pub(super) fn new(text: &str, delimiter: u8, schema: &SchemaRef) -> Result<Self, Flaw> {
        let mut scratch = String::new();
        let mut names = Vec::new();
        for field in fields(text, delimiter) {
            names.push(field?.text(text, &mut scratch).0.to_owned());
        }
        let mut columns = vec![None; names.len()];
        for (column, field) in schema.fields().iter().enumerate() {
            let mut found = names
                .iter()
                .enumerate()
                .filter(|(_, name)| *name == field.name());
            let what = match (found.next(), found.next()) {
                (Some((index, _)), None) => {
                    columns[index] = Some(column);
                    continue;
                }
                (None, _) => format!("the header has no field {:?}, only {names:?}", field.name()),
                (Some(_), Some(_)) => format!("the header has two fields {:?}", field.name()),
            };
            return Err(Flaw { at: 0, what });
        }
        Ok(Self { columns })
    }

    pub(super) fn n_fields(&self) -> usize {
        self.columns.len()
    }

    /// Sets the values of a record.
    pub(super) fn record(&self, text: &str, delimiter: u8, rows: &mut Rows) -> Result<(), Flaw> {
        let mut found = 0;
        for field in fields(text, delimiter) {
            let field = field?;
            let Some(column) = self.columns.get(found) else {
                let what = format!(
                    "the record has more than the {} fields of the header",
                    found
                );
                return Err(Flaw { at: field.at, what });
            };
            found += 1;
            if let Some(column) = *column {
                let slot = field.slot(text, rows.types()[column], &mut rows.scratch)?;
                rows.set(column, slot);
            }
        }
        let expected = self.columns.len();
        if found < expected {
            let what = format!("the record has {found} fields, the header has {expected}");
            return Err(Flaw {
                at: text.len(),
                what,
            });
        }
        Ok(())
    }
}

/// A field of a record.
struct Field {
    at: usize,
    /// Its text, without the quotes around it.
    inner: Range<usize>,
    is_quoted: bool,
    has_doubled_quotes: bool,
}

impl Field {
    /// The text, and where it is.
    fn text<'a>(&self, record: &'a str, scratch: &'a mut String) -> (&'a str, Slot) {
        if !self.has_doubled_quotes {
            return (
                &record[self.inner.clone()],
                Slot::Record(self.inner.clone()),
            );
        }
        let start = scratch.len();
        for (index, piece) in record[self.inner.clone()].split("\"\"").enumerate() {
            if index > 0 {
                scratch.push('"');
            }
            scratch.push_str(piece);
        }
        let range = start..scratch.len();
        (&scratch[range.clone()], Slot::Scratch(range))
    }

    fn slot(&self, record: &str, of: ColumnType, scratch: &mut String) -> Result<Slot, Flaw> {
        if self.inner.is_empty() && !self.is_quoted {
            return Ok(Slot::Null);
        }
        let (text, slot) = self.text(record, scratch);
        if of == ColumnType::Varchar {
            return Ok(slot);
        }
        of.parse(text.trim_ascii())
            .map_err(|what| Flaw { at: self.at, what })
    }
}

/// The fields of a record that ends where its text ends.
fn fields(record: &str, delimiter: u8) -> impl Iterator<Item = Result<Field, Flaw>> {
    let bytes = record.as_bytes();
    let mut next = Some(0);
    std::iter::from_fn(move || {
        let at = next.take()?;
        let field = match bytes.get(at) {
            Some(b'"') => quoted(bytes, at, delimiter),
            _ => Ok(bare(bytes, at, delimiter)),
        };
        if let Ok(field) = &field {
            let end = field.inner.end + usize::from(field.is_quoted);
            next = (end < bytes.len()).then_some(end + 1);
        }
        Some(field)
    })
}

fn bare(bytes: &[u8], at: usize, delimiter: u8) -> Field {
    let length = memchr(delimiter, &bytes[at..]).unwrap_or(bytes.len() - at);
    Field {
        at,
        inner: at..at + length,
        is_quoted: false,
        has_doubled_quotes: false,
    }
}

fn quoted(bytes: &[u8], at: usize, delimiter: u8) -> Result<Field, Flaw> {
    let start = at + 1;
    let mut has_doubled_quotes = false;
    let mut end = start;
    loop {
        let Some(found) = memchr(b'"', &bytes[end..]) else {
            let what = "a quote is not closed".to_owned();
            return Err(Flaw { at, what });
        };
        end += found;
        match bytes.get(end + 1) {
            Some(b'"') => {
                has_doubled_quotes = true;
                end += 2;
            }
            Some(byte) if *byte != delimiter => {
                let what = "text follows a closing quote; a quote within quotes is written twice";
                let what = what.to_owned();
                return Err(Flaw { at: end + 1, what });
            }
            Some(_) | None => {
                return Ok(Field {
                    at,
                    inner: start..end,
                    is_quoted: true,
                    has_doubled_quotes,
                });
            }
        }
    }
}
