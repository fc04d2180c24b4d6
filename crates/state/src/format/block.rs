//! Blocks: frames with a length, a kind and a checksum bound to their place.

use crc32c::{crc32c, crc32c_append};

use super::{MAGIC, PREAMBLE_BYTES, VERSION};

/// Bytes in front of a payload.
pub(super) const FRAME_BYTES: usize = 12;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum BlockKind {
    Header = 1,
    Data = 2,
    Index = 3,
}

/// What the checksum of a block starts from: the file it belongs to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Seed(pub(super) u32);

impl Seed {
    /// The seed of the header block, and of the footer of no file.
    pub(super) fn of_preamble(preamble: &[u8; PREAMBLE_BYTES]) -> Self {
        Self(crc32c(preamble))
    }

    /// The seed of everything behind a header block with this checksum.
    pub(super) fn of_header(crc: u32) -> Self {
        Self(crc32c(&crc.to_le_bytes()))
    }

    /// The checksum of bytes at this offset of the file.
    pub(super) fn crc(self, offset: u64, parts: [&[u8]; 2]) -> u32 {
        let crc = crc32c_append(self.0, &offset.to_le_bytes());
        parts.into_iter().fold(crc, crc32c_append)
    }
}

pub(super) fn preamble() -> [u8; PREAMBLE_BYTES] {
    let mut bytes = [0; PREAMBLE_BYTES];
    bytes[..8].copy_from_slice(MAGIC);
    bytes[8..10].copy_from_slice(&VERSION.to_le_bytes());
    bytes
}

/// Fills in the frame at the front of `block`, whose payload is complete; returns the checksum.
pub(super) fn seal(block: &mut [u8], kind: BlockKind, seed: Seed, offset: u64) -> u32 {
    let (frame, payload) = block.split_at_mut(FRAME_BYTES);
    let length = u32::try_from(payload.len()).expect("keys and values are far below 4 GiB");
    frame[..4].copy_from_slice(&[kind as u8, 0, 0, 0]);
    frame[4..8].copy_from_slice(&length.to_le_bytes());
    let crc = seed.crc(offset, [&frame[..8], payload]);
    frame[8..].copy_from_slice(&crc.to_le_bytes());
    crc
}

/// Takes numbers and texts from the front of bytes; `None` where they end too early.
pub(super) struct Cursor<'a> {
    rest: &'a [u8],
    length: usize,
}

impl<'a> Cursor<'a> {
    pub(super) fn new(bytes: &'a [u8]) -> Self {
        Self {
            rest: bytes,
            length: bytes.len(),
        }
    }

    /// How many bytes were taken.
    pub(super) fn position(&self) -> usize {
        self.length - self.rest.len()
    }

    pub(super) fn is_at_end(&self) -> bool {
        self.rest.is_empty()
    }

    fn array<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (bytes, rest) = self.rest.split_first_chunk::<N>()?;
        self.rest = rest;
        Some(*bytes)
    }

    pub(super) fn u8(&mut self) -> Option<u8> {
        self.array::<1>().map(|[byte]| byte)
    }

    pub(super) fn u16(&mut self) -> Option<u16> {
        self.array().map(u16::from_le_bytes)
    }

    pub(super) fn u32(&mut self) -> Option<u32> {
        self.array().map(u32::from_le_bytes)
    }

    pub(super) fn u64(&mut self) -> Option<u64> {
        self.array().map(u64::from_le_bytes)
    }

    pub(super) fn varint(&mut self) -> Option<usize> {
        usize::try_from(crate::keys::take_varint(&mut self.rest)?).ok()
    }

    pub(super) fn counted(&mut self) -> Option<&'a [u8]> {
        crate::keys::take_counted(&mut self.rest)
    }

    pub(super) fn text(&mut self) -> Option<String> {
        Some(std::str::from_utf8(self.counted()?).ok()?.to_owned())
    }
}
