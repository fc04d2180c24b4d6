//! Parquet files: what their footers say, and their rows.
//!
//! A split is a run of row groups, its position the rows of it that were handed out.

mod chunks;
mod columns;
mod rows;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::sync::Arc;

use arrow::datatypes::{DataType, Field, Schema, SchemaRef, TimeUnit};
use millstream_env::fs::Fs;
use millstream_operator::{ErrorKind, OperatorError};
use parquet::arrow::arrow_reader::{ArrowReaderMetadata, ArrowReaderOptions};
use parquet::basic::Type as PhysicalType;
use parquet::errors::ParquetError;
use parquet::file::metadata::{ParquetMetaData, ParquetMetaDataReader, RowGroupMetaData};

use super::pin::Pin;
use super::split::{FileSplit, Mark};

pub(super) use rows::ParquetProgress;

use chunks::Chunks;
use columns::Columns;

/// A larger footer is refused: it is in memory as a whole, several times its size.
const FOOTER_BYTES_MAX: u32 = 64 << 20;
/// The length of the footer and the magic.
const TAIL_BYTES: u64 = 8;
const MAGIC: &[u8; 4] = b"PAR1";
const MAGIC_ENCRYPTED: &[u8; 4] = b"PARE";

/// A file whose footer was read and holds the declared columns.
struct ParquetFile {
    chunks: Chunks,
    metadata: ArrowReaderMetadata,
    columns: Columns,
}

impl ParquetFile {
    /// Opens a file that must still be what it was.
    fn open(
        fs: &Arc<dyn Fs>,
        path: &Path,
        pin: Pin,
        declared: &SchemaRef,
    ) -> Result<Self, OperatorError> {
        let chunks = Chunks::open(Arc::clone(fs), path, pin)?;
        check_ends(&chunks)?;
        let read = guarded(path, || {
            let footer = ParquetMetaDataReader::new().parse_and_finish(&chunks);
            footer.and_then(with_schema)
        });
        chunks.verify()?;
        let metadata = read?.map_err(|error| chunks.error(&error))?;
        check_rows(path, metadata.metadata())?;
        let columns = Columns::new(path, metadata.schema(), declared)?;
        Ok(Self {
            chunks,
            metadata,
            columns,
        })
    }

    fn row_groups(&self) -> &[RowGroupMetaData] {
        self.metadata.metadata().row_groups()
    }
}

/// The splits of a file: runs of row groups of about this many bytes.
///
/// # Errors
/// If the file is no Parquet file, or does not hold the declared columns.
pub(super) fn splits(
    fs: &Arc<dyn Fs>,
    path: &Path,
    pin: Pin,
    declared: &SchemaRef,
    split_bytes: u64,
) -> Result<Vec<FileSplit>, OperatorError> {
    let file = ParquetFile::open(fs, path, pin, declared)?;
    let mut splits = Vec::new();
    let (mut start, mut bytes) = (0, 0_u64);
    let groups = file.row_groups();
    for (index, group) in (1..).zip(groups) {
        bytes = bytes.saturating_add(u64::try_from(group.compressed_size()).unwrap_or(0));
        if bytes >= split_bytes || index == groups.len() as u64 {
            let mut split = FileSplit::new(path, start, index, pin);
            split.position = Some(Mark {
                offset: 0,
                lines: None,
            });
            splits.push(split);
            (start, bytes) = (index, 0);
        }
    }
    Ok(splits)
}

/// That the file is a Parquet file from its first to its last byte.
fn check_ends(chunks: &Chunks) -> Result<(), OperatorError> {
    let path = chunks.path();
    let bytes = chunks.bytes();
    let head = chunks.read(0, bytes.min(MAGIC.len() as u64))?;
    if head[..] == MAGIC_ENCRYPTED[..] {
        let what = format!("source file {path:?} is an encrypted Parquet file");
        return Err(OperatorError::new(ErrorKind::External, what)
            .with_remedy("write it without encryption; keys are not supported"));
    }
    if head[..] != MAGIC[..] {
        let what = match bytes {
            0 => format!("source file {path:?} is empty, which no Parquet file is"),
            _ => format!("source file {path:?} is no Parquet file: it does not start with PAR1"),
        };
        return Err(OperatorError::new(ErrorKind::External, what)
            .with_remedy("take it away, or let the pattern of the source leave it out"));
    }
    if bytes < MAGIC.len() as u64 + TAIL_BYTES {
        return Err(damaged(path, "it ends early: its footer is missing"));
    }
    let tail = chunks.read(bytes - TAIL_BYTES, TAIL_BYTES)?;
    let Some((length, magic)) = tail.split_first_chunk() else {
        return Err(damaged(path, "it ends early"));
    };
    if magic == MAGIC_ENCRYPTED {
        return Err(damaged(path, "its footer is encrypted"));
    }
    if magic != MAGIC {
        return Err(damaged(path, "it ends early: its footer is missing"));
    }
    let length = u32::from_le_bytes(*length);
    if u64::from(length) + TAIL_BYTES + MAGIC.len() as u64 > bytes {
        let why = format!("its footer of {length} bytes is longer than the file of {bytes}");
        return Err(damaged(path, &why));
    }
    if length > FOOTER_BYTES_MAX {
        let what = format!(
            "source file {path:?} has a footer of {length} bytes, more than {FOOTER_BYTES_MAX}"
        );
        return Err(OperatorError::new(ErrorKind::External, what)
            .with_remedy("write it as several files, or with fewer row groups"));
    }
    Ok(())
}

/// That the row groups have the rows of the file.
fn check_rows(path: &Path, footer: &ParquetMetaData) -> Result<(), OperatorError> {
    let groups = footer.row_groups().iter().map(RowGroupMetaData::num_rows);
    let (in_groups, in_all) = (
        groups.fold(0, i64::saturating_add),
        footer.file_metadata().num_rows(),
    );
    if in_groups == in_all {
        return Ok(());
    }
    let why = format!("its footer has {in_all} rows in all and {in_groups} in its row groups");
    Err(damaged(path, &why))
}

/// The footer with the types of its columns.
///
/// They are the file format's own: what an Arrow writer noted beside them changes no value, and is
/// one more thing that can be wrong. A time of 96 bits is read in microseconds, or it would wrap in
/// the year 2262.
fn with_schema(footer: ParquetMetaData) -> Result<ArrowReaderMetadata, ParquetError> {
    let footer = Arc::new(footer);
    let options = ArrowReaderOptions::new().with_skip_arrow_metadata(true);
    let metadata = ArrowReaderMetadata::try_new(Arc::clone(&footer), options.clone())?;
    let parquet = footer.file_metadata().schema_descr();
    let old_times: Vec<usize> = (0..parquet.num_columns())
        .filter(|leaf| parquet.column(*leaf).physical_type() == PhysicalType::INT96)
        .filter(|leaf| parquet.column(*leaf).path().parts().len() == 1)
        .map(|leaf| parquet.get_column_root_idx(leaf))
        .collect();
    if old_times.is_empty() {
        return Ok(metadata);
    }
    let fields = metadata.schema().fields().iter().enumerate();
    let fields = fields.map(|(index, field)| match old_times.contains(&index) {
        true => {
            let time = DataType::Timestamp(TimeUnit::Microsecond, None);
            Arc::new(Field::clone(field).with_data_type(time))
        }
        false => Arc::clone(field),
    });
    let schema = Schema::new(fields.collect::<Vec<_>>());
    ArrowReaderMetadata::try_new(footer, options.with_schema(Arc::new(schema)))
}

/// Calls the library, which has assertions where it should have errors: a damaged file meets them.
fn guarded<T>(path: &Path, call: impl FnOnce() -> T) -> Result<T, OperatorError> {
    let called = catch_unwind(AssertUnwindSafe(call));
    called.map_err(|_| damaged(path, "what is in it makes no sense"))
}

/// The error of a file that says one thing and holds another, or nothing that can be read.
fn damaged(path: &Path, why: &str) -> OperatorError {
    let what = format!("source file {path:?} is a damaged Parquet file: {why}");
    OperatorError::new(ErrorKind::External, what)
        .with_remedy("bring the whole file again, or take it away")
}
