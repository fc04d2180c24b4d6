//! Values that follow from seed, column and row number.

use std::sync::Arc;

use arrow::array::{
    ArrayRef, Float64Array, Int64Array, RecordBatch, RecordBatchOptions, StringArray,
};
use arrow::buffer::OffsetBuffer;
use arrow::datatypes::{DataType, SchemaRef};
use millstream_graph::{GeneratorColumn, GeneratorSource, GeneratorValue};
use millstream_operator::{ErrorKind, OperatorError};

/// 2^64 divided by the golden ratio: an increment that spreads consecutive numbers.
const GOLDEN: u64 = 0x9e37_79b9_7f4a_7c15;
const ALPHABET: &[u8; 62] = b"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789";
/// Letters drawn from one random word: 62^10 < 2^60.
const LETTERS_PER_WORD: u32 = 10;

/// The columns of a generator.
pub(super) struct Columns {
    schema: SchemaRef,
    columns: Vec<Column>,
    row_bytes: usize,
}

struct Column {
    value: GeneratorValue,
    seed: u64,
}

impl Columns {
    pub(super) fn new(config: &GeneratorSource, schema: SchemaRef) -> Result<Self, OperatorError> {
        let names = config
            .columns
            .iter()
            .map(|c| (c.name.as_str(), c.data_type()));
        let found = schema.fields().iter();
        if !names.eq(found.map(|f| (f.name().as_str(), f.data_type().clone()))) {
            let what = format!("a generator's columns are not its schema {schema}");
            return Err(OperatorError::new(ErrorKind::Internal, what));
        }
        for column in &config.columns {
            column.check()?;
        }
        let columns = config.columns.iter().enumerate();
        let columns = columns.map(|(index, column)| Column {
            value: column.value.clone(),
            seed: mix(config.seed ^ mix((index as u64 + 1).wrapping_mul(GOLDEN))),
        });
        let row_bytes = config.columns.iter().map(GeneratorColumn::bytes).sum();
        Ok(Self {
            schema,
            columns: columns.collect(),
            row_bytes: usize::max(row_bytes, 1),
        })
    }

    /// About the bytes of one row.
    pub(super) fn row_bytes(&self) -> usize {
        self.row_bytes
    }

    /// The rows `first`, `first + step`, …
    pub(super) fn batch(
        &self,
        first: u64,
        step: u64,
        count: u64,
    ) -> Result<RecordBatch, OperatorError> {
        let rows = (0..count).map(|i| first + i * step);
        let columns = self
            .columns
            .iter()
            .map(|column| column.values(rows.clone()));
        let columns: Vec<ArrayRef> = columns.collect::<Result<_, _>>()?;
        let options = RecordBatchOptions::new().with_row_count(Some(count as usize));
        RecordBatch::try_new_with_options(Arc::clone(&self.schema), columns, &options).map_err(
            |error| {
                OperatorError::new(ErrorKind::Internal, "generated columns make no batch")
                    .with_source(error)
            },
        )
    }
}

impl Column {
    fn values(&self, rows: impl Iterator<Item = u64> + Clone) -> Result<ArrayRef, OperatorError> {
        let random = |row: u64| mix(self.seed ^ mix(row.wrapping_add(GOLDEN)));
        Ok(match &self.value {
            GeneratorValue::Sequence { start } => int64(rows.map(|row| sequence(*start, row)))?,
            GeneratorValue::RoundRobinKey { keys } => {
                int64(rows.map(|row| sequence(0, row % keys)))?
            }
            GeneratorValue::RoundRobinSequence { keys } => {
                int64(rows.map(|row| sequence(1, row / keys)))?
            }
            GeneratorValue::RandomInt { min, max } => {
                let values = rows.map(|row| random_int(*min, *max, random(row)));
                Arc::new(Int64Array::from_iter_values(values))
            }
            GeneratorValue::RandomDouble { min, max } => {
                let values = rows.map(|row| random_double(*min, *max, random(row)));
                Arc::new(Float64Array::from_iter_values(values))
            }
            GeneratorValue::RandomText { length } => {
                let mut letters = Vec::new();
                let mut lengths = Vec::new();
                for row in rows {
                    random_text(*length, random(row), &mut letters);
                    lengths.push(*length as usize);
                }
                let offsets = OffsetBuffer::from_lengths(lengths);
                let texts = StringArray::try_new(offsets, letters.into(), None);
                Arc::new(texts.expect("letters of an ASCII alphabet are UTF-8"))
            }
            GeneratorValue::OneOf { values } => {
                let texts = rows.map(|row| &values[below(values.len() as u64, random(row))]);
                Arc::new(StringArray::from_iter_values(texts))
            }
            GeneratorValue::Constant { value } => {
                Arc::new(StringArray::from_iter_values(rows.map(|_| value)))
            }
        })
    }
}

fn int64(
    values: impl Iterator<Item = Result<i64, OperatorError>>,
) -> Result<ArrayRef, OperatorError> {
    let values: Vec<i64> = values.collect::<Result<_, _>>()?;
    Ok(Arc::new(Int64Array::from(values)))
}

fn sequence(start: i64, row: u64) -> Result<i64, OperatorError> {
    start.checked_add_unsigned(row).ok_or_else(|| {
        let what = format!("a generated sequence from {start} leaves BIGINT at row {row}");
        OperatorError::new(ErrorKind::UserCode, what).with_remedy("give it a lower start")
    })
}

/// SplitMix64's finaliser: every bit of the result depends on every bit of the argument.
fn mix(word: u64) -> u64 {
    let word = (word ^ (word >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let word = (word ^ (word >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    word ^ (word >> 31)
}

/// Uniform below `bound` from a random word, up to a bias of `bound` / 2^64.
fn below(bound: u64, random: u64) -> usize {
    ((u128::from(bound) * u128::from(random)) >> 64) as usize
}

fn random_int(min: i64, max: i64, random: u64) -> i64 {
    // The span of all of BIGINT has 2^64 values: one more than a word holds.
    let span = u128::from(max.abs_diff(min)) + 1;
    let offset = (span * u128::from(random)) >> 64;
    min.wrapping_add_unsigned(offset as u64)
}

fn random_double(min: f64, max: f64, random: u64) -> f64 {
    let fraction = (random >> 11) as f64 / (1u64 << 53) as f64;
    // Weighted, not `max - min`, which may be infinite; rounding may reach `max`.
    let value = min * (1.0 - fraction) + max * fraction;
    value.clamp(min, max.next_down().max(min))
}

/// Appends a text. Its words do not wait for one another, so that several are on their way at once.
fn random_text(length: u32, random: u64, text: &mut Vec<u8>) {
    let mut first = 0;
    while first < length {
        let mut word = match first {
            0 => random,
            _ => mix(random.wrapping_add(u64::from(first).wrapping_mul(GOLDEN))),
        };
        let mut letters = [0; LETTERS_PER_WORD as usize];
        for letter in &mut letters {
            *letter = ALPHABET[below(ALPHABET.len() as u64, word)];
            word = word.wrapping_mul(ALPHABET.len() as u64);
        }
        let wanted = (length - first).min(LETTERS_PER_WORD);
        text.extend_from_slice(&letters[..wanted as usize]);
        first += wanted;
    }
}

trait ColumnFacts {
    fn data_type(&self) -> DataType;
    fn bytes(&self) -> usize;
    fn check(&self) -> Result<(), OperatorError>;
}

impl ColumnFacts for GeneratorColumn {
    fn data_type(&self) -> DataType {
        match &self.value {
            GeneratorValue::Sequence { .. }
            | GeneratorValue::RoundRobinKey { .. }
            | GeneratorValue::RoundRobinSequence { .. }
            | GeneratorValue::RandomInt { .. } => DataType::Int64,
            GeneratorValue::RandomDouble { .. } => DataType::Float64,
            GeneratorValue::RandomText { .. }
            | GeneratorValue::OneOf { .. }
            | GeneratorValue::Constant { .. } => DataType::Utf8,
        }
    }

    fn bytes(&self) -> usize {
        let offset = size_of::<i32>();
        match &self.value {
            GeneratorValue::RandomText { length } => offset + *length as usize,
            GeneratorValue::OneOf { values } => {
                offset + values.iter().map(String::len).max().unwrap_or(0)
            }
            GeneratorValue::Constant { value } => offset + value.len(),
            GeneratorValue::Sequence { .. }
            | GeneratorValue::RoundRobinKey { .. }
            | GeneratorValue::RoundRobinSequence { .. }
            | GeneratorValue::RandomInt { .. }
            | GeneratorValue::RandomDouble { .. } => 8,
        }
    }

    fn check(&self) -> Result<(), OperatorError> {
        let fine = match &self.value {
            GeneratorValue::RoundRobinKey { keys }
            | GeneratorValue::RoundRobinSequence { keys } => *keys > 0,
            GeneratorValue::RandomInt { min, max } => min <= max,
            GeneratorValue::RandomDouble { min, max } => {
                min < max && min.is_finite() && max.is_finite()
            }
            GeneratorValue::OneOf { values } => !values.is_empty(),
            GeneratorValue::Sequence { .. }
            | GeneratorValue::RandomText { .. }
            | GeneratorValue::Constant { .. } => true,
        };
        if fine {
            return Ok(());
        }
        let what = format!(
            "generated column {:?} has no value: {:?}",
            self.name, self.value
        );
        Err(OperatorError::new(ErrorKind::Internal, what)
            .with_remedy("give at least one key or value, and a minimum below the maximum"))
    }
}
