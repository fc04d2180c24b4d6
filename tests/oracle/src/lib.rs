//! The oracle: judges from outside whether a job's committed output is what a sequential program
//! would have written.
//!
//! It shares no code with the engine and knows the right output from a rule alone: for each key,
//! n = 1, 2, … once each, with the running sum that belongs to n. It reads what any consumer sees, the
//! files directly in the sink's directory whose names start with no dot. `check` looks once; `watch`
//! looks again and again while the job runs and loses processes. What it proves is named as in the
//! list of invariants: I1 no committed duplicate, I2 no gap per key, I3 order per key, I4 the
//! committed view only grows and is a prefix of each key.
//!
//! I5, nothing visible beyond the last durable checkpoint, shows from outside by what follows: rows
//! that were visible too early come a second time after the next restart, or their file goes or
//! changes, or they leave a gap. `watch` reports each of these.
//!
//! Invariants: a line that is no row is a finding, never a panic; memory grows with keys, files and
//! open gaps, not with rows; each file is read once while watching, and once more in the end.
//!
//! Must never depend on: any crate of Millstream.

pub mod args;
pub mod examiner;
pub mod finding;
pub mod ledger;
pub mod line;
pub mod listing;
pub mod row;
pub mod rule;
pub mod verdict;

use std::time::{Duration, Instant};

use serde_json::Value;

use args::{Command, Until};
use examiner::{Examiner, Subject};
use finding::{Finding, Kind};
use verdict::{Looks, verdict};

/// Carries a command out: whether the output is exact, and the verdict.
pub fn run(command: Command) -> (bool, Value) {
    match command {
        Command::Check { subject, is_final } => {
            let (mut examiner, mut looks) = (Examiner::new(subject), Looks::default());
            looks.count(examiner.conclude(is_final));
            verdict("check", &examiner, looks)
        }
        Command::Watch {
            subject,
            is_final,
            poll,
            until,
        } => watch(subject, is_final, poll, &until),
    }
}

fn watch(subject: Subject, is_final: bool, poll: Duration, until: &Until) -> (bool, Value) {
    let mut examiner = Examiner::new(subject);
    let mut looks = Looks::default();
    let started = now();
    let mut n_told = 0;
    let is_over = loop {
        // Asked before the look, so that what was committed before the end is in a view.
        let over = is_over(until, started);
        looks.count(examiner.look());
        // Whoever watches a long run need not wait for its end.
        for finding in &examiner.findings().kept()[n_told..] {
            eprintln!("{finding}");
        }
        n_told = examiner.findings().kept().len();
        match over {
            Some(over) => break over,
            None => std::thread::sleep(poll),
        }
    };
    if is_over == Over::TimeUp && matches!(until, Until::Done(_, _)) {
        let finding = Finding::new(Kind::NotDone, "the end of the job", "the time up");
        examiner.add(finding);
    }
    looks.count(examiner.conclude(is_final));
    verdict("watch", &examiner, looks)
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Over {
    Done,
    TimeUp,
}

fn is_over(until: &Until, started: Instant) -> Option<Over> {
    let (done, limit) = match until {
        Until::Done(file, limit) => (file.exists(), *limit),
        Until::Elapsed(limit) => (false, Some(*limit)),
    };
    let is_time_up = limit.is_some_and(|limit| now().duration_since(started) >= limit);
    match (done, is_time_up) {
        (true, _) => Some(Over::Done),
        (false, true) => Some(Over::TimeUp),
        (false, false) => None,
    }
}

#[expect(
    clippy::disallowed_methods,
    reason = "the oracle shares no code with the engine, its clock neither"
)]
fn now() -> Instant {
    Instant::now()
}
