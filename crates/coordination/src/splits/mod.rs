//! Which reader reads which split (DESIGN 4).
//!
//! The machine lives in the enumerator task. Splits go down the `assign` edge in order with
//! barriers, so a split is in the enumerator's snapshot or in the reader's, never in both, never
//! in neither. Each is tagged with the last barrier sent before it: a reader that was reset to
//! checkpoint n gets back exactly its splits tagged n or later, whatever its own state holds.
//!
//! Invariants: a split is assigned once per lineage of its reader; a split seen again is no new
//! one; the end is told only when every split that was ever discovered is finished.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::fmt;
use std::sync::Arc;

use millstream_types::CheckpointId;

#[cfg(test)]
mod tests;

/// How many splits to be read by *any* reader one reader may hold: the one it reads, and one
/// ahead.
const HELD_MAX: u64 = 2;

/// Identity of a split, chosen by the source: a file with a byte range, a partition.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug, Hash)]
pub struct SplitId(pub Arc<str>);

impl fmt::Display for SplitId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.0)
    }
}

/// A part of a source's input.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Split {
    /// Its identity.
    pub id: SplitId,
    /// What the reader needs to read it, in the source's own encoding.
    pub payload: Arc<[u8]>,
    /// Who reads it.
    pub target: SplitTarget,
    /// It never ends: such splits are spread evenly, not one at a time.
    pub is_unbounded: bool,
}

/// Who reads a split.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum SplitTarget {
    /// Whoever has the least to do.
    Any,
    /// This reader, modulo their number.
    Reader(u32),
}

/// What an enumerator's snapshot holds of its assignment.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct AssignmentState {
    /// Every split that was ever seen.
    pub seen: BTreeSet<SplitId>,
    /// Those no reader has yet, in order.
    pub waiting: Vec<Split>,
    /// There will be no others.
    pub is_discovery_over: bool,
}

/// Something the machine is told.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Event {
    /// Splits were found; those seen before are ignored.
    Discovered(Vec<Split>),
    /// There are no others.
    DiscoveryOver,
    /// A barrier goes down the edge now: splits after it belong to later checkpoints.
    Barrier(CheckpointId),
    /// A checkpoint is complete: no reader is reset to an older one any more.
    Completed(CheckpointId),
    /// A reader's channel opened, for the first time or after a reset.
    Opened {
        /// Which.
        reader: u32,
        /// What it restored.
        restored: Option<CheckpointId>,
        /// How many unfinished splits that gave it.
        unfinished: u64,
    },
    /// How many splits a reader finished since its channel opened, in all: may come again or be
    /// skipped.
    Finished {
        /// Which.
        reader: u32,
        /// In all.
        total: u64,
    },
}

/// Something the shell does.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Action {
    /// Send a split down the edge, behind everything sent before.
    Assign {
        /// To whom.
        reader: u32,
        /// The split.
        split: Split,
    },
    /// Every split is finished: the enumerator ends, and its readers with it.
    End,
    /// A reader was reset to where this enumerator cannot follow: restart it, from its own
    /// snapshot, with all its readers.
    RestartEnumerator {
        /// Which reader.
        reader: u32,
        /// To what it was reset.
        restored: Option<CheckpointId>,
    },
}

#[derive(Clone, PartialEq, Eq, Debug, Default)]
struct Reader {
    is_open: bool,
    /// Unfinished when its channel opened, and sent since.
    received: u64,
    finished: u64,
    /// Sent since the newest completed checkpoint's barrier, with the barrier before each.
    sent: VecDeque<(CheckpointId, Split)>,
    /// Something was ever sent to it in this life of the enumerator.
    was_used: bool,
}

impl Reader {
    fn unfinished(&self) -> u64 {
        self.received.saturating_sub(self.finished)
    }
}

/// Assigns splits to readers.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SplitAssignment {
    readers: Vec<Reader>,
    seen: BTreeSet<SplitId>,
    waiting: VecDeque<Split>,
    is_discovery_over: bool,
    /// What the enumerator itself was restored from.
    restored: Option<CheckpointId>,
    last_barrier: CheckpointId,
    /// The newest completed checkpoint: tags below it are no longer kept.
    floor: CheckpointId,
    has_ended: bool,
}

impl SplitAssignment {
    /// For this many readers, without any split.
    ///
    /// # Panics
    /// If there is no reader.
    pub fn new(readers: u32) -> Self {
        Self::with(readers, AssignmentState::default(), None)
    }

    /// As it was at this checkpoint; the number of readers may be another.
    ///
    /// # Panics
    /// If there is no reader.
    pub fn restore(readers: u32, state: AssignmentState, checkpoint: CheckpointId) -> Self {
        Self::with(readers, state, Some(checkpoint))
    }

    fn with(readers: u32, state: AssignmentState, restored: Option<CheckpointId>) -> Self {
        assert!(readers > 0, "a source has at least one reader");
        let at = restored.unwrap_or_default();
        Self {
            readers: vec![Reader::default(); readers as usize],
            seen: state.seen,
            waiting: state.waiting.into(),
            is_discovery_over: state.is_discovery_over,
            restored,
            last_barrier: at,
            floor: at,
            has_ended: false,
        }
    }

    /// What belongs into a snapshot; to be taken when the barrier goes down the edge.
    pub fn snapshot(&self) -> AssignmentState {
        AssignmentState {
            seen: self.seen.clone(),
            waiting: self.waiting.iter().cloned().collect(),
            is_discovery_over: self.is_discovery_over,
        }
    }

    /// Takes an event; appends what is to be done.
    pub fn step(&mut self, event: Event, actions: &mut Vec<Action>) {
        match event {
            Event::Discovered(splits) => {
                for split in splits {
                    if self.seen.insert(split.id.clone()) {
                        self.waiting.push_back(split);
                    }
                }
            }
            Event::DiscoveryOver => self.is_discovery_over = true,
            Event::Barrier(id) => self.last_barrier = self.last_barrier.max(id),
            Event::Completed(id) => self.on_completed(id),
            Event::Opened {
                reader,
                restored,
                unfinished,
            } => self.on_opened(reader, restored, unfinished, actions),
            Event::Finished { reader, total } => {
                if let Some(reader) = self.readers.get_mut(reader as usize) {
                    reader.finished = reader.finished.max(total);
                }
            }
        }
        self.assign(actions);
        self.end(actions);
    }

    fn on_completed(&mut self, id: CheckpointId) {
        self.floor = self.floor.max(id);
        let floor = self.floor;
        for reader in &mut self.readers {
            reader.sent.retain(|(tag, _)| *tag >= floor);
        }
    }

    fn on_opened(
        &mut self,
        index: u32,
        restored: Option<CheckpointId>,
        unfinished: u64,
        actions: &mut Vec<Action>,
    ) {
        let floor = self.floor;
        let is_fresh = self.restored.is_none();
        let Some(reader) = self.readers.get_mut(index as usize) else {
            return;
        };
        let can_follow = match restored {
            Some(checkpoint) => checkpoint >= floor && !(is_fresh && floor == CheckpointId(0)),
            // A first start together with us; later, what it had is known to nobody.
            None => is_fresh && !reader.was_used,
        };
        if !can_follow {
            reader.is_open = false;
            actions.push(Action::RestartEnumerator {
                reader: index,
                restored,
            });
            return;
        }
        let back_to = restored.unwrap_or_default();
        let (returned, kept): (VecDeque<_>, VecDeque<_>) = std::mem::take(&mut reader.sent)
            .into_iter()
            .partition(|(tag, _)| *tag >= back_to);
        reader.sent = kept;
        reader.is_open = true;
        reader.received = unfinished;
        reader.finished = 0;
        // In their old order, before what was never assigned.
        for (_, split) in returned.into_iter().rev() {
            self.waiting.push_front(split);
        }
    }

    fn assign(&mut self, actions: &mut Vec<Action>) {
        let mut unassigned = VecDeque::new();
        for split in std::mem::take(&mut self.waiting) {
            match self.reader_for(&split) {
                Some(index) => self.send(index, split, actions),
                None => unassigned.push_back(split),
            }
        }
        self.waiting = unassigned;
    }

    fn reader_for(&self, split: &Split) -> Option<usize> {
        match split.target {
            SplitTarget::Reader(index) => {
                let index = index as usize % self.readers.len();
                self.readers[index].is_open.then_some(index)
            }
            SplitTarget::Any => {
                let open = self.readers.iter().enumerate().filter(|(_, r)| r.is_open);
                let (index, reader) = open.min_by_key(|(_, reader)| reader.unfinished())?;
                let has_room = split.is_unbounded || reader.unfinished() < HELD_MAX;
                has_room.then_some(index)
            }
        }
    }

    fn send(&mut self, index: usize, split: Split, actions: &mut Vec<Action>) {
        let reader = &mut self.readers[index];
        reader.received += 1;
        reader.was_used = true;
        reader.sent.push_back((self.last_barrier, split.clone()));
        actions.push(Action::Assign {
            reader: index as u32,
            split,
        });
    }

    fn end(&mut self, actions: &mut Vec<Action>) {
        let is_over = self.is_discovery_over
            && self.waiting.is_empty()
            && self
                .readers
                .iter()
                .all(|r| r.is_open && r.unfinished() == 0);
        if is_over && !std::mem::replace(&mut self.has_ended, true) {
            actions.push(Action::End);
        }
    }

    /// Unfinished splits of every reader whose channel is open.
    pub fn unfinished(&self) -> BTreeMap<u32, u64> {
        let open = self.readers.iter().enumerate().filter(|(_, r)| r.is_open);
        open.map(|(index, reader)| (index as u32, reader.unfinished()))
            .collect()
    }
}
