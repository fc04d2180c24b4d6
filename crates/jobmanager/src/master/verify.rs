//! Is everything there that a restore point names? Asked before any task starts (fence F21).
//!
//! The same question as `snapshot::metadata::verify`, whose future cannot be shown to be `Send`
//! (its stream borrows names under a lifetime that the compiler does not generalise) and therefore
//! cannot wait beside a master.

use std::collections::BTreeMap;

use futures::{StreamExt, TryStreamExt, stream};
use millstream_snapshot::metadata::{CheckpointMetadata, MetadataError};
use millstream_snapshot::{Mismatch, Store, StoreError};
use millstream_types::{ObjectName, StateHandle};

/// Every object exists and has its length. A store that does not answer is an error of its own and
/// no verdict.
pub(super) async fn verify(
    store: Store,
    metadata: &CheckpointMetadata,
) -> Result<(), MetadataError> {
    let objects: BTreeMap<ObjectName, u64> = metadata
        .handles()
        .filter_map(|handle| match handle {
            StateHandle::Object { name, size, .. } => Some((name.clone(), *size)),
            StateHandle::Inline(_) => None,
        })
        .collect();
    let n_objects = objects.len();
    let concurrency = store.policy().concurrency;
    let mut found = stream::iter(objects)
        .map(|(name, size)| look_up(store.clone(), name, size))
        .buffered(concurrency);
    let (mut n_bad, mut first) = (0, None);
    while let Some(bad) = found.try_next().await? {
        if let Some(error) = bad {
            n_bad += 1;
            first = first.or(Some(error));
        }
    }
    match first {
        None => Ok(()),
        Some(first) => Err(MetadataError::Objects {
            n_bad,
            n_objects,
            first: Box::new(first),
        }),
    }
}

/// What is wrong with the object, if anything.
async fn look_up(
    store: Store,
    name: ObjectName,
    size: u64,
) -> Result<Option<StoreError>, StoreError> {
    let object = || store.object(&name);
    Ok(match store.head(&name).await? {
        None => Some(StoreError::NotFound { object: object() }),
        Some(found) if found != size => Some(StoreError::Corrupt {
            object: object(),
            mismatch: Mismatch::Length {
                expected: size,
                found,
            },
        }),
        Some(_) => None,
    })
}
