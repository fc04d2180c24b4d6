//! Checks an Arrow message before Arrow reads it.
//!
//! Arrow's reader panics on metadata that points outside the body or leaves buffers over, and
//! believes sizes. A peer could make it do so; what passes here is only refused by it, with an error.

use arrow::datatypes::{DataType, FieldRef};
use arrow::ipc::{Buffer, FieldNode, Message, MessageHeader, MetadataVersion, RecordBatch};

/// The longest column of one element. Rows without any bytes (NULLs, no columns) are bounded by
/// nothing else.
const LENGTH_MAX: i64 = 1 << 30;
const ROWS_MAX: i64 = 1 << 24;

/// Refuses types whose columns are not described by their own rows, or whose reader believes what it
/// is told. Returns the offending part of the type.
pub(super) fn check_type(data_type: &DataType) -> Result<(), &DataType> {
    use DataType as D;
    match data_type {
        D::Dictionary(_, _)
        | D::RunEndEncoded(_, _)
        | D::Union(_, _)
        | D::ListView(_)
        | D::LargeListView(_) => Err(data_type),
        D::List(child) | D::LargeList(child) | D::FixedSizeList(child, _) | D::Map(child, _) => {
            check_type(child.data_type())
        }
        D::Struct(fields) => fields
            .iter()
            .try_for_each(|field| check_type(field.data_type())),
        _ => Ok(()),
    }
}

type Checked<T> = Result<T, &'static str>;

/// The record batch of the message, if its nodes and buffers are those of the fields and lie within
/// the body.
pub(super) fn check_message<'a>(
    message: &Message<'a>,
    fields: &[FieldRef],
    body_bytes: usize,
) -> Checked<RecordBatch<'a>> {
    if message.version() != MetadataVersion::V5
        || message.header_type() != MessageHeader::RecordBatch
    {
        return Err("metadata of another version or another message");
    }
    if usize::try_from(message.bodyLength()) != Ok(body_bytes) {
        return Err("a body of another length than its metadata says");
    }
    let batch = message
        .header_as_record_batch()
        .ok_or("metadata without a record batch")?;
    if batch.compression().is_some() {
        return Err("a compressed body");
    }
    if !(0..=ROWS_MAX).contains(&batch.length()) {
        return Err("more rows than an element has");
    }
    let mut walk = Walk {
        nodes: batch.nodes().ok_or("metadata without nodes")?.iter(),
        buffers: batch.buffers().ok_or("metadata without buffers")?.iter(),
        variadic: batch.variadicBufferCounts().into_iter().flatten(),
        body_bytes,
    };
    for field in fields {
        walk.column(field.data_type())?;
    }
    if walk.nodes.next().is_some()
        || walk.buffers.next().is_some()
        || walk.variadic.next().is_some()
    {
        return Err("more columns than the schema has");
    }
    Ok(batch)
}

/// Goes through nodes and buffers as Arrow's reader does.
struct Walk<N, B, V> {
    nodes: N,
    buffers: B,
    variadic: V,
    body_bytes: usize,
}

impl<'a, N, B, V> Walk<N, B, V>
where
    N: Iterator<Item = &'a FieldNode>,
    B: Iterator<Item = &'a Buffer>,
    V: Iterator<Item = i64>,
{
    fn column(&mut self, data_type: &DataType) -> Checked<()> {
        use DataType as D;
        let node = self
            .nodes
            .next()
            .ok_or("fewer columns than the schema has")?;
        let (length, nulls) = (node.length(), node.null_count());
        if !(0..=LENGTH_MAX).contains(&length) || !(0..=length).contains(&nulls) {
            return Err("a column of an impossible length");
        }
        if matches!(data_type, D::Null) {
            return Ok(());
        }
        let validity = self.buffer()?;
        if nulls > 0 && validity < (length as usize).div_ceil(8) {
            return Err("validity of fewer rows than the column has");
        }
        match data_type {
            D::Utf8 | D::Binary => self.whole(4).and_then(|()| self.skip(1)),
            D::LargeUtf8 | D::LargeBinary => self.whole(8).and_then(|()| self.skip(1)),
            D::Utf8View | D::BinaryView => {
                let count = self
                    .variadic
                    .next()
                    .ok_or("a view column without buffer count")?;
                let count = u32::try_from(count).map_err(|_| "an impossible number of buffers")?;
                self.whole(16)?;
                self.skip(count)
            }
            D::List(child) | D::Map(child, _) => {
                self.whole(4)?;
                self.column(child.data_type())
            }
            D::LargeList(child) => {
                self.whole(8)?;
                self.column(child.data_type())
            }
            D::FixedSizeList(child, _) => self.column(child.data_type()),
            D::Struct(fields) => fields
                .iter()
                .try_for_each(|field| self.column(field.data_type())),
            other => self.whole(other.primitive_width().unwrap_or(1)),
        }
    }

    /// The next buffer holds whole values of this width: Arrow asserts it for offsets and views.
    fn whole(&mut self, width: usize) -> Checked<()> {
        let length = self.buffer()?;
        if length.is_multiple_of(width) {
            Ok(())
        } else {
            Err("a buffer that cuts a value")
        }
    }

    fn skip(&mut self, buffers: u32) -> Checked<()> {
        (0..buffers).try_for_each(|_| self.whole(1))
    }

    /// The length of the next buffer, which lies within the body.
    fn buffer(&mut self) -> Checked<usize> {
        let buffer = self
            .buffers
            .next()
            .ok_or("fewer buffers than the columns need")?;
        let outside = "a buffer outside the body";
        let offset = usize::try_from(buffer.offset()).map_err(|_| outside)?;
        let length = usize::try_from(buffer.length()).map_err(|_| outside)?;
        let end = offset.checked_add(length).ok_or(outside)?;
        if end > self.body_bytes {
            Err(outside)
        } else {
            Ok(length)
        }
    }
}
