//! Found, registered, lost and found again.

use millstream_coordination::job::ExecutionState;
use millstream_coordination::protocol::SlotReport;
use millstream_coordination::slots::RegistrationRefusal;
use millstream_types::{SlotIndex, TaskmanagerId};

use super::*;
use crate::sight::{Found, OtherStorage};
use crate::testing::{deploy, state, subtask};

fn refused(refusal: RegistrationRefusal) -> ToTaskmanager {
    ToTaskmanager::RegistrationRefused(refusal)
}

fn id() -> TaskmanagerId {
    TaskmanagerId::new("tm-1").unwrap()
}

#[test]
fn it_registers_first_and_is_heard_every_interval_then() {
    let mut bench = Bench::new();
    bench.event(Event::Tick);
    assert_eq!(bench.take(), [Action::Connect]);
    bench.event(Event::Connected);
    assert_eq!(bench.take(), [Action::Register]);
    bench.hear(registered());
    let heartbeats = |bench: &mut Bench| {
        let actions = std::mem::take(&mut bench.actions);
        let is_heartbeat =
            |action: &&Action| matches!(action, Action::Send(FromTaskmanager::Heartbeat(_)));
        actions.iter().filter(is_heartbeat).count()
    };
    assert_eq!(heartbeats(&mut bench), 1);
    bench.pass_heard(10);
    assert_eq!(heartbeats(&mut bench), 5);
}

#[test]
fn a_heartbeat_lists_tasks_as_deployments_and_states_passed() {
    let mut bench = Bench::running();
    bench.hear(deploy(1, 0));
    bench.hear(deploy(1, 1));
    bench.say(1, state(1, 1, ExecutionState::Finished));
    let heartbeat = bench.supervisor.heartbeat();
    let slot = SlotReport {
        slot: SlotIndex(0),
        job: JOB,
        epoch: Epoch(1),
    };
    assert_eq!(heartbeat.slots, [slot]);
    let tasks: Vec<_> = heartbeat.jobs[0]
        .tasks
        .iter()
        .map(|report| (report.task.subtask, report.task.state))
        .collect();
    let expected = [
        (subtask(0), ExecutionState::Deploying),
        (subtask(1), ExecutionState::Finished),
    ];
    assert_eq!(tasks, expected);
}

#[test]
fn without_a_jobmanager_it_tries_again_with_growing_pauses_and_ends_at_last() {
    let mut bench = Bench::new();
    bench.event(Event::Tick);
    let mut attempts = 0;
    for _ in 0..200 {
        let actions = bench.take();
        attempts += actions
            .iter()
            .filter(|action| **action == Action::Connect)
            .count();
        if let Some(Action::GiveUp { reason }) = actions.last() {
            assert_eq!(reason, "connection refused");
            assert!((20..40).contains(&attempts), "{attempts}");
            return;
        }
        bench.event(Event::ConnectFailed {
            reason: "connection refused".to_owned(),
        });
        bench.now = bench.supervisor.deadline();
        bench.event(Event::Tick);
    }
    panic!("it never gave up");
}

// A jobmanager is there: what is missing is waited for, far beyond the time to find one.
#[test]
fn a_storage_that_cannot_be_looked_at_is_looked_at_again_and_again() {
    let mut bench = Bench::new();
    bench.event(Event::Tick);
    for _ in 0..100 {
        assert_eq!(bench.take(), [Action::Connect]);
        bench.event(Event::StorageUnseen {
            reason: "503".to_owned(),
        });
        bench.now = bench.supervisor.deadline();
        bench.event(Event::Tick);
    }
    assert!(bench.now > MonoTime::from_millis(200_000));
    bench.take();
    bench.event(Event::Connected);
    assert_eq!(bench.take(), [Action::Register]);
}

#[test]
fn a_taskmanager_that_sees_another_storage_ends_before_it_registers() {
    let mut bench = Bench::new();
    bench.event(Event::Tick);
    bench.take();
    let other = Box::new(OtherStorage {
        jobmanager: "10.0.0.1:6123".to_owned(),
        location: "/ckpt".to_owned(),
        host: "tm-host".to_owned(),
        endpoint: None,
        found: Found::Nothing,
    });
    bench.event(Event::OtherStorage(other.clone()));
    assert_eq!(bench.take(), [Action::Refuse(other)]);
    assert_eq!(bench.supervisor.deadline(), MonoTime::NEVER);
    bench.event(Event::Tick);
    assert_eq!(bench.take(), []);
}

#[test]
fn a_refused_registration_is_tried_again() {
    let mut bench = Bench::new();
    bench.event(Event::Tick);
    bench.event(Event::Connected);
    bench.take();
    bench.hear(refused(RegistrationRefusal::DuplicateIdentity {
        taskmanager: id(),
    }));
    assert_eq!(bench.take(), [Action::Disconnect]);
    bench.pass(1);
    assert_eq!(bench.take(), [Action::Connect]);
}

#[test]
fn a_jobmanager_that_does_not_answer_a_registration_is_left() {
    let mut bench = Bench::new();
    bench.event(Event::Tick);
    bench.event(Event::Connected);
    bench.take();
    bench.pass(11);
    assert_eq!(bench.take(), [Action::Disconnect, Action::Connect]);
}

// Tasks go on while the jobmanager is away (DESIGN 1), and what may have been lost is said again
// (HND-061).
#[test]
fn a_jobmanager_that_comes_back_in_time_finds_its_tasks_at_work() {
    let mut bench = Bench::running();
    bench.hear(deploy(1, 0));
    bench.take();
    bench.event(Event::Disconnected {
        reason: "reset".to_owned(),
    });
    bench.pass(5);
    assert_eq!(bench.take(), [Action::Connect]);
    bench.event(Event::Connected);
    bench.hear(registered());
    assert_eq!(bench.take(), [Action::Register, Action::Send(started(1))]);
    bench.pass_heard(30);
    assert_eq!(bench.take(), []);
    assert_eq!(bench.supervisor.heartbeat().slots.len(), 1);
}

// B15: until the heartbeat timeout tasks go on, then they are canceled.
#[test]
fn tasks_of_a_lost_jobmanager_are_canceled_and_what_does_not_stop_is_killed() {
    let mut bench = Bench::running();
    bench.hear(deploy(1, 0));
    bench.take();
    bench.pass(9);
    assert_eq!(bench.take(), []);
    bench.pass(2);
    let actions = bench.take();
    let canceled = |action: &Action| {
        matches!(action, Action::Tell { message: ToTaskmanager::Cancel { subtasks, .. }, .. }
            if subtasks.len() == 1)
    };
    assert_eq!(actions[0], Action::Disconnect);
    assert!(canceled(&actions[1]), "{actions:?}");
    bench.pass(31);
    assert!(bench.take().contains(&kill(1)));
}

// Proves fence F20 of a taskmanager, and the first half of HND-060.
#[test]
fn after_a_long_pause_it_registers_again_before_anything_else() {
    let mut bench = Bench::running();
    bench.hear(deploy(1, 0));
    bench.take();
    bench.now += Duration::from_secs(40);
    bench.event(Event::Tick);
    assert_eq!(bench.take(), [Action::Disconnect]);
    bench.pass(1);
    assert_eq!(bench.take(), [Action::Connect]);
}

// HND-060: what was replaced stops for certain before this process is a member again, under
// another incarnation (fence F18).
#[test]
fn a_taskmanager_that_was_declared_dead_kills_its_tasks_and_comes_back_as_another() {
    let mut bench = Bench::running();
    bench.hear(deploy(1, 0));
    bench.event(Event::Disconnected {
        reason: "reset".to_owned(),
    });
    bench.pass(1);
    bench.event(Event::Connected);
    bench.take();
    bench.hear(refused(RegistrationRefusal::DeclaredDead {
        taskmanager: id(),
    }));
    assert_eq!(bench.take(), [Action::Disconnect, kill(1)]);
    bench.say(1, state(1, 0, ExecutionState::Running));
    bench.pass(5);
    assert_eq!(bench.take(), []);
    bench.ended(1);
    let actions = bench.take();
    let renewed = actions
        .iter()
        .position(|action| *action == Action::RenewIncarnation);
    let connect = actions.iter().position(|action| *action == Action::Connect);
    assert!(renewed.is_some() && renewed < connect, "{actions:?}");
    assert_eq!(bench.supervisor.heartbeat().slots, []);
}

#[test]
fn told_to_go_it_says_so_stops_its_tasks_and_goes_when_they_did() {
    let mut bench = Bench::running();
    bench.hear(deploy(1, 0));
    bench.take();
    bench.event(Event::Leave);
    let actions = bench.take();
    assert_eq!(actions[0], Action::Send(FromTaskmanager::Leaving));
    assert!(matches!(
        &actions[1],
        Action::Tell {
            message: ToTaskmanager::Cancel { .. },
            ..
        }
    ));
    bench.say(1, state(1, 0, ExecutionState::Canceled));
    assert!(bench.take().contains(&kill(1)));
    bench.ended(1);
    assert_eq!(bench.take().last(), Some(&Action::Drained));
}

#[test]
fn a_shutdown_waits_eight_seconds_for_tasks_and_no_longer() {
    let mut bench = Bench::running();
    bench.hear(deploy(1, 0));
    bench.event(Event::Leave);
    bench.take();
    bench.pass_heard(7);
    assert_eq!(bench.take(), []);
    bench.pass_heard(2);
    assert_eq!(bench.take(), [kill(1), Action::Drained]);
    assert_eq!(bench.supervisor.deadline(), MonoTime::NEVER);
}
