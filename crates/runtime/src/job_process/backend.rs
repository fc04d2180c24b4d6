//! Backends of keyed state for the tasks of one slot.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use millstream_config::StateBackendKind;
use millstream_coordination::failure::{FailureInfo, FailureKind};
use millstream_env::StopSignal;
use millstream_state::{
    KeyedStateBackend, MemoryBackend, RestorePolicy, RestoreSummary, Scan, ScanPage,
    SnapshotSource, SnapshotWork, StateError, StateKeys, StateTable, StateUsage, ValueBuffer,
};
use millstream_types::{CheckpointId, KeyGroupRange, MaxParallelism};

use crate::failure;

/// Makes the backends of one slot, within its memory budget.
#[derive(Clone)]
pub(crate) struct Backends {
    kind: StateBackendKind,
    root: PathBuf,
    #[cfg(feature = "rocksdb")]
    memory: Option<Arc<millstream_state_rocksdb::RocksMemory>>,
}

impl Backends {
    /// `budget_bytes` are for the keyed state of `n_operators` operators, where it is in RocksDB.
    pub(crate) fn new(
        kind: StateBackendKind,
        root: PathBuf,
        budget_bytes: usize,
        n_operators: usize,
    ) -> Result<Self, FailureInfo> {
        #[cfg(feature = "rocksdb")]
        {
            let wants = kind == StateBackendKind::Rocksdb && n_operators > 0;
            let memory = wants
                .then(|| millstream_state_rocksdb::RocksMemory::new(budget_bytes, n_operators))
                .transpose()
                .map_err(|error| failure::of_state(FailureKind::Deployment, &error))?
                .map(Arc::new);
            Ok(Self { kind, root, memory })
        }
        #[cfg(not(feature = "rocksdb"))]
        {
            let _ = (budget_bytes, n_operators);
            Ok(Self { kind, root })
        }
    }

    /// An empty backend. `name` is unique to the attempt.
    pub(crate) fn create(
        &self,
        name: &str,
        table: StateTable,
        range: KeyGroupRange,
        max: MaxParallelism,
        stop: &StopSignal,
    ) -> Result<Box<dyn KeyedStateBackend>, FailureInfo> {
        match self.kind {
            StateBackendKind::Hashmap => Ok(Box::new(MemoryBackend::new(table, range, max))),
            StateBackendKind::Rocksdb => self.rocksdb(name, table, range, max, stop),
        }
    }

    #[cfg(feature = "rocksdb")]
    fn rocksdb(
        &self,
        name: &str,
        table: StateTable,
        range: KeyGroupRange,
        max: MaxParallelism,
        stop: &StopSignal,
    ) -> Result<Box<dyn KeyedStateBackend>, FailureInfo> {
        use millstream_state_rocksdb::{RocksBackend, StateDirectory};
        let of_error = |error: StateError| failure::of_state(FailureKind::Deployment, &error);
        let memory = self.memory.as_ref().ok_or_else(|| {
            let text = "the slot has no memory budget for keyed state";
            FailureInfo::new(FailureKind::Deployment, text)
        })?;
        let directory = StateDirectory::create(&self.root, name).map_err(of_error)?;
        let backend = RocksBackend::create(directory, table, range, max, memory);
        let inner: Box<dyn KeyedStateBackend> = Box::new(backend.map_err(of_error)?);
        Ok(Box::new(Patient {
            inner,
            stop: stop.clone(),
        }))
    }

    #[cfg(not(feature = "rocksdb"))]
    fn rocksdb(
        &self,
        _name: &str,
        _table: StateTable,
        _range: KeyGroupRange,
        _max: MaxParallelism,
        _stop: &StopSignal,
    ) -> Result<Box<dyn KeyedStateBackend>, FailureInfo> {
        let text = "this build has no RocksDB; set state.backend.type: hashmap, or build with the \
                    feature rocksdb";
        let _ = (&self.root, Arc::new(()));
        Err(FailureInfo::new(FailureKind::Deployment, text)
            .with_disposition(millstream_types::Disposition::FailJob))
    }
}

/// Waits where the dirty map is full while a snapshot holds the other one frozen: the task's
/// back-pressure towards its own snapshot (DESIGN 6). The backend counts how often.
struct Patient {
    inner: Box<dyn KeyedStateBackend>,
    stop: StopSignal,
}

impl KeyedStateBackend for Patient {
    fn table(&self) -> &StateTable {
        self.inner.table()
    }

    fn get(&mut self, keys: &StateKeys, values: &mut ValueBuffer) -> Result<(), StateError> {
        self.inner.get(keys, values)
    }

    fn put(&mut self, keys: &StateKeys, values: &ValueBuffer) -> Result<(), StateError> {
        loop {
            match self.inner.put(keys, values) {
                Err(StateError::Full { .. }) if !self.stop.is_cancelled() => {
                    std::thread::sleep(Duration::from_millis(1));
                }
                result => return result,
            }
        }
    }

    fn scan(
        &mut self,
        scan: &mut Scan,
        max_entries: usize,
        page: &mut ScanPage,
    ) -> Result<bool, StateError> {
        self.inner.scan(scan, max_entries, page)
    }

    fn snapshot(&mut self, checkpoint: CheckpointId) -> Result<Box<dyn SnapshotWork>, StateError> {
        self.inner.snapshot(checkpoint)
    }

    fn restore(
        &mut self,
        parts: &mut [&mut dyn SnapshotSource],
        policy: RestorePolicy,
    ) -> Result<RestoreSummary, StateError> {
        self.inner.restore(parts, policy)
    }

    fn usage(&self) -> StateUsage {
        self.inner.usage()
    }
}
