//! A hash map of state entries whose copies cost next to nothing.
//!
//! Each key group is split into shards of about ten KiB, by extendible hashing, and a shard is
//! shared until one side writes to it. A copy of the map is thus one reference a shard, and the
//! first write to a shard afterwards copies that shard only: no pause in proportion to the state,
//! neither at the snapshot nor at the slice after it.

mod shard;
mod sorted;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use millstream_types::{KeyGroup, KeyGroupRange};

use crate::keys::{KeyHash, group_of};
use crate::{StateError, StateKeys};
use shard::Shard;
pub use sorted::SortedEntries;

/// A shard is split when its entries take more than this. Smaller ones make the copies after a
/// snapshot cheaper, larger ones the snapshot's synchronous part: 1 GB are then some 100,000
/// references, a few milliseconds.
const SPLIT_BYTES: usize = 16 << 10;
/// No group is split into more than 2^20 shards.
const DEPTH_MAX: u8 = 20;

/// What a map knows of a key.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Known<'a> {
    /// It has this stored value.
    Value(&'a [u8]),
    /// It was deleted.
    Deleted,
}

impl<'a> Known<'a> {
    /// The stored value; none if it was deleted.
    pub(crate) fn stored(self) -> Option<&'a [u8]> {
        match self {
            Self::Value(stored) => Some(stored),
            Self::Deleted => None,
        }
    }
}

/// Entries by key, with tombstones, for a range of key groups. Cloning it is cheap.
#[derive(Clone, Debug)]
pub struct ShardedMap {
    range: KeyGroupRange,
    groups: Vec<Group>,
    bytes: usize,
    copied_bytes: usize,
}

#[derive(Clone, Default, Debug)]
struct Group {
    /// Shard numbers by the low `depth` bits of the route. Empty until the first entry.
    directory: Vec<u32>,
    depth: u8,
    nodes: Vec<Node>,
    /// The depth at which it opens.
    opens_at: u8,
}

#[derive(Clone, Debug)]
struct Node {
    /// How many low bits of the route all its entries share.
    depth: u8,
    shard: Arc<Shard>,
}

impl ShardedMap {
    /// An empty map.
    pub fn new(range: KeyGroupRange) -> Self {
        Self {
            range,
            groups: vec![Group::default(); range.count() as usize],
            bytes: 0,
            copied_bytes: 0,
        }
    }

    /// An empty map for what comes after this one: as much, probably, so that each group opens with
    /// as many shards as it has here instead of splitting its way up to them once more.
    pub(crate) fn successor(&self) -> Self {
        Self {
            groups: self.groups.iter().map(Group::successor).collect(),
            bytes: 0,
            copied_bytes: 0,
            ..*self
        }
    }

    /// A copy, from which [`copied_bytes`](Self::copied_bytes) counts anew.
    pub(crate) fn share(&mut self) -> Self {
        self.copied_bytes = 0;
        self.clone()
    }

    /// Bytes that were copied because a copy of the map shared them.
    pub(crate) fn copied_bytes(&self) -> usize {
        self.copied_bytes
    }

    /// The key groups it is for.
    pub fn range(&self) -> KeyGroupRange {
        self.range
    }

    /// Bytes of memory that its entries take, spare room included.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Bytes of memory that the entries of one group take. The group must be in range.
    pub(crate) fn bytes_of(&self, group: KeyGroup) -> usize {
        let nodes = &self.groups[self.position(group)].nodes;
        nodes.iter().map(|node| node.shard.bytes()).sum()
    }

    /// Refuses keys of groups that this map is not for.
    pub(crate) fn check(&self, keys: &StateKeys) -> Result<(), StateError> {
        let range = self.range;
        match keys
            .iter()
            .map(group_of)
            .find(|group| !range.contains(*group))
        {
            Some(group) => Err(StateError::ForeignKeyGroup { group, range }),
            None => Ok(()),
        }
    }

    /// What is known of a key; none if nothing is. The group must be in range.
    pub(crate) fn get(&self, hash: KeyHash, key: &[u8]) -> Option<Known<'_>> {
        let group = &self.groups[self.position(group_of(key))];
        group.nodes[group.node(hash.route)?].shard.get(hash, key)
    }

    /// Sets the stored value of a key; none leaves a tombstone. The group must be in range.
    pub(crate) fn put(&mut self, hash: KeyHash, key: &[u8], stored: Option<&[u8]>) {
        self.change(hash, key, |shard| shard.put(hash, key, stored));
    }

    /// Forgets a key without a tombstone. The group must be in range.
    pub(crate) fn remove(&mut self, hash: KeyHash, key: &[u8]) {
        // Asked first, so that nothing is copied for a key that is not there.
        if self.get(hash, key).is_some() {
            self.change(hash, key, |shard| shard.remove(hash, key));
        }
    }

    /// The entries of one group whose keys start with `prefix`, in key order. The view stays as it
    /// is, whatever is put afterwards. `route` narrows it to the shard of one key.
    pub(crate) fn sorted(
        &self,
        group: KeyGroup,
        prefix: &[u8],
        route: Option<u64>,
    ) -> SortedEntries {
        if !self.range.contains(group) {
            return SortedEntries::default();
        }
        self.groups[self.position(group)].sorted(prefix, route)
    }

    /// Forgets the entries of one group. The group must be in range.
    pub(crate) fn clear_group(&mut self, group: KeyGroup) {
        self.bytes -= self.bytes_of(group);
        let position = self.position(group);
        self.groups[position] = self.groups[position].successor();
    }

    /// Gives up the map a group at a time, in order, so that memory is freed as it is read.
    pub(crate) fn into_sorted_groups(self) -> impl Iterator<Item = (KeyGroup, SortedEntries)> {
        let groups = self.range.iter().zip(self.groups);
        groups.map(|(number, group)| (number, group.sorted(&[], None)))
    }

    fn position(&self, group: KeyGroup) -> usize {
        usize::from(group.0 - self.range.first().0)
    }

    fn change(&mut self, hash: KeyHash, key: &[u8], change: impl FnOnce(&mut Shard)) {
        let position = self.position(group_of(key));
        let group = &mut self.groups[position];
        let node = match group.node(hash.route) {
            Some(node) => node,
            None => group.open(hash.route),
        };
        let shared = &mut group.nodes[node].shard;
        let before = shared.bytes();
        if Arc::strong_count(shared) > 1 {
            self.copied_bytes += before;
        }
        let shard = Arc::make_mut(shared);
        change(shard);
        // A copy-on-write copy has no spare room, so a change may also shrink a shard.
        self.bytes = self.bytes + shard.bytes() - before;
        if shard.wants_split() {
            let before = group.bytes_of(node);
            let new = group.split(node, hash.route);
            let after = group.bytes_of(node) + new.map_or(0, |new| group.bytes_of(new));
            self.bytes = self.bytes + after - before;
        }
    }
}

impl Group {
    /// An empty group that opens with about as many shards as this one has.
    fn successor(&self) -> Self {
        Self {
            opens_at: self.nodes.len().checked_ilog2().unwrap_or(0) as u8,
            ..Self::default()
        }
    }

    fn node(&self, route: u64) -> Option<usize> {
        let mask = (1u64 << self.depth) - 1;
        Some(*self.directory.get((route & mask) as usize)? as usize)
    }

    fn bytes_of(&self, node: usize) -> usize {
        self.nodes[node].shard.bytes()
    }

    /// Makes the shards that the first entry finds; returns the one of this route.
    fn open(&mut self, route: u64) -> usize {
        self.depth = self.opens_at;
        self.directory = (0..1 << self.depth).collect();
        let node = || Node {
            depth: self.depth,
            shard: Arc::new(Shard::new(SPLIT_BYTES)),
        };
        self.nodes = self.directory.iter().map(|_| node()).collect();
        (route & ((1 << self.depth) - 1)) as usize
    }

    /// Splits the shard of this route by the route's next bit; returns the new one. If all entries fall on
    /// one side, as those of one key do, the shard stays whole until it has doubled.
    fn split(&mut self, index: usize, route: u64) -> Option<usize> {
        let bit = self.nodes[index].depth;
        let shard = Arc::make_mut(&mut self.nodes[index].shard);
        let halves = if bit < DEPTH_MAX {
            shard.split(bit, SPLIT_BYTES)
        } else {
            None
        };
        let Some((low, high)) = halves else {
            shard.split_later();
            return None;
        };
        if bit == self.depth {
            self.directory.extend_from_within(..);
            self.depth += 1;
        }
        let new = self.nodes.len();
        // The places of the shard's entries that have the bit set: every 2^(bit + 1)th.
        let low_bits = route & ((1u64 << bit) - 1);
        let first = (low_bits | 1 << bit) as usize;
        for place in self.directory[first..].iter_mut().step_by(2 << bit) {
            *place = new as u32;
        }
        let depth = bit + 1;
        self.nodes[index] = Node {
            depth,
            shard: Arc::new(low),
        };
        self.nodes.push(Node {
            depth,
            shard: Arc::new(high),
        });
        Some(new)
    }

    fn sorted(&self, prefix: &[u8], route: Option<u64>) -> SortedEntries {
        match route.map(|route| self.node(route)) {
            Some(node) => SortedEntries::new(node.map(|n| self.nodes[n].shard.clone()), prefix),
            None => SortedEntries::new(self.nodes.iter().map(|n| n.shard.clone()), prefix),
        }
    }
}
