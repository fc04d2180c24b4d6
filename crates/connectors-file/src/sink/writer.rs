//! The writing half of a file sink.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use arrow::datatypes::SchemaRef;
use millstream_batch::{Batch, RowKind};
use millstream_env::fs::{Fs, OpenMode};
use millstream_graph::FileSink;
use millstream_operator::{Committable, ErrorKind, OperatorError, OperatorInfo, SinkWriter};
use millstream_types::{CheckpointId, Epoch, JobId};

use crate::fault;

use super::committable::PromisedFile;
use super::encode::Encoder;
use super::names::{Owner, staging_directory};
use super::output::{ClosedFile, OpenFile};

/// Rows encoded between two looks at a file's size.
const SLICE_ROWS: usize = 1024;

/// Writes rows to files in the staging directory. A period without rows makes no file.
pub struct FileSinkWriter {
    fs: Arc<dyn Fs>,
    directory: PathBuf,
    staging: PathBuf,
    config: FileSink,
    encoder: Encoder,
    /// None before it is opened.
    attempt: Option<Attempt>,
    open: Option<OpenFile>,
    /// Rolled since the last promise.
    closed: Vec<ClosedFile>,
}

struct Attempt {
    owner: Owner,
    epoch: Epoch,
    nonce: u64,
    next_sequence: u64,
}

impl FileSinkWriter {
    /// A writer of this job's rows.
    ///
    /// # Errors
    /// If the format has no form for a column.
    pub fn new(
        fs: Arc<dyn Fs>,
        config: FileSink,
        schema: &SchemaRef,
        job: JobId,
    ) -> Result<Self, OperatorError> {
        let directory = PathBuf::from(&config.path);
        Ok(Self {
            fs,
            staging: staging_directory(&directory, job),
            directory,
            encoder: Encoder::new(config.format, schema)?,
            config,
            attempt: None,
            open: None,
            closed: Vec::new(),
        })
    }

    fn write_slice(&mut self, slice: &Batch) -> Result<(), OperatorError> {
        let mut open = match self.open.take() {
            Some(open) => open,
            None => self.create()?,
        };
        open.rows(&self.encoder, slice.records())?;
        if open.bytes() >= self.config.roll_bytes {
            // Out of `self` first: a file that fails here is not written to again, and `abort`
            // finds it by its directory.
            self.closed.push(open.close()?);
        } else {
            self.open = Some(open);
        }
        Ok(())
    }

    fn create(&mut self) -> Result<OpenFile, OperatorError> {
        let not_open = || fault::internal("a file sink was written to before it was opened");
        let attempt = self.attempt.as_mut().ok_or_else(not_open)?;
        let sequence = attempt.next_sequence;
        attempt.next_sequence += 1;
        let extension = self.config.format.extension();
        let name = attempt
            .owner
            .staging_name(attempt.epoch, attempt.nonce, sequence, extension);
        let path = self.staging.join(name);
        let file = self.fs.open(&path, OpenMode::CreateNew);
        let file = file.map_err(fault::of_file_system)?;
        OpenFile::begin(&self.encoder, file, path, sequence)
    }

    fn promise(&self, file: &ClosedFile, checkpoint: CheckpointId) -> Option<Committable> {
        let Attempt { owner, nonce, .. } = self.attempt.as_ref()?;
        let extension = self.config.format.extension();
        let promised = PromisedFile {
            directory: self.directory.clone(),
            staging: file.path.clone(),
            name: owner.final_name(checkpoint, *nonce, file.sequence, extension),
            bytes: file.bytes,
            hash: file.hash,
        };
        Some(promised.encode())
    }
}

impl SinkWriter for FileSinkWriter {
    fn open(&mut self, info: &OperatorInfo, nonce: u64) -> Result<(), OperatorError> {
        create_directories(self.fs.as_ref(), &self.staging).map_err(fault::of_file_system)?;
        self.attempt = Some(Attempt {
            owner: Owner::new(info),
            epoch: info.epoch,
            nonce,
            next_sequence: 0,
        });
        Ok(())
    }

    fn write(&mut self, batch: &Batch) -> Result<(), OperatorError> {
        if let Some(row) = (0..batch.num_rows()).find(|row| takes_back(batch.kind(*row))) {
            let what = format!("row {row} of a batch takes back an earlier row; a file keeps all");
            return Err(OperatorError::new(ErrorKind::UserCode, what)
                .with_remedy("let the aggregate in front emit at the end"));
        }
        let mut from = 0;
        while from < batch.num_rows() {
            let length = SLICE_ROWS.min(batch.num_rows() - from);
            self.write_slice(&batch.slice(from, length))?;
            from += length;
        }
        Ok(())
    }

    fn prepare_commit(
        &mut self,
        checkpoint: CheckpointId,
    ) -> Result<Vec<Committable>, OperatorError> {
        if let Some(open) = self.open.take() {
            self.closed.push(open.close()?);
        }
        if self.closed.is_empty() {
            return Ok(Vec::new());
        }
        self.fs
            .sync_dir(&self.staging)
            .map_err(fault::of_file_system)?;
        let promised = self
            .closed
            .iter()
            .filter_map(|file| self.promise(file, checkpoint));
        let promised: Vec<Committable> = promised.collect();
        self.closed.clear();
        Ok(promised)
    }

    fn abort(&mut self) {
        let open = self.open.take().map(|open| open.path);
        let closed = std::mem::take(&mut self.closed);
        for path in closed.into_iter().map(|file| file.path).chain(open) {
            // Best effort: the next attempt removes what is left.
            let _ = self.fs.remove(&path);
        }
    }
}

fn takes_back(kind: RowKind) -> bool {
    match kind {
        RowKind::Insert | RowKind::UpdateAfter => false,
        RowKind::UpdateBefore | RowKind::Delete => true,
    }
}

/// Creates a directory and those above it, durably as far as this user may look into them.
fn create_directories(fs: &dyn Fs, path: &Path) -> Result<(), millstream_env::fs::FsError> {
    fs.create_dir_all(path)?;
    for directory in path.ancestors() {
        let directory = match directory.as_os_str().is_empty() {
            true => Path::new("."),
            false => directory,
        };
        match fs.sync_dir(directory) {
            // This user made no name in a directory that is closed to him.
            Err(error) if is_closed(error.kind()) => break,
            synced => synced?,
        }
    }
    Ok(())
}

fn is_closed(kind: io::ErrorKind) -> bool {
    matches!(
        kind,
        io::ErrorKind::PermissionDenied
            | io::ErrorKind::ReadOnlyFilesystem
            | io::ErrorKind::InvalidInput
            | io::ErrorKind::Unsupported
    )
}
