//! The committing half of a file sink.

use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use millstream_env::fs::{Fs, FsError, OpenMode};
use millstream_graph::FileSink;
use millstream_operator::{
    CommitFailure, Committable, Committer, ErrorKind, OperatorError, OperatorInfo,
};
use millstream_types::JobId;
use xxhash_rust::xxh3::Xxh3;

use crate::fault;

use super::committable::PromisedFile;
use super::names::{Owner, staging_directory};

const READ_BYTES: usize = 256 * 1024;

/// Gives promised files their final names.
pub struct FileCommitter {
    fs: Arc<dyn Fs>,
    config: FileSink,
    job: JobId,
}

impl FileCommitter {
    /// A committer of this job's files.
    pub fn new(fs: Arc<dyn Fs>, config: FileSink, job: JobId) -> Self {
        Self { fs, config, job }
    }

    /// Links the staging file to its final name, or finds that this was done.
    fn link(&self, file: &PromisedFile) -> Result<(), CommitFailure> {
        match self.fs.metadata(&file.staging) {
            Ok(staged) if staged.bytes == file.bytes => {}
            Ok(staged) => {
                let found = staged.bytes;
                return Err(lost(file, &format!("its staging file has {found} bytes")));
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                return match self.is_committed(file)? {
                    true => Ok(()),
                    false => Err(lost(file, "neither it nor its staging file is there")),
                };
            }
            Err(error) => return Err(retry(error)),
        }
        match self.fs.hard_link(&file.staging, &file.target()) {
            Ok(()) => Ok(()),
            // Linked by a call that did not come back, or by an attempt that was replaced.
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                match self.is_committed(file)? {
                    true => Ok(()),
                    // Removed in between: the next call links it.
                    false => Err(retry(error)),
                }
            }
            Err(error) => Err(retry(error)),
        }
    }

    /// Whether the final name holds what was promised; that it holds something else is a loss.
    fn is_committed(&self, file: &PromisedFile) -> Result<bool, CommitFailure> {
        let target = file.target();
        let read = |error| CommitFailure::Retry(fault::of_io("read", &target, error));
        let mut open = match self.fs.open(&target, OpenMode::Read) {
            Ok(open) => open,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(false),
            Err(error) => return Err(retry(error)),
        };
        let (mut bytes, mut hash) = (0, Xxh3::new());
        let mut buffer = vec![0; READ_BYTES];
        // One byte more than promised tells a longer file, however long.
        while bytes <= file.bytes {
            let count = open.read(&mut buffer).map_err(read)?;
            if count == 0 {
                break;
            }
            bytes += count as u64;
            hash.update(&buffer[..count]);
        }
        if bytes != file.bytes || hash.digest() != file.hash {
            return Err(lost(file, "its name has other contents"));
        }
        Ok(true)
    }

    fn leftovers(&self, info: &OperatorInfo, promised: &[PathBuf]) -> Vec<PathBuf> {
        let owner = Owner::new(info);
        let directory = staging_directory(Path::new(&self.config.path), self.job);
        // Without the directory there are no leftovers; what cannot be listed stays.
        let entries = self.fs.list(&directory).unwrap_or_default();
        // A later epoch's are not ours to judge: it runs, and we are over without knowing it.
        let own = entries.into_iter().filter(|entry| {
            let staged = entry.name.to_str().and_then(Owner::of_staging_name);
            staged.is_some_and(|(of, epoch)| of == owner && epoch <= info.epoch)
        });
        let paths = own.map(|entry| directory.join(entry.name));
        paths.filter(|path| !promised.contains(path)).collect()
    }
}

impl Committer for FileCommitter {
    fn commit(&self, committable: &Committable) -> Result<(), CommitFailure> {
        let file = PromisedFile::decode(committable).map_err(CommitFailure::Lost)?;
        self.link(&file)?;
        // Also where the name was there already: it may not be durable yet.
        self.fs.sync_dir(&file.directory).map_err(retry)?;
        match self.fs.remove(&file.staging) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(retry(error)),
            Ok(()) | Err(_) => Ok(()),
        }
    }

    /// Removes the staging files of this subtask, in this job, at this parallelism and up to this
    /// epoch, that are not promised. What was written at another parallelism stays: its promises
    /// may have been dealt to other subtasks.
    fn abort_leftovers(&self, info: &OperatorInfo, promised: &[Committable]) {
        let promised: Result<Vec<PathBuf>, OperatorError> = promised
            .iter()
            .map(|committable| Ok(PromisedFile::decode(committable)?.staging))
            .collect();
        // A promise that cannot be read may be of any file: in doubt, all of them stay.
        let Ok(promised) = promised else { return };
        for path in self.leftovers(info, &promised) {
            let _ = self.fs.remove(&path);
        }
    }
}

fn retry(error: FsError) -> CommitFailure {
    CommitFailure::Retry(fault::of_file_system(error))
}

fn lost(file: &PromisedFile, why: &str) -> CommitFailure {
    let what = format!(
        "file {:?} of {} bytes, which a completed checkpoint promised, cannot be committed: {why}",
        file.target(),
        file.bytes,
    );
    CommitFailure::Lost(OperatorError::new(ErrorKind::DataLoss, what).with_remedy(
        "bring the file back, or start from an older savepoint into an empty directory",
    ))
}
