//! The bytes of a Parquet file, from any place, for the library that reads it.

use std::fmt::Display;
use std::io::{self, BufReader, Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use bytes::Bytes;
use millstream_env::fs::{File, Fs};
use millstream_operator::OperatorError;
use parquet::errors::ParquetError;
use parquet::file::reader::{ChunkReader, Length};

use crate::fault;

use super::super::pin::Pin;
use super::damaged;

/// Bytes read at once where the headers of pages are.
const HEADER_BYTES: usize = 4 * 1024;

/// A file that is open. Clones share it.
#[derive(Clone)]
pub(super) struct Chunks {
    fs: Arc<dyn Fs>,
    path: PathBuf,
    pin: Pin,
    open: Arc<Mutex<Open>>,
}

struct Open {
    file: Box<dyn File>,
    /// The file system's error, which the library would make a text of.
    failed: Option<io::ErrorKind>,
}

impl Chunks {
    pub(super) fn open(fs: Arc<dyn Fs>, path: &Path, pin: Pin) -> Result<Self, OperatorError> {
        let file = pin.reopen(fs.as_ref(), path)?;
        Ok(Self {
            fs,
            path: path.to_owned(),
            pin,
            open: Arc::new(Mutex::new(Open { file, failed: None })),
        })
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    pub(super) fn bytes(&self) -> u64 {
        self.pin.bytes
    }

    /// That what was read so far is of the file as it was.
    pub(super) fn verify(&self) -> Result<(), OperatorError> {
        self.pin.verify(self.fs.as_ref(), &self.path)
    }

    /// A few bytes, for ourselves.
    pub(super) fn read(&self, start: u64, length: u64) -> Result<Vec<u8>, OperatorError> {
        let mut bytes = vec![0; usize::try_from(length).unwrap_or(usize::MAX)];
        let read = self.read_exact(start, &mut bytes);
        read.map_err(|error| fault::of_io("read", &self.path, error))?;
        Ok(bytes)
    }

    /// The error for what the library says: the file system's, or else the file is damaged.
    pub(super) fn error(&self, found: &dyn Display) -> OperatorError {
        let failed = self.locked(|open| open.failed);
        match failed {
            Some(kind) => fault::of_io("read", &self.path, io::Error::from(kind)),
            None => damaged(&self.path, &found.to_string()),
        }
    }

    fn read_exact(&self, start: u64, bytes: &mut [u8]) -> io::Result<()> {
        self.locked(|open| {
            let read = open.file.seek(SeekFrom::Start(start));
            let read = read.and_then(|_| open.file.read_exact(bytes));
            open.note(read)
        })
    }

    fn locked<T>(&self, work: impl FnOnce(&mut Open) -> T) -> T {
        // Nothing in there is half done after a panic: every call goes to its place first.
        let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        work(&mut open)
    }
}

impl Open {
    fn note<T>(&mut self, read: io::Result<T>) -> io::Result<T> {
        if let Err(error) = &read
            && error.kind() != io::ErrorKind::UnexpectedEof
        {
            self.failed = Some(error.kind());
        }
        read
    }
}

impl Length for Chunks {
    fn len(&self) -> u64 {
        self.pin.bytes
    }
}

impl ChunkReader for Chunks {
    type T = BufReader<Stretch>;

    fn get_read(&self, start: u64) -> Result<Self::T, ParquetError> {
        let from = Stretch {
            chunks: self.clone(),
            offset: start,
        };
        Ok(BufReader::with_capacity(HEADER_BYTES, from))
    }

    fn get_bytes(&self, start: u64, length: usize) -> Result<Bytes, ParquetError> {
        // Before anything is allocated for it.
        let end = start.checked_add(length as u64);
        if end.is_none_or(|end| end > self.pin.bytes) {
            let what = format!("{length} bytes at {start} are beyond its end");
            return Err(ParquetError::EOF(what));
        }
        let mut bytes = vec![0; length];
        self.read_exact(start, &mut bytes)?;
        Ok(bytes.into())
    }
}

/// The file from a place on.
pub(super) struct Stretch {
    chunks: Chunks,
    offset: u64,
}

impl Read for Stretch {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let offset = self.offset;
        let read = self.chunks.locked(|open| {
            let read = open.file.seek(SeekFrom::Start(offset));
            let read = read.and_then(|_| open.file.read(buffer));
            open.note(read)
        })?;
        self.offset += read as u64;
        Ok(read)
    }
}
