//! Enumerator and reader together, as a job uses them.

mod files;
mod packed;
mod parquet_files;
mod records;
mod restore;

use arrow::datatypes::DataType;
use millstream_graph::{FileFormat, FileSource};

use crate::testing::{schema, source};

pub(super) const CSV: FileFormat = FileFormat::Csv { delimiter: b',' };

pub(super) fn csv_source(path: &str) -> FileSource {
    source(
        path,
        CSV,
        schema(&[("id", DataType::Int64), ("t", DataType::Utf8)]),
    )
}

pub(super) fn json_source(path: &str) -> FileSource {
    source(
        path,
        FileFormat::JsonLines,
        schema(&[("id", DataType::Int64), ("name", DataType::Utf8)]),
    )
}
