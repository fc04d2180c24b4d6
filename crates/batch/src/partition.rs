//! Partitioning by one counting pass: rows keep their order within a destination, nothing is sorted.

use crate::batch::{Batch, BatchError};

/// The rows of a batch by destination; the memory is used again for the next batch.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Partitions {
    rows: Vec<u32>,
    ends: Vec<u32>,
    cursors: Vec<u32>,
}

impl Partitions {
    /// Partitions of nothing.
    pub fn new() -> Self {
        Self::default()
    }

    /// Sorts the rows into `destinations` lists: one pass counts, one places.
    ///
    /// # Panics
    /// If a row's destination is not below `destinations`.
    pub fn assign(&mut self, destination_of_row: &[u32], destinations: usize) {
        self.cursors.clear();
        self.cursors.resize(destinations, 0);
        for destination in destination_of_row {
            self.cursors[*destination as usize] += 1;
        }
        self.ends.clear();
        let mut end = 0;
        for cursor in &mut self.cursors {
            let count = *cursor;
            *cursor = end;
            end += count;
            self.ends.push(end);
        }
        self.rows.clear();
        self.rows.resize(destination_of_row.len(), 0);
        for (row, destination) in destination_of_row.iter().enumerate() {
            let cursor = &mut self.cursors[*destination as usize];
            self.rows[*cursor as usize] = row as u32;
            *cursor += 1;
        }
    }

    /// The rows for a destination, in their order.
    pub fn rows(&self, destination: usize) -> &[u32] {
        let (start, end) = self.bounds(destination);
        &self.rows[start..end]
    }

    /// Number of destinations.
    pub fn destinations(&self) -> usize {
        self.ends.len()
    }

    /// Splits the assigned batch. The columns are gathered once, in the order of destinations; each
    /// destination gets a slice of that, and nothing is copied when one destination gets it all.
    pub fn split(&self, batch: &Batch, out: &mut Vec<(u32, Batch)>) -> Result<(), BatchError> {
        let occupied = |destination: &usize| {
            let (start, end) = self.bounds(*destination);
            start < end
        };
        let mut destinations = (0..self.ends.len()).filter(occupied);
        let Some(first) = destinations.next() else {
            return Ok(());
        };
        if self.rows(first).len() == batch.num_rows() {
            out.push((first as u32, batch.clone()));
            return Ok(());
        }
        let gathered = batch.take(&self.rows)?;
        for destination in std::iter::once(first).chain(destinations) {
            let (start, end) = self.bounds(destination);
            out.push((destination as u32, gathered.slice(start, end - start)));
        }
        Ok(())
    }

    fn bounds(&self, destination: usize) -> (usize, usize) {
        let start = destination
            .checked_sub(1)
            .map_or(0, |before| self.ends[before]);
        (start as usize, self.ends[destination] as usize)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow::array::{ArrayRef, AsArray, Int64Array, RecordBatch};
    use arrow::datatypes::Int64Type;

    use super::*;

    fn batch(rows: i64) -> Batch {
        let column: ArrayRef = Arc::new(Int64Array::from_iter_values(0..rows));
        Batch::new(RecordBatch::try_from_iter([("n", column)]).unwrap())
    }

    fn values(batch: &Batch) -> Vec<i64> {
        batch
            .records()
            .column(0)
            .as_primitive::<Int64Type>()
            .values()
            .to_vec()
    }

    #[test]
    fn rows_keep_their_order_within_a_destination() {
        let mut partitions = Partitions::new();
        partitions.assign(&[2, 0, 2, 3, 0, 2], 4);
        let mut out = Vec::new();
        partitions.split(&batch(6), &mut out).unwrap();
        let rows: Vec<_> = out.iter().map(|(to, part)| (*to, values(part))).collect();
        assert_eq!(rows, [(0, vec![1, 4]), (2, vec![0, 2, 5]), (3, vec![3])]);
    }

    #[test]
    fn a_batch_for_one_destination_is_handed_on_without_a_copy() {
        let whole = batch(3);
        let mut partitions = Partitions::new();
        partitions.assign(&[1, 1, 1], 2);
        let mut out = Vec::new();
        partitions.split(&whole, &mut out).unwrap();
        let buffer = |batch: &Batch| {
            batch
                .records()
                .column(0)
                .as_primitive::<Int64Type>()
                .values()
                .inner()
                .as_ptr()
        };
        assert_eq!(buffer(&out[0].1), buffer(&whole));
        out.clear();
        partitions.assign(&[], 2);
        partitions.split(&batch(0), &mut out).unwrap();
        assert!(out.is_empty());
    }
}
