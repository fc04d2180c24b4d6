//! Acknowledgements, completion, what is kept and what is deleted.

use super::*;

// Proves F59. The order of the actions is that of fence F5.
#[test]
fn a_checkpoint_is_stored_then_on_the_chain_then_announced_once() {
    let mut script = Script::running(policy(10), 0);
    script.run_until(0);
    script.at(1_000, Event::Tick);
    assert_eq!(script.ack(2_000, SOURCE, 1), []);
    let actions = script.ack(3_000, SINK, 1);
    assert_eq!(kinds(&actions), ["store", "append", "completed"]);
    let Some(Action::NotifyCompleted {
        epoch, subtasks, ..
    }) = actions.last()
    else {
        panic!("{actions:?}");
    };
    assert_eq!(*epoch, Epoch(1));
    assert_eq!(*subtasks, [(SOURCE, Attempt(0)), (SINK, Attempt(0))]);
    assert_eq!(
        script.lines().last().unwrap(),
        &format!(
            "Completed checkpoint 1 for job {JOB} (20 bytes, checkpointDuration=3000 ms, \
             finalizationTime=0 ms)."
        )
    );
    assert_eq!(script.record(1).acknowledged(), (2, 2));
    let row = script.record(1).subtasks[&SOURCE].acknowledged.unwrap();
    assert_eq!((row.state_bytes, row.is_late), (10, false));
    assert_eq!(row.acknowledged_at, Moment::test(2_000).wall);
    let row = script.record(1);
    assert_eq!(row.duration, Some(Duration::from_secs(3)));
    assert_eq!(row.finalization, Some(Duration::ZERO));
    assert_eq!(row.state_bytes, Some(20));
    assert_eq!(row.metadata, Some(metadata_name(1)));
    let kept = script.coordinator.retained().next().unwrap();
    assert_eq!(kept.metadata, metadata_name(1));
    assert_eq!(kept.checkpoint.operators.len(), 2);
}

// Metadata without an entry on the chain is no checkpoint, and goes (F60 without a crash).
#[test]
fn metadata_whose_entry_was_not_written_is_deleted_and_the_checkpoint_failed() {
    let mut script = Script::running(policy(10), 0);
    script.run_until(0);
    script.appends = false;
    script.ack_all(1_000, 1);
    let not_appended = Event::NotAppended {
        checkpoint: CheckpointId(1),
        message: "no space".into(),
    };
    let actions = script.at(2_000, not_appended);
    assert_eq!(kinds(&actions), ["aborted", "delete"]);
    assert!(script.deleted().contains(&metadata_name(1)));
    assert_eq!(script.reason(1), FailureReason::FinalizeFailure);
    assert_eq!(script.coordinator.consecutive_failures().0, 1, "counted");
    assert_eq!(script.coordinator.retained().count(), 0);
}

// Proves F61.
#[test]
fn a_repeated_acknowledgement_is_ignored_and_deletes_nothing() {
    let mut script = Script::running(policy(10), 0);
    script.run_until(0);
    script.ack(1_000, SOURCE, 1);
    assert_eq!(script.ack(1_100, SOURCE, 1), []);
    script.ack(1_200, SINK, 1);
    script.ack(1_300, SOURCE, 1);
    assert_eq!(script.deleted(), []);
    // Also when it arrives from before a restart.
    let late = script.ack_of(SOURCE, 1);
    script.at(2_000, Event::Suspended);
    script.at(2_100, Event::Acknowledge(Box::new(late.clone())));
    script.start(3_000, u64::MAX, Some(1));
    script.at(3_100, Event::Acknowledge(Box::new(late)));
    assert_eq!(script.deleted(), []);
}

// Proves F62.
#[test]
fn an_acknowledgement_of_another_attempt_is_discarded_and_the_checkpoint_goes_on() {
    let mut script = Script::running(policy(10), 0);
    script.run_until(0);
    let mut ack = script.ack_of(SOURCE, 1);
    ack.attempt = Attempt(9);
    let actions = script.at(1_000, Event::Acknowledge(Box::new(ack)));
    assert_eq!(kinds(&actions), ["delete"]);
    assert!(script.lines().last().unwrap().contains("source (1/1)#9"));
    let logged = actions.iter().find_map(|action| match action {
        Action::Log(notice) => Some(notice.level()),
        _ => None,
    });
    assert_eq!(logged, Some(Level::Warn));
    let actions = script.ack_all(2_000, 1);
    assert_eq!(kinds(&actions), ["store", "append", "completed"]);
}

/// Proves I9: an acknowledgement of an older epoch counts for nothing.
#[test]
fn an_acknowledgement_of_a_fenced_epoch_is_refused_and_its_objects_deleted() {
    let mut script = Script::running(policy(10), u64::MAX);
    script.run_until(10_000);
    let zombie = script.ack_of(SOURCE, 1);
    script.at(11_000, Event::Suspended);
    script.start(12_000, 0, None);
    script.all(12_000, ExecutionState::Running);
    script.run_until(12_000);
    let mut zombie_of_the_new_one = zombie.clone();
    zombie_of_the_new_one.checkpoint = CheckpointId(1001);
    for ack in [zombie, zombie_of_the_new_one] {
        let actions = script.at(13_000, Event::Acknowledge(Box::new(ack)));
        assert!(
            script
                .lines()
                .last()
                .unwrap()
                .starts_with("Refused acknowledgement")
        );
        assert_eq!(kinds(&actions), ["delete"]);
    }
    script.ack(14_000, SINK, 1001);
    assert_eq!(script.record(1001).status, CheckpointStatus::InProgress);
    assert!(script.deleted().contains(&private(1, 1, SOURCE)));
}

// Proves F63.
#[test]
fn an_acknowledgement_after_the_expiry_is_late_deleted_and_seen_in_the_history() {
    let mut script = Script::running(policy(1000), 0);
    script.ack(1_000, SINK, 1);
    script.run_until(60_000);
    assert_eq!(script.reason(1), FailureReason::Expired);
    script.ack(61_000, SOURCE, 1);
    assert_eq!(
        script.lines().last().unwrap(),
        &format!(
            "Received late message for now expired checkpoint attempt 1 from task source (1/1)#0 \
             of job {JOB} at tm-1 @ host-1."
        )
    );
    for subtask in [SOURCE, SINK] {
        assert!(script.deleted().contains(&private(1, 1, subtask)));
    }
    let late = &script.record(1).subtasks[&SOURCE];
    assert!(late.acknowledged.unwrap().is_late);
    assert_eq!(script.record(1).acknowledged(), (1, 2));
}

// Proves F64.
#[test]
fn an_acknowledgement_of_a_forgotten_id_is_only_a_detail() {
    let mut script = Script::running(policy(10), 0);
    script.run_until(0);
    script.decline(500, SOURCE, 1, DeclineReason::Generic);
    script.completing_after(1, 200);
    let actions = script.ack(205_500, SINK, 1);
    let Action::Log(notice) = &actions[0] else {
        panic!("{actions:?}");
    };
    assert_eq!(notice.level(), Level::Debug);
    assert_eq!(kinds(&actions), ["delete"]);
}

// Proves F65.
#[test]
fn an_acknowledgement_for_another_job_is_an_error_and_ignored() {
    let mut script = Script::running(policy(10), 0);
    script.run_until(0);
    // The last one that is missing: taken, it would complete the checkpoint.
    script.ack(500, SINK, 1);
    let mut ack = script.ack_of(SOURCE, 1);
    ack.job = JobId::from_bytes([1; 16]);
    let actions = script.at(1_000, Event::Acknowledge(Box::new(ack)));
    assert!(matches!(
        &actions[..],
        [Action::Log(Notice::WrongJob { .. })]
    ));
}

// Proves F69.
#[test]
fn a_completed_checkpoint_subsumes_the_older_pending_one() {
    let mut script = Script::running(
        CheckpointPolicy {
            max_concurrent: 2,
            ..policy(10)
        },
        0,
    );
    script.run_until(10_000);
    let actions = script.ack_all(11_000, 2);
    assert_eq!(kinds(&actions), ["store", "append", "aborted", "completed"]);
    assert_eq!(script.reason(1), FailureReason::Subsumed);
    assert_eq!(script.coordinator.consecutive_failures().0, 0);
}

// Proves F70.
#[test]
fn the_oldest_checkpoint_beyond_the_number_kept_is_deleted() {
    let mut script = Script::running(policy(10), 0);
    script.completing_after(1, 25);
    let kept: Vec<_> = script
        .coordinator
        .retained()
        .map(|r| r.checkpoint.id.0)
        .collect();
    assert_eq!(kept, [2, 3]);
    let mut deleted = script.deleted();
    deleted.sort();
    assert_eq!(
        deleted,
        [private(1, 1, SOURCE), private(1, 1, SINK), metadata_name(1)]
    );
    assert!(script.record(1).is_discarded);
}

// Proves F71.
#[test]
fn metadata_of_unknown_fate_is_kept_and_the_next_checkpoint_proceeds() {
    let mut script = Script::running(policy(10), 0);
    script.run_until(0);
    script.stores_metadata = false;
    script.ack_all(1_000, 1);
    let unknown = Event::MetadataNotStored {
        checkpoint: CheckpointId(1),
        outcome: WriteOutcome::MayHaveHappened,
        message: "connection reset".into(),
    };
    script.at(2_000, unknown);
    script.stores_metadata = true;
    script.ack(3_000, SOURCE, 1);
    script.completing_after(1, 200);
    assert!(
        script
            .lines()
            .iter()
            .any(|line| line.contains("its files are kept"))
    );
    assert!(!script.deleted().contains(&private(1, 1, SOURCE)));
    assert_eq!(script.record(2).status, CheckpointStatus::Completed);
}

#[test]
fn metadata_that_was_surely_not_written_is_a_counted_failure_that_deletes() {
    let mut script = Script::running(policy(1000), 0);
    script.stores_metadata = false;
    script.ack_all(1_000, 1);
    let failed = Event::MetadataNotStored {
        checkpoint: CheckpointId(1),
        outcome: WriteOutcome::DidNotHappen,
        message: "403".into(),
    };
    script.at(2_000, failed);
    assert_eq!(script.coordinator.consecutive_failures().0, 1);
    assert!(script.deleted().contains(&private(1, 1, SINK)));
}

// Proves F73.
#[test]
fn the_timeout_covers_finalisation_and_late_metadata_is_deleted() {
    let mut script = Script::running(
        CheckpointPolicy {
            max_concurrent: 2,
            ..policy(50)
        },
        0,
    );
    script.stores_metadata = false;
    script.ack_all(1_000, 1);
    script.run_until(50_000);
    script.ack(51_000, SOURCE, 2);
    script.run_until(60_000);
    assert_eq!(script.reason(1), FailureReason::Expired);
    script.at(61_000, metadata_stored(1));
    assert!(script.deleted().contains(&metadata_name(1)));
    assert!(!kinds_of_all(&script).contains(&"append"));
    script.stores_metadata = true;
    let actions = script.ack(62_000, SINK, 2);
    assert_eq!(kinds(&actions), ["store", "append", "completed"]);
}

fn kinds_of_all(script: &Script) -> Vec<&'static str> {
    let actions: Vec<_> = script
        .log
        .iter()
        .map(|(_, action)| action.clone())
        .collect();
    kinds(&actions)
}

/// An entry under way cannot be taken back: the timeout counts it and makes room, and whatever
/// the chain then says is the truth.
#[test]
fn an_append_that_outlasts_the_timeout_is_counted_but_nobody_is_told_before_it_is_known() {
    let mut script = Script::running(policy(1000), 0);
    script.appends = false;
    script.at(500, Event::Request(RequestId(3)));
    script.ack_all(1_000, 1);
    script.run_until(60_000);
    assert_eq!(script.reason(1), FailureReason::Expired);
    assert_eq!(script.coordinator.consecutive_failures().0, 1);
    let so_far = kinds_of_all(&script);
    assert!(
        !so_far.contains(&"aborted") && !so_far.contains(&"completed"),
        "{so_far:?}"
    );
    assert_eq!(script.triggers().len(), 2, "the next one may begin");
    let appended = Event::Appended {
        checkpoint: CheckpointId(1),
    };
    assert_eq!(kinds(&script.at(61_000, appended.clone())), ["completed"]);
    assert_eq!(script.record(1).status, CheckpointStatus::Completed);
    assert_eq!(script.at(62_000, appended), [], "said twice");
}

#[test]
fn an_append_that_outlasted_the_timeout_and_did_not_happen_is_given_up_then() {
    let mut script = Script::running(policy(1000), 0);
    script.appends = false;
    script.ack_all(1_000, 1);
    script.run_until(60_000);
    let not_appended = Event::NotAppended {
        checkpoint: CheckpointId(1),
        message: "refused".into(),
    };
    assert_eq!(
        kinds(&script.at(61_000, not_appended)),
        ["aborted", "delete"]
    );
    assert_eq!(
        script.coordinator.consecutive_failures().0,
        1,
        "counted once"
    );
}

// Proves F74 on this side: the notice of a later checkpoint stands for all before it.
#[test]
fn the_notice_of_a_checkpoint_goes_to_every_task_that_runs() {
    let mut script = Script::running(policy(10), 0);
    script.completing_after(1, 15);
    let notified: Vec<_> = script
        .log
        .iter()
        .filter_map(|(_, action)| match action {
            Action::NotifyCompleted {
                checkpoint,
                subtasks,
                ..
            } => Some((checkpoint.0, subtasks.len())),
            _ => None,
        })
        .collect();
    assert_eq!(notified, [(1, 2), (2, 2)]);
}

#[test]
fn an_uploader_that_says_nothing_is_waited_for_before_its_directory_is_swept() {
    let mut script = Script::running(policy(1000), 0);
    script.ack(1_000, SOURCE, 1);
    script.state(2_000, SINK, ExecutionState::Failed);
    assert_eq!(script.deleted(), []);
    script.run_until(61_999);
    assert_eq!(script.deleted(), []);
    script.run_until(62_000);
    assert_eq!(script.deleted(), [private(1, 1, SOURCE)]);
    let (_, Action::Delete(deletion)) = script.log.last().unwrap() else {
        panic!("{:?}", script.log.last());
    };
    assert!(deletion.sweep);
}

#[test]
fn an_uploader_that_confirms_is_not_waited_for() {
    let mut script = Script::running(policy(1000), 0);
    script.ack(1_000, SOURCE, 1);
    script.state(2_000, SINK, ExecutionState::Failed);
    let stopped = Event::UploadStopped(UploadStopped {
        epoch: Epoch(1),
        subtask: SINK,
        checkpoint: CheckpointId(1),
        objects: Vec::new(),
    });
    assert_eq!(kinds(&script.at(2_500, stopped)), ["delete"]);
}
