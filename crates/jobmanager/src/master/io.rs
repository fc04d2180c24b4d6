//! What a master asks of storage. Each request is answered by exactly one [`Answer`].

use std::collections::BTreeMap;
use std::num::NonZeroU32;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures::FutureExt;
use futures::future::BoxFuture;
use millstream_coordination::chain::{self, CheckpointIds, RestorePoint, TerminalState};
use millstream_coordination::checkpoint::{Deletion, RetainedCheckpoint, SharedInUse};
use millstream_coordination::restore::{RestoreError, RestoreSubtask, restore_plan};
use millstream_coordination::snapshot_types::{CompletedCheckpoint, StoredMetadata};
use millstream_coordination::topology::Topology;
use millstream_env::{Env, fail_points};
use millstream_snapshot::Store;
use millstream_snapshot::chain::{Boundary, ChainFailure, ChainHandle, Claimed};
use millstream_snapshot::jobs::{self, JobStore, JobStoreError};
use millstream_snapshot::metadata::{self, CheckpointMetadata, MetadataError};
use millstream_snapshot::names::CheckpointDir;
use millstream_telemetry::chain as error_chain;
use millstream_types::{CheckpointId, Epoch, JobId, OperatorUid, SubtaskId, WriteOutcome};
use tracing::{debug, error, warn};

use crate::cleaning::{delete_checkpoint, prune, sweep_before};

/// Checkpoint ids set aside at a time. Few, since those of an epoch that are left over at its end
/// are never used.
pub(crate) const ID_BLOCK: NonZeroU32 = NonZeroU32::new(32).expect("32 is not 0");

/// Time between attempts to store the result of a job.
const RESULT_RETRY: Duration = Duration::from_secs(5);

/// Where the objects of one job are.
#[derive(Clone, Debug)]
pub(crate) struct JobFiles {
    pub(crate) job: JobId,
    /// Its directory.
    pub(crate) store: Store,
    pub(crate) chain: ChainHandle,
    /// Where its result goes.
    pub(crate) jobs: JobStore,
}

/// A claim whose restore point was read and verified.
#[derive(Clone, Debug)]
pub(super) struct Claim {
    pub(super) claimed: Claimed,
    /// The restored checkpoint, as the coordinator keeps it.
    pub(super) restored: Option<RetainedCheckpoint>,
    /// What each subtask starts from.
    pub(super) restore_plan: Arc<BTreeMap<SubtaskId, RestoreSubtask>>,
}

/// Why there is no claim to deploy from.
#[derive(Debug, thiserror::Error)]
pub(super) enum ClaimFailure {
    #[error(transparent)]
    Chain(#[from] ChainFailure),
    #[error("the newest checkpoint does not fit the job")]
    Plan(#[from] RestoreError),
}

/// Why a checkpoint has no metadata.
#[derive(Debug, thiserror::Error)]
pub(super) enum MetadataFailure {
    #[error(transparent)]
    Store(#[from] MetadataError),
    #[error("{object} is gone: the job's directory in storage was deleted, or a part of it")]
    JobGone { object: String },
}

impl MetadataFailure {
    /// What is known of the write.
    pub(super) fn outcome(&self) -> WriteOutcome {
        match self {
            Self::Store(error) => error.outcome(),
            Self::JobGone { .. } => WriteOutcome::DidNotHappen,
        }
    }
}

/// The answer to one request.
#[derive(Debug)]
pub(super) enum Answer {
    Claimed(Result<Box<Claim>, ClaimFailure>),
    /// Whether the claim is still the newest.
    Confirmed(Result<Epoch, ChainFailure>),
    Reserved(Result<CheckpointIds, ChainFailure>),
    MetadataStored(CheckpointId, Result<StoredMetadata, MetadataFailure>),
    Appended(CheckpointId, Result<(), ChainFailure>),
    /// The job's end is durable; the checkpoints that the chain has, oldest first.
    Terminal(Result<Vec<RestorePoint>, ChainFailure>),
    Deleted(u64),
    /// The result of the job is stored, or the first attempt to do so failed.
    ResultStored {
        is_stored: bool,
    },
    /// The cluster's actor had room for what it was told.
    Told,
    /// Nothing follows.
    Done,
}

pub(super) async fn claim(files: JobFiles, topology: Topology) -> Answer {
    let claimed = match files.chain.claim().await {
        Ok(claimed) => claimed,
        Err(error) => return Answer::Claimed(Err(error.into())),
    };
    Answer::Claimed(prepare(files, topology, claimed).await.map(Box::new))
}

/// Verifies what a claim restores from, before any task starts (fence F21).
pub(super) async fn prepare(
    files: JobFiles,
    topology: Topology,
    claimed: Claimed,
) -> Result<Claim, ClaimFailure> {
    let Some(restore) = &claimed.restore else {
        return Ok(Claim {
            claimed,
            restored: None,
            restore_plan: Arc::default(),
        });
    };
    metadata::verify(&files.store, &restore.metadata)
        .await
        .map_err(|source| ChainFailure::RestorePoint {
            job: files.job,
            checkpoint: restore.id(),
            source,
        })?;
    let plan = restore_plan(&topology, &restore.metadata.checkpoint)?;
    let restored = RetainedCheckpoint {
        checkpoint: Arc::new(restore.metadata.checkpoint.clone()),
        metadata: restore.point.checkpoint.metadata.clone(),
    };
    Ok(Claim {
        claimed,
        restored: Some(restored),
        restore_plan: Arc::new(plan),
    })
}

/// One more look at the chain, before tasks are deployed under a claim that waited.
pub(super) async fn confirm(files: JobFiles) -> Answer {
    Answer::Confirmed(files.chain.confirm().await)
}

pub(super) async fn reserve(files: JobFiles) -> Answer {
    Answer::Reserved(files.chain.reserve(ID_BLOCK).await)
}

pub(super) async fn store_metadata(
    files: JobFiles,
    env: Env,
    checkpoint: Arc<CompletedCheckpoint>,
    operator_names: BTreeMap<OperatorUid, String>,
) -> Answer {
    let dir = CheckpointDir {
        checkpoint: checkpoint.id,
        epoch: checkpoint.epoch,
        nonce: files.store.nonce(),
    };
    let id = checkpoint.id;
    if let Some(object) = job_gone(&files).await {
        return Answer::MetadataStored(id, Err(MetadataFailure::JobGone { object }));
    }
    let metadata = CheckpointMetadata {
        job: files.job,
        checkpoint: Arc::unwrap_or_clone(checkpoint),
        operator_names,
        properties: BTreeMap::new(),
    };
    let stored = metadata::write(&files.store, &dir, &metadata).await;
    if stored.is_ok() {
        env.fail_points().hit(fail_points::METADATA_STORED);
    }
    Answer::MetadataStored(id, stored.map_err(MetadataFailure::from))
}

/// A job object that is not there any more. Without it a checkpoint is worth nothing: the next
/// jobmanager finds no job that it belongs to. A store that does not answer is no proof.
async fn job_gone(files: &JobFiles) -> Option<String> {
    let beside_chain = jobs::gone(&files.store).await.ok().flatten();
    let gone = match beside_chain {
        Some(object) => object,
        None => files.jobs.gone(files.job).await.ok().flatten()?,
    };
    error!(
        job_id = %files.job,
        object = gone,
        remedy = "stop what deletes from this directory; put the job's objects back from a copy, or \
                  cancel the job and submit it anew",
        "the job's object is gone from storage: no checkpoint completes, and a jobmanager that \
         starts does not find the job"
    );
    Some(gone)
}

pub(super) async fn append_completed(
    files: JobFiles,
    env: Env,
    id: CheckpointId,
    metadata: StoredMetadata,
) -> Answer {
    let entry = chain::CompletedCheckpoint {
        id,
        metadata: metadata.name,
        checksum: metadata.checksum,
    };
    let appended = files.chain.append_completed(entry).await;
    if appended.is_ok() {
        env.fail_points().hit(fail_points::CHAIN_ENTRY_STORED);
    }
    Answer::Appended(id, appended.map(drop))
}

pub(super) async fn append_terminal(files: JobFiles, state: TerminalState) -> Answer {
    Answer::Terminal(files.chain.append_terminal(state).await)
}

/// Deletes what the coordinator decided against. The BOUNDARY proves that the own claim is still
/// the chain's (fence F10) and takes the checkpoint off the chain; after a TERMINAL of our own
/// nobody else can ever be. What fails is left for a sweep.
pub(super) async fn delete(
    files: JobFiles,
    deletion: Deletion,
    retain: NonZeroU32,
    is_terminal: bool,
) -> Answer {
    let ticket = deletion.ticket;
    if !is_terminal && advance_boundary(&files, retain).await.is_none() {
        return Answer::Deleted(ticket);
    }
    delete_checkpoint(&files, &deletion).await;
    Answer::Deleted(ticket)
}

/// Deletes what the epochs before this one left behind. Whoever calls has waited long enough for
/// their uploads to have ended.
pub(super) async fn sweep(
    files: JobFiles,
    epoch: Epoch,
    retain: NonZeroU32,
    shared: Option<SharedInUse>,
) -> Answer {
    let boundary = advance_boundary(&files, retain).await;
    // Looked at here too, for jobs that take no checkpoints. What is left may be all there is.
    if let Some(boundary) = boundary
        && job_gone(&files).await.is_none()
    {
        // A checkpoint that the chain has and the coordinator does not know may refer to anything.
        let shared = shared.filter(|shared| boundary.retained.is_subset(&shared.checkpoints));
        let in_use = shared.as_ref().map(|shared| &shared.objects);
        sweep_before(&files, epoch, &boundary.retained, in_use).await;
    }
    Answer::Done
}

/// A durable BOUNDARY, if the own claim is still the chain's.
async fn advance_boundary(files: &JobFiles, retain: NonZeroU32) -> Option<Boundary> {
    let boundary = match files.chain.append_boundary(retain).await {
        Ok(boundary) => boundary,
        Err(error) => {
            debug!(job_id = %files.job, error = error_chain(&error), "nothing deleted");
            return None;
        }
    };
    prune(files, boundary.prunable_below).await;
    Some(boundary)
}

/// One attempt to store the result.
pub(super) async fn store_result(files: JobFiles, result: Bytes) -> Answer {
    let is_stored = try_store_result(&files, &result).await.is_ok();
    Answer::ResultStored { is_stored }
}

/// Goes on until the result is stored. Until then the next jobmanager would look at the job again
/// and find its TERMINAL entry.
pub(super) async fn store_result_later(files: JobFiles, env: Env, result: Bytes) -> Answer {
    loop {
        env.clock().sleep(RESULT_RETRY).await;
        match try_store_result(&files, &result).await {
            Err(JobStoreError::Store(error)) if error.is_transient() => {}
            Ok(()) | Err(_) => return Answer::Done,
        }
    }
}

async fn try_store_result(files: &JobFiles, result: &Bytes) -> Result<(), JobStoreError> {
    let stored = files.jobs.finish(files.job, result.clone()).await;
    if let Err(error) = &stored {
        warn!(job_id = %files.job, error = error_chain(error), "result of the job not stored");
    }
    stored.map(drop)
}

/// Asked once before it waits with the others: calls on the chain are served in the order in which
/// they were first asked.
pub(super) fn ordered(
    request: impl Future<Output = Answer> + Send + 'static,
) -> Result<Answer, BoxFuture<'static, Answer>> {
    let mut request = request.boxed();
    match request.as_mut().now_or_never() {
        Some(answer) => Ok(answer),
        None => Err(request),
    }
}
