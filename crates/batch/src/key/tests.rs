//! The properties that the key encoding is built for.

use std::sync::Arc;

use arrow::array::*;
use arrow::datatypes::*;
use proptest::prelude::*;

use super::vectors::VECTORS;
use super::*;

fn encode(columns: &[ArrayRef]) -> (KeyCodec, KeyBuffer) {
    let named = columns
        .iter()
        .enumerate()
        .map(|(i, column)| (format!("c{i}"), column.clone(), true));
    let batch = RecordBatch::try_from_iter_with_nullable(named).unwrap();
    let all: Vec<usize> = (0..columns.len()).collect();
    let codec = KeyCodec::new(&batch.schema(), &all).unwrap();
    let mut keys = KeyBuffer::new();
    codec.encode(&batch, &mut keys).unwrap();
    (codec, keys)
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[test]
fn the_published_vectors_hold() {
    for vector in VECTORS {
        let (_, keys) = encode(&[(vector.value)()]);
        assert_eq!(hex(keys.key(0)), vector.key, "{}", vector.name);
        assert_eq!(keys.hash(0), vector.hash, "{}", vector.name);
    }
}

#[test]
fn several_columns_stand_one_after_the_other() {
    let columns: [ArrayRef; 3] = [
        Arc::new(StringArray::from(vec![Some("a"), None])),
        Arc::new(Int16Array::from(vec![Some(1), Some(2)])),
        Arc::new(NullArray::new(2)),
    ];
    let (codec, keys) = encode(&columns);
    assert_eq!(hex(keys.key(0)), "05016102800000000000000100");
    assert_eq!(hex(keys.key(1)), "0002800000000000000200");
    assert_eq!(codec.decode(keys.iter()).unwrap(), columns);
}

#[test]
fn a_key_without_columns_is_one_empty_key() {
    let batch = RecordBatch::try_from_iter([("n", Arc::new(Int8Array::from(vec![1, 2])) as _)]);
    let batch = batch.unwrap();
    let codec = KeyCodec::new(&batch.schema(), &[]).unwrap();
    let mut keys = KeyBuffer::new();
    codec.encode(&batch, &mut keys).unwrap();
    assert_eq!(keys.iter().collect::<Vec<_>>(), [b"", b""]);
}

fn numbers() -> Vec<ArrayRef> {
    vec![
        Arc::new(NullArray::new(3)),
        Arc::new(BooleanArray::from(vec![Some(true), None, Some(false)])),
        Arc::new(Int8Array::from(vec![Some(i8::MIN), None, Some(i8::MAX)])),
        Arc::new(Int64Array::from(vec![Some(i64::MIN), None, Some(i64::MAX)])),
        Arc::new(UInt8Array::from(vec![Some(0), None, Some(u8::MAX)])),
        Arc::new(UInt32Array::from(vec![Some(0), None, Some(u32::MAX)])),
        Arc::new(UInt64Array::from(vec![Some(1 << 63), None, Some(u64::MAX)])),
        Arc::new(Float32Array::from(vec![
            Some(f32::MIN),
            None,
            Some(f32::INFINITY),
        ])),
        Arc::new(Float64Array::from(vec![
            Some(-1e-300),
            None,
            Some(f64::NEG_INFINITY),
        ])),
        Arc::new(Float64Array::from(vec![Some(1.0), None, Some(2.0)])),
    ]
}

fn texts_and_bytes() -> Vec<ArrayRef> {
    let long = "x".repeat(20_000);
    vec![
        Arc::new(StringArray::from(vec![Some(""), None, Some(&*long)])),
        Arc::new(LargeStringArray::from(vec![Some("a\0b"), None, Some("ü")])),
        Arc::new(StringViewArray::from(vec![
            Some("longer than twelve"),
            None,
            Some(""),
        ])),
        Arc::new(BinaryArray::from(vec![
            Some(b"\xff".as_ref()),
            None,
            Some(b""),
        ])),
        Arc::new(LargeBinaryArray::from(vec![
            Some(b"\xff".as_ref()),
            None,
            Some(b""),
        ])),
        Arc::new(BinaryViewArray::from(vec![
            Some(b"\xff".as_ref()),
            None,
            Some(b""),
        ])),
        Arc::new(
            FixedSizeBinaryArray::try_from_sparse_iter_with_size(
                [Some(b"ab"), None, Some(b"cd")].into_iter(),
                2,
            )
            .unwrap(),
        ),
    ]
}

fn times_and_decimals() -> Vec<ArrayRef> {
    vec![
        Arc::new(Date32Array::from(vec![
            Some(i32::MIN),
            None,
            Some(i32::MAX),
        ])),
        Arc::new(Time32SecondArray::from(vec![Some(0), None, Some(86_399)])),
        Arc::new(Time32MillisecondArray::from(vec![
            Some(1),
            None,
            Some(86_399_999),
        ])),
        Arc::new(Time64NanosecondArray::from(vec![
            Some(1),
            None,
            Some(i64::MAX),
        ])),
        Arc::new(TimestampSecondArray::from(vec![
            Some(i64::MIN),
            None,
            Some(i64::MAX),
        ])),
        Arc::new(
            TimestampMicrosecondArray::from(vec![Some(i64::MIN), None, Some(i64::MAX)])
                .with_timezone("+02:00"),
        ),
        Arc::new(TimestampNanosecondArray::from(vec![
            Some(i64::MIN),
            None,
            Some(i64::MAX),
        ])),
        Arc::new(DurationMillisecondArray::from(vec![
            Some(-1),
            None,
            Some(i64::MAX),
        ])),
        Arc::new(
            Decimal64Array::from(vec![Some(-12_345), None, Some(1)])
                .with_precision_and_scale(10, 3)
                .unwrap(),
        ),
    ]
}

#[test]
fn every_supported_type_is_read_back_from_its_key() {
    let columns = [numbers(), texts_and_bytes(), times_and_decimals()].concat();
    let (codec, keys) = encode(&columns);
    assert_eq!(codec.decode(keys.iter()).unwrap(), columns);
}

#[test]
fn a_type_without_an_encoding_is_refused_by_name() {
    let list = DataType::new_list(DataType::Int32, true);
    let schema = Schema::new(vec![Field::new("tags", list, true)]);
    let error = KeyCodec::new(&schema, &[0]).unwrap_err().to_string();
    assert!(error.starts_with("column \"tags\" is List("), "{error}");
    assert_eq!(
        KeyCodec::new(&schema, &[3]).unwrap_err(),
        KeyError::NoSuchColumn {
            index: 3,
            columns: 1
        }
    );
    let number = Schema::new(vec![Field::new("n", DataType::Int64, true)]);
    let codec = KeyCodec::new(&number, &[0]).unwrap();
    let other = RecordBatch::try_from_iter([("n", Arc::new(Int32Array::from(vec![1])) as _)]);
    assert_eq!(
        codec
            .encode(&other.unwrap(), &mut KeyBuffer::new())
            .unwrap_err()
            .to_string(),
        "key column \"n\" is Int32, but the stream's schema says Int64"
    );
}

#[test]
fn bytes_that_are_no_key_are_refused_with_their_place() {
    let schema = Schema::new(vec![
        Field::new("a", DataType::Int8, true),
        Field::new("b", DataType::Utf8, true),
    ]);
    let codec = KeyCodec::new(&schema, &[0, 1]).unwrap();
    let cases: [(&[u8], usize, &str, &str); 8] = [
        (b"", 0, "a", ENDS),
        (
            b"\x02\x80\x00\x00\x00\x00\x00\x01\x00\x00",
            0,
            "a",
            "a value that the column cannot hold",
        ),
        (b"\x05\x00\x00", 0, "a", "a value of another type"),
        (b"\x00\x05\x02a", 1, "b", ENDS),
        (b"\x00\x05\x01\xff", 1, "b", "text that is not UTF-8"),
        (
            b"\x00\x05\x80\x00",
            1,
            "b",
            "a length that is not in its shortest form",
        ),
        (
            b"\x00\x05\xff\xff\xff\xff\xff\xff\xff\xff\xff\x7f",
            1,
            "b",
            "a length that is not in its shortest form",
        ),
        (b"\x00\x00\x00", 2, "b", "bytes left over"),
    ];
    for (key, offset, column, found) in cases {
        let good: &[u8] = b"\x00\x00";
        let expected = KeyError::Malformed {
            key_index: 1,
            column: column.into(),
            offset,
            found,
        };
        assert_eq!(codec.decode([good, key]).unwrap_err(), expected, "{key:x?}");
    }
}

const ENDS: &str = "the end of the key";

fn value() -> impl Strategy<Value = (Option<String>, Option<Vec<u8>>, Option<i64>, f64)> {
    (
        any::<Option<String>>(),
        any::<Option<Vec<u8>>>(),
        any::<Option<i64>>(),
        any::<f64>(),
    )
}

proptest! {
    /// Equal keys have equal bytes and different keys different bytes, over several columns.
    #[test]
    fn the_encoding_is_injective(rows in prop::collection::vec(value(), 1..20)) {
        let columns: [ArrayRef; 4] = [
            Arc::new(rows.iter().map(|row| row.0.clone()).collect::<StringArray>()),
            Arc::new(rows.iter().map(|row| row.1.clone()).collect::<BinaryArray>()),
            Arc::new(rows.iter().map(|row| row.2).collect::<Int64Array>()),
            Arc::new(rows.iter().map(|row| row.3).collect::<Float64Array>()),
        ];
        let (codec, keys) = encode(&columns);
        let same_float = |a: f64, b: f64| a == b || (a.is_nan() && b.is_nan());
        for (i, a) in rows.iter().enumerate() {
            for (j, b) in rows.iter().enumerate() {
                let equal = (&a.0, &a.1, &a.2) == (&b.0, &b.1, &b.2) && same_float(a.3, b.3);
                prop_assert_eq!(keys.key(i) == keys.key(j), equal);
            }
        }
        let decoded = codec.decode(keys.iter()).unwrap();
        prop_assert_eq!(&decoded[..3], &columns[..3]);
    }

    /// State that is damaged is reported, never a panic.
    #[test]
    fn hostile_keys_never_panic(key in prop::collection::vec(any::<u8>(), 0..40)) {
        let schema = Schema::new(vec![
            Field::new("t", DataType::Utf8, true),
            Field::new("n", DataType::Timestamp(TimeUnit::Nanosecond, None), true),
            Field::new("f", DataType::FixedSizeBinary(3), true),
            Field::new("d", DataType::Decimal32(9, 2), true),
        ]);
        let codec = KeyCodec::new(&schema, &[0, 1, 2, 3]).unwrap();
        let _ = codec.decode([key.as_slice()]);
    }

    /// Negative before positive, so that a scan over a range of keys is in the order of values.
    #[test]
    fn numbers_sort_as_their_keys_do(a in any::<i64>(), b in any::<i64>(), x in -1e300..1e300f64, y in -1e300..1e300f64) {
        let (_, keys) = encode(&[Arc::new(Int64Array::from(vec![a, b]))]);
        prop_assert_eq!(keys.key(0).cmp(keys.key(1)), a.cmp(&b));
        let (_, keys) = encode(&[Arc::new(Float64Array::from(vec![x, y]))]);
        prop_assert_eq!(Some(keys.key(0).cmp(keys.key(1))), x.partial_cmp(&y));
    }
}
