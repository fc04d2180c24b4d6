//! Files of records: what is read must not depend on how the file was split.

use std::io::Write as _;
use std::path::Path;
use std::sync::Arc;
use std::task::{Poll, Waker};

use arrow::array::RecordBatch;
use arrow::compute::concat_batches;
use arrow::datatypes::{DataType, Field, Schema, SchemaRef, TimeUnit};
use millstream_connectors_file::{FileEnumerator, FileReader};
use millstream_env::fs::{Fs, MemoryFs, OpenMode};
use millstream_graph::{BadRecordPolicy, Compression, FileFormat, FileSource};
use millstream_operator::{Budget, Enumerator, OperatorError, ReaderOutput, SplitReader};
use millstream_types::MonoTime;

const PATH: &str = "/in/file";

pub(super) fn json(data: &[u8]) {
    let columns = [
        ("n", DataType::Int64),
        ("x", DataType::Float64),
        ("s", DataType::Utf8),
        ("b", DataType::Boolean),
        ("d", DataType::Decimal128(20, 3)),
        ("t", DataType::Timestamp(TimeUnit::Microsecond, None)),
        ("i", DataType::Int32),
        ("day", DataType::Date32),
    ];
    read_in_ways(data, FileFormat::JsonLines, &columns);
}

pub(super) fn csv(data: &[u8]) {
    let columns = [
        ("n", DataType::Int64),
        ("x", DataType::Float64),
        ("s", DataType::Utf8),
        ("b", DataType::Boolean),
    ];
    read_in_ways(data, FileFormat::Csv { delimiter: b',' }, &columns);
}

pub(super) fn text(data: &[u8]) {
    read_in_ways(data, FileFormat::Text, &[("line", DataType::Utf8)]);
}

/// What came of a file.
#[derive(Debug, PartialEq)]
enum Read {
    Rows { rows: RecordBatch, bad: u64 },
    Refused,
}

fn read_in_ways(data: &[u8], format: FileFormat, columns: &[(&str, DataType)]) {
    let [first, rest @ ..] = data else {
        return;
    };
    let fs: Arc<dyn Fs> = Arc::new(MemoryFs::default());
    let path = Path::new(PATH);
    fs.create_dir_all(Path::new("/in")).expect("in memory");
    let mut file = fs.open(path, OpenMode::CreateNew).expect("in memory");
    file.write_all(rest).expect("in memory");
    drop(file);
    let fields = columns
        .iter()
        .map(|(name, of)| Field::new(*name, of.clone(), true));
    let schema = Arc::new(Schema::new(fields.collect::<Vec<_>>()));
    let read = |split_bytes: u64, rows: usize| {
        let source = FileSource {
            path: PATH.to_owned(),
            format: format.clone(),
            compression: Compression::None,
            schema: schema.clone(),
            split_bytes,
            on_error: BadRecordPolicy::Skip,
            max_line_bytes: 200,
            fail_on_missing_field: first % 2 == 1,
        };
        whole(&fs, &source, &schema, rows).unwrap_or(Read::Refused)
    };
    let at_once = read(1 << 20, 1_000);
    let in_parts = read(u64::from(first % 64) + 1, usize::from(first / 64) + 1);
    assert_eq!(at_once, in_parts);
}

fn whole(
    fs: &Arc<dyn Fs>,
    source: &FileSource,
    schema: &SchemaRef,
    rows: usize,
) -> Result<Read, OperatorError> {
    let splits = FileEnumerator::new(Arc::clone(fs), source.clone())
        .discover()?
        .splits;
    let mut reader = FileReader::new(Arc::clone(fs), source.clone(), "in");
    reader.add_splits(splits)?;
    reader.no_more_splits();
    let budget = Budget {
        rows,
        bytes: 1 << 20,
    };
    let mut batches = Vec::new();
    loop {
        match reader.poll_batch(budget, MonoTime::ZERO, Waker::noop()) {
            Poll::Pending => {}
            Poll::Ready(output) => match output? {
                ReaderOutput::Batch(batch) => batches.push(batch.records().clone()),
                ReaderOutput::Finished => break,
                ReaderOutput::DeadLetters(_) | ReaderOutput::SplitFinished(_) => {}
                waits @ (ReaderOutput::WaitUntil(_) | ReaderOutput::WaitForSplits) => {
                    panic!("a reader with all its splits says {waits:?}")
                }
            },
        }
    }
    Ok(Read::Rows {
        rows: concat_batches(schema, &batches).expect("one schema"),
        bad: reader.bad_records(),
    })
}
