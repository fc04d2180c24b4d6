//! A jobmanager that starts finds its jobs in storage and resumes them, without any client.

use std::collections::BTreeMap;
use std::error::Error;
use std::sync::Arc;
use std::time::Duration;

use futures::{StreamExt, stream};
use millstream_config::{Layer, Resolved};
use millstream_coordination::failure::{FailureInfo, FailureKind, FailureRecord};
use millstream_coordination::job::{FailureHistory, JobStatus};
use millstream_snapshot::StoreError;
use millstream_snapshot::jobs::{JobStoreError, StoredJob, SubmittedJob};
use millstream_telemetry::chain as error_chain;
use millstream_types::errors::{self, ErrorCode};
use millstream_types::{Disposition, JobId, WallTime};
use parking_lot::Mutex;
use tokio::sync::watch;
use tracing::{debug, error, info, warn};

use crate::admission::{Plan, plan_job};
use crate::cleaning;
use crate::details::{JobDetails, JobOverview};
use crate::error::SubmitError;
use crate::jobmanager::Shared;
use crate::master::removal;
use crate::registry::{EndedJob, Reservation};
use crate::result;
use crate::settings::GraphCodecError;
use crate::submission::{Accepted, open_files, run as run_job};

/// Time between attempts while storage is not reached.
const RETRY: Duration = Duration::from_secs(2);

/// Jobs and results that are looked at together.
const CONCURRENCY: usize = 8;

/// Results of ended jobs that are read at the start, to be listed.
const RESULTS_MAX: usize = 1_000;

/// Why a stored job is not resumed.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ResumeError {
    #[error(transparent)]
    Graph(#[from] GraphCodecError),
    #[error("the job is not accepted any more")]
    Refused(#[source] Box<SubmitError>),
}

impl From<SubmitError> for ResumeError {
    fn from(error: SubmitError) -> Self {
        Self::Refused(Box::new(error))
    }
}

impl ResumeError {
    fn remedy(&self) -> String {
        match self {
            Self::Graph(_) => {
                "Start the version of Millstream that the job was submitted to.".into()
            }
            Self::Refused(error) => error.remedy(),
        }
    }

    fn code(&self) -> ErrorCode {
        match self {
            Self::Graph(_) => errors::STORED_JOB,
            Self::Refused(error) => error.code(),
        }
    }
}

pub(crate) async fn run(shared: Arc<Shared>, recovering: watch::Sender<bool>) {
    let stop = shared.env.spawner().stop_signal();
    let recover = async {
        let stored = list(&shared).await;
        stream::iter(stored)
            .for_each_concurrent(CONCURRENCY, |stored| resume(&shared, stored))
            .await;
        recovering.send_replace(false);
        list_ended(&shared).await;
        cleaning::after_others(&shared).await;
    };
    tokio::select! {
        () = stop.cancelled() => {}
        () = recover => {}
    }
}

/// A store that does not answer says nothing about the jobs in it (F153).
async fn list(shared: &Shared) -> Vec<StoredJob> {
    loop {
        match shared.jobs.list_unfinished().await {
            Ok(jobs) => return jobs,
            Err(error) => {
                let remedy = error.remedy();
                error!(
                    error = error_chain(&error),
                    remedy, "stored jobs not listed"
                );
                shared.env.clock().sleep(RETRY).await;
            }
        }
    }
}

async fn resume(shared: &Arc<Shared>, stored: StoredJob) {
    match stored {
        StoredJob::NeverSubmitted(job) => {
            info!(
                job_id = %job,
                "a directory without a job object is left as it is: its submission was never \
                 finished and its client was told of no success, or the object was deleted"
            );
        }
        StoredJob::Lost { job, directory } => {
            if let Ok(reservation) = shared.registry.reserve(job) {
                let code = errors::CHAIN_GONE;
                let error = format!(
                    "[{code}] {directory} is of a job that was stored, and its job object is gone"
                );
                let remedy = format!(
                    "Put {directory}/job back from a copy and start the jobmanager again, or \
                     submit the job again under its client id: it goes on from its newest \
                     checkpoint."
                );
                reservation.leave(not_resumed(shared, job, None, error, remedy));
            }
        }
        StoredJob::Unreadable(job, failure) => {
            if let Ok(reservation) = shared.registry.reserve(job) {
                let (error, remedy) = (coded(failure.code(), &failure), failure.remedy());
                reservation.leave(not_resumed(shared, job, None, error, remedy));
            }
        }
        StoredJob::Unfinished(submitted) => {
            let job = submitted.job;
            // A client that submits it again meanwhile has it, and resumes it as well.
            let Ok(reservation) = shared.registry.reserve(job) else {
                return;
            };
            match admit(shared, &submitted) {
                Ok(plan) => resume_one(shared, submitted, plan, reservation).await,
                Err(failure) => {
                    let (error, remedy) = (coded(failure.code(), &failure), failure.remedy());
                    let at = Some(submitted.submitted_at);
                    reservation.leave(not_resumed(shared, job, at, error, remedy));
                }
            }
        }
    }
}

/// The job was accepted under its settings of the cluster, and runs under them.
pub(crate) fn admit(shared: &Shared, submitted: &SubmittedJob) -> Result<Plan, ResumeError> {
    let graph = shared.settings.graphs.decode(&submitted.graph)?;
    let settings = submitted.settings.iter();
    let settings = settings.map(|(key, value)| (key.as_str(), value.as_str(), "cluster"));
    let layer = Layer::stored(settings).map_err(SubmitError::from)?;
    let cluster = Resolved::new([layer]);
    let has_default = shared.settings.storage.checkpoints.is_some();
    Ok(plan_job(&cluster, &graph, has_default)?)
}

async fn resume_one(
    shared: &Shared,
    submitted: SubmittedJob,
    plan: Plan,
    reservation: Reservation,
) {
    let job = submitted.job;
    let files = loop {
        match open_files(shared, job, &plan).await {
            Ok(files) => break files.files,
            Err(failure) => {
                let remedy = failure.remedy();
                warn!(job_id = %job, error = error_chain(&failure), remedy, "job not resumed yet");
                shared.env.clock().sleep(RETRY).await;
            }
        }
    };
    info!(job_id = %job, "resuming job {}", plan.graph.name);
    let accepted = Accepted {
        files,
        plan,
        submitted_at: submitted.submitted_at,
        first_claim: None,
    };
    run_job(shared, accepted, reservation);
}

/// An error with its causes and its code.
fn coded(code: ErrorCode, error: &dyn Error) -> String {
    format!("[{code}] {}", error_chain(error))
}

/// What is shown of a job that is in storage and cannot be resumed from it.
fn not_resumed(
    shared: &Shared,
    job: JobId,
    submitted_at: Option<WallTime>,
    error: String,
    remedy: String,
) -> JobDetails {
    error!(job_id = %job, error, remedy, "job not resumed");
    let now = shared.env.clock().wall();
    let mut failure = FailureInfo::new(FailureKind::Restore, "job not resumed");
    failure.causes.push(error);
    let directory = shared.settings.storage.jobs.job(job).address();
    let remedy = format!("{remedy} {}", removal(&directory));
    failure.remedy = Some(remedy.trim_start().to_owned());
    let record = FailureRecord {
        failed_at: now,
        task: None,
        failure,
    };
    JobDetails {
        overview: JobOverview {
            id: job,
            name: "not resumed".to_owned(),
            status: JobStatus::Suspended,
            started_at: submitted_at.unwrap_or(now),
            ended_at: None,
            last_modified_at: now,
            tasks: BTreeMap::new(),
            restarts: 0,
        },
        status_since: [(JobStatus::Suspended, now)].into(),
        epoch: None,
        slot_wait: None,
        vertices: Vec::new(),
        failures: FailureHistory::of_one(record),
        settings: Vec::new(),
        warnings: Vec::new(),
        end: None,
    }
}

/// Reads the results of jobs that ended, so that they are listed.
async fn list_ended(shared: &Arc<Shared>) {
    let jobs = match shared.settings.storage.jobs.list_jobs().await {
        Ok(jobs) => jobs,
        Err(error) => {
            warn!(error = error_chain(&error), "ended jobs are not listed");
            return;
        }
    };
    let unknown = jobs
        .into_iter()
        .filter(|job| shared.registry.get(*job).is_none())
        .take(RESULTS_MAX);
    stream::iter(unknown)
        .for_each_concurrent(CONCURRENCY, |job| read_ended(shared, job))
        .await;
}

async fn read_ended(shared: &Arc<Shared>, job: JobId) {
    match shared.jobs.result(job).await {
        Ok(None) => {}
        Ok(Some(bytes)) => match result::decode(job, &bytes) {
            Ok(details) => {
                if let Ok(reservation) = shared.registry.reserve(job) {
                    reservation.end(EndedJob {
                        details,
                        checkpoints: None,
                        unwatched: Mutex::default(),
                    });
                }
            }
            Err(error) => warn!(job_id = %job, %error, "stored result not shown"),
        },
        Err(JobStoreError::Store(StoreError::NotFound { .. })) => {}
        Err(error) if error.disposition() == Disposition::Retry => {
            debug!(job_id = %job, error = error_chain(&error), "stored result not read");
        }
        Err(error) => warn!(job_id = %job, error = error_chain(&error), "stored result not read"),
    }
}
