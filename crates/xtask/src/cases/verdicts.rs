//! Whether a case holds: what people decided, with what is open.

use std::collections::BTreeMap;
use std::fmt;

use super::{CASES, Case, Tests};
use crate::report::{Failure, Violation};
use crate::tree::Tree;

/// Where the verdicts are.
pub const PATH: &str = "tests/cases/verdicts.txt";

/// How far a case is.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Verdict {
    /// All of it is proven.
    Holds,
    /// What exists is proven; this is open.
    InPart(String),
    /// It is about something that does not exist: this.
    Waiting(String),
}

impl Verdict {
    /// Its name.
    pub fn word(&self) -> &'static str {
        match self {
            Self::Holds => "holds",
            Self::InPart(_) => "in part",
            Self::Waiting(_) => "waiting",
        }
    }
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Holds => f.write_str(self.word()),
            Self::InPart(open) | Self::Waiting(open) => write!(f, "{}: {open}", self.word()),
        }
    }
}

/// Verdicts by case, each with its line.
#[derive(Default, Debug)]
pub struct Verdicts(BTreeMap<String, (usize, Verdict)>);

impl Verdicts {
    /// Reads the file; what cannot be read is a complaint.
    pub fn read(tree: &Tree) -> Result<(Self, Vec<Violation>), Failure> {
        Ok(Self::parse(&tree.raw(PATH)?))
    }

    pub(super) fn parse(text: &str) -> (Self, Vec<Violation>) {
        let (mut verdicts, mut violations) = (Self::default(), Vec::new());
        for (index, line) in text.lines().enumerate() {
            if line.trim().is_empty() || line.starts_with('#') {
                continue;
            }
            let complaint = |message: String| Violation::at(PATH, index + 1, message);
            let Some((cases, verdict)) = read_line(line) else {
                let form = "write `HND-034 | holds`, `HND-045 HND-046 | in part | what is open`, or \
                            `HND-013 | waiting | for what`";
                violations.push(complaint(form.to_owned()));
                continue;
            };
            for case in cases {
                let before = verdicts
                    .0
                    .insert(case.clone(), (index + 1, verdict.clone()));
                if before.is_some() {
                    violations.push(complaint(format!("{case} is here twice: keep one")));
                }
            }
        }
        (verdicts, violations)
    }

    /// What was decided of a case.
    pub fn of(&self, case: &str) -> Option<&Verdict> {
        self.0.get(case).map(|(_, verdict)| verdict)
    }

    /// Complains of verdicts that cannot be true, and of cases without one.
    pub(super) fn check(&self, cases: &[Case], tests: &Tests) -> Vec<Violation> {
        let untrue = self.0.iter().filter_map(|(id, (line, verdict))| {
            let cited = tests.contains_key(id);
            let message = match verdict {
                _ if !cases.iter().any(|case| case.id == *id) => {
                    format!("{id} is no case of {CASES}: take it out")
                }
                Verdict::Holds | Verdict::InPart(_) if !cited => {
                    format!("no test cites {id}: put it above the test that proves it")
                }
                Verdict::Waiting(_) if cited => {
                    format!("a test cites {id}: it holds, or it holds in part")
                }
                Verdict::Holds | Verdict::InPart(_) | Verdict::Waiting(_) => return None,
            };
            Some(Violation::at(PATH, *line, message))
        });
        let missing = cases.iter().filter(|case| !self.0.contains_key(&case.id));
        let missing = missing
            .map(|case| Violation::of(PATH, format!("{} has no verdict: add a line", case.id)));
        untrue.chain(missing).collect()
    }
}

fn read_line(line: &str) -> Option<(Vec<String>, Verdict)> {
    let mut parts = line.splitn(3, '|').map(str::trim);
    let (cases, word) = (parts.next()?, parts.next()?);
    let open = parts
        .next()
        .filter(|open| !open.is_empty())
        .map(str::to_owned);
    let verdict = match (word, open) {
        ("holds", None) => Verdict::Holds,
        ("in part", Some(open)) => Verdict::InPart(open),
        ("waiting", Some(open)) => Verdict::Waiting(open),
        _ => return None,
    };
    let cases: Vec<_> = cases.split_whitespace().map(str::to_owned).collect();
    let all_named = !cases.is_empty() && cases.iter().all(|case| case.starts_with("HND-"));
    all_named.then_some((cases, verdict))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn complaints(text: &str, cited: &[&str]) -> Vec<String> {
        let case = |id: &str| Case {
            id: id.to_owned(),
            title: String::new(),
        };
        let tests: Tests = cited
            .iter()
            .map(|id| ((*id).to_owned(), vec![("a.rs".into(), "shows".to_owned())]))
            .collect();
        let (verdicts, mut violations) = Verdicts::parse(text);
        violations.extend(verdicts.check(&[case("HND-001"), case("HND-002")], &tests));
        violations.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn every_case_has_a_verdict_that_can_be_true() {
        let fine = "# why\n\nHND-001 | holds\nHND-002 | waiting | windows\n";
        assert!(complaints(fine, &["HND-001"]).is_empty());
        let missing = complaints("HND-001 | in part | SQL\n", &["HND-001"]);
        assert!(missing[0].contains("HND-002 has no verdict"), "{missing:?}");
        let uncited = complaints("HND-001 HND-002 | holds\n", &["HND-001"]);
        assert!(
            uncited[0].contains(":1: no test cites HND-002"),
            "{uncited:?}"
        );
        let cited = complaints(fine, &["HND-001", "HND-002"]);
        assert!(cited[0].contains("a test cites HND-002"), "{cited:?}");
        let unknown = complaints("HND-001 HND-002 HND-9 | waiting | SQL\n", &[]);
        assert!(unknown[0].contains("HND-9 is no case"), "{unknown:?}");
    }

    #[test]
    fn a_line_of_another_form_is_refused_with_the_form() {
        for line in [
            "HND-001",
            "HND-001 | holds | why",
            "HND-001 | waiting |",
            "1 | holds",
            "| holds",
        ] {
            let found = complaints(&format!("{line}\nHND-001 HND-002 | waiting | SQL\n"), &[]);
            assert!(found[0].contains(":1: write `HND-034"), "{line}: {found:?}");
        }
        let twice = complaints(
            "HND-001 HND-002 | waiting | a\nHND-002 | waiting | b\n",
            &[],
        );
        assert!(twice[0].contains(":2: HND-002 is here twice"), "{twice:?}");
    }
}
