//! What a file was when its splits were made.

use std::io::{self, Read, Seek, SeekFrom};
use std::path::Path;

use millstream_env::fs::{File, FileKind, Fs, OpenMode};
use millstream_operator::{ErrorKind, OperatorError};
use xxhash_rust::xxh3::xxh3_64;

use crate::fault;

/// Bytes at the start of a file that are compared whenever it is opened.
const HEAD_BYTES: u64 = 4096;

/// Length, time of change and first bytes of a file. Of a symbolic link the time is the link's own.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Pin {
    pub(crate) bytes: u64,
    pub(crate) modified_ms: i64,
    pub(crate) head_hash: u64,
}

/// A file, what it is, and how it starts.
struct Opened {
    pin: Pin,
    head: Vec<u8>,
    file: Box<dyn File>,
}

impl Pin {
    /// Looks at a file that was never looked at before; also returns its first bytes.
    pub(crate) fn new(fs: &dyn Fs, path: &Path) -> Result<(Self, Vec<u8>), OperatorError> {
        let Opened { pin, head, .. } = Self::open(fs, path)?;
        Ok((pin, head))
    }

    /// Opens a file that must still be what it was.
    pub(crate) fn reopen(&self, fs: &dyn Fs, path: &Path) -> Result<Box<dyn File>, OperatorError> {
        let Opened { pin, file, .. } = Self::open(fs, path)?;
        self.compare(&pin, path)?;
        Ok(file)
    }

    /// That the file was not touched since: cheap, for use between reads.
    pub(crate) fn verify(&self, fs: &dyn Fs, path: &Path) -> Result<(), OperatorError> {
        let metadata = fs.metadata(path).map_err(fault::of_file_system)?;
        let bytes = match metadata.kind {
            FileKind::File => metadata.bytes,
            FileKind::Directory | FileKind::Symlink | FileKind::Other => self.bytes,
        };
        let found = Self {
            bytes,
            modified_ms: metadata.modified_ms,
            head_hash: self.head_hash,
        };
        self.compare(&found, path)
    }

    fn open(fs: &dyn Fs, path: &Path) -> Result<Opened, OperatorError> {
        let metadata = fs.metadata(path).map_err(fault::of_file_system)?;
        match metadata.kind {
            FileKind::File | FileKind::Symlink => {}
            FileKind::Directory | FileKind::Other => {
                let what = format!("source file {path:?} is no regular file");
                return Err(OperatorError::new(ErrorKind::External, what)
                    .with_remedy("name files, or a directory whose files are meant"));
            }
        }
        let mut file = fs
            .open(path, OpenMode::Read)
            .map_err(fault::of_file_system)?;
        let read = read_head(&mut file).map_err(|error| fault::of_io("read", path, error));
        let (bytes, head) = read?;
        let pin = Self {
            bytes,
            modified_ms: metadata.modified_ms,
            head_hash: xxh3_64(&head),
        };
        Ok(Opened { pin, head, file })
    }

    fn compare(&self, found: &Self, path: &Path) -> Result<(), OperatorError> {
        if found.bytes != self.bytes {
            let how = format!("it had {} bytes and has {}", self.bytes, found.bytes);
            return Err(fault::changed(path, &how));
        }
        if found.head_hash != self.head_hash {
            return Err(fault::changed(path, "it starts with other bytes"));
        }
        if found.modified_ms != self.modified_ms {
            return Err(fault::changed(path, "it was written again"));
        }
        Ok(())
    }
}

fn read_head(file: &mut Box<dyn File>) -> io::Result<(u64, Vec<u8>)> {
    let bytes = file.seek(SeekFrom::End(0))?;
    file.seek(SeekFrom::Start(0))?;
    let mut head = Vec::new();
    file.take(bytes.min(HEAD_BYTES)).read_to_end(&mut head)?;
    Ok((bytes, head))
}
