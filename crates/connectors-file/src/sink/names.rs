//! Names of a sink's files. No name is ever used twice.

use std::path::{Path, PathBuf};

use millstream_operator::OperatorInfo;
use millstream_types::{CheckpointId, Epoch, JobId};
use xxhash_rust::xxh3::xxh3_64;

const STAGING: &str = ".staging";
/// Bytes of a uid that a file name has room for.
const UID_BYTES_MAX: usize = 120;

/// Where a job's files of a sink lie before they are committed.
pub(super) fn staging_directory(sink: &Path, job: JobId) -> PathBuf {
    sink.join(STAGING).join(job.to_string())
}

/// Which subtask of which sink a staging file is of.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Owner {
    uid: String,
    subtask: u32,
    parallelism: u32,
}

impl Owner {
    pub(super) fn new(info: &OperatorInfo) -> Self {
        let uid = info.uid.as_str();
        let uid = match uid.len() <= UID_BYTES_MAX {
            true => uid.to_owned(),
            // A uid is ASCII.
            false => format!("{}-{:016x}", &uid[..UID_BYTES_MAX], xxh3_64(uid.as_bytes())),
        };
        Self {
            uid,
            subtask: info.subtask_index,
            parallelism: info.parallelism,
        }
    }

    /// The name while the file is written. `nonce` is the attempt's, `sequence` the file's in it.
    pub(super) fn staging_name(
        &self,
        epoch: Epoch,
        nonce: u64,
        sequence: u64,
        extension: &str,
    ) -> String {
        let Self {
            uid,
            subtask,
            parallelism,
        } = self;
        let writer = format!("{:010}-{nonce:016x}", epoch.0);
        format!("{uid}.{subtask:05}-of-{parallelism:05}.{writer}.{sequence:06}.{extension}")
    }

    /// The name once it is committed.
    pub(super) fn final_name(
        &self,
        checkpoint: CheckpointId,
        nonce: u64,
        sequence: u64,
        extension: &str,
    ) -> String {
        let (uid, subtask, checkpoint) = (&self.uid, self.subtask, checkpoint.0);
        format!("part-{uid}-{subtask:05}-{checkpoint:010}-{nonce:016x}-{sequence:06}.{extension}")
    }

    /// Whose file a staging name says it is, and of which epoch; none if it is no such name. Names
    /// without an epoch are of a version that wrote none, and older than all others.
    ///
    /// Read from the right: a uid may hold dots itself.
    pub(super) fn of_staging_name(name: &str) -> Option<(Self, Epoch)> {
        let mut fields = name.rsplitn(5, '.');
        let (_extension, sequence) = (fields.next()?, fields.next()?);
        let (writer, subtask, uid) = (fields.next()?, fields.next()?, fields.next()?);
        let (epoch, nonce) = writer.split_once('-').unwrap_or(("0", writer));
        let is_number = |text: &str| text.parse::<u64>().is_ok();
        if !is_number(sequence) || nonce.len() != 16 || u64::from_str_radix(nonce, 16).is_err() {
            return None;
        }
        let (subtask, parallelism) = subtask.split_once("-of-")?;
        let owner = Self {
            uid: uid.to_owned(),
            subtask: subtask.parse().ok()?,
            parallelism: parallelism.parse().ok()?,
        };
        Some((owner, Epoch(epoch.parse().ok()?)))
    }
}
