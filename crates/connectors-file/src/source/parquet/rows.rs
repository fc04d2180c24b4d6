//! One split of a Parquet file that is being read.

use std::sync::Arc;

use arrow::array::RecordBatch;
use millstream_batch::Batch;
use millstream_env::fs::Fs;
use millstream_graph::FileSource;
use millstream_operator::{Budget, OperatorError, ReaderOutput};
use parquet::arrow::ProjectionMask;
use parquet::arrow::arrow_reader::{ParquetRecordBatchReader, ParquetRecordBatchReaderBuilder};
use parquet::file::metadata::RowGroupMetaData;

use super::super::split::{FileSplit, Mark};
use super::{ParquetFile, damaged, guarded};

/// A split with its file open.
pub(in crate::source) struct ParquetProgress {
    split: FileSplit,
    file: ParquetFile,
    /// None before the first rows are wanted.
    reader: Option<ParquetRecordBatchReader>,
    /// Rows that were read and not handed out.
    held: Option<RecordBatch>,
    /// Rows of the split.
    rows: u64,
}

impl ParquetProgress {
    /// Opens the split's file.
    pub(in crate::source) fn open(
        fs: &Arc<dyn Fs>,
        config: &FileSource,
        split: FileSplit,
    ) -> Result<Self, OperatorError> {
        let file = ParquetFile::open(fs, &split.path, split.pin, &config.schema)?;
        let mut progress = Self {
            split,
            file,
            reader: None,
            held: None,
            rows: 0,
        };
        let groups = progress.groups()?;
        let rows = groups.iter().map(|(_, group)| rows_of(group));
        progress.rows = rows.fold(0, u64::saturating_add);
        Ok(progress)
    }

    /// The split, with what was handed out.
    pub(in crate::source) fn split(&self) -> &FileSplit {
        &self.split
    }

    /// The next rows, or the end of the split; `None` if no rows came.
    pub(in crate::source) fn step(
        &mut self,
        budget: Budget,
    ) -> Result<Option<ReaderOutput>, OperatorError> {
        let batch = match self.held.take() {
            Some(batch) => batch,
            None => match self.read(budget)? {
                Some(batch) => batch,
                None => return Ok(Some(ReaderOutput::SplitFinished(self.split.id()))),
            },
        };
        let rows = batch.num_rows().min(budget.rows.max(1));
        if rows == 0 {
            return Ok(None);
        }
        if rows < batch.num_rows() {
            self.held = Some(batch.slice(rows, batch.num_rows() - rows));
        }
        self.split.position = Some(Mark {
            offset: self.done() + rows as u64,
            lines: None,
        });
        let batch = Batch::new(batch.slice(0, rows));
        Ok(Some(ReaderOutput::Batch(batch)))
    }

    /// Rows handed out.
    fn done(&self) -> u64 {
        self.split.position.map_or(0, |mark| mark.offset)
    }

    /// The next rows behind those that were handed out.
    fn read(&mut self, budget: Budget) -> Result<Option<RecordBatch>, OperatorError> {
        let mut reader = match self.reader.take() {
            Some(reader) => reader,
            None => self.start(budget)?,
        };
        let read = guarded(&self.split.path, || reader.next().transpose());
        // After the read: what was read before this look is from the file as it was.
        self.file.chunks.verify()?;
        let read = read?.map_err(|error| self.file.chunks.error(&error))?;
        self.reader = Some(reader);
        let Some(read) = read else {
            return match self.done() == self.rows {
                true => Ok(None),
                false => Err(self.count_error(self.done())),
            };
        };
        let read_so_far = self.done() + read.num_rows() as u64;
        if read_so_far > self.rows {
            return Err(self.count_error(read_so_far));
        }
        let converted = self.file.columns.convert(&read);
        converted
            .map(Some)
            .map_err(|error| damaged(&self.split.path, &error.to_string()))
    }

    fn count_error(&self, found: u64) -> OperatorError {
        let why = format!(
            "its footer promises {} rows in row groups {} to {}, and {found} were found",
            self.rows,
            self.split.start,
            self.split.end.saturating_sub(1),
        );
        damaged(&self.split.path, &why)
    }

    /// A reader that begins behind the rows that were handed out.
    fn start(&self, budget: Budget) -> Result<ParquetRecordBatchReader, OperatorError> {
        let groups = self.groups()?;
        let mut offset = self.done();
        let (mut left, mut bytes, mut rows) = (Vec::new(), 0_u64, 0_u64);
        for (index, group) in groups {
            if left.is_empty() && offset >= rows_of(group) {
                offset -= rows_of(group);
                continue;
            }
            left.push(index);
            bytes = bytes.saturating_add(self.bytes_of(group));
            rows = rows.saturating_add(rows_of(group));
        }
        // About as many rows as a batch has room for.
        let rows_in_batch = (budget.bytes as u64).saturating_mul(rows) / bytes.max(1);
        let rows_in_batch = usize::try_from(rows_in_batch).unwrap_or(usize::MAX);
        let schema = self.file.metadata.parquet_schema();
        let wanted = self.file.columns.wanted().iter().copied();
        let chunks = self.file.chunks.clone();
        let builder =
            ParquetRecordBatchReaderBuilder::new_with_metadata(chunks, self.file.metadata.clone())
                .with_projection(ProjectionMask::roots(schema, wanted))
                .with_row_groups(left)
                .with_batch_size(rows_in_batch.clamp(1, budget.rows.max(1)))
                .with_offset(usize::try_from(offset).unwrap_or(usize::MAX));
        let built = guarded(&self.split.path, || builder.build());
        built?.map_err(|error| self.file.chunks.error(&error))
    }

    /// The row groups of the split, by their numbers.
    fn groups(&self) -> Result<Vec<(usize, &RowGroupMetaData)>, OperatorError> {
        let all = self.file.row_groups();
        let range = usize::try_from(self.split.start)
            .ok()
            .zip(usize::try_from(self.split.end).ok());
        let found = range.and_then(|(start, end)| all.get(start..end).map(|found| (start, found)));
        let Some((start, found)) = found else {
            let why = format!("it has {} row groups and a split of more", all.len());
            return Err(damaged(&self.split.path, &why));
        };
        Ok((start..).zip(found).collect())
    }

    /// Bytes of the wanted columns, unpacked.
    fn bytes_of(&self, group: &RowGroupMetaData) -> u64 {
        let schema = self.file.metadata.parquet_schema();
        let wanted = self.file.columns.wanted();
        let columns = group.columns().iter().enumerate();
        columns
            .filter(|(leaf, _)| wanted.contains(&schema.get_column_root_idx(*leaf)))
            .map(|(_, column)| u64::try_from(column.uncompressed_size()).unwrap_or(0))
            .fold(0, u64::saturating_add)
    }
}

fn rows_of(group: &RowGroupMetaData) -> u64 {
    u64::try_from(group.num_rows()).unwrap_or(0)
}
