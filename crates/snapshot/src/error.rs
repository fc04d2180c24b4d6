//! What can go wrong with stored objects, by what the caller does about it.

use std::io::ErrorKind;
use std::time::Duration;

use millstream_types::errors::{self, ErrorCode};
use millstream_types::{Checksum, Disposition, WriteOutcome, rounded};

use crate::answer::Answer;

/// What an operation on the store was doing when it ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Operation {
    /// Writing an object that must not exist yet.
    Create,
    /// Writing a large object in parts.
    Upload,
    /// Reading an object or a part of it.
    Read,
    /// Asking whether an object exists and how long it is.
    Head,
    /// Listing a folder.
    List,
    /// Deleting an object.
    Delete,
}

impl Operation {
    /// What is known of the effect once an attempt ended without an answer.
    pub(crate) fn outcome_without_answer(self) -> WriteOutcome {
        match self {
            Self::Create | Self::Upload | Self::Delete => WriteOutcome::MayHaveHappened,
            Self::Read | Self::Head | Self::List => WriteOutcome::DidNotHappen,
        }
    }

    fn verb(self) -> &'static str {
        match self {
            Self::Create => "create",
            Self::Upload => "upload",
            Self::Read => "read",
            Self::Head => "look up",
            Self::List => "list",
            Self::Delete => "delete",
        }
    }
}

impl std::fmt::Display for Operation {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.pad(self.verb())
    }
}

/// How an object differs from its handle.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum Mismatch {
    /// The object is shorter or longer than its handle says.
    #[error("it has {found} bytes where {expected} were stored")]
    Length {
        /// Bytes stored according to the handle.
        expected: u64,
        /// Bytes found.
        found: u64,
    },
    /// Same length, other bytes.
    #[error("its checksum is {found} where {expected} was stored")]
    Checksum {
        /// Checksum stored in the handle.
        expected: Checksum,
        /// Checksum of the bytes found.
        found: Checksum,
    },
    /// The bytes do not have the form that they should have.
    #[error("at byte {offset}: {what}")]
    Form {
        /// Where, from the start of the object.
        offset: u64,
        /// What was expected and what was found.
        what: String,
    },
}

impl Mismatch {
    /// How bytes found differ from the bytes stored, if they do.
    pub(crate) fn between(
        size: u64,
        checksum: Checksum,
        size_found: u64,
        checksum_found: Checksum,
    ) -> Option<Self> {
        if size_found != size {
            return Some(Self::Length {
                expected: size,
                found: size_found,
            });
        }
        (checksum_found != checksum).then_some(Self::Checksum {
            expected: checksum,
            found: checksum_found,
        })
    }
}

/// An operation on the object store that did not succeed. `object` is always the whole address.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// There is no such object.
    #[error("{object} does not exist")]
    NotFound {
        /// The object.
        object: String,
    },
    /// A create found the name taken by other bytes than ours.
    #[error("{object} exists already and was written by another")]
    Taken {
        /// The object.
        object: String,
    },
    /// The object is not what was stored.
    #[error("{object} is corrupt: {mismatch}")]
    Corrupt {
        /// The object.
        object: String,
        /// How it differs.
        mismatch: Mismatch,
    },
    /// The store did not serve the operation within its attempts or its time.
    #[error(
        "{operation} {object}: no success in {attempts} attempts within {}; {outcome}",
        rounded(.elapsed)
    )]
    Unavailable {
        /// What was asked for.
        operation: Operation,
        /// The object or folder.
        object: String,
        /// Attempts made.
        attempts: u32,
        /// Time spent.
        elapsed: Duration,
        /// What is known of a write.
        outcome: WriteOutcome,
        /// The last failure; none if the last attempt ran out of time.
        #[source]
        source: Option<Box<Answer>>,
    },
    /// The store said no, and will say so again.
    #[error("{operation} {object} was refused by the store")]
    Refused {
        /// What was asked for.
        operation: Operation,
        /// The object or folder.
        object: String,
        /// What is known of a write: an attempt before this answer may have been made.
        outcome: WriteOutcome,
        /// The store's words.
        #[source]
        source: Box<Answer>,
    },
    /// The caller asked to stop; what was begun has been given up.
    #[error("{operation} {object} was cancelled")]
    Cancelled {
        /// What was asked for.
        operation: Operation,
        /// The object.
        object: String,
    },
}

impl StoreError {
    /// What is known of the write that failed.
    pub fn outcome(&self) -> WriteOutcome {
        match self {
            Self::NotFound { .. } | Self::Taken { .. } | Self::Corrupt { .. } => {
                WriteOutcome::DidNotHappen
            }
            Self::Unavailable { outcome, .. } | Self::Refused { outcome, .. } => *outcome,
            Self::Cancelled { operation, .. } => operation.outcome_without_answer(),
        }
    }

    /// Its code.
    pub fn code(&self) -> ErrorCode {
        match self {
            Self::NotFound { .. } => errors::STORE_NOT_FOUND,
            Self::Taken { .. } => errors::STORE_TAKEN,
            Self::Corrupt { .. } => errors::STORE_CORRUPT,
            Self::Unavailable { source, .. } if is_full(source.as_deref()) => errors::STORE_FULL,
            Self::Unavailable { .. } => errors::STORE_UNAVAILABLE,
            Self::Refused { .. } => errors::STORE_REFUSED,
            Self::Cancelled { .. } => errors::STORE_CANCELLED,
        }
    }

    /// What the scheduler does about it.
    pub fn disposition(&self) -> Disposition {
        match self {
            Self::Unavailable { .. } => Disposition::Retry,
            Self::Cancelled { .. } | Self::Taken { .. } => Disposition::FailTask,
            Self::NotFound { .. } | Self::Corrupt { .. } | Self::Refused { .. } => {
                Disposition::FailJob
            }
        }
    }

    /// What an operator can do about it.
    pub fn remedy(&self) -> String {
        match self {
            Self::NotFound { object } => format!(
                "Check that nothing else deletes objects near {object} (lifecycle rules of the \
                 bucket, clean-up scripts); restore from another checkpoint or savepoint."
            ),
            Self::Taken { object } => {
                format!("Check that no other cluster uses the same storage directory as {object}.")
            }
            Self::Corrupt { object, .. } => format!(
                "Restore from another checkpoint or savepoint by naming it; keep {object} for the \
                 analysis of the storage."
            ),
            Self::Unavailable { .. } => {
                format!("{}; the operation is tried again by itself.", self.check())
            }
            Self::Refused { object, .. } => format!(
                "Check the credentials, their rights to list, read, write and delete, and the \
                 bucket or directory of {object}."
            ),
            Self::Cancelled { .. } => "None: it was asked for.".into(),
        }
    }

    /// What to look at, as the beginning of a sentence; whoever gave up says how it ends.
    pub fn check(&self) -> String {
        match self {
            Self::Unavailable { object, source, .. } if is_full(source.as_deref()) => {
                format!("Make room where {object} is (space, inodes, quota)")
            }
            Self::Unavailable { object, .. } => {
                format!("Check that the store behind {object} is reachable and not throttling")
            }
            Self::NotFound { .. }
            | Self::Taken { .. }
            | Self::Corrupt { .. }
            | Self::Refused { .. }
            | Self::Cancelled { .. } => self.remedy().trim_end_matches('.').to_owned(),
        }
    }

    /// Whether trying again may help, without anybody changing anything.
    pub fn is_transient(&self) -> bool {
        matches!(self, Self::Unavailable { .. })
    }
}

/// Whether the operating system said that there is no room.
fn is_full(answer: Option<&Answer>) -> bool {
    let mut next = answer.map(|answer| answer.error() as &(dyn std::error::Error + 'static));
    while let Some(error) = next {
        let kind = error.downcast_ref().map(std::io::Error::kind);
        if let Some(ErrorKind::StorageFull | ErrorKind::QuotaExceeded) = kind {
            return true;
        }
        next = error.source();
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    fn unavailable(kind: ErrorKind) -> StoreError {
        let source = object_store::Error::Generic {
            store: "directory",
            source: Box::new(std::io::Error::from(kind)),
        };
        StoreError::Unavailable {
            operation: Operation::Create,
            object: "/ckpt/job".into(),
            attempts: 3,
            elapsed: Duration::from_micros(1_234_567),
            outcome: WriteOutcome::DidNotHappen,
            source: Some(Answer::boxed(source)),
        }
    }

    #[test]
    fn a_store_without_room_asks_for_room() {
        for kind in [ErrorKind::StorageFull, ErrorKind::QuotaExceeded] {
            let remedy = unavailable(kind).remedy();
            assert!(
                remedy.starts_with("Make room where /ckpt/job is"),
                "{remedy}"
            );
        }
        let remedy = unavailable(ErrorKind::TimedOut).remedy();
        assert!(
            remedy.starts_with("Check that the store behind /ckpt/job"),
            "{remedy}"
        );
    }

    #[test]
    fn the_time_spent_is_a_time_to_read() {
        let text = unavailable(ErrorKind::TimedOut).to_string();
        assert!(
            text.contains("in 3 attempts within 1.234 s; the write"),
            "{text}"
        );
    }
}
