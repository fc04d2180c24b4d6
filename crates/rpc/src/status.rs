//! Calls that fail, in words and with a code: what a server says and what a client makes of it.

use std::error::Error;
use std::io;

use millstream_types::errors::{self, ErrorCode};
use tonic::metadata::MetadataValue;
use tonic::{Code, Status};

use crate::error::DecodeError;

/// Why a call has no answer that can be used.
#[derive(Debug, thiserror::Error)]
pub enum CallError {
    /// The request is refused.
    #[error("{message}")]
    Refused {
        /// Its code.
        code: ErrorCode,
        /// All faults.
        message: String,
    },
    /// No such job.
    #[error("{message}")]
    NotFound {
        /// Its code.
        code: ErrorCode,
        /// Which.
        message: String,
    },
    /// Not in this state.
    #[error("{message}")]
    Conflict {
        /// Its code.
        code: ErrorCode,
        /// Why.
        message: String,
    },
    /// The server cannot do it now.
    #[error("{message}")]
    Unavailable {
        /// Its code.
        code: ErrorCode,
        /// Why.
        message: String,
    },
    /// The connection broke; whether the request was carried out is not known.
    #[error("the connection to {address} broke: {cause}")]
    Lost {
        /// The address.
        address: String,
        /// In words.
        cause: String,
    },
    /// The server does not know the call.
    #[error("{address} does not offer this call: {message}")]
    Unknown {
        /// The address.
        address: String,
        /// What it said.
        message: String,
    },
    /// A fault of the server.
    #[error("{address} failed: {message}")]
    Server {
        /// The address.
        address: String,
        /// What it said.
        message: String,
    },
    /// An answer that makes no sense.
    #[error("the answer of {address} is refused")]
    Answer {
        /// The address.
        address: String,
        /// What is wrong with it.
        #[source]
        error: DecodeError,
    },
}

impl CallError {
    /// Its code: the one that the server said, if it did.
    pub fn code(&self) -> ErrorCode {
        match self {
            Self::Refused { code, .. }
            | Self::NotFound { code, .. }
            | Self::Conflict { code, .. }
            | Self::Unavailable { code, .. } => *code,
            Self::Lost { .. } => errors::CONNECTION_LOST,
            Self::Unknown { .. } | Self::Answer { .. } => errors::OTHER_VERSION,
            Self::Server { .. } => errors::SERVER_FAULT,
        }
    }

    pub(crate) fn of_status(address: &str, status: &Status) -> Self {
        let (address, message) = (address.to_owned(), status.message().to_owned());
        let code = |otherwise| code_of(status).unwrap_or(otherwise);
        // A status with a source was made on this side, because the connection did not hold.
        if let Some(source) = status.source() {
            return Self::Lost {
                address,
                cause: in_words(source),
            };
        }
        match status.code() {
            Code::InvalidArgument | Code::OutOfRange | Code::ResourceExhausted => {
                let code = code(errors::SUBM_REFUSED);
                Self::Refused { code, message }
            }
            Code::NotFound => {
                let code = code(errors::SUBM_UNKNOWN_JOB);
                Self::NotFound { code, message }
            }
            Code::FailedPrecondition | Code::AlreadyExists | Code::Aborted => {
                let code = code(errors::SUBM_REFUSED);
                Self::Conflict { code, message }
            }
            Code::Unavailable | Code::DeadlineExceeded | Code::Cancelled => {
                let code = code(errors::NOT_NOW);
                Self::Unavailable { code, message }
            }
            Code::Unimplemented => Self::Unknown { address, message },
            Code::Ok
            | Code::Unknown
            | Code::Internal
            | Code::DataLoss
            | Code::PermissionDenied
            | Code::Unauthenticated => Self::Server { address, message },
        }
    }
}

/// The header in which the code of an error travels, beside its text.
const CODE_HEADER: &str = "millstream-error-code";

/// The same status, which says this code too.
pub(crate) fn with_code(mut status: Status, code: ErrorCode) -> Status {
    let value = MetadataValue::from_static(code.as_str());
    status.metadata_mut().insert(CODE_HEADER, value);
    status
}

/// The code that a server said, if this version knows it.
fn code_of(status: &Status) -> Option<ErrorCode> {
    let value = status.metadata().get(CODE_HEADER)?;
    ErrorCode::find(value.to_str().ok()?)
}

/// The innermost causes, without those that only say that something went wrong.
pub(crate) fn in_words(error: &(dyn Error + 'static)) -> String {
    let mut texts: Vec<String> = Vec::new();
    let mut next = Some(error);
    while let Some(error) = next {
        next = error.source();
        let is_wrapper = next.is_some_and(|inner| inner.to_string() == error.to_string());
        if is_wrapper {
            continue;
        }
        let text = words_of(error);
        let says_nothing = [
            "transport error",
            "client error (Connect)",
            "connection error",
        ];
        let is_new = !texts.iter().any(|before| before.contains(&text));
        if is_new && !says_nothing.contains(&text.as_str()) {
            texts.push(text);
        }
    }
    match texts.is_empty() {
        true => "the connection was closed".to_owned(),
        false => texts.join(": "),
    }
}

/// What this error itself says. A status prints its source as the compiler does; that comes next
/// anyway.
fn words_of(error: &(dyn Error + 'static)) -> String {
    if let Some(status) = error.downcast_ref::<Status>() {
        return status.message().to_owned();
    }
    let wrapped = error
        .downcast_ref::<io::Error>()
        .and_then(io::Error::get_ref);
    match wrapped {
        Some(wrapped) => words_of(wrapped),
        None => error.to_string(),
    }
}
