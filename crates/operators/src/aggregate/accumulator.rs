//! What all accumulators have in common.

use arrow::array::{Array, ArrayRef, Int64Array};
use arrow::datatypes::DataType;
use arrow::error::ArrowError;
use millstream_graph::{AggregateColumn, AggregateFunction};
use millstream_state::ValueBuffer;

use super::average;
use super::fold::{self, Greatest, Least, Newest, Pick};
use super::picked_text::PickedText;

/// Why an aggregate cannot go on.
#[derive(Debug)]
pub(super) enum AggregateError {
    /// The result does not fit its type.
    Overflow {
        /// The type as SQL names it.
        sql_type: &'static str,
    },
    /// The argument's type has no such aggregate.
    Unsupported { data_type: DataType },
    /// The argument does not have the type that was planned.
    Cast(ArrowError),
    /// Stored bytes end too early.
    Corrupt,
}

/// Columns of encoded accumulators: one piece of bytes per group.
#[derive(Default)]
pub(super) struct EncodedColumn {
    pub(super) bytes: Vec<u8>,
    pub(super) ends: Vec<usize>,
}

impl EncodedColumn {
    pub(super) fn clear(&mut self) {
        self.bytes.clear();
        self.ends.clear();
    }

    pub(super) fn end_piece(&mut self) {
        self.ends.push(self.bytes.len());
    }
}

/// The accumulators of one aggregate for the groups of one slice.
pub(super) trait Accumulators: Send {
    /// Makes `groups` empty accumulators.
    fn reset(&mut self, groups: usize);

    /// Reads the accumulators stored in `values`, each from its position on, and moves the
    /// positions behind what was read. Groups without a value stay empty.
    fn load(&mut self, values: &ValueBuffer, positions: &mut [usize])
    -> Result<(), AggregateError>;

    /// Takes in one value per row, once between two resets. With `each`, returns the result after
    /// each row.
    fn update(
        &mut self,
        group_of_row: &[u32],
        argument: Option<&ArrayRef>,
        each: bool,
    ) -> Result<Option<ArrayRef>, AggregateError>;

    /// Writes all accumulators.
    fn store(&self, out: &mut EncodedColumn);

    /// The result of each group.
    fn finish(&self) -> Result<ArrayRef, AggregateError>;
}

/// The accumulators of an aggregate.
pub(super) fn make(column: &AggregateColumn) -> Result<Box<dyn Accumulators>, AggregateError> {
    let Some(input) = &column.input_type else {
        return Ok(Box::new(Count::default()));
    };
    match column.function {
        AggregateFunction::Count => Ok(Box::new(Count::default())),
        AggregateFunction::Sum => fold::sum(input, &column.output_type),
        AggregateFunction::Avg => average::make(input, &column.output_type),
        AggregateFunction::Min => picked::<Least>(input, &column.output_type),
        AggregateFunction::Max => picked::<Greatest>(input, &column.output_type),
        AggregateFunction::LastValue => picked::<Newest>(input, &column.output_type),
    }
}

fn picked<P: Pick>(
    input: &DataType,
    output: &DataType,
) -> Result<Box<dyn Accumulators>, AggregateError> {
    match is_text(input) {
        true => Ok(Box::new(PickedText::<P>::default())),
        false => fold::picked::<P>(input, output),
    }
}

fn is_text(data_type: &DataType) -> bool {
    matches!(
        data_type,
        DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View
    )
}

/// `count(*)` and `count(x)`.
#[derive(Default)]
struct Count {
    counts: Vec<i64>,
}

impl Accumulators for Count {
    fn reset(&mut self, groups: usize) {
        self.counts.clear();
        self.counts.resize(groups, 0);
    }

    fn load(
        &mut self,
        values: &ValueBuffer,
        positions: &mut [usize],
    ) -> Result<(), AggregateError> {
        for (group, count) in self.counts.iter_mut().enumerate() {
            if let Some(value) = values.get(group) {
                *count = i64::from_le_bytes(take(value.bytes, &mut positions[group])?);
            }
        }
        Ok(())
    }

    fn update(
        &mut self,
        group_of_row: &[u32],
        argument: Option<&ArrayRef>,
        each: bool,
    ) -> Result<Option<ArrayRef>, AggregateError> {
        let nulls = argument.and_then(|array| array.logical_nulls());
        let mut after = Vec::with_capacity(if each { group_of_row.len() } else { 0 });
        for (row, group) in group_of_row.iter().enumerate() {
            let count = &mut self.counts[*group as usize];
            if nulls.as_ref().is_none_or(|nulls| nulls.is_valid(row)) {
                *count += 1;
            }
            if each {
                after.push(*count);
            }
        }
        Ok(each.then(|| std::sync::Arc::new(Int64Array::from(after)) as ArrayRef))
    }

    fn store(&self, out: &mut EncodedColumn) {
        for count in &self.counts {
            out.bytes.extend_from_slice(&count.to_le_bytes());
            out.end_piece();
        }
    }

    fn finish(&self) -> Result<ArrayRef, AggregateError> {
        Ok(std::sync::Arc::new(Int64Array::from(self.counts.clone())))
    }
}

/// Takes `N` bytes at `position` and moves it on.
pub(super) fn take<const N: usize>(
    bytes: &[u8],
    position: &mut usize,
) -> Result<[u8; N], AggregateError> {
    let piece = bytes
        .get(*position..)
        .and_then(|rest| rest.first_chunk::<N>());
    let piece = piece.ok_or(AggregateError::Corrupt)?;
    *position += N;
    Ok(*piece)
}
