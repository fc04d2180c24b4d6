//! Restoring from the parts of a snapshot, whatever the parallelism they were taken with.

use millstream_types::{KeyGroup, KeyGroupRange, MaxParallelism};

use crate::descriptor::Remap;
use crate::format::{Contents, Entry, SnapshotReader};
use crate::{SchemaIndex, SnapshotSource, StateError, StateId, StateTable, StoredState};

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
    /// Whether the files are of exactly the restored key groups and states, so that changes may be
    /// added to them.
    pub is_own: bool,
}

/// Goes over the entries of `range` in the files of one snapshot and hands each, with the ids and
/// schema indexes of `table`, to `put`. The keys of each state ascend.
///
/// A key group is in one file of all, and in any number of changes behind it, of which the newest
/// that knows a key is right. Everything the headers tell is checked before the first entry: the
/// files have the job's max parallelism, they cover `range` in that way, states and schemas are
/// known.
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
    let stored: Vec<_> = readers.iter().map(|r| &r.header().states[..]).collect();
    let remaps = table.adopt(&stored, policy)?;
    let mut summary = RestoreSummary {
        is_own: readers.iter().all(|reader| is_own(reader, table, range)),
        ..RestoreSummary::default()
    };
    let mut scratch = Scratch::default();
    for group in range.iter() {
        let mut chain = Chain::begin(&mut readers, group)?;
        while let Some((part, entry)) = chain.next()? {
            if !scratch.translate(entry, &remaps[part]) {
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

/// Whether changes to state as it is here could stand behind this file.
fn is_own(reader: &SnapshotReader<'_>, table: &StateTable, range: KeyGroupRange) -> bool {
    reader.header().range == range && names(&reader.header().states) == names(&table.stored())
}

fn names(states: &[StoredState]) -> Vec<(StateId, &str)> {
    let names = states.iter().map(|state| (state.id, state.name.as_str()));
    names.collect()
}

fn check_parts(
    readers: &[SnapshotReader<'_>],
    range: KeyGroupRange,
    max: MaxParallelism,
) -> Result<(), StateError> {
    // The newest file of each key group so far.
    let mut covered: Vec<Option<usize>> = vec![None; range.count() as usize];
    for (part, reader) in readers.iter().enumerate() {
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
            let before = &mut covered[usize::from(group.0 - range.first().0)];
            match (header.contents, &*before) {
                (Contents::All, None) => {}
                (Contents::All, Some(_)) => return Err(StateError::PartsOverlap { group }),
                (Contents::Changes, None) => return Err(StateError::PartsMissing { group, range }),
                (Contents::Changes, Some(before)) => {
                    let before = readers[*before].header();
                    if before.checkpoint > header.checkpoint
                        || names(&before.states) != names(&header.states)
                    {
                        return Err(StateError::PartsUnrelated { group });
                    }
                }
            }
            *before = Some(part);
        }
    }
    match range.iter().zip(&covered).find(|(_, part)| part.is_none()) {
        Some((group, _)) => Err(StateError::PartsMissing { group, range }),
        None => Ok(()),
    }
}

/// The entries of one key group in a file of all and the changes behind it: of each key the newest.
struct Chain<'r, 'a> {
    readers: &'r mut [SnapshotReader<'a>],
    /// The files that have entries left. The last is the one whose entry comes next: the one with
    /// the lowest key, of several the newest.
    order: Vec<usize>,
    /// The key that was handed out last, and is still to be passed over.
    taken: Vec<u8>,
}

impl<'r, 'a> Chain<'r, 'a> {
    fn begin(readers: &'r mut [SnapshotReader<'a>], group: KeyGroup) -> Result<Self, StateError> {
        let mut chain = Self {
            readers,
            order: Vec::new(),
            taken: Vec::new(),
        };
        let only = KeyGroupRange::new(group, group).expect("one group is a range");
        for part in 0..chain.readers.len() {
            if chain.readers[part].header().range.contains(group) {
                chain.readers[part].select(only);
                chain.advance(part)?;
            }
        }
        Ok(chain)
    }

    /// The next entry, with the number of its file.
    fn next(&mut self) -> Result<Option<(usize, Entry<'_>)>, StateError> {
        if !self.taken.is_empty() {
            let taken = std::mem::take(&mut self.taken);
            while let Some(part) = self.order.pop_if(|part| key(self.readers, *part) == taken) {
                self.advance(part)?;
            }
            self.taken = taken;
        }
        let Some(part) = self.order.last().copied() else {
            return Ok(None);
        };
        let entry = self.readers[part].entry();
        let entry = entry.expect("a file in the order has an entry");
        self.taken.clear();
        self.taken.extend_from_slice(entry.key);
        Ok(Some((part, entry)))
    }

    /// Goes to the next entry of a file that is not in the order, and puts it there.
    fn advance(&mut self, part: usize) -> Result<(), StateError> {
        if self.readers[part].next_entry()?.is_none() {
            return Ok(());
        }
        let readers = &*self.readers;
        let comes_later = |other: &usize| {
            let keys = key(readers, *other).cmp(key(readers, part));
            keys.then_with(|| part.cmp(other)).is_gt()
        };
        let place = self.order.partition_point(comes_later);
        self.order.insert(place, part);
        Ok(())
    }
}

/// The key of the entry that a file is at.
fn key<'k>(readers: &'k [SnapshotReader<'_>], part: usize) -> &'k [u8] {
    readers[part].entry().map_or(&[], |entry| entry.key)
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
        let (Some(state), Some(stored)) = (remap.state(entry.state), entry.stored) else {
            return false;
        };
        let schema = remap
            .schema(entry.state, SchemaIndex(stored[0]))
            .expect("the reader refuses schemas that the part does not list");
        self.key.clear();
        self.key.extend_from_slice(entry.key);
        self.key[2..4].copy_from_slice(&state.0.to_be_bytes());
        self.value.clear();
        self.value.extend_from_slice(stored);
        self.value[0] = schema.0;
        true
    }
}

#[cfg(test)]
mod tests;
