use millstream_testkit::Faults;
use millstream_types::{CheckpointId, Epoch};
use object_store::path::Path;
use object_store::{ObjectStoreExt, PutPayload};

use super::*;
use crate::testing::{JOB, chaos, env, over};

fn submitted(job: JobId) -> SubmittedJob {
    SubmittedJob {
        job,
        client_id: "client-1".into(),
        submitted_at: WallTime(1_700_000_000_000),
        graph: Bytes::from_static(b"\x0a\x00graph"),
        settings: [("parallelism".to_owned(), "2".to_owned())].into(),
    }
}

fn other_job() -> JobId {
    JobId::from_bytes([0xee; 16])
}

#[tokio::test(start_paused = true)]
async fn a_submitted_job_is_found_by_a_jobmanager_that_never_saw_its_client() {
    let env = env(1);
    let (objects, store) = chaos(&env, Faults::NONE);
    let jobs = JobStore::open(store, "prod").await.unwrap();
    jobs.submit(&submitted(JOB)).await.unwrap();
    jobs.submit(&submitted(other_job())).await.unwrap();
    jobs.finish(other_job(), Bytes::from_static(b"FINISHED"))
        .await
        .unwrap();

    let restarted = JobStore::open(over(&env, objects), "prod").await.unwrap();
    let found = restarted.list_unfinished().await.unwrap();
    let [StoredJob::Unfinished(job)] = &found[..] else {
        panic!("{found:?}")
    };
    assert_eq!(*job, submitted(JOB));
    let result = restarted.result(other_job()).await.unwrap();
    assert_eq!(result, Some(Bytes::from_static(b"FINISHED")));
    assert_eq!(restarted.result(JOB).await.unwrap(), None);
}

// F171.
#[tokio::test(start_paused = true)]
async fn an_ended_job_is_marked_until_it_is_cleaned_up() {
    let (_, store) = chaos(&env(1), Faults::NONE);
    let jobs = JobStore::open(store.clone(), "prod").await.unwrap();
    for job in [JOB, other_job()] {
        jobs.submit(&submitted(job)).await.unwrap();
        assert!(!jobs.uncleaned().await.unwrap().contains(&job));
        let result = Bytes::from_static(b"FINISHED");
        jobs.finish(job, result).await.unwrap();
    }
    jobs.cleaned(other_job()).await.unwrap();
    assert_eq!(jobs.uncleaned().await.unwrap(), [JOB].into());
    assert!(jobs.list_unfinished().await.unwrap().is_empty());
    assert_eq!(store.list_jobs().await.unwrap().len(), 2);
    assert_eq!(store.counters().foreign_names, 0);
    jobs.cleaned(JOB).await.unwrap();
    jobs.cleaned(JOB).await.unwrap();
    assert!(jobs.uncleaned().await.unwrap().is_empty());
}

#[tokio::test(start_paused = true)]
async fn submitting_again_changes_nothing() {
    let (_, store) = chaos(&env(1), Faults::NONE);
    let jobs = JobStore::open(store, "prod").await.unwrap();
    jobs.submit(&submitted(JOB)).await.unwrap();
    jobs.submit(&submitted(JOB)).await.unwrap();
    let other = SubmittedJob {
        graph: Bytes::from_static(b"another"),
        ..submitted(JOB)
    };
    let refused = jobs.submit(&other).await.unwrap_err();
    assert!(
        matches!(refused, JobStoreError::Store(StoreError::Taken { .. })),
        "{refused}"
    );
    assert_eq!(jobs.load(JOB).await.unwrap(), Some(submitted(JOB)));
}

#[tokio::test(start_paused = true)]
async fn the_first_result_stays() {
    let (_, store) = chaos(&env(1), Faults::NONE);
    let jobs = JobStore::open(store, "prod").await.unwrap();
    let (finished, failed) = (
        Bytes::from_static(b"FINISHED"),
        Bytes::from_static(b"FAILED"),
    );
    assert_eq!(jobs.finish(JOB, finished.clone()).await.unwrap(), finished);
    assert_eq!(jobs.finish(JOB, failed).await.unwrap(), finished);
}

// Proves F153: what cannot be read is never "no jobs".
#[tokio::test(start_paused = true)]
async fn a_store_that_cannot_be_read_is_an_error_and_not_an_empty_cluster() {
    let (objects, store) = chaos(&env(1), Faults::NONE);
    let jobs = JobStore::open(store, "prod").await.unwrap();
    jobs.submit(&submitted(JOB)).await.unwrap();
    objects.set_faults(Faults {
        burst: 1.0,
        ..Faults::NONE
    });
    let error = jobs.list_unfinished().await.unwrap_err();
    assert_eq!(error.disposition(), Disposition::Retry, "{error}");
}

// Proves F153: an unreadable job is told, and the others run.
#[tokio::test(start_paused = true)]
async fn one_corrupt_job_is_reported_and_the_others_are_found() {
    let (objects, store) = chaos(&env(1), Faults::NONE);
    let jobs = JobStore::open(store, "prod").await.unwrap();
    jobs.submit(&submitted(JOB)).await.unwrap();
    let path = Path::from(format!("cluster/{}/job", other_job()));
    let garbage = PutPayload::from_static(b"garbage, but long enough to have had a header");
    objects.inner().put(&path, garbage).await.unwrap();
    // A copy of a job's object under another name is not that job.
    let copy = Path::from(format!("cluster/{}/job", "aa".repeat(16)));
    objects
        .inner()
        .copy(&Path::from(format!("cluster/{JOB}/job")), &copy)
        .await
        .unwrap();

    let found = jobs.list_unfinished().await.unwrap();
    let [
        StoredJob::Unfinished(good),
        StoredJob::Unreadable(_, foreign),
        StoredJob::Unreadable(bad, error),
    ] = &found[..]
    else {
        panic!("{found:?}")
    };
    assert_eq!((good.job, *bad), (JOB, other_job()));
    assert!(matches!(
        foreign,
        JobStoreError::Fault {
            fault: JobFault::Message { .. },
            ..
        }
    ));
    assert!(
        error
            .to_string()
            .contains(&format!("{}/job is refused", other_job())),
        "{error}"
    );
    assert!(!error.remedy().is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_job_that_was_only_claimed_is_listed_as_such() {
    let (_, store) = chaos(&env(1), Faults::NONE);
    let jobs = JobStore::open(store.clone(), "prod").await.unwrap();
    store
        .job(JOB)
        .create(&names::chain(1), "claim".into())
        .await
        .unwrap();
    let found = jobs.list_unfinished().await.unwrap();
    assert!(
        matches!(&found[..], [StoredJob::NeverSubmitted(job)] if *job == JOB),
        "{found:?}"
    );
}

#[tokio::test(start_paused = true)]
async fn a_job_that_was_stored_and_has_no_object_is_listed_as_lost() {
    let (_, store) = chaos(&env(1), Faults::NONE);
    let jobs = JobStore::open(store.clone(), "prod").await.unwrap();
    jobs.submit(&submitted(JOB)).await.unwrap();
    assert_eq!(jobs.gone(JOB).await.unwrap(), None);
    let dir = store.job(JOB);
    let metadata = store
        .new_checkpoint_dir(CheckpointId(7), Epoch(1))
        .metadata();
    dir.create(&metadata, "state".into()).await.unwrap();
    dir.delete(&[names::job_object()]).await.unwrap();

    let object = format!("memory://test/cluster/{JOB}/job");
    assert_eq!(jobs.gone(JOB).await.unwrap(), Some(object));
    let found = jobs.list_unfinished().await.unwrap();
    let [StoredJob::Lost { job, directory }] = &found[..] else {
        panic!("{found:?}")
    };
    assert_eq!((*job, directory), (JOB, &dir.address()));
    // What is left of it may be all that its owner has.
    assert!(dir.head(&metadata).await.unwrap().is_some());

    // As a job leaves it that went on for a while after its directory was deleted.
    dir.delete(&[metadata]).await.unwrap();
    dir.create(&names::chain(8), "entry".into()).await.unwrap();
    let found = jobs.list_unfinished().await.unwrap();
    assert!(matches!(&found[..], [StoredJob::Lost { .. }]), "{found:?}");
}

#[tokio::test(start_paused = true)]
async fn a_directory_has_one_mark_for_all_who_see_it_and_another_directory_another() {
    let env = env(1);
    let (objects, store) = chaos(&env, Faults::NONE);
    assert_eq!(mark_of(&store).await.unwrap(), None);
    let first = JobStore::open(store, "prod").await.unwrap();
    let seen = over(&env.component("other"), objects);
    assert_eq!(mark_of(&seen).await.unwrap().as_ref(), Some(first.mark()));
    let again = JobStore::open(seen, "prod").await.unwrap();
    assert_eq!(again.mark(), first.mark());
    let (_, elsewhere) = chaos(&env.component("elsewhere"), Faults::NONE);
    let elsewhere = JobStore::open(elsewhere, "prod").await.unwrap();
    assert_ne!(elsewhere.mark(), first.mark());
}

#[tokio::test(start_paused = true)]
async fn two_clusters_cannot_share_a_directory() {
    let env = env(1);
    let (objects, store) = chaos(&env, Faults::NONE);
    JobStore::open(store, "prod").await.unwrap();
    let again = JobStore::open(over(&env, objects.clone()), "prod").await;
    assert!(again.is_ok());
    let refused = JobStore::open(over(&env, objects), "staging")
        .await
        .unwrap_err();
    assert_eq!(
        refused.to_string(),
        "memory://test/cluster belongs to cluster \"prod\", this is cluster \"staging\""
    );
    assert_eq!(refused.disposition(), Disposition::Fatal);
    assert!(refused.remedy().contains("storage directory of its own"));
}
