//! Every citation stands for something: F59, fence F3, A1-2, B3.5, C.1, D.2, HND-034, DESIGN 7.

use std::collections::BTreeSet;
use std::path::Path;

use regex::Regex;

use crate::report::{Failure, Violation};
use crate::tree::Tree;

/// Where each kind of citation is defined, and how a definition looks there.
const DEFINITIONS: [(&str, &str, &str); 8] = [
    ("docs/spec/conformance.md", r"(?m)^- \*\*(F\d+)\*\*", ""),
    (
        "docs/spec/fences.md",
        r"(?m)^- \*\*fence (F\d+)\*\*",
        "fence ",
    ),
    ("docs/spec/incidents.md", r"(?m)^\| (A\d-\d+) \|", ""),
    (
        "docs/spec/protocols.md",
        r"(?m)^(?:#+ |\*\*)(B\d+(?:\.\d+)?)\b",
        "",
    ),
    ("docs/spec/configuration.md", r"(?m)^#+ (C\.\d+)\b", ""),
    ("docs/spec/interfaces.md", r"(?m)^#+ (D\.\d+)\b", ""),
    ("tests/cases/hand.md", r"(?m)^### (HND-\d+)\b", ""),
    ("docs/design.md", r"(?m)^## (\d+)\. ", "DESIGN "),
];

/// What a citation looks like. The words before a number are part of it.
const CITATION: &str = r"\b((?:fences? )?F\d{1,3}|A\d-\d{1,2}|B\d{1,2}\.\d{1,2}|[CD]\.\d{1,2}|HND-\d{3}|DESIGN \d{1,2})\b";

/// Names of documents that are not part of the repository.
const FOREIGN: &str = r"\b(SEMANTICS|RELIABILITY)\b|\b(STYLE|DEPS)(\.md| \d)";

/// Checks comments of Rust files, and all other texts.
pub fn check(tree: &Tree) -> Result<Vec<Violation>, Failure> {
    let checker = Checker::new(tree)?;
    let mut violations = Vec::new();
    for (path, source) in &tree.rust {
        // Its tests and tables hold examples.
        if path.starts_with("crates/xtask") {
            continue;
        }
        for (index, line) in source.lines.iter().enumerate() {
            violations.extend(checker.line(path, index + 1, &line.comment));
        }
    }
    for file in &tree.texts {
        for (index, line) in file.text.lines().enumerate() {
            violations.extend(checker.line(&file.path, index + 1, line));
        }
    }
    Ok(violations)
}

struct Checker {
    defined: BTreeSet<String>,
    citation: Regex,
    foreign: Regex,
}

impl Checker {
    fn new(tree: &Tree) -> Result<Self, Failure> {
        let mut defined = BTreeSet::new();
        for (path, pattern, prefix) in DEFINITIONS {
            let pattern = compile(pattern)?;
            let before = defined.len();
            let found = pattern.captures_iter(tree.text(path)?);
            defined.extend(found.map(|capture| format!("{prefix}{}", &capture[1])));
            if defined.len() == before {
                return Err(Failure::Unexpected(format!(
                    "{path} defines nothing to cite"
                )));
            }
        }
        Ok(Self {
            defined,
            citation: compile(CITATION)?,
            foreign: compile(FOREIGN)?,
        })
    }

    fn line(&self, path: &Path, line: usize, text: &str) -> Vec<Violation> {
        let unresolved = self.citation.captures_iter(text).filter_map(|capture| {
            let cited = capture[1].replacen("fences ", "fence ", 1);
            (!self.defined.contains(&cited))
                .then(|| format!("{cited} stands for nothing: cite what docs/spec/README.md lists"))
        });
        let foreign = self.foreign.find_iter(text).map(|found| {
            format!(
                "{} is no document of this repository: cite the item alone, it is in docs/spec",
                found.as_str()
            )
        });
        unresolved
            .chain(foreign)
            .map(|message| Violation::at(path, line, message))
            .collect()
    }
}

fn compile(pattern: &str) -> Result<Regex, Failure> {
    Regex::new(pattern).map_err(|error| Failure::Unexpected(format!("{pattern}: {error}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn complaints(text: &str) -> Vec<String> {
        let defined = [
            "F59", "fence F3", "A1-2", "B3.5", "D.2", "HND-034", "DESIGN 7",
        ];
        let checker = Checker {
            defined: defined.iter().map(|name| (*name).to_owned()).collect(),
            citation: compile(CITATION).unwrap(),
            foreign: compile(FOREIGN).unwrap(),
        };
        let violations = checker.line(Path::new("a.rs"), 1, text);
        violations
            .into_iter()
            .map(|violation| violation.message)
            .collect()
    }

    #[test]
    fn what_is_defined_may_be_cited() {
        let text = " Proves F59. See A1-2, B3.5, D.2, HND-034, DESIGN 7, fence F3 and fences F3.";
        assert!(complaints(text).is_empty(), "{:?}", complaints(text));
    }

    #[test]
    fn a_citation_of_nothing_is_named() {
        for cited in [
            "F172",
            "fence F59",
            "A9-9",
            "B3.99",
            "D.9",
            "HND-999",
            "DESIGN 99",
        ] {
            let found = complaints(&format!("see {cited}"));
            assert_eq!(found.len(), 1, "{cited}: {found:?}");
            assert!(found[0].starts_with(cited), "{found:?}");
        }
    }

    #[test]
    fn other_words_with_numbers_are_no_citations() {
        assert!(complaints("FLINK-18357, 0xF172, UTF8, F1234, B12, v0.3.5").is_empty());
    }

    #[test]
    fn documents_of_elsewhere_are_no_source() {
        assert_eq!(complaints("as in SEMANTICS B3.5").len(), 1);
        assert_eq!(complaints("a matter of style").len(), 0);
    }
}
