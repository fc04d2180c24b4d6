//! Storage that is full, gone, or another one than it was.

use std::time::Duration;

use millstream_coordination::job::JobStatus;
use millstream_snapshot::Store;
use millstream_snapshot::names::job_object;
use millstream_telemetry::chain;
use millstream_types::{CheckpointId, Epoch, JobId};

use super::world::*;
use crate::*;

const GRACE: Duration = Duration::from_secs(1);

/// As `rm -rf` does it.
async fn delete_all(dir: &Store) {
    let names = dir.list("", None, 10_000).await.unwrap().names;
    assert!(!names.is_empty());
    dir.delete(&names).await.unwrap();
}

async fn newest_failure(jm: &Jobmanager, job: JobId) -> (Vec<String>, String) {
    let details = jm.job(job).await.unwrap();
    let failure = &details.failures.entries().next_back().unwrap().root.failure;
    (failure.causes.clone(), failure.remedy.clone().unwrap())
}

#[tokio::test(start_paused = true)]
async fn a_full_disk_at_submission_is_named_to_the_client() {
    let world = World::on_disk().await;
    let jm = world.jobmanager().await;
    world.fs.set_capacity(Some(0));
    let submit = |client_id: &str| {
        jm.submit(Submission {
            client_id: Some(client_id.to_owned()),
            graph: word_count(CHECKPOINTED),
        })
    };
    let error = submit("nightly-7").await.unwrap_err();
    let (text, remedy) = (chain(&error), error.remedy());
    for part in [
        "within 1 min",
        "create /store/",
        "/chain/0",
        "no storage space",
    ] {
        assert!(text.contains(part), "{part} is missing in: {text}");
    }
    assert_eq!(text.matches("did not happen").count(), 1, "{text}");
    assert!(remedy.starts_with("Make room where /store/"), "{remedy}");
    assert!(
        remedy.ends_with("submit again, with the same client id."),
        "{remedy}"
    );
    assert!(!error.is_refusal());

    world.fs.set_capacity(None);
    assert!(submit("nightly-7").await.unwrap().is_new);
}

// What is deleted while the job runs takes the job with it at the next start of a jobmanager: it is
// noticed before.
#[tokio::test(start_paused = true)]
async fn a_running_job_notices_that_its_directory_was_deleted_and_never_starts_empty() {
    let world = World::new().await;
    let jm = world.jobmanager().await;
    let _tm = world.taskmanager(&jm, "tm-1", 2);
    let job = world.submit(&jm, word_count(CHECKPOINTED)).await;
    world.until_checkpoint(&jm, job, CheckpointId(1)).await;
    delete_all(&world.store.job(job)).await;
    world.until_status(&jm, job, JobStatus::Suspended).await;

    let checkpoints = jm.checkpoints(job).await.unwrap();
    let failed = checkpoints.history.latest_failed().unwrap();
    let message = &failed.failure.as_ref().unwrap().message;
    let object = format!("{}/job is gone", world.store.job(job).address());
    assert!(message.contains(&object), "{message}");
    let (causes, remedy) = newest_failure(&jm, job).await;
    // By its chain, or, where an entry was appended since, by the checkpoint that this one names.
    let causes = causes.join(": ");
    let is_refused = causes.contains("has it no more") || causes.contains("does not exist");
    assert!(is_refused, "{causes}");
    assert!(remedy.contains("To be rid of the job instead"), "{remedy}");
    let deployed = world.behaviour.lock();
    let mut deployed = deployed.deployed.iter();
    assert!(deployed.all(|(_, task)| task.epoch == Epoch(1)));
}

// The object of the job is beside the jobs, and its chain in the checkpoints' directory.
#[tokio::test(start_paused = true)]
async fn a_job_whose_checkpoint_directory_was_deleted_meanwhile_never_starts_empty() {
    let mut world = World::on_disk().await;
    let checkpoints = world.store_at("/checkpoints").await;
    world.checkpoints = Some(checkpoints.clone());
    let first = world.jobmanager().await;
    let tm = world.taskmanager(&first, "tm-1", 2);
    let job = world.submit(&first, word_count(CHECKPOINTED)).await;
    world.until_checkpoint(&first, job, CheckpointId(1)).await;
    let mark = first.checkpoint_storage().unwrap();
    first.shutdown(GRACE).await;
    tm.kill();
    delete_all(&checkpoints.job(job)).await;

    let second = world.jobmanager().await;
    assert_eq!(second.checkpoint_storage(), Some(mark));
    second.recovered().await;
    let _tm = world.taskmanager(&second, "tm-2", 2);
    world.until_status(&second, job, JobStatus::Suspended).await;
    let (causes, _) = newest_failure(&second, job).await;
    assert!(causes[0].contains("has no entry"), "{causes:?}");
    let deployed = world.behaviour.lock();
    assert!(
        deployed
            .deployed
            .iter()
            .all(|(tm, _)| tm.as_str() == "tm-1")
    );
}

#[tokio::test(start_paused = true)]
async fn checkpoints_without_a_job_object_are_shown_left_alone_and_found_by_the_client_again() {
    let world = World::new().await;
    let submit = async |jm: &Jobmanager| {
        let client_id = Some("nightly-7".to_owned());
        let graph = word_count(CHECKPOINTED);
        jm.submit(Submission { client_id, graph }).await.unwrap()
    };
    let first = world.jobmanager().await;
    let tm = world.taskmanager(&first, "tm-1", 2);
    let job = submit(&first).await.job;
    let completed = world.until_checkpoint(&first, job, CheckpointId(1)).await;
    first.shutdown(GRACE).await;
    tm.kill();
    let dir = world.store.job(job);
    dir.delete(&[job_object()]).await.unwrap();
    let left = dir.list("", None, 1_000).await.unwrap().names;

    let second = world.jobmanager().await;
    second.recovered().await;
    assert_eq!(second.list().await[0].status, JobStatus::Suspended);
    let overview = second.overview().await;
    assert_eq!((overview.jobs_running, overview.jobs_suspended), (0, 1));
    let (causes, remedy) = newest_failure(&second, job).await;
    assert!(causes[0].contains("its job object is gone"), "{causes:?}");
    assert!(remedy.contains("under its client id"), "{remedy}");
    world.env.clock().sleep(Duration::from_secs(7_200)).await;
    assert_eq!(dir.list("", None, 1_000).await.unwrap().names, left);

    let again = submit(&second).await;
    assert_eq!((again.job, again.is_new), (job, true));
    let _tm = world.taskmanager(&second, "tm-2", 2);
    world.until_all_running(&second, job, N_TASKS).await;
    let restored = second.checkpoints(job).await.unwrap();
    assert!(restored.history.latest_restored().unwrap().id >= completed);

    // As the remedy says it: whoever does not need the job deletes its directory.
    second.shutdown(GRACE).await;
    delete_all(&dir).await;
    let third = world.jobmanager().await;
    third.recovered().await;
    assert!(third.list().await.is_empty());
}
