//! The snapshot file: keyed state of one subtask, the same from every backend.
//!
//! A file holds all of the state, or what changed since the file before it: a snapshot is one file
//! of all, and any number of changes behind it, of which the newest that knows a key is right.
//!
//! Numbers are little-endian, except inside keys. A *text* is a length (varint) and UTF-8 bytes;
//! varints and keys are those of [`StateKeys`](crate::StateKeys).
//!
//! ```text
//! file     = preamble  header-block  data-block*  index-block  footer
//!
//! preamble = "MSKSTATE"  version u16 (2)  zero u16                                    12 bytes
//! block    = kind u8  flags u8 (0)  zero u16  payload-length u32  crc u32  payload    12 + n bytes
//! header   = checkpoint u64  max-parallelism u32  first-group u16  last-group u16     kind 1
//!            contents u8 (0 all, 1 changes; not in version 1, whose files hold all)
//!            n-states u16  { id u16  kind u8  name text
//!                            n-schemas u16  { index u8  version text } } in order of ids
//! data     = key-group u16  n-entries u32                                             kind 2
//!            { shared varint  rest (length varint, bytes)
//!              stored value (length varint, bytes) } in key order
//! index    = n-groups u32  { key-group u16  offset u64  n-blocks u32  n-entries u64 } kind 3
//! footer   = index-offset u64  file-length u64  n-entries u64  crc u32  "DNKS"        32 bytes
//! ```
//!
//! A key is the first `shared` bytes of the key before it in the block, and `rest`. A stored value
//! starts with the index of its schema; among changes an empty one says that the key was deleted. A data block has entries of one key group; blocks of a
//! group follow each other, groups ascend, and the index lists those that have entries.
//!
//! A crc is the CRC-32C of: the crc of the header block (0 for that block itself, which has the
//! preamble instead), the block's offset in the file as u64, the block without its crc. So a block
//! is valid only where it was written and in the file it was written for, and every byte of the
//! file stands under one of them.

mod block;
mod file;
mod reader;
#[cfg(test)]
mod tests;
mod writer;

use millstream_types::{CheckpointId, KeyGroupRange, MaxParallelism};

use crate::StoredState;

pub use reader::{Entry, SnapshotReader};
pub use writer::SnapshotWriter;

/// The version that is written, and the newest that is read.
pub const VERSION: u16 = 2;

const MAGIC: &[u8; 8] = b"MSKSTATE";
const END_MAGIC: &[u8; 4] = b"DNKS";
const PREAMBLE_BYTES: usize = 12;
const FOOTER_BYTES: usize = 32;
/// Data blocks are closed when they reach this.
const BLOCK_BYTES: usize = 64 << 10;

/// What the entries of a file are.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Contents {
    /// All there is.
    All,
    /// What changed since the file before it, deletions among it.
    Changes,
}

/// What a snapshot says of itself.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SnapshotHeader {
    /// The checkpoint it was first part of.
    pub checkpoint: CheckpointId,
    /// What its entries are.
    pub contents: Contents,
    /// The number of key groups of the vertex.
    pub max_parallelism: MaxParallelism,
    /// The key groups that the subtask owned.
    pub range: KeyGroupRange,
    /// The states, in order of their ids.
    pub states: Vec<StoredState>,
}

/// Where the entries of a key group lie.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct GroupIndex {
    /// The key group.
    pub group: millstream_types::KeyGroup,
    /// Offset of its first block.
    pub offset: u64,
    /// The number of its blocks.
    pub n_blocks: u32,
    /// The number of its entries.
    pub n_entries: u64,
}
