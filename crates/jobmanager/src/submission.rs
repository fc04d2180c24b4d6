//! From a client's graph to a stored job that runs.
//!
//! Order: everything is checked; the first CLAIM is appended; the job object is written; then the
//! client is told and the job starts. Whatever a crash leaves half done, the same client id
//! finishes.

use std::collections::BTreeMap;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use bytes::Bytes;
use millstream_config::Resolved;
use millstream_snapshot::StoreError;
use millstream_snapshot::chain::{ChainHandle, Claimed};
use millstream_snapshot::jobs::{JobStore, JobStoreError, SubmittedJob};
use millstream_types::{Checksum, JobId, WallTime};
use tokio::sync::oneshot;
use tracing::info;

use crate::admission::{Plan, plan_job};
use crate::error::SubmitError;
use crate::jobmanager::{Shared, Submission, Submitted};
use crate::master::{self, ID_BLOCK, JobFiles, MasterParts};
use crate::registry::{Entry, Reservation};

/// How long storage may take to accept a job.
const ACCEPT_TIMEOUT: Duration = Duration::from_secs(60);

/// Longest client id.
const CLIENT_ID_MAX: usize = 128;

pub(crate) async fn submit(
    shared: &Arc<Shared>,
    submission: Submission,
) -> Result<Submitted, SubmitError> {
    let Submission { client_id, graph } = submission;
    let job = match &client_id {
        Some(client_id) => job_of_client(client_id)?,
        None => shared.env.rng().job_id(),
    };
    let request = Request {
        job,
        graph: shared.settings.graphs.encode(&graph)?,
        client_id,
    };
    let plan = plan_job(
        &shared.settings.cluster,
        &graph,
        shared.settings.storage.checkpoints.is_some(),
    );
    let reservation = loop {
        match shared.registry.reserve(job) {
            Ok(reservation) => break reservation,
            Err(Entry::Submitting(mut decided)) => {
                // An error says that it is decided.
                let _ = decided.changed().await;
            }
            Err(Entry::Running(_) | Entry::Ended(_)) => {
                return find(shared, &request)
                    .await?
                    .ok_or(SubmitError::ShuttingDown);
            }
            Err(Entry::NotResumed(details)) => {
                if let Some(submitted) = find(shared, &request).await? {
                    return Ok(submitted);
                }
                // Its job object was lost: this submission brings it back, and its chain says
                // where it goes on.
                shared.registry.forget(job, &details);
            }
        }
    };
    // A client that goes away does not stop half way what was begun for it.
    let (reply, answer) = oneshot::channel();
    let shared = shared.clone();
    let spawner = shared.env.spawner().clone();
    spawner.supervise(format!("submission of job {job}"), async move {
        let _ = reply.send(accept(&shared, request, plan, reservation).await);
    });
    answer.await.unwrap_or(Err(SubmitError::ShuttingDown))
}

struct Request {
    job: JobId,
    client_id: Option<String>,
    graph: Bytes,
}

/// The same client id is the same job, on every jobmanager of every time.
fn job_of_client(client_id: &str) -> Result<JobId, SubmitError> {
    let is_visible = client_id.bytes().all(|byte| byte.is_ascii_graphic());
    if client_id.is_empty() || client_id.len() > CLIENT_ID_MAX || !is_visible {
        return Err(SubmitError::ClientId {
            found: client_id.chars().take(80).collect(),
        });
    }
    let named = format!("millstream job of client id {client_id}");
    let Checksum(number) = Checksum::of(named.as_bytes());
    Ok(JobId::from_bytes(number.to_be_bytes()))
}

/// What an earlier submission with this client id left, if there was one.
async fn find(shared: &Shared, request: &Request) -> Result<Option<Submitted>, SubmitError> {
    let Some(client_id) = &request.client_id else {
        return Ok(None);
    };
    let job = request.job;
    let stored = shared.jobs.load(job).await;
    let stored = stored.map_err(|source| SubmitError::JobStore { job, source })?;
    match stored {
        None => Ok(None),
        Some(stored) if stored.graph == request.graph => Ok(Some(Submitted {
            job,
            is_new: false,
            warnings: Vec::new(),
        })),
        Some(_) => Err(SubmitError::ClientIdTaken {
            client_id: client_id.clone(),
            job,
        }),
    }
}

async fn accept(
    shared: &Arc<Shared>,
    request: Request,
    plan: Result<Plan, SubmitError>,
    reservation: Reservation,
) -> Result<Submitted, SubmitError> {
    let job = request.job;
    // First of all: a job that is known is known, whatever has become of the configuration since.
    let known = find(shared, &request);
    let known = shared.env.clock().timeout(ACCEPT_TIMEOUT, known).await;
    let timed_out = |source| SubmitError::TimedOut {
        job,
        waited: ACCEPT_TIMEOUT,
        source,
    };
    if let Some(submitted) = known.map_err(|_| timed_out(None))?? {
        return Ok(submitted);
    }
    let plan = plan?;
    // A claim waits as long as the store is away: what it waits for is the cause.
    let chain = OnceLock::new();
    let stored = store(shared, &request, &plan, &chain);
    let stored = shared.env.clock().timeout(ACCEPT_TIMEOUT, stored).await;
    let trouble = || chain.get().and_then(ChainHandle::trouble);
    let (files, claimed, submitted_at) = match stored.map_err(|_| timed_out(trouble()))?? {
        Stored::New(files, claimed, submitted_at) => (files, *claimed, submitted_at),
        Stored::ByAnother(submitted) => return Ok(submitted),
    };
    let warnings = plan.warnings.clone();
    info!(job_id = %job, "job {} submitted", plan.graph.name);
    run(
        shared,
        Accepted {
            files,
            plan,
            submitted_at,
            first_claim: Some(claimed),
        },
        reservation,
    );
    Ok(Submitted {
        job,
        is_new: true,
        warnings,
    })
}

enum Stored {
    New(JobFiles, Box<Claimed>, WallTime),
    /// Another jobmanager took the same submission at the same time, and runs it.
    ByAnother(Submitted),
}

async fn store(
    shared: &Shared,
    request: &Request,
    plan: &Plan,
    chain: &OnceLock<ChainHandle>,
) -> Result<Stored, SubmitError> {
    let job = request.job;
    let files = open_files(shared, job, plan).await?;
    let claimed = chain.get_or_init(|| files.chain.clone()).begin().await?;
    let submitted = SubmittedJob {
        job,
        client_id: request.client_id.clone().unwrap_or_default(),
        submitted_at: shared.env.clock().wall(),
        graph: request.graph.clone(),
        settings: cluster_settings(&shared.settings.cluster),
    };
    let failure = |source| SubmitError::JobStore { job, source };
    if files.is_apart {
        // The chain is in the job's own directory, and whoever claims it there looks for the job
        // object beside it: a chain that was lost must not look like a job that is new.
        let own = JobStore::open(files.root.clone(), &shared.settings.cluster_id)
            .await
            .map_err(failure)?;
        match own.submit(&submitted).await {
            Ok(()) | Err(JobStoreError::Store(StoreError::Taken { .. })) => {}
            Err(error) => return Err(failure(error)),
        }
    }
    match shared.jobs.submit(&submitted).await {
        Ok(()) => {
            let submitted_at = submitted.submitted_at;
            Ok(Stored::New(files.files, Box::new(claimed), submitted_at))
        }
        Err(taken @ JobStoreError::Store(StoreError::Taken { .. })) => find(shared, request)
            .await?
            .map(Stored::ByAnother)
            .ok_or_else(|| failure(taken)),
        Err(error) => Err(failure(error)),
    }
}

/// The files of a job, and where they are.
pub(crate) struct OpenFiles {
    pub(crate) files: JobFiles,
    root: millstream_snapshot::Store,
    /// In another directory than the job object.
    is_apart: bool,
}

impl std::ops::Deref for OpenFiles {
    type Target = JobFiles;

    fn deref(&self) -> &JobFiles {
        &self.files
    }
}

/// Opens the directory that the job's chain and checkpoints are in.
pub(crate) async fn open_files(
    shared: &Shared,
    job: JobId,
    plan: &Plan,
) -> Result<OpenFiles, SubmitError> {
    let storage = &shared.settings.storage;
    let root = match &plan.own_dir {
        Some(location) => storage.opener.open(location).await?,
        None => storage
            .checkpoints
            .clone()
            .unwrap_or_else(|| storage.jobs.clone()),
    };
    let files = JobFiles {
        job,
        store: root.job(job),
        chain: ChainHandle::open(&root, job, ID_BLOCK, &shared.env),
        jobs: shared.jobs.clone(),
    };
    Ok(OpenFiles {
        files,
        is_apart: root.address() != storage.jobs.address(),
        root,
    })
}

/// A job whose files are open.
pub(crate) struct Accepted {
    pub(crate) files: JobFiles,
    pub(crate) plan: Plan,
    pub(crate) submitted_at: WallTime,
    pub(crate) first_claim: Option<Claimed>,
}

/// Starts the master of the job.
pub(crate) fn run(shared: &Shared, accepted: Accepted, reservation: Reservation) {
    let job = accepted.files.job;
    let parts = MasterParts {
        env: shared.env.component(&format!("job-{job}")),
        job,
        submitted_at: accepted.submitted_at,
        plan: accepted.plan,
        files: accepted.files,
        first_claim: accepted.first_claim,
        cluster: shared.cluster.clone(),
        connections: shared.connections.clone(),
        registry: shared.registry.clone(),
    };
    let (handle, mailbox) = master::mailbox();
    reservation.run(handle);
    master::start(parts, mailbox);
}

/// What the cluster sets for its jobs at this time. A job keeps it, also under a jobmanager that
/// is configured otherwise.
fn cluster_settings(cluster: &Resolved) -> BTreeMap<String, String> {
    let given = cluster.given_for_job().into_iter();
    given
        .map(|(key, value, _)| (key.to_owned(), value))
        .collect()
}
