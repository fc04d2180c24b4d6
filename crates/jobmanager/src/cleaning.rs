//! Cleaning up after a job that ended: what it does not keep is deleted (B1.11, F171).
//!
//! Its master does it; where that one's jobmanager went before it was done, the next one, which finds a
//! mark beside the directories of the jobs. Nothing here claims a job or writes to its chain: a job that
//! ended never comes back, whatever became of its storage.

use std::collections::BTreeSet;
use std::num::NonZeroU32;
use std::sync::Arc;
use std::time::Duration;

use futures::{StreamExt, stream};
use millstream_config::Retention;
use millstream_coordination::chain::{EntryNumber, LISTING_LAG_MAX, RestorePoint, TerminalState};
use millstream_coordination::checkpoint::Deletion;
use millstream_env::Env;
use millstream_snapshot::chain::ended;
use millstream_snapshot::metadata::{self, MetadataError};
use millstream_snapshot::{StoreError, gc};
use millstream_telemetry::chain as error_chain;
use millstream_types::{CheckpointId, Disposition, Epoch, JobId, ObjectName};
use tracing::{debug, info, warn};

use crate::admission::Plan;
use crate::jobmanager::Shared;
use crate::master::JobFiles;
use crate::recovery::admit;
use crate::registry::Entry;
use crate::submission::open_files;

/// How long an upload may go on after its epoch or its job ended: what it leaves is swept then (fence
/// F10).
pub(crate) const SWEEP_AFTER: Duration = Duration::from_secs(60);

/// Sweeps of a store that does not let itself be swept, before it is left to the next jobmanager.
const SWEEPS_MAX: usize = 10;

/// Looks for the result of a job that is swept, before its mark is left to the next jobmanager.
const LOOKS_MAX: usize = 12;
const LOOK_EVERY: Duration = Duration::from_secs(5);

/// Jobs that are cleaned up together.
const CONCURRENCY: usize = 8;

/// Which checkpoints outlive their job, oldest first. Nobody can claim the job any more, so nobody else
/// needs them.
pub(crate) fn kept(
    state: TerminalState,
    plan: &Plan,
    completed: &[RestorePoint],
) -> Vec<RestorePoint> {
    let keeps = match (state, plan.retention) {
        (TerminalState::Finished, _) | (_, Retention::Never) => false,
        (TerminalState::Canceled, Retention::DeleteOnCancellation) => false,
        (TerminalState::Canceled, Retention::RetainOnCancellation)
        | (
            TerminalState::Failed,
            Retention::DeleteOnCancellation | Retention::RetainOnCancellation,
        ) => true,
    };
    let n_kept = match keeps {
        true => completed.len().min(n_retained(plan).get() as usize),
        false => 0,
    };
    completed[completed.len() - n_kept..].to_vec()
}

/// How many completed checkpoints a job keeps.
pub(crate) fn n_retained(plan: &Plan) -> NonZeroU32 {
    NonZeroU32::new(plan.config.checkpoints.num_retained).unwrap_or(NonZeroU32::MIN)
}

/// Deletes what a job that ended does not keep: checkpoints that are known, and what of other tries
/// is still there. TERMINAL is there, so that a task which still uploads does so in vain; what it
/// leaves then is deleted a little later. What fails for long, the next jobmanager does.
pub(crate) async fn clean_up(
    files: JobFiles,
    env: Env,
    deletions: Vec<Deletion>,
    kept: Vec<RestorePoint>,
) {
    for deletion in deletions {
        delete_checkpoint(&files, &deletion).await;
    }
    let in_use = objects_of(&files, &kept).await;
    let may_come = matches!(&in_use, Err(error) if error.disposition() == Disposition::Retry);
    let in_use = in_use.ok();
    let checkpoints = kept.iter().map(|point| point.checkpoint.id).collect();
    let sweep = || sweep_before(&files, Epoch(u64::MAX), &checkpoints, in_use.as_ref());
    sweep().await;
    let mut is_swept = false;
    for _ in 0..SWEEPS_MAX {
        env.clock().sleep(SWEEP_AFTER).await;
        is_swept = sweep().await;
        if is_swept {
            break;
        }
    }
    if let Ok(below) = files.chain.prunable_below().await {
        prune(&files, below).await;
    }
    if is_swept && !may_come {
        unmark(&files, &env).await;
    }
}

/// Deletes one checkpoint; what fails is left for a sweep.
pub(crate) async fn delete_checkpoint(files: &JobFiles, deletion: &Deletion) {
    if let Err(error) = gc::delete_checkpoint(&files.store, deletion).await {
        warn!(
            job_id = %files.job,
            checkpoint_id = %deletion.checkpoint,
            error = error_chain(&error),
            "checkpoint objects not deleted"
        );
    }
}

/// The mark is made before the result is stored: as long as that is not there, one may yet come.
async fn unmark(files: &JobFiles, env: &Env) {
    for _ in 0..LOOKS_MAX {
        match files.jobs.result(files.job).await {
            Ok(Some(_)) => {
                let removed = files.jobs.cleaned(files.job).await;
                return log_mark(files.job, removed);
            }
            Ok(None) | Err(_) => env.clock().sleep(LOOK_EVERY).await,
        }
    }
}

fn log_mark(job: JobId, removed: Result<(), StoreError>) {
    if let Err(error) = removed {
        debug!(job_id = %job, error = error_chain(&error), "to be cleaned up once more");
    }
}

/// Whether all that was to go is gone.
pub(crate) async fn sweep_before(
    files: &JobFiles,
    epoch: Epoch,
    retained: &BTreeSet<CheckpointId>,
    shared_in_use: Option<&BTreeSet<ObjectName>>,
) -> bool {
    let swept = gc::sweep(&files.store, epoch, retained, shared_in_use).await;
    match &swept {
        Ok(0) => {}
        Ok(n_objects) => info!(job_id = %files.job, n_objects, "deleted what earlier epochs left"),
        Err(error) => warn!(
            job_id = %files.job,
            error = error_chain(error),
            "objects of earlier epochs not deleted"
        ),
    }
    swept.is_ok()
}

pub(crate) async fn prune(files: &JobFiles, below: EntryNumber) {
    if let Err(error) = gc::prune_chain(&files.store, below).await {
        debug!(job_id = %files.job, error = error_chain(&error), "claim chain not pruned");
    }
}

/// What these checkpoints refer to.
async fn objects_of(
    files: &JobFiles,
    kept: &[RestorePoint],
) -> Result<BTreeSet<ObjectName>, MetadataError> {
    let mut objects = BTreeSet::new();
    for RestorePoint { checkpoint, .. } in kept {
        let checksum = Some(checkpoint.checksum);
        match metadata::read(&files.store, &checkpoint.metadata, checksum).await {
            Ok(metadata) => objects.extend(metadata.checkpoint.objects().cloned()),
            Err(error) => {
                warn!(
                    job_id = %files.job,
                    checkpoint_id = %checkpoint.id,
                    error = error_chain(&error),
                    "state shared between checkpoints not deleted: it is not known what this one uses"
                );
                return Err(error);
            }
        }
    }
    Ok(objects)
}

/// Cleans up after the jobs that ended under earlier jobmanagers.
pub(crate) async fn after_others(shared: &Arc<Shared>) {
    // By then no listing misses a mark that was made before this jobmanager started.
    shared.env.clock().sleep(LISTING_LAG_MAX).await;
    match shared.jobs.uncleaned().await {
        Ok(jobs) => {
            stream::iter(jobs)
                .for_each_concurrent(CONCURRENCY, |job| after(shared, job))
                .await;
        }
        Err(error) => warn!(
            error = error_chain(&error),
            "what ended jobs may have left in storage is not looked for"
        ),
    }
}

async fn after(shared: &Arc<Shared>, job: JobId) {
    match shared.registry.get(job) {
        // It is marked and has no result yet; or its master is here and cleans up.
        Some(Entry::Submitting(_) | Entry::Running(_) | Entry::NotResumed(_)) => return,
        Some(Entry::Ended(ended)) if ended.checkpoints.is_some() => return,
        Some(Entry::Ended(_)) | None => {}
    }
    let why = match try_after(shared, job).await {
        Ok(()) => return,
        Err(why) => why,
    };
    warn!(
        job_id = %job,
        error = why,
        remedy = "repair what the error names and start the jobmanager again; or delete the job's \
                  directory, if nobody restores from its checkpoints",
        "what an ended job may have left in storage stays"
    );
}

async fn try_after(shared: &Arc<Shared>, job: JobId) -> Result<(), String> {
    let loaded = shared.jobs.load(job).await;
    let Some(submitted) = loaded.map_err(|error| error_chain(&error))? else {
        // Somebody deleted its directory.
        log_mark(job, shared.jobs.cleaned(job).await);
        return Ok(());
    };
    let plan = admit(shared, &submitted).map_err(|error| error_chain(&error))?;
    let opened = open_files(shared, job, &plan).await;
    let files = opened.map_err(|error| error_chain(&error))?.files;
    let end = ended(&files.store, job).await;
    let end = end.map_err(|error| error_chain(&error))?;
    let end = end.ok_or("it has a result, and its claim chain no end")?;
    info!(job_id = %job, "cleaning up after job {}, which is {}", plan.graph.name, end.state);
    let kept = kept(end.state, &plan, &end.completed);
    clean_up(files, shared.env.clone(), Vec::new(), kept).await;
    Ok(())
}
