//! Failures of files as answers of an object store.

use std::io::ErrorKind;
use std::path::Path as FsPath;

use millstream_env::fs::{FsError, PublishError};
use object_store::Error;

use super::STORE;

/// What can go wrong while a file is published.
pub(super) enum CreateError {
    Dir(FsError),
    Publish(PublishError),
}

impl CreateError {
    pub(super) fn kind(&self) -> ErrorKind {
        match self {
            Self::Dir(error) => error.kind(),
            Self::Publish(error) => error.source.kind(),
        }
    }

    pub(super) fn answer(self, path: &FsPath) -> Error {
        match self {
            Self::Dir(error) => answer(path, error),
            Self::Publish(error) if error.source.kind() == ErrorKind::PermissionDenied => {
                Error::PermissionDenied {
                    path: path.display().to_string(),
                    source: Box::new(error),
                }
            }
            // Carries what is known of the outcome.
            Self::Publish(error) => Error::Generic {
                store: STORE,
                source: Box::new(error),
            },
        }
    }
}

impl From<FsError> for CreateError {
    fn from(error: FsError) -> Self {
        Self::Dir(error)
    }
}

pub(super) fn already_exists(path: &FsPath) -> Error {
    Error::AlreadyExists {
        path: path.display().to_string(),
        source: "a file has that name".into(),
    }
}

pub(super) fn not_implemented(operation: &str) -> Error {
    Error::NotImplemented {
        operation: operation.into(),
        implementer: STORE.into(),
    }
}

pub(super) fn answer(path: &FsPath, error: FsError) -> Error {
    let path = path.display().to_string();
    match error.kind() {
        ErrorKind::NotFound => Error::NotFound {
            path,
            source: Box::new(error),
        },
        // None of these changes by itself.
        ErrorKind::PermissionDenied | ErrorKind::NotADirectory | ErrorKind::ReadOnlyFilesystem => {
            Error::PermissionDenied {
                path,
                source: Box::new(error),
            }
        }
        _ => Error::Generic {
            store: STORE,
            source: Box::new(error),
        },
    }
}
