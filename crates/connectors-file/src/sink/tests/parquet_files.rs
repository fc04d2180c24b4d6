//! Parquet files of a sink: whole at every commit, and as readable by others as by us.

use std::sync::Arc;

use arrow::array::{
    ArrayRef, Float64Array, Int64Array, ListArray, RecordBatch, StringArray, StructArray,
};
use arrow::datatypes::{DataType, Field, Int32Type};
use bytes::Bytes;
use millstream_graph::ParquetCompression;
use parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;
use parquet::basic::Compression;

use super::*;

const PARQUET: SinkFormat = SinkFormat::Parquet {
    compression: ParquetCompression::Zstd,
};

fn parquet_rows(fs: &Arc<dyn Fs>, path: &str) -> Vec<String> {
    let source = source(path, FileFormat::Parquet, numbers_schema());
    read(fs, &source).unwrap().rows()
}

fn texts(range: std::ops::Range<i64>) -> Vec<String> {
    range.map(|n| n.to_string()).collect()
}

// Proves fence F15 for Parquet: a file is whole, with its footer, when it is promised.
#[test]
fn a_parquet_file_is_whole_at_each_checkpoint_and_not_visible_before() {
    let fs = files(&[]);
    let mut sink = sink(&fs, &config(PARQUET), 1, 0xabc);
    sink.writer.write(&numbers(0..3)).unwrap();
    let first = sink.writer.prepare_commit(CheckpointId(4)).unwrap();
    sink.writer.write(&numbers(3..5)).unwrap();
    let second = sink.writer.prepare_commit(CheckpointId(5)).unwrap();
    assert!(
        sink.writer
            .prepare_commit(CheckpointId(6))
            .unwrap()
            .is_empty()
    );
    assert_eq!(
        (visible(fs.as_ref()).len(), first.len(), second.len()),
        (0, 1, 1)
    );
    commit_all(&sink, &first);
    let name = "part-out.v1-00001-0000000004-0000000000000abc-000000.parquet";
    assert_eq!(visible(fs.as_ref()), [name]);
    assert_eq!(parquet_rows(&fs, "/out"), texts(0..3));
    commit_all(&sink, &second);
    assert_eq!(parquet_rows(&fs, "/out"), texts(0..5));
    assert!(staged(fs.as_ref()).is_empty());
}

#[test]
fn a_promised_parquet_file_survives_a_power_cut_and_one_begun_does_not() {
    let memory = MemoryFs::default();
    let fs: Arc<dyn Fs> = Arc::new(memory.clone());
    let mut sink = sink(&fs, &config(PARQUET), 0, 1);
    sink.writer.write(&numbers(0..3)).unwrap();
    let promised = sink.writer.prepare_commit(CheckpointId(1)).unwrap();
    sink.writer.write(&numbers(3..6)).unwrap();
    memory.crash();
    assert_eq!(staged(fs.as_ref()).len(), 1, "only what was promised");
    commit_all(&sink, &promised);
    memory.crash();
    commit_all(&sink, &promised);
    assert_eq!(parquet_rows(&fs, "/out"), texts(0..3));
    sink.writer.abort();
    assert!(staged(fs.as_ref()).is_empty());
}

#[test]
fn parquet_files_roll_by_size_and_keep_the_order_of_their_rows() {
    let fs = files(&[]);
    let small = FileSink {
        roll_bytes: 30_000,
        ..config(PARQUET)
    };
    let mut sink = sink(&fs, &small, 0, 1);
    for checkpoint in 1..=2 {
        let from = (checkpoint as i64 - 1) * 50_000;
        sink.writer.write(&numbers(from..from + 50_000)).unwrap();
        let promised = sink
            .writer
            .prepare_commit(CheckpointId(checkpoint))
            .unwrap();
        assert!(promised.len() >= 2, "{}", promised.len());
        commit_all(&sink, &promised);
    }
    assert_eq!(parquet_rows(&fs, "/out"), texts(0..100_000));
}

#[test]
fn a_full_disk_under_a_parquet_file_is_named_with_a_remedy() {
    let memory = MemoryFs::default();
    let fs: Arc<dyn Fs> = Arc::new(memory.clone());
    let mut sink = sink(&fs, &config(PARQUET), 0, 1);
    memory.set_capacity(Some(10));
    sink.writer.write(&numbers(0..100)).unwrap();
    let error = sink.writer.prepare_commit(CheckpointId(1)).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::External);
    assert!(error.remedy().unwrap().contains("free space"), "{error}");
    assert!(
        error.to_string().contains("cannot write \"/out/.staging/"),
        "{error}"
    );
    memory.set_capacity(None);
    sink.writer.abort();
    sink.writer.write(&numbers(0..100)).unwrap();
    let promised = sink.writer.prepare_commit(CheckpointId(2)).unwrap();
    commit_all(&sink, &promised);
    assert_eq!(parquet_rows(&fs, "/out"), texts(0..100));
}

#[test]
fn every_value_is_written_as_it_is_in_every_compression() {
    let doubles = Float64Array::from(vec![
        Some(f64::NAN),
        Some(f64::NEG_INFINITY),
        Some(-0.0),
        None,
    ]);
    let texts = StringArray::from(vec![None, Some(""), Some("null"), Some("é\u{0}\n")]);
    let lists = ListArray::from_iter_primitive::<Int32Type, _, _>([
        None,
        Some(vec![]),
        Some(vec![Some(1), None]),
        Some(vec![Some(2)]),
    ]);
    let inner: ArrayRef = Arc::new(Int64Array::from(vec![Some(1), None, Some(i64::MIN), None]));
    let field = Arc::new(Field::new("n", DataType::Int64, true));
    let structs = StructArray::from(vec![(field, inner)]);
    let columns: Vec<(&str, ArrayRef)> = vec![
        ("d", Arc::new(doubles)),
        ("t", Arc::new(texts)),
        ("l", Arc::new(lists)),
        ("s", Arc::new(structs)),
    ];
    let nullable = columns
        .into_iter()
        .map(|(name, column)| (name, column, true));
    let batch = RecordBatch::try_from_iter_with_nullable(nullable).unwrap();
    for (compression, expected) in [
        (ParquetCompression::Zstd, "ZSTD"),
        (ParquetCompression::Snappy, "SNAPPY"),
        (ParquetCompression::None, "UNCOMPRESSED"),
    ] {
        let fs = files(&[]);
        let config = config(SinkFormat::Parquet { compression });
        let mut sink = file_sink(&fs, &config, &batch.schema(), JOB).unwrap();
        sink.writer.open(&info(0, 1), 1).unwrap();
        sink.writer.write(&Batch::new(batch.clone())).unwrap();
        let promised = sink.writer.prepare_commit(CheckpointId(1)).unwrap();
        commit_all(&sink, &promised);
        let path = format!("/out/{}", promised[0].id);
        let file = Bytes::from(fs.read(Path::new(&path), 1 << 20).unwrap());
        let builder = ParquetRecordBatchReaderBuilder::try_new(file).unwrap();
        let codec: Compression = builder.metadata().row_group(0).column(0).compression();
        assert!(format!("{codec:?}").starts_with(expected), "{codec:?}");
        let found: Vec<RecordBatch> = builder.build().unwrap().map(Result::unwrap).collect();
        assert_eq!(found.len(), 1);
        assert_eq!(
            crate::testing::rows(&found[0]),
            [
                "NaN|-|-|{n: 1}",
                "-inf||[]|{n: -}",
                "-0.0|null|[1, -]|{n: -9223372036854775808}",
                "-|é\u{0}\n|[2]|{n: -}"
            ]
        );
    }
}

#[test]
fn a_column_without_a_form_in_parquet_is_refused_by_name() {
    let columns = schema(&[(
        "took",
        DataType::Interval(arrow::datatypes::IntervalUnit::MonthDayNano),
    )]);
    let fs = files(&[]);
    let error = file_sink(&fs, &config(PARQUET), &columns, JOB)
        .err()
        .unwrap();
    assert!(error.to_string().contains("column \"took\""), "{error}");
    assert!(error.remedy().unwrap().contains("use format json"));
}
