//! Failures, waves, restarts.

use super::*;

// Proves F18.
#[test]
fn fixed_delay_of_three_gives_four_executions_and_names_itself_at_the_end() {
    let mut script = Script::running(fixed(3, 2), 1);
    for second in [10, 20, 30, 40] {
        script.fail(second, subtask(0, 0));
        script.at(second + 2, Event::Tick);
        script.all_run(second + 2);
    }
    assert_eq!(script.attempts_of(subtask(0, 0)), [0, 1, 2, 3]);
    assert_eq!(script.job.status(), JobStatus::Failed);
    assert_eq!(
        script.end().unwrap().to_string(),
        "Recovery is suppressed by FixedDelayRestartBackoffTimeStrategy\
         (maxNumberRestartAttempts=3, backoffTimeMS=2000)"
    );
    assert_eq!(script.job.history().repeated(), 4);
    assert!(script.log.contains(&Action::RestartLoop { repeated: 3 }));
}

// Proves F16.
#[test]
fn without_a_strategy_the_first_failure_ends_the_job() {
    let mut script = Script::running(RestartStrategyConfig::None, 1);
    let actions = script.fail(5, subtask(1, 0));
    assert_eq!(
        Script::kinds(&actions),
        [
            "suspend checkpointing",
            "cancel",
            "write terminal",
            "suspend checkpointing",
            "release slots",
            "announce"
        ]
    );
    let end = script.end().unwrap();
    assert_eq!(
        end.to_string(),
        "Recovery is suppressed by NoRestartBackoffTimeStrategy"
    );
    assert_eq!(end.failure().unwrap().failure, user_error());
}

// Proves F29.
#[test]
fn a_lost_taskmanager_is_one_failure_with_the_others_attached() {
    for strategy in [
        fixed(1, 1),
        rate(1, 60),
        RestartStrategyConfig::ExponentialDelay(exponential(0.1, None)),
    ] {
        let mut script = Script::new(strategy, 4);
        script.taskmanagers = 1;
        script.at(0, Event::Start);
        script.all_run(0);
        script.lose(10, 0, FailureKind::TaskmanagerLost);
        let waves: Vec<_> = script.job.history().entries().collect();
        assert_eq!(waves.len(), 1);
        assert_eq!(waves[0].concurrent.len(), 7);
        assert_eq!(
            script.job.status(),
            JobStatus::Restarting,
            "one restart is allowed"
        );
    }
}

// Proves HND-065, as far as jobs and strategies go: eight tasks that are lost together are one failure.
#[test]
fn each_lost_taskmanager_is_one_step_of_the_delay_and_a_quiet_minute_is_a_new_start() {
    let second = std::time::Duration::from_secs(1);
    let strategy = RestartStrategyConfig::ExponentialDelay(ExponentialDelay {
        max_backoff: 10 * second,
        backoff_multiplier: 2.0,
        reset_backoff_threshold: 60 * second,
        ..exponential(0.0, None)
    });
    let lost_again_and_again = |strategy, losses: &[(u64, u64)]| {
        let mut script = Script::new(strategy, 4);
        script.taskmanagers = 1;
        script.at(0, Event::Start);
        script.all_run(0);
        let mut now = 0;
        for (pause, delay) in losses {
            now += pause;
            script.lose(now, 0, FailureKind::TaskmanagerLost);
            script.at_millis((now + delay) * 1000 - 1, Event::Tick);
            assert_eq!(
                script.job.status(),
                JobStatus::Restarting,
                "{now} + {delay}"
            );
            now += delay;
            script.at(now, Event::Tick);
            script.all_run(now);
            assert_eq!(script.job.status(), JobStatus::Running, "{now}");
        }
        (script, now)
    };
    let delays = [1, 2, 4, 8, 10, 10, 10].map(|delay| (1, delay));
    let (script, _) = lost_again_and_again(strategy.clone(), &[&delays[..], &[(70, 1)]].concat());
    for of in [subtask(0, 0), subtask(1, 3)] {
        assert_eq!(script.attempts_of(of), (0..=8).collect::<Vec<_>>());
    }
    let (mut script, now) = lost_again_and_again(fixed(2, 1), &[(1, 1), (1, 1)]);
    script.lose(now + 1, 0, FailureKind::TaskmanagerLost);
    assert_eq!(script.job.status(), JobStatus::Failed);
}

// Proves F31.
#[test]
fn a_failure_that_starting_again_cannot_help_is_final_at_once() {
    let mut script = Script::running(fixed(100, 1), 1);
    let failure = user_error().with_disposition(Disposition::FailJob);
    let failed = script.report(subtask(0, 0), ExecutionState::Failed, Some(failure));
    script.at(5, failed);
    assert_eq!(script.job.status(), JobStatus::Failed);
    assert_eq!(
        script.end().unwrap().to_string(),
        "The failure is not recoverable"
    );
}

// Proves F32: the delay and the cancellation run side by side.
#[test]
fn a_restart_waits_for_the_longer_of_delay_and_cancellation() {
    let mut script = Script::running(fixed(9, 10), 1);
    script.answers_cancels = false;
    script.fail(100, subtask(0, 0));
    assert_eq!(
        script.at(110, Event::Tick),
        [],
        "the sink has not stopped yet"
    );
    let stopped = script.report(subtask(1, 0), ExecutionState::Canceled, None);
    assert_eq!(script.attempts_of(subtask(0, 0)), [0]);
    script.at(125, stopped);
    assert_eq!(script.attempts_of(subtask(0, 0)), [0, 1]);

    let mut script = Script::running(fixed(9, 10), 1);
    script.fail(100, subtask(0, 0));
    assert_eq!(script.job.deadline(), MonoTime::from_millis(110_000));
    script.at_millis(109_999, Event::Tick);
    assert_eq!(script.attempts_of(subtask(0, 0)), [0]);
    script.at(110, Event::Tick);
    assert_eq!(script.attempts_of(subtask(0, 0)), [0, 1]);
}

// Proves F33.
#[test]
fn a_second_failure_during_the_delay_joins_the_wave() {
    let mut script = Script::running(fixed(1, 10), 2);
    script.answers_cancels = false;
    script.fail(100, subtask(0, 0));
    script.fail(101, subtask(1, 1));
    script.lose(103, 0, FailureKind::TaskmanagerLost);
    script.lose(104, 1, FailureKind::TaskmanagerLost);
    script.at(110, Event::Tick);
    script.all_run(110);
    assert_eq!(script.job.status(), JobStatus::Running);
    for subtask in script.slots().keys() {
        assert_eq!(script.attempts_of(*subtask), [0, 1], "{subtask:?}");
    }
    let waves: Vec<_> = script.job.history().entries().collect();
    assert_eq!(waves.len(), 1);
    let root = waves[0].root.task.as_ref().unwrap();
    assert_eq!(root.name, "source (1/2)");
    assert_eq!(waves[0].concurrent.len(), 3);
}

// Proves F34.
#[test]
fn errors_of_tasks_that_are_being_cancelled_count_for_nothing() {
    let mut script = Script::running(fixed(0, 1), 1);
    script.answers_cancels = false;
    script.at(10, Event::Cancel);
    script.fail(11, subtask(0, 0));
    script.lose(12, 0, FailureKind::TaskmanagerLost);
    assert_eq!(script.job.status(), JobStatus::Canceled);
    assert_eq!(script.job.history().entries().count(), 0);
    assert_eq!(script.end(), Some(&JobEnd::Canceled));
}

// Proves F35, as far as the job goes.
#[test]
fn a_new_jobmanager_goes_on_counting_attempts_and_starts_counting_failures_anew() {
    let mut script = Script::new(fixed(1, 1), 1);
    // Earlier jobmanagers claimed three times.
    script.epoch = 3;
    script.at(0, Event::Start);
    script.all_run(0);
    script.fail(10, subtask(0, 0));
    script.at(11, Event::Tick);
    assert_eq!(script.attempts_of(subtask(0, 0)), [3, 4]);
    assert_eq!(script.job.status(), JobStatus::Running);
    assert_eq!(script.job.history().entries().count(), 1);
}

// Proves F36.
#[test]
fn a_taskmanager_that_leaves_on_purpose_is_not_counted() {
    let mut script = Script::running(RestartStrategyConfig::None, 2);
    script.lose(10, 1, FailureKind::TaskmanagerLeaving);
    assert_eq!(script.job.status(), JobStatus::Running);
    assert_eq!(script.attempts_of(subtask(0, 0)), [0, 1]);
}

// Proves F83, as far as the job goes.
#[test]
fn a_failure_due_to_an_execution_that_was_replaced_is_ignored() {
    let mut script = Script::running(fixed(9, 0), 1);
    script.fail(1, subtask(0, 0));
    script.all_run(1);
    let due_to = |attempt| Event::Failed {
        failure: FailureInfo::new(FailureKind::CheckpointTolerance, "too many"),
        attributed_to: Some((subtask(0, 0), Attempt(attempt))),
    };
    script.at(2, due_to(0));
    assert_eq!(script.job.history().entries().count(), 1);
    script.at(3, due_to(1));
    assert_eq!(script.job.history().entries().count(), 2);
}

// Proves F9, as far as the job goes.
#[test]
fn a_job_without_slots_fails_through_its_restart_strategy() {
    let mut script = Script::new(fixed(1, 5), 1);
    script.answers_claims = false;
    script.at(0, Event::Start);
    let mut actions = Vec::new();
    let claimed = |epoch| Event::Claimed {
        epoch: Epoch(epoch),
        restore: None,
    };
    script.job.step(Moment::test(1), claimed(1), &mut actions);
    assert_eq!(script.job.status(), JobStatus::Created);
    let unavailable = |epoch| Event::SlotsUnavailable {
        epoch: Epoch(epoch),
        failure: FailureInfo::new(FailureKind::NoResourceAvailable, "no slots"),
    };
    script.at(300, unavailable(1));
    assert_eq!(script.job.status(), JobStatus::Restarting);
    script.at(305, Event::Tick);
    script
        .job
        .step(Moment::test(305_000), claimed(2), &mut actions);
    script.at(400, unavailable(1));
    assert_eq!(
        script.job.status(),
        JobStatus::Restarting,
        "of an older request"
    );
    script.answers_claims = true;
    script.at(605, unavailable(2));
    assert_eq!(script.job.status(), JobStatus::Failed);
}

#[test]
fn a_stuck_task_is_waited_for_once_then_abandoned_and_replaced() {
    let mut script = Script::running(fixed(9, 1), 1);
    script.answers_cancels = false;
    script.fail(100, subtask(0, 0));
    let late = script.report(subtask(1, 0), ExecutionState::Canceled, None);
    assert_eq!(script.job.deadline(), MonoTime::from_millis(130_000));
    let actions = script.at(130, Event::Tick);
    assert_eq!(
        Script::kinds(&actions),
        [
            "abandon",
            "release slots",
            "claim",
            "request slots",
            "start checkpointing",
            "deploy",
            "deploy"
        ]
    );
    assert_eq!(script.at(140, late), [], "of a fenced epoch");
}

#[test]
fn the_first_failure_of_a_loop_outlives_the_ring() {
    let mut script = Script::running(fixed(100, 0), 1);
    for second in 1..=40 {
        script.fail(second, subtask(0, 0));
        script.all_run(second);
    }
    let history = script.job.history();
    assert_eq!(history.entries().count(), 16);
    let first = history.first_of_loop().unwrap();
    assert_eq!(first.root.failed_at.as_millis(), 1_000_000 + 1_000);
    assert_eq!(history.repeated(), 40);
}
