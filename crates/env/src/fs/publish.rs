//! Create-if-absent of a whole file, as the entries of a claim chain need it on a local directory.

use std::io;
use std::path::{Path, PathBuf};

use millstream_types::WriteOutcome;

use super::{Fs, FsError};

/// What came of a file that was to be created only if absent.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Published {
    /// It is there now, whole and durable.
    Created,
    /// Another one has the name, durably. It is untouched.
    AlreadyExists,
}

/// The file is not known to be published.
#[derive(Debug, thiserror::Error)]
#[error("{path:?} not published")]
pub struct PublishError {
    /// The file that was to be created.
    pub path: PathBuf,
    /// What is known: after [`WriteOutcome::MayHaveHappened`] only reading back tells.
    pub outcome: WriteOutcome,
    /// The step that went wrong.
    pub source: FsError,
}

impl dyn Fs + '_ {
    /// Creates the file `path` with these contents, unless something has that name. It appears
    /// whole or not at all, and what is reported survives a power cut; so does an existing file that
    /// is reported, since its reader will build on it.
    ///
    /// `nonce` makes the temporary name unique. A crash may leave `.<name>.<nonce>.tmp` behind: such
    /// names are for sweeping.
    pub fn publish(
        &self,
        path: &Path,
        contents: &[u8],
        nonce: u64,
    ) -> Result<Published, PublishError> {
        let failed = |outcome| {
            move |source| PublishError {
                path: path.to_owned(),
                outcome,
                source,
            }
        };
        let directory = match path.parent() {
            Some(parent) if !parent.as_os_str().is_empty() => parent,
            _ => Path::new("."),
        };
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        let temporary = directory.join(format!(".{name}.{nonce:016x}.tmp"));

        let written = self.write_new(&temporary, contents);
        if written.is_err() {
            // Best effort: a leftover is swept later.
            let _ = self.remove(&temporary);
        }
        written.map_err(failed(WriteOutcome::DidNotHappen))?;

        let linked = self.hard_link(&temporary, path);
        let _ = self.remove(&temporary);
        let published = match linked {
            Ok(()) => Published::Created,
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Published::AlreadyExists,
            Err(error) => {
                let outcome = outcome_of_link(error.kind());
                return Err(failed(outcome)(error));
            }
        };
        self.sync_dir(directory)
            .map_err(failed(WriteOutcome::MayHaveHappened))?;
        Ok(published)
    }
}

/// Only what the operating system decides before it touches the directory is a clear no; over a
/// network file system a reply may be lost after the link was made.
fn outcome_of_link(kind: io::ErrorKind) -> WriteOutcome {
    match kind {
        io::ErrorKind::NotFound
        | io::ErrorKind::PermissionDenied
        | io::ErrorKind::ReadOnlyFilesystem
        | io::ErrorKind::StorageFull
        | io::ErrorKind::QuotaExceeded
        | io::ErrorKind::CrossesDevices
        | io::ErrorKind::TooManyLinks
        | io::ErrorKind::InvalidFilename
        | io::ErrorKind::Unsupported => WriteOutcome::DidNotHappen,
        _ => WriteOutcome::MayHaveHappened,
    }
}
