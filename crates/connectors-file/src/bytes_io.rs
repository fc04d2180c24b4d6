//! Length-prefixed fields of the state this crate stores.

use bytes::{Buf, BufMut, Bytes, BytesMut};

/// A stored value ends early, or a text in it is none.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Damaged;

pub(crate) fn put_bytes(buffer: &mut BytesMut, bytes: &[u8]) {
    buffer.put_u32(u32::try_from(bytes.len()).expect("a path is shorter than 4 GiB"));
    buffer.put_slice(bytes);
}

pub(crate) fn take_bytes(buffer: &mut Bytes) -> Result<Bytes, Damaged> {
    let length = buffer.try_get_u32().map_err(|_| Damaged)? as usize;
    match length <= buffer.len() {
        true => Ok(buffer.split_to(length)),
        false => Err(Damaged),
    }
}

pub(crate) fn take_text(buffer: &mut Bytes) -> Result<String, Damaged> {
    let bytes = take_bytes(buffer)?;
    String::from_utf8(bytes.into()).map_err(|_| Damaged)
}

pub(crate) fn take_u64(buffer: &mut Bytes) -> Result<u64, Damaged> {
    buffer.try_get_u64().map_err(|_| Damaged)
}
