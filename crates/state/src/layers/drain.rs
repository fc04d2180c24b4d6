//! Writing dirty maps down into the base.

use super::Base;
use crate::map::{Known, SortedEntries};
use crate::{ShardedMap, StateError, StateKeys, ValueBuffer};

/// Bytes of one batch written to the base.
const DRAIN_BYTES: usize = 1 << 20;

/// Writes a map into the base in key order. Doing it twice is the same as doing it once.
pub(super) fn drain(base: &impl Base, map: &ShardedMap) -> Result<(), StateError> {
    let mut drain = Drain::new(base);
    // Cloned to be given up group by group; the entries themselves are shared.
    for (_, mut entries) in map.clone().into_sorted_groups() {
        drain.entries(&mut entries)?;
    }
    drain.finish()
}

/// Entries on their way into the base, in batches.
pub(super) struct Drain<'a, B> {
    base: &'a B,
    keys: StateKeys,
    values: ValueBuffer,
}

impl<'a, B: Base> Drain<'a, B> {
    pub(super) fn new(base: &'a B) -> Self {
        Self {
            base,
            keys: StateKeys::new(),
            values: ValueBuffer::new(),
        }
    }

    pub(super) fn entries(&mut self, entries: &mut SortedEntries) -> Result<(), StateError> {
        while let Some((key, known)) = entries.peek() {
            self.keys.push_encoded(key);
            self.values.push_stored(match known {
                Known::Value(stored) => Some(stored),
                Known::Deleted => None,
            });
            entries.advance();
            if self.keys.byte_len() + self.values.byte_len() >= DRAIN_BYTES {
                self.base.write(&self.keys, &self.values)?;
                self.keys.clear();
                self.values.clear();
            }
        }
        Ok(())
    }

    pub(super) fn finish(self) -> Result<(), StateError> {
        if self.keys.is_empty() {
            return Ok(());
        }
        self.base.write(&self.keys, &self.values)
    }
}
