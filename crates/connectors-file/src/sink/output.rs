//! A file that is being written: text as it comes, Parquet a row group at a time.

use std::io::{self, Write};
use std::path::{Path, PathBuf};

use arrow::array::RecordBatch;
use millstream_env::fs::File;
use millstream_operator::OperatorError;
use parquet::arrow::ArrowWriter;
use parquet::errors::ParquetError;
use xxhash_rust::xxh3::Xxh3;

use crate::fault;

use super::encode::Encoder;

/// Bytes of text gathered before they are written.
const WRITE_BYTES: usize = 256 * 1024;
/// Memory that the rows of a row group may take before it is written.
const ROW_GROUP_BYTES: usize = 32 << 20;

/// A file that is open.
pub(super) struct OpenFile {
    pub(super) path: PathBuf,
    pub(super) sequence: u64,
    form: Form,
}

enum Form {
    Text {
        out: Out,
        /// Not yet written.
        buffer: Vec<u8>,
    },
    Parquet(Box<ArrowWriter<Out>>),
}

/// A file whose contents are durable.
pub(super) struct ClosedFile {
    pub(super) path: PathBuf,
    pub(super) sequence: u64,
    pub(super) bytes: u64,
    pub(super) hash: u64,
}

impl OpenFile {
    /// Begins a file that is empty.
    pub(super) fn begin(
        encoder: &Encoder,
        file: Box<dyn File>,
        path: PathBuf,
        sequence: u64,
    ) -> Result<Self, OperatorError> {
        let out = Out::new(file);
        let form = match encoder.parquet() {
            Some(properties) => {
                let writer = ArrowWriter::try_new_with_options(
                    out,
                    encoder.schema().clone(),
                    properties.clone(),
                );
                let internal = |e| fault::internal("Parquet cannot be written").with_source(e);
                Form::Parquet(Box::new(writer.map_err(internal)?))
            }
            None => {
                let mut buffer = Vec::with_capacity(WRITE_BYTES);
                encoder.header(&mut buffer);
                Form::Text { out, buffer }
            }
        };
        Ok(Self {
            path,
            sequence,
            form,
        })
    }

    /// Adds rows.
    pub(super) fn rows(
        &mut self,
        encoder: &Encoder,
        rows: &RecordBatch,
    ) -> Result<(), OperatorError> {
        match &mut self.form {
            Form::Text { out, buffer } => {
                encoder.rows(rows, buffer)?;
                if buffer.len() >= WRITE_BYTES {
                    write_out(out, buffer, &self.path)?;
                }
                Ok(())
            }
            Form::Parquet(writer) => {
                let rows = encoder.as_declared(rows)?;
                let mut written = writer.write(&rows);
                if written.is_ok() && writer.memory_size() >= ROW_GROUP_BYTES {
                    written = writer.flush();
                }
                written.map_err(|error| parquet_error(writer.inner(), &self.path, error))
            }
        }
    }

    /// About the bytes it has so far.
    pub(super) fn bytes(&self) -> u64 {
        match &self.form {
            Form::Text { out, buffer } => out.bytes + buffer.len() as u64,
            Form::Parquet(writer) => (writer.bytes_written() + writer.in_progress_size()) as u64,
        }
    }

    /// Writes what is left and makes the contents durable. The name is not, before the directory is
    /// synced.
    pub(super) fn close(self) -> Result<ClosedFile, OperatorError> {
        let Self {
            path,
            sequence,
            form,
        } = self;
        let (bytes, hash) = match form {
            Form::Text {
                mut out,
                mut buffer,
            } => {
                write_out(&mut out, &mut buffer, &path)?;
                out.finish(&path)?
            }
            Form::Parquet(mut writer) => {
                if let Err(error) = writer.finish() {
                    return Err(parquet_error(writer.inner(), &path, error));
                }
                // Taking it out of its writer would write a second footer.
                writer.inner_mut().finish(&path)?
            }
        };
        Ok(ClosedFile {
            path,
            sequence,
            bytes,
            hash,
        })
    }
}

fn write_out(out: &mut Out, buffer: &mut Vec<u8>, path: &Path) -> Result<(), OperatorError> {
    let written = out.write_all(buffer);
    written.map_err(|error| fault::of_io("write", path, error))?;
    buffer.clear();
    Ok(())
}

/// The file system's error, or else that of the library.
fn parquet_error(out: &Out, path: &Path, error: ParquetError) -> OperatorError {
    match out.failed {
        Some(kind) => fault::of_io("write", path, io::Error::from(kind)),
        None => fault::internal("rows cannot be written as Parquet").with_source(error),
    }
}

/// A file with the length and the hash of what was written to it.
struct Out {
    file: Box<dyn File>,
    bytes: u64,
    hash: Box<Xxh3>,
    /// Why writing failed, which the Parquet library would make a text of.
    failed: Option<io::ErrorKind>,
}

impl Out {
    fn new(file: Box<dyn File>) -> Self {
        Self {
            file,
            bytes: 0,
            hash: Box::new(Xxh3::new()),
            failed: None,
        }
    }
}

impl Out {
    /// Makes the contents durable; their length and hash.
    fn finish(&mut self, path: &Path) -> Result<(u64, u64), OperatorError> {
        let synced = self.file.sync();
        synced.map_err(|error| fault::of_io("sync", path, error))?;
        Ok((self.bytes, self.hash.digest()))
    }
}

impl Write for Out {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let written = self.file.write(bytes);
        match &written {
            Ok(count) => {
                self.hash.update(&bytes[..*count]);
                self.bytes += *count as u64;
            }
            Err(error) if error.kind() != io::ErrorKind::Interrupted => {
                self.failed = Some(error.kind());
            }
            Err(_) => {}
        }
        written
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}
