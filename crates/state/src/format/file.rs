//! The frame of a snapshot file: preamble, header, index, footer, and blocks as such.

use millstream_types::{CheckpointId, KeyGroup, KeyGroupRange, MaxParallelism};

use super::block::{BlockKind, Cursor, FRAME_BYTES, Seed};
use super::{
    Contents, END_MAGIC, FOOTER_BYTES, GroupIndex, MAGIC, PREAMBLE_BYTES, SnapshotHeader, VERSION,
};
use crate::{
    SchemaIndex, SnapshotSource, StateError, StateId, StateKind, StoredSchema, StoredState,
};

/// A payload is read in pieces of this size, so that a length that lies costs no more memory.
const READ_BYTES: usize = 1 << 20;

pub(super) struct File<'a> {
    source: &'a mut dyn SnapshotSource,
    seed: Seed,
}

pub(super) fn corrupt(offset: u64, what: &'static str) -> StateError {
    StateError::Corrupt { offset, what }
}

impl<'a> File<'a> {
    /// Reads preamble and header; returns the offset behind them.
    pub(super) fn open(
        source: &'a mut dyn SnapshotSource,
    ) -> Result<(Self, SnapshotHeader, u64), StateError> {
        let length = source.byte_len();
        let mut preamble = [0; PREAMBLE_BYTES];
        let present = length.min(PREAMBLE_BYTES as u64) as usize;
        let unreadable = |source| StateError::Unreadable { offset: 0, source };
        source
            .read_at(0, &mut preamble[..present])
            .map_err(unreadable)?;
        if preamble[..8] != *MAGIC {
            let found = preamble[..present.min(8)].to_vec();
            return Err(StateError::NotASnapshot { found });
        }
        let version = u16::from_le_bytes([preamble[8], preamble[9]]);
        if version > VERSION {
            return Err(StateError::VersionTooNew {
                found: version,
                newest: VERSION,
            });
        }
        if version == 0 || preamble[10..] != [0, 0] {
            return Err(corrupt(8, "the version is none that was ever written"));
        }
        let seed = Seed::of_preamble(&preamble);
        let mut file = Self { source, seed };
        let offset = PREAMBLE_BYTES as u64;
        let (payload, crc) = file.block(offset, length, BlockKind::Header, Vec::new())?;
        file.seed = Seed::of_header(crc);
        let header = decode_header(&payload, offset + FRAME_BYTES as u64, version)?;
        let behind = offset + (FRAME_BYTES + payload.len()) as u64;
        Ok((file, header, behind))
    }

    /// Reads footer and index.
    pub(super) fn index(
        &mut self,
        header: &SnapshotHeader,
        data_offset: u64,
    ) -> Result<(Vec<GroupIndex>, u64), StateError> {
        let length = self.source.byte_len();
        let footer_offset = length
            .checked_sub(FOOTER_BYTES as u64)
            .filter(|offset| *offset >= data_offset)
            .ok_or_else(|| corrupt(length, "the file ends before its footer"))?;
        let mut footer = [0; FOOTER_BYTES];
        self.read(footer_offset, &mut footer)?;
        let (fields, rest) = footer.split_at(24);
        let crc = self.seed.crc(footer_offset, [fields, END_MAGIC]);
        if rest[4..] != *END_MAGIC || rest[..4] != crc.to_le_bytes() {
            return Err(corrupt(
                footer_offset,
                "the footer is missing or damaged: is the file cut?",
            ));
        }
        let mut cursor = Cursor::new(fields);
        let fields = (cursor.u64(), cursor.u64(), cursor.u64());
        let (Some(index_offset), Some(stated), Some(n_entries)) = fields else {
            unreachable!("24 bytes are three numbers of 8");
        };
        if stated != length || index_offset < data_offset {
            return Err(corrupt(footer_offset, "the footer does not fit the file"));
        }
        let (payload, _) = self.block(index_offset, footer_offset, BlockKind::Index, Vec::new())?;
        let start = index_offset + FRAME_BYTES as u64;
        if start + payload.len() as u64 != footer_offset {
            return Err(corrupt(
                footer_offset,
                "the footer does not follow the index",
            ));
        }
        let bounds = (data_offset, index_offset);
        let index = decode_index(&payload, header.range, bounds)
            .filter(|index| {
                index.iter().map(|g| u128::from(g.n_entries)).sum::<u128>() == u128::from(n_entries)
            })
            .ok_or_else(|| {
                corrupt(
                    start,
                    "the index contradicts the header, the footer or itself",
                )
            })?;
        Ok((index, index_offset))
    }

    /// Reads the block at `offset`, which ends at `end` at the latest. Returns payload and crc.
    pub(super) fn block(
        &mut self,
        offset: u64,
        end: u64,
        kind: BlockKind,
        mut payload: Vec<u8>,
    ) -> Result<(Vec<u8>, u32), StateError> {
        let room = end
            .checked_sub(offset)
            .and_then(|n| n.checked_sub(FRAME_BYTES as u64));
        let Some(room) = room else {
            return Err(corrupt(offset.min(end), "the file ends within a block"));
        };
        let mut frame = [0; FRAME_BYTES];
        self.read(offset, &mut frame)?;
        if frame[..4] != [kind as u8, 0, 0, 0] {
            return Err(corrupt(
                offset,
                "there is no block of the kind expected here",
            ));
        }
        let length = u32::from_le_bytes([frame[4], frame[5], frame[6], frame[7]]);
        if u64::from(length) > room {
            return Err(corrupt(
                offset + 4,
                "a block is longer than the room it has",
            ));
        }
        let start = offset + FRAME_BYTES as u64;
        payload.clear();
        while payload.len() < length as usize {
            let filled = payload.len();
            payload.resize((filled + READ_BYTES).min(length as usize), 0);
            self.read(start + filled as u64, &mut payload[filled..])?;
        }
        let crc = self.seed.crc(offset, [&frame[..8], &payload]);
        if frame[8..] != crc.to_le_bytes() {
            return Err(corrupt(offset, "the checksum of a block does not match"));
        }
        Ok((payload, crc))
    }

    fn read(&mut self, offset: u64, buffer: &mut [u8]) -> Result<(), StateError> {
        self.source
            .read_at(offset, buffer)
            .map_err(|source| StateError::Unreadable { offset, source })
    }
}

fn decode_header(payload: &[u8], offset: u64, version: u16) -> Result<SnapshotHeader, StateError> {
    let mut cursor = Cursor::new(payload);
    match header_fields(&mut cursor, version) {
        Some(header) if cursor.is_at_end() => Ok(header),
        Some(_) | None => Err(corrupt(
            offset + cursor.position() as u64,
            "the header cannot be what a snapshot says of itself",
        )),
    }
}

fn header_fields(cursor: &mut Cursor<'_>, version: u16) -> Option<SnapshotHeader> {
    let checkpoint = CheckpointId(cursor.u64()?);
    let max_parallelism = MaxParallelism::new(cursor.u32()?).ok()?;
    let (first, last) = (KeyGroup(cursor.u16()?), KeyGroup(cursor.u16()?));
    let range = KeyGroupRange::new(first, last)?;
    let whole = KeyGroupRange::all(max_parallelism);
    let contents = match version {
        1 => Contents::All,
        _ => match cursor.u8()? {
            0 => Contents::All,
            1 => Contents::Changes,
            _ => return None,
        },
    };
    let n_states = cursor.u16()?;
    let mut states: Vec<StoredState> = Vec::new();
    for _ in 0..n_states {
        let state = state_fields(cursor)?;
        if states.last().is_some_and(|last| last.id >= state.id) {
            return None;
        }
        states.push(state);
    }
    whole.contains(last).then_some(SnapshotHeader {
        checkpoint,
        contents,
        max_parallelism,
        range,
        states,
    })
}

fn state_fields(cursor: &mut Cursor<'_>) -> Option<StoredState> {
    let id = StateId(cursor.u16()?);
    let kind = StateKind::of_code(cursor.u8()?)?;
    let name = cursor.text()?;
    let n_schemas = cursor.u16()?;
    let mut schemas: Vec<StoredSchema> = Vec::new();
    for _ in 0..n_schemas {
        let index = SchemaIndex(cursor.u8()?);
        if schemas.last().is_some_and(|last| last.index >= index) {
            return None;
        }
        let version = cursor.text()?;
        schemas.push(StoredSchema { index, version });
    }
    Some(StoredState {
        id,
        name,
        kind,
        schemas,
    })
}

/// Groups ascend within the range; blocks fill the room between header and index.
fn decode_index(
    payload: &[u8],
    range: KeyGroupRange,
    (data_offset, index_offset): (u64, u64),
) -> Option<Vec<GroupIndex>> {
    let mut cursor = Cursor::new(payload);
    let n_groups = cursor.u32()?;
    let mut index: Vec<GroupIndex> = Vec::new();
    for _ in 0..n_groups {
        let entry = GroupIndex {
            group: KeyGroup(cursor.u16()?),
            offset: cursor.u64()?,
            n_blocks: cursor.u32()?,
            n_entries: cursor.u64()?,
        };
        let in_order = match index.last() {
            Some(last) => last.group < entry.group && last.offset < entry.offset,
            None => entry.offset == data_offset,
        };
        let plausible = range.contains(entry.group)
            && entry.offset < index_offset
            && entry.n_blocks > 0
            && u64::from(entry.n_blocks) <= entry.n_entries;
        if !in_order || !plausible {
            return None;
        }
        index.push(entry);
    }
    let filled = !index.is_empty() || data_offset == index_offset;
    (cursor.is_at_end() && filled).then_some(index)
}
