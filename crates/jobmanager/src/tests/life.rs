//! From a submission to the end of a job.

use std::time::Duration;

use millstream_coordination::chain::TerminalState;
use millstream_coordination::job::{ExecutionState, JobStatus};
use millstream_coordination::protocol::FromTaskmanager;
use millstream_snapshot::metadata;
use millstream_snapshot::names::{self, CheckpointDir, Named, Nonce};
use millstream_types::{CheckpointId, Epoch, SubtaskId, VertexId};

use super::world::*;
use crate::*;

#[tokio::test(start_paused = true)]
async fn a_job_runs_with_both_ends_of_its_channels_and_its_checkpoints_are_in_the_store() {
    let world = World::new().await;
    let jm = world.jobmanager().await;
    let _tms = [
        world.taskmanager(&jm, "tm-1", 1),
        world.taskmanager(&jm, "tm-2", 1),
    ];
    let job = world.submit(&jm, word_count(CHECKPOINTED)).await;
    world.until_all_running(&jm, job, N_TASKS).await;
    let completed = world.until_checkpoint(&jm, job, CheckpointId(1)).await;

    let checkpoints = jm.checkpoints(job).await.unwrap();
    let record = checkpoints.history.record(completed).unwrap();
    assert_eq!(record.acknowledged(), (N_TASKS, N_TASKS));
    let store = world.store.job(job);
    let stored = metadata::read(&store, record.metadata.as_ref().unwrap(), None);
    let stored = stored.await.unwrap();
    assert_eq!((stored.job, stored.checkpoint.id), (job, completed));
    assert!(world.behaviour.lock().completed.contains(&CheckpointId(1)));

    let behaviour = world.behaviour.lock();
    let of = |vertex| {
        let mut all = behaviour.deployed.iter();
        &all.find(|(_, task)| task.subtask == SubtaskId::new(VertexId(vertex), vertex))
            .unwrap()
            .1
    };
    let (source, count) = (of(0), of(1));
    assert_eq!((source.outputs.len(), count.inputs.len()), (2, 1));
    // Both ends show the same token; the address is there where the peer is elsewhere.
    let to_count = &source.outputs[1];
    assert_eq!(to_count.token, count.inputs[0].token);
    assert_eq!(to_count.channel, count.inputs[0].channel);
    assert_eq!(to_count.peer.task.subtask, count.subtask);
    let is_elsewhere: Vec<bool> = source
        .outputs
        .iter()
        .map(|end| end.peer.address.is_some())
        .collect();
    assert_eq!(is_elsewhere, [false, true]);
}

// Proves F10.
#[tokio::test(start_paused = true)]
async fn a_cancelled_job_ends_durably_and_a_second_cancel_changes_nothing() {
    let world = World::new().await;
    let jm = world.jobmanager().await;
    let _tm = world.taskmanager(&jm, "tm-1", 2);
    let job = world.submit(&jm, word_count(CHECKPOINTED)).await;
    world.until_all_running(&jm, job, N_TASKS).await;

    let ended = jm.cancel(job).await.unwrap();
    assert_eq!(ended.state, TerminalState::Canceled);
    let details = jm.job(job).await.unwrap();
    assert_eq!(details.overview.status, JobStatus::Canceled);
    assert_eq!(
        details.overview.tasks.get(&ExecutionState::Canceled),
        Some(&N_TASKS)
    );
    assert_eq!(jm.cancel(job).await.unwrap(), ended);
    let overview = jm.overview().await;
    assert_eq!((overview.jobs_cancelled, overview.jobs_running), (1, 0));
    assert_eq!(overview.slots_available, 2);
}

#[tokio::test(start_paused = true)]
async fn a_bounded_job_takes_a_final_checkpoint_finishes_and_leaves_no_checkpoint_behind() {
    let world = World::new().await;
    world.behaviour.lock().bounded = true;
    let jm = world.jobmanager().await;
    let _tm = world.taskmanager(&jm, "tm-1", 2);
    let job = world.submit(&jm, word_count(CHECKPOINTED)).await;
    let mut watch = jm.watch(job).await.unwrap();
    world.until_status(&jm, job, JobStatus::Finished).await;

    let (mut lines, mut end, mut statuses) = (Vec::new(), None, Vec::new());
    while let Some(event) = watch.next().await {
        match event {
            JobEvent::Output { lines: more, .. } => lines.extend(more),
            JobEvent::StatusChanged { status, .. } => statuses.push(status),
            JobEvent::Ended(ended) => end = Some(ended),
            JobEvent::OutputDropped { .. } => panic!("nothing is dropped"),
        }
    }
    assert_eq!(lines.len(), N_TASKS);
    assert!(statuses.ends_with(&[JobStatus::Running, JobStatus::Finished]));
    assert_eq!(end.unwrap().state, TerminalState::Finished);

    let checkpoints = jm.checkpoints(job).await.unwrap();
    let last = checkpoints.history.latest_completed().unwrap().clone();
    let store = world.store.job(job);
    world
        .until("its checkpoints are deleted", async || {
            store
                .head(last.metadata.as_ref().unwrap())
                .await
                .unwrap()
                .is_none()
        })
        .await;
}

// Proves F9.
#[tokio::test(start_paused = true)]
async fn a_job_without_slots_waits_and_then_fails_through_its_restart_strategy() {
    let world = World::new().await;
    let jm = world.jobmanager().await;
    let once = [
        ("restart-strategy.type", "fixed-delay"),
        ("restart-strategy.fixed-delay.attempts", "1"),
        ("restart-strategy.fixed-delay.delay", "1 s"),
    ];
    let job = world.submit(&jm, word_count(&once)).await;
    world.until_status(&jm, job, JobStatus::Created).await;
    world.until_status(&jm, job, JobStatus::Failed).await;

    let details = jm.job(job).await.unwrap();
    assert_eq!(details.overview.restarts, 1);
    let end = details.end.unwrap();
    assert!(
        end.headline
            .starts_with("Recovery is suppressed by FixedDelay")
    );
    let failure = end.failure.unwrap();
    assert!(failure.message.contains("needs 2 slots"), "{failure:?}");
    assert!(failure.remedy.unwrap().contains("slot.request.timeout"));
}

#[tokio::test(start_paused = true)]
async fn a_job_that_waits_for_slots_shows_what_it_waits_for() {
    let world = World::new().await;
    let jm = world.jobmanager().await;
    let _tm = world.taskmanager(&jm, "tm-1", 1);
    world
        .until("it is registered", async || {
            jm.overview().await.taskmanagers == 1
        })
        .await;
    let before = world.env.clock().wall();
    let job = world.submit(&jm, word_count(&[])).await;
    world.until_status(&jm, job, JobStatus::Created).await;
    let wait = jm.job(job).await.unwrap().slot_wait.unwrap();
    assert_eq!((wait.needed, wait.free), (2, 1));
    assert!(wait.since >= before && wait.since <= world.env.clock().wall());

    let _other = world.taskmanager(&jm, "tm-2", 1);
    world.until_all_running(&jm, job, N_TASKS).await;
    assert_eq!(jm.job(job).await.unwrap().slot_wait, None);
}

#[tokio::test(start_paused = true)]
async fn the_same_client_id_is_the_same_job_and_never_another_one() {
    let world = World::new().await;
    let jm = world.jobmanager().await;
    let submit = |graph| {
        jm.submit(Submission {
            client_id: Some("nightly-7".to_owned()),
            graph,
        })
    };
    let graph = word_count(CHECKPOINTED);
    let (first, second) = tokio::join!(submit(graph.clone()), submit(graph.clone()));
    let (first, second) = (first.unwrap(), second.unwrap());
    assert_eq!(first.job, second.job);
    assert_ne!(first.is_new, second.is_new);
    assert_eq!(jm.list().await.len(), 1);

    let error = submit(word_count(&[])).await.unwrap_err();
    assert!(matches!(error, SubmitError::ClientIdTaken { .. }));
    // Also when the job is long over.
    jm.cancel(first.job).await.unwrap();
    let again = submit(graph).await.unwrap();
    assert_eq!((again.job, again.is_new), (first.job, false));
    let details = jm.job(first.job).await.unwrap();
    assert_eq!(details.overview.status, JobStatus::Canceled);
}

#[tokio::test(start_paused = true)]
async fn a_task_that_does_not_stop_is_abandoned_and_its_slot_comes_back_when_it_is_reaped() {
    let world = World::new().await;
    let jm = world.jobmanager().await;
    let _tm = world.taskmanager(&jm, "tm-1", 2);
    let job = world.submit(&jm, word_count(CHECKPOINTED)).await;
    world.until_all_running(&jm, job, N_TASKS).await;
    world.behaviour.lock().stuck = true;

    let before = world.env.clock().monotonic();
    let ended = jm.cancel(job).await.unwrap();
    assert_eq!(ended.state, TerminalState::Canceled);
    let waited = world.env.clock().monotonic() - before;
    assert!(waited >= Duration::from_secs(30), "{waited:?}");
    world
        .until("the slots are free again", async || {
            jm.overview().await.slots_available == 2
        })
        .await;
}

#[tokio::test(start_paused = true)]
async fn lines_of_a_fenced_task_reach_nobody() {
    let world = World::new().await;
    let jm = world.jobmanager().await;
    let _tm = world.taskmanager(&jm, "tm-1", 2);
    let job = world.submit(&jm, word_count(CHECKPOINTED)).await;
    let mut watch = jm.watch(job).await.unwrap();
    world.until_all_running(&jm, job, N_TASKS).await;

    let (outgoing, _incoming) = tokio::sync::mpsc::channel(8);
    let mut zombie = jm.connect_taskmanager(outgoing);
    let registration = registration("tm-z", world.env.rng().incarnation(), 1);
    let register = FromTaskmanager::Register(registration);
    zombie.receive(register).await.unwrap();
    let lines = |epoch, text: &str| {
        FromTaskmanager::Output(millstream_coordination::protocol::OutputLines {
            job,
            epoch,
            subtask: SubtaskId::new(VertexId(0), 0),
            lines: vec![text.to_owned()],
            dropped: 3,
        })
    };
    zombie.receive(lines(Epoch(0), "old")).await.unwrap();
    zombie.receive(lines(Epoch(1), "new")).await.unwrap();
    let mut seen = Vec::new();
    let mut dropped = 0;
    while seen.last().is_none_or(|line| line != "new") {
        match watch.next().await.unwrap() {
            JobEvent::Output { lines, .. } => seen.extend(lines),
            JobEvent::OutputDropped { lines } => dropped += lines,
            JobEvent::StatusChanged { .. } | JobEvent::Ended(_) => {}
        }
    }
    assert!(!seen.contains(&"old".to_owned()));
    assert_eq!(dropped, 3);
}

// Nobody hears any more of what tasks were still uploading.
#[tokio::test(start_paused = true)]
async fn a_job_that_keeps_its_checkpoints_leaves_nothing_else_in_storage() {
    let world = World::new().await;
    let jm = world.jobmanager().await;
    let _tm = world.taskmanager(&jm, "tm-1", 2);
    let settings = [
        ("checkpointing.interval", "1 s"),
        (
            "checkpointing.externalized-checkpoint-retention",
            "retain-on-cancellation",
        ),
    ];
    let job = world.submit(&jm, word_count(&settings)).await;
    world.until_checkpoint(&jm, job, CheckpointId(2)).await;
    let dir = world.store.job(job);
    let given_up = CheckpointDir {
        checkpoint: CheckpointId(99),
        epoch: Epoch(1),
        nonce: Nonce(1),
    };
    let subtask = SubtaskId::new(VertexId(0), 0);
    let before = [
        given_up.private(subtask, Nonce(2)),
        names::shared(Epoch(1), subtask, Nonce(3)),
    ];
    for name in &before {
        dir.create(name, "x".into()).await.unwrap();
    }
    jm.cancel(job).await.unwrap();
    let after = names::shared(Epoch(1), subtask, Nonce(4));
    dir.create(&after, "x".into()).await.unwrap();

    world.env.clock().sleep(Duration::from_secs(61)).await;
    let left = dir.list("", None, 100).await.unwrap().names;
    let named: Vec<_> = left.iter().filter_map(names::parse).collect();
    let is_metadata = |named: &&Named| matches!(named, Named::Metadata(_));
    // `num-retained`, unless it is set.
    assert_eq!(named.iter().filter(is_metadata).count(), 2, "{left:?}");
    let is_state = |named: &Named| matches!(named, Named::Private(_) | Named::Shared(_));
    assert!(!named.iter().any(is_state), "{left:?}");
}
