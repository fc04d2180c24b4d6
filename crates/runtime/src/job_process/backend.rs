//! Backends of keyed state for the tasks of one slot.

use std::path::PathBuf;
#[cfg(feature = "rocksdb")]
use std::sync::Arc;

use millstream_config::StateBackendKind;
use millstream_coordination::failure::{FailureInfo, FailureKind};
use millstream_env::StopSignal;
use millstream_state::{KeyedStateBackend, MemoryBackend, StateTable};
use millstream_types::{KeyGroupRange, MaxParallelism};

/// Makes the backends of one slot, within its memory budget.
#[derive(Clone)]
pub(crate) struct Backends {
    kind: StateBackendKind,
    root: PathBuf,
    #[cfg(feature = "rocksdb")]
    form: millstream_state_rocksdb::SnapshotForm,
    #[cfg(feature = "rocksdb")]
    memory: Option<Arc<millstream_state_rocksdb::RocksMemory>>,
}

impl Backends {
    /// `budget_bytes` are for the keyed state of `n_operators` operators, where it is in RocksDB;
    /// `incremental` is whether its snapshots may be of changes alone.
    pub(crate) fn new(
        kind: StateBackendKind,
        incremental: bool,
        root: PathBuf,
        budget_bytes: usize,
        n_operators: usize,
    ) -> Result<Self, FailureInfo> {
        #[cfg(feature = "rocksdb")]
        {
            use millstream_state_rocksdb::SnapshotForm;

            use crate::failure;

            let form = match incremental {
                true => SnapshotForm::Incremental,
                false => SnapshotForm::Full,
            };
            let wants = kind == StateBackendKind::Rocksdb && n_operators > 0;
            let memory = wants
                .then(|| millstream_state_rocksdb::RocksMemory::new(budget_bytes, n_operators))
                .transpose()
                .map_err(|error| failure::of_state(FailureKind::Deployment, &error))?
                .map(Arc::new);
            Ok(Self {
                kind,
                root,
                form,
                memory,
            })
        }
        #[cfg(not(feature = "rocksdb"))]
        {
            let _ = (incremental, budget_bytes, n_operators);
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
        use millstream_state::StateError;
        use millstream_state_rocksdb::{RocksBackend, StateDirectory};

        use super::patient::Patient;
        use crate::failure;

        let of_error = |error: StateError| failure::of_state(FailureKind::Deployment, &error);
        let memory = self.memory.as_ref().ok_or_else(|| {
            let text = "the slot has no memory budget for keyed state";
            FailureInfo::new(FailureKind::Deployment, text)
        })?;
        let directory = StateDirectory::create(&self.root, name).map_err(of_error)?;
        let backend = RocksBackend::create(directory, table, range, max, memory, self.form);
        let inner: Box<dyn KeyedStateBackend> = Box::new(backend.map_err(of_error)?);
        Ok(Box::new(Patient::new(inner, stop.clone())))
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
        let _ = &self.root;
        Err(FailureInfo::new(FailureKind::Deployment, text)
            .with_disposition(millstream_types::Disposition::FailJob))
    }
}
