//! The machine's files.

use std::fs;
use std::io;
use std::path::Path;
use std::time::UNIX_EPOCH;

use super::{Entry, File, FileKind, Fs, FsError, Metadata, Names, OpenMode};

/// The machine's file system.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct RealFs;

impl Fs for RealFs {
    fn open(&self, path: &Path, mode: OpenMode) -> Result<Box<dyn File>, FsError> {
        let mut options = fs::OpenOptions::new();
        match mode {
            OpenMode::Unnamed => {
                let file = tempfile::tempfile_in(path);
                return Ok(Box::new(file.map_err(FsError::at("make a file in", path))?));
            }
            OpenMode::Read => options.read(true),
            OpenMode::CreateNew => options.write(true).create_new(true),
            OpenMode::Append => options.append(true).create(true),
        };
        let file = options.open(path).map_err(FsError::at("open", path))?;
        Ok(Box::new(file))
    }

    fn free_space(&self, path: &Path) -> Result<u64, FsError> {
        let stat = rustix::fs::statvfs(path).map_err(io::Error::from);
        let stat = stat.map_err(FsError::at("measure the free space of", path))?;
        Ok(stat.f_bavail.saturating_mul(stat.f_frsize))
    }
}

impl Names for RealFs {
    fn create_dir_all(&self, path: &Path) -> Result<(), FsError> {
        fs::create_dir_all(path).map_err(FsError::at("create directory", path))
    }

    fn sync_dir(&self, path: &Path) -> Result<(), FsError> {
        let synced = fs::File::open(path).and_then(|directory| directory.sync_all());
        synced.map_err(FsError::at("sync directory", path))
    }

    fn rename(&self, from: &Path, to: &Path) -> Result<(), FsError> {
        fs::rename(from, to).map_err(FsError::at("rename a file to", to))
    }

    fn hard_link(&self, from: &Path, to: &Path) -> Result<(), FsError> {
        fs::hard_link(from, to).map_err(FsError::at("link a file to", to))
    }

    fn remove(&self, path: &Path) -> Result<(), FsError> {
        let is_dir = fs::symlink_metadata(path).map(|metadata| metadata.is_dir());
        let removed = is_dir.and_then(|is_dir| match is_dir {
            true => fs::remove_dir(path),
            false => fs::remove_file(path),
        });
        removed.map_err(FsError::at("remove", path))
    }

    fn list(&self, path: &Path) -> Result<Vec<Entry>, FsError> {
        let list = || -> io::Result<Vec<Entry>> {
            let mut entries = Vec::new();
            for entry in fs::read_dir(path)? {
                let entry = entry?;
                entries.push(Entry {
                    name: entry.file_name(),
                    kind: kind(entry.file_type()?),
                });
            }
            entries.sort_by(|a, b| a.name.cmp(&b.name));
            Ok(entries)
        };
        list().map_err(FsError::at("list", path))
    }

    fn metadata(&self, path: &Path) -> Result<Metadata, FsError> {
        let read = || -> io::Result<Metadata> {
            let metadata = fs::symlink_metadata(path)?;
            let modified = metadata
                .modified()?
                .duration_since(UNIX_EPOCH)
                .unwrap_or_default();
            Ok(Metadata {
                kind: kind(metadata.file_type()),
                bytes: metadata.len(),
                modified_ms: i64::try_from(modified.as_millis()).unwrap_or(i64::MAX),
            })
        };
        read().map_err(FsError::at("look at", path))
    }
}

impl File for fs::File {
    fn sync(&mut self) -> io::Result<()> {
        self.sync_all()
    }
}

fn kind(file_type: fs::FileType) -> FileKind {
    if file_type.is_file() {
        FileKind::File
    } else if file_type.is_dir() {
        FileKind::Directory
    } else if file_type.is_symlink() {
        FileKind::Symlink
    } else {
        FileKind::Other
    }
}
