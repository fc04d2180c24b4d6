//! The jobs of this jobmanager: being submitted, running, ended.

use std::collections::BTreeMap;
use std::sync::Arc;

use millstream_types::{JobId, TaskmanagerId};
use parking_lot::{Mutex, RwLock};
use tokio::sync::{mpsc, watch};

use crate::details::{CheckpointsDetails, JobDetails, JobEnded};
use crate::master::{Command, TaskMessage};
use crate::watch::WatchQueue;

/// Ended jobs kept in memory with all details; the results of older ones are in the job store.
const ENDED_MAX: usize = 1_000;

/// How far a job is, for whoever waits for its end.
#[derive(Clone, PartialEq, Debug)]
pub(crate) enum Outcome {
    /// It goes on.
    Open,
    /// It ended, durably.
    Ended(JobEnded),
    /// Another jobmanager owns it, or its chain is unusable.
    Suspended(String),
}

/// Speaks to the master of one job.
#[derive(Clone, Debug)]
pub(crate) struct JobHandle {
    /// Questions of users and words of the cluster's actor, who wait for room; the master waits for
    /// neither.
    pub(crate) commands: mpsc::Sender<Command>,
    /// Messages of taskmanagers. A full queue holds up the connections that fill it.
    pub(crate) messages: mpsc::Sender<TaskMessage>,
    pub(crate) outcome: watch::Receiver<Outcome>,
}

/// Ended jobs whose printed lines are still there for a client that comes to watch: a short job may
/// be over before that.
const UNWATCHED_MAX: usize = 8;

/// A job that ended.
#[derive(Debug)]
pub(crate) struct EndedJob {
    pub(crate) details: JobDetails,
    /// None for a job that ended under an earlier jobmanager.
    pub(crate) checkpoints: Option<CheckpointsDetails>,
    /// What happened, if nobody watched it; the first to ask gets it.
    pub(crate) unwatched: Mutex<Option<Arc<WatchQueue>>>,
}

#[derive(Clone, Debug)]
pub(crate) enum Entry {
    /// Fires, or closes, when it is decided.
    Submitting(watch::Receiver<()>),
    Running(JobHandle),
    Ended(Arc<EndedJob>),
    /// In storage, and not resumed: shown as suspended, with the cause.
    NotResumed(Arc<JobDetails>),
}

#[derive(Debug, Default)]
pub(crate) struct Registry {
    jobs: RwLock<BTreeMap<JobId, Entry>>,
}

impl Registry {
    pub(crate) fn get(&self, job: JobId) -> Option<Entry> {
        self.jobs.read().get(&job).cloned()
    }

    pub(crate) fn all(&self) -> Vec<(JobId, Entry)> {
        let jobs = self.jobs.read();
        jobs.iter()
            .map(|(id, entry)| (*id, entry.clone()))
            .collect()
    }

    pub(crate) fn running(&self) -> Vec<(JobId, JobHandle)> {
        let jobs = self.jobs.read();
        let running = jobs.iter().filter_map(|(id, entry)| match entry {
            Entry::Running(handle) => Some((*id, handle.clone())),
            Entry::Submitting(_) | Entry::Ended(_) | Entry::NotResumed(_) => None,
        });
        running.collect()
    }

    pub(crate) fn handle(&self, job: JobId) -> Option<JobHandle> {
        match self.jobs.read().get(&job) {
            Some(Entry::Running(handle)) => Some(handle.clone()),
            Some(Entry::Submitting(_) | Entry::Ended(_) | Entry::NotResumed(_)) | None => None,
        }
    }

    /// Takes the id for a submission, or gives what has it.
    pub(crate) fn reserve(self: &Arc<Self>, job: JobId) -> Result<Reservation, Entry> {
        let mut jobs = self.jobs.write();
        if let Some(entry) = jobs.get(&job) {
            return Err(entry.clone());
        }
        let (decided, waiting) = watch::channel(());
        jobs.insert(job, Entry::Submitting(waiting));
        Ok(Reservation {
            registry: Arc::clone(self),
            job,
            is_used: false,
            _decided: decided,
        })
    }

    /// Forgets a job that was not resumed, if it still is that one.
    pub(crate) fn forget(&self, job: JobId, details: &Arc<JobDetails>) {
        let mut jobs = self.jobs.write();
        if matches!(jobs.get(&job), Some(Entry::NotResumed(known)) if Arc::ptr_eq(known, details)) {
            jobs.remove(&job);
        }
    }

    /// Keeps what is known of a job that ended; forgets the job that ended first if there are too
    /// many.
    pub(crate) fn end(&self, job: JobId, ended: EndedJob) {
        let mut jobs = self.jobs.write();
        jobs.insert(job, Entry::Ended(Arc::new(ended)));
        let mut by_end: Vec<_> = jobs
            .iter()
            .filter_map(|(id, entry)| match entry {
                Entry::Ended(ended) => Some((ended.details.overview.ended_at, *id, ended)),
                Entry::Submitting(_) | Entry::Running(_) | Entry::NotResumed(_) => None,
            })
            .collect();
        by_end.sort_by_key(|(at, id, _)| std::cmp::Reverse((*at, *id)));
        for (_, _, ended) in by_end.iter().skip(UNWATCHED_MAX) {
            ended.unwatched.lock().take();
        }
        let oldest = by_end.get(ENDED_MAX).map(|(_, id, _)| *id);
        if let Some(oldest) = oldest {
            jobs.remove(&oldest);
        }
    }
}

/// The id of a job that is being submitted. Dropped unused, the id is free again.
#[derive(Debug)]
pub(crate) struct Reservation {
    registry: Arc<Registry>,
    job: JobId,
    is_used: bool,
    _decided: watch::Sender<()>,
}

impl Reservation {
    pub(crate) fn run(mut self, handle: JobHandle) {
        self.is_used = true;
        let mut jobs = self.registry.jobs.write();
        jobs.insert(self.job, Entry::Running(handle));
    }

    pub(crate) fn end(mut self, ended: EndedJob) {
        self.is_used = true;
        self.registry.end(self.job, ended);
    }

    pub(crate) fn leave(mut self, details: JobDetails) {
        self.is_used = true;
        let mut jobs = self.registry.jobs.write();
        jobs.insert(self.job, Entry::NotResumed(Arc::new(details)));
    }
}

impl Drop for Reservation {
    fn drop(&mut self) {
        if !self.is_used {
            self.registry.jobs.write().remove(&self.job);
        }
    }
}

/// A loss of a taskmanager, as every job is told.
#[derive(Clone, Debug)]
pub(crate) struct Loss {
    pub(crate) taskmanager: TaskmanagerId,
    pub(crate) failure: millstream_coordination::failure::FailureInfo,
}
