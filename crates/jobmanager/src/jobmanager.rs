//! The handle through which everything else speaks to a jobmanager.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use millstream_coordination::job::JobStatus;
use millstream_coordination::protocol::{CheckpointStorage, ToTaskmanager};
use millstream_env::{Env, ShutdownReport};
use millstream_graph::JobGraph;
use millstream_snapshot::jobs::{JobStore, JobStoreError};
use millstream_types::{CheckpointId, JobId};
use tokio::sync::{mpsc, oneshot, watch};
use tracing::warn;

use crate::cluster::{
    self, ClusterHandle, ClusterSettings, Connections, SessionId, TaskmanagerSession,
};
use crate::details::{
    CheckpointsDetails, ClusterOverview, JobDetails, JobEnded, JobOverview, TaskmanagerDetails,
};
use crate::error::{CancelError, StartError, SubmitError, TriggerError};
use crate::master::Command;
use crate::registry::{Entry, JobHandle, Outcome, Registry};
use crate::settings::JobmanagerSettings;
use crate::watch::JobWatch;
use crate::{recovery, result, submission};

/// A job to be run.
#[derive(Clone, Debug)]
pub struct Submission {
    /// The client's own id of this submission: submitting it again finds the same job. Without one
    /// every submission is a new job.
    pub client_id: Option<String>,
    /// The job.
    pub graph: JobGraph,
}

/// A job that was accepted: it is stored, and runs or will run.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Submitted {
    /// Its id.
    pub job: JobId,
    /// Whether this submission began it; otherwise an earlier one with the same client id did.
    pub is_new: bool,
    /// What is worth saying about it, one line each.
    pub warnings: Vec<String>,
}

/// A running jobmanager. Cloning is cheap; it runs until [`Jobmanager::shutdown`].
#[derive(Clone)]
pub struct Jobmanager {
    pub(crate) shared: Arc<Shared>,
}

pub(crate) struct Shared {
    pub(crate) env: Env,
    pub(crate) settings: JobmanagerSettings,
    pub(crate) jobs: JobStore,
    /// What taskmanagers must see where checkpoints are kept.
    checkpoints: Option<CheckpointStorage>,
    pub(crate) registry: Arc<Registry>,
    pub(crate) cluster: ClusterHandle,
    pub(crate) connections: Connections,
    is_recovering: watch::Receiver<bool>,
    next_session: AtomicU64,
}

impl Jobmanager {
    /// Starts a jobmanager on this storage. Jobs that did not end are found and resumed by
    /// themselves, beside everything else (see [`Jobmanager::recovered`]).
    pub async fn start(env: &Env, settings: JobmanagerSettings) -> Result<Self, StartError> {
        let env = env.component("jobmanager");
        let jobs = JobStore::open(settings.storage.jobs.clone(), &settings.cluster_id).await?;
        let checkpoints = checkpoint_storage(&settings, &jobs).await?;
        if !settings.storage.is_durable {
            warn!(
                "no durable storage is configured (high-availability.storageDir or \
                 checkpointing.dir): jobs and their checkpoints are lost with this process"
            );
        }
        let registry = Arc::new(Registry::default());
        let connections = Connections::default();
        let cluster_settings = ClusterSettings {
            heartbeat_interval: settings.heartbeat.interval,
            heartbeat_timeout: settings.heartbeat.timeout,
            slot_request_timeout: settings.slot_request_timeout,
            incarnation: env.rng().incarnation(),
        };
        let cluster = cluster::start(
            &env,
            cluster_settings,
            registry.clone(),
            connections.clone(),
        );
        let (recovering, is_recovering) = watch::channel(true);
        let shared = Arc::new(Shared {
            env,
            settings,
            jobs,
            checkpoints,
            registry,
            cluster,
            connections,
            is_recovering,
            next_session: AtomicU64::new(1),
        });
        let spawner = shared.env.spawner();
        spawner.supervise("job recovery", recovery::run(shared.clone(), recovering));
        Ok(Self { shared })
    }

    /// Completes when every job found in storage is running again.
    pub async fn recovered(&self) {
        let mut recovering = self.shared.is_recovering.clone();
        // A sender that is gone has nothing more to say.
        let _ = recovering.wait_for(|recovering| !recovering).await;
    }

    /// What the cluster sets for its jobs.
    pub fn cluster_settings(&self) -> &millstream_config::Resolved {
        &self.shared.settings.cluster
    }

    /// Where jobs that name no directory keep their checkpoints, and what that place is known by.
    pub fn checkpoint_storage(&self) -> Option<CheckpointStorage> {
        self.shared.checkpoints.clone()
    }

    /// Accepts a job, or says why not. Success means that the job is stored: it runs, and it comes
    /// back when this jobmanager does.
    pub async fn submit(&self, submission: Submission) -> Result<Submitted, SubmitError> {
        submission::submit(&self.shared, submission).await
    }

    /// All jobs that run, and those that ended lately, oldest first.
    pub async fn list(&self) -> Vec<JobOverview> {
        let mut list = Vec::new();
        for (job, entry) in self.shared.registry.all() {
            let overview = match entry {
                Entry::Submitting(_) => None,
                Entry::Ended(ended) => Some(ended.details.overview.clone()),
                Entry::NotResumed(details) => Some(details.overview.clone()),
                Entry::Running(handle) => match ask(&handle, Command::Overview).await {
                    Some(overview) => Some(overview),
                    // It ended since.
                    None => self.kept(job).map(|details| details.overview),
                },
            };
            list.extend(overview);
        }
        list.sort_by_key(|overview| (overview.started_at, overview.id));
        list
    }

    /// All that is known of a job; of one that ended long ago, its result.
    pub async fn job(&self, job: JobId) -> Option<JobDetails> {
        if let Some(Entry::Running(handle)) = self.shared.registry.get(job)
            && let Some(mut details) = ask(&handle, Command::Details).await
        {
            if let Some(wait) = &mut details.slot_wait {
                let taskmanagers = self.taskmanagers().await;
                wait.free = taskmanagers.iter().map(|tm| tm.slots_available).sum();
            }
            return Some(*details);
        }
        if let Some(details) = self.kept(job) {
            return Some(details);
        }
        self.stored_result(job).await
    }

    /// The checkpoints of a job in the life of this jobmanager: none of a job that only storage knows.
    pub async fn checkpoints(&self, job: JobId) -> Option<CheckpointsDetails> {
        if let Some(Entry::Running(handle)) = self.shared.registry.get(job)
            && let Some(checkpoints) = ask(&handle, Command::Checkpoints).await
        {
            return Some(*checkpoints);
        }
        if let Some(Entry::Ended(ended)) = self.shared.registry.get(job)
            && let Some(checkpoints) = &ended.checkpoints
        {
            return Some(checkpoints.clone());
        }
        self.job(job).await.map(|_| CheckpointsDetails::none())
    }

    /// All registered taskmanagers.
    pub async fn taskmanagers(&self) -> Vec<TaskmanagerDetails> {
        self.shared.cluster.describe().await
    }

    /// The cluster at a glance.
    pub async fn overview(&self) -> ClusterOverview {
        let taskmanagers = self.taskmanagers().await;
        let mut overview = ClusterOverview {
            taskmanagers: taskmanagers.len(),
            slots_total: taskmanagers.iter().map(|tm| tm.slots_total).sum(),
            slots_available: taskmanagers.iter().map(|tm| tm.slots_available).sum(),
            is_recovering: *self.shared.is_recovering.borrow(),
            ..ClusterOverview::default()
        };
        for job in self.list().await {
            match job.status {
                JobStatus::Finished => overview.jobs_finished += 1,
                JobStatus::Canceled => overview.jobs_cancelled += 1,
                JobStatus::Failed => overview.jobs_failed += 1,
                JobStatus::Initializing
                | JobStatus::Created
                | JobStatus::Running
                | JobStatus::Failing
                | JobStatus::Cancelling
                | JobStatus::Restarting => overview.jobs_running += 1,
                JobStatus::Suspended => overview.jobs_suspended += 1,
            }
        }
        overview
    }

    /// Ends a job and waits until that is durable. A job that ended already is left as it is.
    pub async fn cancel(&self, job: JobId) -> Result<JobEnded, CancelError> {
        loop {
            match self.shared.registry.get(job) {
                Some(Entry::Submitting(mut decided)) => {
                    // An error says that it is decided.
                    let _ = decided.changed().await;
                }
                Some(Entry::Running(handle)) => return cancel(job, handle).await,
                Some(Entry::NotResumed(details)) => {
                    return Err(CancelError::NotOwned {
                        job,
                        status: details.overview.status,
                        why: details.newest_causes(),
                    });
                }
                Some(Entry::Ended(_)) | None => {
                    let details = self.job(job).await;
                    let end = details.and_then(|details| details.end);
                    return end.ok_or(CancelError::UnknownJob(job));
                }
            }
        }
    }

    /// Takes a checkpoint now.
    pub async fn trigger_checkpoint(&self, job: JobId) -> Result<CheckpointId, TriggerError> {
        let unknown = || TriggerError::UnknownJob(job);
        let handle = self.shared.registry.handle(job).ok_or_else(unknown)?;
        let answer = ask(&handle, Command::TriggerCheckpoint).await;
        let taken = answer.ok_or_else(unknown)?;
        taken.map_err(|source| TriggerError::Failed { job, source })
    }

    /// Watches a job. The first to watch also gets what happened before, lines included, even if the
    /// job has just ended; of a job that ended long ago the end alone is told. None if there is no
    /// such job.
    pub async fn watch(&self, job: JobId) -> Option<JobWatch> {
        if let Some(handle) = self.shared.registry.handle(job)
            && let Some(watch) = ask(&handle, Command::Watch).await
        {
            return Some(watch);
        }
        if let Some(Entry::Ended(ended)) = self.shared.registry.get(job)
            && let Some(unwatched) = ended.unwatched.lock().take()
        {
            return Some(unwatched.watch());
        }
        let details = self.job(job).await?;
        Some(JobWatch::of_ended(details.end?))
    }

    /// A taskmanager connected; what the jobmanager has to say to it goes into `outgoing`, whose
    /// end says that the connection was given up.
    pub fn connect_taskmanager(&self, outgoing: mpsc::Sender<ToTaskmanager>) -> TaskmanagerSession {
        let number = self.shared.next_session.fetch_add(1, Ordering::Relaxed);
        TaskmanagerSession::open(
            self.shared.cluster.clone(),
            self.shared.registry.clone(),
            SessionId(number),
            self.shared.env.spawner(),
            outgoing,
        )
    }

    /// Stops everything here. Jobs that did not end are resumed by the next jobmanager.
    pub async fn shutdown(&self, grace: Duration) -> ShutdownReport {
        self.shared.env.shutdown(grace).await
    }

    /// What is kept of a job that does not run here.
    fn kept(&self, job: JobId) -> Option<JobDetails> {
        match self.shared.registry.get(job)? {
            Entry::Ended(ended) => Some(ended.details.clone()),
            Entry::NotResumed(details) => Some(JobDetails::clone(&details)),
            Entry::Running(_) | Entry::Submitting(_) => None,
        }
    }

    async fn stored_result(&self, job: JobId) -> Option<JobDetails> {
        let stored = self.shared.jobs.result(job).await;
        match stored {
            Ok(bytes) => result::decode(job, &bytes?)
                .inspect_err(|error| warn!(job_id = %job, %error, "stored result not shown"))
                .ok(),
            Err(error) => {
                let error = millstream_telemetry::chain(&error);
                warn!(job_id = %job, error, "result of the job not read");
                None
            }
        }
    }
}

/// Takes the place of the checkpoints for this cluster, as that of the jobs.
async fn checkpoint_storage(
    settings: &JobmanagerSettings,
    jobs: &JobStore,
) -> Result<Option<CheckpointStorage>, JobStoreError> {
    let Some(root) = &settings.storage.checkpoints else {
        return Ok(None);
    };
    let location = root.address();
    let mark = match location == settings.storage.jobs.address() {
        true => jobs.mark().clone(),
        false => JobStore::open(root.clone(), &settings.cluster_id)
            .await?
            .mark()
            .clone(),
    };
    Ok(Some(CheckpointStorage {
        location,
        cluster_id: mark.cluster_id,
        directory_id: mark.directory_id,
    }))
}

/// Asks the master of a job; none if it ended.
async fn ask<T>(
    handle: &JobHandle,
    command: impl FnOnce(oneshot::Sender<T>) -> Command,
) -> Option<T> {
    let (reply, answer) = oneshot::channel();
    handle.commands.send(command(reply)).await.ok()?;
    answer.await.ok()
}

async fn cancel(job: JobId, mut handle: JobHandle) -> Result<JobEnded, CancelError> {
    if let Some(answer) = ask(&handle, Command::Cancel).await {
        answer?;
    }
    let decided = handle
        .outcome
        .wait_for(|outcome| *outcome != Outcome::Open)
        .await;
    match decided.as_deref() {
        Ok(Outcome::Ended(ended)) => Ok(ended.clone()),
        Ok(Outcome::Suspended(why)) => Err(CancelError::NotOwned {
            job,
            status: JobStatus::Suspended,
            why: why.clone(),
        }),
        Ok(Outcome::Open) | Err(_) => Err(CancelError::ShuttingDown(job)),
    }
}
