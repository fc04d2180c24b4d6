//! Which completed checkpoints are kept, and what is deleted of the others (B1.11,
//! DESIGN 7 "Deleting").

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use millstream_types::{CheckpointId, Epoch, MonoTime, ObjectName, StateHandle, SubtaskId};

use super::messages::{Action, Deletion, RetainedCheckpoint, SharedInUse};
use crate::snapshot_types::TaskSnapshot;

/// How long an uploader that says nothing is waited for before its objects are deleted.
const UPLOADER_PATIENCE: Duration = Duration::from_secs(60);

/// A checkpoint that was given up, while some of its tasks may still upload.
#[derive(Clone, PartialEq, Eq, Debug)]
struct GivenUp {
    epoch: Epoch,
    objects: BTreeSet<ObjectName>,
    uploading: BTreeSet<SubtaskId>,
    due: MonoTime,
}

/// Retained checkpoints and deletions under way.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Retention {
    num_retained: usize,
    retained: BTreeMap<CheckpointId, RetainedCheckpoint>,
    /// The shared objects that they refer to.
    referenced: BTreeSet<ObjectName>,
    given_up: BTreeMap<CheckpointId, GivenUp>,
    /// Given up, but perhaps on the chain all the same: nothing of them is ever deleted here.
    in_doubt: BTreeSet<CheckpointId>,
    /// Shared objects of forgotten checkpoints, with the newest checkpoint that may have been
    /// begun while they could be reused, and the one they came from.
    shared: BTreeMap<ObjectName, (CheckpointId, CheckpointId, Epoch)>,
    deleting: BTreeSet<u64>,
    next_ticket: u64,
}

impl Retention {
    pub(super) fn new(num_retained: usize) -> Self {
        Self {
            num_retained,
            retained: BTreeMap::new(),
            referenced: BTreeSet::new(),
            given_up: BTreeMap::new(),
            in_doubt: BTreeSet::new(),
            shared: BTreeMap::new(),
            deleting: BTreeSet::new(),
            next_ticket: 0,
        }
    }

    pub(super) fn retained(&self) -> impl DoubleEndedIterator<Item = &RetainedCheckpoint> {
        self.retained.values()
    }

    pub(super) fn contains(&self, id: CheckpointId) -> bool {
        self.retained.contains_key(&id)
    }

    /// In doubt, leak: the sweep knows more.
    pub(super) fn keep_in_doubt(&mut self, id: CheckpointId) {
        self.in_doubt.insert(id);
    }

    /// Whether what this checkpoint refers to must not be deleted.
    pub(super) fn must_keep(&self, id: CheckpointId) -> bool {
        self.contains(id) || self.in_doubt.contains(&id)
    }

    fn oldest(&self) -> Option<CheckpointId> {
        self.retained.keys().next().copied()
    }

    pub(super) fn latest(&self) -> Option<CheckpointId> {
        self.retained.keys().next_back().copied()
    }

    /// Deletions that were not answered yet.
    pub(super) fn in_flight(&self) -> usize {
        self.deleting.len()
    }

    pub(super) fn deadline(&self) -> MonoTime {
        let due = self.given_up.values().map(|given_up| given_up.due);
        due.min().unwrap_or(MonoTime::NEVER)
    }

    /// Keeps this checkpoint.
    pub(super) fn keep(&mut self, checkpoint: RetainedCheckpoint) {
        let objects = checkpoint.checkpoint.objects();
        let shared = objects.filter(|name| name.is_shared()).cloned();
        self.referenced.extend(shared);
        self.retained.insert(checkpoint.checkpoint.id, checkpoint);
    }

    /// Forgets the oldest beyond the number kept; `newest_begun` is the newest checkpoint begun so
    /// far. Returns what was forgotten.
    pub(super) fn forget_oldest(
        &mut self,
        newest_begun: CheckpointId,
        actions: &mut Vec<Action>,
    ) -> Vec<CheckpointId> {
        let mut forgotten = Vec::new();
        while self.retained.len() > self.num_retained {
            let Some((id, old)) = self.retained.pop_first() else {
                break;
            };
            let epoch = old.checkpoint.epoch;
            let (shared, private): (Vec<_>, Vec<_>) = old
                .checkpoint
                .objects()
                .cloned()
                .partition(ObjectName::is_shared);
            for name in shared {
                self.shared.insert(name, (newest_begun, id, epoch));
            }
            let objects = private.into_iter().chain([old.metadata]).collect();
            self.delete(id, epoch, objects, true, actions);
            forgotten.push(id);
        }
        if let (true, Some(oldest)) = (self.retained.len() == self.num_retained, self.oldest()) {
            // Even if they are on the chain, these are not retained any more.
            self.in_doubt = self.in_doubt.split_off(&oldest);
        }
        if !forgotten.is_empty() {
            let retained = self.retained.values();
            let objects = retained.flat_map(|retained| retained.checkpoint.objects());
            self.referenced = objects.filter(|name| name.is_shared()).cloned().collect();
        }
        forgotten
    }

    /// Whether an object of a checkpoint that will never be on the chain is its alone. A shared one
    /// is, unless it was reused: only files of completed checkpoints are.
    fn is_its_own(&self, name: &ObjectName) -> bool {
        !(self.shared.contains_key(name) || self.referenced.contains(name))
    }

    /// Bytes of a snapshot that are in no checkpoint before it.
    pub(super) fn new_bytes(&self, snapshot: &TaskSnapshot) -> u64 {
        let is_new = |handle: &&StateHandle| {
            let object = handle.object();
            object.is_none_or(|name| self.is_its_own(name))
        };
        let new = snapshot.handles().filter(is_new);
        new.map(StateHandle::size).sum()
    }

    /// The shared objects that some checkpoint refers to or may refer to, and the checkpoints of
    /// which that is known. None while it is in doubt.
    pub(super) fn shared_in_use(&self) -> Option<SharedInUse> {
        if !self.in_doubt.is_empty() {
            return None;
        }
        let objects = self.referenced.iter().chain(self.shared.keys());
        Some(SharedInUse {
            checkpoints: self.retained.keys().copied().collect(),
            objects: objects.cloned().collect(),
        })
    }

    /// A checkpoint that will never be on the chain. What it reused stays.
    pub(super) fn give_up(
        &mut self,
        now: MonoTime,
        id: CheckpointId,
        epoch: Epoch,
        objects: BTreeSet<ObjectName>,
        uploading: BTreeSet<SubtaskId>,
    ) {
        let given_up = GivenUp {
            epoch,
            objects: objects
                .into_iter()
                .filter(|name| self.is_its_own(name))
                .collect(),
            uploading,
            due: now + UPLOADER_PATIENCE,
        };
        self.given_up.insert(id, given_up);
    }

    /// This subtask uploads nothing more for that checkpoint.
    pub(super) fn on_upload_stopped(&mut self, id: CheckpointId, subtask: SubtaskId) {
        if let Some(given_up) = self.given_up.get_mut(&id) {
            given_up.uploading.remove(&subtask);
        }
    }

    /// Objects of an acknowledgement that no checkpoint took, but for those that it reused.
    pub(super) fn discard<'a>(
        &mut self,
        id: CheckpointId,
        epoch: Epoch,
        objects: impl Iterator<Item = &'a ObjectName>,
        actions: &mut Vec<Action>,
    ) {
        let own: Vec<_> = objects
            .filter(|name| self.is_its_own(name))
            .cloned()
            .collect();
        if !own.is_empty() {
            self.delete(id, epoch, own, false, actions);
        }
    }

    pub(super) fn on_deleted(&mut self, ticket: u64) {
        self.deleting.remove(&ticket);
    }

    /// Deletes what has become deletable; `oldest_pending` is the oldest checkpoint still open.
    pub(super) fn proceed(
        &mut self,
        now: MonoTime,
        oldest_pending: Option<CheckpointId>,
        actions: &mut Vec<Action>,
    ) {
        let is_due = |given_up: &GivenUp| given_up.uploading.is_empty() || given_up.due <= now;
        let due: Vec<_> = self
            .given_up
            .iter()
            .filter(|(_, given_up)| is_due(given_up))
            .map(|(id, _)| *id)
            .collect();
        for id in due {
            if let Some(GivenUp { epoch, objects, .. }) = self.given_up.remove(&id) {
                self.delete(id, epoch, objects.into_iter().collect(), true, actions);
            }
        }
        self.release_shared(oldest_pending, actions);
    }

    /// A shared object goes when no retained checkpoint refers to it and every checkpoint that
    /// could have reused its handle is over.
    fn release_shared(&mut self, oldest_pending: Option<CheckpointId>, actions: &mut Vec<Action>) {
        // One that may be on the chain after all refers to nobody knows what.
        if !self.in_doubt.is_empty() {
            return;
        }
        let mut unreachable: BTreeMap<(CheckpointId, Epoch), Vec<ObjectName>> = BTreeMap::new();
        let referenced = &self.referenced;
        self.shared.retain(|name, (newest_begun, from, epoch)| {
            let may_be_reused = oldest_pending.is_some_and(|oldest| oldest <= *newest_begun);
            if referenced.contains(name) {
                // It goes with the last checkpoint that refers to it.
                return false;
            }
            if !may_be_reused {
                unreachable
                    .entry((*from, *epoch))
                    .or_default()
                    .push(name.clone());
            }
            may_be_reused
        });
        for ((id, epoch), objects) in unreachable {
            self.delete(id, epoch, objects, false, actions);
        }
    }

    fn delete(
        &mut self,
        checkpoint: CheckpointId,
        epoch: Epoch,
        objects: Vec<ObjectName>,
        sweep: bool,
        actions: &mut Vec<Action>,
    ) {
        let ticket = self.next_ticket;
        self.next_ticket += 1;
        self.deleting.insert(ticket);
        actions.push(Action::Delete(Deletion {
            ticket,
            checkpoint,
            epoch,
            objects,
            sweep,
        }));
    }
}
