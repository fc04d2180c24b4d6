//! When checkpoints begin.

use super::*;

fn with_pause(interval_s: u64, pause_s: u64) -> CheckpointPolicy {
    CheckpointPolicy {
        min_pause: Duration::from_secs(pause_s),
        ..policy(interval_s)
    }
}

// Proves F43.
#[test]
fn the_first_trigger_is_random_between_pause_and_interval_then_every_interval() {
    for (random, first) in [(0, 2.0), (u64::MAX / 2, 6.0), (u64::MAX, 10.0)] {
        let mut script = Script::running(with_pause(10, 2), random);
        script.completing_after(0, 35);
        let times: Vec<f64> = script.triggers().iter().map(|(at, _)| *at).collect();
        for (n, time) in times.iter().enumerate() {
            let expected = first + 10.0 * n as f64;
            assert!(
                (time - expected).abs() < 0.002,
                "{time} instead of {expected}"
            );
        }
        assert!(times.len() >= 3);
    }
}

// Proves F44.
#[test]
fn nothing_is_triggered_before_every_task_runs() {
    let mut script = Script::new(policy(10), 1);
    script.start(0, 0, None);
    script.state(0, SOURCE, ExecutionState::Running);
    script.run_until(100_000);
    assert_eq!(script.triggers(), []);
    assert_eq!(script.coordinator.history().records().count(), 0);
    script.state(100_000, SINK, ExecutionState::Running);
    script.run_until(100_000);
    assert_eq!(script.triggers(), [(100.0, 1)]);
}

// Proves F44, the second half, and F81.
#[test]
fn triggering_as_soon_as_the_job_runs_gives_refused_rows_that_do_not_count() {
    let mut script = Script::new(
        CheckpointPolicy {
            trigger_when: TriggerWhen::JobRunning,
            tolerable_failed: 0,
            ..policy(10)
        },
        1,
    );
    script.start(0, 0, None);
    script.run_until(1_000_000);
    assert_eq!(script.coordinator.history().counts().refused, 101);
    assert!(script.job_failures().is_empty());
    let row = script.coordinator.history().records().next().unwrap();
    assert_eq!((row.id, row.status), (None, CheckpointStatus::Refused));
    let failure = row.failure.as_ref().unwrap();
    assert_eq!(failure.reason, FailureReason::NotAllRequiredTasksRunning);
    assert!(
        failure.message.contains("source (1/1)"),
        "{}",
        failure.message
    );
}

// Proves F45.
#[test]
fn the_pause_moves_the_schedule() {
    let mut script = Script::running(with_pause(10, 8), u64::MAX);
    script.completing_after(4, 40);
    assert_eq!(script.triggers(), [(10.0, 1), (22.0, 2), (34.0, 3)]);
}

// Proves F46.
#[test]
fn checkpoints_longer_than_the_interval_run_back_to_back() {
    let mut script = Script::running(policy(5), u64::MAX);
    script.completing_after(12, 42);
    assert_eq!(
        script.triggers(),
        [(5.0, 1), (17.0, 2), (29.0, 3), (41.0, 4)]
    );
}

// Proves F47.
#[test]
fn the_pause_counts_from_the_completion() {
    let mut script = Script::running(with_pause(5, 3), u64::MAX);
    script.completing_after(12, 36);
    assert_eq!(script.triggers(), [(5.0, 1), (20.0, 2), (35.0, 3)]);
}

// Proves F48.
#[test]
fn a_failure_does_not_begin_a_pause() {
    let mut script = Script::running(with_pause(60, 60), 0);
    script.run_until(120_000);
    assert_eq!(script.triggers(), [(60.0, 1), (120.0, 2)]);
    assert_eq!(script.reason(1), FailureReason::Expired);
}

// Proves F52, as far as there are no savepoints: at the limit both kinds wait, a user first.
#[test]
fn at_the_limit_requests_wait_and_a_user_goes_first() {
    let mut script = Script::running(
        CheckpointPolicy {
            max_concurrent: 2,
            ..policy(10)
        },
        u64::MAX,
    );
    script.run_until(45_000);
    assert_eq!(script.triggers(), [(10.0, 1), (20.0, 2)]);
    script.at(46_000, Event::Request(RequestId(5)));
    assert_eq!(script.triggers().len(), 2);
    script.ack_all(47_000, 1);
    let kinds: Vec<_> = [1, 2, 3].map(|id| script.record(id).kind).into();
    assert_eq!(
        kinds,
        [
            CheckpointKind::Periodic,
            CheckpointKind::Periodic,
            CheckpointKind::Manual
        ]
    );
}

#[test]
fn a_user_does_not_wait_for_the_pause() {
    let mut script = Script::running(with_pause(60, 60), 0);
    script.run_until(60_000);
    script.ack_all(61_000, 1);
    let actions = script.at(62_000, Event::Request(RequestId(9)));
    assert_eq!(kinds(&actions), ["trigger"]);
    script.ack(63_000, SOURCE, 2);
    let actions = script.ack(63_000, SINK, 2);
    assert!(actions.contains(&Action::Answer {
        request: RequestId(9),
        result: Ok(CheckpointId(2)),
    }));
}

// Proves F53.
#[test]
fn whoever_cannot_delete_does_not_write_ever_more() {
    let mut script = Script::running(
        CheckpointPolicy {
            num_retained: 1,
            ..policy(10)
        },
        u64::MAX,
    );
    script.deletes = false;
    script.completing_after(1, 200);
    let begun = script.triggers().len();
    assert_eq!(
        begun, 3,
        "two deletions are open: one more than the limit of one"
    );
    script.at(201_000, Event::Deleted { ticket: 0 });
    assert_eq!(script.triggers().len(), 4);
}

// Proves F54.
#[test]
fn ids_rise_for_the_life_of_the_job_and_are_asked_for_when_they_run_out() {
    let mut script = Script::running(policy(10), u64::MAX);
    script.run_until(10_000);
    script.at(11_000, Event::Suspended);
    script.start(12_000, u64::MAX, None);
    script.all(12_000, ExecutionState::Running);
    script.run_until(22_000);
    assert_eq!(script.triggers(), [(10.0, 1), (22.0, 1001)]);

    let mut script = Script::new(policy(10), 1);
    let (epoch, attempt) = (Epoch(1), Attempt(0));
    script.epoch = 1;
    let started = Event::Started {
        epoch,
        attempts: [SOURCE, SINK].map(|s| (s, attempt)).into(),
        ids: CheckpointIds::block(CheckpointId(42), 1),
        restored: Some(CheckpointId(41)),
        retained: Vec::new(),
    };
    script.at(0, started);
    script.all(0, ExecutionState::Running);
    script.completing_after(0, 19);
    let asked = script.log.iter().filter(|(_, a)| *a == Action::ReserveIds);
    assert_eq!(asked.count(), 1);
    let more = CheckpointIds::block(CheckpointId(43), 10);
    script.at(19_500, Event::IdsReserved(more));
    let ids: Vec<u64> = script.triggers().iter().map(|(_, id)| *id).collect();
    assert_eq!(ids, [42, 43]);
    // Said again: nothing was asked for.
    script.at(
        19_600,
        Event::IdsReserved(CheckpointIds::block(CheckpointId(90), 10)),
    );
    script.ack_all(19_700, 43);
    script.at(19_800, Event::Request(RequestId(1)));
    assert_eq!(script.triggers().last().unwrap().1, 44);
}

// Proves F56.
#[test]
fn a_job_that_is_not_running_refuses_and_fails_requests() {
    let mut script = Script::running(policy(1000), u64::MAX);
    script.at(1_000, Event::Request(RequestId(1)));
    script.at(1_000, Event::Request(RequestId(2)));
    let actions = script.at(2_000, Event::Suspended);
    assert_eq!(kinds(&actions), ["refuse", "refuse", "aborted"]);
    assert_eq!(script.reason(1), FailureReason::CoordinatorSuspend);
    assert_eq!(
        kinds(&script.at(3_000, Event::Request(RequestId(3)))),
        ["refuse"]
    );
    assert_eq!(
        script.coordinator.consecutive_failures().0,
        0,
        "not counted"
    );
}

// Proves F57, that whoever finds no room is told so.
#[test]
fn a_request_beyond_a_thousand_that_wait_is_refused_for_that_reason() {
    let mut script = Script::running(policy(10_000), u64::MAX);
    // One is under way, a thousand wait.
    for id in 0..=1_000 {
        script.at(1_000, Event::Request(RequestId(id)));
    }
    let actions = script.at(1_000, Event::Request(RequestId(1_001)));
    let refused = actions.iter().find_map(|action| match action {
        Action::Answer {
            request: RequestId(1_001),
            result: Err(failure),
        } => Some(failure.reason),
        _ => None,
    });
    assert_eq!(refused, Some(FailureReason::TooManyRequests), "{actions:?}");
}

// Proves F58.
#[test]
fn an_id_that_cannot_be_reserved_is_a_counted_failure_without_a_pending_row() {
    let mut script = Script::new(policy(10), 1);
    script.epoch = 1;
    let started = Event::Started {
        epoch: Epoch(1),
        attempts: [SOURCE, SINK].map(|s| (s, Attempt(0))).into(),
        ids: CheckpointIds::block(CheckpointId(1), 0),
        restored: None,
        retained: Vec::new(),
    };
    script.at(0, started);
    script.all(0, ExecutionState::Running);
    script.run_until(0);
    let message = "the store does not answer".to_owned();
    script.at(1_000, Event::IdsNotReserved { message });
    assert_eq!(script.coordinator.pending().count(), 0);
    assert_eq!(script.coordinator.consecutive_failures(), (1, 100));
    let row = script.coordinator.history().records().next().unwrap();
    assert_eq!(
        row.failure.as_ref().unwrap().reason,
        FailureReason::IoException
    );
    script.run_until(10_000);
    let asked = script.log.iter().filter(|(_, a)| *a == Action::ReserveIds);
    assert_eq!(asked.count(), 2, "the next interval tries again");
}

#[test]
fn without_an_interval_only_users_take_checkpoints() {
    let mut script = Script::running(
        CheckpointPolicy {
            interval: None,
            ..policy(1)
        },
        0,
    );
    script.run_until(1_000_000);
    assert_eq!(script.triggers(), []);
    script.at(1_000_000, Event::Request(RequestId(1)));
    assert_eq!(script.triggers().len(), 1);
}
