//! The wire form of a channel: frames with a length, a version and a checksum.
//!
//! All numbers are little endian.
//!
//! | offset | bytes | field |
//! |---|---|---|
//! | 0 | 4 | length of the frame, header included; at most 1 MiB |
//! | 4 | 4 | crc32c of the whole frame but this field |
//! | 8 | 1 | version, 1 |
//! | 9 | 1 | kind |
//! | 10 | 1 | flags: 1 first fragment of its element, 2 last |
//! | 11 | 1 | zero |
//! | 12 | 4 | channel, as agreed when it was connected |
//! | 16 | 8 | epoch in which the channel was connected |
//! | 24 | 8 | sequence number of the channel and direction, from 0 |
//! | 32 | 8 | bytes of the whole element, the same in all of its fragments |
//! | 40 | | the fragment's bytes |
//!
//! An element larger than a frame spans several, in order; frames of other channels may stand
//! between. What is not as it should be fails the attempt and is never skipped; only frames of
//! another epoch are dropped, before their content is looked at.

mod channel;
mod layout;
mod payload;
#[cfg(test)]
mod tests;

use bytes::Bytes;
use millstream_types::{Disposition, Epoch};

use crate::credit::CreditViolation;

pub use channel::{Arrived, FrameReceiver, FrameSender};
pub use payload::{ElementCodec, EncodeError, UnsupportedColumn};

/// The largest frame, header included.
pub const FRAME_BYTES_MAX: usize = 1 << 20;
/// What stands before the fragment.
pub const HEADER_BYTES: usize = 40;
/// The largest element unless configured otherwise.
pub const ELEMENT_BYTES_MAX: u64 = 64 << 20;

const VERSION: u8 = 1;
const FLAG_FIRST: u8 = 1;
const FLAG_LAST: u8 = 2;

/// A channel between two processes, as numbered when it was connected.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct ChannelId(pub u32);

/// What a frame carries.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
#[repr(u8)]
pub enum FrameKind {
    /// Rows.
    Batch = 1,
    /// A watermark.
    Watermark = 2,
    /// Active or idle.
    Status = 3,
    /// A checkpoint barrier.
    Barrier = 4,
    /// No row follows.
    EndOfData = 5,
    /// Nothing follows.
    EndOfPartition = 6,
    /// Splits for a source reader.
    Splits = 7,
    /// A checkpoint was given up upstream; overtakes.
    Cancel = 16,
    /// A barrier stands in line; overtakes.
    Announce = 17,
    /// Credit, from the receiver to the sender.
    Credit = 18,
}

impl FrameKind {
    const ALL: [Self; 10] = [
        Self::Batch,
        Self::Watermark,
        Self::Status,
        Self::Barrier,
        Self::EndOfData,
        Self::EndOfPartition,
        Self::Splits,
        Self::Cancel,
        Self::Announce,
        Self::Credit,
    ];

    fn from_byte(byte: u8) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| *kind as u8 == byte)
    }

    /// Whether its bytes count against the channel's window.
    pub const fn costs_credit(self) -> bool {
        matches!(self, Self::Batch | Self::Splits)
    }
}

/// A frame that is refused: the link or the peer cannot be trusted, the attempt fails.
#[derive(Debug, thiserror::Error)]
#[error("frame {sequence} of channel {channel} is refused at byte {offset}")]
pub struct FrameError {
    /// The channel, as the frame names it.
    pub channel: u32,
    /// The sequence number, as the frame names it.
    pub sequence: u64,
    /// Where in the frame, or in the element for faults of its content.
    pub offset: u64,
    /// Why.
    #[source]
    pub fault: FrameFault,
}

impl FrameError {
    /// What it asks of the scheduler: the bytes are gone, the attempt cannot go on.
    pub fn disposition(&self) -> Disposition {
        Disposition::FailTask
    }

    /// Whether the frame was damaged or lost on the way, and not written like this by its peer. The
    /// failure's cause is then the link.
    pub fn is_link_fault(&self) -> bool {
        match self.fault {
            FrameFault::Short
            | FrameFault::Length { .. }
            | FrameFault::Checksum { .. }
            | FrameFault::Sequence { .. } => true,
            FrameFault::Version { .. }
            | FrameFault::UnknownKind { .. }
            | FrameFault::Header
            | FrameFault::ElementTooLarge { .. }
            | FrameFault::Fragment(_)
            | FrameFault::Content(_)
            | FrameFault::Arrow(_)
            | FrameFault::Credit(_) => false,
        }
    }

    /// What to do about it.
    pub fn remedy(&self) -> &'static str {
        match self.fault {
            FrameFault::ElementTooLarge { .. } => {
                "raise the limit for one element, or make the records smaller"
            }
            FrameFault::Version { .. } | FrameFault::UnknownKind { .. } => {
                "run the same version of millstream on all taskmanagers"
            }
            FrameFault::Short
            | FrameFault::Length { .. }
            | FrameFault::Checksum { .. }
            | FrameFault::Sequence { .. } => {
                "the attempt is restarted; if it happens again, look at the network between the \
                 two taskmanagers"
            }
            FrameFault::Header
            | FrameFault::Fragment(_)
            | FrameFault::Content(_)
            | FrameFault::Arrow(_)
            | FrameFault::Credit(_) => {
                "the attempt is restarted; if it happens again, something other than this version \
                 of millstream speaks to the data port: restrict who reaches it"
            }
        }
    }
}

/// Why a frame is refused.
#[derive(Debug, thiserror::Error)]
pub enum FrameFault {
    /// Less than a header.
    #[error("it ends within its header")]
    Short,
    /// A length that is not that of the frame, or above 1 MiB.
    #[error(
        "its length field says {declared}, it has {found} bytes, and {FRAME_BYTES_MAX} are allowed"
    )]
    Length {
        /// The field.
        declared: u64,
        /// The bytes.
        found: u64,
    },
    /// Another version.
    #[error("its version is {found}, this process speaks {VERSION}")]
    Version {
        /// The version.
        found: u8,
    },
    /// Damaged on the way.
    #[error("its checksum is {declared:08x}, its bytes have {computed:08x}")]
    Checksum {
        /// The field.
        declared: u32,
        /// Of the bytes.
        computed: u32,
    },
    /// A kind that this process does not know, or not in this direction.
    #[error("kind {found} is not known here")]
    UnknownKind {
        /// The kind.
        found: u8,
    },
    /// Bits that must be zero, or another channel's frame.
    #[error("its header has bits set that mean nothing, or names another channel")]
    Header,
    /// A frame was lost or came twice.
    #[error("frame {expected} was expected: a gap or a repeat")]
    Sequence {
        /// The number expected.
        expected: u64,
    },
    /// An element beyond the limit. Nothing was allocated for it.
    #[error("its element has {declared} bytes, above the limit of {limit}")]
    ElementTooLarge {
        /// Bytes declared.
        declared: u64,
        /// The limit in force.
        limit: u64,
    },
    /// Fragments that do not make up an element.
    #[error("it does not continue its element: {0}")]
    Fragment(&'static str),
    /// Bytes that are no such element.
    #[error("its element cannot be read: {0}")]
    Content(&'static str),
    /// Rows that Arrow refuses.
    #[error("its rows do not fit the schema of the channel")]
    Arrow(#[source] arrow::error::ArrowError),
    /// Sent without credit.
    #[error("the peer does not keep to its credit")]
    Credit(#[source] CreditViolation),
}

/// A frame whose length, version and checksum are as they should be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Frame {
    /// The channel it belongs to.
    pub channel: ChannelId,
    /// The epoch in which the channel was connected.
    pub epoch: Epoch,
    /// Position in the channel and direction.
    pub sequence: u64,
    kind: FrameKind,
    first: bool,
    last: bool,
    element_bytes: u64,
    fragment: Bytes,
}

impl Frame {
    /// Reads a frame, without a copy, and checks it.
    pub fn parse(bytes: Bytes) -> Result<Self, FrameError> {
        let field = |at: usize| u32::from_le_bytes(array(&bytes, at));
        let wide = |at: usize| u64::from_le_bytes(array(&bytes, at));
        let (channel, sequence) = (field(12), wide(24));
        let refuse = |offset, fault| {
            Err(FrameError {
                channel,
                sequence,
                offset,
                fault,
            })
        };
        if bytes.len() < HEADER_BYTES {
            return refuse(bytes.len() as u64, FrameFault::Short);
        }
        let (declared, found) = (u64::from(field(0)), bytes.len() as u64);
        if declared != found || bytes.len() > FRAME_BYTES_MAX {
            return refuse(0, FrameFault::Length { declared, found });
        }
        let (declared, computed) = (field(4), checksum(&bytes));
        // An unknown version may check in another way: it is named before its checksum is doubted.
        if bytes[8] != VERSION {
            return refuse(8, FrameFault::Version { found: bytes[8] });
        }
        if declared != computed {
            return refuse(4, FrameFault::Checksum { declared, computed });
        }
        let Some(kind) = FrameKind::from_byte(bytes[9]) else {
            return refuse(9, FrameFault::UnknownKind { found: bytes[9] });
        };
        let flags = bytes[10];
        if flags & !(FLAG_FIRST | FLAG_LAST) != 0 || bytes[11] != 0 {
            return refuse(10, FrameFault::Header);
        }
        Ok(Self {
            channel: ChannelId(channel),
            epoch: Epoch(wide(16)),
            sequence,
            kind,
            first: flags & FLAG_FIRST != 0,
            last: flags & FLAG_LAST != 0,
            element_bytes: wide(32),
            fragment: bytes.slice(HEADER_BYTES..),
        })
    }

    /// What it carries.
    pub fn kind(&self) -> FrameKind {
        self.kind
    }

    fn error(&self, offset: u64, fault: FrameFault) -> FrameError {
        FrameError {
            channel: self.channel.0,
            sequence: self.sequence,
            offset,
            fault,
        }
    }
}

/// The bytes at this place; zeros behind the end.
fn array<const N: usize>(bytes: &[u8], at: usize) -> [u8; N] {
    let mut found = [0; N];
    if let Some(part) = bytes.get(at..at + N) {
        found.copy_from_slice(part);
    }
    found
}

/// crc32c of the frame but its checksum field.
fn checksum(frame: &[u8]) -> u32 {
    crc32c::crc32c_append(crc32c::crc32c(&frame[..4]), &frame[8..])
}
