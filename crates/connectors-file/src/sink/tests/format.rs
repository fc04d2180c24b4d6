//! The bytes of a sink's files.

use std::sync::Arc;

use arrow::array::{
    ArrayRef, Decimal128Array, Float64Array, Int64Array, RecordBatch, StringArray,
    TimestampMicrosecondArray,
};
use arrow::datatypes::{DataType, SchemaRef, TimeUnit};
use millstream_batch::Batch;
use millstream_graph::{FileFormat, ParquetCompression, SinkFormat};
use millstream_types::CheckpointId;
use proptest::prelude::*;

use crate::sink::{encode, file_sink};
use crate::testing::{files, read, schema, source};

use super::{JOB, JSON, commit_all, config, info};

#[test]
fn json_has_no_form_for_what_is_no_number_and_csv_none_for_lists() {
    let columns: [(&str, ArrayRef); 2] = [
        (
            "d",
            Arc::new(Float64Array::from(vec![f64::NAN, f64::INFINITY, -0.0])),
        ),
        (
            "t",
            Arc::new(StringArray::from(vec![None, Some(""), Some("\u{1}")])),
        ),
    ];
    let batch = RecordBatch::try_from_iter(columns).unwrap();
    let mut bytes = Vec::new();
    encode::Encoder::new(JSON, &batch.schema())
        .unwrap()
        .rows(&batch, &mut bytes)
        .unwrap();
    assert_eq!(
        String::from_utf8(bytes).unwrap(),
        "{\"d\":null,\"t\":null}\n{\"d\":null,\"t\":\"\"}\n{\"d\":-0.0,\"t\":\"\\u0001\"}\n"
    );
    let mut bytes = Vec::new();
    let doubles = batch.project(&[0]).unwrap();
    encode::Encoder::new(SinkFormat::Csv { delimiter: b',' }, &doubles.schema())
        .unwrap()
        .rows(&doubles, &mut bytes)
        .unwrap();
    assert_eq!(String::from_utf8(bytes).unwrap(), "NaN\ninf\n-0.0\n");
    let list = schema(&[("l", DataType::new_list(DataType::Int64, true))]);
    let csv = SinkFormat::Csv { delimiter: b',' };
    let error = encode::Encoder::new(csv, &list).err().unwrap();
    assert!(error.to_string().contains("column \"l\""), "{error}");
    assert!(error.remedy().unwrap().contains("use format json"));
}

fn table() -> (SchemaRef, impl Strategy<Value = RecordBatch>) {
    let schema = schema(&[
        ("i", DataType::Int64),
        ("t", DataType::Utf8),
        ("d", DataType::Float64),
        ("ts", DataType::Timestamp(TimeUnit::Microsecond, None)),
        ("m", DataType::Decimal128(20, 3)),
    ]);
    let row = (
        any::<Option<i64>>(),
        prop::option::of("[a-zé\",;\r\n\\\\\u{feff} ]{0,6}"),
        prop::option::of(any::<f64>().prop_filter("finite", |d| d.is_finite())),
        prop::option::of(-60_000_000_000_000_000i64..200_000_000_000_000_000),
        prop::option::of(-99_999_999_999_999_999_999i128..99_999_999_999_999_999_999),
    );
    let of = Arc::clone(&schema);
    let table = prop::collection::vec(row, 1..20).prop_map(move |rows| {
        let decimals = Decimal128Array::from_iter(rows.iter().map(|r| r.4));
        let columns: Vec<ArrayRef> = vec![
            Arc::new(Int64Array::from_iter(rows.iter().map(|r| r.0))),
            Arc::new(StringArray::from_iter(rows.iter().map(|r| r.1.as_deref()))),
            Arc::new(Float64Array::from_iter(rows.iter().map(|r| r.2))),
            Arc::new(TimestampMicrosecondArray::from_iter(
                rows.iter().map(|r| r.3),
            )),
            Arc::new(decimals.with_precision_and_scale(20, 3).unwrap()),
        ];
        RecordBatch::try_new(Arc::clone(&of), columns).unwrap()
    });
    (schema, table)
}

proptest! {
    /// Proves HND-041 and HND-037: what our sink writes our source reads, row for row.
    #[test]
    fn what_is_written_is_read_again(
        batch in table().1,
        (sink_format, source_format) in prop_oneof![
            Just((JSON, FileFormat::JsonLines)),
            Just((
                SinkFormat::Parquet { compression: ParquetCompression::Snappy },
                FileFormat::Parquet,
            )),
            Just((SinkFormat::Csv { delimiter: b',' }, FileFormat::Csv { delimiter: b',' })),
            Just((SinkFormat::Csv { delimiter: b';' }, FileFormat::Csv { delimiter: b';' })),
            Just((SinkFormat::Csv { delimiter: b'\t' }, FileFormat::Csv { delimiter: b'\t' })),
        ],
    ) {
        let (schema, _) = table();
        let fs = files(&[]);
        let mut sink = file_sink(&fs, &config(sink_format), &schema, JOB).unwrap();
        sink.writer.open(&info(0, 1), 1).unwrap();
        sink.writer.write(&Batch::new(batch.clone())).unwrap();
        let promised = sink.writer.prepare_commit(CheckpointId(1)).unwrap();
        commit_all(&sink, &promised);
        let source = source("/out", source_format, Arc::clone(&schema));
        prop_assert_eq!(read(&fs, &source).unwrap().table(&schema), batch);
    }
}
