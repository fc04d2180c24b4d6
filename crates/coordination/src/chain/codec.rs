//! The canonical bytes of an entry: what is stored, and what the hash chain is made of.
//!
//! Big-endian throughout: magic `MSCE`, version u16, total length u32, number u64, previous hash
//! u128, epoch u64, nonce u128, kind u8, the kind's fields, and the xxh3-128 of all of that.

use millstream_types::errors::{self, ErrorCode};
use millstream_types::{CheckpointId, Checksum, Epoch, ObjectName};

use super::entry::{
    CheckpointIds, CompletedCheckpoint, Entry, EntryKind, EntryNumber, RestorePoint, TerminalState,
    WriterNonce,
};

#[cfg(test)]
mod tests;

const MAGIC: &[u8; 4] = b"MSCE";
const VERSION: u16 = 1;
const LENGTH_AT: usize = 6;
const HEADER: usize = 10;
const TRAILER: usize = 16;

/// Bytes that are not an entry of a claim chain.
#[derive(Debug, Clone, PartialEq, Eq, Hash, thiserror::Error)]
pub enum EntryError {
    /// They do not begin as one.
    #[error("not an entry of a claim chain: the first bytes are not \"MSCE\"")]
    NotAnEntry,
    /// Written by a later version of Millstream.
    #[error("claim chain entry has format version {found}, this build reads {VERSION}")]
    UnknownVersion {
        /// The version found.
        found: u16,
    },
    /// Cut short, or followed by something.
    #[error("claim chain entry is {found} bytes long, its header says {expected}")]
    Length {
        /// What the header says; the least possible length if there is no whole header.
        expected: usize,
        /// How many bytes there are.
        found: usize,
    },
    /// Some byte is not what was written.
    #[error("claim chain entry has checksum {found}, expected {expected}")]
    Checksum {
        /// As stored.
        expected: Checksum,
        /// As computed.
        found: Checksum,
    },
    /// The bytes are as written, but what was written makes no sense.
    #[error("claim chain entry has an impossible {field}")]
    Field {
        /// The field.
        field: &'static str,
    },
}

impl EntryError {
    /// Its code.
    pub fn code(&self) -> ErrorCode {
        match self {
            Self::UnknownVersion { .. } => errors::CHAIN_VERSION,
            Self::NotAnEntry | Self::Length { .. } | Self::Checksum { .. } | Self::Field { .. } => {
                errors::CHAIN_DAMAGED
            }
        }
    }

    /// What an operator can do.
    pub fn remedy(&self) -> &'static str {
        match self {
            Self::UnknownVersion { .. } => "Run the version of Millstream that wrote it, or later.",
            Self::NotAnEntry | Self::Length { .. } | Self::Checksum { .. } | Self::Field { .. } => {
                "Restore the object from a copy of the storage, or start a new job from a savepoint."
            }
        }
    }
}

impl Entry {
    /// The bytes that are stored.
    pub fn canonical_bytes(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(192);
        out.extend_from_slice(MAGIC);
        out.extend_from_slice(&VERSION.to_be_bytes());
        out.extend_from_slice(&[0; 4]);
        out.extend_from_slice(&self.number.0.to_be_bytes());
        out.extend_from_slice(&self.prev.0.to_be_bytes());
        out.extend_from_slice(&self.epoch.0.to_be_bytes());
        out.extend_from_slice(&self.nonce.0.to_be_bytes());
        put_kind(&mut out, &self.kind);
        let length = (out.len() + TRAILER) as u32;
        out[LENGTH_AT..HEADER].copy_from_slice(&length.to_be_bytes());
        let checksum = Checksum::of(&out);
        out.extend_from_slice(&checksum.0.to_be_bytes());
        out
    }

    /// Reads what [`Entry::canonical_bytes`] wrote and refuses everything else.
    pub fn from_canonical_bytes(bytes: &[u8]) -> Result<Self, EntryError> {
        let mut reader = Reader {
            rest: checked_body(bytes)?,
        };
        let entry = Self {
            number: EntryNumber(reader.u64("number")?),
            prev: Checksum(reader.u128("previous hash")?),
            epoch: Epoch(reader.u64("epoch")?),
            nonce: WriterNonce(reader.u128("nonce")?),
            kind: reader.kind()?,
        };
        if !reader.rest.is_empty() {
            return Err(EntryError::Field { field: "rest" });
        }
        Ok(entry)
    }
}

/// What stands between header and checksum, once both were found right.
fn checked_body(bytes: &[u8]) -> Result<&[u8], EntryError> {
    let found = bytes.len();
    let Some((header, _)) = bytes.split_first_chunk::<HEADER>() else {
        return Err(EntryError::Length {
            expected: HEADER + TRAILER,
            found,
        });
    };
    let [m0, m1, m2, m3, v0, v1, l0, l1, l2, l3] = *header;
    if [m0, m1, m2, m3] != *MAGIC {
        return Err(EntryError::NotAnEntry);
    }
    let version = u16::from_be_bytes([v0, v1]);
    if version != VERSION {
        return Err(EntryError::UnknownVersion { found: version });
    }
    let expected = u32::from_be_bytes([l0, l1, l2, l3]) as usize;
    if found != expected || found < HEADER + TRAILER {
        return Err(EntryError::Length { expected, found });
    }
    let (content, trailer) = bytes
        .split_last_chunk::<TRAILER>()
        .ok_or(EntryError::Length { expected, found })?;
    let stored = Checksum(u128::from_be_bytes(*trailer));
    let computed = Checksum::of(content);
    if computed != stored {
        return Err(EntryError::Checksum {
            expected: stored,
            found: computed,
        });
    }
    Ok(&content[HEADER..])
}

fn put_kind(out: &mut Vec<u8>, kind: &EntryKind) {
    match kind {
        EntryKind::Claim { ids } => {
            out.push(1);
            put_ids(out, *ids);
        }
        EntryKind::Reserve { ids } => {
            out.push(2);
            put_ids(out, *ids);
        }
        EntryKind::Completed(checkpoint) => {
            out.push(3);
            put_checkpoint(out, checkpoint);
        }
        EntryKind::Terminal(state) => {
            out.push(4);
            out.push(match state {
                TerminalState::Finished => 1,
                TerminalState::Canceled => 2,
                TerminalState::Failed => 3,
            });
        }
        EntryKind::Boundary { retained, ids } => {
            out.push(5);
            put_ids(out, *ids);
            out.extend_from_slice(&(retained.len() as u32).to_be_bytes());
            for point in retained {
                out.extend_from_slice(&point.number.0.to_be_bytes());
                out.extend_from_slice(&point.epoch.0.to_be_bytes());
                put_checkpoint(out, &point.checkpoint);
            }
        }
    }
}

fn put_ids(out: &mut Vec<u8>, ids: CheckpointIds) {
    out.extend_from_slice(&ids.first.0.to_be_bytes());
    out.extend_from_slice(&ids.end.0.to_be_bytes());
}

fn put_checkpoint(out: &mut Vec<u8>, checkpoint: &CompletedCheckpoint) {
    let name = checkpoint.metadata.as_str().as_bytes();
    out.extend_from_slice(&checkpoint.id.0.to_be_bytes());
    out.extend_from_slice(&checkpoint.checksum.0.to_be_bytes());
    // A name has at most 512 bytes: see `ObjectName`.
    out.extend_from_slice(&(name.len() as u16).to_be_bytes());
    out.extend_from_slice(name);
}

struct Reader<'a> {
    rest: &'a [u8],
}

impl<'a> Reader<'a> {
    fn take(&mut self, count: usize, field: &'static str) -> Result<&'a [u8], EntryError> {
        let (taken, rest) = self
            .rest
            .split_at_checked(count)
            .ok_or(EntryError::Field { field })?;
        self.rest = rest;
        Ok(taken)
    }

    fn array<const N: usize>(&mut self, field: &'static str) -> Result<[u8; N], EntryError> {
        let (taken, rest) = self
            .rest
            .split_first_chunk::<N>()
            .ok_or(EntryError::Field { field })?;
        self.rest = rest;
        Ok(*taken)
    }

    fn u8(&mut self, field: &'static str) -> Result<u8, EntryError> {
        Ok(u8::from_be_bytes(self.array(field)?))
    }

    fn u64(&mut self, field: &'static str) -> Result<u64, EntryError> {
        Ok(u64::from_be_bytes(self.array(field)?))
    }

    fn u128(&mut self, field: &'static str) -> Result<u128, EntryError> {
        Ok(u128::from_be_bytes(self.array(field)?))
    }

    fn ids(&mut self) -> Result<CheckpointIds, EntryError> {
        let first = CheckpointId(self.u64("first checkpoint id")?);
        let end = CheckpointId(self.u64("end of checkpoint ids")?);
        if first > end {
            return Err(EntryError::Field {
                field: "range of checkpoint ids",
            });
        }
        Ok(CheckpointIds { first, end })
    }

    fn checkpoint(&mut self) -> Result<CompletedCheckpoint, EntryError> {
        let id = CheckpointId(self.u64("checkpoint id")?);
        let checksum = Checksum(self.u128("metadata checksum")?);
        let length = u16::from_be_bytes(self.array("length of metadata name")?);
        let name = self.take(length.into(), "metadata name")?;
        let metadata = std::str::from_utf8(name)
            .ok()
            .and_then(|name| ObjectName::new(name).ok())
            .ok_or(EntryError::Field {
                field: "metadata name",
            })?;
        Ok(CompletedCheckpoint {
            id,
            metadata,
            checksum,
        })
    }

    fn retained(&mut self) -> Result<Vec<RestorePoint>, EntryError> {
        let count = u32::from_be_bytes(self.array("number of retained checkpoints")?);
        // The count is not trusted with memory: each point is read before there is room for it.
        (0..count)
            .map(|_| {
                Ok(RestorePoint {
                    number: EntryNumber(self.u64("number of retained checkpoint")?),
                    epoch: Epoch(self.u64("epoch of retained checkpoint")?),
                    checkpoint: self.checkpoint()?,
                })
            })
            .collect()
    }

    fn kind(&mut self) -> Result<EntryKind, EntryError> {
        Ok(match self.u8("kind")? {
            1 => EntryKind::Claim { ids: self.ids()? },
            2 => EntryKind::Reserve { ids: self.ids()? },
            3 => EntryKind::Completed(self.checkpoint()?),
            4 => EntryKind::Terminal(match self.u8("terminal state")? {
                1 => TerminalState::Finished,
                2 => TerminalState::Canceled,
                3 => TerminalState::Failed,
                _ => {
                    return Err(EntryError::Field {
                        field: "terminal state",
                    });
                }
            }),
            5 => {
                let ids = self.ids()?;
                EntryKind::Boundary {
                    retained: self.retained()?,
                    ids,
                }
            }
            _ => return Err(EntryError::Field { field: "kind" }),
        })
    }
}
