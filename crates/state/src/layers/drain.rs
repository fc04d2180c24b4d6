//! Writing dirty maps down into the base.

use super::Base;
use crate::map::SortedEntries;
use crate::{ShardedMap, StateError, StateKeys, ValueBuffer};

/// Bytes of one batch written to the base.
const DRAIN_BYTES: usize = 1 << 20;

/// A dirty map on its way into the base.
#[derive(Debug)]
pub struct DirtyMap<'a>(&'a ShardedMap);

impl<'a> DirtyMap<'a> {
    pub(super) fn of(map: &'a ShardedMap) -> Self {
        Self(map)
    }

    /// Memory that its entries take: what they are as files is less.
    pub fn bytes(&self) -> usize {
        self.0.bytes()
    }

    /// Hands out key and stored value of each entry, in key order; none is a deletion.
    pub fn for_each(
        &self,
        mut entry: impl FnMut(&[u8], Option<&[u8]>) -> Result<(), StateError>,
    ) -> Result<(), StateError> {
        // Cloned to be given up group by group; the entries themselves are shared.
        for (_, mut entries) in self.0.clone().into_sorted_groups() {
            while let Some((key, known)) = entries.peek() {
                entry(key, known.stored())?;
                entries.advance();
            }
        }
        Ok(())
    }

    /// Writes it in batches.
    pub fn write_to(&self, base: &impl Base) -> Result<(), StateError> {
        let mut drain = Drain::new(base);
        self.for_each(|key, stored| drain.entry(key, stored))?;
        drain.finish()
    }
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
            self.entry(key, known.stored())?;
            entries.advance();
        }
        Ok(())
    }

    fn entry(&mut self, key: &[u8], stored: Option<&[u8]>) -> Result<(), StateError> {
        self.keys.push_encoded(key);
        self.values.push_stored(stored);
        if self.keys.byte_len() + self.values.byte_len() >= DRAIN_BYTES {
            self.base.write(&self.keys, &self.values)?;
            self.keys.clear();
            self.values.clear();
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
