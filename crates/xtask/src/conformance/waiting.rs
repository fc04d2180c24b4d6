//! Why items have no test: what they wait for, or why they do not apply.

use std::collections::BTreeMap;

use super::{Item, Proofs, item_number};
use crate::report::{Failure, Violation};
use crate::tree::Tree;

const PATH: &str = "tests/red/waiting.txt";

/// Why one item has no test.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Reason {
    /// Until this is there.
    Waits(String),
    /// For ever, because of this.
    DoesNotApply(String),
}

/// The reasons by item, each with its line.
#[derive(PartialEq, Eq, Debug, Default)]
pub struct Waiting(BTreeMap<u32, (usize, Reason)>);

impl Waiting {
    /// Reads the file; what cannot be read is a complaint and no reason.
    pub fn read(tree: &Tree) -> Result<(Self, Vec<Violation>), Failure> {
        Ok(Self::parse(&tree.raw(PATH)?))
    }

    pub(super) fn parse(text: &str) -> (Self, Vec<Violation>) {
        let (mut waiting, mut violations) = (Self::default(), Vec::new());
        for (index, line) in text.lines().enumerate() {
            if line.trim().is_empty() || line.starts_with('#') {
                continue;
            }
            let complaint = |message: String| Violation::at(PATH, index + 1, message);
            let Some((items, reason)) = read_line(line) else {
                let message =
                    "write `F37 F38 | waiting | for what`, or `F1 | not applicable | why`";
                violations.push(complaint(message.to_owned()));
                continue;
            };
            for item in items {
                if waiting
                    .0
                    .insert(item, (index + 1, reason.clone()))
                    .is_some()
                {
                    violations.push(complaint(format!("F{item} is here twice: keep one")));
                }
            }
        }
        (waiting, violations)
    }

    /// The reason of an item.
    pub fn reason(&self, number: u32) -> Option<&Reason> {
        self.0.get(&number).map(|(_, reason)| reason)
    }

    /// Complains of reasons without an item, of reasons that a test made untrue, and of items that
    /// have neither.
    pub fn check(&self, items: &[Item], proofs: &Proofs) -> Vec<Violation> {
        let written = self.0.iter().filter_map(|(number, (line, _))| {
            let message = if !items.iter().any(|item| item.number == *number) {
                format!("F{number} is no item of the checklist: take it out")
            } else if let Some(test) = proofs.get(number).and_then(|tests| tests.first()) {
                format!("F{number} is claimed by {}: take it out", test.function)
            } else {
                return None;
            };
            Some(Violation::at(PATH, *line, message))
        });
        let missing = items.iter().filter(|item| {
            !proofs.contains_key(&item.number) && !self.0.contains_key(&item.number)
        });
        let missing = missing.map(|item| {
            let number = item.number;
            Violation::of(
                PATH,
                format!("F{number} has no test: add one, or a line that says what it waits for"),
            )
        });
        written.chain(missing).collect()
    }
}

fn read_line(line: &str) -> Option<(Vec<u32>, Reason)> {
    let mut parts = line.splitn(3, '|').map(str::trim);
    let (items, state, reason) = (parts.next()?, parts.next()?, parts.next()?);
    let items: Option<Vec<u32>> = items.split_whitespace().map(item_number).collect();
    let reason = Some(reason.to_owned()).filter(|reason| !reason.is_empty())?;
    let reason = match state {
        "waiting" => Reason::Waits(reason),
        "not applicable" => Reason::DoesNotApply(reason),
        _ => return None,
    };
    items
        .filter(|items| !items.is_empty())
        .map(|items| (items, reason))
}

#[cfg(test)]
mod tests {
    use super::super::TestName;
    use super::*;

    fn complaints(text: &str, proven: &[u32]) -> Vec<String> {
        let item = |number| Item {
            number,
            text: String::new(),
        };
        let test = TestName {
            path: "a.rs".into(),
            function: "shows".to_owned(),
        };
        let proofs = proven.iter().map(|n| (*n, vec![test.clone()])).collect();
        let (waiting, mut violations) = Waiting::parse(text);
        violations.extend(waiting.check(&[item(1), item(2)], &proofs));
        violations.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn every_item_has_a_test_or_a_reason() {
        assert!(complaints("# why\n\nF1 F2 | waiting | savepoints\n", &[]).is_empty());
        assert!(complaints("F1 | not applicable | no JVM | here\n", &[2]).is_empty());
        let missing = complaints("F1 | waiting | savepoints\n", &[]);
        assert!(
            missing[0].contains("F2 has no test: add one"),
            "{missing:?}"
        );
    }

    #[test]
    fn a_reason_that_is_untrue_or_stands_for_nothing_is_refused() {
        let claimed = complaints("F1 F2 | waiting | savepoints\n", &[2]);
        assert_eq!(
            claimed,
            ["tests/red/waiting.txt:1: F2 is claimed by shows: take it out"]
        );
        let unknown = complaints("F1 F2 F9 | waiting | savepoints\n", &[]);
        assert!(unknown[0].contains("F9 is no item"), "{unknown:?}");
        let twice = complaints("F1 F2 | waiting | a\nF2 | waiting | b\n", &[]);
        assert!(twice[0].contains(":2: F2 is here twice"), "{twice:?}");
    }

    #[test]
    fn a_line_of_another_form_is_refused_with_the_form() {
        for line in [
            "F1 | waiting |",
            "F1 | later | savepoints",
            "1 | waiting | savepoints",
            "F1 F2 savepoints",
            " | waiting | savepoints",
        ] {
            let found = complaints(line, &[1, 2]);
            assert!(found[0].contains(":1: write `F37"), "{line}: {found:?}");
        }
    }
}
