//! What is kept of every checkpoint for people to look at (B1.12).

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use millstream_types::{Attempt, CheckpointId, Epoch, ObjectName, SubtaskId, WallTime};

use super::CheckpointKind;
use super::reason::FailureReason;
use crate::snapshot_types::CheckpointMetrics;

/// How far a checkpoint came.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Hash)]
pub enum CheckpointStatus {
    /// Under way.
    InProgress,
    /// On the chain.
    Completed,
    /// Given up.
    Failed,
    /// Never begun; it has no id.
    Refused,
}

/// What one subtask had to do with a checkpoint.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SubtaskRecord {
    /// Which execution was asked.
    pub attempt: Attempt,
    /// Its acknowledgement; none says that it never came.
    pub acknowledged: Option<AckRecord>,
    /// What it was doing when the checkpoint failed, where that is known.
    pub activity: Option<String>,
}

/// An acknowledgement.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct AckRecord {
    /// When it came.
    pub acknowledged_at: WallTime,
    /// Bytes of its state.
    pub state_bytes: u64,
    /// Those of them that no checkpoint before had.
    pub new_bytes: u64,
    /// Where its time went.
    pub metrics: CheckpointMetrics,
    /// It came after the checkpoint had been given up.
    pub is_late: bool,
}

/// Why and when a checkpoint failed.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct CheckpointFailure {
    /// When.
    pub failed_at: WallTime,
    /// Why.
    pub reason: FailureReason,
    /// In words, where there is more to say.
    pub message: String,
}

/// One row of the history.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct CheckpointRecord {
    /// Its id; none if it was refused.
    pub id: Option<CheckpointId>,
    /// The epoch that took it.
    pub epoch: Option<Epoch>,
    /// Why it was taken.
    pub kind: CheckpointKind,
    /// How far it came.
    pub status: CheckpointStatus,
    /// When it was triggered.
    pub triggered_at: WallTime,
    /// From the trigger to the entry on the chain.
    pub duration: Option<Duration>,
    /// From the last acknowledgement to the entry on the chain.
    pub finalization: Option<Duration>,
    /// Bytes of all state.
    pub state_bytes: Option<u64>,
    /// The metadata object.
    pub metadata: Option<ObjectName>,
    /// Its data was deleted since.
    pub is_discarded: bool,
    /// Why it failed or was refused.
    pub failure: Option<CheckpointFailure>,
    /// Every subtask that had to acknowledge.
    pub subtasks: BTreeMap<SubtaskId, SubtaskRecord>,
}

impl CheckpointRecord {
    /// How many acknowledged in time, of how many.
    pub fn acknowledged(&self) -> (usize, usize) {
        let in_time = |record: &&SubtaskRecord| record.acknowledged.is_some_and(|a| !a.is_late);
        let acknowledged = self.subtasks.values().filter(in_time).count();
        (acknowledged, self.subtasks.len())
    }
}

/// Sums over the life of the coordinator.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct CheckpointCounts {
    /// On the chain.
    pub completed: u64,
    /// Given up.
    pub failed: u64,
    /// Never begun.
    pub refused: u64,
}

/// A checkpoint that the job was restored from.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct RestoreRecord {
    /// Which one.
    pub id: CheckpointId,
    /// When the executions that go on from it were deployed.
    pub restored_at: WallTime,
}

/// Ring of the newest checkpoints (`web.checkpoints.history`), and the latest of each kind.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct CheckpointHistory {
    size: usize,
    records: VecDeque<CheckpointRecord>,
    latest_completed: Option<CheckpointRecord>,
    latest_failed: Option<CheckpointRecord>,
    latest_restored: Option<RestoreRecord>,
    counts: CheckpointCounts,
}

impl CheckpointHistory {
    /// Without rows; of those to come the newest `size` are kept.
    pub fn new(size: usize) -> Self {
        Self {
            size: size.max(1),
            records: VecDeque::new(),
            latest_completed: None,
            latest_failed: None,
            latest_restored: None,
            counts: CheckpointCounts::default(),
        }
    }

    /// The newest rows, oldest first.
    pub fn records(&self) -> impl DoubleEndedIterator<Item = &CheckpointRecord> {
        self.records.iter()
    }

    /// The row of this checkpoint.
    pub fn record(&self, id: CheckpointId) -> Option<&CheckpointRecord> {
        self.records.iter().find(|record| record.id == Some(id))
    }

    /// The newest completed one, also when it left the ring.
    pub fn latest_completed(&self) -> Option<&CheckpointRecord> {
        self.latest_completed.as_ref()
    }

    /// The newest failed one, also when it left the ring.
    pub fn latest_failed(&self) -> Option<&CheckpointRecord> {
        self.latest_failed.as_ref()
    }

    /// What the job was last restored from.
    pub fn latest_restored(&self) -> Option<RestoreRecord> {
        self.latest_restored
    }

    /// Sums.
    pub fn counts(&self) -> CheckpointCounts {
        self.counts
    }

    pub(super) fn begin(&mut self, record: CheckpointRecord) {
        if self.records.len() == self.size {
            self.records.pop_front();
        }
        self.records.push_back(record);
    }

    pub(super) fn refuse(&mut self, record: CheckpointRecord) {
        self.counts.refused += 1;
        self.begin(record);
    }

    pub(super) fn restored(&mut self, id: CheckpointId, restored_at: WallTime) {
        self.latest_restored = Some(RestoreRecord { id, restored_at });
    }

    pub(super) fn acknowledge(&mut self, id: CheckpointId, subtask: SubtaskId, ack: AckRecord) {
        self.update(id, |record| {
            if let Some(row) = record.subtasks.get_mut(&subtask)
                && row.acknowledged.is_none()
            {
                row.acknowledged = Some(ack);
            }
        });
    }

    pub(super) fn complete(
        &mut self,
        id: CheckpointId,
        finish: impl FnOnce(&mut CheckpointRecord),
    ) {
        self.counts.completed += 1;
        if let Some(record) = self.find(id) {
            finish(record);
            record.status = CheckpointStatus::Completed;
            self.latest_completed = Some(record.clone());
        }
    }

    pub(super) fn fail(
        &mut self,
        id: CheckpointId,
        failure: CheckpointFailure,
        activities: &BTreeMap<SubtaskId, String>,
    ) {
        self.counts.failed += 1;
        if let Some(record) = self.find(id) {
            record.status = CheckpointStatus::Failed;
            record.failure = Some(failure);
            for (subtask, row) in &mut record.subtasks {
                if row.acknowledged.is_none() {
                    row.activity = activities.get(subtask).cloned();
                }
            }
            self.latest_failed = Some(record.clone());
        }
    }

    pub(super) fn discard(&mut self, id: CheckpointId) {
        self.update(id, |record| record.is_discarded = true);
    }

    fn find(&mut self, id: CheckpointId) -> Option<&mut CheckpointRecord> {
        self.records.iter_mut().rev().find(|r| r.id == Some(id))
    }

    /// Also in the copies that are pinned beside the ring.
    fn update(&mut self, id: CheckpointId, change: impl Fn(&mut CheckpointRecord)) {
        let pinned = [&mut self.latest_completed, &mut self.latest_failed];
        let rows = self.records.iter_mut().chain(pinned.into_iter().flatten());
        for record in rows.filter(|record| record.id == Some(id)) {
            change(record);
        }
    }
}
