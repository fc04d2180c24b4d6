//! Which channel of an output edge each row goes to.

use arrow::array::UInt8Array;
use millstream_batch::{Batch, BatchError, KeyBuffer, KeyCodec, KeyError, Partitions, RowKind};
use millstream_types::{KeyGroup, MaxParallelism, subtask_of_key_group};

use crate::element::DestinationIndex;

/// Rows that cannot be handed on.
#[derive(Debug, thiserror::Error)]
pub enum PartitionError {
    /// The key columns cannot be encoded.
    #[error("rows cannot be partitioned by key")]
    Key(#[source] KeyError),
    /// The columns cannot be gathered.
    #[error("rows cannot be gathered for their destinations")]
    Batch(#[source] BatchError),
}

/// Hands the rows of an edge to its destinations. Rows keep their order within a destination.
#[derive(Debug)]
pub enum Partitioner {
    /// To the one destination there is.
    Forward,
    /// Evenly, without looking at the rows.
    Rebalance(Rebalance),
    /// By key: all rows of a key group to the subtask that owns it.
    Hash(Box<HashPartitioner>),
    /// Every row to every destination.
    Broadcast {
        /// How many there are.
        destinations: u32,
    },
}

impl Partitioner {
    /// Deals rows evenly over so many destinations, beginning with `first`: the subtask's index, so
    /// that not all subtasks begin with the same one.
    pub fn rebalance(destinations: u32, first: u32) -> Self {
        Self::Rebalance(Rebalance {
            destinations,
            next: first % destinations.max(1),
        })
    }

    /// Hands rows to the owners of their keys.
    pub fn hash(codec: KeyCodec, max: MaxParallelism, parallelism: u32) -> Self {
        Self::Hash(Box::new(HashPartitioner::new(codec, max, parallelism)))
    }

    /// Adds the parts of the batch to `out`; no part is empty.
    pub fn partition(
        &mut self,
        batch: &Batch,
        out: &mut Vec<(DestinationIndex, Batch)>,
    ) -> Result<(), PartitionError> {
        if batch.is_empty() {
            return Ok(());
        }
        match self {
            Self::Forward => out.push((DestinationIndex(0), batch.clone())),
            Self::Broadcast { destinations } => {
                out.extend((0..*destinations).map(|to| (DestinationIndex(to), batch.clone())));
            }
            Self::Rebalance(rebalance) => rebalance.partition(batch, out),
            Self::Hash(hash) => hash.partition(batch, out)?,
        }
        Ok(())
    }
}

/// Deals contiguous runs of rows, without a copy.
#[derive(Debug)]
pub struct Rebalance {
    destinations: u32,
    next: u32,
}

impl Rebalance {
    fn partition(&mut self, batch: &Batch, out: &mut Vec<(DestinationIndex, Batch)>) {
        let rows = batch.num_rows();
        let parts = self.destinations as usize;
        let (each, more) = (rows / parts, rows % parts);
        let (mut from, mut planned) = (0, 0);
        for part in 0..parts {
            planned += each + usize::from(part < more);
            // An update's two rows stay together: the run before takes one row more.
            let to = batch.pair_safe_cut(planned.max(from));
            if to > from {
                out.push((DestinationIndex(self.next), batch.slice(from, to - from)));
                self.next = (self.next + 1) % self.destinations;
            }
            from = to;
        }
    }
}

/// Key, hash, key group, owner: one pass each, and the key is hashed once.
#[derive(Debug)]
pub struct HashPartitioner {
    codec: KeyCodec,
    max: MaxParallelism,
    owner_of_group: Vec<u32>,
    parallelism: u32,
    keys: KeyBuffer,
    destination_of_row: Vec<u32>,
    partitions: Partitions,
    parts: Vec<(u32, Batch)>,
}

impl HashPartitioner {
    fn new(codec: KeyCodec, max: MaxParallelism, parallelism: u32) -> Self {
        let owner = |group: u32| subtask_of_key_group(KeyGroup(group as u16), parallelism, max);
        Self {
            codec,
            max,
            owner_of_group: (0..max.get()).map(owner).collect(),
            parallelism,
            keys: KeyBuffer::new(),
            destination_of_row: Vec::new(),
            partitions: Partitions::new(),
            parts: Vec::new(),
        }
    }

    fn partition(
        &mut self,
        batch: &Batch,
        out: &mut Vec<(DestinationIndex, Batch)>,
    ) -> Result<(), PartitionError> {
        self.codec
            .encode(batch.records(), &mut self.keys)
            .map_err(PartitionError::Key)?;
        self.destination_of_row.clear();
        let (max, owners) = (self.max, &self.owner_of_group);
        let owner = |hash: &u64| owners[max.key_group(*hash).0 as usize];
        self.destination_of_row
            .extend(self.keys.hashes().iter().map(owner));
        self.partitions
            .assign(&self.destination_of_row, self.parallelism as usize);
        let torn = self
            .tear_updates_of_keys(batch)
            .map_err(PartitionError::Batch)?;
        let batch = torn.as_ref().unwrap_or(batch);
        self.partitions
            .split(batch, &mut self.parts)
            .map_err(PartitionError::Batch)?;
        out.extend(
            self.parts
                .drain(..)
                .map(|(to, part)| (DestinationIndex(to), part)),
        );
        Ok(())
    }

    /// An update that changes the key is no update for either key's owner: the old row is deleted
    /// at one, the new one inserted at the other. Decided by key and not by destination, so that
    /// the parallelism does not change what a subtask sees.
    fn tear_updates_of_keys(&self, batch: &Batch) -> Result<Option<Batch>, BatchError> {
        let Some(kinds) = batch.kinds() else {
            return Ok(None);
        };
        let (before, after) = (RowKind::UpdateBefore as u8, RowKind::UpdateAfter as u8);
        let mut torn: Option<Vec<u8>> = None;
        for (row, pair) in kinds.values().windows(2).enumerate() {
            if *pair == [before, after] && self.keys.key(row) != self.keys.key(row + 1) {
                let kinds = torn.get_or_insert_with(|| kinds.values().to_vec());
                kinds[row] = RowKind::Delete as u8;
                kinds[row + 1] = RowKind::Insert as u8;
            }
        }
        torn.map(|kinds| batch.clone().with_kinds(UInt8Array::from(kinds)))
            .transpose()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow::array::{ArrayRef, AsArray, Int64Array, RecordBatch, StringArray};
    use arrow::datatypes::Int64Type;
    use millstream_types::KeyGroupRange;

    use super::*;

    fn rows(keys: &[&str]) -> Batch {
        let key: ArrayRef = Arc::new(StringArray::from(keys.to_vec()));
        let n: ArrayRef = Arc::new(Int64Array::from_iter_values(0..keys.len() as i64));
        Batch::new(RecordBatch::try_from_iter([("k", key), ("n", n)]).unwrap())
    }

    fn run(partitioner: &mut Partitioner, batch: &Batch) -> Vec<(u32, Vec<i64>)> {
        let mut out = Vec::new();
        partitioner.partition(batch, &mut out).unwrap();
        let numbers = |part: &Batch| {
            part.records()
                .column(1)
                .as_primitive::<Int64Type>()
                .values()
                .to_vec()
        };
        out.iter().map(|(to, part)| (to.0, numbers(part))).collect()
    }

    fn by_key(batch: &Batch, parallelism: u32) -> Partitioner {
        let codec = KeyCodec::new(&batch.schema(), &[0]).unwrap();
        Partitioner::hash(codec, MaxParallelism::new(128).unwrap(), parallelism)
    }

    #[test]
    fn rebalance_deals_evenly_and_goes_on_where_it_stopped() {
        let mut partitioner = Partitioner::rebalance(3, 1);
        assert_eq!(
            run(&mut partitioner, &rows(&["a"; 7])),
            [(1, vec![0, 1, 2]), (2, vec![3, 4]), (0, vec![5, 6])]
        );
        assert_eq!(
            run(&mut partitioner, &rows(&["a"; 2])),
            [(1, vec![0]), (2, vec![1])]
        );
        assert_eq!(run(&mut partitioner, &rows(&["a"; 1])), [(0, vec![0])]);
    }

    #[test]
    fn rebalance_keeps_an_updates_two_rows_together() {
        let batch = rows(&["a"; 6])
            .with_kinds(vec![0, 1, 2, 1, 2, 3].into())
            .unwrap();
        let mut partitioner = Partitioner::rebalance(3, 0);
        assert_eq!(
            run(&mut partitioner, &batch),
            [(0, vec![0, 1, 2]), (1, vec![3, 4]), (2, vec![5])]
        );
    }

    #[test]
    fn broadcast_and_forward_copy_nothing() {
        let batch = rows(&["a", "b"]);
        let all = run(&mut Partitioner::Broadcast { destinations: 2 }, &batch);
        assert_eq!(all, [(0, vec![0, 1]), (1, vec![0, 1])]);
        assert_eq!(run(&mut Partitioner::Forward, &batch), [(0, vec![0, 1])]);
        assert_eq!(run(&mut Partitioner::Forward, &rows(&[])), []);
    }

    #[test]
    fn hash_sends_every_key_to_the_owner_of_its_key_group() {
        let keys: Vec<String> = (0..500).map(|i| format!("key-{}", i % 91)).collect();
        let keys: Vec<&str> = keys.iter().map(String::as_str).collect();
        let batch = rows(&keys);
        let (mut buffer, max) = (KeyBuffer::new(), MaxParallelism::new(128).unwrap());
        let codec = KeyCodec::new(&batch.schema(), &[0]).unwrap();
        codec.encode(batch.records(), &mut buffer).unwrap();
        let mut seen = 0;
        for (to, numbers) in run(&mut by_key(&batch, 5), &batch) {
            let owned = KeyGroupRange::of_subtask(to, 5, max);
            assert!(numbers.is_sorted(), "rows keep their order");
            assert!(
                numbers
                    .iter()
                    .all(|n| owned.contains(max.key_group(buffer.hash(*n as usize))))
            );
            seen += numbers.len();
        }
        assert_eq!(seen, 500);
    }

    #[test]
    fn an_update_of_the_key_itself_becomes_a_delete_and_an_insert() {
        let batch = rows(&["a", "a", "b", "c"])
            .with_kinds(vec![1, 2, 1, 2].into())
            .unwrap();
        for parallelism in [1, 2, 7] {
            let mut out = Vec::new();
            by_key(&batch, parallelism)
                .partition(&batch, &mut out)
                .unwrap();
            let mut kinds: Vec<(i64, RowKind)> = Vec::new();
            for (_, part) in &out {
                let numbers = part.records().column(1).as_primitive::<Int64Type>();
                kinds.extend((0..part.num_rows()).map(|row| (numbers.value(row), part.kind(row))));
            }
            kinds.sort_unstable();
            let expected = [
                RowKind::UpdateBefore,
                RowKind::UpdateAfter,
                RowKind::Delete,
                RowKind::Insert,
            ];
            assert_eq!(
                kinds.iter().map(|(_, kind)| *kind).collect::<Vec<_>>(),
                expected
            );
        }
    }
}
