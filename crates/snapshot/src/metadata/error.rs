//! Why metadata is refused.

use millstream_types::errors::{self, ErrorCode};
use millstream_types::{Disposition, KeyGroup, WriteOutcome};

use crate::envelope::EnvelopeFault;
use crate::error::StoreError;

/// Metadata that cannot be read or written.
#[derive(Debug, thiserror::Error)]
pub enum MetadataError {
    /// The store did not give it, or not take it.
    #[error("checkpoint metadata cannot be read")]
    Store(#[from] StoreError),
    /// It is there and makes no sense.
    #[error("checkpoint metadata {object} is refused")]
    Fault {
        /// The object.
        object: String,
        /// What is wrong with it.
        #[source]
        fault: MetadataFault,
    },
    /// Objects that it names are not what they were.
    #[error(
        "checkpoint metadata names {n_bad} objects of {n_objects} that are missing or differ, \
         the first: {first}"
    )]
    Objects {
        /// How many are not as named.
        n_bad: usize,
        /// How many are named.
        n_objects: usize,
        /// The first of them in the order of names.
        #[source]
        first: Box<StoreError>,
    },
}

/// What is wrong with bytes that should be checkpoint metadata.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum MetadataFault {
    /// The frame around it does not fit.
    #[error(transparent)]
    Envelope(EnvelopeFault),
    /// More than is written or read.
    #[error("it would have {found} bytes, above the limit of {limit}")]
    TooLarge {
        /// What it would have.
        found: u64,
        /// What is allowed.
        limit: u64,
    },
    /// Not a message of this kind.
    #[error("its body is no CheckpointMetadata message: {0}")]
    Message(String),
    /// A field whose value cannot be.
    #[error("{message}.{field} {what}")]
    Field {
        /// The message of `checkpoint.proto`.
        message: &'static str,
        /// The field.
        field: &'static str,
        /// What is wrong with it.
        what: String,
    },
    /// A key group that two pieces of state have.
    #[error("key group {} of operator {operator} is in two pieces of state", .group.0)]
    Overlap {
        /// Uid of the operator.
        operator: String,
        /// The group.
        group: KeyGroup,
    },
    /// A key group that no piece of state has.
    #[error("key group {} of operator {operator} is in no piece of state", .group.0)]
    Hole {
        /// Uid of the operator.
        operator: String,
        /// The group.
        group: KeyGroup,
    },
    /// It belongs to something else.
    #[error("it is of {what} {found}, and {expected} was asked for")]
    Identity {
        /// "job" or "checkpoint".
        what: &'static str,
        /// What was asked for.
        expected: String,
        /// What it says.
        found: String,
    },
}

impl MetadataError {
    /// What is known of a write that failed.
    pub fn outcome(&self) -> WriteOutcome {
        match self {
            Self::Store(error) => error.outcome(),
            Self::Fault { .. } | Self::Objects { .. } => WriteOutcome::DidNotHappen,
        }
    }

    /// What the scheduler does about it.
    pub fn disposition(&self) -> Disposition {
        match self {
            Self::Store(error) => error.disposition(),
            Self::Fault { .. } => Disposition::FailJob,
            Self::Objects { first, .. } => first.disposition(),
        }
    }

    /// Its code.
    pub fn code(&self) -> ErrorCode {
        match self {
            Self::Store(error) => error.code(),
            Self::Objects { first, .. } => first.code(),
            Self::Fault {
                fault: MetadataFault::Envelope(EnvelopeFault::Version { .. }),
                ..
            } => errors::FORMAT_VERSION,
            Self::Fault { .. } => errors::METADATA,
        }
    }

    /// What an operator can do about it.
    pub fn remedy(&self) -> String {
        match self {
            Self::Store(error) => error.remedy(),
            Self::Objects { first, .. } => first.remedy(),
            Self::Fault {
                fault: MetadataFault::Envelope(EnvelopeFault::Version { .. }),
                ..
            } => "Run the version of Millstream that wrote it, or a later one.".into(),
            Self::Fault { object, .. } => format!(
                "Restore from another checkpoint or savepoint by naming it; keep {object} for the \
                 analysis of the storage."
            ),
        }
    }

    /// Whether the object may be whole and only this read of it was not.
    pub(super) fn may_be_the_link(&self) -> bool {
        match self {
            Self::Store(StoreError::Corrupt { .. }) => true,
            Self::Fault {
                fault: MetadataFault::Envelope(fault),
                ..
            } => !matches!(fault, EnvelopeFault::Version { .. }),
            Self::Fault { .. } => false,
            Self::Store(_) | Self::Objects { .. } => false,
        }
    }
}
