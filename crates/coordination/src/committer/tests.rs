use super::*;

fn committable(name: &str) -> Committable {
    Committable(Arc::from(name.as_bytes()))
}

fn prepared(checkpoint: u64, names: &[&str]) -> Event {
    Event::Prepared {
        checkpoint: CheckpointId(checkpoint),
        committables: names.iter().map(|name| committable(name)).collect(),
    }
}

fn completed(checkpoint: u64) -> Event {
    Event::Completed(CheckpointId(checkpoint))
}

/// A committer whose commits are answered in order by a script, `Done` where that is over.
struct Script {
    committer: Committer,
    outcomes: Vec<CommitOutcome>,
    commits: Vec<String>,
}

impl Script {
    fn new(committer: Committer) -> Self {
        Self {
            committer,
            outcomes: Vec::new(),
            commits: Vec::new(),
        }
    }

    /// Steps and answers; what else happened.
    fn at(&mut self, millis: u64, event: Event) -> Vec<String> {
        let now = MonoTime::from_millis(millis);
        let mut log = Vec::new();
        let mut events = vec![event];
        while let Some(event) = events.pop() {
            let mut actions = Vec::new();
            self.committer.step(now, event, &mut actions);
            assert!(self.committer.deadline() > now);
            for action in actions {
                match action {
                    Action::Commit {
                        ticket,
                        committable,
                        ..
                    } => {
                        let name = String::from_utf8(committable.0.to_vec()).unwrap();
                        log.push(format!("commit {name}"));
                        self.commits.push(name);
                        let outcome = if self.outcomes.is_empty() {
                            CommitOutcome::Done
                        } else {
                            self.outcomes.remove(0)
                        };
                        events.push(Event::Committed { ticket, outcome });
                    }
                    Action::AllowWriter => log.push("allow writer".to_owned()),
                    Action::AllCommitted(id) => log.push(format!("all up to {id}")),
                    Action::Fail(failure) => log.push(format!("{}: {failure}", failure.kind)),
                }
            }
        }
        log
    }

    /// Ticks whenever asked to; the milliseconds at which something was committed.
    fn run(&mut self) -> (Vec<u64>, Vec<String>) {
        let (mut times, mut log) = (Vec::new(), Vec::new());
        while self.committer.deadline() != MonoTime::NEVER {
            let due = self.committer.deadline().as_millis();
            let commits = self.commits.len();
            log.extend(self.at(due, Event::Tick));
            if self.commits.len() > commits {
                times.push(due);
            }
        }
        (times, log)
    }
}

fn retry() -> CommitOutcome {
    CommitOutcome::Retry {
        message: "503".to_owned(),
    }
}

fn new() -> Script {
    let mut script = Script::new(Committer::new(CommitterConfig::default()));
    assert_eq!(script.at(0, Event::Start), ["allow writer"]);
    script
}

/// Fence F5 on this side.
#[test]
fn nothing_is_committed_before_its_checkpoint_is_complete() {
    let mut script = new();
    assert_eq!(script.at(1, prepared(1, &["a", "b"])), [""; 0]);
    assert_eq!(script.at(2, prepared(2, &["c"])), [""; 0]);
    assert_eq!(
        script.at(3, completed(1)),
        ["commit a", "commit b", "all up to 1"]
    );
    assert_eq!(script.committer.promises().len(), 1, "c is still promised");
}

// Proves F74, as far as sinks go.
#[test]
fn a_lost_notice_is_made_up_for_by_the_next() {
    let mut script = new();
    script.at(1, prepared(7, &["a"]));
    script.at(2, prepared(8, &["b"]));
    assert_eq!(
        script.at(3, completed(8)),
        ["commit a", "commit b", "all up to 8"]
    );
    assert_eq!(script.at(4, completed(7)), [""; 0], "late");
}

// Proves F157. The order is that of fence F13.
#[test]
fn after_a_restore_the_promised_commit_comes_before_the_writer() {
    let promises = Promises::from([(CheckpointId(3), vec![committable("a"), committable("b")])]);
    let config = CommitterConfig::default();
    let restored = Committer::restore(config, promises, CheckpointId(3));
    let mut script = Script::new(restored);
    script.outcomes = vec![CommitOutcome::Done, retry()];
    assert_eq!(script.at(0, Event::Start), ["commit a", "commit b"]);
    let (_, log) = script.run();
    assert_eq!(log, ["commit b", "allow writer"]);
    assert!(script.committer.promises().is_empty());
    assert_eq!(
        script.commits,
        ["a", "b", "b"],
        "b was repeated, not doubled"
    );
}

#[test]
fn commits_are_made_one_at_a_time() {
    let mut committer = Committer::new(CommitterConfig::default());
    let mut actions = Vec::new();
    let now = MonoTime::ZERO;
    for event in [
        Event::Start,
        prepared(1, &["a", "b"]),
        completed(1),
        Event::Tick,
    ] {
        committer.step(now, event, &mut actions);
    }
    let commits = |actions: &[Action]| {
        let is_commit = |action: &&Action| matches!(action, Action::Commit { .. });
        actions.iter().filter(is_commit).count()
    };
    assert_eq!(commits(&actions), 1);
    let done = |ticket| Event::Committed {
        ticket,
        outcome: CommitOutcome::Done,
    };
    committer.step(now, done(9), &mut actions);
    assert_eq!(commits(&actions), 1, "of another commit");
    committer.step(now, done(0), &mut actions);
    committer.step(now, done(0), &mut actions);
    assert_eq!(commits(&actions), 2);
    assert_eq!(committer.promises()[&CheckpointId(1)], [committable("b")]);
}

#[test]
fn a_commit_is_repeated_with_growing_pauses_and_then_fails_the_task() {
    let mut script = new();
    script.outcomes = vec![retry(); 11];
    script.at(0, prepared(1, &["a"]));
    script.at(0, completed(1));
    let (times, log) = script.run();
    assert_eq!(
        times,
        [
            100, 300, 700, 1_500, 3_100, 6_300, 12_700, 22_700, 32_700, 42_700
        ]
    );
    assert_eq!(
        log.last().unwrap(),
        "CONNECTOR: commit of checkpoint 1 was not possible in 11 attempts: 503"
    );
    assert_eq!(
        script.committer.promises().len(),
        1,
        "a restart tries again"
    );
    assert_eq!(
        script.at(99_000, completed(2)),
        [""; 0],
        "nothing moves any more"
    );
    assert_eq!(script.at(99_000, Event::Start), [""; 0]);
}

#[test]
fn a_promised_commit_that_is_lost_fails_the_job_for_good() {
    let mut committer = Committer::new(CommitterConfig::default());
    let mut actions = Vec::new();
    for event in [
        Event::Start,
        prepared(4, &["a"]),
        completed(4),
        Event::Committed {
            ticket: 0,
            outcome: CommitOutcome::Lost {
                // As the operator's error says it.
                message: "DATA_LOSS: upload expired".to_owned(),
            },
        },
    ] {
        committer.step(MonoTime::ZERO, event, &mut actions);
    }
    let Some(Action::Fail(failure)) = actions.last() else {
        panic!("{actions:?}");
    };
    assert!(failure.is_non_recoverable());
    assert_eq!(
        failure.message,
        "DATA_LOSS: checkpoint 4 promised a commit that can no longer be made: upload expired"
    );
}

#[test]
fn a_checkpoint_that_was_aborted_is_committed_with_the_next_one() {
    let mut script = new();
    script.at(1, prepared(1, &["a"]));
    script.at(2, prepared(2, &["b"]));
    script.at(3, prepared(2, &[]));
    assert_eq!(script.committer.promises().len(), 2);
    script.at(4, completed(2));
    assert_eq!(script.commits, ["a", "b"]);
}

#[test]
fn a_checkpoint_without_committables_is_reported_for_whoever_waits_to_finish() {
    let mut script = new();
    assert_eq!(script.at(1, completed(5)), ["all up to 5"]);
}

#[test]
fn a_committer_that_failed_before_its_writer_was_allowed_is_not_started_again() {
    let promises = Promises::from([(CheckpointId(3), vec![committable("a")])]);
    let restored = Committer::restore(CommitterConfig::default(), promises, CheckpointId(3));
    let mut script = Script::new(restored);
    script.outcomes = vec![CommitOutcome::Lost {
        message: "upload expired".to_owned(),
    }];
    let log = script.at(0, Event::Start);
    assert_eq!(log.len(), 2, "{log:?}");
    assert_eq!(script.at(1, Event::Start), [""; 0]);
    assert_eq!(script.at(2, completed(4)), [""; 0]);
}

#[test]
fn nothing_is_done_before_the_start_and_the_start_counts_once() {
    let mut script = Script::new(Committer::new(CommitterConfig::default()));
    assert_eq!(script.at(0, prepared(1, &["a"])), [""; 0]);
    assert_eq!(script.at(0, completed(1)), [""; 0]);
    assert_eq!(
        script.at(1, Event::Start),
        ["commit a", "allow writer", "all up to 1"]
    );
    assert_eq!(script.at(2, Event::Start), [""; 0]);
}

#[test]
fn a_pause_between_two_attempts_is_not_cut_short() {
    let mut script = new();
    script.outcomes = vec![retry()];
    script.at(0, prepared(1, &["a"]));
    assert_eq!(script.at(0, completed(1)), ["commit a"]);
    assert_eq!(script.at(99, prepared(2, &["b"])), [""; 0]);
    assert_eq!(script.at(99, Event::Start), [""; 0]);
    assert_eq!(script.at(100, Event::Tick), ["commit a", "all up to 1"]);
}
