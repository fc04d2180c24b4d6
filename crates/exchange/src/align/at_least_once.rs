//! The at-least-once tracker (B3.9): counts, never blocks.

use std::collections::{BTreeMap, BTreeSet};

use millstream_types::{CheckpointId, MonoTime};

use super::{AlignAction, AlignEvent, AlignLog, AlignmentMetrics, Common, DeclineReason};
use crate::element::{Barrier, ChannelIndex};

/// Checkpoints counted at the same time; the oldest gives way.
const TRACKED: usize = 50;

#[derive(Clone, Debug)]
struct Tracked {
    barrier: Barrier,
    missing: BTreeSet<ChannelIndex>,
    started_at: MonoTime,
    metrics: AlignmentMetrics,
}

/// The machine of at-least-once mode.
#[derive(Clone, Debug)]
pub(super) struct AtLeastOnce {
    common: Common,
    tracked: BTreeMap<CheckpointId, Tracked>,
}

impl AtLeastOnce {
    pub(super) fn new(common: Common) -> Self {
        Self {
            common,
            tracked: BTreeMap::new(),
        }
    }

    pub(super) fn waiting_for(&self) -> Option<(Barrier, Vec<ChannelIndex>)> {
        let tracked = self.tracked.values().next()?;
        Some((tracked.barrier, tracked.missing.iter().copied().collect()))
    }

    pub(super) fn step(
        &mut self,
        now: MonoTime,
        event: AlignEvent,
        actions: &mut Vec<AlignAction>,
    ) {
        match event {
            AlignEvent::Barrier { channel, barrier } => {
                self.on_barrier(now, channel, barrier, actions);
            }
            AlignEvent::Cancel { channel, id } => {
                if self.common.open.contains(&channel) {
                    self.on_cancel(id, actions);
                }
            }
            AlignEvent::EndOfPartition { channel } => self.on_end(now, channel, actions),
            AlignEvent::Trigger { barrier } => self.on_trigger(now, barrier, actions),
            AlignEvent::AbortedByJobmanager { id } => self.on_aborted(id, actions),
            AlignEvent::SnapshotRefused { id, reason } => self.common.decline(id, reason, actions),
        }
    }

    fn on_barrier(
        &mut self,
        now: MonoTime,
        channel: ChannelIndex,
        barrier: Barrier,
        actions: &mut Vec<AlignAction>,
    ) {
        let id = barrier.id;
        if !self.common.open.contains(&channel) {
            actions.push(AlignAction::Log(AlignLog::UnexpectedBarrier {
                id,
                channel,
            }));
            return;
        }
        if self.common.settled.contains(&id) || self.is_behind(id) {
            // Also what is left of an aborted one: counting on serves nobody, it is settled.
            let log = AlignLog::ObsoleteBarrier {
                id,
                current: self.common.current,
            };
            actions.push(AlignAction::Log(log));
            return;
        }
        if !self.tracked.contains_key(&id) && !self.track(now, barrier, actions) {
            return;
        }
        let Some(tracked) = self.tracked.get_mut(&id) else {
            return;
        };
        if !tracked.missing.remove(&channel) {
            actions.push(AlignAction::Log(AlignLog::UnexpectedBarrier {
                id,
                channel,
            }));
        } else if tracked.missing.is_empty() {
            self.complete(now, id, actions);
        }
    }

    fn on_trigger(&mut self, now: MonoTime, barrier: Barrier, actions: &mut Vec<AlignAction>) {
        let id = barrier.id;
        let is_known = self.tracked.contains_key(&id) || self.common.settled.contains(&id);
        if is_known || self.is_behind(id) {
            let log = AlignLog::ObsoleteBarrier {
                id,
                current: self.common.current,
            };
            actions.push(AlignAction::Log(log));
        } else if self.track(now, barrier, actions) && self.common.open.is_empty() {
            self.complete(now, id, actions);
        }
    }

    /// Whether a newer checkpoint was snapshotted, or this one fell out of the window.
    fn is_behind(&self, id: CheckpointId) -> bool {
        id <= self.common.current && !self.tracked.contains_key(&id)
    }

    /// Starts to count; false if the jobmanager gave the checkpoint up already.
    fn track(&mut self, now: MonoTime, barrier: Barrier, actions: &mut Vec<AlignAction>) -> bool {
        let id = barrier.id;
        // Several are counted at a time: one below may still come first on another channel, and is
        // asked for then.
        if self.common.aborted.remove(&id) {
            self.forget(id);
            actions.push(AlignAction::Log(AlignLog::AbortedBefore { id }));
            actions.push(AlignAction::ForwardCancel { id });
            return false;
        }
        let start_delay = barrier.age_at(now);
        let missing = self.common.open.clone();
        let metrics = AlignmentMetrics {
            start_delay,
            ..AlignmentMetrics::default()
        };
        self.tracked.insert(
            id,
            Tracked {
                barrier,
                missing,
                started_at: now,
                metrics,
            },
        );
        if self.tracked.len() > TRACKED
            && let Some((oldest, _)) = self.tracked.pop_first()
        {
            self.give_up(oldest, DeclineReason::Subsumed, actions);
            return oldest != id;
        }
        true
    }

    /// Snapshots; older checkpoints cannot be of use any more.
    fn complete(&mut self, now: MonoTime, id: CheckpointId, actions: &mut Vec<AlignAction>) {
        let Some(done) = self.tracked.remove(&id) else {
            return;
        };
        self.drop_older(id, actions);
        self.common.settle(id);
        let alignment = now.saturating_since(done.started_at);
        let metrics = AlignmentMetrics {
            alignment,
            ..done.metrics
        };
        actions.push(AlignAction::Snapshot {
            barrier: done.barrier,
            metrics,
        });
    }

    fn drop_older(&mut self, than: CheckpointId, actions: &mut Vec<AlignAction>) {
        while let Some(oldest) = self
            .tracked
            .first_entry()
            .filter(|entry| *entry.key() < than)
        {
            let older = *oldest.key();
            oldest.remove();
            self.give_up(older, DeclineReason::Subsumed, actions);
        }
    }

    fn on_cancel(&mut self, id: CheckpointId, actions: &mut Vec<AlignAction>) {
        if self.common.settled.contains(&id) || self.is_behind(id) {
            return;
        }
        self.drop_older(id, actions);
        let log = match self.tracked.remove(&id) {
            Some(_) => AlignLog::AbortingAlignment { id },
            None => AlignLog::SkippingAlignment { id },
        };
        actions.push(AlignAction::Log(log));
        self.give_up(id, DeclineReason::OnCancellationBarrier, actions);
    }

    fn on_end(&mut self, now: MonoTime, channel: ChannelIndex, actions: &mut Vec<AlignAction>) {
        if !self.common.open.remove(&channel) {
            return;
        }
        if !self.common.checkpoints_after_tasks_finish {
            while let Some((id, _)) = self.tracked.pop_first() {
                self.give_up(id, DeclineReason::InputEndOfStream, actions);
            }
            return;
        }
        for tracked in self.tracked.values_mut() {
            tracked.missing.remove(&channel);
        }
        let newest_first = self.tracked.iter().rev();
        let complete = newest_first
            .filter(|(_, tracked)| tracked.missing.is_empty())
            .map(|(id, _)| *id);
        if let Some(id) = complete.take(1).next() {
            self.complete(now, id, actions);
        }
    }

    fn on_aborted(&mut self, id: CheckpointId, actions: &mut Vec<AlignAction>) {
        if self.tracked.remove(&id).is_some() {
            self.forget(id);
            actions.push(AlignAction::Log(AlignLog::AbortingAlignment { id }));
            actions.push(AlignAction::ForwardCancel { id });
        } else if !self.common.settled.contains(&id) && !self.is_behind(id) {
            self.common.remember_aborted(id);
        }
    }

    fn give_up(&mut self, id: CheckpointId, reason: DeclineReason, actions: &mut Vec<AlignAction>) {
        self.forget(id);
        actions.push(AlignAction::Decline { id, reason });
        actions.push(AlignAction::ForwardCancel { id });
    }

    /// Settles one checkpoint and no other: older ones may still complete.
    fn forget(&mut self, id: CheckpointId) {
        let current = self.common.current;
        self.common.settle(id);
        self.common.current = current;
    }
}
