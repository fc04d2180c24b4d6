//! The jobs of a cluster: what was submitted, what came of it, and whose directory this is.
//!
//! Invariants: a job is listed as long as it has no result, whoever is the client; what cannot be
//! read is an error and never "no jobs" (conformance F153); a directory belongs to one cluster.

use std::collections::{BTreeMap, BTreeSet};

use bytes::Bytes;
use futures::{StreamExt, TryStreamExt, stream};
use millstream_types::errors::{self, ErrorCode};
use millstream_types::{Disposition, JobId, ObjectName, WallTime};
use prost::Message;

use crate::envelope::{self, EnvelopeFault, Kind};
use crate::error::StoreError;
use crate::names::{self, Named};
use crate::pb;
use crate::store::Store;

const JOB: Kind = Kind {
    magic: b"MSJOBSUB",
    version: 1,
};
const RESULT: Kind = Kind {
    magic: b"MSJOBRES",
    version: 1,
};
const CLUSTER: Kind = Kind {
    magic: b"MSCLUSTR",
    version: 1,
};

/// Longest job or result that is written or read: a submission has 4 MiB at most.
pub const JOB_BYTES_MAX: u64 = 16 << 20;

/// Names listed in one request.
const PAGE: usize = 1_000;

/// Number of the first entry of a chain.
const FIRST_ENTRY: u64 = 1;

/// A job as it was submitted.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SubmittedJob {
    /// The job.
    pub job: JobId,
    /// The client's own id of the submission.
    pub client_id: String,
    /// When it was accepted; for people only.
    pub submitted_at: WallTime,
    /// The job graph, as its own format has it.
    pub graph: Bytes,
    /// Settings of the submission.
    pub settings: BTreeMap<String, String>,
}

/// What is wrong with the jobs of a cluster.
#[derive(Debug, thiserror::Error)]
pub enum JobStoreError {
    /// The store did not give it, or not take it.
    #[error("the job store is out of reach")]
    Store(#[from] StoreError),
    /// An object is there and makes no sense.
    #[error("{object} is refused")]
    Fault {
        /// The object.
        object: String,
        /// What is wrong with it.
        #[source]
        fault: JobFault,
    },
    /// The directory belongs to another cluster.
    #[error("{directory} belongs to cluster {found:?}, this is cluster {ours:?}")]
    OtherCluster {
        /// The directory.
        directory: String,
        /// Whose it is.
        found: String,
        /// Who we are.
        ours: String,
    },
}

/// What is wrong with a stored job, result or lock.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum JobFault {
    /// The frame around it does not fit.
    #[error(transparent)]
    Envelope(#[from] EnvelopeFault),
    /// The body is not the message that it should be.
    #[error("its body is no {message} message: {what}")]
    Message {
        /// The message of `job_store.proto`.
        message: &'static str,
        /// What does not fit.
        what: String,
    },
}

impl JobStoreError {
    /// What the scheduler does about it.
    pub fn disposition(&self) -> Disposition {
        match self {
            Self::Store(error) => error.disposition(),
            Self::Fault { .. } => Disposition::FailJob,
            Self::OtherCluster { .. } => Disposition::Fatal,
        }
    }

    /// Its code.
    pub fn code(&self) -> ErrorCode {
        match self {
            Self::Store(error) => error.code(),
            Self::Fault {
                fault: JobFault::Envelope(EnvelopeFault::Version { .. }),
                ..
            } => errors::FORMAT_VERSION,
            Self::Fault { .. } => errors::STORED_JOB,
            Self::OtherCluster { .. } => errors::STORE_OTHER_CLUSTER,
        }
    }

    /// What an operator can do about it.
    pub fn remedy(&self) -> String {
        match self {
            Self::Store(error) => error.remedy(),
            Self::Fault {
                fault: JobFault::Envelope(EnvelopeFault::Version { .. }),
                ..
            } => "Run the version of Millstream that wrote it, or a later one.".into(),
            Self::Fault { object, .. } => format!(
                "Restore {object} from a copy of the storage, or submit the job anew from a \
                 checkpoint."
            ),
            Self::OtherCluster { .. } => {
                "Give this cluster a storage directory of its own; only if the other one is gone \
                 for good, set high-availability.cluster-id to its name here."
                    .into()
            }
        }
    }
}

/// What a directory is known by, wherever it is seen from.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct DirectoryMark {
    /// The cluster that has it.
    pub cluster_id: String,
    /// Random, drawn when the cluster took it: no other directory has it.
    pub directory_id: String,
}

/// The mark of a directory; none if no cluster has taken it, or if it is not there at all. Writes
/// nothing.
pub async fn mark_of(root: &Store) -> Result<Option<DirectoryMark>, JobStoreError> {
    match fetch::<pb::ClusterLock>(root, &names::cluster_lock(), CLUSTER, "ClusterLock").await {
        Ok(lock) => Ok(Some(DirectoryMark {
            cluster_id: lock.cluster_id,
            directory_id: lock.directory_id,
        })),
        Err(JobStoreError::Store(StoreError::NotFound { .. })) => Ok(None),
        Err(error) => Err(error),
    }
}

/// The jobs in the root directory of a cluster.
#[derive(Clone, Debug)]
pub struct JobStore {
    root: Store,
    mark: DirectoryMark,
}

/// How a job that has no result yet was found.
#[derive(Debug)]
pub enum StoredJob {
    /// It is to be resumed.
    Unfinished(SubmittedJob),
    /// Its object cannot be used; the others are not affected.
    Unreadable(JobId, JobStoreError),
    /// It has a directory and no job object, nor more than the beginning of a chain: its submission
    /// did not get that far, and its client was told of no success.
    NeverSubmitted(JobId),
    /// What is left shows that it was stored, and its job object is gone.
    Lost {
        /// The job.
        job: JobId,
        /// Its directory.
        directory: String,
    },
}

impl JobStore {
    /// The jobs in `root`, which must be this cluster's: the first cluster to come has it for
    /// good.
    pub async fn open(root: Store, cluster_id: &str) -> Result<Self, JobStoreError> {
        let name = names::cluster_lock();
        let mark = DirectoryMark {
            cluster_id: cluster_id.to_owned(),
            directory_id: root.nonce().to_string(),
        };
        let message = pb::ClusterLock {
            cluster_id: mark.cluster_id.clone(),
            directory_id: mark.directory_id.clone(),
        };
        let sealed = envelope::seal(CLUSTER, &message.encode_to_vec());
        let taken = match root.create(&name, sealed.into()).await {
            Ok(()) => return Ok(Self { root, mark }),
            Err(taken @ StoreError::Taken { .. }) => taken,
            Err(error) => return Err(error.into()),
        };
        let mark = mark_of(&root).await?.ok_or(taken)?;
        if mark.cluster_id == cluster_id {
            return Ok(Self { root, mark });
        }
        Err(JobStoreError::OtherCluster {
            directory: root.address(),
            found: mark.cluster_id,
            ours: cluster_id.to_owned(),
        })
    }

    /// What this directory is known by.
    pub fn mark(&self) -> &DirectoryMark {
        &self.mark
    }

    /// The address of the job's object if it is not there any more.
    pub async fn gone(&self, job: JobId) -> Result<Option<String>, StoreError> {
        gone(&self.root.job(job)).await
    }

    /// Keeps a submitted job. Only after this may the client be told of success, and only after
    /// the first CLAIM of its chain may this be called: from here on a missing chain is a loss.
    pub async fn submit(&self, submitted: &SubmittedJob) -> Result<(), JobStoreError> {
        let message = pb::StoredJob {
            job_id: submitted.job.as_bytes().to_vec().into(),
            client_id: submitted.client_id.clone(),
            submitted_at_unix_ms: submitted.submitted_at.as_millis(),
            graph: submitted.graph.clone(),
            settings: submitted
                .settings
                .iter()
                .map(|(name, value)| pb::Property {
                    name: name.clone(),
                    value: value.clone(),
                })
                .collect(),
        };
        let sealed = envelope::seal(JOB, &message.encode_to_vec());
        let store = self.root.job(submitted.job);
        Ok(store.create(&names::job_object(), sealed.into()).await?)
    }

    /// A submitted job; none if there is no such job.
    pub async fn load(&self, job: JobId) -> Result<Option<SubmittedJob>, JobStoreError> {
        let (store, name) = (self.root.job(job), names::job_object());
        let message: pb::StoredJob = match fetch(&store, &name, JOB, "StoredJob").await {
            Ok(message) => message,
            Err(JobStoreError::Store(StoreError::NotFound { .. })) => return Ok(None),
            Err(error) => return Err(error),
        };
        self.check_job(job, &message.job_id, &name, "StoredJob")?;
        Ok(Some(SubmittedJob {
            job,
            client_id: message.client_id,
            submitted_at: WallTime(message.submitted_at_unix_ms),
            graph: message.graph,
            settings: message
                .settings
                .into_iter()
                .map(|p| (p.name, p.value))
                .collect(),
        }))
    }

    /// Keeps the result of a job whose chain is TERMINAL. The first result stays: it is returned.
    /// Until [`Self::cleaned`] the job is marked as not cleaned up: with its result nobody resumes
    /// it any more, and what it left in storage would stay for good.
    pub async fn finish(&self, job: JobId, result: Bytes) -> Result<Bytes, JobStoreError> {
        let mark = Bytes::from_static(b"ended\n");
        match self.root.create(&names::uncleaned(job), mark).await {
            Ok(()) | Err(StoreError::Taken { .. }) => {}
            Err(error) => return Err(error.into()),
        }
        let job_id = job.as_bytes().to_vec().into();
        let message = pb::StoredResult {
            job_id,
            result: result.clone(),
        };
        let sealed = envelope::seal(RESULT, &message.encode_to_vec());
        match self
            .root
            .job(job)
            .create(&names::job_result(), sealed.into())
            .await
        {
            Ok(()) => Ok(result),
            Err(taken @ StoreError::Taken { .. }) => {
                self.result(job).await?.ok_or(JobStoreError::Store(taken))
            }
            Err(error) => Err(error.into()),
        }
    }

    /// Nothing is left of the ended job that it does not keep.
    pub async fn cleaned(&self, job: JobId) -> Result<(), StoreError> {
        self.root.delete(&[names::uncleaned(job)]).await
    }

    /// Jobs that are marked as not cleaned up. A mark that is younger than a listing may be behind
    /// is not among them for certain.
    pub async fn uncleaned(&self) -> Result<BTreeSet<JobId>, StoreError> {
        let (mut jobs, mut after) = (BTreeSet::new(), None);
        loop {
            let folder = names::UNCLEANED_FOLDER;
            let page = self.root.list(folder, after.as_ref(), PAGE).await?;
            jobs.extend(page.names.iter().filter_map(names::job_of_uncleaned));
            after = page.next;
            if after.is_none() {
                return Ok(jobs);
            }
        }
    }

    /// The result of a job; none as long as it has none.
    pub async fn result(&self, job: JobId) -> Result<Option<Bytes>, JobStoreError> {
        let (store, name) = (self.root.job(job), names::job_result());
        match fetch::<pb::StoredResult>(&store, &name, RESULT, "StoredResult").await {
            Ok(message) => {
                self.check_job(job, &message.job_id, &name, "StoredResult")?;
                Ok(Some(message.result))
            }
            Err(JobStoreError::Store(StoreError::NotFound { .. })) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Every job without a result, for a jobmanager that starts. A store that does not answer for
    /// every job is an error: a job that was overlooked would be lost without a word. A job whose
    /// chain is TERMINAL may be among them, if its jobmanager died before it wrote the result.
    pub async fn list_unfinished(&self) -> Result<Vec<StoredJob>, JobStoreError> {
        let jobs = self.root.list_jobs().await?;
        stream::iter(jobs)
            .map(|job| self.look_up(job))
            .buffered(self.root.policy().concurrency)
            .try_filter_map(|found| async move { Ok(found) })
            .try_collect()
            .await
    }

    async fn look_up(&self, job: JobId) -> Result<Option<StoredJob>, JobStoreError> {
        if self
            .root
            .job(job)
            .head(&names::job_result())
            .await?
            .is_some()
        {
            return Ok(None);
        }
        Ok(Some(match self.load(job).await {
            Ok(Some(submitted)) => StoredJob::Unfinished(submitted),
            Ok(None) if was_stored(&self.root.job(job)).await? => StoredJob::Lost {
                job,
                directory: self.root.job(job).address(),
            },
            Ok(None) => StoredJob::NeverSubmitted(job),
            Err(JobStoreError::Store(error)) if error.is_transient() => return Err(error.into()),
            Err(error) => StoredJob::Unreadable(job, error),
        }))
    }

    /// An object copied into the directory of another job is not that job's.
    fn check_job(
        &self,
        job: JobId,
        found: &[u8],
        name: &ObjectName,
        message: &'static str,
    ) -> Result<(), JobStoreError> {
        if found == job.as_bytes() {
            return Ok(());
        }
        let what = "its job_id is not that of the directory".into();
        let object = self.root.job(job).object(name);
        Err(JobStoreError::Fault {
            object,
            fault: JobFault::Message { message, what },
        })
    }
}

/// The address of the job object in the directory of a job, if it is not there.
pub async fn gone(dir: &Store) -> Result<Option<String>, StoreError> {
    let name = names::job_object();
    let found = dir.head(&name).await?;
    Ok(found.is_none().then(|| dir.object(&name)))
}

/// Whether what is left in the directory of a job shows that the job was stored: it took a
/// checkpoint, or its chain lost its beginning. A submission that was never finished has the first
/// entry of its chain and nothing else.
async fn was_stored(dir: &Store) -> Result<bool, StoreError> {
    let (mut after, mut lowest) = (None, None);
    loop {
        let page = dir.list("", after.as_ref(), PAGE).await?;
        for name in &page.names {
            match names::parse(name) {
                Some(Named::Metadata(_) | Named::Private(_) | Named::Shared(_)) => return Ok(true),
                Some(Named::Chain(number)) => {
                    lowest = Some(lowest.map_or(number, |lowest: u64| lowest.min(number)));
                }
                Some(Named::Job | Named::Result | Named::Unfinished(_)) | None => {}
            }
        }
        after = page.next;
        if after.is_none() {
            return Ok(lowest.is_some_and(|lowest| lowest > FIRST_ENTRY));
        }
    }
}

async fn fetch<M: Message + Default>(
    store: &Store,
    name: &ObjectName,
    kind: Kind,
    message: &'static str,
) -> Result<M, JobStoreError> {
    let bytes = store.get(name, JOB_BYTES_MAX).await?;
    let decoded = envelope::open(kind, &bytes)
        .map_err(JobFault::from)
        .and_then(|body| {
            M::decode(body).map_err(|error| JobFault::Message {
                message,
                what: error.to_string(),
            })
        });
    decoded.map_err(|fault| JobStoreError::Fault {
        object: store.object(name),
        fault,
    })
}

#[cfg(test)]
mod tests;
