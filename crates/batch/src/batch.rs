//! A batch: records, their event times, and what each row does to the result of the stream.

use std::sync::Arc;

use arrow::array::{
    Array, ArrayRef, Int64Array, RecordBatch, RecordBatchOptions, UInt8Array, UInt32Array,
};
use arrow::compute;
use arrow::datatypes::{Schema, SchemaRef};
use arrow::error::ArrowError;
use millstream_types::EventTime;

use crate::size;

/// What a row does to the result of a stream that carries changes.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
#[repr(u8)]
pub enum RowKind {
    /// A new row.
    Insert = 0,
    /// The old version of a row; the new one is the next row of the same batch.
    UpdateBefore = 1,
    /// The new version of a row.
    UpdateAfter = 2,
    /// A row that is gone.
    Delete = 3,
}

impl RowKind {
    /// The kind written as this byte.
    pub const fn from_byte(byte: u8) -> Option<Self> {
        match byte {
            0 => Some(Self::Insert),
            1 => Some(Self::UpdateBefore),
            2 => Some(Self::UpdateAfter),
            3 => Some(Self::Delete),
            _ => None,
        }
    }
}

/// Parts that do not make a batch.
#[derive(Debug, thiserror::Error)]
pub enum BatchError {
    /// Event times or row kinds for another number of rows.
    #[error("{what} has {found} entries for {rows} rows")]
    Length {
        /// The part.
        what: &'static str,
        /// Its entries.
        found: usize,
        /// Rows of the batch.
        rows: usize,
    },
    /// A NULL where every row needs a value.
    #[error("{what} is NULL at row {row}; every row needs one")]
    Null {
        /// The part.
        what: &'static str,
        /// The row.
        row: usize,
    },
    /// A byte that is no row kind.
    #[error("row {row} has kind {found}, which is none of 0 to 3")]
    Kind {
        /// The row.
        row: usize,
        /// The byte.
        found: u8,
    },
    /// Batches of one stream of which some carry event times and some do not.
    #[error(
        "batches with and without event times cannot be joined; a stream carries them always or never"
    )]
    MixedEventTimes,
    /// Batches that arrow does not join or take from: other schema, index outside.
    #[error("the rows do not fit together")]
    Arrow(#[source] ArrowError),
}

/// Rows of one stream, with an event time per row and, where the stream carries changes, a kind.
/// Cloning and slicing share the buffers.
#[derive(Clone, Debug, PartialEq)]
pub struct Batch {
    records: RecordBatch,
    event_times: Option<Int64Array>,
    kinds: Option<UInt8Array>,
}

impl Batch {
    /// Insert-only rows without event times.
    pub fn new(records: RecordBatch) -> Self {
        Self {
            records,
            event_times: None,
            kinds: None,
        }
    }

    /// The batch of these parts, checked: event times in milliseconds and kinds have an entry for
    /// every row.
    pub fn try_new(
        records: RecordBatch,
        event_times: Option<Int64Array>,
        kinds: Option<UInt8Array>,
    ) -> Result<Self, BatchError> {
        let rows = records.num_rows();
        if let Some(times) = &event_times {
            check_entries("the event time column", times, rows)?;
        }
        if let Some(kinds) = &kinds {
            check_entries("the row kind column", kinds, rows)?;
            let bad = kinds
                .values()
                .iter()
                .position(|byte| RowKind::from_byte(*byte).is_none());
            if let Some(row) = bad {
                return Err(BatchError::Kind {
                    row,
                    found: kinds.value(row),
                });
            }
        }
        Ok(Self {
            records,
            event_times,
            kinds,
        })
    }

    /// The same rows with these event times (milliseconds).
    pub fn with_event_times(self, event_times: Int64Array) -> Result<Self, BatchError> {
        Self::try_new(self.records, Some(event_times), self.kinds)
    }

    /// The same rows with these kinds.
    pub fn with_kinds(self, kinds: UInt8Array) -> Result<Self, BatchError> {
        Self::try_new(self.records, self.event_times, Some(kinds))
    }

    /// The same rows with other columns: what a projection makes of a batch.
    pub fn with_records(self, records: RecordBatch) -> Result<Self, BatchError> {
        Self::try_new(records, self.event_times, self.kinds)
    }

    /// The same rows with their times and kinds, and no column.
    pub fn without_columns(&self) -> Self {
        let options = RecordBatchOptions::new().with_row_count(Some(self.num_rows()));
        let none =
            RecordBatch::try_new_with_options(Arc::new(Schema::empty()), Vec::new(), &options);
        Self {
            records: none.expect("a batch may have rows and no column"),
            event_times: self.event_times.clone(),
            kinds: self.kinds.clone(),
        }
    }

    /// The columns.
    pub fn records(&self) -> &RecordBatch {
        &self.records
    }

    /// The columns' names and types.
    pub fn schema(&self) -> SchemaRef {
        self.records.schema()
    }

    /// Event times in milliseconds, none where the stream has no time attribute.
    pub fn event_times(&self) -> Option<&Int64Array> {
        self.event_times.as_ref()
    }

    /// Row kinds as bytes of [`RowKind`]; none means that every row is an insert.
    pub fn kinds(&self) -> Option<&UInt8Array> {
        self.kinds.as_ref()
    }

    /// The event time of a row.
    pub fn event_time(&self, row: usize) -> Option<EventTime> {
        self.event_times
            .as_ref()
            .map(|times| EventTime(times.value(row)))
    }

    /// The kind of a row.
    pub fn kind(&self, row: usize) -> RowKind {
        self.kinds
            .as_ref()
            .and_then(|kinds| RowKind::from_byte(kinds.value(row)))
            .unwrap_or(RowKind::Insert)
    }

    /// The parts.
    pub fn into_parts(self) -> (RecordBatch, Option<Int64Array>, Option<UInt8Array>) {
        (self.records, self.event_times, self.kinds)
    }

    /// Number of rows.
    pub fn num_rows(&self) -> usize {
        self.records.num_rows()
    }

    /// Whether there is no row.
    pub fn is_empty(&self) -> bool {
        self.num_rows() == 0
    }

    /// `length` rows from `offset`, without a copy.
    ///
    /// # Panics
    /// If the rows are not all inside.
    pub fn slice(&self, offset: usize, length: usize) -> Self {
        Self {
            records: self.records.slice(offset, length),
            event_times: self
                .event_times
                .as_ref()
                .map(|times| times.slice(offset, length)),
            kinds: self.kinds.as_ref().map(|kinds| kinds.slice(offset, length)),
        }
    }

    /// The first row from `at` on before which the batch may be cut: an update's two rows stay
    /// together.
    pub fn pair_safe_cut(&self, at: usize) -> usize {
        let splits_a_pair = at > 0
            && at < self.num_rows()
            && self.kind(at - 1) == RowKind::UpdateBefore
            && self.kind(at) == RowKind::UpdateAfter;
        if splits_a_pair { at + 1 } else { at }
    }

    /// The rows of these indices, in their order, copied.
    pub fn take(&self, rows: &[u32]) -> Result<Self, BatchError> {
        let rows = UInt32Array::from(rows.to_vec());
        let taken: Vec<ArrayRef> = self
            .records
            .columns()
            .iter()
            .map(|column| compute::take(column, &rows, None))
            .collect::<Result<_, _>>()
            .map_err(BatchError::Arrow)?;
        let event_times = self
            .event_times
            .as_ref()
            .map(|times| take_primitive(times, &rows));
        let kinds = self
            .kinds
            .as_ref()
            .map(|kinds| take_primitive(kinds, &rows));
        Ok(Self {
            records: rebuild(self.records.schema(), taken, rows.len())?,
            event_times: event_times.transpose()?,
            kinds: kinds.transpose()?,
        })
    }

    /// All rows in one batch, copied. A batch without kinds counts as inserts where another has
    /// them. `None` if there is no batch.
    pub fn concat(batches: &[Self]) -> Result<Option<Self>, BatchError> {
        let [first, rest @ ..] = batches else {
            return Ok(None);
        };
        if rest.is_empty() {
            return Ok(Some(first.clone()));
        }
        let timed = first.event_times.is_some();
        if rest
            .iter()
            .any(|batch| batch.event_times.is_some() != timed)
        {
            return Err(BatchError::MixedEventTimes);
        }
        let records = compute::concat_batches(
            &first.records.schema(),
            batches.iter().map(|batch| &batch.records),
        )
        .map_err(BatchError::Arrow)?;
        let event_times = timed.then(|| {
            let times = batches
                .iter()
                .filter_map(|batch| batch.event_times.as_ref());
            times
                .flat_map(|times| times.values().iter().copied())
                .collect::<Vec<i64>>()
                .into()
        });
        let any_kinds = batches.iter().any(|batch| batch.kinds.is_some());
        let kinds = any_kinds.then(|| concat_kinds(batches, records.num_rows()));
        Ok(Some(Self {
            records,
            event_times,
            kinds,
        }))
    }

    /// Bytes that these rows take when written out: of the slice, never of a shared buffer's
    /// capacity. What credits, queues and budgets count.
    pub fn encoded_bytes(&self) -> usize {
        let columns: usize = self.records.columns().iter().map(size::slice_bytes).sum();
        let times = self.event_times.as_ref().map_or(0, |times| times.len() * 8);
        columns + times + self.kinds.as_ref().map_or(0, |kinds| kinds.len())
    }
}

fn check_entries(what: &'static str, column: &dyn Array, rows: usize) -> Result<(), BatchError> {
    if column.len() != rows {
        return Err(BatchError::Length {
            what,
            found: column.len(),
            rows,
        });
    }
    if column.null_count() == 0 {
        return Ok(());
    }
    match (0..rows).find(|row| column.is_null(*row)) {
        Some(row) => Err(BatchError::Null { what, row }),
        None => Ok(()),
    }
}

fn take_primitive<T: arrow::datatypes::ArrowPrimitiveType>(
    column: &arrow::array::PrimitiveArray<T>,
    rows: &UInt32Array,
) -> Result<arrow::array::PrimitiveArray<T>, BatchError> {
    let taken = compute::take(column, rows, None).map_err(BatchError::Arrow)?;
    Ok(arrow::array::AsArray::as_primitive::<T>(&taken).clone())
}

fn rebuild(
    schema: SchemaRef,
    columns: Vec<ArrayRef>,
    rows: usize,
) -> Result<RecordBatch, BatchError> {
    let options = RecordBatchOptions::new().with_row_count(Some(rows));
    RecordBatch::try_new_with_options(schema, columns, &options).map_err(BatchError::Arrow)
}

fn concat_kinds(batches: &[Batch], rows: usize) -> UInt8Array {
    let mut kinds = Vec::with_capacity(rows);
    for batch in batches {
        match &batch.kinds {
            Some(of_batch) => kinds.extend_from_slice(of_batch.values()),
            None => kinds.resize(kinds.len() + batch.num_rows(), RowKind::Insert as u8),
        }
    }
    kinds.into()
}

impl From<RecordBatch> for Batch {
    fn from(records: RecordBatch) -> Self {
        Self::new(records)
    }
}

impl Batch {
    /// An empty batch of this schema.
    pub fn empty(schema: SchemaRef) -> Self {
        Self::new(RecordBatch::new_empty(Arc::clone(&schema)))
    }
}

#[cfg(test)]
mod tests;
