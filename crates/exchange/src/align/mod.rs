//! Barrier alignment: when a subtask snapshots, and which channels wait for that (B3).
//!
//! One machine per subtask over all its input channels. Two modes: exactly-once blocks a channel
//! behind its barrier until all barriers are in; at-least-once never blocks and only counts. A
//! subtask without inputs (a source) is triggered instead.
//!
//! The machine has no deadline: aligned checkpoints time out at the jobmanager, which tells with
//! [`AlignEvent::AbortedByJobmanager`].

mod at_least_once;
mod exactly_once;
#[cfg(test)]
mod tests;

use std::collections::BTreeSet;
use std::time::Duration;

use millstream_types::{CheckpointId, MonoTime};

use crate::element::{Barrier, ChannelIndex};
use at_least_once::AtLeastOnce;
use exactly_once::ExactlyOnce;

/// Aborted checkpoints remembered until their barrier comes; the lowest goes first.
const ABORTED_REMEMBERED: usize = 64;
/// Decided checkpoints remembered to tell a late barrier from one that nobody answered for.
const SETTLED_REMEMBERED: usize = 64;

/// How barriers are treated.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum AlignMode {
    /// A channel waits behind its barrier.
    ExactlyOnce,
    /// No channel waits; rows behind an early barrier are in the snapshot and replayed as well.
    AtLeastOnce,
}

/// What the machine learns.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum AlignEvent {
    /// A barrier came to the head of a channel.
    Barrier {
        /// The channel.
        channel: ChannelIndex,
        /// The barrier.
        barrier: Barrier,
    },
    /// A checkpoint was given up upstream; overtakes the channel's line.
    Cancel {
        /// The channel.
        channel: ChannelIndex,
        /// The checkpoint.
        id: CheckpointId,
    },
    /// Nothing follows in the channel.
    EndOfPartition {
        /// The channel.
        channel: ChannelIndex,
    },
    /// The jobmanager triggers this subtask: a source, or one below finished subtasks only. With
    /// channels still open the snapshot waits until each has ended or brought the barrier.
    Trigger {
        /// The barrier to send.
        barrier: Barrier,
    },
    /// The jobmanager gave the checkpoint up.
    AbortedByJobmanager {
        /// The checkpoint.
        id: CheckpointId,
    },
    /// The snapshot was refused by the subtask itself after upstream barriers had been sent.
    SnapshotRefused {
        /// The checkpoint.
        id: CheckpointId,
        /// Why.
        reason: DeclineReason,
    },
}

/// Why a checkpoint is declined.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Hash)]
pub enum DeclineReason {
    /// A newer checkpoint took its place.
    Subsumed,
    /// It was given up upstream.
    OnCancellationBarrier,
    /// An input ended and checkpoints after that are switched off.
    InputEndOfStream,
    /// An operator of the chain is closed already.
    TaskClosing,
    /// The synchronous part failed or an operator refused.
    SnapshotFailed,
}

/// What alignment cost.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct AlignmentMetrics {
    /// Age of the checkpoint when its first barrier came here.
    pub start_delay: Duration,
    /// First barrier to last.
    pub alignment: Duration,
    /// Bytes taken in meanwhile from the channels whose barrier was still to come.
    pub bytes_processed: u64,
}

/// What the subtask does, in this order.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum AlignAction {
    /// Take no more from this channel: it fills up, and its sender feels it.
    Block(ChannelIndex),
    /// Take from these channels again. Idempotent.
    Unblock(Vec<ChannelIndex>),
    /// Send the barrier on and snapshot.
    Snapshot {
        /// The barrier.
        barrier: Barrier,
        /// What it cost to get here.
        metrics: AlignmentMetrics,
    },
    /// Tell the jobmanager that there will be no snapshot of this subtask.
    Decline {
        /// The checkpoint.
        id: CheckpointId,
        /// Why.
        reason: DeclineReason,
    },
    /// Tell all outputs not to wait for this checkpoint's barrier; overtakes their lines.
    ForwardCancel {
        /// The checkpoint.
        id: CheckpointId,
    },
    /// Log this.
    Log(AlignLog),
}

/// What is worth a line in the log; whoever writes it has the words.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum AlignLog {
    /// A barrier of `newer` came while `current` was not complete.
    NewerBarrier {
        /// The checkpoint that begins.
        newer: CheckpointId,
        /// The one given up.
        current: CheckpointId,
    },
    /// `newer` was cancelled while `current` was not complete.
    NewerCancelled {
        /// The cancelled checkpoint.
        newer: CheckpointId,
        /// The one given up with it.
        current: CheckpointId,
    },
    /// The checkpoint being aligned was cancelled.
    AbortingAlignment {
        /// The checkpoint.
        id: CheckpointId,
    },
    /// A checkpoint was cancelled before its first barrier came.
    SkippingAlignment {
        /// The checkpoint.
        id: CheckpointId,
    },
    /// The jobmanager gave a checkpoint up before its first barrier came.
    AbortedBefore {
        /// The checkpoint.
        id: CheckpointId,
    },
    /// A barrier that this subtask was done with.
    ObsoleteBarrier {
        /// Its checkpoint.
        id: CheckpointId,
        /// The newest checkpoint seen.
        current: CheckpointId,
    },
    /// A barrier from a channel that is unknown, ended, or had brought it before.
    UnexpectedBarrier {
        /// Its checkpoint.
        id: CheckpointId,
        /// The channel.
        channel: ChannelIndex,
    },
}

/// The alignment machine of one subtask.
#[derive(Clone, Debug)]
pub struct Alignment {
    machine: Machine,
}

#[derive(Clone, Debug)]
enum Machine {
    ExactlyOnce(ExactlyOnce),
    AtLeastOnce(AtLeastOnce),
}

impl Alignment {
    /// The machine of a subtask with this many input channels (all inputs together).
    /// `checkpoints_after_tasks_finish` says whether an ended channel counts as aligned.
    pub fn new(mode: AlignMode, n_channels: u32, checkpoints_after_tasks_finish: bool) -> Self {
        let common = Common {
            open: (0..n_channels).map(ChannelIndex).collect(),
            current: CheckpointId(0),
            aborted: BTreeSet::new(),
            settled: BTreeSet::new(),
            checkpoints_after_tasks_finish,
        };
        let machine = match mode {
            AlignMode::ExactlyOnce => Machine::ExactlyOnce(ExactlyOnce::new(common)),
            AlignMode::AtLeastOnce => Machine::AtLeastOnce(AtLeastOnce::new(common)),
        };
        Self { machine }
    }

    /// Takes one event.
    pub fn step(&mut self, now: MonoTime, event: AlignEvent, actions: &mut Vec<AlignAction>) {
        match &mut self.machine {
            Machine::ExactlyOnce(machine) => machine.step(now, event, actions),
            Machine::AtLeastOnce(machine) => machine.step(now, event, actions),
        }
    }

    /// Counts bytes taken from a channel, for the metric; called once a slice.
    pub fn count_consumed(&mut self, bytes: u64) {
        match &mut self.machine {
            Machine::ExactlyOnce(machine) => machine.count_consumed(bytes),
            Machine::AtLeastOnce(_) => {}
        }
    }

    /// The checkpoint being aligned, and the channels whose barrier is still to come: what a stalled
    /// alignment waits for.
    pub fn waiting_for(&self) -> Option<(Barrier, Vec<ChannelIndex>)> {
        match &self.machine {
            Machine::ExactlyOnce(machine) => machine.waiting_for(),
            Machine::AtLeastOnce(machine) => machine.waiting_for(),
        }
    }
}

/// What both modes remember.
#[derive(Clone, Debug)]
struct Common {
    open: BTreeSet<ChannelIndex>,
    /// The highest checkpoint decided or being aligned: lower barriers are late.
    current: CheckpointId,
    /// Aborted by the jobmanager before their barrier came here (B1.6).
    aborted: BTreeSet<CheckpointId>,
    /// The last checkpoints that were snapshotted, declined or aborted here.
    settled: BTreeSet<CheckpointId>,
    checkpoints_after_tasks_finish: bool,
}

impl Common {
    fn settle(&mut self, id: CheckpointId) {
        self.current = self.current.max(id);
        self.settled.insert(id);
        if self.settled.len() > SETTLED_REMEMBERED {
            self.settled.pop_first();
        }
        self.aborted.remove(&id);
    }

    fn decline(&mut self, id: CheckpointId, reason: DeclineReason, actions: &mut Vec<AlignAction>) {
        self.settle(id);
        actions.push(AlignAction::Decline { id, reason });
        actions.push(AlignAction::ForwardCancel { id });
    }

    fn remember_aborted(&mut self, id: CheckpointId) {
        self.aborted.insert(id);
        if self.aborted.len() > ABORTED_REMEMBERED {
            self.aborted.pop_first();
        }
    }

    /// Whether the jobmanager aborted this before it came here. Answered once.
    fn take_aborted(&mut self, id: CheckpointId) -> bool {
        let was_aborted = self.aborted.remove(&id);
        // Barriers come in order: lower ones that never came were given up upstream.
        self.aborted = self.aborted.split_off(&id);
        was_aborted
    }

    /// A barrier below the current checkpoint. Cancel markers overtake, so one for a newer
    /// checkpoint may have made this one late before anybody answered for it: then it is declined
    /// here, or the jobmanager would wait for it until it expires.
    fn on_obsolete(&mut self, id: CheckpointId, actions: &mut Vec<AlignAction>) {
        actions.push(AlignAction::Log(AlignLog::ObsoleteBarrier {
            id,
            current: self.current,
        }));
        let forgotten = self.settled.first().is_none_or(|lowest| id < *lowest);
        if !forgotten && !self.settled.contains(&id) {
            self.decline(id, DeclineReason::Subsumed, actions);
        }
    }
}
