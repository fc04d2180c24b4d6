//! `_metadata`: what one checkpoint consists of.
//!
//! Invariants: it is written last, once, and after everything it names; it names objects relative
//! to the directory it belongs to, so a moved directory restores (B12) and no file leads
//! out of it; what is read has passed every check that needs no other object, and
//! [`verify`] does the rest before any task starts (fence F21).

mod convert;
mod error;
mod file;
mod verify;

use std::collections::BTreeMap;

use bytes::Bytes;
use millstream_coordination::snapshot_types::{CompletedCheckpoint, StoredMetadata};
use millstream_types::{CheckpointId, Checksum, JobId, ObjectName, OperatorUid, StateHandle};

pub use error::{MetadataError, MetadataFault};
pub use file::{NEWEST_VERSION, decode, encode};
pub use verify::verify;

use crate::error::{Mismatch, StoreError};
use crate::names::CheckpointDir;
use crate::store::Store;

/// Longest metadata that is written or read. Large state is in objects of its own.
pub const METADATA_BYTES_MAX: u64 = 64 << 20;

/// All that is needed to restore a job from one checkpoint.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct CheckpointMetadata {
    /// The job that took it.
    pub job: JobId,
    /// What it consists of; names of objects are relative to the directory of the job.
    pub checkpoint: CompletedCheckpoint,
    /// What the operators were called, for people; one need not be here.
    pub operator_names: BTreeMap<OperatorUid, String>,
    /// Facts for people and tools.
    pub properties: BTreeMap<String, String>,
}

impl CheckpointMetadata {
    /// Every piece of state.
    pub fn handles(&self) -> impl Iterator<Item = &StateHandle> {
        let operators = self.checkpoint.operators.values();
        operators.flat_map(|operator| operator.subtasks.values().flat_map(|s| s.handles()))
    }

    /// Refuses the metadata of another job or of another checkpoint under this one's name.
    pub fn check_identity(
        &self,
        job: JobId,
        checkpoint: CheckpointId,
    ) -> Result<(), MetadataFault> {
        let differs = |what, expected: String, found: String| {
            Err(MetadataFault::Identity {
                what,
                expected,
                found,
            })
        };
        if self.job != job {
            return differs("job", job.to_string(), self.job.to_string());
        }
        let found = self.checkpoint.id;
        if found != checkpoint {
            return differs("checkpoint", checkpoint.to_string(), found.to_string());
        }
        Ok(())
    }
}

/// Stores metadata in a checkpoint's directory. All objects it names must be stored already.
pub async fn write(
    store: &Store,
    dir: &CheckpointDir,
    metadata: &CheckpointMetadata,
) -> Result<StoredMetadata, MetadataError> {
    let name = dir.metadata();
    let bytes = encode(metadata).map_err(|fault| MetadataError::Fault {
        object: store.object(&name),
        fault,
    })?;
    let (size, checksum) = (bytes.len() as u64, Checksum::of(&bytes));
    store.create(&name, Bytes::from(bytes)).await?;
    Ok(StoredMetadata {
        name,
        size,
        checksum,
    })
}

/// Reads metadata; with `expected`, the checksum that the claim chain has of it. A first wrong
/// read may be the link's fault and is repeated; nothing else is tried in its place.
pub async fn read(
    store: &Store,
    name: &ObjectName,
    expected: Option<Checksum>,
) -> Result<CheckpointMetadata, MetadataError> {
    match read_once(store, name, expected).await {
        Err(error) if error.may_be_the_link() => read_once(store, name, expected).await,
        done => done,
    }
}

async fn read_once(
    store: &Store,
    name: &ObjectName,
    expected: Option<Checksum>,
) -> Result<CheckpointMetadata, MetadataError> {
    let bytes = store.get(name, METADATA_BYTES_MAX).await?;
    let found = Checksum::of(&bytes);
    if let Some(expected) = expected.filter(|expected| *expected != found) {
        let mismatch = Mismatch::Checksum { expected, found };
        return Err(StoreError::Corrupt {
            object: store.object(name),
            mismatch,
        }
        .into());
    }
    decode(&bytes).map_err(|fault| MetadataError::Fault {
        object: store.object(name),
        fault,
    })
}

#[cfg(test)]
mod tests;
