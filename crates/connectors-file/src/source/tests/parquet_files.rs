//! Parquet files: what is in them, whatever their pages look like, and what is wrong with them.

use std::sync::Arc;

use arrow::array::{
    ArrayRef, BooleanArray, Decimal128Array, Float32Array, Int16Array, Int32Array, Int64Array,
    ListArray, RecordBatch, StringArray, TimestampMillisecondArray, TimestampNanosecondArray,
    UInt32Array, UInt64Array,
};
use arrow::datatypes::{DataType, Int32Type, TimeUnit};
use millstream_env::fs::{Fs, RealFs};
use millstream_graph::{FileFormat, FileSource};
use millstream_operator::{Budget, ErrorKind, SplitReader};
use parquet::arrow::ArrowWriter;
use parquet::basic::{Compression, Encoding};
use parquet::data_type::{Int64Type, Int96, Int96Type};
use parquet::file::properties::WriterProperties;
use parquet::file::writer::SerializedFileWriter;
use parquet::schema::parser::parse_message_type;
use proptest::prelude::*;

use crate::testing::{BUDGET, discover, drain, files, poll, put, read, reader, schema, source};

use super::restore::read_with_restores;

fn parquet_source(path: &str, columns: &[(&str, DataType)]) -> FileSource {
    source(path, FileFormat::Parquet, schema(columns))
}

fn ids(path: &str) -> FileSource {
    parquet_source(path, &[("id", DataType::Int64)])
}

/// A file with these columns, in row groups of so many rows.
fn written(columns: Vec<(&str, ArrayRef)>, group_rows: usize) -> Vec<u8> {
    let properties = WriterProperties::builder()
        .set_compression(Compression::SNAPPY)
        .set_max_row_group_row_count(Some(group_rows))
        .build();
    let batch = RecordBatch::try_from_iter(columns).unwrap();
    let mut writer = ArrowWriter::try_new(Vec::new(), batch.schema(), Some(properties)).unwrap();
    writer.write(&batch).unwrap();
    writer.into_inner().unwrap()
}

fn integers(range: std::ops::Range<i64>) -> ArrayRef {
    Arc::new(Int64Array::from_iter_values(range))
}

/// A file of one column `id` whose row groups hold these.
fn groups(groups: &[&[i64]]) -> Vec<u8> {
    let message = parse_message_type("message m { required int64 id; }").unwrap();
    let properties = Arc::new(WriterProperties::default());
    let mut writer = SerializedFileWriter::new(Vec::new(), Arc::new(message), properties).unwrap();
    for values in groups {
        let mut group = writer.next_row_group().unwrap();
        let mut column = group.next_column().unwrap().unwrap();
        let typed = column.typed::<Int64Type>();
        typed.write_batch(values, None, None).unwrap();
        column.close().unwrap();
        group.close().unwrap();
    }
    writer.into_inner().unwrap()
}

fn sum(rows: &[String]) -> (usize, i64) {
    (
        rows.len(),
        rows.iter().map(|row| row.parse::<i64>().unwrap()).sum(),
    )
}

// Proves HND-042.
#[test]
fn files_and_row_groups_without_rows_are_valid_and_an_empty_file_is_named() {
    let (f1, f2, f3) = (
        groups(&[&[1, 2], &[], &[3, 4, 5]]),
        groups(&[]),
        groups(&[&[6]]),
    );
    let fs = files(&[("/d/f1", &f1), ("/d/f2", &f2), ("/d/f3", &f3)]);
    let budget = Budget { rows: 1, bytes: 1 };
    for split_bytes in [1, 1 << 20] {
        let config = FileSource {
            split_bytes,
            ..ids("/d")
        };
        assert_eq!(sum(&read(&fs, &config).unwrap().rows()), (6, 21));
        assert_eq!(sum(&read_with_restores(&fs, &config, budget)), (6, 21));
    }
    put(fs.as_ref(), "/d/f4", b"");
    let error = discover(&fs, &ids("/d")).unwrap_err();
    assert!(error.to_string().contains("\"/d/f4\" is empty"), "{error}");
}

// Proves HND-043, with batches of 1, 1000 and 8192 rows.
#[test]
fn columns_that_change_their_encoding_keep_every_value() {
    let id = || 0..100_000_i64;
    let text = id().map(|n| (n % 7 != 0).then(|| format!("v{n}")));
    let decimal = id().map(|n| (n % 7 != 0).then(|| i128::from(n) * 10_i128.pow(10)));
    let decimal: Decimal128Array = decimal.collect();
    let decimal = decimal.with_precision_and_scale(38, 10).unwrap();
    let columns: Vec<(&str, ArrayRef)> = vec![
        ("id", integers(id())),
        ("text", Arc::new(text.collect::<StringArray>())),
        ("dec", Arc::new(decimal)),
    ];
    let batch = RecordBatch::try_from_iter(columns).unwrap();
    // The dictionary of a column is full after a few thousand texts.
    let properties = WriterProperties::builder()
        .set_dictionary_page_size_limit(64 << 10)
        .set_data_page_row_count_limit(5_000)
        .set_data_page_size_limit(64 << 10)
        .build();
    let mut writer = ArrowWriter::try_new(Vec::new(), batch.schema(), Some(properties)).unwrap();
    writer.write(&batch).unwrap();
    let footer = writer.finish().unwrap();
    let encodings: Vec<Encoding> = footer.row_group(0).column(1).encodings().collect();
    assert!(
        encodings.contains(&Encoding::RLE_DICTIONARY) && encodings.contains(&Encoding::PLAIN),
        "{encodings:?}"
    );
    let fs = files(&[("/d/a.parquet", writer.inner())]);
    let columns = [
        ("dec", DataType::Decimal128(38, 10)),
        ("text", DataType::Utf8),
        ("id", DataType::Int64),
    ];
    let config = parquet_source("/d/a.parquet", &columns);
    for rows in [1, 1000, 8192] {
        let splits = discover(&fs, &config).unwrap().splits;
        let budget = Budget {
            rows,
            bytes: 64 << 20,
        };
        let found = drain(&mut reader(&fs, &config, splits), budget).unwrap();
        assert!(found.batches.iter().all(|batch| batch.num_rows() <= rows));
        let (mut nulls, mut total, mut next) = (0, 0_i64, 0_i64);
        for row in found.rows() {
            let expected = match next % 7 {
                0 => format!("-|-|{next}"),
                _ => format!("{next}.0000000000|v{next}|{next}"),
            };
            assert_eq!(row, expected);
            nulls += usize::from(next % 7 == 0);
            total += if next % 7 == 0 { 0 } else { next };
            next += 1;
        }
        assert_eq!((next, nulls, total), (100_000, 14_286, 4_285_685_715));
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(40))]

    /// Splits and restores anywhere give exactly the rows of the file.
    #[test]
    fn splits_and_restores_anywhere_give_the_rows_of_the_file(
        rows in 1_i64..60,
        group_rows in 1_usize..20,
        split_bytes in 1_u64..2000,
        batch in 1_usize..9,
    ) {
        let file = written(vec![("id", integers(0..rows))], group_rows);
        let fs = files(&[("/d/a", &file)]);
        let config = FileSource { split_bytes, ..ids("/d/a") };
        let expected: Vec<String> = (0..rows).map(|n| n.to_string()).collect();
        let budget = Budget { rows: batch, bytes: 1 << 20 };
        prop_assert_eq!(read_with_restores(&fs, &config, budget), expected);
    }
}

#[test]
fn a_file_is_cut_between_row_groups_and_batches_by_bytes_too() {
    let texts = StringArray::from_iter_values((0..400).map(|n| format!("{n}{}", "x".repeat(1000))));
    let file = written(vec![("t", Arc::new(texts))], 100);
    let fs = files(&[("/d/a", &file)]);
    let config = parquet_source("/d/a", &[("t", DataType::Utf8)]);
    let of = |split_bytes| FileSource {
        split_bytes,
        ..config.clone()
    };
    assert_eq!(discover(&fs, &of(1)).unwrap().splits.len(), 4);
    assert_eq!(discover(&fs, &of(1 << 30)).unwrap().splits.len(), 1);
    let splits = discover(&fs, &config).unwrap().splits;
    let budget = Budget {
        rows: 400,
        bytes: 20 << 10,
    };
    let found = drain(&mut reader(&fs, &config, splits), budget).unwrap();
    assert_eq!(found.rows().len(), 400);
    assert!(found.batches.iter().all(|batch| batch.num_rows() <= 25));
}

#[test]
fn a_column_is_read_as_any_type_that_holds_all_of_its_values() {
    let micros = 1_714_566_600_250_000;
    let decimal = Decimal128Array::from(vec![12345])
        .with_precision_and_scale(9, 2)
        .unwrap();
    let file = written(
        vec![
            ("b", Arc::new(BooleanArray::from(vec![true]))),
            ("i16", Arc::new(Int16Array::from(vec![-7]))),
            ("u32", Arc::new(UInt32Array::from(vec![u32::MAX]))),
            ("f", Arc::new(Float32Array::from(vec![-0.0]))),
            ("dec", Arc::new(decimal)),
            (
                "ms",
                Arc::new(TimestampMillisecondArray::from(vec![micros / 1000])),
            ),
            (
                "ns",
                Arc::new(
                    TimestampNanosecondArray::from(vec![micros * 1000 + 999]).with_timezone("UTC"),
                ),
            ),
        ],
        10,
    );
    let fs = files(&[("/d/a", &file)]);
    let time = DataType::Timestamp(TimeUnit::Microsecond, None);
    let columns = [
        ("ns", time.clone()),
        ("ms", time),
        ("dec", DataType::Decimal128(12, 3)),
        ("f", DataType::Float64),
        ("u32", DataType::Int64),
        ("i16", DataType::Int32),
        ("b", DataType::Boolean),
    ];
    let found = read(&fs, &parquet_source("/d/a", &columns)).unwrap();
    let time = "2024-05-01T12:30:00.250";
    assert_eq!(
        found.rows(),
        [format!("{time}|{time}|123.450|-0.0|4294967295|-7|true")]
    );
}

#[test]
fn a_time_of_96_bits_is_read_far_beyond_what_nanoseconds_hold() {
    let message = parse_message_type("message m { required int96 at; }").unwrap();
    let properties = Arc::new(WriterProperties::default());
    let mut writer = SerializedFileWriter::new(Vec::new(), Arc::new(message), properties).unwrap();
    let mut group = writer.next_row_group().unwrap();
    let mut column = group.next_column().unwrap().unwrap();
    // Noon of 2024-05-01 and of 9999-12-31, as nanoseconds of a Julian day.
    let noon = 12 * 3600 * 1_000_000_000_u64;
    let at = |day: u32| {
        let mut at = Int96::new();
        at.set_data(noon as u32, (noon >> 32) as u32, day);
        at
    };
    let typed = column.typed::<Int96Type>();
    typed
        .write_batch(&[at(2_460_432), at(5_373_484)], None, None)
        .unwrap();
    column.close().unwrap();
    group.close().unwrap();
    let fs = files(&[("/d/a", &writer.into_inner().unwrap())]);
    let time = DataType::Timestamp(TimeUnit::Microsecond, None);
    let found = read(&fs, &parquet_source("/d/a", &[("at", time)])).unwrap();
    assert_eq!(found.rows(), ["2024-05-01T12:00:00", "9999-12-31T12:00:00"]);
}

#[test]
fn a_column_that_does_not_fit_is_named_at_discovery_with_what_would() {
    let list = ListArray::from_iter_primitive::<Int32Type, _, _>([Some([Some(1)])]);
    let decimal = Decimal128Array::from(vec![1])
        .with_precision_and_scale(12, 2)
        .unwrap();
    let file = written(
        vec![
            ("id", integers(0..1)),
            ("i", Arc::new(Int32Array::from(vec![1]))),
            ("u", Arc::new(UInt64Array::from(vec![1]))),
            ("d", Arc::new(decimal)),
            ("l", Arc::new(list)),
        ],
        10,
    );
    let fs = files(&[("/d/a", &file)]);
    for (column, declared, what, remedy) in [
        (
            "Id",
            DataType::Int64,
            "no column \"Id\"; it has \"id\", \"i\"",
            "in the same case",
        ),
        (
            "id",
            DataType::Int32,
            "\"id\" holds Int64, which does not fit INT",
            "declare it as BIGINT",
        ),
        (
            "i",
            DataType::Utf8,
            "holds Int32, which does not fit VARCHAR",
            "declare it as INT",
        ),
        (
            "u",
            DataType::Int64,
            "holds UInt64, which does not fit BIGINT",
            "leave the column out",
        ),
        (
            "d",
            DataType::Decimal128(12, 3),
            "does not fit DECIMAL(12, 3)",
            "declare it as DECIMAL(12, 2)",
        ),
        (
            "d",
            DataType::Float64,
            "does not fit DOUBLE",
            "declare it as DECIMAL(12, 2)",
        ),
        (
            "l",
            DataType::Utf8,
            "does not fit VARCHAR",
            "leave the column out",
        ),
    ] {
        let config = parquet_source("/d/a", &[(column, declared)]);
        let error = discover(&fs, &config).unwrap_err();
        let text = error.to_string();
        assert!(text.contains("\"/d/a\"") && text.contains(what), "{text}");
        assert!(
            error.remedy().unwrap().contains(remedy),
            "{:?}",
            error.remedy()
        );
    }
}

#[test]
fn what_is_no_whole_parquet_file_is_named_at_discovery() {
    let good = written(vec![("id", integers(0..10))], 5);
    let with = |at: usize, bytes: &[u8]| {
        let mut changed = good.clone();
        changed[at..at + bytes.len()].copy_from_slice(bytes);
        changed
    };
    let end = good.len();
    let length = u32::from_le_bytes(*good[end - 8..].first_chunk().unwrap());
    let footer = end - 8 - length as usize;
    for (contents, why) in [
        (b"id,t\n1,a\n".to_vec(), "does not start with PAR1"),
        (good[..end - 1].to_vec(), "it ends early"),
        (good[..end / 2].to_vec(), "it ends early"),
        (b"PAR1".to_vec(), "it ends early"),
        (with(0, b"PARE"), "is an encrypted Parquet file"),
        (with(end - 4, b"PARE"), "its footer is encrypted"),
        (
            with(end - 8, &u32::MAX.to_le_bytes()),
            "longer than the file",
        ),
        (with(end - 8, &1_u32.to_le_bytes()), "damaged Parquet file"),
        (with(footer, &[0xff; 20]), "damaged Parquet file"),
    ] {
        let fs = files(&[("/d/a", &contents)]);
        let error = discover(&fs, &ids("/d/a")).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::External);
        assert!(error.remedy().is_some(), "{error}");
        let error = error.to_string();
        assert!(
            error.contains("\"/d/a\"") && error.contains(why),
            "{why}: {error}"
        );
    }
}

#[test]
fn a_damaged_file_is_an_error_or_rows_and_never_a_panic() {
    let texts = StringArray::from_iter_values((0..200).map(|n| format!("text {}", n % 17)));
    let columns: Vec<(&str, ArrayRef)> = vec![("id", integers(0..200)), ("t", Arc::new(texts))];
    let good = written(columns, 100);
    let config = parquet_source("/d/a", &[("id", DataType::Int64), ("t", DataType::Utf8)]);
    let mut errors = 0;
    for at in 4..good.len() {
        for mask in [0x01, 0x80, 0xff] {
            let mut damaged = good.clone();
            damaged[at] ^= mask;
            let fs = files(&[("/d/a", &damaged)]);
            match read(&fs, &config) {
                Ok(found) => assert_eq!(found.rows().len(), 200, "{at} {mask}"),
                Err(error) => {
                    assert!(error.to_string().contains("\"/d/a\""), "{at}: {error}");
                    errors += 1;
                }
            }
        }
    }
    assert!(errors > 100, "{errors} of {}", good.len());
}

#[test]
fn a_parquet_file_that_changes_is_an_error_that_names_it() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("a.parquet");
    let name = path.to_str().unwrap();
    std::fs::write(&path, written(vec![("id", integers(0..1000))], 100)).unwrap();
    let fs: Arc<dyn Fs> = Arc::new(RealFs);
    let splits = discover(&fs, &ids(name)).unwrap().splits;
    let mut before = reader(&fs, &ids(name), splits);
    poll(&mut before, BUDGET).unwrap();
    let position = before.snapshot().unwrap();
    std::fs::write(&path, written(vec![("id", integers(5000..6001))], 100)).unwrap();
    for reader in [&mut before, &mut reader(&fs, &ids(name), position)] {
        let error = drain(reader, BUDGET).err().unwrap().to_string();
        assert!(
            error.contains(name) && error.contains("changed while"),
            "{error}"
        );
    }
}
