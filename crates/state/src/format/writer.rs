//! Writes a snapshot, block by block.

use bytes::Bytes;
use millstream_types::{Checksum, KeyGroup};
use xxhash_rust::xxh3::Xxh3;

use super::block::{BlockKind, FRAME_BYTES, Seed, preamble, seal};
use super::{
    BLOCK_BYTES, Contents, END_MAGIC, FOOTER_BYTES, GroupIndex, PREAMBLE_BYTES, SnapshotHeader,
};
use crate::keys::{group_of, put_counted, put_varint};
use crate::{SnapshotSink, SnapshotSummary, StateError};

/// Bytes of frame, key group and count in front of a data block's entries.
const DATA_START: usize = FRAME_BYTES + 6;

/// Writes entries, which come in key order, to a sink. Holds one block in memory.
pub struct SnapshotWriter<S> {
    out: Output<S>,
    seed: Seed,
    checkpoint: millstream_types::CheckpointId,
    contents: Contents,
    block: Vec<u8>,
    block_entries: u32,
    /// The key before; empty at the start of the file.
    key: Vec<u8>,
    index: Vec<GroupIndex>,
    n_entries: u64,
}

struct Output<S> {
    sink: S,
    offset: u64,
    digest: Xxh3,
}

impl<S: SnapshotSink> Output<S> {
    fn write(&mut self, bytes: Vec<u8>) -> Result<(), StateError> {
        self.digest.update(&bytes);
        let length = bytes.len() as u64;
        self.sink
            .write(Bytes::from(bytes))
            .map_err(|error| StateError::of_sink(error, self.offset))?;
        self.offset += length;
        Ok(())
    }
}

impl<S: SnapshotSink> SnapshotWriter<S> {
    /// Starts a file with its header.
    pub fn new(header: &SnapshotHeader, sink: S) -> Result<Self, StateError> {
        let preamble = preamble();
        let mut block = vec![0; FRAME_BYTES];
        encode_header(header, &mut block);
        let seed = Seed::of_preamble(&preamble);
        let crc = seal(&mut block, BlockKind::Header, seed, PREAMBLE_BYTES as u64);
        let mut out = Output {
            sink,
            offset: 0,
            digest: Xxh3::new(),
        };
        out.write([&preamble[..], &block].concat())?;
        Ok(Self {
            out,
            seed: Seed::of_header(crc),
            checkpoint: header.checkpoint,
            contents: header.contents,
            block: Vec::new(),
            block_entries: 0,
            key: Vec::new(),
            index: Vec::new(),
            n_entries: 0,
        })
    }

    /// Appends an entry: its encoded key, and its stored value with the schema byte in front.
    ///
    /// # Panics
    /// If the key is not above the one before.
    pub fn entry(&mut self, key: &[u8], stored: &[u8]) -> Result<(), StateError> {
        assert!(!stored.is_empty(), "a stored value has its schema byte");
        self.append(key, stored)
    }

    /// Says that a key was deleted.
    ///
    /// # Panics
    /// If the key is not above the one before, or the file holds all there is.
    pub fn deletion(&mut self, key: &[u8]) -> Result<(), StateError> {
        assert_eq!(self.contents, Contents::Changes, "only changes delete");
        self.append(key, &[])
    }

    pub(super) fn append(&mut self, key: &[u8], stored: &[u8]) -> Result<(), StateError> {
        assert!(key > &self.key[..], "entries come in key order");
        let group = group_of(key);
        let other_group = self.index.last().is_none_or(|last| last.group != group);
        if other_group || self.block.len() >= BLOCK_BYTES {
            self.close_block()?;
        }
        if other_group {
            self.index.push(GroupIndex {
                group,
                offset: self.out.offset,
                n_blocks: 0,
                n_entries: 0,
            });
        }
        let shared = if self.block.is_empty() {
            self.open_block(group, stored.len());
            0
        } else {
            let pairs = key.iter().zip(&self.key);
            pairs.take_while(|(a, b)| a == b).count()
        };
        put_varint(&mut self.block, shared as u64);
        put_counted(&mut self.block, &key[shared..]);
        put_counted(&mut self.block, stored);
        self.block_entries += 1;
        self.key.clear();
        self.key.extend_from_slice(key);
        Ok(())
    }

    /// Bytes written so far, those of the block under way included.
    pub fn bytes(&self) -> u64 {
        self.out.offset + self.block.len() as u64
    }

    /// Ends the file.
    pub fn finish(self) -> Result<SnapshotSummary, StateError> {
        self.into_parts().map(|(summary, _)| summary)
    }

    /// Ends the file and gives the sink back.
    pub fn into_parts(mut self) -> Result<(SnapshotSummary, S), StateError> {
        self.close_block()?;
        let index_offset = self.out.offset;
        let mut block = vec![0; FRAME_BYTES];
        block.extend_from_slice(&(self.index.len() as u32).to_le_bytes());
        for group in &self.index {
            block.extend_from_slice(&group.group.0.to_le_bytes());
            block.extend_from_slice(&group.offset.to_le_bytes());
            block.extend_from_slice(&group.n_blocks.to_le_bytes());
            block.extend_from_slice(&group.n_entries.to_le_bytes());
        }
        seal(&mut block, BlockKind::Index, self.seed, index_offset);
        let footer_offset = index_offset + block.len() as u64;
        let mut footer = Vec::with_capacity(FOOTER_BYTES);
        footer.extend_from_slice(&index_offset.to_le_bytes());
        footer.extend_from_slice(&(footer_offset + FOOTER_BYTES as u64).to_le_bytes());
        footer.extend_from_slice(&self.n_entries.to_le_bytes());
        let crc = self.seed.crc(footer_offset, [&footer, END_MAGIC]);
        footer.extend_from_slice(&crc.to_le_bytes());
        footer.extend_from_slice(END_MAGIC);
        block.extend_from_slice(&footer);
        self.out.write(block)?;
        let summary = SnapshotSummary {
            checkpoint: self.checkpoint,
            bytes: self.out.offset,
            n_entries: self.n_entries,
            checksum: Checksum(self.out.digest.digest128()),
        };
        Ok((summary, self.out.sink))
    }

    fn open_block(&mut self, group: KeyGroup, value_bytes: usize) {
        self.block
            .reserve(BLOCK_BYTES + BLOCK_BYTES / 4 + value_bytes);
        self.block.resize(FRAME_BYTES, 0);
        self.block.extend_from_slice(&group.0.to_le_bytes());
        self.block.extend_from_slice(&[0; 4]);
    }

    fn close_block(&mut self) -> Result<(), StateError> {
        if self.block.is_empty() {
            return Ok(());
        }
        let mut block = std::mem::take(&mut self.block);
        let count = std::mem::take(&mut self.block_entries);
        block[DATA_START - 4..DATA_START].copy_from_slice(&count.to_le_bytes());
        seal(&mut block, BlockKind::Data, self.seed, self.out.offset);
        let group = self.index.last_mut().expect("a block belongs to a group");
        group.n_blocks += 1;
        group.n_entries += u64::from(count);
        self.n_entries += u64::from(count);
        self.out.write(block)
    }
}

fn encode_header(header: &SnapshotHeader, out: &mut Vec<u8>) {
    out.extend_from_slice(&header.checkpoint.0.to_le_bytes());
    out.extend_from_slice(&header.max_parallelism.get().to_le_bytes());
    out.extend_from_slice(&header.range.first().0.to_le_bytes());
    out.extend_from_slice(&header.range.last().0.to_le_bytes());
    out.push(match header.contents {
        Contents::All => 0,
        Contents::Changes => 1,
    });
    out.extend_from_slice(&(header.states.len() as u16).to_le_bytes());
    for state in &header.states {
        out.extend_from_slice(&state.id.0.to_le_bytes());
        out.push(state.kind.code());
        put_counted(out, state.name.as_bytes());
        out.extend_from_slice(&(state.schemas.len() as u16).to_le_bytes());
        for schema in &state.schemas {
            out.push(schema.index.0);
            put_counted(out, schema.version.as_bytes());
        }
    }
}
