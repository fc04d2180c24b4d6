//! The claim chain of a job on storage: carries out what `coordination::chain` decides.
//!
//! Invariants: every decision is the machine's; a call returns only when its entry is known to be
//! durable, or known not to be ours to write; calls of one handle are served in order; a request
//! to the store is made once and its outcome is told as it is.

mod driver;
mod ended;

use std::collections::BTreeSet;
use std::num::NonZeroU32;
use std::sync::Arc;

use millstream_coordination::chain::{
    Append, CheckpointIds, ClaimChain, CompletedCheckpoint, EntryKind, EntryNumber, JobRecord,
    Loss, Pruning, Refusal, Rejection, RestorePoint, TerminalState,
};
use millstream_env::Env;
use millstream_types::errors::{self, ErrorCode};
use millstream_types::{CheckpointId, Disposition, Epoch, JobId};
use parking_lot::Mutex;
use tokio::sync::{mpsc, oneshot};

use crate::error::StoreError;
use crate::metadata::{self, CheckpointMetadata, MetadataError};
use crate::names;
use crate::store::Store;
use driver::{Appended, Driver, Request};

pub use ended::{Ended, EndedError, ended};

/// Calls that may wait for the chain; further callers wait until there is room.
const CALLS_MAX: usize = 64;

type Trouble = Arc<Mutex<Option<Arc<StoreError>>>>;

/// Speaks to the chain of one job. Cloning is cheap; the chain rests when the last clone is gone.
#[derive(Clone, Debug)]
pub struct ChainHandle {
    store: Store,
    job: JobId,
    trouble: Trouble,
    requests: mpsc::Sender<Request>,
}

/// A claim that is held: deploy with this epoch, from this checkpoint.
#[derive(Clone, PartialEq, Debug)]
pub struct Claimed {
    /// The epoch.
    pub epoch: Epoch,
    /// Where to restore from; none if no checkpoint ever completed.
    pub restore: Option<Restore>,
    /// The checkpoint ids this epoch may use before it reserves more.
    pub ids: CheckpointIds,
}

/// A BOUNDARY that is durable.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Boundary {
    /// Its number.
    pub number: EntryNumber,
    /// Entries below this number may be deleted ([`crate::gc::prune_chain`]): a BOUNDARY above them
    /// is older than any listing is behind. 0 for none.
    pub prunable_below: EntryNumber,
    /// The checkpoints that are still needed; others of earlier epochs may be deleted
    /// ([`crate::gc::sweep`]).
    pub retained: BTreeSet<CheckpointId>,
}

/// A completed checkpoint with its metadata read and checked.
#[derive(Clone, PartialEq, Debug)]
pub struct Restore {
    /// What the chain says of it.
    pub point: RestorePoint,
    /// What is in it.
    pub metadata: CheckpointMetadata,
}

impl Restore {
    /// The checkpoint's id.
    pub fn id(&self) -> CheckpointId {
        self.point.checkpoint.id
    }
}

/// Why a call on the chain had no success.
#[derive(Debug, thiserror::Error)]
pub enum ChainFailure {
    /// Another owns the job. This epoch is over: stop its tasks, write nothing more.
    #[error("the claim on job {job} is lost: {}", describe(.loss))]
    Fenced {
        /// The job.
        job: JobId,
        /// How it was found out.
        loss: Loss,
    },
    /// The job cannot be claimed at all.
    #[error("job {job} cannot be claimed from {directory}")]
    Refused {
        /// The job.
        job: JobId,
        /// The directory of the job.
        directory: String,
        /// Why.
        #[source]
        refusal: Refusal,
    },
    /// The entry was not written and will not be.
    #[error("the claim chain of job {job} takes no such entry")]
    Rejected {
        /// The job.
        job: JobId,
        /// Why.
        #[source]
        rejection: Rejection,
    },
    /// A newer claim of this handle took its place; what became of the entry, that claim tells.
    #[error("a newer claim on job {job} took its place")]
    GivenUp {
        /// The job.
        job: JobId,
    },
    /// The checkpoint to restore from cannot be read. Falling back to an older one is an
    /// operator's choice: sinks may have committed past it.
    #[error("checkpoint {checkpoint} of job {job}, the newest, cannot be restored")]
    RestorePoint {
        /// The job.
        job: JobId,
        /// The checkpoint.
        checkpoint: CheckpointId,
        /// Why.
        #[source]
        source: MetadataError,
    },
    /// The store did not say whether the job was submitted.
    #[error("it is not known whether job {job} exists")]
    JobObject {
        /// The job.
        job: JobId,
        /// Why.
        #[source]
        source: StoreError,
    },
    /// The process is shutting down.
    #[error("the claim chain of job {job} is closed")]
    Closed {
        /// The job.
        job: JobId,
    },
}

impl ChainFailure {
    /// What the scheduler does about it.
    pub fn disposition(&self) -> Disposition {
        match self {
            Self::Fenced { .. } | Self::GivenUp { .. } | Self::Closed { .. } => {
                Disposition::FailTask
            }
            Self::Refused { .. } | Self::Rejected { .. } => Disposition::FailJob,
            Self::RestorePoint { source, .. } => source.disposition(),
            Self::JobObject { source, .. } => source.disposition(),
        }
    }

    /// Its code.
    pub fn code(&self) -> ErrorCode {
        match self {
            Self::Fenced { .. } => errors::CLAIM_LOST,
            Self::Refused { refusal, .. } => refusal.code(),
            Self::RestorePoint { source, .. } => source.code(),
            Self::JobObject { source, .. } => source.code(),
            Self::Rejected { .. } | Self::GivenUp { .. } | Self::Closed { .. } => {
                errors::CHAIN_CALL
            }
        }
    }

    /// What an operator can do about it.
    pub fn remedy(&self) -> String {
        match self {
            Self::Fenced { .. } => {
                "None, if another jobmanager took over; else check that only one cluster uses \
                 this storage directory."
                    .into()
            }
            Self::Refused { refusal, .. } => refusal.remedy().into(),
            Self::RestorePoint { source, .. } => source.remedy(),
            Self::JobObject { source, .. } => source.remedy(),
            Self::Rejected { .. } | Self::GivenUp { .. } | Self::Closed { .. } => {
                "None: the job goes on under its newest claim.".into()
            }
        }
    }
}

fn describe(loss: &Loss) -> String {
    match loss {
        Loss::SlotTaken { number, epoch, .. } => {
            format!("entry {number} of its chain was written by another, in epoch {epoch}")
        }
        Loss::Passed { number, highest } => {
            format!("its chain went on to entry {highest} above our entry {number}")
        }
    }
}

impl ChainHandle {
    /// Opens the chain of `job` in the root directory `root`. Each claim sets `ids` checkpoint ids
    /// aside. Nothing is read or written before the first call.
    pub fn open(root: &Store, job: JobId, ids: NonZeroU32, env: &Env) -> Self {
        let store = root.job(job);
        let (requests, receiver) = mpsc::channel(CALLS_MAX);
        let trouble = Trouble::default();
        let machine = ClaimChain::with_sabotage(job, ids, env.sabotage());
        let pruning = Pruning::new(env.sabotage());
        let driver = Driver::new(store.clone(), job, machine, pruning, trouble.clone());
        env.spawner()
            .supervise(format!("claim chain of job {job}"), driver.run(receiver));
        Self {
            store,
            job,
            trouble,
            requests,
        }
    }

    /// Why the store has not served the latest request, if it has not: what a call that does not
    /// return waits for.
    pub fn trouble(&self) -> Option<Arc<StoreError>> {
        self.trouble.lock().clone()
    }

    /// The claim of a submission: begins the chain if there is none and the job was never stored;
    /// else as [`Self::claim`].
    pub async fn begin(&self) -> Result<Claimed, ChainFailure> {
        let job = self.job;
        let exists = self.store.head(&names::job_object()).await;
        let exists = exists.map_err(|source| ChainFailure::JobObject { job, source })?;
        self.claim_as(match exists {
            Some(_) => JobRecord::Stored,
            None => JobRecord::BeingSubmitted,
        })
        .await
    }

    /// Appends a CLAIM, then reads the newest checkpoint below it. For a job that was stored: that
    /// its chain is gone is refused, also where its job object went with it, and the job never
    /// starts empty by mistake. Waits as long as the store is away.
    pub async fn claim(&self) -> Result<Claimed, ChainFailure> {
        self.claim_as(JobRecord::Stored).await
    }

    async fn claim_as(&self, record: JobRecord) -> Result<Claimed, ChainFailure> {
        let (reply, answer) = oneshot::channel();
        let (epoch, point, ids) = self.call(Request::Claim { record, reply }, answer).await?;
        let restore = match point {
            Some(point) => Some(self.read_restore_point(point).await?),
            None => None,
        };
        Ok(Claimed {
            epoch,
            restore,
            ids,
        })
    }

    /// Sets more checkpoint ids aside for the epoch that is claimed.
    pub async fn reserve(&self, count: NonZeroU32) -> Result<CheckpointIds, ChainFailure> {
        match self.append(Append::Reserve(count)).await?.kind {
            EntryKind::Reserve { ids } => Ok(ids),
            other => unreachable!("a RESERVE was asked for, {} was appended", other.name()),
        }
    }

    /// Makes a checkpoint complete: from here on the job restores from it, and only from here on
    /// may anyone be told.
    pub async fn append_completed(
        &self,
        checkpoint: CompletedCheckpoint,
    ) -> Result<EntryNumber, ChainFailure> {
        Ok(self.append(Append::Completed(checkpoint)).await?.number)
    }

    /// Ends the job for good. The completed checkpoints that the chain knows, oldest first: all that
    /// there will be.
    pub async fn append_terminal(
        &self,
        state: TerminalState,
    ) -> Result<Vec<RestorePoint>, ChainFailure> {
        Ok(self.append(Append::Terminal(state)).await?.completed)
    }

    /// Lets all but the `retain` newest completed checkpoints be forgotten.
    pub async fn append_boundary(&self, retain: NonZeroU32) -> Result<Boundary, ChainFailure> {
        let appended = self.append(Append::Boundary { retain }).await?;
        match appended.kind {
            EntryKind::Boundary { .. } => Ok(Boundary {
                number: appended.number,
                prunable_below: appended.prunable_below,
                retained: appended.completed.iter().map(|p| p.checkpoint.id).collect(),
            }),
            other => unreachable!("a BOUNDARY was asked for, {} was appended", other.name()),
        }
    }

    /// A look at the chain before something rests on the claim that nothing was done with for a
    /// while. Its epoch, if no other claim followed.
    pub async fn confirm(&self) -> Result<Epoch, ChainFailure> {
        let (reply, answer) = oneshot::channel();
        self.call(Request::Confirm { reply }, answer).await
    }

    /// Entries below this number may be deleted by now, as [`Boundary::prunable_below`].
    pub async fn prunable_below(&self) -> Result<EntryNumber, ChainFailure> {
        let (reply, answer) = oneshot::channel();
        self.call(Request::Prunable { reply }, answer).await
    }

    async fn append(&self, append: Append) -> Result<Appended, ChainFailure> {
        let (reply, answer) = oneshot::channel();
        self.call(Request::Append { append, reply }, answer).await
    }

    async fn call<T>(
        &self,
        request: Request,
        answer: oneshot::Receiver<Result<T, ChainFailure>>,
    ) -> Result<T, ChainFailure> {
        let closed = || ChainFailure::Closed { job: self.job };
        self.requests.send(request).await.map_err(|_| closed())?;
        answer.await.map_err(|_| closed())?
    }

    async fn read_restore_point(&self, point: RestorePoint) -> Result<Restore, ChainFailure> {
        let failure = |source| ChainFailure::RestorePoint {
            job: self.job,
            checkpoint: point.checkpoint.id,
            source,
        };
        let CompletedCheckpoint {
            metadata: name,
            checksum,
            ..
        } = &point.checkpoint;
        let metadata = metadata::read(&self.store, name, Some(*checksum)).await;
        let metadata = metadata.map_err(failure)?;
        let identity = metadata.check_identity(self.job, point.checkpoint.id);
        let object = self.store.object(name);
        identity.map_err(|fault| failure(MetadataError::Fault { object, fault }))?;
        Ok(Restore { point, metadata })
    }
}

#[cfg(test)]
mod tests;
