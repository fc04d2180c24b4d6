//! Declines, expiry, tolerance.

use super::*;

fn tolerating(tolerable_failed: u32, interval_s: u64) -> CheckpointPolicy {
    CheckpointPolicy {
        tolerable_failed,
        ..policy(interval_s)
    }
}

// Proves F66.
#[test]
fn a_decline_aborts_and_tells_every_task() {
    let mut script = Script::running(policy(10), 0);
    script.run_until(0);
    let actions = script.decline(1_000, SINK, 1, DeclineReason::Generic);
    assert!(script.lines().contains(&format!(
        "Decline checkpoint 1 by task sink (1/1)#0 of job {JOB} at tm-1 @ host-1."
    )));
    let Some(Action::NotifyAborted {
        subtasks,
        latest_completed,
        ..
    }) = actions
        .iter()
        .find(|a| matches!(a, Action::NotifyAborted { .. }))
    else {
        panic!("{actions:?}");
    };
    assert_eq!(subtasks.len(), 2);
    assert_eq!(*latest_completed, None);
    assert_eq!(script.reason(1), FailureReason::Declined);
}

// Proves F72.
#[test]
fn a_failed_task_aborts_what_it_has_not_acknowledged_and_nothing_else() {
    let mut script = Script::running(
        CheckpointPolicy {
            max_concurrent: 2,
            ..policy(10)
        },
        0,
    );
    script.run_until(10_000);
    script.ack(11_000, SINK, 1);
    script.state(12_000, SINK, ExecutionState::Failed);
    assert_eq!(script.reason(2), FailureReason::TaskFailure);
    let actions = script.ack(13_000, SOURCE, 1);
    assert_eq!(kinds(&actions), ["store", "append", "completed"]);
}

// Proves F76, and F87 for what it says.
#[test]
fn the_sixth_expiry_in_a_row_fails_the_job_1560_seconds_after_the_first_trigger() {
    let mut script = Script::running(tolerating(5, 300), 0);
    let activity = Event::Activity {
        subtask: SINK,
        activity: Some("in one user call for 57 s".into()),
    };
    script.at(0, activity);
    for id in 1..=6 {
        script.ack((id - 1) * 300_000 + 1_000, SOURCE, id);
    }
    script.run_until(1_600_000);
    let warned = |n: u32| format!("({n} consecutive failed attempts so far)");
    for n in 1..=6 {
        assert!(
            script.lines().iter().any(|line| line.contains(&warned(n))),
            "{n}"
        );
    }
    let failures = script.job_failures();
    let [(second, failure)] = failures.as_slice() else {
        panic!("{failures:?}");
    };
    assert_eq!(*second, 1_560);
    assert_eq!(failure.kind, FailureKind::CheckpointTolerance);
    assert_eq!(
        failure.message,
        "Exceeded checkpoint tolerable failure threshold."
    );
    assert_eq!(failure.causes.len(), 6);
    assert_eq!(
        failure.causes[5],
        "checkpoint 6: Checkpoint expired before completing. Not acknowledged by sink (1/1) \
         (in one user call for 57 s)"
    );
    let row = &script.record(6).subtasks[&SINK];
    assert_eq!(row.activity.as_deref(), Some("in one user call for 57 s"));
}

// What an expired checkpoint waited for is its cause, and nothing that is over by then.
#[test]
fn an_expired_checkpoint_says_what_it_waited_for() {
    let mut script = Script::running(tolerating(5, 100), 0);
    let doing = |activity: Option<&str>| Event::Activity {
        subtask: SINK,
        activity: activity.map(str::to_owned),
    };
    let message = |script: &Script, id| script.record(id).failure.as_ref().unwrap().message.clone();
    script.run_until(0);
    script.ack(1_000, SOURCE, 1);
    script.at(2_000, doing(Some("uploading to s3://b")));
    script.run_until(61_000);
    assert_eq!(
        message(&script, 1),
        "not complete after 1 min: not acknowledged by sink (1/1) (uploading to s3://b)"
    );

    script.at(62_000, doing(None));
    script.run_until(100_000);
    script.ack(101_000, SOURCE, 2);
    script.run_until(161_000);
    assert_eq!(
        message(&script, 2),
        "not complete after 1 min: not acknowledged by sink (1/1)"
    );
}

// Proves F77.
#[test]
fn with_none_tolerated_the_first_expiry_fails_the_job() {
    let mut script = Script::running(tolerating(0, 300), 0);
    script.run_until(60_000);
    assert_eq!(script.job_failures().len(), 1);
}

// Proves F79.
#[test]
fn two_subtasks_that_decline_one_checkpoint_count_once() {
    let mut script = Script::running(tolerating(1, 10), 0);
    script.run_until(0);
    script.decline(1_000, SOURCE, 1, DeclineReason::Generic);
    script.decline(1_100, SINK, 1, DeclineReason::Generic);
    assert_eq!(script.coordinator.consecutive_failures(), (1, 1));
    assert!(script.job_failures().is_empty());
}

// Proves F80.
#[test]
fn a_late_decline_of_an_older_checkpoint_does_not_count() {
    let mut script = Script::running(
        CheckpointPolicy {
            max_concurrent: 2,
            ..tolerating(0, 10)
        },
        0,
    );
    script.run_until(10_000);
    script.ack_all(11_000, 2);
    script.decline(12_000, SINK, 1, DeclineReason::Generic);
    assert!(script.job_failures().is_empty());
}

// Proves F82.
#[test]
fn reasons_that_say_nothing_about_the_job_do_not_count() {
    let mut script = Script::running(tolerating(0, 10), 0);
    let harmless = [
        DeclineReason::Subsumed,
        DeclineReason::OnCancellationBarrier,
        DeclineReason::TaskClosing,
        DeclineReason::TaskNotReady,
        DeclineReason::InputEndOfStream,
        DeclineReason::AlignmentLimit,
        DeclineReason::TaskNotCheckpointing,
    ];
    for (n, reason) in harmless.into_iter().enumerate() {
        let n = n as u64;
        script.decline(n * 10_000 + 500, SINK, n + 1, reason);
        assert_eq!(script.reason(n + 1), FailureReason::from(reason));
    }
    assert!(script.job_failures().is_empty());
}

// Proves F83, as far as the coordinator goes.
#[test]
fn a_failed_upload_is_attributed_to_its_attempt() {
    let mut script = Script::running(tolerating(0, 10), 0);
    script.run_until(0);
    let actions = script.decline(1_000, SINK, 1, DeclineReason::AsyncException);
    let attributed = actions.iter().find_map(|action| match action {
        Action::FailJob { attributed_to, .. } => Some(*attributed_to),
        _ => None,
    });
    assert_eq!(attributed, Some(Some((SINK, Attempt(0)))));
}

// Proves F86.
#[test]
fn the_streak_begins_anew_after_it_failed_the_job() {
    let mut script = Script::running(tolerating(1, 100), 0);
    script.run_until(399_000);
    let seconds: Vec<u64> = script.job_failures().iter().map(|(s, _)| *s).collect();
    assert_eq!(seconds, [160, 360]);
}

#[test]
fn a_trigger_that_does_not_arrive_aborts_without_counting() {
    let mut script = Script::running(tolerating(0, 10), 0);
    script.run_until(0);
    let failed = |epoch| Event::TriggerFailed {
        epoch: Epoch(epoch),
        checkpoint: CheckpointId(1),
        message: "connection refused".into(),
    };
    assert_eq!(script.at(1_000, failed(9)), [], "of another epoch");
    assert_eq!(kinds(&script.at(1_000, failed(1))), ["aborted"]);
    assert_eq!(script.reason(1), FailureReason::TriggerFailure);
    assert!(script.job_failures().is_empty());
}

#[test]
fn a_failed_trigger_that_is_known_after_every_task_acknowledged_is_late() {
    let mut script = Script::running(tolerating(0, 1000), 0);
    script.appends = false;
    script.ack_all(1_000, 1);
    let failed = Event::TriggerFailed {
        epoch: Epoch(1),
        checkpoint: CheckpointId(1),
        message: "connection reset".into(),
    };
    assert_eq!(script.at(2_000, failed), []);
    let appended = Event::Appended {
        checkpoint: CheckpointId(1),
    };
    assert_eq!(kinds(&script.at(3_000, appended)), ["completed"]);
}

#[test]
fn declines_that_are_late_repeated_or_of_nobody_change_nothing() {
    let mut script = Script::running(tolerating(0, 1000), 0);
    script.ack(1_000, SINK, 1);
    assert_eq!(
        script.decline(2_000, SINK, 1, DeclineReason::Generic),
        [],
        "acknowledged"
    );
    assert_eq!(
        script.decline(2_000, subtask(5, 5), 1, DeclineReason::Generic),
        []
    );
    assert_eq!(
        script.decline(2_000, SOURCE, 77, DeclineReason::Generic),
        []
    );
    for event in [
        metadata_stored(44),
        Event::Appended {
            checkpoint: CheckpointId(1),
        },
        Event::NotAppended {
            checkpoint: CheckpointId(1),
            message: String::new(),
        },
        Event::IdsNotReserved {
            message: String::new(),
        },
        Event::Deleted { ticket: 99 },
        Event::UploadStopped(UploadStopped {
            epoch: Epoch(1),
            subtask: SINK,
            checkpoint: CheckpointId(3),
            objects: Vec::new(),
        }),
        Event::Tick,
    ] {
        assert_eq!(script.at(3_000, event.clone()), [], "{event:?}");
    }
}

#[test]
fn the_history_keeps_fifty_rows_and_the_latest_of_each_kind() {
    let mut script = Script::running(policy(10), 0);
    script.decline(500, SINK, 1, DeclineReason::Generic);
    script.completing_after(1, 1_000);
    let history = script.coordinator.history();
    assert_eq!(history.records().count(), 50);
    assert_eq!(history.latest_failed().unwrap().id, Some(CheckpointId(1)));
    assert_eq!(history.counts().failed, 1);
    assert!(history.counts().completed > 50);
}
