//! Keys of state entries: one byte string each, the same everywhere.
//!
//! ```text
//! key group   u16 big-endian
//! state id    u16 big-endian
//! key         length (varint), bytes
//! namespace   length (varint), bytes
//! user key    the rest
//! ```
//!
//! A varint takes seven bits a byte, lowest first, in the shortest form. Lengths stand in front,
//! so the entries of a state, of a key and of a namespace each share a prefix that no other entry
//! has, and user keys keep their byte order within it.

use millstream_types::{KeyGroup, MaxParallelism};
use xxhash_rust::xxh3::xxh3_64;

use crate::{StateError, StateId};

/// The longest key, all parts together: 8 MiB.
pub const MAX_KEY_BYTES: usize = 8 << 20;

/// Bytes of key group and state id.
pub(crate) const PREFIX_BYTES: usize = 4;

/// Where an entry lies in a [`ShardedMap`](crate::ShardedMap). Not the hash that decides its key
/// group: within one group the low bits of that one are all alike.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct KeyHash {
    /// Chooses the shard: alike for all entries of one state and key, which are scanned together.
    pub(crate) route: u64,
    /// Chooses the place in the shard.
    pub(crate) entry: u64,
}

/// The parts of an entry's key.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct KeyParts<'a> {
    /// The key group.
    pub group: KeyGroup,
    /// The state.
    pub state: StateId,
    /// The key, as encoded by the exchange.
    pub key: &'a [u8],
    /// The namespace: empty, or a window.
    pub namespace: &'a [u8],
    /// The user key: empty except in maps, lists and timers.
    pub user_key: &'a [u8],
}

impl<'a> KeyParts<'a> {
    /// Takes a key apart; `None` if it is not one.
    pub fn decode(bytes: &'a [u8]) -> Option<Self> {
        let (group, rest) = bytes.split_first_chunk::<2>()?;
        let (state, mut rest) = rest.split_first_chunk::<2>()?;
        let key = take_counted(&mut rest)?;
        let namespace = take_counted(&mut rest)?;
        Some(Self {
            group: KeyGroup(u16::from_be_bytes(*group)),
            state: StateId(u16::from_be_bytes(*state)),
            key,
            namespace,
            user_key: rest,
        })
    }

    fn encode(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.group.0.to_be_bytes());
        out.extend_from_slice(&self.state.0.to_be_bytes());
        put_counted(out, self.key);
        put_counted(out, self.namespace);
        out.extend_from_slice(self.user_key);
    }
}

/// The keys of a slice's entries, in the slice's order. The buffer is reused from slice to slice.
#[derive(Clone, Default, Debug)]
pub struct StateKeys {
    bytes: Vec<u8>,
    ends: Vec<usize>,
    hashes: Vec<KeyHash>,
}

impl StateKeys {
    /// An empty buffer.
    pub fn new() -> Self {
        Self::default()
    }

    /// Forgets the keys and keeps the memory.
    pub fn clear(&mut self) {
        self.bytes.clear();
        self.ends.clear();
        self.hashes.clear();
    }

    /// The number of keys.
    pub fn len(&self) -> usize {
        self.ends.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.ends.is_empty()
    }

    /// Bytes of all keys.
    pub fn byte_len(&self) -> usize {
        self.bytes.len()
    }

    /// Appends one key. Its key group need not follow from `key`: timers are ordered by time
    /// within the group of the key they are for.
    pub fn push(&mut self, parts: KeyParts<'_>) -> Result<(), StateError> {
        let parts_bytes = parts.key.len() + parts.namespace.len() + parts.user_key.len();
        if parts_bytes > MAX_KEY_BYTES - 16 {
            return Err(StateError::TooLarge {
                what: "key",
                bytes: parts_bytes,
                limit: MAX_KEY_BYTES - 16,
            });
        }
        let start = self.bytes.len();
        parts.encode(&mut self.bytes);
        self.hashes.push(hash_of(&self.bytes[start..]));
        self.ends.push(self.bytes.len());
        Ok(())
    }

    /// Appends the key of one state and namespace for every `(encoding, xxh3-64 of it)` of a slice.
    pub fn extend<'a>(
        &mut self,
        state: StateId,
        max: MaxParallelism,
        keys: impl IntoIterator<Item = (&'a [u8], u64)>,
        namespace: &[u8],
    ) -> Result<(), StateError> {
        keys.into_iter().try_for_each(|(key, key_hash)| {
            self.push(KeyParts {
                group: max.key_group(key_hash),
                state,
                key,
                namespace,
                user_key: &[],
            })
        })
    }

    /// Appends a key that is encoded already.
    pub fn push_encoded(&mut self, key: &[u8]) {
        self.bytes.extend_from_slice(key);
        self.hashes.push(hash_of(key));
        self.ends.push(self.bytes.len());
    }

    /// Appends key `index` of other keys.
    pub(crate) fn push_from(&mut self, other: &Self, index: usize) {
        self.bytes.extend_from_slice(other.get(index));
        self.hashes.push(other.hashes[index]);
        self.ends.push(self.bytes.len());
    }

    /// The encoded key at a place.
    ///
    /// # Panics
    /// If there is no such place.
    pub fn get(&self, index: usize) -> &[u8] {
        let start = index.checked_sub(1).map_or(0, |before| self.ends[before]);
        &self.bytes[start..self.ends[index]]
    }

    /// The state of the key at a place.
    ///
    /// # Panics
    /// If there is no such place.
    pub fn state(&self, index: usize) -> StateId {
        state_of(self.get(index))
    }

    /// The key group of the key at a place.
    ///
    /// # Panics
    /// If there is no such place.
    pub fn group(&self, index: usize) -> KeyGroup {
        group_of(self.get(index))
    }

    /// The encoded keys in order.
    pub fn iter(&self) -> impl Iterator<Item = &[u8]> {
        (0..self.len()).map(|index| self.get(index))
    }

    pub(crate) fn hash(&self, index: usize) -> KeyHash {
        self.hashes[index]
    }
}

/// The key group of an encoded key.
pub(crate) fn group_of(key: &[u8]) -> KeyGroup {
    KeyGroup(u16::from_be_bytes([key[0], key[1]]))
}

/// The state of an encoded key.
pub(crate) fn state_of(key: &[u8]) -> StateId {
    StateId(u16::from_be_bytes([key[2], key[3]]))
}

/// The hash of an encoded key: of its bytes alone, so that it is the same after a restore.
pub(crate) fn hash_of(key: &[u8]) -> KeyHash {
    let mut rest = key.get(PREFIX_BYTES..).unwrap_or_default();
    if take_counted(&mut rest).is_none() {
        rest = &[];
    }
    let (head, tail) = key.split_at(key.len() - rest.len());
    let route = xxh3_64(head);
    // Most entries have neither namespace nor user key: their tail is the one byte of length 0.
    let entry = if tail.len() <= 1 {
        route.rotate_left(32)
    } else {
        route.rotate_left(32) ^ xxh3_64(tail)
    };
    KeyHash { route, entry }
}

pub(crate) fn put_counted(out: &mut Vec<u8>, bytes: &[u8]) {
    put_varint(out, bytes.len() as u64);
    out.extend_from_slice(bytes);
}

pub(crate) fn take_counted<'a>(rest: &mut &'a [u8]) -> Option<&'a [u8]> {
    let length = usize::try_from(take_varint(rest)?).ok()?;
    let (bytes, after) = rest.split_at_checked(length)?;
    *rest = after;
    Some(bytes)
}

pub(crate) fn put_varint(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

/// Takes a varint in its shortest form; `None` for anything else.
pub(crate) fn take_varint(rest: &mut &[u8]) -> Option<u64> {
    let mut value = 0u64;
    for (position, &byte) in rest.iter().enumerate().take(10) {
        let bits = u64::from(byte & 0x7f);
        if position == 9 && bits > 1 {
            return None;
        }
        value |= bits << (7 * position);
        if byte < 0x80 {
            if byte == 0 && position > 0 {
                return None;
            }
            *rest = &rest[position + 1..];
            return Some(value);
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parts<'a>(key: &'a [u8], namespace: &'a [u8], user_key: &'a [u8]) -> KeyParts<'a> {
        KeyParts {
            group: KeyGroup(0x0102),
            state: StateId(0x0304),
            key,
            namespace,
            user_key,
        }
    }

    fn encoded(parts: KeyParts<'_>) -> Vec<u8> {
        let mut keys = StateKeys::new();
        keys.push(parts).unwrap();
        keys.get(0).to_vec()
    }

    #[test]
    fn the_encoding_is_the_documented_one() {
        let bytes = encoded(parts(b"key", b"", b"user"));
        assert_eq!(bytes, b"\x01\x02\x03\x04\x03key\x00user");
        let long = encoded(parts(&[7; 300], b"w", b""));
        assert_eq!(long[4..6], [0xac, 0x02]);
        assert_eq!(long.len(), 4 + 2 + 300 + 2);
    }

    #[test]
    fn parts_come_back_and_no_two_of_them_share_a_key() {
        let texts: [&[u8]; 5] = [b"", b"a", b"ab", b"\x00", b"\x01a"];
        let mut seen = std::collections::BTreeSet::new();
        for key in texts {
            for namespace in texts {
                for user_key in texts {
                    let parts = parts(key, namespace, user_key);
                    let bytes = encoded(parts);
                    assert_eq!(KeyParts::decode(&bytes), Some(parts));
                    assert!(seen.insert(bytes));
                }
            }
        }
    }

    #[test]
    fn a_varint_in_a_longer_form_or_above_64_bits_is_refused() {
        for value in [0, 1, 127, 128, 16_383, 16_384, u64::MAX] {
            let mut out = Vec::new();
            put_varint(&mut out, value);
            assert_eq!(take_varint(&mut &out[..]), Some(value));
        }
        for bad in [&[0x80, 0x00][..], &[0xff; 11], &[0x80], &[]] {
            assert_eq!(take_varint(&mut &bad[..]), None, "{bad:?}");
        }
    }

    #[test]
    fn entries_of_one_key_share_their_route_and_differ_in_their_place() {
        let one = hash_of(&encoded(parts(b"k", b"", b"1")));
        let two = hash_of(&encoded(parts(b"k", b"", b"2")));
        assert_eq!(one.route, two.route);
        assert_ne!(one.entry, two.entry);
    }

    #[test]
    fn a_key_above_the_limit_is_refused() {
        let mut keys = StateKeys::new();
        let error = keys
            .push(parts(&vec![0; MAX_KEY_BYTES], b"", b""))
            .unwrap_err();
        assert!(matches!(error, StateError::TooLarge { what: "key", .. }));
        assert!(keys.is_empty());
    }
}
