//! Many values in one flat buffer.

use crate::{SchemaIndex, StateError};

/// The longest value, its schema byte included: 256 MiB.
pub const MAX_VALUE_BYTES: usize = 256 << 20;

/// A value as it is stored: the bytes and the schema they were written with.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Value<'a> {
    /// The schema, among those of the value's state.
    pub schema: SchemaIndex,
    /// The encoding in that schema.
    pub bytes: &'a [u8],
}

/// Values in the order of the keys they belong to; a key may have none. The buffer is reused
/// from slice to slice.
#[derive(Clone, Default, PartialEq, Eq, Debug)]
pub struct ValueBuffer {
    bytes: Vec<u8>,
    ends: Vec<usize>,
}

impl ValueBuffer {
    /// An empty buffer.
    pub fn new() -> Self {
        Self::default()
    }

    /// Forgets the values and keeps the memory.
    pub fn clear(&mut self) {
        self.bytes.clear();
        self.ends.clear();
    }

    /// The number of places, those without a value included.
    pub fn len(&self) -> usize {
        self.ends.len()
    }

    /// Whether there is no place at all.
    pub fn is_empty(&self) -> bool {
        self.ends.is_empty()
    }

    /// Bytes of all values.
    pub fn byte_len(&self) -> usize {
        self.bytes.len()
    }

    /// Appends a value.
    pub fn push(&mut self, schema: SchemaIndex, bytes: &[u8]) {
        self.push_with(schema, |buffer| buffer.extend_from_slice(bytes));
    }

    /// Appends a value that `encode` writes behind what the vector holds already.
    pub fn push_with(&mut self, schema: SchemaIndex, encode: impl FnOnce(&mut Vec<u8>)) {
        self.bytes.push(schema.0);
        encode(&mut self.bytes);
        self.ends.push(self.bytes.len());
    }

    /// Appends a place without a value. Put to a backend, it deletes.
    pub fn push_absent(&mut self) {
        self.ends.push(self.bytes.len());
    }

    /// Appends a value as stored, its schema byte in front. An empty one stands for none.
    pub fn push_stored(&mut self, stored: Option<&[u8]>) {
        self.bytes.extend_from_slice(stored.unwrap_or_default());
        self.ends.push(self.bytes.len());
    }

    /// The value at a place; none if it has none.
    ///
    /// # Panics
    /// If there is no such place.
    pub fn get(&self, index: usize) -> Option<Value<'_>> {
        let (&schema, bytes) = self.stored(index)?.split_first()?;
        Some(Value {
            schema: SchemaIndex(schema),
            bytes,
        })
    }

    /// The value as stored, its schema byte in front.
    ///
    /// # Panics
    /// If there is no such place.
    pub fn stored(&self, index: usize) -> Option<&[u8]> {
        let start = index.checked_sub(1).map_or(0, |before| self.ends[before]);
        let stored = &self.bytes[start..self.ends[index]];
        // A stored value has at least its schema byte, so no bytes means no value.
        (!stored.is_empty()).then_some(stored)
    }

    /// Every place in order.
    pub fn iter(&self) -> impl Iterator<Item = Option<Value<'_>>> {
        (0..self.len()).map(|index| self.get(index))
    }

    /// Refuses a value above [`MAX_VALUE_BYTES`].
    pub fn check(&self) -> Result<(), StateError> {
        if self.bytes.len() <= MAX_VALUE_BYTES {
            return Ok(());
        }
        let lengths = (0..self.len()).map(|index| self.stored(index).map_or(0, <[u8]>::len));
        match lengths.max() {
            Some(bytes) if bytes > MAX_VALUE_BYTES => Err(StateError::TooLarge {
                what: "value",
                bytes,
                limit: MAX_VALUE_BYTES,
            }),
            _ => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_empty_value_is_not_the_same_as_none() {
        let mut values = ValueBuffer::new();
        values.push(SchemaIndex(3), b"");
        values.push_absent();
        values.push(SchemaIndex(0), b"x");
        let found: Vec<_> = values.iter().map(|v| v.map(|v| v.bytes.to_vec())).collect();
        assert_eq!(found, [Some(vec![]), None, Some(b"x".to_vec())]);
        assert_eq!(values.get(0).unwrap().schema, SchemaIndex(3));
    }

    #[test]
    fn a_value_above_the_limit_is_refused_with_its_length() {
        let mut values = ValueBuffer::new();
        values.push_with(SchemaIndex(0), |b| b.resize(b.len() + MAX_VALUE_BYTES, 0));
        let error = values.check().unwrap_err();
        assert!(error.to_string().contains("268435457 bytes"), "{error}");
    }
}
