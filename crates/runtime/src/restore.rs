//! From a checkpoint back to running operators: downloads, verified, before anything is opened.

use std::path::PathBuf;

use bytes::Bytes;
use millstream_coordination::failure::{FailureInfo, FailureKind};
use millstream_coordination::restore::RestoreSubtask;
use millstream_env::{Env, StopSignal, fail_points};
use millstream_operator::RestoredState;
use millstream_snapshot::Store;
use millstream_snapshot::download;
use millstream_state::{KeyedStateBackend, RestorePolicy, SnapshotSource};
use millstream_types::{OperatorUid, StateHandle};

use crate::failure;
use crate::snapshot::decode_elements;

/// State above this size goes through a file; smaller state is restored from memory.
const MEMORY_BYTES_MAX: u64 = 8 << 20;
/// And so is what one operator has of it beyond this.
const MEMORY_BYTES_TOTAL: u64 = 32 << 20;

/// What a task restores from.
pub(crate) struct Restorer<'a> {
    pub(crate) env: &'a Env,
    pub(crate) store: &'a Store,
    pub(crate) restore: &'a RestoreSubtask,
    /// Where downloads are kept while they are read, without names.
    pub(crate) state_dir: PathBuf,
    pub(crate) stop: StopSignal,
}

impl Restorer<'_> {
    /// Whether the checkpoint says that the whole task had finished.
    pub(crate) fn has_finished(restore: &RestoreSubtask) -> bool {
        !restore.operators.is_empty() && restore.operators.values().all(|state| state.finished)
    }

    /// Operator state of one operator.
    pub(crate) async fn operator_state(
        &self,
        uid: &OperatorUid,
    ) -> Result<RestoredState, FailureInfo> {
        let mut elements = Vec::new();
        let handles = self
            .restore
            .operators
            .get(uid)
            .map(|state| state.operator.as_slice());
        for handle in handles.unwrap_or_default() {
            let bytes = self.bytes(handle).await?;
            let decoded = decode_elements(&bytes).ok_or_else(|| {
                FailureInfo::new(
                    FailureKind::Restore,
                    format!(
                        "operator state of {uid} in checkpoint {} has an unknown form",
                        self.restore.checkpoint
                    ),
                )
            })?;
            elements.extend(decoded);
        }
        Ok(RestoredState {
            is_restored: true,
            elements,
        })
    }

    async fn bytes(&self, handle: &StateHandle) -> Result<Bytes, FailureInfo> {
        let source = download::to_memory(self.store, handle, &self.stop).await;
        Ok(source
            .map_err(|error| failure::of_download(&error.into()))?
            .0)
    }

    /// Keyed state of one operator, into its empty backend. Returns the backend.
    pub(crate) async fn keyed_state(
        &self,
        uid: &OperatorUid,
        mut backend: Box<dyn KeyedStateBackend>,
    ) -> Result<Box<dyn KeyedStateBackend>, FailureInfo> {
        let Some(state) = self.restore.operators.get(uid) else {
            return Ok(backend);
        };
        let mut sources: Vec<Box<dyn SnapshotSource>> = Vec::new();
        let mut room = MEMORY_BYTES_TOTAL;
        for keyed in &state.keyed {
            sources.push(self.source(&keyed.handle, &mut room).await?);
            self.env.fail_points().hit(fail_points::RESTORE);
        }
        if sources.is_empty() {
            return Ok(backend);
        }
        let mut parts: Vec<&mut dyn SnapshotSource> = sources
            .iter_mut()
            .map(|source| &mut **source as &mut dyn SnapshotSource)
            .collect();
        backend
            .restore(&mut parts, RestorePolicy::RequireAll)
            .map_err(|error| failure::of_state(FailureKind::Restore, &error))?;
        // What belongs to the restored checkpoint alone goes with it.
        let handles: Vec<_> = state.keyed.iter().map(|k| k.handle.clone()).collect();
        let is_shared = |handle: &StateHandle| handle.object().is_some_and(|name| name.is_shared());
        if handles.iter().all(is_shared) {
            backend.adopt(self.restore.checkpoint, &handles);
        }
        Ok(backend)
    }

    async fn source(
        &self,
        handle: &StateHandle,
        room: &mut u64,
    ) -> Result<Box<dyn SnapshotSource>, FailureInfo> {
        if handle.size() <= MEMORY_BYTES_MAX.min(*room) {
            *room -= handle.size();
            let source = download::to_memory(self.store, handle, &self.stop).await;
            let source = source.map_err(|error| failure::of_download(&error.into()))?;
            return Ok(Box::new(source));
        }
        let dir = &self.state_dir;
        let source = download::to_file(self.store, handle, dir, self.env, &self.stop).await;
        Ok(Box::new(
            source.map_err(|error| failure::of_download(&error))?,
        ))
    }
}
