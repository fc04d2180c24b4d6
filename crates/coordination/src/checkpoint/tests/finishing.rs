//! Finished tasks and the final checkpoint.

use super::*;

impl Script {
    fn end_of_data(&mut self, millis: u64, subtask: SubtaskId) -> Vec<Action> {
        let (epoch, attempt) = self.current();
        let event = Event::EndOfData {
            epoch,
            subtask,
            attempt,
        };
        self.at(millis, event)
    }
}

fn hourly() -> CheckpointPolicy {
    CheckpointPolicy {
        min_pause: Duration::from_secs(1800),
        ..policy(3600)
    }
}

// Proves F119, as far as the coordinator goes.
#[test]
fn the_final_checkpoint_begins_when_the_last_task_is_at_the_end_of_its_data() {
    let mut script = Script::running(hourly(), u64::MAX);
    assert_eq!(script.end_of_data(5_000, SOURCE), []);
    let actions = script.end_of_data(6_000, SINK);
    assert_eq!(kinds(&actions), ["trigger"]);
    assert_eq!(script.record(1).kind, CheckpointKind::Final);
    let actions = script.ack_all(7_000, 1);
    assert_eq!(kinds(&actions), ["store", "append", "completed"]);
    // One is enough, however long the commit takes.
    script.run_until(3_000_000);
    assert_eq!(script.triggers().len(), 1);
}

#[test]
fn a_checkpoint_begun_before_the_end_of_data_is_not_the_final_one() {
    let mut script = Script::running(hourly(), u64::MAX);
    script.end_of_data(1_000, SOURCE);
    script.at(2_000, Event::Request(RequestId(1)));
    script.end_of_data(3_000, SINK);
    assert_eq!(script.triggers().len(), 1, "one at a time");
    script.ack_all(4_000, 1);
    assert_eq!(script.triggers(), [(2.0, 1), (4.0, 2)]);
    assert_eq!(script.record(2).kind, CheckpointKind::Final);
}

#[test]
fn a_checkpoint_that_a_user_asked_for_before_and_that_begins_after_is_as_good() {
    let mut script = Script::running(policy(1000), 0);
    script.at(1_000, Event::Request(RequestId(1)));
    script.end_of_data(2_000, SOURCE);
    script.end_of_data(3_000, SINK);
    script.ack_all(4_000, 1);
    script.ack_all(5_000, 2);
    assert_eq!(script.record(2).kind, CheckpointKind::Manual);
    script.run_until(900_000);
    assert_eq!(script.triggers(), [(0.0, 1), (4.0, 2)]);
}

// Proves F120.
#[test]
fn a_final_checkpoint_that_fails_is_tried_again_soon() {
    let mut script = Script::running(hourly(), u64::MAX);
    script.end_of_data(1_000, SOURCE);
    script.end_of_data(2_000, SINK);
    script.decline(3_000, SINK, 1, DeclineReason::AsyncException);
    script.run_until(7_999);
    assert_eq!(script.triggers().len(), 1);
    script.run_until(8_000);
    assert_eq!(script.triggers(), [(2.0, 1), (8.0, 2)]);
    script.ack_all(9_000, 2);
    assert_eq!(script.record(2).status, CheckpointStatus::Completed);
}

// Proves F121.
#[test]
fn a_task_that_finishes_between_plan_and_trigger_costs_one_checkpoint_and_does_not_count() {
    let mut script = Script::running(
        CheckpointPolicy {
            tolerable_failed: 0,
            ..policy(10)
        },
        0,
    );
    script.run_until(0);
    script.state(1_000, SOURCE, ExecutionState::Finished);
    assert_eq!(script.reason(1), FailureReason::DeclinedTaskClosing);
    assert!(script.job_failures().is_empty());
    script.run_until(10_000);
    let actions = script.ack(11_000, SINK, 2);
    assert_eq!(kinds(&actions), ["store", "append", "completed"]);
}

// Proves F113 and B5.3.
#[test]
fn finished_tasks_are_marked_and_neither_triggered_nor_told() {
    let mut script = Script::new(policy(10), 2);
    script.start(0, 0, None);
    script.all(0, ExecutionState::Running);
    script.state(0, subtask(0, 1), ExecutionState::Finished);
    script.run_until(0);
    // The one that was begun when all ran lost a task; this is the next.
    script.run_until(10_000);
    let (_, id) = *script.triggers().last().unwrap();
    let told = script
        .log
        .iter()
        .rev()
        .find_map(|(_, action)| match action {
            Action::Trigger { subtasks, .. } => Some(subtasks.clone()),
            _ => None,
        });
    assert_eq!(told, Some(vec![(SOURCE, Attempt(0))]));
    for subtask in [SOURCE, SINK, subtask(1, 1)] {
        script.ack(11_000, subtask, id);
    }
    let notified = script
        .log
        .iter()
        .rev()
        .find_map(|(_, action)| match action {
            Action::NotifyCompleted { subtasks, .. } => Some(subtasks.clone()),
            _ => None,
        });
    let notified = notified.expect("its end was told");
    assert!(notified.iter().any(|(told, _)| *told == SOURCE));
    assert!(notified.iter().all(|(told, _)| *told != subtask(0, 1)));
    let kept = script.coordinator.retained().next_back().unwrap();
    let source = &kept.checkpoint.operators[&OperatorUid::new("source").unwrap()];
    assert!(!source.fully_finished);
    assert!(source.subtasks[&1].finished && !source.subtasks[&0].finished);
}

// Proves F114.
#[test]
fn with_the_switch_off_finished_tasks_end_checkpoints_with_the_line_operators_know() {
    let mut script = Script::running(
        CheckpointPolicy {
            after_tasks_finish: false,
            tolerable_failed: 0,
            ..policy(10)
        },
        u64::MAX,
    );
    script.state(1_000, SOURCE, ExecutionState::Finished);
    script.run_until(10_000);
    assert_eq!(script.triggers(), []);
    assert!(script.lines().contains(&format!(
        "Failed to trigger checkpoint for job {JOB} since some tasks of job {JOB} has been \
         finished, abort the checkpoint Failure reason: Not all required tasks are currently \
         running."
    )));
    let row = script.coordinator.history().records().next().unwrap();
    assert!(
        row.failure
            .as_ref()
            .unwrap()
            .message
            .contains("source (1/1) FINISHED")
    );
    assert!(script.job_failures().is_empty());
}

// Proves F122, as far as the coordinator goes.
#[test]
fn without_checkpoints_the_end_of_data_triggers_nothing() {
    let mut script = Script::running(
        CheckpointPolicy {
            interval: None,
            ..policy(1)
        },
        0,
    );
    script.end_of_data(1_000, SOURCE);
    assert_eq!(script.end_of_data(2_000, SINK), []);
}

#[test]
fn an_end_of_data_of_an_older_attempt_does_not_count() {
    let mut script = Script::running(hourly(), u64::MAX);
    script.end_of_data(1_000, SOURCE);
    let event = Event::EndOfData {
        epoch: Epoch(1),
        subtask: SINK,
        attempt: Attempt(4),
    };
    assert_eq!(script.at(2_000, event), []);
}
