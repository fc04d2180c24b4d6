//! Errors of files, with what to do about them.

use std::io;
use std::path::Path;

use millstream_env::fs::FsError;
use millstream_operator::{ErrorKind, OperatorError};

/// A file system that said no. The error names the path and what was tried.
pub(crate) fn of_file_system(error: FsError) -> OperatorError {
    let kind = error.kind();
    let what = format!("cannot {} {:?}: {}", error.action, error.path, error.source);
    with_remedy(OperatorError::new(ErrorKind::External, what), kind).with_source(error)
}

/// A call on an open file that failed.
pub(crate) fn of_io(action: &str, path: &Path, error: io::Error) -> OperatorError {
    let kind = error.kind();
    let what = format!("cannot {action} {path:?}: {error}");
    with_remedy(OperatorError::new(ErrorKind::External, what), kind).with_source(error)
}

/// A file is not what it was when its splits were made.
pub(crate) fn changed(path: &Path, how: &str) -> OperatorError {
    let what = format!("source file {path:?} changed while the job reads it: {how}");
    OperatorError::new(ErrorKind::External, what)
        .with_remedy("write new contents under a new name; start the job without its old state")
}

/// A job that must not have come this far.
pub(crate) fn internal(what: impl Into<String>) -> OperatorError {
    OperatorError::new(ErrorKind::Internal, what)
}

fn with_remedy(error: OperatorError, kind: io::ErrorKind) -> OperatorError {
    let remedy = match kind {
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => {
            "free space there; the job goes on from its last checkpoint"
        }
        io::ErrorKind::ReadOnlyFilesystem => {
            "mount it writable, or give the sink a path on a file system that is"
        }
        io::ErrorKind::PermissionDenied => "let the user that the taskmanager runs as into it",
        io::ErrorKind::NotFound => "check the path as the taskmanager's machine sees it",
        io::ErrorKind::Unsupported | io::ErrorKind::CrossesDevices => {
            "use a file system with hard links, and nothing mounted below the sink's directory"
        }
        _ => return error,
    };
    error.with_remedy(remedy)
}
