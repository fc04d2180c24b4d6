//! Three layers of working state: an active dirty map, at most one frozen one, and a base that is
//! written by draining only. What was drained last stays in memory as long as there is room: a key
//! that changes in every interval is read from the base once, and not after every checkpoint.
//!
//! Reads and scans see the newest layer that knows a key, tombstones included. A snapshot freezes
//! the active map, which takes the same time whatever it holds; the snapshot's thread drains it
//! into the base, takes its view of the base, and lifts the freeze. What is written after the
//! freeze cannot reach the base before that, so the view holds exactly what the barrier saw.
//!
//! Both maps together have two shares of memory; what they leave is for the map that was drained.
//! When the active map has used up its share: during a freeze a put is refused with
//! [`StateError::Full`]. Without one the put itself drains key groups, in turn, until there is room
//! for what it brings: what goes in pays for what goes out, and no put stops for a whole map.
//! A freeze that is dropped unlifted leaves its map readable, and the next access drains it.

mod drain;
#[cfg(test)]
mod tests;

use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};

use millstream_types::{CheckpointId, KeyGroup, KeyGroupRange};

pub use drain::DirtyMap;

use crate::map::{Known, SortedEntries};
use crate::{Scan, ScanPage, ShardedMap, StateError, StateKeys, StateUsage, ValueBuffer};

/// The lowest layer. Shared by the task and the thread of a snapshot.
pub trait Base: Send + Sync {
    /// Fills `values`, one place a key.
    fn get(&self, keys: &StateKeys, values: &mut ValueBuffer) -> Result<(), StateError>;

    /// Replaces `page` by up to `max_entries` entries whose keys start with `prefix` and are above
    /// `after`, in key order. Returns whether there may be more.
    fn scan(
        &self,
        prefix: &[u8],
        after: &[u8],
        max_entries: usize,
        page: &mut ScanPage,
    ) -> Result<bool, StateError>;

    /// Writes entries, given in key order, and deletes where there is no value; all or nothing.
    fn write(&self, keys: &StateKeys, values: &ValueBuffer) -> Result<(), StateError>;

    /// Takes over a dirty map, or a part of it. Doing it twice is the same as doing it once, so that a part of
    /// it may be written when it fails.
    fn take_over(&self, map: &DirtyMap<'_>) -> Result<(), StateError>
    where
        Self: Sized,
    {
        map.write_to(self)
    }
}

const DRAINING: u8 = 0;
const LIFTED: u8 = 1;
const ABANDONED: u8 = 2;

/// Working state over a base. Used by one thread at a time.
#[derive(Debug)]
pub struct Layers<B> {
    base: Arc<B>,
    active: ShardedMap,
    frozen: Option<Frozen>,
    /// The map that was frozen last, in the base by now and the same there for every key it knows.
    drained: Option<Arc<ShardedMap>>,
    active_bytes_max: usize,
    /// The group to be drained next when the map is full.
    next_drained: KeyGroup,
    n_full: u64,
    n_inline_drains: u64,
    scratch: Scratch,
}

#[derive(Default, Debug)]
struct Scratch {
    misses: StateKeys,
    values: ValueBuffer,
    page: ScanPage,
}

#[derive(Debug)]
struct Frozen {
    checkpoint: CheckpointId,
    map: Arc<ShardedMap>,
    phase: Arc<AtomicU8>,
}

impl<B: Base> Layers<B> {
    /// Empty maps over `base`. Each of the two maps may have `active_bytes_max`.
    pub fn new(base: Arc<B>, range: KeyGroupRange, active_bytes_max: usize) -> Self {
        Self {
            base,
            active: ShardedMap::new(range),
            frozen: None,
            drained: None,
            active_bytes_max,
            next_drained: range.first(),
            n_full: 0,
            n_inline_drains: 0,
            scratch: Scratch::default(),
        }
    }

    /// The lowest layer.
    pub fn base(&self) -> &Arc<B> {
        &self.base
    }

    /// The key groups these layers are for.
    pub fn range(&self) -> KeyGroupRange {
        self.active.range()
    }

    /// Fills `values`, one place a key, from the newest layer that knows it.
    pub fn get(&mut self, keys: &StateKeys, values: &mut ValueBuffer) -> Result<(), StateError> {
        self.settle()?;
        self.active.check(keys)?;
        let Scratch {
            misses,
            values: below,
            ..
        } = &mut self.scratch;
        misses.clear();
        let frozen = self.frozen.as_ref().map(|frozen| &*frozen.map);
        let drained = self.drained.as_deref();
        let mut found = Vec::with_capacity(keys.len());
        for (index, key) in keys.iter().enumerate() {
            let hash = keys.hash(index);
            let older = [frozen, drained].into_iter().flatten();
            let in_older = || older.filter_map(|map| map.get(hash, key)).next();
            let known = self.active.get(hash, key).or_else(in_older);
            if known.is_none() {
                misses.push_from(keys, index);
            }
            found.push(known);
        }
        if misses.is_empty() {
            below.clear();
        } else {
            self.base.get(misses, below)?;
        }
        values.clear();
        let mut next_below = 0;
        for known in found {
            let stored = match known {
                Some(Known::Value(stored)) => Some(stored),
                Some(Known::Deleted) => None,
                None => {
                    next_below += 1;
                    below.stored(next_below - 1)
                }
            };
            values.push_stored(stored);
        }
        Ok(())
    }

    /// Puts one value a key into the active map; a place without a value leaves a tombstone.
    ///
    /// # Panics
    /// If there are more or fewer values than keys.
    pub fn put(&mut self, keys: &StateKeys, values: &ValueBuffer) -> Result<(), StateError> {
        assert_eq!(keys.len(), values.len(), "one value a key");
        self.settle()?;
        self.active.check(keys)?;
        values.check()?;
        self.make_room(keys.byte_len() + values.byte_len())?;
        for (index, key) in keys.iter().enumerate() {
            self.active.put(keys.hash(index), key, values.stored(index));
        }
        Ok(())
    }

    /// Continues a scan over all layers; see
    /// [`KeyedStateBackend::scan`](crate::KeyedStateBackend::scan).
    pub fn scan(
        &mut self,
        scan: &mut Scan,
        max_entries: usize,
        page: &mut ScanPage,
    ) -> Result<bool, StateError> {
        self.settle()?;
        page.clear();
        let below = &mut self.scratch.page;
        while !scan.is_over() {
            // The maps before the base: what is drained in between is then seen in both, never in
            // neither.
            match &self.frozen {
                Some(frozen) => scan.overlays(&[&self.active, &frozen.map]),
                None => scan.overlays(&[&self.active]),
            };
            while page.len() < max_entries {
                let wanted = max_entries - page.len();
                let more = self.base.scan(scan.prefix(), scan.after(), wanted, below)?;
                if merge(scan.overlays_and_after(), below, more, max_entries, page) {
                    break;
                }
            }
            if page.len() >= max_entries {
                return Ok(true);
            }
            scan.next_group();
        }
        Ok(false)
    }

    /// Freezes the active map for a snapshot, in a time that does not depend on its size.
    pub fn freeze(&mut self, checkpoint: CheckpointId) -> Result<Freeze<B>, StateError> {
        self.settle()?;
        if let Some(frozen) = &self.frozen {
            return Err(StateError::SnapshotRunning {
                running: frozen.checkpoint,
                asked: checkpoint,
            });
        }
        let empty = self.active.successor();
        let map = Arc::new(std::mem::replace(&mut self.active, empty));
        let phase = Arc::new(AtomicU8::new(DRAINING));
        self.frozen = Some(Frozen {
            checkpoint,
            map: map.clone(),
            phase: phase.clone(),
        });
        Ok(Freeze {
            base: self.base.clone(),
            map,
            phase: Phase(phase),
        })
    }

    /// What is in use.
    pub fn usage(&self) -> StateUsage {
        let phase = |frozen: &Frozen| frozen.phase.load(Ordering::Acquire);
        let held = self.frozen.as_ref().filter(|f| phase(f) != LIFTED);
        // One that was given up keeps nobody waiting: the next access writes it down.
        let draining = held.filter(|f| phase(f) == DRAINING);
        StateUsage {
            active_bytes: self.active.bytes(),
            frozen_bytes: held.map_or(0, |frozen| frozen.map.bytes()),
            drained_bytes: self.drained.as_ref().map_or(0, |map| map.bytes()),
            frozen_for: draining.map(|frozen| frozen.checkpoint),
            active_bytes_max: Some(self.active_bytes_max),
            n_full: self.n_full,
            n_inline_drains: self.n_inline_drains,
        }
    }

    /// Lets go of a frozen map that was lifted, and writes down one whose snapshot was given up.
    fn settle(&mut self) -> Result<(), StateError> {
        let Some(frozen) = &self.frozen else {
            return Ok(());
        };
        match frozen.phase.load(Ordering::Acquire) {
            DRAINING => return Ok(()),
            LIFTED => {}
            _ => {
                self.base.take_over(&DirtyMap::of(&frozen.map))?;
                self.n_inline_drains += 1;
            }
        }
        self.drained = self.frozen.take().map(|frozen| frozen.map);
        Ok(())
    }

    /// Sees to it that the active map stays within its share. An empty one takes whatever comes,
    /// so that no slice is ever too large to be put.
    fn make_room(&mut self, incoming: usize) -> Result<(), StateError> {
        let active_bytes = self.active.bytes();
        let frozen_bytes = self.frozen.as_ref().map_or(0, |frozen| frozen.map.bytes());
        let drained_bytes = self.drained.as_ref().map_or(0, |map| map.bytes());
        let shares = self.active_bytes_max.saturating_mul(2);
        if active_bytes + incoming + frozen_bytes + drained_bytes > shares {
            self.drained = None;
        }
        if active_bytes == 0 || active_bytes + incoming <= self.active_bytes_max {
            return Ok(());
        }
        if let Some(frozen) = &self.frozen {
            self.n_full += 1;
            return Err(StateError::Full {
                active_bytes,
                limit_bytes: self.active_bytes_max,
                running: frozen.checkpoint,
            });
        }
        // The base is about to get ahead of it.
        self.drained = None;
        while self.active.bytes() > 0 && self.active.bytes() + incoming > self.active_bytes_max {
            self.drain_next_group()?;
        }
        Ok(())
    }

    /// Writes one group of the active map down. Nothing must be frozen: that would be older.
    fn drain_next_group(&mut self) -> Result<(), StateError> {
        let (group, range) = (self.next_drained, self.active.range());
        if self.active.bytes_of(group) > 0 {
            self.base
                .take_over(&DirtyMap::of_group(&self.active, group))?;
            self.active.clear_group(group);
            self.n_inline_drains += 1;
        }
        self.next_drained = if group < range.last() {
            KeyGroup(group.0 + 1)
        } else {
            range.first()
        };
        Ok(())
    }
}

/// A frozen map, to be drained on the thread of its snapshot. Dropping it gives it back.
#[derive(Debug)]
pub struct Freeze<B> {
    base: Arc<B>,
    map: Arc<ShardedMap>,
    phase: Phase,
}

/// Says that the freeze was given up, unless it was lifted first.
#[derive(Debug)]
struct Phase(Arc<AtomicU8>);

impl Drop for Phase {
    fn drop(&mut self) {
        // Release: what was drained is seen by the task that reads this.
        let _ = self
            .0
            .compare_exchange(DRAINING, ABANDONED, Ordering::Release, Ordering::Relaxed);
    }
}

impl<B: Base> Freeze<B> {
    /// Writes the frozen map into the base, then lets `view` look at the base while nothing newer
    /// can be in it, then lifts the freeze.
    pub fn drain_and_lift<T>(
        self,
        view: impl FnOnce(&Arc<B>) -> Result<T, StateError>,
    ) -> Result<T, StateError> {
        self.base.take_over(&DirtyMap::of(&self.map))?;
        let seen = view(&self.base)?;
        self.phase.0.store(LIFTED, Ordering::Release);
        Ok(seen)
    }
}

/// Merges overlays, newest first, with one page of the base into `page`, up to the point that the
/// page of the base vouches for. `after` becomes the last key gone past. Returns whether nothing
/// is left in this group.
fn merge(
    (overlays, after): (&mut [SortedEntries], &mut Vec<u8>),
    below: &ScanPage,
    base_has_more: bool,
    max_entries: usize,
    page: &mut ScanPage,
) -> bool {
    let mut next_below = 0;
    loop {
        let base_key = (next_below < below.len()).then(|| below.encoded_key(next_below));
        let overlay_keys = overlays
            .iter()
            .filter_map(|entries| Some(entries.peek()?.0));
        let Some(key) = overlay_keys.chain(base_key).min() else {
            return !base_has_more;
        };
        // Behind its page the base may have keys below what the overlays have next.
        if page.len() >= max_entries || (base_key.is_none() && base_has_more) {
            return false;
        }
        after.clear();
        after.extend_from_slice(key);
        let mut is_known = false;
        for entries in overlays.iter_mut() {
            let Some((key, known)) = entries.peek().filter(|(key, _)| *key == &after[..]) else {
                continue;
            };
            if !is_known {
                page.push_known(key, known);
                is_known = true;
            }
            entries.advance();
        }
        if base_key == Some(&after[..]) {
            if !is_known {
                page.push(after, below.stored_value(next_below));
            }
            next_below += 1;
        }
    }
}
