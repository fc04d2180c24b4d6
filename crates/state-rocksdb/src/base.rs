//! The database as the lowest layer.

use std::collections::BTreeMap;
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use millstream_state::format::{SnapshotHeader, SnapshotWriter};
use millstream_state::layers::{Base, DirtyMap};
use millstream_state::{ScanPage, SnapshotSink, StateError, StateId, StateKeys, ValueBuffer};
use millstream_types::{KeyGroup, KeyGroupRange};
use rocksdb::{
    ColumnFamily, ColumnFamilyDescriptor, DB, DBRawIterator, Options, ReadOptions, Snapshot,
    WriteBatch, WriteOptions,
};

use crate::error;
use crate::ingest::Ingest;
use crate::journal::Journal;
use crate::{RocksMemory, StateDirectory};

/// One database, a column family a state. Closed before its directory goes.
pub(crate) struct RocksBase {
    db: DB,
    families: Vec<String>,
    path: PathBuf,
    options: Options,
    drain_options: Options,
    ingest_bytes_min: usize,
    /// None where each snapshot is of everything.
    journal: Option<Journal>,
    /// Bytes of the last snapshot of everything, and what was written since.
    live_bytes: AtomicU64,
    _directory: StateDirectory,
}

impl fmt::Debug for RocksBase {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("RocksBase").field(&self.path).finish()
    }
}

impl RocksBase {
    pub(crate) fn create(
        directory: StateDirectory,
        n_states: usize,
        memory: &RocksMemory,
        changes_of: Option<SnapshotHeader>,
    ) -> Result<Self, StateError> {
        let path = directory.path().join("db");
        let changes = directory.path().join("changes");
        let options = memory.options();
        // Names of states may hold any character, ids may not.
        let families: Vec<_> = (0..n_states).map(|id| format!("state-{id}")).collect();
        let all = families.iter().map(String::as_str).chain(["default"]);
        let descriptors = all.map(|name| ColumnFamilyDescriptor::new(name, options.clone()));
        let db = DB::open_cf_descriptors(&options, &path, descriptors)
            .map_err(|e| error::database("open", &path, e))?;
        Ok(Self {
            db,
            families,
            path,
            options,
            drain_options: memory.drain_options(),
            ingest_bytes_min: memory.ingest_bytes_min(),
            journal: changes_of
                .map(|header| Journal::new(changes, header, memory.small_snapshot_bytes())),
            live_bytes: AtomicU64::new(0),
            _directory: directory,
        })
    }

    pub(crate) fn db(&self) -> &DB {
        &self.db
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Files that bring restored state into the database.
    pub(crate) fn restoring(&self) -> Result<Ingest<'_>, StateError> {
        Ingest::new(self, &self.options)
    }

    pub(crate) fn family(&self, state: StateId) -> &ColumnFamily {
        self.families
            .get(usize::from(state.0))
            .and_then(|name| self.db.cf_handle(name))
            .expect("keys are made for declared states, each of which has a column family")
    }

    /// Streams what a view holds of these key groups, in key order.
    pub(crate) fn write_snapshot(
        &self,
        view: &Snapshot<'_>,
        range: KeyGroupRange,
        writer: &mut SnapshotWriter<impl SnapshotSink>,
    ) -> Result<(), StateError> {
        let mut families = Vec::with_capacity(self.families.len());
        for id in 0..self.families.len() {
            let mut options = ReadOptions::default();
            // One pass over everything would push out what the task is working with.
            options.fill_cache(false);
            options.set_readahead_size(1 << 20);
            let mut entries = view.raw_iterator_cf_opt(self.family(StateId(id as u16)), options);
            entries.seek(range.first().0.to_be_bytes());
            families.push(entries);
        }
        for group in range.iter() {
            for entries in &mut families {
                self.write_group(entries, group, writer)?;
            }
        }
        Ok(())
    }

    fn write_group(
        &self,
        entries: &mut DBRawIterator<'_>,
        group: KeyGroup,
        writer: &mut SnapshotWriter<impl SnapshotSink>,
    ) -> Result<(), StateError> {
        while let Some((key, stored)) = entries.item() {
            if !key.starts_with(&group.0.to_be_bytes()) {
                return Ok(());
            }
            writer.entry(key, stored)?;
            entries.next();
        }
        // The end and an error look alike until asked.
        entries
            .status()
            .map_err(|e| error::database("read", &self.path, e))
    }
}

impl Base for RocksBase {
    fn get(&self, keys: &StateKeys, values: &mut ValueBuffer) -> Result<(), StateError> {
        let mut by_state: BTreeMap<StateId, Vec<usize>> = BTreeMap::new();
        for index in 0..keys.len() {
            by_state.entry(keys.state(index)).or_default().push(index);
        }
        let mut found: Vec<_> = (0..keys.len()).map(|_| None).collect();
        for (state, indexes) in by_state {
            let wanted = indexes.iter().map(|index| keys.get(*index));
            let results = self
                .db
                .batched_multi_get_cf(self.family(state), wanted, false);
            for (index, result) in indexes.iter().zip(results) {
                found[*index] = result.map_err(|e| error::database("read", &self.path, e))?;
            }
        }
        values.clear();
        for stored in found {
            values.push_stored(stored.as_deref());
        }
        Ok(())
    }

    fn scan(
        &self,
        prefix: &[u8],
        after: &[u8],
        max_entries: usize,
        page: &mut ScanPage,
    ) -> Result<bool, StateError> {
        page.clear();
        let state = StateId(u16::from_be_bytes([prefix[2], prefix[3]]));
        let mut options = ReadOptions::default();
        if let Some(end) = successor(prefix) {
            options.set_iterate_upper_bound(end);
        }
        let mut entries = self.db.raw_iterator_cf_opt(self.family(state), options);
        entries.seek(prefix.max(after));
        if entries.key().is_some_and(|key| key == after) {
            entries.next();
        }
        while let Some((key, stored)) = entries.item() {
            if page.len() >= max_entries {
                return Ok(true);
            }
            page.push(key, stored);
            entries.next();
        }
        entries
            .status()
            .map_err(|e| error::database("scan", &self.path, e))?;
        Ok(false)
    }

    fn write(&self, keys: &StateKeys, values: &ValueBuffer) -> Result<(), StateError> {
        let mut batch = WriteBatch::default();
        for (index, key) in keys.iter().enumerate() {
            let family = self.family(keys.state(index));
            match values.stored(index) {
                Some(stored) => batch.put_cf(family, key, stored),
                None => batch.delete_cf(family, key),
            }
        }
        let mut options = WriteOptions::default();
        options.disable_wal(true);
        self.db
            .write_opt(batch, &options)
            .map_err(|e| error::database("write", &self.path, e))
    }

    fn take_over(&self, map: &DirtyMap<'_>) -> Result<(), StateError> {
        self.has_grown(map.bytes() as u64);
        if map.bytes() < self.ingest_bytes_min || self.is_behind() {
            self.note(map, |_, _| Ok(()))?;
            return map.write_to(self);
        }
        let mut ingest = Ingest::new(self, &self.drain_options)?;
        if !self.note(map, |key, stored| ingest.put(key, stored))? {
            map.for_each(|key, stored| ingest.put(key, stored))?;
        }
        ingest.finish()
    }
}

/// With so many files that overlap, what is written must wait for compaction, and only a write
/// buffer does.
const OVERLAPPING_FILES_MAX: u64 = 12;

impl RocksBase {
    /// Notes a map for the next snapshots, entry by entry beside something else that is done with
    /// each. False, and nothing is done, if there is nothing to note it for.
    fn note(
        &self,
        map: &DirtyMap<'_>,
        mut also: impl FnMut(&[u8], Option<&[u8]>) -> Result<(), StateError>,
    ) -> Result<bool, StateError> {
        let Some(journal) = self.journal.as_ref().filter(|_| map.bytes() > 0) else {
            return Ok(false);
        };
        journal.note(map.group(), |note| {
            map.for_each(|key, stored| {
                note.entry(key, stored)?;
                also(key, stored)
            })
        })
    }

    /// The changes, where snapshots may be of those alone.
    pub(crate) fn journal(&self) -> Option<&Journal> {
        self.journal.as_ref()
    }

    /// No less than about the bytes of all there is.
    pub(crate) fn live_bytes(&self) -> u64 {
        self.live_bytes.load(Ordering::Relaxed)
    }

    /// So much was written.
    pub(crate) fn has_grown(&self, bytes: u64) {
        self.live_bytes.fetch_add(bytes, Ordering::Relaxed);
    }

    /// When [`live_bytes`](Self::live_bytes) were `counted`, there were `found`.
    pub(crate) fn were(&self, counted: u64, found: u64) {
        let corrected = |bytes: u64| Some(bytes.saturating_sub(counted).saturating_add(found));
        let (set, read) = (Ordering::Relaxed, Ordering::Relaxed);
        // It always is changed.
        let _ = self.live_bytes.fetch_update(set, read, corrected);
    }

    /// Whether some state has more files in its first level than it should.
    fn is_behind(&self) -> bool {
        self.families.iter().any(|name| {
            let family = self.db.cf_handle(name);
            let files = family.and_then(|family| {
                let property = rocksdb::properties::num_files_at_level(0);
                self.db
                    .property_int_value_cf(family, property)
                    .ok()
                    .flatten()
            });
            files.unwrap_or(0) >= OVERLAPPING_FILES_MAX
        })
    }
}

/// The first bytes above everything that starts with `prefix`; none if nothing is.
fn successor(prefix: &[u8]) -> Option<Vec<u8>> {
    let last = prefix.iter().rposition(|byte| *byte != 0xff)?;
    let mut end = prefix[..=last].to_vec();
    end[last] += 1;
    Some(end)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_successor_is_above_every_extension_of_the_prefix() {
        assert_eq!(successor(b"ab").unwrap(), b"ac");
        assert_eq!(successor(b"a\xff\xff").unwrap(), b"b");
        assert_eq!(successor(b"\xff\xff"), None);
    }
}
