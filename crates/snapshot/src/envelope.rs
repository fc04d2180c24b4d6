//! The frame around everything that is stored: magic, version, length, checksum.
//!
//! Layout, big-endian: magic (8 bytes), version u16, flags u16 (0), length of the whole u64,
//! xxh3-128 of everything but itself, body. So every altered bit, a cut and an appended byte are
//! found before a decoder sees the body.

use millstream_types::Checksum;
use xxhash_rust::xxh3::Xxh3Default;

/// Magic, version, flags, length.
const HEAD: usize = 20;
const HEADER: usize = HEAD + 16;

/// A kind of stored object.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Kind {
    pub(crate) magic: &'static [u8; 8],
    /// The version that is written, and the newest that is read.
    pub(crate) version: u16,
}

/// Bytes that are not a whole object of the kind that was asked for.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum EnvelopeFault {
    /// They do not begin as it does.
    #[error("its first bytes are not {expected:?}")]
    Magic {
        /// What they should be.
        expected: String,
    },
    /// Written by another version of Millstream.
    #[error("it has format version {found}, this build reads 1 to {newest}")]
    Version {
        /// The version found.
        found: u16,
        /// The newest that is read.
        newest: u16,
    },
    /// Cut short, or followed by something.
    #[error("it has {found} bytes where {expected} were written")]
    Length {
        /// What was written, or the shortest possible.
        expected: u64,
        /// What is there.
        found: u64,
    },
    /// Some byte is not what was written.
    #[error("its checksum is {found} where {expected} was written")]
    Checksum {
        /// As written.
        expected: Checksum,
        /// As computed.
        found: Checksum,
    },
}

/// Puts the frame around a body.
pub(crate) fn seal(kind: Kind, body: &[u8]) -> Vec<u8> {
    let length = (HEADER + body.len()) as u64;
    let mut bytes = Vec::with_capacity(HEADER + body.len());
    bytes.extend_from_slice(kind.magic);
    bytes.extend_from_slice(&kind.version.to_be_bytes());
    bytes.extend_from_slice(&[0; 2]);
    bytes.extend_from_slice(&length.to_be_bytes());
    let checksum = checksum(&bytes, body);
    bytes.extend_from_slice(&checksum.0.to_be_bytes());
    bytes.extend_from_slice(body);
    bytes
}

/// The body, once the frame fits.
pub(crate) fn open(kind: Kind, bytes: &[u8]) -> Result<&[u8], EnvelopeFault> {
    let found = bytes.len() as u64;
    let short = || EnvelopeFault::Length {
        expected: HEADER as u64,
        found,
    };
    let magic: [u8; 8] = array(bytes, 0).ok_or_else(short)?;
    if magic != *kind.magic {
        let expected = String::from_utf8_lossy(kind.magic).into_owned();
        return Err(EnvelopeFault::Magic { expected });
    }
    // The version comes first: a later one may have another header.
    let version = u16::from_be_bytes(array(bytes, 8).ok_or_else(short)?);
    if version == 0 || version > kind.version {
        return Err(EnvelopeFault::Version {
            found: version,
            newest: kind.version,
        });
    }
    let (header, body) = bytes.split_at_checked(HEADER).ok_or_else(short)?;
    let expected = u64::from_be_bytes(array(header, 12).ok_or_else(short)?);
    if expected != found {
        return Err(EnvelopeFault::Length { expected, found });
    }
    let expected = Checksum(u128::from_be_bytes(array(header, HEAD).ok_or_else(short)?));
    let found = checksum(&header[..HEAD], body);
    if expected != found {
        return Err(EnvelopeFault::Checksum { expected, found });
    }
    Ok(body)
}

fn array<const N: usize>(bytes: &[u8], at: usize) -> Option<[u8; N]> {
    bytes.get(at..)?.first_chunk().copied()
}

fn checksum(head: &[u8], body: &[u8]) -> Checksum {
    let mut hasher = Xxh3Default::new();
    hasher.update(head);
    hasher.update(body);
    Checksum(hasher.digest128())
}

#[cfg(test)]
mod tests {
    use super::*;

    const KIND: Kind = Kind {
        magic: b"TESTKIND",
        version: 2,
    };

    #[test]
    fn what_was_sealed_is_opened() {
        for body in [&b""[..], b"x", &[7; 1_000]] {
            assert_eq!(open(KIND, &seal(KIND, body)), Ok(body));
        }
    }

    #[test]
    fn every_flipped_bit_every_cut_and_every_appended_byte_is_refused() {
        let sealed = seal(KIND, b"some body");
        for bit in 0..sealed.len() * 8 {
            let mut bytes = sealed.clone();
            bytes[bit / 8] ^= 1 << (bit % 8);
            assert!(open(KIND, &bytes).is_err(), "bit {bit}");
        }
        for length in 0..sealed.len() {
            assert!(open(KIND, &sealed[..length]).is_err(), "cut to {length}");
        }
        let longer = [&sealed[..], b"x"].concat();
        let (expected, found) = (sealed.len() as u64, longer.len() as u64);
        assert_eq!(
            open(KIND, &longer),
            Err(EnvelopeFault::Length { expected, found })
        );
    }

    #[test]
    fn older_versions_are_read_and_newer_ones_refused_with_both_numbers() {
        let at = |version| seal(Kind { version, ..KIND }, b"body");
        assert_eq!(open(KIND, &at(1)), Ok(&b"body"[..]));
        let refused = open(KIND, &at(3)).unwrap_err();
        assert_eq!(
            refused,
            EnvelopeFault::Version {
                found: 3,
                newest: 2
            }
        );
        assert_eq!(
            refused.to_string(),
            "it has format version 3, this build reads 1 to 2"
        );
    }

    #[test]
    fn another_kind_is_named() {
        let other = seal(
            Kind {
                magic: b"OTHERONE",
                version: 1,
            },
            b"",
        );
        let refused = open(KIND, &other).unwrap_err();
        assert_eq!(refused.to_string(), "its first bytes are not \"TESTKIND\"");
    }
}
