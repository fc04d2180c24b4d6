//! Bytes and messages that are refused.

use millstream_types::Disposition;

/// A message that cannot be read.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum DecodeError {
    /// More bytes than are read.
    #[error("{what} has {found} bytes, above the limit of {limit}")]
    TooLarge {
        /// What was to be read.
        what: &'static str,
        /// Its size.
        found: u64,
        /// What is allowed.
        limit: u64,
    },
    /// More of something than is read.
    #[error("{what} has {found} {of}, above the limit of {limit}")]
    TooMany {
        /// What was to be read.
        what: &'static str,
        /// "operators", "edges".
        of: &'static str,
        /// How many there are.
        found: u64,
        /// How many are allowed.
        limit: u64,
    },
    /// Not a message of this kind.
    #[error("these bytes are no {message} message")]
    Malformed {
        /// The message.
        message: &'static str,
        /// What was wrong.
        source: prost::DecodeError,
    },
    /// A field that must be set.
    #[error("{message}.{field} is missing")]
    Missing {
        /// The message.
        message: &'static str,
        /// The field.
        field: &'static str,
    },
    /// A field whose value cannot be.
    #[error("{message}.{field} {what}")]
    Invalid {
        /// The message.
        message: &'static str,
        /// The field.
        field: &'static str,
        /// What is wrong with it.
        what: String,
    },
}

impl DecodeError {
    /// What it asks of the scheduler: the same bytes are refused again.
    pub fn disposition(&self) -> Disposition {
        Disposition::FailJob
    }

    /// What to do about it.
    pub fn remedy(&self) -> &'static str {
        match self {
            Self::TooLarge { .. } | Self::TooMany { .. } => "make it smaller, or split the job",
            Self::Malformed { .. } | Self::Missing { .. } | Self::Invalid { .. } => {
                "run the same version of Millstream on both sides, or correct the client"
            }
        }
    }
}

/// Something that cannot be sent.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum EncodeError {
    /// More bytes than the other side reads.
    #[error("{what} has {found} bytes, above the limit of {limit}")]
    TooLarge {
        /// What was to be sent.
        what: String,
        /// Its size.
        found: u64,
        /// What is allowed.
        limit: u64,
    },
    /// A type that no job graph can name.
    #[error("column {column:?} is {data_type}, which a job graph cannot hold: cast it")]
    ColumnType {
        /// The column.
        column: String,
        /// Its type.
        data_type: String,
    },
}

impl EncodeError {
    /// What it asks of the scheduler: the same thing is as large again.
    pub fn disposition(&self) -> Disposition {
        Disposition::FailJob
    }
}

pub(crate) fn missing(message: &'static str, field: &'static str) -> DecodeError {
    DecodeError::Missing { message, field }
}

pub(crate) fn invalid(
    message: &'static str,
    field: &'static str,
    what: impl Into<String>,
) -> DecodeError {
    DecodeError::Invalid {
        message,
        field,
        what: what.into(),
    }
}

/// An enum's value that this version does not know.
pub(crate) fn unknown(message: &'static str, field: &'static str, found: i32) -> DecodeError {
    invalid(message, field, format!("is {found}, which is unknown"))
}
