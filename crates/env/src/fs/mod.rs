//! Local files: the machine's, and files in memory that can lose what was not synced.
//!
//! Calls block. Asynchronous code runs them through [`crate::Spawner::blocking`].

mod memory;
mod publish;
mod real;

use std::ffi::OsString;
use std::fmt;
use std::io::{self, Read, Seek, Write};
use std::path::{Path, PathBuf};

pub use memory::MemoryFs;
pub use publish::{PublishError, Published};
pub use real::RealFs;

/// Files by path: contents and space. Names are [`Names`]'.
pub trait Fs: Names {
    /// Opens a file.
    fn open(&self, path: &Path, mode: OpenMode) -> Result<Box<dyn File>, FsError>;
    /// Bytes an ordinary user may still write to the file system that holds `path`.
    fn free_space(&self, path: &Path) -> Result<u64, FsError>;
}

/// What names stand for what: directories and their entries.
pub trait Names: Send + Sync + fmt::Debug {
    /// Creates a directory and those above it; fine if it exists.
    fn create_dir_all(&self, path: &Path) -> Result<(), FsError>;
    /// Makes the directory's entries durable: created, linked, renamed and removed names.
    fn sync_dir(&self, path: &Path) -> Result<(), FsError>;
    /// Gives a file a new name, replacing what had it.
    fn rename(&self, from: &Path, to: &Path) -> Result<(), FsError>;
    /// Gives a file a second name; [`io::ErrorKind::AlreadyExists`] if something has it.
    fn hard_link(&self, from: &Path, to: &Path) -> Result<(), FsError>;
    /// Removes a name of a file, or an empty directory.
    fn remove(&self, path: &Path) -> Result<(), FsError>;
    /// The entries of a directory, in order of their names.
    fn list(&self, path: &Path) -> Result<Vec<Entry>, FsError>;
    /// What is at the path itself: a link is not followed.
    fn metadata(&self, path: &Path) -> Result<Metadata, FsError>;
}

/// An open file.
pub trait File: Read + Write + Seek + Send {
    /// Makes the contents durable. The name is the directory's: see [`Names::sync_dir`].
    fn sync(&mut self) -> io::Result<()>;
}

/// How a file is opened.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum OpenMode {
    /// For reading; it must exist.
    Read,
    /// For writing; it must not exist.
    CreateNew,
    /// For writing at its end; created if missing.
    Append,
    /// For reading and writing, in the directory at the path and without a name of its own: it is gone
    /// when it is closed, however that comes about.
    Unnamed,
}

/// What a directory entry is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum FileKind {
    /// A regular file.
    File,
    /// A directory.
    Directory,
    /// A symbolic link, not followed.
    Symlink,
    /// A device, a socket, a pipe.
    Other,
}

/// Facts about a file.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Metadata {
    /// What it is.
    pub kind: FileKind,
    /// Length of its contents.
    pub bytes: u64,
    /// Last change of the contents, in milliseconds since 1970; a file in memory has 0.
    pub modified_ms: i64,
}

/// One name in a directory.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Entry {
    /// The name within its directory.
    pub name: OsString,
    /// What it stands for.
    pub kind: FileKind,
}

/// A file operation that did not succeed.
#[derive(Debug, thiserror::Error)]
#[error("cannot {action} {path:?}")]
pub struct FsError {
    /// What was tried: "open", "remove".
    pub action: &'static str,
    /// The file or directory.
    pub path: PathBuf,
    /// What the operating system said.
    pub source: io::Error,
}

impl FsError {
    /// The operating system's kind of error.
    pub fn kind(&self) -> io::ErrorKind {
        self.source.kind()
    }

    fn at(action: &'static str, path: &Path) -> impl FnOnce(io::Error) -> Self {
        move |source| Self {
            action,
            path: path.to_owned(),
            source,
        }
    }
}

impl dyn Fs + '_ {
    /// The whole file, if it has at most `bytes_max`: a longer one is refused, not cut.
    pub fn read(&self, path: &Path, bytes_max: u64) -> Result<Vec<u8>, FsError> {
        let file = self.open(path, OpenMode::Read)?;
        let mut contents = Vec::new();
        let read = file
            .take(bytes_max.saturating_add(1))
            .read_to_end(&mut contents);
        read.map_err(FsError::at("read", path))?;
        if contents.len() as u64 > bytes_max {
            let message = format!("the file has more than {bytes_max} bytes");
            let source = io::Error::new(io::ErrorKind::FileTooLarge, message);
            return Err(FsError::at("read", path)(source));
        }
        Ok(contents)
    }

    /// Writes a new file and makes its contents durable; its name is durable after
    /// [`Names::sync_dir`].
    pub fn write_new(&self, path: &Path, contents: &[u8]) -> Result<(), FsError> {
        let mut file = self.open(path, OpenMode::CreateNew)?;
        file.write_all(contents)
            .map_err(FsError::at("write", path))?;
        file.sync().map_err(FsError::at("sync", path))
    }

    /// Creates a directory and those above it, durably: each new name is synced in its parent.
    pub fn create_dir_durable(&self, path: &Path) -> Result<(), FsError> {
        self.create_dir_all(path)?;
        for directory in path.ancestors() {
            // The ancestors of a relative path end with the empty one: the working directory.
            let directory = if directory.as_os_str().is_empty() {
                Path::new(".")
            } else {
                directory
            };
            self.sync_dir(directory)?;
        }
        Ok(())
    }

    /// Removes a file, or a directory with all that is in it; links are removed, not followed. Fine
    /// if nothing is there.
    pub fn remove_tree(&self, path: &Path) -> Result<(), FsError> {
        let found = self.metadata(path);
        if matches!(&found, Err(error) if error.kind() == io::ErrorKind::NotFound) {
            return Ok(());
        }
        // Iterative: a hostile tree may be deeper than the stack. A directory is visited before
        // what is in it, so the reverse order empties it first.
        let mut pending = vec![(path.to_owned(), found?.kind)];
        let mut visited = Vec::new();
        while let Some((path, kind)) = pending.pop() {
            if kind == FileKind::Directory {
                let entries = self.list(&path)?;
                pending.extend(entries.into_iter().map(|e| (path.join(e.name), e.kind)));
            }
            visited.push(path);
        }
        visited.iter().rev().try_for_each(|path| self.remove(path))
    }

    /// Whether something is at the path.
    pub fn exists(&self, path: &Path) -> Result<bool, FsError> {
        match self.metadata(path) {
            Ok(_) => Ok(true),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
            Err(error) => Err(error),
        }
    }
}

#[cfg(test)]
mod tests;
