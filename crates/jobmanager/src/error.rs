//! What callers of a jobmanager are told when they do not get what they asked for.

use std::sync::Arc;
use std::time::Duration;

use millstream_config::ConfigErrors;
use millstream_coordination::job::JobStatus;
use millstream_coordination::slots::RegistrationRefusal;
use millstream_coordination::topology::TopologyError;
use millstream_graph::GraphError;
use millstream_snapshot::chain::ChainFailure;
use millstream_snapshot::jobs::JobStoreError;
use millstream_snapshot::{OpenError, StoreError};
use millstream_types::errors::{self, ErrorCode};
use millstream_types::{JobId, OperatorUid, rounded};

use crate::settings::GraphCodecError;

/// Why a jobmanager does not start.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// Its jobs cannot be looked after.
    #[error("the job store cannot be used")]
    JobStore(#[from] JobStoreError),
}

impl StartError {
    /// Its code.
    pub fn code(&self) -> ErrorCode {
        match self {
            Self::JobStore(error) => error.code(),
        }
    }

    /// What an operator can do about it.
    pub fn remedy(&self) -> String {
        match self {
            Self::JobStore(error) => error.remedy(),
        }
    }
}

/// Why a job was not accepted. Nothing of it runs.
#[derive(Debug, thiserror::Error)]
pub enum SubmitError {
    /// The graph cannot be planned.
    #[error("the job graph is refused")]
    Graph(#[from] GraphError),
    /// The graph cannot be stored.
    #[error("the job graph cannot be stored")]
    Encoding(#[from] GraphCodecError),
    /// Its plan has no sound shape.
    #[error("the job's plan is refused")]
    Topology(#[from] TopologyError),
    /// Its settings are not accepted; the remedy lists them, each with what is wrong.
    #[error("the job's settings are refused")]
    Settings(ConfigErrors),
    /// A step that breaks jobs on purpose.
    #[error("operator {uid} injects faults, and pipeline.allow-fault-injection is false")]
    FaultInjection {
        /// The operator.
        uid: OperatorUid,
    },
    /// Operators with state and without uid, where uids are required.
    #[error(
        "operators {} have state and no uid, and pipeline.require-uids is true",
        .names.join(", ")
    )]
    MissingUids {
        /// Their names.
        names: Vec<String>,
    },
    /// A sink whose output becomes visible with checkpoints, and no checkpoints.
    #[error("file sink {uid} shows its rows when a checkpoint completes, and checkpointing is off")]
    SinkWithoutCheckpoints {
        /// The sink.
        uid: OperatorUid,
    },
    /// The client's id of the submission has a form that is not accepted.
    #[error(
        "the client id of the submission is refused: expected 1 to 128 visible ASCII characters, \
         found {found:?}"
    )]
    ClientId {
        /// The id, cut at 80 characters.
        found: String,
    },
    /// The client's id was used for another job.
    #[error("client id {client_id:?} was used to submit job {job}, whose graph is another one")]
    ClientIdTaken {
        /// The id.
        client_id: String,
        /// The job that has it.
        job: JobId,
    },
    /// The directory for its checkpoints cannot be used.
    #[error("the job's checkpoint directory cannot be used")]
    Open(#[from] OpenError),
    /// Its claim chain could not be begun.
    #[error("the job's claim chain cannot be begun")]
    Chain(#[source] Box<ChainFailure>),
    /// It could not be stored. Submitting again with the same client id is safe.
    #[error("job {job} cannot be stored")]
    JobStore {
        /// The job.
        job: JobId,
        /// Why.
        #[source]
        source: JobStoreError,
    },
    /// Storage did not answer in time. Submitting again with the same client id is safe.
    #[error("storage did not take job {job} within {}", rounded(.waited))]
    TimedOut {
        /// The job.
        job: JobId,
        /// How long was waited.
        waited: Duration,
        /// What the last request ended with; none if it was not answered.
        #[source]
        source: Option<Arc<StoreError>>,
    },
    /// The jobmanager is ending.
    #[error("the jobmanager is shutting down")]
    ShuttingDown,
}

impl From<ConfigErrors> for SubmitError {
    fn from(errors: ConfigErrors) -> Self {
        Self::Settings(errors)
    }
}

impl From<ChainFailure> for SubmitError {
    fn from(failure: ChainFailure) -> Self {
        Self::Chain(Box::new(failure))
    }
}

impl SubmitError {
    /// Its code.
    pub fn code(&self) -> ErrorCode {
        match self {
            Self::Graph(_) | Self::Encoding(_) | Self::Topology(_) => errors::SUBM_GRAPH,
            Self::Settings(errors) => errors.code(),
            Self::FaultInjection { .. } => errors::SUBM_FAULT_INJECTION,
            Self::MissingUids { .. } => errors::SUBM_MISSING_UIDS,
            Self::SinkWithoutCheckpoints { .. } => errors::SUBM_NO_CHECKPOINTS,
            Self::ClientId { .. } => errors::SUBM_CLIENT_ID,
            Self::ClientIdTaken { .. } => errors::SUBM_CLIENT_ID_TAKEN,
            Self::Open(error) => error.code(),
            Self::Chain(failure) => failure.code(),
            Self::JobStore { source, .. } => source.code(),
            Self::TimedOut { .. } => errors::SUBM_NOT_STORED,
            Self::ShuttingDown => errors::NOT_NOW,
        }
    }

    /// What to do about it; empty where the catalogue of errors says it as well.
    pub fn remedy(&self) -> String {
        match self {
            Self::Settings(errors) => errors.report(),
            Self::Open(error) => error.remedy(),
            Self::Chain(error) => error.remedy(),
            Self::JobStore { source, .. } => source.remedy(),
            Self::SinkWithoutCheckpoints { .. } => {
                "set checkpointing.interval, for example to 10s".to_owned()
            }
            Self::TimedOut { source, .. } => {
                let check = source.as_ref().map(|error| error.check());
                let check = check.unwrap_or_else(|| "Check that the storage answers".into());
                format!("{check}; then submit again, with the same client id.")
            }
            Self::Graph(_)
            | Self::Encoding(_)
            | Self::Topology(_)
            | Self::FaultInjection { .. }
            | Self::MissingUids { .. }
            | Self::ClientId { .. }
            | Self::ClientIdTaken { .. }
            | Self::ShuttingDown => String::new(),
        }
    }

    /// Whether the job itself is at fault; otherwise the cluster is, and the same submission may
    /// succeed later.
    pub fn is_refusal(&self) -> bool {
        match self {
            Self::Graph(_)
            | Self::Encoding(_)
            | Self::Topology(_)
            | Self::Settings(_)
            | Self::FaultInjection { .. }
            | Self::MissingUids { .. }
            | Self::SinkWithoutCheckpoints { .. }
            | Self::ClientId { .. }
            | Self::ClientIdTaken { .. } => true,
            Self::Open(error) => !error.is_transient(),
            Self::Chain(_) | Self::JobStore { .. } | Self::TimedOut { .. } | Self::ShuttingDown => {
                false
            }
        }
    }
}

/// Why a job was not cancelled.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CancelError {
    /// There is no such job.
    #[error("no job {0} is known to this cluster")]
    UnknownJob(JobId),
    /// This jobmanager does not own it.
    #[error("job {job} is {status} here and cannot be cancelled: {why}")]
    NotOwned {
        /// The job.
        job: JobId,
        /// Its state.
        status: JobStatus,
        /// Why it is not owned.
        why: String,
    },
    /// The jobmanager is ending.
    #[error("the jobmanager is shutting down before job {0} has ended")]
    ShuttingDown(JobId),
}

impl CancelError {
    /// Its code.
    pub fn code(&self) -> ErrorCode {
        match self {
            Self::UnknownJob(_) => errors::SUBM_UNKNOWN_JOB,
            Self::NotOwned { .. } => errors::SUBM_NOT_OWNED,
            Self::ShuttingDown(_) => errors::NOT_NOW,
        }
    }
}

/// Why no checkpoint was taken when a user asked for one.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum TriggerError {
    /// There is no such job, or it ended.
    #[error("no job {0} is running on this cluster")]
    UnknownJob(JobId),
    /// The coordinator says why.
    #[error("no checkpoint of job {job} was taken")]
    Failed {
        /// The job.
        job: JobId,
        /// Why.
        #[source]
        source: millstream_coordination::checkpoint::RequestFailure,
    },
}

/// Why a taskmanager's connection has to end.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SessionError {
    /// Something came before the registration.
    #[error("the first message of a taskmanager must be its registration")]
    NotRegistered,
    /// A second registration on one connection.
    #[error("this connection is registered already: open a new one")]
    RegisteredTwice,
    /// It may not join; it was told so.
    #[error("the registration was refused")]
    Refused(#[source] RegistrationRefusal),
    /// The jobmanager gave up this connection, or is ending.
    #[error("the jobmanager gave up this connection")]
    Closed,
}
