//! RocksDB's and the file system's errors in our own words.

use std::io;
use std::path::Path;

use millstream_state::StateError;
use millstream_types::Disposition;
use rocksdb::ErrorKind;

/// An error of the database at `path` while it did `action`.
pub(crate) fn database(action: &'static str, path: &Path, source: rocksdb::Error) -> StateError {
    let (remedy, disposition) = match source.kind() {
        ErrorKind::Corruption => (
            "check the local disk; the task is restored from its last checkpoint into a new directory",
            Disposition::FailTask,
        ),
        ErrorKind::IOError => (
            "check that the disk under `state.backend.rocksdb.localdir` works and has room",
            Disposition::FailTask,
        ),
        ErrorKind::Busy | ErrorKind::TimedOut | ErrorKind::TryAgain | ErrorKind::Incomplete => (
            "nothing: the database was busy and is tried again",
            Disposition::Retry,
        ),
        ErrorKind::NotFound
        | ErrorKind::NotSupported
        | ErrorKind::InvalidArgument
        | ErrorKind::MergeInProgress
        | ErrorKind::ShutdownInProgress
        | ErrorKind::Aborted
        | ErrorKind::Expired
        | ErrorKind::CompactionTooLarge
        | ErrorKind::ColumnFamilyDropped
        | ErrorKind::Unknown => (
            "report it with the database's LOG file: it should not happen",
            Disposition::FailTask,
        ),
    };
    StateError::Store {
        action,
        object: format!("database {}", path.display()),
        remedy,
        disposition,
        source: Box::new(source),
    }
}

/// An error of the file system at `path` while it did `action`.
pub(crate) fn file(action: &'static str, path: &Path, source: io::Error) -> StateError {
    StateError::Store {
        action,
        object: path.display().to_string(),
        remedy: "check that the directory of local state exists, is writable and has room",
        disposition: Disposition::FailTask,
        source: Box::new(source),
    }
}
