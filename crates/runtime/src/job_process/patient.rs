//! A backend that waits for its own snapshot.

use std::time::Duration;

use millstream_env::StopSignal;
use millstream_state::{
    CheckpointFiles, KeyedStateBackend, RestorePolicy, RestoreSummary, Scan, ScanPage,
    SnapshotSource, SnapshotWork, StateError, StateKeys, StateTable, StateUsage, ValueBuffer,
};
use millstream_types::{CheckpointId, StateHandle};

/// Waits where the dirty map is full while a snapshot holds the other one frozen: the task's
/// back-pressure towards its own snapshot (DESIGN 6). The backend counts how often.
pub(super) struct Patient {
    inner: Box<dyn KeyedStateBackend>,
    stop: StopSignal,
}

impl Patient {
    pub(super) fn new(inner: Box<dyn KeyedStateBackend>, stop: StopSignal) -> Self {
        Self { inner, stop }
    }
}

impl CheckpointFiles for Patient {
    fn checkpoint_completed(&mut self, checkpoint: CheckpointId) {
        self.inner.checkpoint_completed(checkpoint);
    }

    fn adopt(&mut self, checkpoint: CheckpointId, files: &[StateHandle]) {
        self.inner.adopt(checkpoint, files);
    }
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
