//! The table of `docs/conformance.md`.

use std::collections::BTreeSet;
use std::fmt;

use super::waiting::{Reason, Waiting};
use super::{CHECKLIST, Item, Proofs, TestName};
use crate::red::Fault;

/// What the table says, and how it looks.
pub struct Table<'a> {
    /// All items.
    pub items: &'a [Item],
    /// Who claims them.
    pub proofs: &'a Proofs,
    /// What is planted to see them fail.
    pub faults: &'a [Fault],
    /// Why the others have no test.
    pub waiting: &'a Waiting,
    /// Crates whose tests are tests of machines.
    pub pure_crates: &'a [String],
}

/// How far an item is.
#[derive(PartialEq, Eq, Debug)]
enum State<'a> {
    Proven,
    Claimed,
    Waiting(&'a str),
    NotApplicable(&'a str),
}

impl Table<'_> {
    fn state(&self, item: &Item) -> State<'_> {
        let tests = self.proofs.get(&item.number);
        let is_shown_red = self.faults.iter().any(|fault| {
            fault.is_shown
                && fault.item == item.number
                && tests.is_some_and(|tests| tests.contains(&fault.test))
        });
        match (tests, self.waiting.reason(item.number)) {
            (Some(_), _) if is_shown_red => State::Proven,
            (Some(_), _) => State::Claimed,
            (None, Some(Reason::Waits(reason))) => State::Waiting(reason),
            (None, Some(Reason::DoesNotApply(reason))) => State::NotApplicable(reason),
            (None, None) => State::Waiting("somebody who says what for"),
        }
    }

    /// Where the tests of an item run.
    fn kinds(&self, tests: &[TestName]) -> String {
        let kinds: BTreeSet<&str> = tests.iter().map(|test| self.kind(test)).collect();
        kinds.into_iter().collect::<Vec<_>>().join(", ")
    }

    fn kind(&self, test: &TestName) -> &'static str {
        let folders: Vec<&str> = test.path.iter().filter_map(|part| part.to_str()).collect();
        match folders[..] {
            ["tests", "tests", file, ..] if file.starts_with("model") => "machine",
            ["tests", "tests", file, ..] if file.starts_with("sim") => "simulated",
            ["tests", ..] | ["crates", "taskmanager", "tests", ..] => "processes",
            ["crates", name, ..] if self.pure_crates.iter().any(|pure| pure == name) => "machine",
            _ => "component",
        }
    }

    fn counts(&self) -> [usize; 4] {
        let mut counts = [0; 4];
        for item in self.items {
            let at = match self.state(item) {
                State::Proven => 0,
                State::Claimed => 1,
                State::Waiting(_) => 2,
                State::NotApplicable(_) => 3,
            };
            counts[at] += 1;
        }
        counts
    }
}

impl fmt::Display for Table<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [proven, claimed, waiting, not_applicable] = self.counts();
        writeln!(
            f,
            "# Conformance\n\n\
             Every item of `{CHECKLIST}`, and how far it is. Written by `cargo xtask conformance`; do\n\
             not edit.\n\n\
             | state | items | what it means |\n|---|---|---|\n\
             | proven | {proven} | a test claims it, and was seen to go red under a fault planted in the code (`tests/red`; `cargo xtask conformance --red all` shows it again) |\n\
             | claimed | {claimed} | a test claims it; no fault is planted, or none was seen to be noticed yet |\n\
             | waiting | {waiting} | no test, for the reason given (`tests/red/waiting.txt`) |\n\
             | not applicable | {not_applicable} | will have no test, for the reason given |\n\n\
             Kinds of tests: *machine*, a decision without I/O, in a pure crate; *component*, one crate with its\n\
             library, files or network; *simulated*, a whole cluster in one thread, replayed from a seed; *processes*, the\n\
             programs as users start them.\n\n\
             | item | requirement | state | kind | tests |\n|---|---|---|---|---|"
        )?;
        for item in self.items {
            let state = match self.state(item) {
                State::Proven => "proven".to_owned(),
                State::Claimed => "claimed".to_owned(),
                State::Waiting(reason) => format!("waiting: {reason}"),
                State::NotApplicable(reason) => format!("not applicable: {reason}"),
            };
            let tests = self.proofs.get(&item.number).map_or(&[][..], Vec::as_slice);
            let links: Vec<String> = tests.iter().map(link).collect();
            writeln!(
                f,
                "| F{} | {} | {} | {} | {} |",
                item.number,
                cell(&item.text),
                cell(&state),
                self.kinds(tests),
                links.join("<br>")
            )?;
        }
        Ok(())
    }
}

fn cell(text: &str) -> String {
    text.replace('|', "\\|")
}

fn link(test: &TestName) -> String {
    let path = test.path.display();
    format!("[{path}::{}](../{path})", test.function)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::red::parse;

    fn test(path: &str) -> TestName {
        TestName {
            path: path.into(),
            function: "shows".to_owned(),
        }
    }

    /// A table of F1 to F4 with these tests, where a fault is planted for a test of F1.
    fn shown(proofs: &[(u32, &[&str])], end_of_fault: &str) -> String {
        let items: Vec<Item> = (1..=4)
            .map(|number| Item {
                number,
                text: format!("G a | b T {number}"),
            })
            .collect();
        let proofs = proofs
            .iter()
            .map(|(number, paths)| (*number, paths.iter().copied().map(test).collect()))
            .collect();
        let fault = "item: F1\nabout: it\nfile: a.rs\ntext: x\nwith: y\ntest: crates/pure/src/a.rs::shows\n";
        let (faults, violations) = parse("tests/red/a.txt", &format!("{fault}{end_of_fault}"));
        assert!(violations.is_empty());
        let (waiting, violations) =
            Waiting::parse("F3 | waiting | savepoints\nF4 | not applicable | no JVM\n");
        assert!(violations.is_empty());
        Table {
            items: &items,
            proofs: &proofs,
            faults: &faults,
            waiting: &waiting,
            pure_crates: &["pure".to_owned()],
        }
        .to_string()
    }

    #[test]
    fn a_claim_with_a_fault_is_a_proof_and_every_item_has_a_line() {
        let table = shown(
            &[
                (1, &["crates/pure/src/a.rs", "tests/tests/sim/b.rs"]),
                (2, &["crates/other/src/c.rs"]),
            ],
            "",
        );
        let lines: Vec<&str> = table.lines().collect();
        let link = |path: &str| format!("[{path}::shows](../{path})");
        let [a, b, c] = [
            "crates/pure/src/a.rs",
            "tests/tests/sim/b.rs",
            "crates/other/src/c.rs",
        ]
        .map(link);
        assert_eq!(
            lines[lines.len() - 4..],
            [
                &format!("| F1 | G a \\| b T 1 | proven | machine, simulated | {a}<br>{b} |"),
                &format!("| F2 | G a \\| b T 2 | claimed | component | {c} |"),
                "| F3 | G a \\| b T 3 | waiting: savepoints |  |  |",
                "| F4 | G a \\| b T 4 | not applicable: no JVM |  |  |",
            ]
        );
        for state in ["proven", "claimed", "waiting", "not applicable"] {
            assert!(table.contains(&format!("| {state} | 1 | ")), "{table}");
        }
    }

    #[test]
    fn a_fault_beside_another_test_or_not_seen_red_proves_nothing() {
        let claimed = r"| F1 | G a \| b T 1 | claimed |";
        let elsewhere = shown(&[(1, &["crates/pure/src/other.rs"])], "");
        assert!(elsewhere.contains(claimed), "{elsewhere}");
        let not_seen = shown(&[(1, &["crates/pure/src/a.rs"])], "shown: not yet\n");
        assert!(not_seen.contains(claimed), "{not_seen}");
    }
}
