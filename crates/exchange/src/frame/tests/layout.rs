//! An Arrow message is checked number by number before Arrow believes it.

use arrow::array::{
    FixedSizeListArray, Int32Array, LargeBinaryArray, LargeListArray, LargeStringArray, MapArray,
    MapBuilder, StringBuilder,
};
use arrow::ipc::{Message, RecordBatch as Described, root_as_message};

use super::super::layout::{check_message, check_type};
use super::super::payload::Encoded;
use super::*;

/// A number of the message and where it stands.
#[derive(Clone, Copy, Debug)]
enum Place {
    /// Rows of the batch.
    Rows,
    /// Bytes of the body.
    Body,
    /// Rows of the column at this position of the tree.
    Length(usize),
    Nulls(usize),
    /// Where this buffer begins, and its bytes.
    Offset(usize),
    Bytes(usize),
    /// Buffers that this view column has beside its views.
    Views(usize),
}

struct Sent {
    schema: SchemaRef,
    metadata: Vec<u8>,
    body: usize,
}

fn sent(batch: &Batch) -> Sent {
    let schema = batch.schema();
    let codec = ElementCodec::new(&schema, ELEMENT_BYTES_MAX).unwrap();
    let Encoded { head, body, .. } = codec
        .encode(NOW, &Element::Batch(batch.clone()))
        .expect("rows that are sent");
    let length = u32::from_le_bytes([head[4], head[5], head[6], head[7]]) as usize;
    Sent {
        schema,
        metadata: head[8..8 + length].to_vec(),
        body: body.len(),
    }
}

fn column(array: impl arrow::array::Array + 'static) -> Batch {
    let array: ArrayRef = Arc::new(array);
    Batch::new(RecordBatch::try_from_iter_with_nullable([("c", array, true)]).unwrap())
}

impl Sent {
    fn check(&self) -> Result<(), &'static str> {
        let message = root_as_message(&self.metadata).unwrap();
        check_message(&message, self.schema.fields(), self.body).map(|_| ())
    }

    fn position(&self, place: Place) -> usize {
        let message = root_as_message(&self.metadata).unwrap();
        let batch = message.header_as_record_batch().unwrap();
        let within = |part: &[u8]| part.as_ptr().addr() - self.metadata.as_ptr().addr();
        let nodes = within(batch.nodes().unwrap().bytes());
        let buffers = within(batch.buffers().unwrap().bytes());
        match place {
            Place::Rows => {
                let table = batch._tab;
                table.loc() + usize::from(table.vtable().get(Described::VT_LENGTH))
            }
            Place::Body => {
                let table = message._tab;
                table.loc() + usize::from(table.vtable().get(Message::VT_BODYLENGTH))
            }
            Place::Length(node) => nodes + 16 * node,
            Place::Nulls(node) => nodes + 16 * node + 8,
            Place::Offset(buffer) => buffers + 16 * buffer,
            Place::Bytes(buffer) => buffers + 16 * buffer + 8,
            Place::Views(n) => within(batch.variadicBufferCounts().unwrap().bytes()) + 8 * n,
        }
    }

    /// What the check says if this number is another.
    fn with(&self, place: Place, number: i64) -> Result<(), &'static str> {
        let at = self.position(place);
        let mut metadata = self.metadata.clone();
        metadata[at..at + 8].copy_from_slice(&number.to_le_bytes());
        Self {
            schema: Arc::clone(&self.schema),
            metadata,
            body: self.body,
        }
        .check()
    }

    fn get(&self, place: Place) -> i64 {
        let at = self.position(place);
        i64::from_le_bytes(array(&self.metadata, at))
    }
}

fn map() -> MapArray {
    let mut builder = MapBuilder::new(None, StringBuilder::new(), StringBuilder::new());
    builder.keys().append_value("k");
    builder.values().append_value("v");
    builder.append(true).unwrap();
    builder.finish()
}

/// Columns of every layout, and the width that each of their buffers is a multiple of.
fn columns() -> Vec<(Batch, Vec<i64>)> {
    let ints = |n: i32| Some((0..n).map(Some).collect::<Vec<_>>());
    let large = LargeListArray::from_iter_primitive::<Int32Type, _, _>([ints(3)]);
    let lists = ListArray::from_iter_primitive::<Int32Type, _, _>([ints(3)]);
    let pairs = FixedSizeListArray::from_iter_primitive::<Int32Type, _, _>([ints(2), ints(2)], 2);
    let flags = BooleanArray::from(vec![true, false]);
    let fixed = FixedSizeBinaryArray::try_from_iter([b"abc", b"def"].into_iter()).unwrap();
    vec![
        (column(Int64Array::from(vec![1, 2, 3])), vec![1, 8]),
        (column(Int32Array::from(vec![1, 2, 3])), vec![1, 4]),
        (column(Decimal128Array::from(vec![1, 2])), vec![1, 16]),
        (column(flags), vec![1, 1]),
        (column(fixed), vec![1, 1]),
        (column(StringArray::from(vec!["ab", "c"])), vec![1, 4, 1]),
        (
            column(LargeStringArray::from(vec!["ab", "c"])),
            vec![1, 8, 1],
        ),
        (
            column(LargeBinaryArray::from(vec![b"ab".as_ref()])),
            vec![1, 8, 1],
        ),
        (
            column(StringViewArray::from(vec!["longer than twelve bytes"])),
            vec![1, 16, 1],
        ),
        (column(lists), vec![1, 4, 1, 4]),
        (column(large), vec![1, 8, 1, 4]),
        (column(pairs), vec![1, 1, 4]),
        (column(map()), vec![1, 4, 1, 1, 4, 1, 1, 4, 1]),
        (column(NullArray::new(3)), vec![]),
        (mixed(), vec![]),
    ]
}

#[test]
fn what_is_sent_is_taken_whatever_its_columns() {
    for (batch, _) in columns() {
        assert_eq!(sent(&batch).check(), Ok(()), "{}", batch.schema());
    }
}

#[test]
fn a_buffer_that_cuts_a_value_or_leaves_the_body_is_refused() {
    for (batch, widths) in columns() {
        let sent = sent(&batch);
        for (buffer, width) in widths.iter().enumerate() {
            let (bytes, offset) = (Place::Bytes(buffer), Place::Offset(buffer));
            // Another whole value is no lie that can be seen here; what is less than one is.
            let room = sent.body as i64 - sent.get(offset);
            for cut in 1..*width {
                let refused = Err("a buffer that cuts a value");
                assert_eq!(sent.with(bytes, cut), refused, "{buffer} of {batch:?}");
            }
            assert_eq!(sent.with(bytes, room / width * width), Ok(()));
            let outside = Err("a buffer outside the body");
            let length = sent.get(bytes);
            assert_eq!(sent.with(bytes, room + 1), outside);
            assert_eq!(sent.with(offset, sent.body as i64 - length), Ok(()));
            assert_eq!(sent.with(offset, sent.body as i64 - length + 1), outside);
            for number in [-1, i64::MIN] {
                assert_eq!(sent.with(bytes, number), outside);
                assert_eq!(sent.with(offset, number), outside);
            }
        }
    }
}

#[test]
fn numbers_of_rows_that_no_element_has_are_refused() {
    let sent = sent(&column(Int64Array::from(vec![Some(1), None, Some(3)])));
    let too_many = Err("more rows than an element has");
    for rows in [-1, (1 << 24) + 1, i64::MAX] {
        assert_eq!(sent.with(Place::Rows, rows), too_many);
    }
    assert_eq!(sent.with(Place::Rows, 1 << 24), Ok(()));
    let impossible = Err("a column of an impossible length");
    for length in [-1, 0, (1 << 30) + 1] {
        assert_eq!(sent.with(Place::Length(0), length), impossible, "{length}");
    }
    for nulls in [-1, 4] {
        assert_eq!(sent.with(Place::Nulls(0), nulls), impossible);
    }
    for nulls in [0, 3] {
        assert_eq!(sent.with(Place::Nulls(0), nulls), Ok(()));
    }
    let longer = Err("a body of another length than its metadata says");
    for bytes in [-1, 0, sent.body as i64 + 1] {
        assert_eq!(sent.with(Place::Body, bytes), longer);
    }
}

#[test]
fn a_column_with_nulls_says_of_each_row_whether_it_is_one() {
    let rows = |n: i64| Int64Array::from_iter((0..n).map(|i| (i > 0).then_some(i)));
    let fewer = Err("validity of fewer rows than the column has");
    for (n, bytes) in [(8, 1), (9, 2)] {
        let sent = sent(&column(rows(n)));
        assert_eq!(sent.with(Place::Bytes(0), bytes), Ok(()));
        assert_eq!(sent.with(Place::Bytes(0), bytes - 1), fewer, "{n} rows");
    }
    // Without a NULL nothing is said.
    let none = sent(&column(Int64Array::from(vec![1; 9])));
    assert_eq!(none.with(Place::Bytes(0), 0), Ok(()));
    assert_eq!(none.with(Place::Length(0), 1 << 30), Ok(()));
    assert_eq!(none.with(Place::Nulls(0), 1), fewer);
}

#[test]
fn more_or_fewer_columns_than_the_schema_has_are_refused() {
    let longer = sent(&mixed());
    let shorter = |n: usize| {
        let fields = longer.schema.fields()[..n].to_vec();
        let message = root_as_message(&longer.metadata).unwrap();
        check_message(&message, &fields, longer.body).map(|_| ())
    };
    for n in 0..longer.schema.fields().len() {
        assert_eq!(shorter(n), Err("more columns than the schema has"), "{n}");
    }
    let one = sent(&column(Int64Array::from(vec![1])));
    let with_fields = |data_types: &[DataType]| {
        let fields = data_types.iter().map(|data_type| {
            let field = Field::new("c", data_type.clone(), true);
            Arc::new(field)
        });
        let message = root_as_message(&one.metadata).unwrap();
        let fields: Vec<_> = fields.collect();
        check_message(&message, &fields, one.body).map(|_| ())
    };
    let fewer = Err("fewer columns than the schema has");
    assert_eq!(with_fields(&[DataType::Int64, DataType::Int64]), fewer);
    let buffers = Err("fewer buffers than the columns need");
    assert_eq!(with_fields(&[DataType::LargeUtf8]), buffers);
    let views = Err("a view column without buffer count");
    assert_eq!(with_fields(&[DataType::Utf8View]), views);

    let views = sent(&column(StringViewArray::from(vec![
        "longer than twelve bytes",
    ])));
    assert_eq!(views.with(Place::Views(0), 2), buffers);
    let left = Err("more columns than the schema has");
    assert_eq!(views.with(Place::Views(0), 0), left);
    let impossible = Err("an impossible number of buffers");
    assert_eq!(views.with(Place::Views(0), -1), impossible);
}

#[test]
fn types_that_need_more_than_their_own_rows_are_refused_wherever_they_stand() {
    let text = || Arc::new(Field::new("t", DataType::Utf8, true));
    let dictionary = DataType::Dictionary(Box::new(DataType::Int32), Box::new(DataType::Utf8));
    for refused in [
        dictionary,
        DataType::ListView(text()),
        DataType::LargeListView(text()),
        DataType::RunEndEncoded(text(), text()),
    ] {
        let part = || Arc::new(Field::new("part", refused.clone(), true));
        for data_type in [
            refused.clone(),
            DataType::List(part()),
            DataType::LargeList(part()),
            DataType::FixedSizeList(part(), 2),
            DataType::Map(part(), false),
            DataType::Struct(vec![text(), part()].into()),
            DataType::List(Arc::new(Field::new("l", DataType::List(part()), true))),
        ] {
            assert_eq!(check_type(&data_type), Err(&refused), "{data_type}");
        }
    }
    for (batch, _) in columns() {
        for field in batch.schema().fields() {
            assert_eq!(check_type(field.data_type()), Ok(()));
        }
    }
}
