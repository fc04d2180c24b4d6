//! Results that do not leave with the rows that caused them.

use std::time::Duration;

use hashbrown::HashTable;
use millstream_operator::{Context, OperatorError, Progress};
use millstream_state::{Scan, ScanPage, ScanRange};
use millstream_types::{KeyGroupRange, MonoTime};

use super::{Aggregate, STATE, state_error};

/// Keys per page of results.
const PAGE: usize = 4_096;

/// Keys whose results changed since they last left.
#[derive(Default)]
pub(super) struct Dirty {
    keys: Vec<u8>,
    ends: Vec<usize>,
    hashes: Vec<u64>,
    index: HashTable<u32>,
    is_scheduled: bool,
}

impl Dirty {
    fn key(&self, position: usize) -> &[u8] {
        let start = position
            .checked_sub(1)
            .map_or(0, |before| self.ends[before]);
        &self.keys[start..self.ends[position]]
    }

    pub(super) fn insert(&mut self, key: &[u8], hash: u64) {
        if self
            .index
            .find(hash, |known| self.key(*known as usize) == key)
            .is_some()
        {
            return;
        }
        let position = self.ends.len() as u32;
        self.keys.extend_from_slice(key);
        self.ends.push(self.keys.len());
        self.hashes.push(hash);
        let hashes = &self.hashes;
        self.index
            .insert_unique(hash, position, |known| hashes[*known as usize]);
    }

    /// Asks to be woken when the interval ends, unless that was done.
    pub(super) fn schedule(&mut self, interval: Duration, ctx: &mut Context<'_>) {
        if !self.is_scheduled && !self.ends.is_empty() {
            self.is_scheduled = true;
            let at = ctx.now + interval;
            ctx.wake_at(at);
        }
    }

    fn clear(&mut self) {
        self.keys.clear();
        self.ends.clear();
        self.hashes.clear();
        self.index.clear();
        self.is_scheduled = false;
    }
}

/// Going over all keys when the input has ended.
pub(super) struct EndScan {
    scan: Option<Scan>,
    page: ScanPage,
}

impl EndScan {
    pub(super) fn new() -> Self {
        Self {
            scan: None,
            page: ScanPage::new(),
        }
    }
}

impl Aggregate {
    /// Emits the current results of all dirty keys, in the order in which they became so.
    pub(super) fn emit_dirty(&mut self, ctx: &mut Context<'_>) -> Result<(), OperatorError> {
        let dirty = std::mem::take(&mut self.dirty);
        for start in (0..dirty.ends.len()).step_by(PAGE) {
            let positions = start..(start + PAGE).min(dirty.ends.len());
            let keys = positions
                .clone()
                .map(|at| (dirty.key(at), dirty.hashes[at]));
            let max = ctx.info.max_parallelism;
            self.scratch.state_keys.clear();
            self.scratch
                .state_keys
                .extend(STATE, max, keys, &[])
                .map_err(state_error)?;
            ctx.keyed()?
                .get(&self.scratch.state_keys, &mut self.scratch.values)
                .map_err(state_error)?;
            self.load_values()?;
            self.emit_loaded(positions.map(|at| dirty.key(at)), ctx)?;
        }
        self.dirty = dirty;
        self.dirty.clear();
        ctx.wake_at(MonoTime::NEVER);
        Ok(())
    }

    /// Emits the next page of final results.
    pub(super) fn emit_more_at_end(
        &mut self,
        ctx: &mut Context<'_>,
    ) -> Result<Progress, OperatorError> {
        let Some(mut end) = self.end.take() else {
            return Ok(Progress::Done);
        };
        let info = ctx.info;
        let scan = end.scan.get_or_insert_with(|| {
            let (index, parallelism) = (info.subtask_index, info.parallelism);
            let groups = KeyGroupRange::of_subtask(index, parallelism, info.max_parallelism);
            Scan::new(ScanRange::state(STATE, groups))
        });
        let has_more = ctx
            .keyed()?
            .scan(scan, PAGE, &mut end.page)
            .map_err(state_error)?;
        self.scratch.values.clear();
        for at in 0..end.page.len() {
            self.scratch
                .values
                .push_stored(Some(end.page.stored_value(at)));
        }
        self.load_values()?;
        if !end.page.is_empty() {
            self.emit_loaded(end.page.iter().map(|(parts, _)| parts.key), ctx)?;
        }
        if has_more {
            self.end = Some(end);
            return Ok(Progress::More);
        }
        Ok(Progress::Done)
    }
}
