//! Field cases: every report of `tests/cases/hand.md` with the tests that cite it, and whether it
//! holds. A case holds when all of it is proven, through every front end that exists.

mod citing;
mod verdicts;

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use regex::Regex;

use crate::report::{Failure, Violation};
use crate::tree::Tree;

use verdicts::Verdicts;

const CASES: &str = "tests/cases/hand.md";
const TABLE: &str = "docs/cases.md";

/// A case.
#[derive(Clone, PartialEq, Eq, Debug)]
struct Case {
    /// As in HND-034.
    id: String,
    /// Its heading.
    title: String,
}

/// A test: its file and its function.
type Test = (PathBuf, String);

/// Tests by the case they cite.
type Tests = BTreeMap<String, Vec<Test>>;

/// Writes the table.
pub fn write(root: &Path) -> Result<(), Failure> {
    let knowledge = Knowledge::gather(&Tree::read(root)?)?;
    std::fs::write(root.join(TABLE), knowledge.table())
        .map_err(Failure::io(format!("write {TABLE}")))?;
    println!("wrote {TABLE}");
    Ok(())
}

/// Complains if the table is not what tests and verdicts say, or a verdict cannot be true.
pub fn check(tree: &Tree) -> Result<Vec<Violation>, Failure> {
    let knowledge = Knowledge::gather(tree)?;
    let written = tree.texts.iter().find(|file| file.path == Path::new(TABLE));
    let is_current = written.is_some_and(|file| file.text == knowledge.table());
    let mut violations = knowledge.violations;
    if !is_current {
        let message = "does not say what tests and verdicts say: run `cargo xtask conformance`";
        violations.push(Violation::of(TABLE, message));
    }
    Ok(violations)
}

struct Knowledge {
    cases: Vec<Case>,
    tests: Tests,
    verdicts: Verdicts,
    violations: Vec<Violation>,
}

impl Knowledge {
    fn gather(tree: &Tree) -> Result<Self, Failure> {
        let cases = cases(tree.text(CASES)?)?;
        let tests = citing::tests(tree)?;
        let (verdicts, mut violations) = Verdicts::read(tree)?;
        violations.extend(verdicts.check(&cases, &tests));
        Ok(Self {
            cases,
            tests,
            verdicts,
            violations,
        })
    }

    fn table(&self) -> String {
        let count = |wanted: &str| {
            let words = self
                .cases
                .iter()
                .filter_map(|case| self.verdicts.of(&case.id));
            words.filter(|verdict| verdict.word() == wanted).count()
        };
        let mut text = format!(
            "# Field cases\n\n\
             Reports of operators and developers from `{CASES}`, and how far each of them is. Written by\n\
             `cargo xtask conformance`; do not edit. What is open is said in `{}`.\n\n\
             | verdict | cases | what it means |\n|---|---|---|\n\
             | holds | {} | all of it is proven by the tests named, through every front end that exists |\n\
             | in part | {} | what exists of it is proven; the rest is named |\n\
             | waiting | {} | what it is about does not exist yet |\n\n\
             | case | what was reported | verdict | tests |\n|---|---|---|---|\n",
            verdicts::PATH,
            count("holds"),
            count("in part"),
            count("waiting"),
        );
        for case in &self.cases {
            let verdict = match self.verdicts.of(&case.id) {
                Some(verdict) => verdict.to_string(),
                None => String::new(),
            };
            let tests = self
                .tests
                .get(&case.id)
                .map(Vec::as_slice)
                .unwrap_or_default();
            let tests: Vec<_> = tests.iter().map(link).collect();
            let tests = tests.join("<br>");
            let _ = writeln!(
                text,
                "| {} | {} | {verdict} | {tests} |",
                case.id, case.title
            );
        }
        text
    }
}

fn link((path, function): &Test) -> String {
    let path = path.display();
    format!("[{path}::{function}](../{path})")
}

fn cases(text: &str) -> Result<Vec<Case>, Failure> {
    let pattern = r"(?m)^### (HND-\d+) (.*)$";
    let heading =
        Regex::new(pattern).map_err(|error| Failure::Unexpected(format!("{pattern}: {error}")))?;
    let cases = heading.captures_iter(text).map(|capture| Case {
        id: capture[1].to_owned(),
        title: capture[2].trim().to_owned(),
    });
    Ok(cases.collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_case_is_its_heading() {
        let found =
            cases("# Field\n\n### HND-001 Stops once\n\ntext\n### HND-002 Expired \n").unwrap();
        let found: Vec<_> = found.iter().map(|c| (&c.id[..], &c.title[..])).collect();
        assert_eq!(found, [("HND-001", "Stops once"), ("HND-002", "Expired")]);
    }

    #[test]
    fn the_table_counts_verdicts_and_links_tests() {
        let (verdicts, _) = Verdicts::parse("HND-001 | holds\nHND-002 | waiting | windows\n");
        let case = |id: &str| Case {
            id: id.to_owned(),
            title: "a title".to_owned(),
        };
        let test = (PathBuf::from("crates/a/src/b.rs"), "shows".to_owned());
        let table = Knowledge {
            cases: vec![case("HND-001"), case("HND-002")],
            tests: Tests::from([("HND-001".to_owned(), vec![test])]),
            verdicts,
            violations: Vec::new(),
        }
        .table();
        for line in [
            "| holds | 1 |",
            "| in part | 0 |",
            "| HND-001 | a title | holds | [crates/a/src/b.rs::shows](../crates/a/src/b.rs) |",
            "| HND-002 | a title | waiting: windows |  |",
        ] {
            assert!(table.contains(line), "{line}\n{table}");
        }
    }
}
