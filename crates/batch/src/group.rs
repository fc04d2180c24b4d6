//! Grouping the rows of one slice by key, so that state is accessed once per key.

use hashbrown::HashTable;
use hashbrown::hash_table::Entry;

use crate::key::KeyBuffer;

/// The rows of a slice by key: groups are numbered in the order of their first rows.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Groups {
    /// The group of each row.
    pub group_of_row: Vec<u32>,
    /// The first row of each group: where its key is read.
    pub first_row: Vec<u32>,
}

impl Groups {
    /// Number of different keys.
    pub fn len(&self) -> usize {
        self.first_row.len()
    }

    /// Whether there is no row.
    pub fn is_empty(&self) -> bool {
        self.first_row.is_empty()
    }
}

/// Groups slice after slice with the same memory.
#[derive(Debug, Default)]
pub struct Grouper {
    table: HashTable<u32>,
    groups: Groups,
}

impl Grouper {
    /// A grouper that has seen nothing yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// Groups the rows by key. The hashes are those of the buffer: nothing is hashed again.
    pub fn group(&mut self, keys: &KeyBuffer) -> &Groups {
        let Groups {
            group_of_row,
            first_row,
        } = &mut self.groups;
        self.table.clear();
        group_of_row.clear();
        first_row.clear();
        group_of_row.reserve(keys.len());
        for (row, hash) in keys.hashes().iter().copied().enumerate() {
            let key = keys.key(row);
            let entry = self.table.entry(
                hash,
                |group| keys.key(first_row[*group as usize] as usize) == key,
                |group| keys.hashes()[first_row[*group as usize] as usize],
            );
            let group = match entry {
                Entry::Occupied(found) => *found.get(),
                Entry::Vacant(free) => {
                    let group = first_row.len() as u32;
                    free.insert(group);
                    first_row.push(row as u32);
                    group
                }
            };
            group_of_row.push(group);
        }
        &self.groups
    }

    /// The groups of the last slice.
    pub fn groups(&self) -> &Groups {
        &self.groups
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow::array::{ArrayRef, StringArray};

    use super::*;
    use crate::key::KeyCodec;

    fn keys(values: &[Option<&str>]) -> KeyBuffer {
        let column: ArrayRef = Arc::new(StringArray::from(values.to_vec()));
        let batch = arrow::array::RecordBatch::try_from_iter_with_nullable([("k", column, true)]);
        let batch = batch.unwrap();
        let mut buffer = KeyBuffer::new();
        let codec = KeyCodec::new(&batch.schema(), &[0]).unwrap();
        codec.encode(&batch, &mut buffer).unwrap();
        buffer
    }

    #[test]
    fn rows_of_one_key_share_a_group_and_the_next_slice_starts_anew() {
        let mut grouper = Grouper::new();
        let slice = keys(&[Some("b"), Some("a"), None, Some("b"), Some(""), None]);
        let groups = grouper.group(&slice);
        assert_eq!(groups.group_of_row, [0, 1, 2, 0, 3, 2]);
        assert_eq!(groups.first_row, [0, 1, 2, 4]);
        assert_eq!(grouper.group(&keys(&[Some("a")])).first_row, [0]);
        assert!(grouper.group(&keys(&[])).is_empty());
    }

    #[test]
    fn many_keys_survive_the_growth_of_the_table() {
        let texts: Vec<String> = (0..5000).map(|i| format!("key-{}", i % 1237)).collect();
        let texts: Vec<Option<&str>> = texts.iter().map(|text| Some(text.as_str())).collect();
        let mut grouper = Grouper::new();
        let groups = grouper.group(&keys(&texts));
        assert_eq!(groups.len(), 1237);
        assert!(
            groups
                .group_of_row
                .iter()
                .enumerate()
                .all(|(row, g)| *g as usize == row % 1237)
        );
    }
}
