//! Failures, and what is restored after them.

use std::time::Duration;

use millstream_coordination::failure::{FailureInfo, FailureKind};
use millstream_coordination::job::{ExecutionState, JobStatus};
use millstream_coordination::protocol::{FromTaskmanager, TaskAddress, ToTaskmanager};
use millstream_coordination::slots::RegistrationRefusal;
use millstream_rest::ClusterView;
use millstream_types::{Attempt, CheckpointId, Epoch, SubtaskId, TaskmanagerId, VertexId};
use tokio::sync::mpsc;

use super::world::*;
use crate::gateway::View;
use crate::*;

const SOURCE: SubtaskId = SubtaskId::new(VertexId(0), 0);

#[tokio::test(start_paused = true)]
async fn the_loss_of_a_taskmanager_restarts_the_job_elsewhere_from_its_newest_checkpoint() {
    let world = World::new().await;
    let jm = world.jobmanager().await;
    let lost = world.taskmanager(&jm, "tm-1", 2);
    let job = world.submit(&jm, word_count(CHECKPOINTED)).await;
    world.until_all_running(&jm, job, N_TASKS).await;
    let before = world.until_checkpoint(&jm, job, CheckpointId(1)).await;
    lost.kill();
    world.until_status(&jm, job, JobStatus::Restarting).await;
    let _spare = world.taskmanager(&jm, "tm-2", 2);
    world.until_all_running(&jm, job, N_TASKS).await;

    let details = jm.job(job).await.unwrap();
    assert_eq!(
        (details.overview.restarts, details.epoch),
        (1, Some(Epoch(2)))
    );
    let failures: Vec<_> = details.failures.entries().collect();
    // One taskmanager is one failure, however many tasks it had (F29).
    assert_eq!(failures.len(), 1);
    assert_eq!(failures[0].concurrent.len(), N_TASKS - 1);
    {
        let behaviour = world.behaviour.lock();
        let redeployed = behaviour
            .deployed
            .iter()
            .filter(|(_, t)| t.epoch == Epoch(2));
        let redeployed: Vec<_> = redeployed.collect();
        assert_eq!(redeployed.len(), N_TASKS);
        for (taskmanager, task) in redeployed {
            assert_eq!(taskmanager.as_str(), "tm-2");
            assert_eq!(task.attempt, Attempt(1));
            let restore = task.restore.as_ref().unwrap();
            assert!(restore.checkpoint >= before);
            assert!(!restore.operators.is_empty());
        }
    }
    // Checkpoints go on, under ids that were never used.
    let restored = jm.checkpoints(job).await.unwrap();
    let restored = restored.history.latest_restored().unwrap();
    let shown = View(jm.clone()).checkpoints(job).await.unwrap().unwrap();
    assert_eq!(shown.latest_restored, Some(restored));
    let failed_at = failures[0].root.failed_at;
    assert!(restored.restored_at > failed_at && restored.restored_at <= world.env.clock().wall());
    let next = world.until_checkpoint(&jm, job, restored.id).await;
    let behaviour = world.behaviour.lock();
    let of_first = behaviour.triggered.iter().filter(|(e, _)| *e == Epoch(1));
    assert!(of_first.clone().all(|(_, id)| *id < next));
}

// Proves F36.
#[tokio::test(start_paused = true)]
async fn a_taskmanager_that_leaves_is_no_failure_to_a_job_without_restarts() {
    let world = World::new().await;
    let jm = world.jobmanager().await;
    let _stays = world.taskmanager(&jm, "tm-1", 2);
    let job = world
        .submit(
            &jm,
            word_count(&[
                ("checkpointing.interval", "1 s"),
                ("restart-strategy.type", "none"),
            ]),
        )
        .await;
    world.until_all_running(&jm, job, N_TASKS).await;
    let _spare = world.taskmanager(&jm, "tm-2", 2);
    world
        .until("both are there", async || {
            jm.taskmanagers().await.len() == 2
        })
        .await;

    // The same process says so over a new connection.
    let tm = &jm.taskmanagers().await[0];
    let (outgoing, _incoming) = mpsc::channel(64);
    let mut session = jm.connect_taskmanager(outgoing);
    let register = FromTaskmanager::Register(registration("tm-1", tm.incarnation, 2));
    session.receive(register).await.unwrap();
    session.receive(FromTaskmanager::Leaving).await.unwrap();
    // Its tasks end because it goes: whoever reads that knows already, and it is no failure.
    let ended = FromTaskmanager::SubtaskState {
        job,
        epoch: Epoch(1),
        subtask: SOURCE,
        attempt: Attempt(0),
        state: ExecutionState::Canceled,
        failure: None,
    };
    session.receive(ended).await.unwrap();
    world
        .until("it runs on the other one", async || {
            let details = jm.job(job).await.unwrap();
            details.epoch == Some(Epoch(2)) && details.overview.status == JobStatus::Running
        })
        .await;
    world.until_all_running(&jm, job, N_TASKS).await;
    let details = jm.job(job).await.unwrap();
    for subtask in details.vertices.iter().flat_map(|v| &v.subtasks) {
        let slot = subtask.slot.as_ref().unwrap();
        assert_eq!(slot.taskmanager.as_str(), "tm-2");
    }
}

// Proves HND-060.
#[tokio::test(start_paused = true)]
async fn what_a_replaced_taskmanager_acknowledges_counts_for_nothing() {
    let world = World::new().await;
    let jm = world.jobmanager().await;
    let lost = world.taskmanager(&jm, "tm-1", 2);
    let job = world.submit(&jm, word_count(CHECKPOINTED)).await;
    world.until_all_running(&jm, job, N_TASKS).await;
    lost.kill();
    world.until_status(&jm, job, JobStatus::Restarting).await;
    world.behaviour.lock().silent.insert(SOURCE);
    let _spare = world.taskmanager(&jm, "tm-2", 2);
    world.until_all_running(&jm, job, N_TASKS).await;
    world
        .until("a checkpoint waits for the source", async || {
            !jm.checkpoints(job).await.unwrap().in_progress.is_empty()
        })
        .await;
    let pending = jm.checkpoints(job).await.unwrap().in_progress[0];

    let (outgoing, _incoming) = mpsc::channel(64);
    let mut zombie = jm.connect_taskmanager(outgoing);
    let register =
        FromTaskmanager::Register(registration("tm-z", world.env.rng().incarnation(), 1));
    zombie.receive(register).await.unwrap();
    let task = |attempt| TaskAddress {
        subtask: SOURCE,
        attempt: Attempt(attempt),
    };
    let ack = |epoch, attempt| {
        let message = snapshot((job, Epoch(epoch), pending), task(attempt), &[]);
        FromTaskmanager::Acknowledge(Box::new(message))
    };
    zombie.receive(ack(1, 0)).await.unwrap();
    zombie.receive(ack(1, 1)).await.unwrap();
    let acknowledged = async || {
        let checkpoints = jm.checkpoints(job).await.unwrap();
        checkpoints.history.record(pending).unwrap().subtasks[&SOURCE].acknowledged
    };
    world.env.clock().sleep(Duration::from_millis(500)).await;
    assert_eq!(acknowledged().await, None);
    // The same words from the execution that counts do count.
    zombie.receive(ack(2, 1)).await.unwrap();
    world.env.clock().sleep(Duration::from_millis(100)).await;
    assert!(acknowledged().await.is_some());
}

#[tokio::test(start_paused = true)]
async fn a_taskmanager_that_was_silent_for_too_long_is_cut_and_not_taken_back() {
    let world = World::new().await;
    let jm = world.jobmanager().await;
    let incarnation = world.env.rng().incarnation();
    let (outgoing, mut incoming) = mpsc::channel(64);
    let mut paused = jm.connect_taskmanager(outgoing);
    let register = FromTaskmanager::Register(registration("tm-1", incarnation, 2));
    paused.receive(register.clone()).await.unwrap();
    world
        .until("it is given up", async || {
            jm.taskmanagers().await.is_empty()
        })
        .await;
    // Its stream ends, and what it says counts for nothing.
    while incoming.recv().await.is_some() {}
    let late = paused.receive(FromTaskmanager::Leaving).await;
    assert_eq!(late, Err(SessionError::Closed));

    let (outgoing, mut incoming) = mpsc::channel(64);
    let mut again = jm.connect_taskmanager(outgoing);
    let taskmanager = TaskmanagerId::new("tm-1").unwrap();
    let refusal = RegistrationRefusal::DeclaredDead { taskmanager };
    let answer = again.receive(register).await;
    assert_eq!(answer, Err(SessionError::Refused(refusal.clone())));
    drop(again);
    let told = incoming.recv().await;
    assert_eq!(told, Some(ToTaskmanager::RegistrationRefused(refusal)));
}

#[tokio::test(start_paused = true)]
async fn a_restarted_process_takes_the_place_of_one_whose_connection_is_gone() {
    let world = World::new().await;
    let jm = world.jobmanager().await;
    let first = world.taskmanager(&jm, "tm-1", 2);
    world
        .until("it is there", async || jm.taskmanagers().await.len() == 1)
        .await;
    let old = jm.taskmanagers().await[0].incarnation;
    first.kill();
    world
        .until("its connection is gone", async || {
            jm.taskmanagers().await.iter().all(|tm| !tm.is_connected)
        })
        .await;
    let _second = world.taskmanager(&jm, "tm-1", 2);
    world
        .until("the new one is there", async || {
            let all = jm.taskmanagers().await;
            all.first()
                .is_some_and(|tm| tm.is_connected && tm.incarnation != old)
        })
        .await;
}

/// Cites A1-2.
#[tokio::test(start_paused = true)]
async fn too_many_failed_checkpoints_fail_the_job_and_say_which_why_and_who() {
    let world = World::new().await;
    world.behaviour.lock().declines = true;
    let jm = world.jobmanager().await;
    let _tm = world.taskmanager(&jm, "tm-1", 2);
    let job = world
        .submit(
            &jm,
            word_count(&[
                ("checkpointing.interval", "1 s"),
                ("checkpointing.tolerable-failed-checkpoints", "2"),
                ("restart-strategy.type", "none"),
            ]),
        )
        .await;
    world.until_status(&jm, job, JobStatus::Failed).await;
    let end = jm.job(job).await.unwrap().end.unwrap();
    let failure = end.failure.unwrap();
    assert_eq!(failure.kind, "CHECKPOINT_TOLERANCE");
    assert!(
        failure
            .message
            .starts_with("Exceeded checkpoint tolerable failure threshold."),
        "{}",
        failure.message
    );
    let causes = failure.causes.join("\n");
    for id in ["1", "2", "3"] {
        assert!(causes.contains(&format!("checkpoint {id}")), "{causes}");
    }
    assert!(causes.contains("lines"), "{causes}");
    let checkpoints = jm.checkpoints(job).await.unwrap();
    assert_eq!(checkpoints.history.counts().failed, 3);
}

// Proves F84: no failed checkpoint is tolerated here, and none is counted.
#[tokio::test(start_paused = true)]
async fn a_task_that_fails_in_its_snapshot_is_a_matter_of_the_restart_strategy_alone() {
    let world = World::new().await;
    world.behaviour.lock().throws = Some(SOURCE);
    let jm = world.jobmanager().await;
    let _tm = world.taskmanager(&jm, "tm-1", 2);
    let settings = [
        CHECKPOINTED,
        &[("checkpointing.tolerable-failed-checkpoints", "0")][..],
    ];
    let job = world.submit(&jm, word_count(&settings.concat())).await;
    world
        .until("it was restarted three times", async || {
            jm.job(job).await.unwrap().overview.restarts >= 3
        })
        .await;
    let details = jm.job(job).await.unwrap();
    let failures: Vec<_> = details.failures.entries().collect();
    assert!(failures.len() >= 3, "{failures:?}");
    for wave in failures {
        let root = &wave.root;
        assert_eq!(root.failure.kind, FailureKind::SynchronousSnapshot);
        assert_eq!(root.task.as_ref().map(|task| task.subtask), Some(SOURCE));
        assert!(wave.concurrent.is_empty(), "{wave:?}");
    }
    world.behaviour.lock().throws = None;
    world.until_checkpoint(&jm, job, CheckpointId(3)).await;
}

#[tokio::test(start_paused = true)]
async fn the_end_of_a_job_process_is_one_failure_of_all_its_tasks() {
    let world = World::new().await;
    let jm = world.jobmanager().await;
    let _tm = world.taskmanager(&jm, "tm-1", 2);
    let job = world.submit(&jm, word_count(CHECKPOINTED)).await;
    world.until_all_running(&jm, job, N_TASKS).await;

    let tm = &jm.taskmanagers().await[0];
    let (outgoing, _incoming) = mpsc::channel(64);
    let mut session = jm.connect_taskmanager(outgoing);
    let register = FromTaskmanager::Register(registration("tm-1", tm.incarnation, 2));
    session.receive(register).await.unwrap();
    let died = |epoch| FromTaskmanager::JobProcessFailed {
        job,
        epoch: Epoch(epoch),
        failure: FailureInfo::new(FailureKind::JobProcess, "the job process was killed"),
    };
    // Of an epoch that is over it is no news.
    session.receive(died(0)).await.unwrap();
    session.receive(died(1)).await.unwrap();
    world.until_status(&jm, job, JobStatus::Restarting).await;
    let details = jm.job(job).await.unwrap();
    let failures: Vec<_> = details.failures.entries().collect();
    assert_eq!(failures.len(), 1);
    assert_eq!(failures[0].concurrent.len(), N_TASKS - 1);
}
