//! Writing dirty maps down into the base.

use millstream_types::{KeyGroup, KeyGroupRange};

use super::Base;
use crate::{ShardedMap, StateError, StateKeys, ValueBuffer};

/// Bytes of one batch written to the base.
const DRAIN_BYTES: usize = 1 << 20;

/// A dirty map, or one key group of it, on its way into the base.
#[derive(Debug)]
pub struct DirtyMap<'a> {
    map: &'a ShardedMap,
    group: Option<KeyGroup>,
}

impl<'a> DirtyMap<'a> {
    pub(super) fn of(map: &'a ShardedMap) -> Self {
        Self { map, group: None }
    }

    pub(super) fn of_group(map: &'a ShardedMap, group: KeyGroup) -> Self {
        let group = Some(group);
        Self { map, group }
    }

    /// The one key group that it is of; none if it is a whole map.
    pub fn group(&self) -> Option<KeyGroup> {
        self.group
    }

    /// Memory that its entries take: what they are as files is less.
    pub fn bytes(&self) -> usize {
        self.group
            .map_or_else(|| self.map.bytes(), |group| self.map.bytes_of(group))
    }

    /// Hands out key and stored value of each entry, in key order; none is a deletion.
    pub fn for_each(
        &self,
        mut entry: impl FnMut(&[u8], Option<&[u8]>) -> Result<(), StateError>,
    ) -> Result<(), StateError> {
        let groups = match self.group {
            Some(group) => KeyGroupRange::new(group, group).expect("one group is a range"),
            None => self.map.range(),
        };
        for group in groups.iter() {
            let mut entries = self.map.sorted(group, &[], None);
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
struct Drain<'a, B> {
    base: &'a B,
    keys: StateKeys,
    values: ValueBuffer,
}

impl<'a, B: Base> Drain<'a, B> {
    fn new(base: &'a B) -> Self {
        Self {
            base,
            keys: StateKeys::new(),
            values: ValueBuffer::new(),
        }
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

    fn finish(self) -> Result<(), StateError> {
        if self.keys.is_empty() {
            return Ok(());
        }
        self.base.write(&self.keys, &self.values)
    }
}
