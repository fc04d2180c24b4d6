//! Is everything there that a checkpoint consists of? Asked before any task starts (fence F21).

use std::collections::{BTreeMap, BTreeSet};

use futures::{StreamExt, TryStreamExt, stream};
use millstream_coordination::snapshot_types::{OperatorState, OperatorSubtaskState};
use millstream_types::{KeyGroup, KeyGroupRange, ObjectName, OperatorUid, StateHandle};

use super::{CheckpointMetadata, MetadataError, MetadataFault};
use crate::error::{Mismatch, StoreError};
use crate::store::Store;

/// Looks up every object that the metadata names: it exists and has its length. Checksums are
/// compared when the objects are read. A store that does not answer is an error of its own and no
/// verdict.
pub async fn verify(store: &Store, metadata: &CheckpointMetadata) -> Result<(), MetadataError> {
    let objects: BTreeMap<ObjectName, u64> = metadata
        .handles()
        .filter_map(|handle| match handle {
            StateHandle::Object { name, size, .. } => Some((name.clone(), *size)),
            StateHandle::Inline(_) => None,
        })
        .collect();
    let n_objects = objects.len();
    // Names and store are owned by each look-up, so that the whole may be sent between threads.
    let mut found = stream::iter(objects)
        .map(|(name, size)| look_up(store.clone(), name, size))
        .buffered(store.policy().concurrency);
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

/// No key group has two pieces of state, but for files of one subtask and range, which are one piece:
/// everything, and the changes behind it. Where an operator has keyed state at all, only groups of
/// finished subtasks may have none.
pub(super) fn check_key_groups(metadata: &CheckpointMetadata) -> Result<(), MetadataFault> {
    let mut operators = metadata.checkpoint.operators.iter();
    operators.try_for_each(|(uid, operator)| check_operator(uid, operator))
}

fn check_operator(uid: &OperatorUid, operator: &OperatorState) -> Result<(), MetadataFault> {
    let max = operator.max_parallelism;
    let of_subtask = |subtask: &OperatorSubtaskState| -> BTreeSet<KeyGroupRange> {
        subtask.keyed.iter().map(|keyed| keyed.range).collect()
    };
    let mut ranges: Vec<KeyGroupRange> = operator.subtasks.values().flat_map(of_subtask).collect();
    ranges.sort_unstable();
    let Some(highest) = ranges.iter().map(|range| range.last()).max() else {
        return Ok(());
    };
    if u32::from(highest.0) >= max.get() {
        return Err(MetadataFault::Field {
            message: "KeyedState",
            field: "last_key_group",
            what: format!("is {}, and {uid} has {max} key groups", highest.0),
        });
    }
    let may_lack = |group: KeyGroup| {
        let owner = millstream_types::subtask_of_key_group(group, operator.parallelism, max);
        operator
            .subtasks
            .get(&owner)
            .is_none_or(|subtask| subtask.finished)
    };
    // The group after the last that is covered.
    let mut next = 0;
    for range in ranges {
        let (first, last) = (u32::from(range.first().0), u32::from(range.last().0));
        if first < next {
            return Err(MetadataFault::Overlap {
                operator: uid.to_string(),
                group: range.first(),
            });
        }
        check_hole(uid, next..first, may_lack)?;
        next = last + 1;
    }
    check_hole(uid, next..max.get(), may_lack)
}

fn check_hole(
    uid: &OperatorUid,
    groups: std::ops::Range<u32>,
    may_lack: impl Fn(KeyGroup) -> bool,
) -> Result<(), MetadataFault> {
    // Key groups fit: they are below the max parallelism, 32768 at most.
    let missing = groups
        .map(|group| KeyGroup(group as u16))
        .find(|group| !may_lack(*group));
    match missing {
        None => Ok(()),
        Some(group) => Err(MetadataFault::Hole {
            operator: uid.to_string(),
            group,
        }),
    }
}
