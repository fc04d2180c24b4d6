//! What the tests of this crate share.

use std::io::Write as _;
use std::path::Path;
use std::sync::Arc;
use std::task::{Poll, Waker};

use arrow::array::RecordBatch;
use arrow::compute::concat_batches;
use arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use arrow::util::display::{ArrayFormatter, FormatOptions};
use millstream_env::fs::{Fs, MemoryFs, OpenMode};
use millstream_graph::{BadRecordPolicy, Compression, FileFormat, FileSource};
use millstream_operator::{
    Budget, Discovery, Enumerator, OperatorError, ReaderOutput, Split, SplitReader,
};
use millstream_types::MonoTime;

use crate::{FileEnumerator, FileReader};

/// Files in memory.
pub(crate) fn files(files: &[(&str, &[u8])]) -> Arc<dyn Fs> {
    let fs: Arc<dyn Fs> = Arc::new(MemoryFs::default());
    for (path, contents) in files {
        put(fs.as_ref(), path, contents);
    }
    fs
}

pub(crate) fn put(fs: &dyn Fs, path: &str, contents: &[u8]) {
    let path = Path::new(path);
    fs.create_dir_all(path.parent().unwrap()).unwrap();
    let mut file = fs.open(path, OpenMode::CreateNew).unwrap();
    file.write_all(contents).unwrap();
}

pub(crate) fn schema(columns: &[(&str, DataType)]) -> SchemaRef {
    let fields = columns
        .iter()
        .map(|(name, of)| Field::new(*name, of.clone(), true));
    Arc::new(Schema::new(fields.collect::<Vec<_>>()))
}

pub(crate) fn source(path: &str, format: FileFormat, schema: SchemaRef) -> FileSource {
    FileSource {
        path: path.to_owned(),
        format,
        schema,
        split_bytes: 1 << 20,
        on_error: BadRecordPolicy::Fail,
        max_line_bytes: 1 << 20,
        compression: Compression::Auto,
        fail_on_missing_field: false,
    }
}

pub(crate) fn text(path: &str) -> FileSource {
    source(path, FileFormat::Text, schema(&[("line", DataType::Utf8)]))
}

/// What was read.
#[derive(Default)]
pub(crate) struct Read {
    pub(crate) batches: Vec<RecordBatch>,
    pub(crate) letters: Vec<RecordBatch>,
    pub(crate) finished: Vec<String>,
    pub(crate) bad_records: u64,
}

impl Read {
    /// The rows' values joined by `|`, NULL as `-`.
    pub(crate) fn rows(&self) -> Vec<String> {
        self.batches.iter().flat_map(rows).collect()
    }

    pub(crate) fn letters(&self) -> Vec<String> {
        self.letters.iter().flat_map(rows).collect()
    }

    pub(crate) fn table(&self, schema: &SchemaRef) -> RecordBatch {
        concat_batches(schema, &self.batches).unwrap()
    }
}

pub(crate) fn rows(records: &RecordBatch) -> Vec<String> {
    let options = FormatOptions::new().with_null("-");
    let columns: Vec<ArrayFormatter<'_>> = records
        .columns()
        .iter()
        .map(|column| ArrayFormatter::try_new(column, &options).unwrap())
        .collect();
    let row = |row| {
        columns
            .iter()
            .map(|c| c.value(row).to_string())
            .collect::<Vec<_>>()
            .join("|")
    };
    (0..records.num_rows()).map(row).collect()
}

pub(crate) const BUDGET: Budget = Budget {
    rows: 3,
    bytes: 1 << 20,
};

pub(crate) fn discover(fs: &Arc<dyn Fs>, config: &FileSource) -> Result<Discovery, OperatorError> {
    FileEnumerator::new(Arc::clone(fs), config.clone()).discover()
}

pub(crate) fn reader(fs: &Arc<dyn Fs>, config: &FileSource, splits: Vec<Split>) -> FileReader {
    let mut reader = FileReader::new(Arc::clone(fs), config.clone(), "in");
    reader.add_splits(splits).unwrap();
    reader.no_more_splits();
    reader
}

/// One output, however many polls it takes.
pub(crate) fn poll(reader: &mut FileReader, budget: Budget) -> Result<ReaderOutput, OperatorError> {
    loop {
        if let Poll::Ready(output) = reader.poll_batch(budget, MonoTime::ZERO, Waker::noop()) {
            return output;
        }
    }
}

/// Reads until the end.
pub(crate) fn drain(reader: &mut FileReader, budget: Budget) -> Result<Read, OperatorError> {
    let mut read = Read::default();
    loop {
        match poll(reader, budget)? {
            ReaderOutput::Batch(batch) => read.batches.push(batch.records().clone()),
            ReaderOutput::DeadLetters(batch) => read.letters.push(batch.records().clone()),
            ReaderOutput::SplitFinished(id) => read.finished.push(id),
            ReaderOutput::Finished => break,
            other @ (ReaderOutput::WaitUntil(_) | ReaderOutput::WaitForSplits) => {
                panic!("{other:?}")
            }
        }
    }
    read.bad_records = reader.bad_records();
    Ok(read)
}

/// Reads everything a source finds.
pub(crate) fn read(fs: &Arc<dyn Fs>, config: &FileSource) -> Result<Read, OperatorError> {
    let splits = discover(fs, config)?.splits;
    drain(&mut reader(fs, config, splits), BUDGET)
}
