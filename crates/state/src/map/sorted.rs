//! A sorted view of the entries of one key group.

use std::sync::Arc;

use super::Known;
use super::shard::{Shard, Slot};

/// Entries in key order, read one after the other. Shares the shards it was made from.
#[derive(Clone, Default, Debug)]
pub struct SortedEntries {
    shards: Vec<Arc<Shard>>,
    order: Vec<(u32, Slot)>,
    next: usize,
}

impl SortedEntries {
    pub(super) fn new(shards: impl IntoIterator<Item = Arc<Shard>>, prefix: &[u8]) -> Self {
        let shards: Vec<_> = shards.into_iter().collect();
        let mut order = Vec::new();
        for (index, shard) in shards.iter().enumerate() {
            let arena = shard.arena();
            let wanted = shard
                .slots()
                .filter(|slot| slot.key(arena).starts_with(prefix));
            order.extend(wanted.map(|slot| (index as u32, slot)));
        }
        let key_of = |entry: &(u32, Slot)| entry.1.key(shards[entry.0 as usize].arena());
        order.sort_unstable_by(|a, b| key_of(a).cmp(key_of(b)));
        Self {
            shards,
            order,
            next: 0,
        }
    }

    /// The next entry, without taking it.
    pub(crate) fn peek(&self) -> Option<(&[u8], Known<'_>)> {
        let &(shard, slot) = self.order.get(self.next)?;
        let shard = &self.shards[shard as usize];
        Some((slot.key(shard.arena()), shard.known(slot)))
    }

    /// Goes to the entry after the next one.
    pub(crate) fn advance(&mut self) {
        self.next += 1;
    }
}
