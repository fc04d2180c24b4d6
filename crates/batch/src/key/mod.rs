//! Keys as bytes: the documented encoding that decides where state lives.
//!
//! A key is the concatenation of its columns; each column is a tag byte and a self-delimiting value:
//!
//! | tag | columns | value |
//! |---|---|---|
//! | `00` | any, NULL | nothing |
//! | `01` | boolean | `00` or `01` |
//! | `02` | integers of every width and sign, up to 2⁶³-1 | 8 bytes, big endian, sign bit flipped |
//! | `03` | unsigned integers from 2⁶³ on | 8 bytes, big endian |
//! | `04` | floats of every width | 8 bytes: IEEE binary64, big endian, negative: all bits flipped, else the sign bit |
//! | `05` | text | length as LEB128, UTF-8 as is |
//! | `06` | binary | length as LEB128, bytes as is |
//! | `07` | decimals up to 128 bits | scale (1 byte), 16 bytes, big endian, sign bit flipped |
//! | `08` | date | days: 4 bytes, big endian, sign bit flipped |
//! | `09` | timestamps of every unit | seconds: 8 bytes, big endian, sign bit flipped; nanoseconds: 4 bytes, big endian |
//! | `0a` | time of day, every unit | as `09` |
//! | `0b` | durations of every unit | as `09` |
//!
//! It follows that
//! - **the value counts, not the column's width or unit**: 7 is one key in an `Int8`, an `Int32`, an
//!   `Int64` and a `UInt64` column, 1.5 in a `Float32` and a `Float64`, one second in milliseconds
//!   and in nanoseconds. Widening a column moves no state. Integer 1, float 1.0 and text "1" are
//!   three keys, and so are decimals of different scale;
//! - -0.0 is 0.0, and every NaN is one NaN (`7ff8000000000000` before the bits are flipped);
//! - NULL is a key of its own, different from the empty text;
//! - a time zone is no part of a key: an instant is;
//! - the encoding is injective, also over several columns: `("a", "bc")` is not `("ab", "c")`.
//!
//! The hash of a key is xxh3-64 (seed 0) of its bytes; its key group is the hash modulo the maximum
//! parallelism. The encoding never changes; a new type gets a new tag.

mod decode;
mod encode;
#[cfg(test)]
mod tests;
#[cfg(test)]
mod vectors;

use arrow::array::{ArrayRef, RecordBatch};
use arrow::datatypes::{DataType, Schema};
use xxhash_rust::xxh3::xxh3_64;

use decode::KeyReader;

const TAG_NULL: u8 = 0x00;
const TAG_BOOLEAN: u8 = 0x01;
const TAG_INTEGER: u8 = 0x02;
const TAG_UNSIGNED: u8 = 0x03;
const TAG_FLOAT: u8 = 0x04;
const TAG_TEXT: u8 = 0x05;
const TAG_BINARY: u8 = 0x06;
const TAG_DECIMAL: u8 = 0x07;
const TAG_DATE: u8 = 0x08;
const TAG_TIMESTAMP: u8 = 0x09;
const TAG_TIME: u8 = 0x0a;
const TAG_DURATION: u8 = 0x0b;

/// What cannot be a key, or is none.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum KeyError {
    /// A type without an encoding.
    #[error(
        "column {column:?} is {data_type}, which cannot be a key; cast it to an integer, float, \
         decimal (up to 128 bits), boolean, text, binary, Date32, time or timestamp"
    )]
    Unsupported {
        /// The column.
        column: String,
        /// Its type.
        data_type: DataType,
    },
    /// A column that the schema does not have.
    #[error("key column {index} is outside the schema of {columns} columns")]
    NoSuchColumn {
        /// The position asked for.
        index: usize,
        /// Columns of the schema.
        columns: usize,
    },
    /// A batch of another schema than the one the codec was made for.
    #[error("key column {column:?} is {found}, but the stream's schema says {expected}")]
    OtherSchema {
        /// The column.
        column: String,
        /// Its type in the schema.
        expected: DataType,
        /// Its type in the batch, or that it is missing.
        found: String,
    },
    /// Bytes that are no key of these columns: state of another schema, or damaged.
    #[error(
        "key {key_index} is no key of its columns at byte {offset}: {found} for column {column:?}"
    )]
    Malformed {
        /// Position of the key among those decoded.
        key_index: usize,
        /// The column being read.
        column: String,
        /// Where in the key.
        offset: usize,
        /// What was there.
        found: &'static str,
    },
}

/// The keys of the rows of one slice, their bytes end to end, and their hashes.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct KeyBuffer {
    bytes: Vec<u8>,
    /// `rows + 1` positions in `bytes`; empty before the first use.
    offsets: Vec<usize>,
    hashes: Vec<u64>,
    /// Lengths, then write positions of the rows while encoding.
    cursors: Vec<usize>,
}

impl KeyBuffer {
    /// An empty buffer; its memory is used again by every [`KeyCodec::encode`].
    pub fn new() -> Self {
        Self::default()
    }

    /// Number of keys.
    pub fn len(&self) -> usize {
        self.hashes.len()
    }

    /// Whether there is no key.
    pub fn is_empty(&self) -> bool {
        self.hashes.is_empty()
    }

    /// The bytes of a row's key.
    pub fn key(&self, row: usize) -> &[u8] {
        &self.bytes[self.offsets[row]..self.offsets[row + 1]]
    }

    /// xxh3-64 of a row's key.
    pub fn hash(&self, row: usize) -> u64 {
        self.hashes[row]
    }

    /// The hashes of all rows.
    pub fn hashes(&self) -> &[u64] {
        &self.hashes
    }

    /// All keys in the order of rows.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = &[u8]> {
        self.offsets
            .windows(2)
            .map(|bounds| &self.bytes[bounds[0]..bounds[1]])
    }

    /// Turns the lengths in `cursors` into offsets and write positions.
    fn lay_out(&mut self) {
        self.offsets.clear();
        self.offsets.push(0);
        let mut end = 0;
        for cursor in &mut self.cursors {
            let length = *cursor;
            *cursor = end;
            end += length;
            self.offsets.push(end);
        }
        self.bytes.clear();
        self.bytes.resize(end, 0);
    }

    fn hash_all(&mut self) {
        self.hashes.clear();
        let bounds = self.offsets.windows(2);
        self.hashes
            .extend(bounds.map(|bounds| xxh3_64(&self.bytes[bounds[0]..bounds[1]])));
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct KeyColumn {
    index: usize,
    name: String,
    data_type: DataType,
}

/// Encodes and decodes the key columns of one stream.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeyCodec {
    columns: Vec<KeyColumn>,
}

impl KeyCodec {
    /// The codec of the columns at these positions, in this order. No column at all is the key of a
    /// global aggregate: one empty key.
    pub fn new(schema: &Schema, key_columns: &[usize]) -> Result<Self, KeyError> {
        let column = |index: &usize| {
            let field = schema.fields().get(*index).ok_or(KeyError::NoSuchColumn {
                index: *index,
                columns: schema.fields().len(),
            })?;
            let (name, data_type) = (field.name().clone(), field.data_type().clone());
            if !is_supported(&data_type) {
                return Err(KeyError::Unsupported {
                    column: name,
                    data_type,
                });
            }
            Ok(KeyColumn {
                index: *index,
                name,
                data_type,
            })
        };
        let columns = key_columns.iter().map(column).collect::<Result<_, _>>()?;
        Ok(Self { columns })
    }

    /// Encodes and hashes the key of every row.
    pub fn encode(&self, records: &RecordBatch, keys: &mut KeyBuffer) -> Result<(), KeyError> {
        for column in &self.columns {
            column.check(records)?;
        }
        keys.cursors.clear();
        keys.cursors.resize(records.num_rows(), 0);
        for column in &self.columns {
            encode::add_lengths(records.column(column.index), &mut keys.cursors);
        }
        keys.lay_out();
        for column in &self.columns {
            encode::write(
                records.column(column.index),
                &mut keys.cursors,
                &mut keys.bytes,
            );
        }
        keys.hash_all();
        Ok(())
    }

    /// The key columns of these keys, with the types of the schema: what an aggregate emits.
    pub fn decode<'a>(
        &self,
        keys: impl IntoIterator<Item = &'a [u8]>,
    ) -> Result<Vec<ArrayRef>, KeyError> {
        let mut readers: Vec<KeyReader<'a>> = keys.into_iter().map(KeyReader::new).collect();
        let mut arrays = Vec::with_capacity(self.columns.len());
        for column in &self.columns {
            arrays.push(
                decode::column(&column.data_type, &mut readers).map_err(|bad| {
                    let (column, offset) = (column.name.clone(), bad.offset);
                    KeyError::Malformed {
                        key_index: bad.key_index,
                        column,
                        offset,
                        found: bad.found,
                    }
                })?,
            );
        }
        match readers.iter().position(|reader| !reader.is_at_end()) {
            None => Ok(arrays),
            Some(key_index) => Err(KeyError::Malformed {
                key_index,
                column: self
                    .columns
                    .last()
                    .map_or(String::new(), |last| last.name.clone()),
                offset: readers[key_index].offset(),
                found: "bytes left over",
            }),
        }
    }

    /// Positions of the key columns in the schema.
    pub fn column_indices(&self) -> impl Iterator<Item = usize> + '_ {
        self.columns.iter().map(|column| column.index)
    }
}

impl KeyColumn {
    fn check(&self, records: &RecordBatch) -> Result<(), KeyError> {
        let found = match records.columns().get(self.index) {
            Some(array) if *array.data_type() == self.data_type => return Ok(()),
            Some(array) => array.data_type().to_string(),
            None => "missing".to_owned(),
        };
        let (column, expected) = (self.name.clone(), self.data_type.clone());
        Err(KeyError::OtherSchema {
            column,
            expected,
            found,
        })
    }
}

/// Whether a column of this type can be part of a key.
pub fn is_supported(data_type: &DataType) -> bool {
    use DataType as D;
    data_type.is_integer()
        || data_type.is_floating()
        || matches!(
            data_type,
            D::Null
                | D::Boolean
                | D::Utf8
                | D::LargeUtf8
                | D::Utf8View
                | D::Binary
                | D::LargeBinary
                | D::BinaryView
                | D::FixedSizeBinary(_)
                | D::Decimal32(_, _)
                | D::Decimal64(_, _)
                | D::Decimal128(_, _)
                | D::Date32
                | D::Timestamp(_, _)
                | D::Time32(_)
                | D::Time64(_)
                | D::Duration(_)
        )
}

/// Bytes of the value behind the tag where that does not depend on the row.
fn fixed_width(data_type: &DataType) -> Option<usize> {
    use DataType as D;
    match data_type {
        D::Boolean => Some(1),
        D::Decimal32(_, _) | D::Decimal64(_, _) | D::Decimal128(_, _) => Some(17),
        D::Date32 => Some(4),
        D::Timestamp(_, _) | D::Time32(_) | D::Time64(_) | D::Duration(_) => Some(12),
        number if number.is_integer() || number.is_floating() => Some(8),
        _ => None,
    }
}

/// Units of this resolution in a second.
const fn per_second(unit: arrow::datatypes::TimeUnit) -> i64 {
    use arrow::datatypes::TimeUnit;
    match unit {
        TimeUnit::Second => 1,
        TimeUnit::Millisecond => 1_000,
        TimeUnit::Microsecond => 1_000_000,
        TimeUnit::Nanosecond => 1_000_000_000,
    }
}
