//! Another jobmanager over the same storage.

use std::time::Duration;

use millstream_coordination::job::JobStatus;
use millstream_snapshot::names::{self, CheckpointDir, Named};
use millstream_types::{Attempt, CheckpointId, Epoch, ObjectName};

use super::world::*;
use crate::*;

const GRACE: Duration = Duration::from_secs(1);

// Proves F35, and HND-066.
#[tokio::test(start_paused = true)]
async fn a_recreated_jobmanager_resumes_its_jobs_by_itself_where_they_were() {
    let world = World::new().await;
    let first = world.jobmanager().await;
    let tm = world.taskmanager(&first, "tm-1", 2);
    let job = world.submit(&first, word_count(CHECKPOINTED)).await;
    world.until_all_running(&first, job, N_TASKS).await;
    let completed = world.until_checkpoint(&first, job, CheckpointId(1)).await;
    first.shutdown(GRACE).await;
    tm.kill();

    let second = world.jobmanager().await;
    second.recovered().await;
    assert_eq!(second.list().await.len(), 1);
    let _tm = world.taskmanager(&second, "tm-1", 2);
    world.until_all_running(&second, job, N_TASKS).await;
    let details = second.job(job).await.unwrap();
    assert_eq!(details.epoch, Some(Epoch(2)));
    assert_eq!(details.overview.restarts, 0);
    let restored = second.checkpoints(job).await.unwrap();
    assert!(restored.history.latest_restored().unwrap().id >= completed);
    let attempts = details.vertices.iter().flat_map(|v| &v.subtasks);
    assert!(
        attempts
            .clone()
            .all(|subtask| subtask.attempt == Attempt(1))
    );
    world.until_checkpoint(&second, job, completed).await;
}

// Proves HND-062.
#[tokio::test(start_paused = true)]
async fn an_ended_job_never_comes_back_and_its_result_stays() {
    let world = World::new().await;
    let first = world.jobmanager().await;
    let _tm = world.taskmanager(&first, "tm-1", 2);
    let job = world.submit(&first, word_count(CHECKPOINTED)).await;
    world.until_all_running(&first, job, N_TASKS).await;
    first.cancel(job).await.unwrap();
    first.shutdown(GRACE).await;

    let second = world.jobmanager().await;
    second.recovered().await;
    let _tm = world.taskmanager(&second, "tm-2", 2);
    world
        .until("the result is listed", async || {
            !second.list().await.is_empty()
        })
        .await;
    world.env.clock().sleep(Duration::from_secs(30)).await;
    let details = second.job(job).await.unwrap();
    assert_eq!(details.overview.status, JobStatus::Canceled);
    // Who asks for the job on one screen asks for these too.
    let checkpoints = second.checkpoints(job).await.unwrap();
    assert_eq!(checkpoints.history.records().count(), 0);
    let deployed = world.behaviour.lock();
    assert!(
        deployed
            .deployed
            .iter()
            .all(|(_, task)| task.epoch == Epoch(1))
    );
}

// Proves F152: nothing of the job is cleaned up yet when its jobmanager goes.
#[tokio::test(start_paused = true)]
async fn a_failed_job_never_comes_back_and_its_cause_stays() {
    let world = World::new().await;
    let first = world.jobmanager().await;
    let job = world
        .submit(&first, word_count(&[("restart-strategy.type", "none")]))
        .await;
    world.until_status(&first, job, JobStatus::Failed).await;
    let cause = first.job(job).await.unwrap().end.unwrap().failure.unwrap();
    first.shutdown(Duration::ZERO).await;

    let second = world.jobmanager().await;
    second.recovered().await;
    // With the slots that it lacked it would run now.
    let _tm = world.taskmanager(&second, "tm-1", 2);
    world
        .until("its result is listed", async || {
            !second.list().await.is_empty()
        })
        .await;
    world.env.clock().sleep(Duration::from_secs(30)).await;
    let details = second.job(job).await.unwrap();
    assert_eq!(details.overview.status, JobStatus::Failed);
    let stays = details.end.unwrap().failure.unwrap();
    assert_eq!((stays.message, stays.remedy), (cause.message, cause.remedy));
    assert!(world.behaviour.lock().deployed.is_empty());
}

// Proves F60 as to its files. HND-069: what a dead owner would have deleted goes too, and not
// before uploads must have ended.
#[tokio::test(start_paused = true)]
async fn what_earlier_epochs_left_in_storage_is_swept() {
    let world = World::new().await;
    let first = world.jobmanager().await;
    let tm = world.taskmanager(&first, "tm-1", 2);
    let job = world.submit(&first, word_count(CHECKPOINTED)).await;
    world.until_all_running(&first, job, N_TASKS).await;
    world.until_checkpoint(&first, job, CheckpointId(1)).await;
    first.shutdown(GRACE).await;
    tm.kill();
    let store = world.store.job(job);
    let orphan = "chk-31/1-0000000000000001/v0.0-0000000000000002";
    let orphan = ObjectName::new(orphan).unwrap();
    store.create(&orphan, "unfinished".into()).await.unwrap();

    let second = world.jobmanager().await;
    second.recovered().await;
    let _tm = world.taskmanager(&second, "tm-1", 2);
    world.until_all_running(&second, job, N_TASKS).await;
    world.env.clock().sleep(Duration::from_secs(50)).await;
    assert!(store.head(&orphan).await.unwrap().is_some());
    world.env.clock().sleep(Duration::from_secs(15)).await;
    let names = store.list("", None, 1_000).await.unwrap().names;
    let of_first =
        |name: &&ObjectName| CheckpointDir::of(name).is_some_and(|dir| dir.epoch == Epoch(1));
    assert_eq!(names.iter().filter(of_first).count(), 0, "{names:?}");
    assert!(names.iter().any(|name| CheckpointDir::of(name).is_some()));
}

// F171: killed before it stored the result, or before it had cleaned up after the job.
#[tokio::test(start_paused = true)]
async fn a_jobmanager_cleans_up_after_a_job_that_ended_under_one_that_went_too_soon() {
    for has_result in [true, false] {
        let world = World::new().await;
        let first = world.jobmanager().await;
        let tm = world.taskmanager(&first, "tm-1", 2);
        let mut settings = CHECKPOINTED.to_vec();
        settings.push((
            "checkpointing.externalized-checkpoint-retention",
            "RETAIN_ON_CANCELLATION",
        ));
        let job = world.submit(&first, word_count(&settings)).await;
        world.until_checkpoint(&first, job, CheckpointId(1)).await;
        first.cancel(job).await.unwrap();
        world.until_status(&first, job, JobStatus::Canceled).await;
        let ended_at = first.job(job).await.unwrap().overview.ended_at;
        first.shutdown(Duration::ZERO).await;
        tm.kill();

        let store = world.store.job(job);
        let late = "chk-31/1-0000000000000001/v0.0-0000000000000002";
        let late = ObjectName::new(late).unwrap();
        store.create(&late, "uploaded late".into()).await.unwrap();
        if !has_result {
            store.delete(&[names::job_result()]).await.unwrap();
            world.store.delete(&[names::uncleaned(job)]).await.unwrap();
        }
        let kept = async || {
            let found = store.list("", None, 1_000).await.unwrap().names;
            let mut found = found.into_iter();
            found.find(|name| matches!(names::parse(name), Some(Named::Metadata(_))))
        };
        let kept_before = kept().await;
        assert!(kept_before.is_some());

        let second = world.jobmanager().await;
        second.recovered().await;
        world.until_status(&second, job, JobStatus::Canceled).await;
        if has_result {
            let shown = second.job(job).await.unwrap().overview.ended_at;
            assert_eq!(shown, ended_at);
        }
        world.env.clock().sleep(Duration::from_secs(100)).await;
        assert_eq!(store.head(&late).await.unwrap(), None);
        assert_eq!(kept().await, kept_before);
        let marks = world.store.list(names::UNCLEANED_FOLDER, None, 10).await;
        assert_eq!(marks.unwrap().names, []);
        assert!(store.head(&names::job_result()).await.unwrap().is_some());
    }
}

// The storage went back to a time at which the job ran: its result says that it ended all the same.
#[tokio::test(start_paused = true)]
async fn a_job_with_a_result_never_runs_again_whatever_its_chain_says() {
    let world = World::new().await;
    let first = world.jobmanager().await;
    let tm = world.taskmanager(&first, "tm-1", 2);
    let job = world.submit(&first, word_count(CHECKPOINTED)).await;
    world.until_checkpoint(&first, job, CheckpointId(1)).await;
    first.cancel(job).await.unwrap();
    world.until_status(&first, job, JobStatus::Canceled).await;
    first.shutdown(Duration::ZERO).await;
    tm.kill();
    let dir = world.store.job(job);
    let chain = dir.list(names::CHAIN_FOLDER, None, 1_000).await.unwrap();
    let newest = chain.names.last().unwrap().clone();
    dir.delete(std::slice::from_ref(&newest)).await.unwrap();

    let second = world.jobmanager().await;
    second.recovered().await;
    let _tm = world.taskmanager(&second, "tm-2", 2);
    world.until_status(&second, job, JobStatus::Canceled).await;
    world.env.clock().sleep(Duration::from_secs(200)).await;
    let details = second.job(job).await.unwrap();
    assert_eq!(details.overview.status, JobStatus::Canceled);
    assert_eq!(dir.head(&newest).await.unwrap(), None, "it was claimed");
    // Nobody knows what it keeps: the mark stays for whoever repairs the storage.
    let mark = names::uncleaned(job);
    assert!(world.store.head(&mark).await.unwrap().is_some());
}

#[tokio::test(start_paused = true)]
async fn two_jobmanagers_over_one_storage_have_one_owner_for_each_job() {
    let world = World::new().await;
    let first = world.jobmanager().await;
    let _tm = world.taskmanager(&first, "tm-1", 2);
    let job = world.submit(&first, word_count(CHECKPOINTED)).await;
    world.until_all_running(&first, job, N_TASKS).await;

    let second = world.jobmanager().await;
    second.recovered().await;
    let _other = world.taskmanager(&second, "tm-2", 2);
    world.until_all_running(&second, job, N_TASKS).await;
    // The first finds out with its next entry, and stops.
    world.until_status(&first, job, JobStatus::Suspended).await;
    let error = first.cancel(job).await.unwrap_err();
    assert!(matches!(error, CancelError::NotOwned { .. }), "{error}");
    assert!(error.to_string().contains("claim"), "{error}");
    let details = second.job(job).await.unwrap();
    assert_eq!(details.overview.status, JobStatus::Running);
}

// Taskmanagers would refuse what is deployed under the older claim, and the newer one would have to
// claim again.
#[tokio::test(start_paused = true)]
async fn a_job_that_waited_for_slots_while_another_jobmanager_claimed_it_is_not_deployed() {
    let world = World::new().await;
    let first = world.jobmanager().await;
    let job = world.submit(&first, word_count(CHECKPOINTED)).await;
    let second = world.jobmanager().await;
    second.recovered().await;
    world
        .until("the second one has claimed it", async || {
            second.job(job).await.unwrap().epoch == Some(Epoch(2))
        })
        .await;
    assert_eq!(first.job(job).await.unwrap().epoch, Some(Epoch(1)));
    world.env.clock().sleep(Duration::from_secs(5)).await;

    let _tm = world.taskmanager(&first, "tm-1", 2);
    world.until_status(&first, job, JobStatus::Suspended).await;
    let error = first.cancel(job).await.unwrap_err();
    assert!(error.to_string().contains("claim"), "{error}");
    assert!(world.behaviour.lock().deployed.is_empty());
    let _other = world.taskmanager(&second, "tm-2", 2);
    world.until_all_running(&second, job, N_TASKS).await;
    let behaviour = world.behaviour.lock();
    let mut deployed = behaviour.deployed.iter();
    assert!(deployed.all(|(tm, task)| tm.as_str() == "tm-2" && task.epoch == Epoch(2)));
}

#[tokio::test(start_paused = true)]
async fn a_job_that_waited_for_slots_and_finds_its_chain_unreadable_says_so() {
    let world = World::new().await;
    let jm = world.jobmanager().await;
    let job = world.submit(&jm, word_count(CHECKPOINTED)).await;
    world.env.clock().sleep(Duration::from_secs(5)).await;
    let (dir, next) = (world.store.job(job), names::chain(2));
    dir.create(&next, "no entry".into()).await.unwrap();

    let _tm = world.taskmanager(&jm, "tm-1", 2);
    world.until_status(&jm, job, JobStatus::Suspended).await;
    let details = jm.job(job).await.unwrap();
    let newest = details.failures.entries().next_back().unwrap();
    let causes = newest.root.failure.causes.join(": ");
    assert!(causes.contains("entry 2"), "{causes}");
    assert!(world.behaviour.lock().deployed.is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_job_whose_chain_was_lost_is_refused_and_never_starts_empty() {
    let world = World::new().await;
    let first = world.jobmanager().await;
    let _tm = world.taskmanager(&first, "tm-1", 2);
    let job = world.submit(&first, word_count(CHECKPOINTED)).await;
    world.until_all_running(&first, job, N_TASKS).await;
    first.shutdown(GRACE).await;
    let store = world.store.job(job);
    let entries = store.list("chain", None, 100).await.unwrap();
    store.delete(&entries.names).await.unwrap();

    let second = world.jobmanager().await;
    second.recovered().await;
    let _tm = world.taskmanager(&second, "tm-2", 2);
    world.until_status(&second, job, JobStatus::Suspended).await;
    let details = second.job(job).await.unwrap();
    let failure = &details.failures.entries().next_back().unwrap().root.failure;
    assert!(failure.causes[0].contains("has no entry"), "{failure:?}");
    let behaviour = world.behaviour.lock();
    assert!(
        behaviour
            .deployed
            .iter()
            .all(|(id, _)| id.as_str() == "tm-1")
    );
}

#[tokio::test(start_paused = true)]
async fn a_job_whose_object_is_damaged_is_listed_with_the_cause() {
    let world = World::new().await;
    let first = world.jobmanager().await;
    let _tm = world.taskmanager(&first, "tm-1", 2);
    let job = world.submit(&first, word_count(CHECKPOINTED)).await;
    world.until_all_running(&first, job, N_TASKS).await;
    first.shutdown(GRACE).await;
    let store = world.store.job(job);
    let object = names::job_object();
    store.delete(std::slice::from_ref(&object)).await.unwrap();
    store.create(&object, "no job".into()).await.unwrap();

    let second = world.jobmanager().await;
    second.recovered().await;
    assert_eq!(second.list().await[0].status, JobStatus::Suspended);
    let details = second.job(job).await.unwrap();
    let failure = &details.failures.entries().next_back().unwrap().root.failure;
    assert!(failure.causes[0].contains("job"), "{failure:?}");
    assert!(failure.remedy.is_some(), "{failure:?}");
    // Who asks for the job on one screen asks for these too.
    let checkpoints = second.checkpoints(job).await.unwrap();
    assert_eq!(checkpoints.history.records().count(), 0);
    let error = second.cancel(job).await.unwrap_err();
    assert!(matches!(error, CancelError::NotOwned { .. }), "{error}");
}
