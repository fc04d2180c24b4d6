//! Every name of a stored object is made here, from typed ids (DESIGN 7).
//!
//! Below the directory of one job:
//!
//! | object | name |
//! |---|---|
//! | submitted job | `job` |
//! | result of an ended job | `result` |
//! | chain entry | `chain/00000000000000000042` |
//! | checkpoint metadata | `chk-7/3-00c0ffee00c0ffee/_metadata` |
//! | private state of one subtask | `chk-7/3-00c0ffee00c0ffee/v2.0-5eed5eed5eed5eed` |
//! | state shared between checkpoints | `shared/3-v2.0-5eed5eed5eed5eed.sst` |
//!
//! Beside the directories of the jobs, `_uncleaned/<job>` marks one that ended and is not cleaned up
//! yet, and `_cluster` says whose directory all of it is.
//!
//! Epoch and nonce make every name but `job`, `result`, the marks and the chain's numbers unique, so
//! no such name is ever written twice and a zombie can only leave orphans (fence F9). Names in our
//! directories that were not made here are foreign: counted, never read, never deleted.

use std::fmt;

use millstream_types::{CheckpointId, Epoch, JobId, ObjectName, SubtaskId};

/// Folder of the chain entries of a job.
pub const CHAIN_FOLDER: &str = "chain";
/// Folder of the marks of ended jobs that are not cleaned up yet, beside the directories of the jobs.
pub const UNCLEANED_FOLDER: &str = "_uncleaned";
/// Last segment of the name of checkpoint metadata.
pub const METADATA_FILE: &str = "_metadata";

/// A random number that no other writer has; drawn from `env::Rng` by whoever makes the name.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Nonce(pub u64);

impl fmt::Display for Nonce {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:016x}", self.0)
    }
}

impl fmt::Debug for Nonce {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "nonce-{self}")
    }
}

/// The directory of one try at one checkpoint; made by the coordinator when it triggers.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct CheckpointDir {
    /// The checkpoint.
    pub checkpoint: CheckpointId,
    /// The epoch that takes it.
    pub epoch: Epoch,
    /// Tells this try from every other, also of a zombie of the same epoch.
    pub nonce: Nonce,
}

impl CheckpointDir {
    /// The metadata object, written last.
    pub fn metadata(&self) -> ObjectName {
        made(format!("{self}/{METADATA_FILE}"))
    }

    /// A private object of one subtask; `nonce` is the uploader's own.
    pub fn private(&self, subtask: SubtaskId, nonce: Nonce) -> ObjectName {
        made(format!("{self}/{}-{nonce}", Subtask(subtask)))
    }

    /// Reads the directory back from a name in it.
    pub fn of(name: &ObjectName) -> Option<Self> {
        let mut segments = name.as_str().split('/');
        let checkpoint = decimal(segments.next()?.strip_prefix("chk-")?)?;
        let (epoch, nonce) = segments.next()?.split_once('-')?;
        let dir = Self {
            checkpoint: CheckpointId(checkpoint),
            epoch: Epoch(decimal(epoch)?),
            nonce: hex(nonce)?,
        };
        (segments.next().is_some() && segments.next().is_none()).then_some(dir)
    }
}

impl fmt::Display for CheckpointDir {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "chk-{}/{}-{}", self.checkpoint, self.epoch, self.nonce)
    }
}

/// What a name below a job's directory names.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Named {
    /// The submitted job.
    Job,
    /// The result of the ended job.
    Result,
    /// Chain entry of this number.
    Chain(u64),
    /// Metadata of a checkpoint.
    Metadata(CheckpointDir),
    /// Private state in the directory of a checkpoint.
    Private(CheckpointDir),
    /// State shared between checkpoints, written in this epoch.
    Shared(Epoch),
    /// Not an object yet, or never: where storage is a directory, a file that is being written, or
    /// that a crash left half written.
    Unfinished(Unfinished),
}

/// What an unfinished file was to become.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Unfinished {
    /// Chain entry of this number.
    Chain(u64),
    /// Metadata or private state in the directory of a checkpoint.
    Checkpoint(CheckpointDir),
    /// State shared between checkpoints, of this epoch.
    Shared(Epoch),
}

/// Entry `number` of the claim chain. Twenty digits, so that a listing is in order.
pub fn chain(number: u64) -> ObjectName {
    made(format!("{CHAIN_FOLDER}/{number:020}"))
}

/// An object shared between checkpoints, written by one subtask in one epoch.
pub fn shared(epoch: Epoch, subtask: SubtaskId, nonce: Nonce) -> ObjectName {
    made(format!(
        "{}/{epoch}-{}-{nonce}.sst",
        ObjectName::SHARED_FOLDER,
        Subtask(subtask)
    ))
}

/// The submitted job.
pub fn job_object() -> ObjectName {
    made("job".into())
}

/// The result of the ended job.
pub fn job_result() -> ObjectName {
    made("result".into())
}

/// The lock of a cluster over its directory; beside the directories of the jobs.
pub fn cluster_lock() -> ObjectName {
    made("_cluster".into())
}

/// Says that the job ended and that what it does not keep may still be in its directory.
pub fn uncleaned(job: JobId) -> ObjectName {
    made(format!("{UNCLEANED_FOLDER}/{job}"))
}

/// The job of such a mark; none for a name that was not made here.
pub fn job_of_uncleaned(name: &ObjectName) -> Option<JobId> {
    let (UNCLEANED_FOLDER, text) = name.as_str().split_once('/')? else {
        return None;
    };
    text.parse().ok().filter(|job| uncleaned(*job) == *name)
}

/// A throw-away object of the start-up probe.
pub fn probe(nonce: Nonce) -> ObjectName {
    made(format!("_probe-{nonce}"))
}

/// Reads a name back; none for a name that was not made here.
pub fn parse(name: &ObjectName) -> Option<Named> {
    match name.as_str() {
        "job" => return Some(Named::Job),
        "result" => return Some(Named::Result),
        _ => {}
    }
    if let Some(target) = target_of_unfinished(name) {
        return match parse(&target)? {
            Named::Chain(number) => Some(Unfinished::Chain(number)),
            Named::Metadata(dir) | Named::Private(dir) => Some(Unfinished::Checkpoint(dir)),
            Named::Shared(epoch) => Some(Unfinished::Shared(epoch)),
            Named::Job | Named::Result | Named::Unfinished(_) => None,
        }
        .map(Named::Unfinished);
    }
    let (folder, rest) = name.as_str().split_once('/')?;
    match folder {
        CHAIN_FOLDER => (rest.len() == 20)
            .then(|| rest.parse().ok().filter(|n| chain(*n) == *name))
            .flatten()
            .map(Named::Chain),
        ObjectName::SHARED_FOLDER => parse_shared(rest).map(Named::Shared),
        _ => {
            let dir = CheckpointDir::of(name)?;
            let last = rest.split_once('/')?.1;
            if last == METADATA_FILE {
                return Some(Named::Metadata(dir));
            }
            let (subtask, nonce) = last.split_once('-')?;
            hex(nonce)?;
            is_subtask(subtask).then_some(Named::Private(dir))
        }
    }
}

/// `shared/.NAME.0123456789abcdef.tmp` is to become `shared/NAME` ([`crate::local`]).
fn target_of_unfinished(name: &ObjectName) -> Option<ObjectName> {
    let (folder, file) = name.as_str().rsplit_once('/')?;
    let (target, nonce) = file
        .strip_prefix('.')?
        .strip_suffix(".tmp")?
        .rsplit_once('.')?;
    hex(nonce)?;
    ObjectName::new(&format!("{folder}/{target}")).ok()
}

fn parse_shared(rest: &str) -> Option<Epoch> {
    let mut parts = rest.strip_suffix(".sst")?.splitn(3, '-');
    let epoch = decimal(parts.next()?)?;
    let subtask = parts.next()?;
    hex(parts.next()?)?;
    is_subtask(subtask).then_some(Epoch(epoch))
}

fn is_subtask(text: &str) -> bool {
    text.strip_prefix('v')
        .and_then(|text| text.split_once('.'))
        .is_some_and(|(vertex, index)| decimal(vertex).is_some() && decimal(index).is_some())
}

/// Decimal digits in the one form that we write: "007" and "+7" are foreign.
fn decimal(text: &str) -> Option<u64> {
    let number: u64 = text.parse().ok()?;
    (number.to_string() == text).then_some(number)
}

fn hex(text: &str) -> Option<Nonce> {
    let nonce = Nonce(u64::from_str_radix(text, 16).ok()?);
    (nonce.to_string() == text).then_some(nonce)
}

fn made(name: String) -> ObjectName {
    ObjectName::new(&name).expect("made of digits, letters, '-', '.', '_' and '/' only")
}

struct Subtask(SubtaskId);

impl fmt::Display for Subtask {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "v{}.{}", self.0.vertex, self.0.index)
    }
}

#[cfg(test)]
mod tests {
    use millstream_types::VertexId;

    use super::*;

    const DIR: CheckpointDir = CheckpointDir {
        checkpoint: CheckpointId(7),
        epoch: Epoch(3),
        nonce: Nonce(0xc0ffee),
    };
    const SUBTASK: SubtaskId = SubtaskId::new(VertexId(2), 11);

    #[test]
    fn each_name_reads_back_as_what_it_was_made_from() {
        for (name, text, named) in [
            (job_object(), "job", Named::Job),
            (job_result(), "result", Named::Result),
            (chain(42), "chain/00000000000000000042", Named::Chain(42)),
            (
                chain(u64::MAX),
                "chain/18446744073709551615",
                Named::Chain(u64::MAX),
            ),
            (
                DIR.metadata(),
                "chk-7/3-0000000000c0ffee/_metadata",
                Named::Metadata(DIR),
            ),
            (
                DIR.private(SUBTASK, Nonce(1)),
                "chk-7/3-0000000000c0ffee/v2.11-0000000000000001",
                Named::Private(DIR),
            ),
            (
                shared(Epoch(3), SUBTASK, Nonce(u64::MAX)),
                "shared/3-v2.11-ffffffffffffffff.sst",
                Named::Shared(Epoch(3)),
            ),
        ] {
            assert_eq!(name.as_str(), text);
            assert_eq!(parse(&name), Some(named), "{text}");
        }
    }

    #[test]
    fn the_mark_of_a_job_reads_back_as_the_job() {
        let job = JobId::from_bytes([0xab; 16]);
        let name = uncleaned(job);
        assert_eq!(name.as_str(), format!("_uncleaned/{}", "ab".repeat(16)));
        assert_eq!(job_of_uncleaned(&name), Some(job));
        for foreign in ["_uncleaned/x", "uncleaned", "_uncleaned", "chain/1"] {
            let name = ObjectName::new(foreign).unwrap();
            assert_eq!(job_of_uncleaned(&name), None, "{foreign}");
        }
        let upper = format!("_uncleaned/{}", "AB".repeat(16));
        assert_eq!(job_of_uncleaned(&ObjectName::new(&upper).unwrap()), None);
    }

    #[test]
    fn names_that_we_do_not_make_are_foreign() {
        for foreign in [
            "README",
            "chain",
            "chain/42",
            "chain/0000000000000000004x",
            "chain/99999999999999999999",
            "chain/00000000000000000042/x",
            "chk-07/3-0000000000c0ffee/_metadata",
            "chk-7/_metadata",
            "chk-7/3-0000000000C0FFEE/_metadata",
            "chk-7/3-0000000000c0ffee/_metadata/x",
            "chk-7/3-0000000000c0ffee/v2-0000000000000001",
            "shared/3-v2.11-1.sst",
            "shared/3-v2.11-ffffffffffffffff.tmp",
            "job/1",
        ] {
            let name = ObjectName::new(foreign).unwrap();
            assert_eq!(parse(&name), None, "{foreign}");
        }
    }

    #[test]
    fn an_unfinished_file_is_told_by_what_it_was_to_become() {
        use Unfinished::{Checkpoint, Shared};
        for (unfinished, target) in [
            (
                "chk-7/3-0000000000c0ffee/._metadata.00000000000000aa.tmp",
                Checkpoint(DIR),
            ),
            (
                "chk-7/3-0000000000c0ffee/.v2.11-0000000000000001.00000000000000aa.tmp",
                Checkpoint(DIR),
            ),
            (
                "shared/.3-v2.11-ffffffffffffffff.sst.00000000000000aa.tmp",
                Shared(Epoch(3)),
            ),
            (
                "chain/.00000000000000000042.00000000000000aa.tmp",
                Unfinished::Chain(42),
            ),
        ] {
            let name = ObjectName::new(unfinished).unwrap();
            let named = parse(&name);
            assert_eq!(named, Some(Named::Unfinished(target)), "{unfinished}");
        }
        for foreign in [
            ".job.00000000000000aa.tmp",
            "shared/.3-v2.11-ffffffffffffffff.sst.aa.tmp",
            "shared/.README.00000000000000aa.tmp",
            "shared/..x.00000000000000aa.tmp.00000000000000aa.tmp",
        ] {
            let name = ObjectName::new(foreign).unwrap();
            assert_eq!(parse(&name), None, "{foreign}");
        }
    }

    #[test]
    fn entries_of_the_chain_are_listed_in_their_order() {
        assert!(chain(9) < chain(10));
        assert!(chain(99_999) < chain(100_000));
    }
}
