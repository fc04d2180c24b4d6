//! What a jobmanager offers its users, independent of how it is asked.

use async_trait::async_trait;
use futures::stream::BoxStream;
use millstream_graph::JobGraph;
use millstream_types::JobId;
use millstream_types::errors::{self, ErrorCode};
use tonic::{Code, Status};

use crate::status::with_code;

use super::types::{CheckpointsInfo, JobEvent, JobInfo, JobSummary};

/// A job file to be run.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SubmitFile {
    /// Chosen by the client, one for each job; none where submitting need not be idempotent.
    pub client_id: Option<String>,
    /// The text.
    pub text: String,
    /// Settings that replace those of the file, by key.
    pub overrides: Vec<(String, String)>,
}

/// A graph to be run, well formed but not validated.
#[derive(Clone, PartialEq, Debug)]
pub struct SubmitGraph {
    /// Chosen by the client, one for each job; none where submitting need not be idempotent.
    pub client_id: Option<String>,
    /// The graph.
    pub graph: JobGraph,
    /// Settings that replace those of the graph, by key.
    pub overrides: Vec<(String, String)>,
}

/// A job that was accepted.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Submitted {
    /// Its id.
    pub job: JobId,
    /// What was noticed, one line each.
    pub warnings: Vec<String>,
}

/// Why a request is not carried out. The texts go to users as they are.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum GatewayError {
    /// The request is refused, and will be again.
    #[error("{message}")]
    Refused {
        /// Its code.
        code: ErrorCode,
        /// All faults, with what to do about them.
        message: String,
    },
    /// No such job.
    #[error("job {job} is not known here")]
    NotFound {
        /// Which.
        job: JobId,
    },
    /// Not in this state.
    #[error("{message}")]
    Conflict {
        /// Its code.
        code: ErrorCode,
        /// Why.
        message: String,
    },
    /// Not now; the same request may succeed later.
    #[error("{message}")]
    Unavailable {
        /// Its code.
        code: ErrorCode,
        /// Why.
        message: String,
    },
    /// A fault of the cluster.
    #[error("{message}")]
    Internal {
        /// Which.
        message: String,
    },
}

impl GatewayError {
    /// The code that users read.
    pub fn code(&self) -> ErrorCode {
        match self {
            Self::Refused { code, .. }
            | Self::Conflict { code, .. }
            | Self::Unavailable { code, .. } => *code,
            Self::NotFound { .. } => errors::SUBM_UNKNOWN_JOB,
            Self::Internal { .. } => errors::SERVER_FAULT,
        }
    }
}

impl From<GatewayError> for Status {
    fn from(error: GatewayError) -> Self {
        let code = match &error {
            GatewayError::Refused { .. } => Code::InvalidArgument,
            GatewayError::NotFound { .. } => Code::NotFound,
            GatewayError::Conflict { .. } => Code::FailedPrecondition,
            GatewayError::Unavailable { .. } => Code::Unavailable,
            GatewayError::Internal { .. } => Code::Internal,
        };
        // HTTP/2 headers are bounded; a text beyond them would fail the whole answer.
        const TEXT_BYTES_MAX: usize = 4 << 10;
        let mut text = error.to_string();
        if text.len() > TEXT_BYTES_MAX {
            let n_bytes = text.len();
            text.truncate(text.floor_char_boundary(TEXT_BYTES_MAX));
            text.push_str(&format!("… ({n_bytes} bytes in all)"));
        }
        with_code(Self::new(code, text), error.code())
    }
}

/// Carries out what users ask for; implemented by whoever runs the jobmanager.
#[async_trait]
pub trait JobGateway: Send + Sync + 'static {
    /// Checks the job of a file and starts it.
    async fn submit_file(&self, submission: SubmitFile) -> Result<Submitted, GatewayError>;
    /// Checks a job and starts it.
    async fn submit_graph(&self, submission: SubmitGraph) -> Result<Submitted, GatewayError>;
    /// All jobs, the newest first.
    async fn list(&self) -> Result<Vec<JobSummary>, GatewayError>;
    /// All that is known of a job.
    async fn get(&self, job: JobId) -> Result<JobInfo, GatewayError>;
    /// Asks a job to end.
    async fn cancel(&self, job: JobId) -> Result<(), GatewayError>;
    /// What happens to a job from now on; the last event of a job that ends is its end.
    async fn watch(&self, job: JobId) -> Result<BoxStream<'static, JobEvent>, GatewayError>;
    /// The checkpoints of a job.
    async fn checkpoints(&self, job: JobId) -> Result<CheckpointsInfo, GatewayError>;
}
