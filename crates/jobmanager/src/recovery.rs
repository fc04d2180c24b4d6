//! A jobmanager that starts finds its jobs in storage and resumes them, without any client.

use std::sync::Arc;
use std::time::Duration;

use futures::{StreamExt, stream};
use millstream_config::{Layer, Resolved};
use millstream_snapshot::StoreError;
use millstream_snapshot::jobs::{JobStoreError, StoredJob, SubmittedJob};
use millstream_telemetry::chain as error_chain;
use millstream_types::{Disposition, JobId};
use parking_lot::Mutex;
use tokio::sync::watch;
use tracing::{debug, error, info, warn};

use crate::admission::plan_job;
use crate::error::SubmitError;
use crate::jobmanager::Shared;
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
enum ResumeError {
    #[error(transparent)]
    Graph(#[from] GraphCodecError),
    #[error("the job is not accepted any more")]
    Refused(#[from] SubmitError),
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
            debug!(job_id = %job, "submission was never finished; its client was told nothing");
        }
        StoredJob::Unreadable(job, failure) => {
            let remedy = failure.remedy();
            error!(job_id = %job, error = error_chain(&failure), remedy, "job not resumed");
        }
        StoredJob::Unfinished(submitted) => {
            let job = submitted.job;
            // A client that submits it again meanwhile has it, and resumes it as well.
            let Ok(reservation) = shared.registry.reserve(job) else {
                return;
            };
            if let Err(failure) = resume_one(shared, submitted, reservation).await {
                error!(job_id = %job, error = error_chain(&failure), "job not resumed");
            }
        }
    }
}

async fn resume_one(
    shared: &Shared,
    submitted: SubmittedJob,
    reservation: Reservation,
) -> Result<(), ResumeError> {
    let job = submitted.job;
    let graph = shared.settings.graphs.decode(&submitted.graph)?;
    // The job was accepted under these settings of the cluster, and runs under them.
    let settings = submitted.settings.iter();
    let settings = settings.map(|(key, value)| (key.as_str(), value.as_str(), "cluster"));
    let layer = Layer::stored(settings).map_err(SubmitError::from)?;
    let cluster = Resolved::new([layer]);
    let has_default = shared.settings.storage.checkpoints.is_some();
    let plan = plan_job(&cluster, &graph, has_default)?;
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
    Ok(())
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
