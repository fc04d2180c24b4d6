//! Aligned exactly-once (B3.2-B3.8).

use std::collections::BTreeSet;

use millstream_types::{CheckpointId, MonoTime};

use super::{AlignAction, AlignEvent, AlignLog, AlignmentMetrics, Common, DeclineReason};
use crate::element::{Barrier, ChannelIndex};

/// The checkpoint whose barriers are coming in.
#[derive(Clone, Debug)]
struct Pending {
    barrier: Barrier,
    /// Channels open when the first barrier came, whose barrier is still to come.
    missing: BTreeSet<ChannelIndex>,
    blocked: BTreeSet<ChannelIndex>,
    started_at: MonoTime,
    metrics: AlignmentMetrics,
}

/// The machine of exactly-once mode.
#[derive(Clone, Debug)]
pub(super) struct ExactlyOnce {
    common: Common,
    pending: Option<Pending>,
}

impl ExactlyOnce {
    pub(super) fn new(common: Common) -> Self {
        Self {
            common,
            pending: None,
        }
    }

    pub(super) fn count_consumed(&mut self, bytes: u64) {
        if let Some(pending) = &mut self.pending {
            pending.metrics.bytes_processed += bytes;
        }
    }

    pub(super) fn waiting_for(&self) -> Option<(Barrier, Vec<ChannelIndex>)> {
        let pending = self.pending.as_ref()?;
        Some((pending.barrier, pending.missing.iter().copied().collect()))
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
        let is_pending = self
            .pending
            .as_ref()
            .is_some_and(|pending| pending.barrier.id == id);
        if !is_pending {
            if id <= self.common.current {
                self.common.on_obsolete(id, actions);
                actions.push(AlignAction::Unblock(vec![channel]));
                return;
            }
            if !self.begin(now, barrier, actions) {
                actions.push(AlignAction::Unblock(vec![channel]));
                return;
            }
        }
        let Some(pending) = &mut self.pending else {
            return;
        };
        if !pending.missing.remove(&channel) {
            actions.push(AlignAction::Log(AlignLog::UnexpectedBarrier {
                id,
                channel,
            }));
            return;
        }
        if pending.missing.is_empty() {
            self.complete(now, actions);
        } else {
            pending.blocked.insert(channel);
            actions.push(AlignAction::Block(channel));
        }
    }

    fn on_trigger(&mut self, now: MonoTime, barrier: Barrier, actions: &mut Vec<AlignAction>) {
        if barrier.id <= self.common.current {
            self.common.on_obsolete(barrier.id, actions);
            return;
        }
        if self.begin(now, barrier, actions) && self.common.open.is_empty() {
            self.complete(now, actions);
        }
    }

    /// Makes this the checkpoint being aligned; an older one gives way. False if the jobmanager gave
    /// it up already.
    fn begin(&mut self, now: MonoTime, barrier: Barrier, actions: &mut Vec<AlignAction>) -> bool {
        let newer = barrier.id;
        if let Some(older) = self.pending.take() {
            let current = older.barrier.id;
            actions.push(AlignAction::Log(AlignLog::NewerBarrier { newer, current }));
            self.common
                .decline(current, DeclineReason::Subsumed, actions);
            unblock(older.blocked, actions);
        }
        if self.common.take_aborted(newer) {
            self.common.settle(newer);
            actions.push(AlignAction::Log(AlignLog::AbortedBefore { id: newer }));
            actions.push(AlignAction::ForwardCancel { id: newer });
            return false;
        }
        self.common.current = newer;
        let start_delay = barrier.age_at(now);
        self.pending = Some(Pending {
            barrier,
            missing: self.common.open.clone(),
            blocked: BTreeSet::new(),
            started_at: now,
            metrics: AlignmentMetrics {
                start_delay,
                ..AlignmentMetrics::default()
            },
        });
        true
    }

    fn complete(&mut self, now: MonoTime, actions: &mut Vec<AlignAction>) {
        let Some(pending) = self.pending.take() else {
            return;
        };
        let alignment = now.saturating_since(pending.started_at);
        let metrics = AlignmentMetrics {
            alignment,
            ..pending.metrics
        };
        self.common.settle(pending.barrier.id);
        actions.push(AlignAction::Snapshot {
            barrier: pending.barrier,
            metrics,
        });
        unblock(pending.blocked, actions);
    }

    fn on_cancel(&mut self, id: CheckpointId, actions: &mut Vec<AlignAction>) {
        let pending_id = self.pending.as_ref().map(|pending| pending.barrier.id);
        let is_late =
            id < self.common.current || (id == self.common.current && pending_id != Some(id));
        if is_late {
            return;
        }
        let blocked = self
            .pending
            .take()
            .map(|pending| pending.blocked)
            .unwrap_or_default();
        match pending_id {
            Some(current) if current < id => {
                let log = AlignLog::NewerCancelled { newer: id, current };
                actions.push(AlignAction::Log(log));
                self.common
                    .decline(current, DeclineReason::Subsumed, actions);
            }
            Some(_) => actions.push(AlignAction::Log(AlignLog::AbortingAlignment { id })),
            None => actions.push(AlignAction::Log(AlignLog::SkippingAlignment { id })),
        }
        self.common
            .decline(id, DeclineReason::OnCancellationBarrier, actions);
        unblock(blocked, actions);
    }

    fn on_end(&mut self, now: MonoTime, channel: ChannelIndex, actions: &mut Vec<AlignAction>) {
        if !self.common.open.remove(&channel) {
            return;
        }
        let Some(pending) = &mut self.pending else {
            return;
        };
        if !self.common.checkpoints_after_tasks_finish {
            let id = pending.barrier.id;
            let blocked = std::mem::take(&mut pending.blocked);
            self.pending = None;
            self.common
                .decline(id, DeclineReason::InputEndOfStream, actions);
            unblock(blocked, actions);
        } else if pending.missing.remove(&channel) && pending.missing.is_empty() {
            self.complete(now, actions);
        }
    }

    fn on_aborted(&mut self, id: CheckpointId, actions: &mut Vec<AlignAction>) {
        if id > self.common.current {
            self.common.remember_aborted(id);
            return;
        }
        let Some(pending) = self.pending.take_if(|pending| pending.barrier.id == id) else {
            return;
        };
        // The jobmanager knows; whoever is downstream may still wait.
        self.common.settle(id);
        actions.push(AlignAction::Log(AlignLog::AbortingAlignment { id }));
        actions.push(AlignAction::ForwardCancel { id });
        unblock(pending.blocked, actions);
    }
}

fn unblock(blocked: BTreeSet<ChannelIndex>, actions: &mut Vec<AlignAction>) {
    if !blocked.is_empty() {
        actions.push(AlignAction::Unblock(blocked.into_iter().collect()));
    }
}
