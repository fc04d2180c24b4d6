//! How accumulators become the value of a key: those of all aggregates one after the other.
//!
//! Numbers are little endian and of fixed width; a flag byte in front says whether any value was
//! seen. Text carries its length. The state's schema version lists functions and types, so that a
//! value is never read as something else.

use millstream_graph::{AggregateColumn, AggregateFunction};
use millstream_state::{SchemaIndex, ValueBuffer};

use super::accumulator::{Accumulators, EncodedColumn};

/// The part of a schema version that one aggregate accounts for.
pub(super) fn version(column: &AggregateColumn) -> String {
    let function = column.function.name();
    match (column.function, &column.input_type) {
        (AggregateFunction::Count, _) | (_, None) => function.to_owned(),
        (_, Some(input)) => format!("{function}({input})"),
    }
}

/// Memory for taking values apart and putting them together.
#[derive(Default)]
pub(super) struct Rows {
    /// How far each group's value was read.
    pub(super) positions: Vec<usize>,
    columns: Vec<EncodedColumn>,
}

impl Rows {
    /// Begins to read the values of `groups` groups.
    pub(super) fn start(&mut self, groups: usize) {
        self.positions.clear();
        self.positions.resize(groups, 0);
    }

    /// Writes one value per group.
    pub(super) fn encode<'a>(
        &mut self,
        columns: impl ExactSizeIterator<Item = &'a dyn Accumulators>,
        schema: SchemaIndex,
        groups: usize,
        values: &mut ValueBuffer,
    ) {
        self.columns
            .resize_with(columns.len(), EncodedColumn::default);
        for (encoded, column) in self.columns.iter_mut().zip(columns) {
            encoded.clear();
            column.store(encoded);
        }
        values.clear();
        for group in 0..groups {
            values.push_with(schema, |out| {
                for column in &self.columns {
                    let start = group.checked_sub(1).map_or(0, |before| column.ends[before]);
                    out.extend_from_slice(&column.bytes[start..column.ends[group]]);
                }
            });
        }
    }
}
