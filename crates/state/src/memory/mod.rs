//! The in-memory backend: copy-on-write maps, snapshots taken from a copy.

#[cfg(test)]
mod tests;

use std::sync::Arc;

use millstream_types::{CheckpointId, KeyGroupRange, MaxParallelism};

use crate::format::{Contents, SnapshotHeader, SnapshotWriter};
use crate::keys::hash_of;
use crate::map::Known;
use crate::{
    CheckpointFiles, KeyedStateBackend, RestorePolicy, RestoreSummary, Scan, ScanPage, ShardedMap,
    Sharing, SnapshotFiles, SnapshotSource, SnapshotSummary, SnapshotWork, StateError, StateKeys,
    StateTable, StateUsage, ValueBuffer, restore_parts,
};

/// Keyed state in memory. A snapshot is one reference a shard; what is written while it is taken
/// costs one copy of each shard that is touched.
#[derive(Debug)]
pub struct MemoryBackend {
    table: StateTable,
    max: MaxParallelism,
    map: ShardedMap,
    /// The last snapshot. Its work holds the other reference until it is done or dropped.
    running: Option<(CheckpointId, Arc<()>)>,
}

impl MemoryBackend {
    /// Empty state for these key groups.
    pub fn new(table: StateTable, range: KeyGroupRange, max: MaxParallelism) -> Self {
        Self {
            table,
            max,
            map: ShardedMap::new(range),
            running: None,
        }
    }

    /// The snapshot that is still being taken.
    fn running(&self) -> Option<CheckpointId> {
        let (checkpoint, token) = self.running.as_ref()?;
        (Arc::strong_count(token) > 1).then_some(*checkpoint)
    }

    fn put_stored(map: &mut ShardedMap, keys: &StateKeys, index: usize, stored: Option<&[u8]>) {
        let (hash, key) = (keys.hash(index), keys.get(index));
        match stored {
            Some(_) => map.put(hash, key, stored),
            None => map.remove(hash, key),
        }
    }
}

impl CheckpointFiles for MemoryBackend {}

impl KeyedStateBackend for MemoryBackend {
    fn table(&self) -> &StateTable {
        &self.table
    }

    fn get(&mut self, keys: &StateKeys, values: &mut ValueBuffer) -> Result<(), StateError> {
        self.map.check(keys)?;
        values.clear();
        for (index, key) in keys.iter().enumerate() {
            values.push_stored(match self.map.get(keys.hash(index), key) {
                Some(Known::Value(stored)) => Some(stored),
                Some(Known::Deleted) | None => None,
            });
        }
        Ok(())
    }

    fn put(&mut self, keys: &StateKeys, values: &ValueBuffer) -> Result<(), StateError> {
        assert_eq!(keys.len(), values.len(), "one value a key");
        self.map.check(keys)?;
        values.check()?;
        for index in 0..keys.len() {
            Self::put_stored(&mut self.map, keys, index, values.stored(index));
        }
        Ok(())
    }

    fn scan(
        &mut self,
        scan: &mut Scan,
        max_entries: usize,
        page: &mut ScanPage,
    ) -> Result<bool, StateError> {
        page.clear();
        while !scan.is_over() {
            let entries = &mut scan.overlays(&[&self.map])[0];
            while let Some((key, known)) = entries.peek() {
                if page.len() >= max_entries {
                    return Ok(true);
                }
                page.push_known(key, known);
                entries.advance();
            }
            scan.next_group();
        }
        Ok(false)
    }

    fn snapshot(&mut self, checkpoint: CheckpointId) -> Result<Box<dyn SnapshotWork>, StateError> {
        if let Some(running) = self.running() {
            return Err(StateError::SnapshotRunning {
                running,
                asked: checkpoint,
            });
        }
        let token = Arc::new(());
        self.running = Some((checkpoint, token.clone()));
        Ok(Box::new(MemorySnapshot {
            header: SnapshotHeader {
                checkpoint,
                contents: Contents::All,
                max_parallelism: self.max,
                range: self.map.range(),
                states: self.table.stored(),
            },
            map: self.map.share(),
            _running: token,
        }))
    }

    fn restore(
        &mut self,
        parts: &mut [&mut dyn SnapshotSource],
        policy: RestorePolicy,
    ) -> Result<RestoreSummary, StateError> {
        let map = &mut self.map;
        let (range, max) = (map.range(), self.max);
        restore_parts(parts, &mut self.table, range, max, policy, |key, stored| {
            map.put(hash_of(key), key, Some(stored));
            Ok(())
        })
    }

    fn usage(&self) -> StateUsage {
        StateUsage {
            active_bytes: self.map.bytes(),
            // What the snapshot would still need if all else were dropped.
            frozen_bytes: self.running().map_or(0, |_| self.map.copied_bytes()),
            frozen_for: self.running(),
            ..StateUsage::default()
        }
    }
}

struct MemorySnapshot {
    header: SnapshotHeader,
    map: ShardedMap,
    _running: Arc<()>,
}

impl SnapshotWork for MemorySnapshot {
    fn checkpoint(&self) -> CheckpointId {
        self.header.checkpoint
    }

    fn run(
        self: Box<Self>,
        files: &mut dyn SnapshotFiles,
    ) -> Result<Vec<SnapshotSummary>, StateError> {
        let mut writer = SnapshotWriter::new(&self.header, files.begin(Sharing::Private))?;
        for (_, mut entries) in self.map.into_sorted_groups() {
            while let Some((key, known)) = entries.peek() {
                if let Known::Value(stored) = known {
                    writer.entry(key, stored)?;
                }
                entries.advance();
            }
        }
        let summary = writer.finish()?;
        files
            .finish(&summary)
            .map_err(|error| StateError::of_sink(error, summary.bytes))?;
        Ok(vec![summary])
    }
}
