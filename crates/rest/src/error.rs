//! What goes wrong on the way to an answer, and how it is said.

use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use axum::Json;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use millstream_types::errors::{self, ErrorCode};
use millstream_types::{IdParseError, JobId, TaskmanagerId, rounded};
use serde::Serialize;
use tracing::debug;

/// Why the view has no answer.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum ViewError {
    /// The jobmanager stops or has not started; another one may answer soon.
    #[error("the jobmanager does not answer ({reason}): ask again in a moment")]
    Unavailable {
        /// Why, in a few words.
        reason: String,
    },
}

/// Why the server ended before it was told to.
#[derive(Debug, thiserror::Error)]
pub enum ServeError {
    /// The listener takes no more connections.
    #[error("no more connections are accepted at {addr}: start the daemon again")]
    Accept {
        /// Where it listened.
        addr: SocketAddr,
        /// What the operating system said.
        source: io::Error,
    },
}

/// Why a request has no other answer than this.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ApiError {
    #[error(transparent)]
    MalformedId(#[from] IdParseError),
    #[error("malformed path: an id is expected where it has bytes that are no text")]
    MalformedPath,
    #[error("job {0} not found: see /jobs for those that are known")]
    UnknownJob(JobId),
    #[error("taskmanager {0} not found: see /taskmanagers for those that are registered")]
    UnknownTaskmanager(TaskmanagerId),
    #[error("checkpoint ids are numbers, as /jobs/:id/checkpoints lists them")]
    MalformedCheckpoint,
    #[error("checkpoint not found: see /jobs/:id/checkpoints for those that are kept")]
    UnknownCheckpoint,
    #[error("vertex not found in this checkpoint: see its `tasks` for those that took part")]
    UnknownVertex,
    #[error("no such path: see / for a page over all there is")]
    UnknownPath,
    #[error("method not allowed: this interface is read-only, use GET")]
    MethodNotAllowed,
    #[error("the request's body is longer than {max_bytes} bytes: this interface takes none")]
    BodyTooLong { max_bytes: u64 },
    #[error("no answer within {}: ask again in a moment", rounded(.0))]
    TooSlow(Duration),
    #[error(transparent)]
    View(#[from] ViewError),
}

impl ApiError {
    fn status(&self) -> StatusCode {
        match self {
            Self::MalformedId(_) | Self::MalformedPath | Self::MalformedCheckpoint => {
                StatusCode::BAD_REQUEST
            }
            Self::UnknownJob(_)
            | Self::UnknownTaskmanager(_)
            | Self::UnknownCheckpoint
            | Self::UnknownVertex
            | Self::UnknownPath => StatusCode::NOT_FOUND,
            Self::MethodNotAllowed => StatusCode::METHOD_NOT_ALLOWED,
            Self::BodyTooLong { .. } => StatusCode::PAYLOAD_TOO_LARGE,
            Self::TooSlow(_) | Self::View(_) => StatusCode::SERVICE_UNAVAILABLE,
        }
    }

    /// The code that the same mistake has at the command line. What only REST is asked for has none.
    fn code(&self) -> Option<ErrorCode> {
        match self {
            Self::UnknownJob(_) => Some(errors::SUBM_UNKNOWN_JOB),
            Self::MalformedId(_)
            | Self::MalformedPath
            | Self::MalformedCheckpoint
            | Self::UnknownPath
            | Self::MethodNotAllowed
            | Self::BodyTooLong { .. } => Some(errors::SUBM_REFUSED),
            Self::TooSlow(_) | Self::View(_) => Some(errors::NOT_NOW),
            Self::UnknownTaskmanager(_) | Self::UnknownCheckpoint | Self::UnknownVertex => None,
        }
    }
}

/// Flink's form of an error, and beside it what our own clients go by.
#[derive(Serialize)]
struct Errors {
    errors: [String; 1],
    #[serde(skip_serializing_if = "Option::is_none")]
    code: Option<&'static str>,
}

impl IntoResponse for ApiError {
    fn into_response(self) -> Response {
        let status = self.status();
        // A page left open asks for what is gone every five seconds: that is nobody's error (A4-4).
        debug!(status = status.as_u16(), error = %self, "request refused");
        let body = Errors {
            errors: [self.to_string()],
            code: self.code().map(ErrorCode::as_str),
        };
        (status, Json(body)).into_response()
    }
}
