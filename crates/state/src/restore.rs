//! Restoring from the parts of a snapshot, whatever the parallelism they were taken with.

use millstream_types::{KeyGroupRange, MaxParallelism};

use crate::descriptor::Remap;
use crate::format::{Entry, SnapshotReader};
use crate::{SnapshotSource, StateError, StateTable};

/// What happens to states of the snapshot that the job does not declare.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum RestorePolicy {
    /// They are an error.
    RequireAll,
    /// They are dropped and listed.
    AllowNonRestored,
}

/// What a restore did.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct RestoreSummary {
    /// Entries taken over.
    pub n_entries: u64,
    /// Bytes of their keys and values.
    pub bytes: u64,
    /// States that were dropped because the job does not declare them, by name.
    pub dropped_states: Vec<String>,
}

/// Goes over the entries of `range` in the parts of one snapshot and hands each, with the ids and
/// schema indexes of `table`, to `put`. The keys of each state ascend.
///
/// Everything the headers tell is checked before the first entry: the parts have the job's max
/// parallelism, their ranges cover `range` without overlap, states and schemas are known.
pub fn restore_parts(
    parts: &mut [&mut dyn SnapshotSource],
    table: &mut StateTable,
    range: KeyGroupRange,
    max: MaxParallelism,
    policy: RestorePolicy,
    mut put: impl FnMut(&[u8], &[u8]) -> Result<(), StateError>,
) -> Result<RestoreSummary, StateError> {
    let mut readers = Vec::with_capacity(parts.len());
    for part in parts {
        readers.push(SnapshotReader::open(&mut **part)?);
    }
    check_parts(&readers, range, max)?;
    readers.sort_by_key(|reader| reader.header().range.first());
    let stored: Vec<_> = readers.iter().map(|r| &r.header().states[..]).collect();
    let remaps = table.adopt(&stored, policy)?;
    let mut summary = RestoreSummary::default();
    let mut scratch = Scratch::default();
    for (reader, remap) in readers.iter_mut().zip(&remaps) {
        let Some(common) = range.intersection(reader.header().range) else {
            continue;
        };
        reader.select(common);
        while let Some(entry) = reader.next_entry()? {
            if !scratch.translate(entry, remap) {
                continue;
            }
            put(&scratch.key, &scratch.value)?;
            summary.n_entries += 1;
            summary.bytes += (scratch.key.len() + scratch.value.len()) as u64;
        }
    }
    let mut dropped: Vec<_> = remaps.into_iter().flat_map(|remap| remap.dropped).collect();
    dropped.sort_unstable();
    dropped.dedup();
    summary.dropped_states = dropped;
    Ok(summary)
}

fn check_parts(
    readers: &[SnapshotReader<'_>],
    range: KeyGroupRange,
    max: MaxParallelism,
) -> Result<(), StateError> {
    let mut owners = vec![0u8; range.count() as usize];
    for reader in readers {
        let header = reader.header();
        if header.max_parallelism != max {
            return Err(StateError::MaxParallelismChanged {
                found: header.max_parallelism.get(),
                declared: max.get(),
            });
        }
        let Some(common) = range.intersection(header.range) else {
            continue;
        };
        for group in common.iter() {
            let owner = &mut owners[usize::from(group.0 - range.first().0)];
            if *owner > 0 {
                return Err(StateError::PartsOverlap { group });
            }
            *owner = 1;
        }
    }
    match range.iter().zip(&owners).find(|(_, owner)| **owner == 0) {
        Some((group, _)) => Err(StateError::PartsMissing { group, range }),
        None => Ok(()),
    }
}

/// An entry as it is here, reused from entry to entry.
#[derive(Default)]
struct Scratch {
    key: Vec<u8>,
    value: Vec<u8>,
}

impl Scratch {
    /// Takes an entry over; returns whether it is wanted. The reader has checked that its state
    /// and schema are in the part's table, and the table's adoption that these are known here.
    fn translate(&mut self, entry: Entry<'_>, remap: &Remap) -> bool {
        let Some(state) = remap.state(entry.state) else {
            return false;
        };
        let schema = remap
            .schema(entry.state, entry.schema)
            .expect("the reader refuses schemas that the part does not list");
        self.key.clear();
        self.key.extend_from_slice(entry.key);
        self.key[2..4].copy_from_slice(&state.0.to_be_bytes());
        self.value.clear();
        self.value.extend_from_slice(entry.stored);
        self.value[0] = schema.0;
        true
    }
}
