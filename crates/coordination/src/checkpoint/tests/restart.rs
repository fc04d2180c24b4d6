//! What a restart does to checkpoints that were open.

use super::*;

#[test]
fn a_restart_aborts_what_is_open_without_counting_it() {
    let mut script = Script::running(policy(10), 0);
    script.run_until(0);
    let actions = script.at(1_000, Event::Suspended);
    assert_eq!(kinds(&actions), ["aborted"]);
    assert_eq!(script.coordinator.consecutive_failures().0, 0);
    script.start(5_000, 0, None);
    script.all(5_000, ExecutionState::Running);
    script.run_until(5_000);
    assert_eq!(script.triggers().last(), Some(&(5.0, 1001)));
}

/// The claim took the slot after it: the entry is on the chain, so the checkpoint exists.
#[test]
fn an_append_that_a_claim_found_on_the_chain_is_a_completed_checkpoint() {
    let mut script = Script::running(policy(10), 0);
    script.appends = false;
    script.run_until(0);
    script.ack_all(1_000, 1);
    script.at(2_000, Event::Suspended);
    assert_eq!(script.record(1).status, CheckpointStatus::InProgress);
    script.start(3_000, 0, Some(1));
    assert_eq!(script.record(1).status, CheckpointStatus::Completed);
    assert_eq!(script.coordinator.retained().count(), 1);
    assert_eq!(script.deleted(), []);
    let told = |(_, action): &(u64, Action)| matches!(action, Action::NotifyCompleted { .. });
    assert!(!script.log.iter().any(told), "the tasks restored it");
}

#[test]
fn an_append_that_a_claim_did_not_find_is_given_up_and_deleted() {
    let mut script = Script::running(policy(10), 0);
    script.appends = false;
    script.run_until(0);
    script.ack_all(1_000, 1);
    script.at(2_000, Event::Suspended);
    script.start(3_000, 0, None);
    assert_eq!(script.record(1).status, CheckpointStatus::Failed);
    assert!(script.deleted().contains(&metadata_name(1)));
    assert!(script.deleted().contains(&private(1, 1, SINK)));
}

#[test]
fn an_append_known_durable_between_suspension_and_claim_is_kept() {
    let mut script = Script::running(policy(10), 0);
    script.appends = false;
    script.run_until(0);
    script.ack_all(1_000, 1);
    script.at(2_000, Event::Suspended);
    let appended = Event::Appended {
        checkpoint: CheckpointId(1),
    };
    assert_eq!(kinds(&script.at(2_500, appended)), [""; 0]);
    assert_eq!(script.coordinator.retained().count(), 1);
}

/// A new jobmanager learns from the chain what there is, and forgets the oldest as ever.
#[test]
fn a_new_jobmanager_keeps_what_the_chain_has() {
    let mut earlier = Script::running(policy(10), 0);
    earlier.completing_after(1, 15);
    let retained: Vec<_> = earlier.coordinator.retained().cloned().collect();
    let mut script = Script::new(policy(10), 1);
    script.epoch = 2;
    let started = Event::Started {
        epoch: Epoch(2),
        attempts: [SOURCE, SINK].map(|s| (s, Attempt(1))).into(),
        ids: CheckpointIds::block(CheckpointId(101), 100),
        restored: Some(CheckpointId(2)),
        retained,
    };
    script.at(0, started);
    script.all(0, ExecutionState::Running);
    script.completing_after(1, 5);
    let kept: Vec<_> = script
        .coordinator
        .retained()
        .map(|r| r.checkpoint.id.0)
        .collect();
    assert_eq!(kept, [2, 101]);
    assert!(script.deleted().contains(&metadata_name(1)));
    assert_eq!(
        script.coordinator.history().latest_restored(),
        Some(RestoreRecord {
            id: CheckpointId(2),
            restored_at: Moment::test(0).wall,
        })
    );
}
