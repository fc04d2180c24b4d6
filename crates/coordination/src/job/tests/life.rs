//! Start, end, cancel, and what comes late.

use super::*;

#[test]
fn a_start_claims_first_then_gets_slots_then_deploys() {
    let mut script = Script::new(fixed(1, 1), 1);
    let actions = script.at(0, Event::Start);
    assert_eq!(
        Script::kinds(&actions),
        [
            "claim",
            "request slots",
            "start checkpointing",
            "deploy",
            "deploy"
        ]
    );
    assert_eq!(script.job.status(), JobStatus::Running);
}

/// HND-062: the end is durable before anybody is told.
#[test]
fn a_cancelled_job_is_announced_only_after_its_end_is_on_the_chain() {
    let mut script = Script::running(fixed(9, 1), 1);
    script.answers_claims = false;
    let actions = script.at(10, Event::Cancel);
    assert_eq!(Script::kinds(&actions).last(), Some(&"write terminal"));
    assert_eq!(script.job.status(), JobStatus::Cancelling);
    script.at(11, Event::TerminalNotWritten);
    let retried = script.at(12, Event::Tick);
    assert_eq!(Script::kinds(&retried), ["write terminal"]);
    assert_eq!(script.end(), None);
    script.at(13, Event::TerminalWritten);
    assert_eq!(script.end(), Some(&JobEnd::Canceled));
    assert_eq!(
        script.at(14, Event::Cancel),
        [],
        "a second cancel is no error (F10)"
    );
}

// Proves F10: whatever the job was doing, a cancel ends it.
#[test]
fn a_cancel_in_any_state_ends_in_canceled_through_the_chain() {
    type Prepare = fn(&mut Script);
    let states: [(&str, Prepare); 6] = [
        ("initializing", |_| {}),
        ("claiming", |s| {
            s.answers_claims = false;
            s.at(0, Event::Start);
            s.answers_claims = true;
        }),
        ("claim not written", |s| {
            s.answers_claims = false;
            s.at(0, Event::Start);
            s.at(0, Event::ClaimNotWritten);
            s.answers_claims = true;
        }),
        ("deploying", |s| {
            s.at(0, Event::Start);
        }),
        ("restarting", |s| {
            s.at(0, Event::Start);
            s.fail(1, subtask(0, 0));
        }),
        ("failing", |s| {
            s.at(0, Event::Start);
            s.answers_cancels = false;
            let failure = user_error().with_disposition(Disposition::FailJob);
            let failed = s.report(subtask(0, 0), ExecutionState::Failed, Some(failure));
            s.at(1, failed);
        }),
    ];
    for (name, prepare) in states {
        let mut script = Script::new(fixed(9, 60), 1);
        prepare(&mut script);
        script.at(2, Event::Cancel);
        script.epoch += u64::from(name == "claiming");
        let claimed = Event::Claimed {
            epoch: Epoch(script.epoch),
            restore: None,
        };
        script.at(3, claimed);
        script.at(33, Event::Tick);
        assert_eq!(script.job.status(), JobStatus::Canceled, "{name}");
        assert_eq!(script.end(), Some(&JobEnd::Canceled), "{name}");
        let deployed = script
            .log
            .iter()
            .rposition(|a| matches!(a, Action::Deploy { .. }));
        let cancelling = script.log.iter().position(|a| {
            matches!(
                a,
                Action::StatusChanged {
                    to: JobStatus::Cancelling,
                    ..
                }
            )
        });
        assert!(deployed < cancelling, "{name}: deployed after the cancel");
    }
}

#[test]
fn a_finished_job_is_on_the_chain_before_it_is_announced() {
    let mut script = Script::running(fixed(9, 1), 2);
    let actions = script.all(50, ExecutionState::Finished);
    assert_eq!(
        Script::kinds(&actions),
        [
            "write terminal",
            "suspend checkpointing",
            "release slots",
            "announce"
        ]
    );
    assert_eq!(script.job.status(), JobStatus::Finished);
}

/// HND-062.
#[test]
fn a_job_whose_chain_says_that_it_ended_never_starts_again() {
    let mut script = Script::new(fixed(9, 1), 1);
    script.answers_claims = false;
    script.at(0, Event::Start);
    script.at(
        1,
        Event::ClaimRefused(ClaimRefusal::Ended(TerminalState::Canceled)),
    );
    assert_eq!(script.job.status(), JobStatus::Canceled);
    assert_eq!(script.attempts_of(subtask(0, 0)), [0; 0]);
}

#[test]
fn a_job_that_another_jobmanager_owns_is_left_alone_without_a_terminal_entry() {
    let mut script = Script::running(fixed(9, 1), 1);
    let actions = script.at(10, Event::OwnershipLost);
    assert_eq!(
        Script::kinds(&actions),
        ["suspend checkpointing", "cancel", "cancel", "release slots"]
    );
    assert_eq!(script.job.status(), JobStatus::Suspended);
    assert_eq!(script.at(11, Event::Cancel), []);
}

#[test]
fn a_store_that_is_not_reached_delays_the_start_and_fails_nothing() {
    let mut script = Script::new(RestartStrategyConfig::None, 1);
    script.answers_claims = false;
    script.at(0, Event::Start);
    for second in 0..600 {
        script.at(second, Event::ClaimNotWritten);
        script.at(second + 1, Event::Tick);
    }
    script.answers_claims = true;
    script.at(
        601,
        Event::Claimed {
            epoch: Epoch(1),
            restore: None,
        },
    );
    script.epoch = 1;
    assert_eq!(script.attempts_of(subtask(0, 0)), [0]);
}

// Proves F154, as far as the job goes.
#[test]
fn tasks_of_an_older_epoch_that_a_taskmanager_reports_are_cancelled() {
    let mut script = Script::running(fixed(9, 0), 1);
    script.fail(1, subtask(0, 0));
    script.all_run(1);
    let old = ReportedTask {
        epoch: Epoch(1),
        subtask: subtask(1, 0),
        attempt: Attempt(0),
        state: ExecutionState::Running,
    };
    let actions = script.at(
        2,
        Event::Reported {
            taskmanager: taskmanager(7),
            tasks: vec![old],
        },
    );
    assert!(
        matches!(&actions[..], [Action::CancelTask { epoch, .. }] if *epoch == Epoch(1)),
        "{actions:?}"
    );
}

#[test]
fn a_task_that_its_taskmanager_no_longer_has_is_failed() {
    let mut script = Script::running(fixed(9, 5), 1);
    script.at(
        2,
        Event::Reported {
            taskmanager: taskmanager(0),
            tasks: Vec::new(),
        },
    );
    assert_eq!(script.job.status(), JobStatus::Restarting);
    assert_eq!(script.job.history().entries().count(), 1);
}

#[test]
fn reports_that_are_late_or_repeated_change_nothing() {
    let mut script = Script::running(fixed(9, 1), 1);
    for state in [ExecutionState::Deploying, ExecutionState::Running] {
        let report = script.report(subtask(0, 0), state, None);
        assert_eq!(script.at(1, report), []);
    }
    for event in [
        Event::Start,
        Event::Claimed {
            epoch: Epoch(9),
            restore: None,
        },
        Event::ClaimNotWritten,
        Event::TerminalWritten,
        Event::TerminalNotWritten,
        Event::Tick,
    ] {
        assert_eq!(script.at(2, event.clone()), [], "{event:?}");
    }
    let late = Event::SlotsAllocated {
        epoch: Epoch(7),
        slots: script.slots(),
    };
    assert_eq!(
        script.at(3, late),
        [Action::ReleaseSlots { epoch: Epoch(7) }]
    );
}
