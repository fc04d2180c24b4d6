//! The key encoding: where state lives follows from it.

use std::sync::Arc;

use arrow::array::{
    Array, ArrayRef, BinaryArray, BooleanArray, Decimal128Array, Float64Array, Int32Array,
    RecordBatch, StringArray,
};
use arrow::datatypes::{DataType, Field, Schema};
use millstream_batch::{KeyBuffer, KeyCodec};

/// Takes values off the data; zeros when it is used up.
struct Values<'d>(&'d [u8]);

impl Values<'_> {
    fn take<const N: usize>(&mut self) -> [u8; N] {
        let mut out = [0; N];
        let n = N.min(self.0.len());
        out[..n].copy_from_slice(&self.0[..n]);
        self.0 = &self.0[n..];
        out
    }

    fn bytes(&mut self) -> Vec<u8> {
        let [len] = self.take();
        let len = usize::from(len % 32).min(self.0.len());
        let (bytes, rest) = self.0.split_at(len);
        self.0 = rest;
        bytes.to_vec()
    }

    fn some<T>(&mut self, value: impl FnOnce(&mut Self) -> T) -> Option<T> {
        let [tag] = self.take();
        (tag % 5 != 0).then(|| value(self))
    }
}

/// One row's columns, as plain values to be compared by the rules of grouping.
#[derive(Clone, Debug, PartialEq)]
struct Row {
    whole: Option<i32>,
    float: Option<u64>,
    text: Option<String>,
    bytes: Option<Vec<u8>>,
    flag: Option<bool>,
    decimal: Option<i128>,
}

/// -0.0 is 0.0, and there is one NaN.
fn grouped(float: f64) -> u64 {
    if float.is_nan() {
        f64::NAN.to_bits()
    } else if float == 0.0 {
        0
    } else {
        float.to_bits()
    }
}

fn schema() -> Schema {
    Schema::new(vec![
        Field::new("whole", DataType::Int32, true),
        Field::new("float", DataType::Float64, true),
        Field::new("text", DataType::Utf8, true),
        Field::new("bytes", DataType::Binary, true),
        Field::new("flag", DataType::Boolean, true),
        Field::new("decimal", DataType::Decimal128(38, 4), true),
    ])
}

pub(super) fn keys(data: &[u8]) {
    let codec = KeyCodec::new(&schema(), &[0, 1, 2, 3, 4, 5]).expect("keys of every kind");
    // Bytes that nobody wrote are refused, or are the one spelling of a key.
    if let Ok(columns) = codec.decode([data]) {
        let records = RecordBatch::try_new(Arc::new(schema()), columns).expect("as declared");
        let mut keys = KeyBuffer::new();
        codec.encode(&records, &mut keys).expect("as declared");
        assert_eq!(keys.key(0), data, "a key has one spelling");
    }

    let mut values = Values(data);
    let mut floats = Vec::new();
    let mut rows = Vec::new();
    while !values.0.is_empty() && rows.len() < 64 {
        let whole = values.some(|v| i32::from_le_bytes(v.take()));
        let float = values.some(|v| f64::from_bits(u64::from_le_bytes(v.take())));
        floats.push(float);
        rows.push(Row {
            whole,
            float: float.map(grouped),
            text: values.some(|v| String::from_utf8_lossy(&v.bytes()).into_owned()),
            bytes: values.some(Values::bytes),
            flag: values.some(|v| v.take::<1>()[0] & 1 == 1),
            decimal: values.some(|v| i128::from(i64::from_le_bytes(v.take()))),
        });
    }
    if rows.is_empty() {
        return;
    }
    let decimals: Decimal128Array = rows.iter().map(|row| row.decimal).collect();
    let bytes: Vec<_> = rows.iter().map(|row| row.bytes.as_deref()).collect();
    let columns: Vec<ArrayRef> = vec![
        Arc::new(rows.iter().map(|row| row.whole).collect::<Int32Array>()),
        Arc::new(Float64Array::from(floats)),
        Arc::new(
            rows.iter()
                .map(|row| row.text.as_deref())
                .collect::<StringArray>(),
        ),
        Arc::new(BinaryArray::from_opt_vec(bytes)),
        Arc::new(rows.iter().map(|row| row.flag).collect::<BooleanArray>()),
        Arc::new(
            decimals
                .with_precision_and_scale(38, 4)
                .expect("64 bits fit"),
        ),
    ];
    let records = RecordBatch::try_new(Arc::new(schema()), columns).expect("as declared");
    let mut keys = KeyBuffer::new();
    codec.encode(&records, &mut keys).expect("as declared");
    for (i, row) in rows.iter().enumerate() {
        for (j, other) in rows.iter().enumerate().skip(i) {
            let same = keys.key(i) == keys.key(j);
            assert_eq!(same, row == other, "rows {row:?} and {other:?}");
        }
    }
    let decoded = codec.decode(keys.iter()).expect("what was encoded");
    let again = RecordBatch::try_new(Arc::new(schema()), decoded).expect("as declared");
    let mut keys_again = KeyBuffer::new();
    codec.encode(&again, &mut keys_again).expect("as declared");
    assert!(
        keys.iter().eq(keys_again.iter()),
        "a key gives itself again"
    );
    assert_eq!(again.column(2).len(), rows.len());
}
