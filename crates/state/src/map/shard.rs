//! One shard: entries in a flat arena, found by a table of offsets. Copying it is two block copies.

use hashbrown::HashTable;

use super::Known;
use crate::keys::{KeyHash, hash_of};

/// The value length that marks a tombstone.
const TOMBSTONE: u32 = u32::MAX;
/// An arena is not compacted for less garbage than this.
const GARBAGE_MIN: usize = 4 << 10;
/// Half of what offsets can reach, so that one more entry always fits behind a full arena.
const ARENA_BYTES_MAX: usize = 2 << 30;

#[derive(Clone, Debug)]
pub(super) struct Shard {
    table: HashTable<Slot>,
    arena: Vec<u8>,
    /// Bytes of the arena that belong to no entry.
    garbage: usize,
    split_at: usize,
}

/// Where an entry lies: the key, and the stored value right behind it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Slot {
    offset: u32,
    key_len: u32,
    value_len: u32,
}

impl Slot {
    pub(super) fn key(self, arena: &[u8]) -> &[u8] {
        let start = self.offset as usize;
        &arena[start..start + self.key_len as usize]
    }

    fn known(self, arena: &[u8]) -> Known<'_> {
        if self.value_len == TOMBSTONE {
            return Known::Deleted;
        }
        let start = self.offset as usize + self.key_len as usize;
        Known::Value(&arena[start..start + self.value_len as usize])
    }

    fn value_bytes(self) -> usize {
        if self.value_len == TOMBSTONE {
            0
        } else {
            self.value_len as usize
        }
    }
}

impl Shard {
    pub(super) fn new(split_at: usize) -> Self {
        Self {
            table: HashTable::new(),
            arena: Vec::new(),
            garbage: 0,
            split_at,
        }
    }

    /// Memory in use, spare room included.
    pub(super) fn bytes(&self) -> usize {
        self.arena.capacity() + self.table.allocation_size()
    }

    pub(super) fn arena(&self) -> &[u8] {
        &self.arena
    }

    pub(super) fn slots(&self) -> impl Iterator<Item = Slot> {
        self.table.iter().copied()
    }

    pub(super) fn known(&self, slot: Slot) -> Known<'_> {
        slot.known(&self.arena)
    }

    pub(super) fn get(&self, hash: KeyHash, key: &[u8]) -> Option<Known<'_>> {
        let slot = self
            .table
            .find(hash.entry, |slot| slot.key(&self.arena) == key)?;
        Some(slot.known(&self.arena))
    }

    pub(super) fn put(&mut self, hash: KeyHash, key: &[u8], stored: Option<&[u8]>) {
        let arena = &self.arena;
        let found = self
            .table
            .find_mut(hash.entry, |slot| slot.key(arena) == key);
        let value = stored.unwrap_or_default();
        let value_len = stored.map_or(TOMBSTONE, |value| value.len() as u32);
        if let Some(slot) = found {
            let room = slot.value_bytes();
            if value.len() <= room {
                // In place: no allocation, and no garbage where the length stays the same.
                let start = slot.offset as usize + slot.key_len as usize;
                self.arena[start..start + value.len()].copy_from_slice(value);
                slot.value_len = value_len;
                self.garbage += room - value.len();
            } else {
                self.garbage += key.len() + room;
                slot.offset = append(&mut self.arena, key, value);
                slot.value_len = value_len;
            }
        } else {
            let slot = Slot {
                offset: append(&mut self.arena, key, value),
                key_len: key.len() as u32,
                value_len,
            };
            let arena = &self.arena;
            self.table
                .insert_unique(hash.entry, slot, |slot| hash_of(slot.key(arena)).entry);
        }
        self.compact_if_worth();
    }

    pub(super) fn remove(&mut self, hash: KeyHash, key: &[u8]) {
        let arena = &self.arena;
        if let Ok(entry) = self
            .table
            .find_entry(hash.entry, |slot| slot.key(arena) == key)
        {
            let (slot, _) = entry.remove();
            self.garbage += slot.key_len as usize + slot.value_bytes();
        }
        self.compact_if_worth();
    }

    pub(super) fn wants_split(&self) -> bool {
        self.arena.len() - self.garbage > self.split_at
    }

    pub(super) fn split_later(&mut self) {
        self.split_at = self.split_at.saturating_mul(2);
    }

    /// Two shards by one bit of the route; none if one of them would be empty.
    pub(super) fn split(&self, bit: u8, split_at: usize) -> Option<(Self, Self)> {
        // Each gets about half, and may then have half as much again before it grows.
        let mut halves = [(); 2].map(|()| Self {
            table: HashTable::with_capacity(self.table.len() / 2),
            arena: Vec::with_capacity(self.arena.len() * 3 / 4),
            ..Self::new(split_at)
        });
        for slot in self.slots() {
            let hash = hash_of(slot.key(&self.arena));
            halves[(hash.route >> bit & 1) as usize].adopt(hash, slot, &self.arena);
        }
        let [low, high] = halves;
        (!low.table.is_empty() && !high.table.is_empty()).then_some((low, high))
    }

    fn adopt(&mut self, hash: KeyHash, slot: Slot, from: &[u8]) {
        let start = slot.offset as usize;
        let bytes = &from[start..start + slot.key_len as usize + slot.value_bytes()];
        let moved = Slot {
            offset: append(&mut self.arena, bytes, &[]),
            ..slot
        };
        let arena = &self.arena;
        self.table
            .insert_unique(hash.entry, moved, |slot| hash_of(slot.key(arena)).entry);
    }

    fn compact_if_worth(&mut self) {
        let crowded = self.arena.len() > ARENA_BYTES_MAX && self.garbage > 0;
        if crowded || self.garbage > GARBAGE_MIN.max(self.arena.len() / 2) {
            let mut arena = Vec::with_capacity(self.arena.len() - self.garbage);
            for slot in self.table.iter_mut() {
                let start = slot.offset as usize;
                let bytes = slot.key_len as usize + slot.value_bytes();
                slot.offset = append(&mut arena, &self.arena[start..start + bytes], &[]);
            }
            self.arena = arena;
            self.garbage = 0;
        }
    }
}

/// Appends an entry and returns its offset. Grows by half: arenas are many, and doubling would leave
/// a third of all state memory unused; by less, most of the time of a put would go into moving them.
fn append(arena: &mut Vec<u8>, key: &[u8], value: &[u8]) -> u32 {
    let offset = u32::try_from(arena.len()).expect("a shard is split or compacted far below 4 GiB");
    let need = key.len() + value.len();
    if arena.capacity() - arena.len() < need {
        arena.reserve_exact(need.max(arena.len() / 2).max(256));
    }
    arena.extend_from_slice(key);
    arena.extend_from_slice(value);
    offset
}
