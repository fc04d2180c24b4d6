//! Reads the entries of a snapshot and believes nothing it has not checked.

use std::collections::BTreeMap;

use millstream_types::{KeyGroup, KeyGroupRange};

use super::block::{BlockKind, Cursor, FRAME_BYTES};
use super::file::{File, corrupt};
use super::{Contents, GroupIndex, SnapshotHeader};
use crate::{
    KeyParts, MAX_KEY_BYTES, MAX_VALUE_BYTES, SchemaIndex, SnapshotSource, StateError, StateId,
    StoredState,
};

/// An entry of a snapshot.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Entry<'a> {
    /// Its state, by the snapshot's own ids.
    pub state: StateId,
    /// Its encoded key.
    pub key: &'a [u8],
    /// Its stored value, the schema byte in front, which is among those that the snapshot lists for
    /// the state. None if the key was deleted.
    pub stored: Option<&'a [u8]>,
}

/// Reads the header, then the entries of chosen key groups. Holds one block in memory.
pub struct SnapshotReader<'a> {
    file: File<'a>,
    header: SnapshotHeader,
    schemas: BTreeMap<StateId, Vec<SchemaIndex>>,
    index: Vec<GroupIndex>,
    index_offset: u64,
    /// Groups still to be read, as positions in the index.
    groups: std::ops::Range<usize>,
    /// What is left of the group under way.
    blocks_left: u32,
    entries_left: u64,
    /// Offset of the next block.
    next_block: u64,
    block: Block,
    /// The entry under way: its state, its key, and where its value is in the block. No key is
    /// empty, so an empty one stands for none.
    state: StateId,
    key: Vec<u8>,
    stored: std::ops::Range<usize>,
}

/// The data block under way.
#[derive(Default)]
struct Block {
    /// Offset of the payload in the file.
    offset: u64,
    payload: Vec<u8>,
    position: usize,
    entries_left: u32,
}

impl<'a> SnapshotReader<'a> {
    /// Reads and checks header, footer and index. All groups are selected.
    pub fn open(source: &'a mut dyn SnapshotSource) -> Result<Self, StateError> {
        let (mut file, header, data_offset) = File::open(source)?;
        let (index, index_offset) = file.index(&header, data_offset)?;
        let schemas_of = |state: &StoredState| state.schemas.iter().map(|s| s.index).collect();
        Ok(Self {
            file,
            schemas: header
                .states
                .iter()
                .map(|s| (s.id, schemas_of(s)))
                .collect(),
            header,
            groups: 0..index.len(),
            index,
            index_offset,
            blocks_left: 0,
            entries_left: 0,
            next_block: data_offset,
            block: Block::default(),
            state: StateId(0),
            key: Vec::new(),
            stored: 0..0,
        })
    }

    /// What the snapshot says of itself.
    pub fn header(&self) -> &SnapshotHeader {
        &self.header
    }

    /// Where each key group that has entries lies.
    pub fn index(&self) -> &[GroupIndex] {
        &self.index
    }

    /// Starts again, with the entries of these groups only; nothing else is read.
    pub fn select(&mut self, range: KeyGroupRange) {
        let first = self
            .index
            .partition_point(|entry| entry.group < range.first());
        let end = self
            .index
            .partition_point(|entry| entry.group <= range.last());
        self.groups = first..end.max(first);
        self.blocks_left = 0;
        self.entries_left = 0;
        self.block = Block::default();
        self.key.clear();
    }

    /// The next entry in key order; none at the end of what is selected.
    pub fn next_entry(&mut self) -> Result<Option<Entry<'_>>, StateError> {
        while self.block.entries_left == 0 {
            if self.block.position < self.block.payload.len() {
                return Err(self.bad("a block has bytes behind its entries"));
            }
            if self.blocks_left == 0 && !self.next_group()? {
                self.key.clear();
                return Ok(None);
            }
            self.read_block()?;
        }
        self.state = self.decode_entry()?;
        Ok(self.entry())
    }

    /// The entry that [`next_entry`](Self::next_entry) returned last, again.
    pub(crate) fn entry(&self) -> Option<Entry<'_>> {
        if self.key.is_empty() {
            return None;
        }
        let stored = &self.block.payload[self.stored.clone()];
        Some(Entry {
            state: self.state,
            key: &self.key,
            stored: (!stored.is_empty()).then_some(stored),
        })
    }

    /// An error at the place under way.
    fn bad(&self, what: &'static str) -> StateError {
        corrupt(self.block.offset + self.block.position as u64, what)
    }

    fn next_group(&mut self) -> Result<bool, StateError> {
        if self.entries_left > 0 {
            return Err(self.bad("a key group has fewer entries than the index says"));
        }
        let Some(position) = self.groups.next() else {
            return Ok(false);
        };
        let group = self.index[position];
        self.next_block = group.offset;
        self.blocks_left = group.n_blocks;
        self.entries_left = group.n_entries;
        self.key.clear();
        Ok(true)
    }

    fn read_block(&mut self) -> Result<(), StateError> {
        let position = self.groups.start - 1;
        let end = match self.index.get(position + 1) {
            Some(next) => next.offset,
            None => self.index_offset,
        };
        let offset = self.next_block;
        let payload = std::mem::take(&mut self.block.payload);
        let (payload, _) = self.file.block(offset, end, BlockKind::Data, payload)?;
        self.block.offset = offset + FRAME_BYTES as u64;
        self.next_block = self.block.offset + payload.len() as u64;
        self.block.payload = payload;
        self.block.position = 0;
        self.blocks_left -= 1;
        if self.blocks_left == 0 && self.next_block != end {
            return Err(corrupt(
                self.next_block,
                "a key group has more blocks than the index says",
            ));
        }
        let mut cursor = Cursor::new(&self.block.payload);
        let group = cursor.u16();
        let (Some(group), Some(count)) = (group, cursor.u32()) else {
            return Err(self.bad("a block ends within its first fields"));
        };
        if KeyGroup(group) != self.index[position].group {
            return Err(self.bad("a block is of another key group than the index says"));
        }
        let Some(left) = self.entries_left.checked_sub(u64::from(count)) else {
            return Err(self.bad("a key group has more entries than the index says"));
        };
        self.block.position = cursor.position();
        self.block.entries_left = count;
        self.entries_left = left;
        Ok(())
    }

    fn decode_entry(&mut self) -> Result<StateId, StateError> {
        let rest = &self.block.payload[self.block.position..];
        let mut cursor = Cursor::new(rest);
        let parts = (cursor.varint(), cursor.counted(), cursor.counted());
        let (Some(shared), Some(suffix), Some(stored)) = parts else {
            return Err(self.bad("a block ends within an entry"));
        };
        if shared > self.key.len() {
            return Err(self.bad("a key shares more than the key before it has"));
        }
        // Sharing `shared` bytes, the key is above the one before exactly if its rest is.
        if !self.key.is_empty() && suffix <= &self.key[shared..] {
            return Err(self.bad("keys are out of order"));
        }
        if shared + suffix.len() > MAX_KEY_BYTES || stored.len() > MAX_VALUE_BYTES {
            return Err(self.bad("an entry is longer than any that is written"));
        }
        let taken = cursor.position();
        let stored_end = self.block.position + taken;
        let stored_start = stored_end - stored.len();
        self.key.truncate(shared);
        self.key.extend_from_slice(suffix);
        let group = self.index[self.groups.start - 1].group;
        let Some(parts) = KeyParts::decode(&self.key).filter(|parts| parts.group == group) else {
            return Err(self.bad("a key is not one of its key group"));
        };
        let state = parts.state;
        let Some(schemas) = self.schemas.get(&state) else {
            return Err(self.bad("a key is of a state that the header does not list"));
        };
        let known = match self.block.payload[stored_start..stored_end].first() {
            Some(index) => schemas.contains(&SchemaIndex(*index)),
            None => self.header.contents == Contents::Changes,
        };
        if !known {
            return Err(self.bad("a value is of a schema that the header does not list"));
        }
        self.block.position = stored_end;
        self.block.entries_left -= 1;
        self.stored = stored_start..stored_end;
        Ok(state)
    }
}
