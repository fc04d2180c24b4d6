//! Started, deployed to, replaced, given up.

use millstream_coordination::job::ExecutionState;
use millstream_coordination::protocol::{SnapshotMessage, TaskAddress};
use millstream_types::{Attempt, CheckpointId, SlotIndex};

use super::*;
use crate::testing::{deploy, state, subtask};

fn abandon(epoch: u64, slot: u32) -> ToTaskmanager {
    ToTaskmanager::Abandon {
        job: JOB,
        epoch: Epoch(epoch),
        slots: vec![SlotIndex(slot)],
    }
}

fn freed(slot: u32) -> Action {
    Action::Send(FromTaskmanager::SlotFreed {
        slot: SlotIndex(slot),
    })
}

fn cancel(epoch: u64, index: u32) -> ToTaskmanager {
    ToTaskmanager::Cancel {
        job: JOB,
        epoch: Epoch(epoch),
        subtasks: vec![TaskAddress::from((subtask(index), Attempt(0)))],
    }
}

fn acknowledge(epoch: u64) -> FromTaskmanager {
    FromTaskmanager::Acknowledge(Box::new(SnapshotMessage {
        job: JOB,
        epoch: Epoch(epoch),
        task: TaskAddress::from((subtask(0), Attempt(0))),
        checkpoint: CheckpointId(3),
        snapshot: Default::default(),
        metrics: Default::default(),
    }))
}

#[test]
fn a_process_is_started_once_and_then_deployed_to() {
    let mut bench = Bench::registered();
    bench.hear(start(1, &graph(None, 2)));
    bench.hear(start(1, &graph(None, 2)));
    assert_eq!(bench.take(), [start_process(1, 1)]);
    bench.say(1, started(1));
    bench.hear(start(1, &graph(None, 2)));
    assert_eq!(
        bench.take(),
        [Action::Send(started(1)), Action::Send(started(1))]
    );
    bench.hear(deploy(1, 0));
    bench.say(1, state(1, 0, ExecutionState::Running));
    let running = Action::Send(state(1, 0, ExecutionState::Running));
    assert_eq!(bench.take(), [tell(1, deploy(1, 0)), running]);
}

// Proves fence F7: only the newest epoch is listened to.
#[test]
fn messages_of_an_earlier_epoch_change_nothing() {
    let mut bench = Bench::registered();
    bench.hear(start(5, &graph(None, 2)));
    bench.say(1, started(5));
    bench.hear(deploy(5, 0));
    bench.take();
    bench.hear(start(4, &graph(None, 2)));
    bench.hear(deploy(4, 0));
    bench.hear(cancel(4, 0));
    bench.hear(ToTaskmanager::ReleaseJob {
        job: JOB,
        epoch: Epoch(4),
    });
    bench.hear(ToTaskmanager::NotifyCompleted {
        job: JOB,
        epoch: Epoch(4),
        subtasks: Vec::new(),
        checkpoint: CheckpointId(1),
    });
    assert_eq!(bench.take(), []);
}

#[test]
fn a_process_whose_tasks_all_ended_serves_the_next_epoch() {
    let mut bench = Bench::running();
    bench.hear(deploy(1, 0));
    bench.hear(cancel(1, 0));
    bench.say(1, state(1, 0, ExecutionState::Canceled));
    bench.take();
    bench.hear(start(2, &graph(None, 2)));
    assert_eq!(bench.take(), [tell(1, start(2, &graph(None, 2)))]);
    bench.say(1, started(2));
    bench.hear(deploy(2, 0));
    assert_eq!(
        bench.take(),
        [Action::Send(started(2)), tell(1, deploy(2, 0))]
    );
}

// Proves fence F7: the old task is killed and awaited before a new epoch begins.
#[test]
fn a_new_epoch_waits_until_a_process_with_old_tasks_is_reaped() {
    let mut bench = Bench::running();
    bench.hear(deploy(1, 0));
    bench.hear(cancel(1, 0));
    bench.take();
    bench.hear(start(2, &graph(None, 2)));
    assert_eq!(bench.take(), [kill(1)]);
    bench.say(1, acknowledge(1));
    bench.say(1, state(1, 0, ExecutionState::Finished));
    bench.pass_heard(5);
    assert_eq!(bench.take(), []);
    bench.ended(1);
    let canceled = Action::Send(state(1, 0, ExecutionState::Canceled));
    assert_eq!(bench.take(), [canceled, start_process(2, 2)]);
}

// Proves F127 at the taskmanager: what was given up has no voice.
#[test]
fn a_killed_process_says_nothing_that_counts() {
    let mut bench = Bench::running();
    bench.hear(deploy(1, 0));
    bench.say(1, acknowledge(1));
    assert!(bench.take().contains(&Action::Send(acknowledge(1))));
    bench.hear(abandon(1, 0));
    bench.take();
    bench.say(1, acknowledge(1));
    bench.say(1, state(1, 0, ExecutionState::Finished));
    assert_eq!(bench.take(), []);
}

// Proves HND-061: a slot is free when nothing can run in it, and that is said until it is heard.
#[test]
fn an_abandoned_slot_is_free_once_its_process_is_reaped_and_that_is_said_again() {
    let mut bench = Bench::running();
    bench.hear(deploy(1, 0));
    bench.take();
    bench.hear(abandon(1, 0));
    assert_eq!(bench.take(), [kill(1)]);
    assert_eq!(bench.supervisor.heartbeat().slots.len(), 1);
    bench.event(Event::Disconnected {
        reason: "reset".to_owned(),
    });
    bench.ended(1);
    bench.pass(1);
    bench.event(Event::Connected);
    bench.take();
    bench.hear(registered());
    assert_eq!(bench.take(), [freed(0)]);
    assert_eq!(bench.supervisor.heartbeat().slots, []);
    bench.hear(start(2, &graph(None, 2)));
    bench.say(2, started(2));
    bench.hear(deploy(2, 0));
    bench.event(Event::Disconnected {
        reason: "reset".to_owned(),
    });
    bench.pass(1);
    bench.event(Event::Connected);
    bench.take();
    bench.hear(registered());
    assert_eq!(bench.take(), [Action::Send(started(2))]);
}

#[test]
fn abandoned_slots_whose_tasks_ended_after_all_are_free_at_once() {
    let mut bench = Bench::running();
    bench.hear(deploy(1, 0));
    bench.say(1, state(1, 0, ExecutionState::Canceled));
    bench.take();
    bench.hear(abandon(1, 0));
    assert_eq!(bench.take(), [freed(0)]);
    bench.hear(ToTaskmanager::ReleaseJob {
        job: JOB,
        epoch: Epoch(1),
    });
    bench.ended(1);
    bench.take();
    bench.hear(abandon(1, 1));
    assert_eq!(bench.take(), [freed(1)]);
}

#[test]
fn a_process_that_ends_by_itself_is_a_failure_of_its_job() {
    let mut bench = Bench::running();
    bench.hear(deploy(1, 0));
    bench.take();
    bench.ended(1);
    let expected = FromTaskmanager::JobProcessFailed {
        job: JOB,
        epoch: Epoch(1),
        failure: failure("killed by signal 9"),
    };
    assert_eq!(bench.take(), [Action::Send(expected)]);
    bench.hear(deploy(1, 1));
    let actions = bench.take();
    assert!(matches!(
        &actions[..],
        [Action::Send(FromTaskmanager::SubtaskState {
            state: ExecutionState::Failed,
            failure: Some(_),
            ..
        })]
    ));
}

#[test]
fn a_process_that_cannot_be_made_ready_says_why() {
    let mut bench = Bench::registered();
    bench.hear(start(1, &graph(None, 2)));
    bench.take();
    let why = failure("storage /data cannot be used");
    let (job, epoch) = (JOB, Epoch(1));
    let told = FromTaskmanager::JobProcessFailed {
        job,
        epoch,
        failure: why,
    };
    bench.say(1, told.clone());
    assert_eq!(bench.take(), [kill(1)]);
    bench.ended(1);
    assert_eq!(bench.take(), [Action::Send(told)]);
}

#[test]
fn a_process_beyond_its_memory_budget_is_killed_with_that_cause() {
    let mut bench = Bench::running();
    bench.hear(deploy(1, 0));
    bench.hear(deploy(1, 1));
    bench.take();
    bench.process(1, ProcessEvent::Resident { bytes: 2_200 });
    assert_eq!(bench.take(), []);
    bench.process(1, ProcessEvent::Resident { bytes: 2_201 });
    assert_eq!(bench.take(), [kill(1)]);
    bench.ended(1);
    let actions = bench.take();
    let [Action::Send(FromTaskmanager::JobProcessFailed { failure, .. })] = &actions[..] else {
        panic!("{actions:?}");
    };
    assert_eq!(failure.kind, FailureKind::MemoryBudget);
    assert!(
        failure.message.starts_with("memory budget exceeded"),
        "{failure}"
    );
    assert!(
        failure
            .remedy
            .as_deref()
            .unwrap()
            .contains("taskmanager.memory.process.size")
    );
}

#[test]
fn a_released_job_ends_with_its_process_and_does_not_come_back() {
    let mut bench = Bench::running();
    bench.hear(deploy(1, 0));
    bench.take();
    bench.hear(ToTaskmanager::ReleaseJob {
        job: JOB,
        epoch: Epoch(1),
    });
    assert_eq!(bench.take(), [tell(1, cancel(1, 0))]);
    bench.say(1, state(1, 0, ExecutionState::Canceled));
    let canceled = Action::Send(state(1, 0, ExecutionState::Canceled));
    assert_eq!(bench.take(), [canceled, kill(1)]);
    bench.ended(1);
    bench.hear(start(1, &graph(None, 2)));
    assert_eq!(bench.take(), []);
    bench.hear(start(2, &graph(None, 2)));
    assert_eq!(bench.take(), [start_process(2, 2)]);
}

#[test]
fn canceling_what_does_not_run_here_is_answered_as_done() {
    let mut bench = Bench::registered();
    bench.hear(cancel(1, 0));
    let canceled = Action::Send(state(1, 0, ExecutionState::Canceled));
    assert_eq!(bench.take(), [canceled]);
}

#[test]
fn a_process_that_was_forgotten_by_the_jobmanager_ends() {
    let mut bench = Bench::running();
    bench.pass_heard(299);
    assert_eq!(bench.take(), []);
    bench.pass_heard(2);
    assert_eq!(bench.take(), [kill(1)]);
    bench.ended(1);
    assert_eq!(bench.take(), []);
}
