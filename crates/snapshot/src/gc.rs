//! Deleting what a job's owner decided against.
//!
//! Invariants: only names that were made for this purpose are deleted, by list, never by folder;
//! whoever calls has re-read its claim as tip, and knows that the uploader stopped or waited 60 s
//! (fence F10), or that the job ended for good; of shared objects only those that the caller names, or that an earlier epoch wrote and
//! nobody uses; files that an upload of an earlier epoch left half written. In doubt, leak: a sweep
//! finds it later.

use std::collections::BTreeSet;

use millstream_coordination::chain::EntryNumber;
use millstream_coordination::checkpoint::Deletion;
use millstream_types::{CheckpointId, Epoch, ObjectName};

use crate::error::StoreError;
use crate::names::{self, CheckpointDir, Named, Unfinished};
use crate::store::Store;

/// Names listed, and so deleted, by one request.
const PAGE: usize = 1_000;

/// What a deletion did.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Deleted {
    /// Objects that are gone now.
    pub n_objects: u64,
    /// Names that were asked for and are no checkpoint's: left alone.
    pub kept: Vec<ObjectName>,
}

/// Deletes the objects of one checkpoint in the directory of its job. Metadata goes last: as long
/// as it is there, what is left can be found. What is left half done is finished by the same call
/// made again.
pub async fn delete_checkpoint(
    job_store: &Store,
    deletion: &Deletion,
) -> Result<Deleted, StoreError> {
    let (mut state, mut metadata, mut kept) = (BTreeSet::new(), BTreeSet::new(), Vec::new());
    let mut sort = |name: ObjectName| match names::parse(&name) {
        Some(
            Named::Private(_)
            | Named::Shared(_)
            | Named::Unfinished(Unfinished::Checkpoint(_) | Unfinished::Shared(_)),
        ) => drop(state.insert(name)),
        Some(Named::Metadata(_)) => drop(metadata.insert(name)),
        Some(
            Named::Job | Named::Result | Named::Chain(_) | Named::Unfinished(Unfinished::Chain(_)),
        )
        | None => kept.push(name),
    };
    deletion.objects.iter().cloned().for_each(&mut sort);
    if deletion.sweep {
        let found = in_directories(job_store, deletion.checkpoint, deletion.epoch).await?;
        found.into_iter().for_each(&mut sort);
    }
    let in_order: Vec<ObjectName> = state.into_iter().chain(metadata).collect();
    job_store.delete(&in_order).await?;
    Ok(Deleted {
        n_objects: in_order.len() as u64,
        kept,
    })
}

/// All objects of the tries of one epoch at one checkpoint, whatever their nonces: those that
/// nobody told of too.
async fn in_directories(
    job_store: &Store,
    checkpoint: CheckpointId,
    epoch: Epoch,
) -> Result<Vec<ObjectName>, StoreError> {
    let folder = format!("chk-{checkpoint}");
    let (mut found, mut after) = (Vec::new(), None);
    loop {
        let page = job_store.list(&folder, after.as_ref(), PAGE).await?;
        let ours = page.names.iter().filter(|name| match names::parse(name) {
            Some(
                Named::Private(dir)
                | Named::Metadata(dir)
                | Named::Unfinished(Unfinished::Checkpoint(dir)),
            ) => dir.epoch == epoch,
            Some(_) | None => false,
        });
        found.extend(ours.cloned());
        after = page.next;
        if after.is_none() {
            return Ok(found);
        }
    }
}

/// Deletes what the epochs before this one left behind, but for the checkpoints that the chain
/// retains: tries that a crash ended, and checkpoints that an owner who died would have deleted.
/// Of shared objects those that are not in use; all stay where it is not known which are. The
/// number of objects that are gone.
pub async fn sweep(
    job_store: &Store,
    before: Epoch,
    retained: &BTreeSet<CheckpointId>,
    shared_in_use: Option<&BTreeSet<ObjectName>>,
) -> Result<u64, StoreError> {
    let (mut n_deleted, mut after) = (0, None);
    loop {
        let page = job_store.list("", after.as_ref(), PAGE).await?;
        let is_left_over = |name: &&ObjectName| match names::parse(name) {
            Some(Named::Private(dir) | Named::Metadata(dir)) => {
                dir.epoch < before && !retained.contains(&dir.checkpoint)
            }
            Some(Named::Unfinished(
                Unfinished::Checkpoint(CheckpointDir { epoch, .. }) | Unfinished::Shared(epoch),
            )) => epoch < before,
            Some(Named::Shared(epoch)) => {
                epoch < before && shared_in_use.is_some_and(|in_use| !in_use.contains(*name))
            }
            Some(_) | None => false,
        };
        let left_over: Vec<_> = page.names.iter().filter(is_left_over).cloned().collect();
        job_store.delete(&left_over).await?;
        n_deleted += left_over.len() as u64;
        after = page.next;
        if after.is_none() {
            return Ok(n_deleted);
        }
    }
}

/// Deletes the chain entries below a number that [`crate::chain::Boundary`] gave. What is left half
/// done is finished by the next call.
pub async fn prune_chain(job_store: &Store, below: EntryNumber) -> Result<u64, StoreError> {
    if below <= EntryNumber::FIRST {
        return Ok(0);
    }
    let mut n_deleted = 0;
    let mut after = None;
    loop {
        let page = job_store
            .list(names::CHAIN_FOLDER, after.as_ref(), PAGE)
            .await?;
        let pruned: Vec<ObjectName> = page
            .names
            .iter()
            .filter(|name| match names::parse(name) {
                Some(Named::Chain(number) | Named::Unfinished(Unfinished::Chain(number))) => {
                    number < below.0
                }
                Some(_) | None => false,
            })
            .cloned()
            .collect();
        job_store.delete(&pruned).await?;
        n_deleted += pruned.len() as u64;
        after = page.next;
        if after.is_none() {
            return Ok(n_deleted);
        }
    }
}

#[cfg(test)]
mod tests;
