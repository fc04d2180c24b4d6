//! The failures of a job, the newest sixteen and the one that began a loop.

use std::collections::VecDeque;

use crate::failure::{FailureRecord, Fingerprint};

/// How many failures a wave lists besides its root.
const CONCURRENT_MAX: usize = 64;

/// One wave of failures.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct HistoryEntry {
    /// What began it.
    pub root: FailureRecord,
    /// What else failed before the restart, in order of arrival; 64 at most.
    pub concurrent: Vec<FailureRecord>,
    /// How many more there were.
    pub concurrent_dropped: u32,
    /// Equal for waves with the same root cause.
    pub fingerprint: Fingerprint,
}

/// Ring of the newest root failures (`web.exception-history-size`) and a pinned first.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct FailureHistory {
    size: usize,
    newest: VecDeque<HistoryEntry>,
    first: Option<HistoryEntry>,
    repeated: u32,
}

impl FailureHistory {
    /// An empty history of this size, at least one.
    pub fn new(size: usize) -> Self {
        Self {
            size: size.max(1),
            newest: VecDeque::new(),
            first: None,
            repeated: 0,
        }
    }

    /// The history of a job whose only failure is this one.
    pub fn of_one(root: FailureRecord) -> Self {
        let mut history = Self::new(1);
        let fingerprint = root.failure.fingerprint(None);
        history.push(root, fingerprint);
        history
    }

    /// The newest waves, oldest first.
    pub fn entries(&self) -> impl DoubleEndedIterator<Item = &HistoryEntry> {
        self.newest.iter()
    }

    /// The first wave of those with the newest one's root cause, never evicted while it repeats.
    pub fn first_of_loop(&self) -> Option<&HistoryEntry> {
        self.first.as_ref()
    }

    /// How often the newest root cause occurred in a row.
    pub fn repeated(&self) -> u32 {
        self.repeated
    }

    pub(super) fn push(&mut self, root: FailureRecord, fingerprint: Fingerprint) {
        let entry = HistoryEntry {
            root,
            concurrent: Vec::new(),
            concurrent_dropped: 0,
            fingerprint,
        };
        let repeats = self
            .first
            .as_ref()
            .is_some_and(|first| first.fingerprint == entry.fingerprint);
        if repeats {
            self.repeated = self.repeated.saturating_add(1);
        } else {
            self.first = Some(entry.clone());
            self.repeated = 1;
        }
        if self.newest.len() == self.size {
            self.newest.pop_front();
        }
        self.newest.push_back(entry);
    }

    /// Attaches a failure to the newest wave.
    pub(super) fn attach(&mut self, record: FailureRecord) {
        let repeated = self.repeated;
        let pinned = self.first.as_mut().filter(|_| repeated == 1);
        for entry in self.newest.back_mut().into_iter().chain(pinned) {
            if entry.concurrent.len() < CONCURRENT_MAX {
                entry.concurrent.push(record.clone());
            } else {
                entry.concurrent_dropped = entry.concurrent_dropped.saturating_add(1);
            }
        }
    }
}
