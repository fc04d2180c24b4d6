//! The backend: three layers, the lowest of them a database.

use std::sync::Arc;

use millstream_state::format::{SnapshotHeader, SnapshotWriter};
use millstream_state::layers::{Freeze, Layers};
use millstream_state::{
    KeyedStateBackend, RestorePolicy, RestoreSummary, Scan, ScanPage, SnapshotSink, SnapshotSource,
    SnapshotSummary, SnapshotWork, StateError, StateKeys, StateTable, StateUsage, ValueBuffer,
    restore_parts,
};
use millstream_types::{CheckpointId, KeyGroupRange, MaxParallelism};

use crate::base::RocksBase;
use crate::ingest::Ingest;
use crate::{RocksMemory, StateDirectory};

/// Keyed state in RocksDB, below two dirty maps in memory.
///
/// The dirty maps take every write. They are drained into the database by the thread of a
/// snapshot; and, where checkpoints are rare or off, by the task itself, a key group at a time,
/// whenever the active map has used up its share and nothing is frozen: counted in
/// [`StateUsage::n_inline_drains`].
#[derive(Debug)]
pub struct RocksBackend {
    table: StateTable,
    max: MaxParallelism,
    layers: Layers<RocksBase>,
}

impl RocksBackend {
    /// Empty state for these key groups, in a new database that goes with the backend and with the
    /// last snapshot taken from it.
    pub fn create(
        directory: StateDirectory,
        table: StateTable,
        range: KeyGroupRange,
        max: MaxParallelism,
        memory: &RocksMemory,
    ) -> Result<Self, StateError> {
        let base = Arc::new(RocksBase::create(directory, table.len(), memory)?);
        Ok(Self {
            table,
            max,
            layers: Layers::new(base, range, memory.dirty_bytes_max()),
        })
    }
}

impl KeyedStateBackend for RocksBackend {
    fn table(&self) -> &StateTable {
        &self.table
    }

    fn get(&mut self, keys: &StateKeys, values: &mut ValueBuffer) -> Result<(), StateError> {
        self.layers.get(keys, values)
    }

    fn put(&mut self, keys: &StateKeys, values: &ValueBuffer) -> Result<(), StateError> {
        self.layers.put(keys, values)
    }

    fn scan(
        &mut self,
        scan: &mut Scan,
        max_entries: usize,
        page: &mut ScanPage,
    ) -> Result<bool, StateError> {
        self.layers.scan(scan, max_entries, page)
    }

    fn snapshot(&mut self, checkpoint: CheckpointId) -> Result<Box<dyn SnapshotWork>, StateError> {
        let freeze = self.layers.freeze(checkpoint)?;
        Ok(Box::new(RocksSnapshot {
            header: SnapshotHeader {
                checkpoint,
                max_parallelism: self.max,
                range: self.layers.range(),
                states: self.table.stored(),
            },
            base: self.layers.base().clone(),
            freeze,
        }))
    }

    fn restore(
        &mut self,
        parts: &mut [&mut dyn SnapshotSource],
        policy: RestorePolicy,
    ) -> Result<RestoreSummary, StateError> {
        let (range, max) = (self.layers.range(), self.max);
        let mut ingest = Ingest::new(self.layers.base())?;
        let summary = restore_parts(parts, &mut self.table, range, max, policy, |key, stored| {
            ingest.put(key, Some(stored))
        })?;
        ingest.finish()?;
        Ok(summary)
    }

    fn usage(&self) -> StateUsage {
        self.layers.usage()
    }
}

struct RocksSnapshot {
    header: SnapshotHeader,
    freeze: Freeze<RocksBase>,
    base: Arc<RocksBase>,
}

impl SnapshotWork for RocksSnapshot {
    fn checkpoint(&self) -> CheckpointId {
        self.header.checkpoint
    }

    fn run(self: Box<Self>, sink: &mut dyn SnapshotSink) -> Result<SnapshotSummary, StateError> {
        let Self {
            header,
            freeze,
            base,
        } = *self;
        // Nothing is flushed: the view covers write buffers too, and the file is made from the
        // view. The freeze is lifted before the upload, which may take minutes.
        let view = freeze.drain_and_lift(|_| Ok(base.db().snapshot()))?;
        let mut writer = SnapshotWriter::new(&header, sink)?;
        base.write_snapshot(&view, header.range, &mut writer)?;
        writer.finish()
    }
}
