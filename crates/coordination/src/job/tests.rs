use std::collections::BTreeMap;
use std::time::Duration;

use millstream_types::{
    Attempt, Disposition, Epoch, Incarnation, MonoTime, SlotIndex, SubtaskId, TaskmanagerId,
    VertexId,
};

use super::*;
use crate::chain::TerminalState;
use crate::failure::{FailureInfo, FailureKind};
use crate::moment::Moment;
use crate::restart::{FailureRate, FixedDelay, RestartStrategyConfig};
use crate::slots::SlotRef;
use crate::topology::testing::source_and_sink;

/// A job of `source (1/p)` .. -> `sink (1/p)` .., with a shell that answers what has one answer:
/// claims and slots at once, cancellation only when told.
struct Script {
    job: Job,
    parallelism: u32,
    taskmanagers: u32,
    epoch: u64,
    log: Vec<Action>,
    answers_claims: bool,
    answers_cancels: bool,
}

fn fixed(attempts: u32, delay_s: u64) -> RestartStrategyConfig {
    RestartStrategyConfig::FixedDelay(FixedDelay {
        attempts,
        delay: Duration::from_secs(delay_s),
    })
}

fn subtask(vertex: u32, index: u32) -> SubtaskId {
    SubtaskId::new(VertexId(vertex), index)
}

fn taskmanager(index: u32) -> TaskmanagerId {
    TaskmanagerId::new(&format!("tm-{index}")).unwrap()
}

/// Subtask i of every vertex runs on taskmanager i, modulo their number.
fn slot(index: u32) -> SlotRef {
    SlotRef {
        taskmanager: taskmanager(index),
        incarnation: Incarnation(1),
        index: SlotIndex(0),
    }
}

fn user_error() -> FailureInfo {
    FailureInfo::new(FailureKind::User, "division by zero")
}

impl Script {
    fn new(strategy: RestartStrategyConfig, parallelism: u32) -> Self {
        Self {
            job: Job::new(JobConfig::new(strategy), source_and_sink(parallelism)),
            parallelism,
            taskmanagers: parallelism,
            epoch: 0,
            log: Vec::new(),
            answers_claims: true,
            answers_cancels: true,
        }
    }

    /// The same, deployed and running.
    fn running(strategy: RestartStrategyConfig, parallelism: u32) -> Self {
        let mut script = Self::new(strategy, parallelism);
        script.at(0, Event::Start);
        script.all_run(0);
        script
    }

    /// Steps at this second and answers; returns all actions.
    fn at(&mut self, second: u64, event: Event) -> Vec<Action> {
        self.at_millis(second * 1000, event)
    }

    fn at_millis(&mut self, millis: u64, event: Event) -> Vec<Action> {
        let mut all = Vec::new();
        let mut events = vec![event];
        while let Some(event) = events.pop() {
            let mut actions = Vec::new();
            self.job.step(Moment::test(millis), event, &mut actions);
            for action in &actions {
                events.extend(self.answer(action));
            }
            all.extend(actions);
        }
        let now = MonoTime::from_millis(millis);
        assert!(
            self.job.deadline() > now,
            "due at {:?}",
            self.job.deadline()
        );
        self.log.extend(all.clone());
        all
    }

    fn answer(&mut self, action: &Action) -> Option<Event> {
        match action {
            Action::Claim if self.answers_claims => {
                self.epoch += 1;
                Some(Event::Claimed {
                    epoch: Epoch(self.epoch),
                    restore: None,
                })
            }
            Action::RequestSlots { epoch, .. } => Some(Event::SlotsAllocated {
                epoch: *epoch,
                slots: self.slots(),
            }),
            Action::CancelTask {
                epoch,
                subtask,
                attempt,
                ..
            } if self.answers_cancels => Some(Event::TaskState {
                epoch: *epoch,
                subtask: *subtask,
                attempt: *attempt,
                state: ExecutionState::Canceled,
                failure: None,
            }),
            Action::WriteTerminal { .. } if self.answers_claims => Some(Event::TerminalWritten),
            _ => None,
        }
    }

    fn slots(&self) -> BTreeMap<SubtaskId, SlotRef> {
        (0..2)
            .flat_map(|vertex| (0..self.parallelism).map(move |index| (vertex, index)))
            .map(|(vertex, index)| (subtask(vertex, index), slot(index % self.taskmanagers)))
            .collect()
    }

    fn report(
        &self,
        subtask: SubtaskId,
        state: ExecutionState,
        failure: Option<FailureInfo>,
    ) -> Event {
        Event::TaskState {
            epoch: Epoch(self.epoch),
            subtask,
            attempt: self.job.executions()[&subtask].attempt,
            state,
            failure,
        }
    }

    fn all(&mut self, second: u64, state: ExecutionState) -> Vec<Action> {
        let subtasks: Vec<_> = self.job.executions().keys().copied().collect();
        let mut actions = Vec::new();
        for subtask in subtasks {
            actions.extend(self.at(second, self.report(subtask, state, None)));
        }
        actions
    }

    fn all_run(&mut self, second: u64) {
        self.all(second, ExecutionState::Running);
    }

    fn fail(&mut self, second: u64, subtask: SubtaskId) -> Vec<Action> {
        self.at(
            second,
            self.report(subtask, ExecutionState::Failed, Some(user_error())),
        )
    }

    fn lose(&mut self, second: u64, index: u32, kind: FailureKind) -> Vec<Action> {
        self.at(
            second,
            Event::TaskmanagerLost {
                taskmanager: taskmanager(index),
                failure: FailureInfo::new(kind, format!("taskmanager tm-{index} is gone")),
            },
        )
    }

    fn end(&self) -> Option<&JobEnd> {
        self.log.iter().find_map(|action| match action {
            Action::Announce(end) => Some(end),
            _ => None,
        })
    }

    fn attempts_of(&self, of: SubtaskId) -> Vec<u32> {
        let deployed = self.log.iter().filter_map(|action| match action {
            Action::Deploy {
                subtask, attempt, ..
            } if *subtask == of => Some(attempt.0),
            _ => None,
        });
        deployed.collect()
    }

    fn kinds(actions: &[Action]) -> Vec<&'static str> {
        actions
            .iter()
            .map(|action| match action {
                Action::Claim => "claim",
                Action::RequestSlots { .. } => "request slots",
                Action::ReleaseSlots { .. } => "release slots",
                Action::Deploy { .. } => "deploy",
                Action::StartCheckpointing { .. } => "start checkpointing",
                Action::SuspendCheckpointing => "suspend checkpointing",
                Action::CancelTask { .. } => "cancel",
                Action::AbandonTask { .. } => "abandon",
                Action::WriteTerminal { .. } => "write terminal",
                Action::Announce(_) => "announce",
                Action::StatusChanged { .. } => "status",
                Action::TaskChanged { .. } => "task",
                Action::WillRestart { .. } => "will restart",
                Action::RestartLoop { .. } => "restart loop",
            })
            .filter(|kind| !matches!(*kind, "task" | "status"))
            .collect()
    }
}

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
        RestartStrategyConfig::FailureRate(FailureRate::default()),
        RestartStrategyConfig::effective(None, None, true),
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

// Proves F35.
#[test]
fn a_new_jobmanager_goes_on_counting_attempts_and_starts_counting_failures_anew() {
    let mut config = JobConfig::new(fixed(1, 1));
    config.first_attempt = Attempt(3);
    let mut script = Script::new(fixed(1, 1), 1);
    script.job = Job::new(config, source_and_sink(1));
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
