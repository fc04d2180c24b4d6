//! Which test proves which item of the checklist: read from `// Proves F59, F60-F62.` above tests.

use std::collections::BTreeMap;
use std::path::Path;

use regex::Regex;

use crate::report::{Failure, Violation};
use crate::rust_source::RustSource;
use crate::tree::Tree;

const CHECKLIST: &str = "docs/spec/conformance.md";
const TABLE: &str = "docs/conformance.md";
/// How far below its comment a test may begin: attributes stand between.
const LINES_TO_TEST_MAX: usize = 12;

/// Tests by the number of the item they prove.
type Proofs = BTreeMap<u32, Vec<String>>;

/// Writes the table.
pub fn write(root: &Path) -> Result<(), Failure> {
    let tree = Tree::read(root)?;
    let items = items(tree.text(CHECKLIST)?)?;
    let table = render(&items, &proofs(&tree, &items)?.0);
    std::fs::write(root.join(TABLE), table).map_err(Failure::io(format!("write {TABLE}")))?;
    println!("wrote {TABLE}");
    Ok(())
}

/// Complains if the table in the tree is not what the tests say, or a comment proves nothing.
pub fn check(tree: &Tree) -> Result<Vec<Violation>, Failure> {
    let items = items(tree.text(CHECKLIST)?)?;
    let (proofs, mut violations) = proofs(tree, &items)?;
    let written = tree.texts.iter().find(|file| file.path == Path::new(TABLE));
    if written.is_none_or(|file| file.text != render(&items, &proofs)) {
        let message = "does not say what the tests say: run `cargo xtask conformance`";
        violations.push(Violation::of(TABLE, message));
    }
    Ok(violations)
}

/// The checklist's items in order.
fn items(checklist: &str) -> Result<Vec<(u32, String)>, Failure> {
    let pattern = compile(r"(?m)^- \*\*F(\d+)\*\* (.*)$")?;
    let items = pattern.captures_iter(checklist).map(|capture| {
        let number = capture[1].parse().unwrap_or_default();
        (number, capture[2].to_owned())
    });
    Ok(items.collect())
}

fn render(items: &[(u32, String)], proofs: &Proofs) -> String {
    let n_proven = items
        .iter()
        .filter(|(number, _)| proofs.contains_key(number))
        .count();
    let mut text = format!(
        "# Conformance\n\nWhich test proves which item of `{CHECKLIST}`. Written by `cargo xtask conformance`; do not\n\
         edit. {n_proven} of {} items are proven.\n\n| item | requirement | proven by |\n|---|---|---|\n",
        items.len()
    );
    for (number, requirement) in items {
        let tests = proofs
            .get(number)
            .map_or_else(|| "not yet".to_owned(), |tests| tests.join("<br>"));
        let requirement = requirement.replace('|', "\\|");
        text.push_str(&format!("| F{number} | {requirement} | {tests} |\n"));
    }
    text
}

/// What the comments of all Rust files say.
fn proofs(tree: &Tree, items: &[(u32, String)]) -> Result<(Proofs, Vec<Violation>), Failure> {
    let reader = Reader::new()?;
    let (mut proofs, mut violations) = (Proofs::new(), Vec::new());
    for (path, source) in &tree.rust {
        // This tool's own tests hold examples.
        if path.starts_with("crates/xtask") {
            continue;
        }
        for claim in reader.claims(source) {
            let Some(test) = &claim.test else {
                let message =
                    "no test below this comment: put it right above the one that proves it";
                violations.push(Violation::at(path, claim.line, message));
                continue;
            };
            for number in &claim.items {
                if items.iter().any(|(known, _)| known == number) {
                    proofs.entry(*number).or_default().push(link(path, test));
                } else {
                    let message = format!("F{number} is no item of {CHECKLIST}");
                    violations.push(Violation::at(path, claim.line, message));
                }
            }
        }
    }
    for tests in proofs.values_mut() {
        tests.sort();
        tests.dedup();
    }
    Ok((proofs, violations))
}

fn link(path: &Path, test: &str) -> String {
    format!("[{}::{test}](../{})", path.display(), path.display())
}

/// A comment that says what a test proves.
#[derive(PartialEq, Eq, Debug)]
struct Claim {
    /// From 1.
    line: usize,
    items: Vec<u32>,
    /// The test's function.
    test: Option<String>,
}

struct Reader {
    proves: Regex,
    /// Fences have numbers of their own.
    fence: Regex,
    range: Regex,
    function: Regex,
}

impl Reader {
    fn new() -> Result<Self, Failure> {
        Ok(Self {
            proves: compile(r"\bProves:? ((?:F|HND-)\d.*)$")?,
            fence: compile(r"\bfences? F\d+(?:(?:,| and) F\d+)*")?,
            range: compile(r"\bF(\d+)(?:\s*(?:-|–|to)\s*F?(\d+))?\b")?,
            function: compile(r"\bfn (\w+)")?,
        })
    }

    fn claims(&self, source: &RustSource) -> Vec<Claim> {
        let lines = source.lines.iter().enumerate();
        let claims = lines.filter_map(|(index, line)| {
            let first = self.proves.captures(&line.comment)?[1].to_owned();
            // The sentence may go on below; it ends with a full stop or with the comment.
            let mut sentence = first;
            for below in &source.lines[index + 1..] {
                if sentence.contains('.') || below.comment.trim().is_empty() {
                    break;
                }
                sentence.push(' ');
                sentence.push_str(&below.comment);
            }
            let sentence = sentence.split('.').next().unwrap_or_default();
            let sentence = self.fence.replace_all(sentence, "");
            let test = source.lines[index..]
                .iter()
                .take(LINES_TO_TEST_MAX)
                .find_map(|line| Some(self.function.captures(&line.code)?[1].to_owned()));
            Some(Claim {
                line: index + 1,
                items: self.numbers(&sentence),
                test,
            })
        });
        claims.collect()
    }

    fn numbers(&self, sentence: &str) -> Vec<u32> {
        let ranges = self.range.captures_iter(sentence).flat_map(|capture| {
            let number = |i: usize| {
                capture
                    .get(i)
                    .and_then(|text| text.as_str().parse::<u32>().ok())
            };
            let first = number(1).unwrap_or_default();
            first..=number(2).unwrap_or(first)
        });
        ranges.collect()
    }
}

fn compile(pattern: &str) -> Result<Regex, Failure> {
    Regex::new(pattern).map_err(|error| Failure::Unexpected(format!("{pattern}: {error}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn claims(text: &str) -> Vec<(Vec<u32>, Option<String>)> {
        let claims = Reader::new().unwrap().claims(&RustSource::parse(text));
        claims
            .into_iter()
            .map(|claim| (claim.items, claim.test))
            .collect()
    }

    #[test]
    fn a_comment_above_a_test_says_what_it_proves() {
        let text = "\
// Proves F20, F21.
#[test]
fn waits_for_the_pause() {}

/// A story about B1.1. Proves F59-F61,
/// F70. And F80 is something else.
#[tokio::test(flavor = \"multi_thread\")]
async fn completes() {}
";
        let expected = [
            (vec![20, 21], Some("waits_for_the_pause".to_owned())),
            (vec![59, 60, 61, 70], Some("completes".to_owned())),
        ];
        assert_eq!(claims(text), expected);
    }

    #[test]
    fn fences_and_field_cases_are_no_items() {
        let text = "// Proves F59, and fences F5 and F6.\n#[test]\nfn a() {}\n\
                    // Proves HND-066, F35.\n#[test]\nfn b() {}\n";
        let expected = [
            (vec![59], Some("a".to_owned())),
            (vec![35], Some("b".to_owned())),
        ];
        assert_eq!(claims(text), expected);
    }

    #[test]
    fn a_comment_with_nothing_below_proves_nothing() {
        assert_eq!(claims("// Proves F20.\nstruct A;\n"), [(vec![20], None)]);
    }

    #[test]
    fn other_comments_claim_nothing() {
        assert!(claims("// This proves the point of F20.\nfn a() {}\n").is_empty());
        assert!(claims("let s = \"Proves F20.\";\nfn a() {}\n").is_empty());
    }

    #[test]
    fn the_table_shows_every_item_and_counts() {
        let items = items("# F\n- **F1** G a | b T c\n- **F2** G d\n").unwrap();
        let proofs = Proofs::from([(2, vec!["x::y".to_owned(), "x::z".to_owned()])]);
        let table = render(&items, &proofs);
        assert!(table.contains("1 of 2 items"), "{table}");
        assert!(table.contains("| F1 | G a \\| b T c | not yet |\n| F2 | G d | x::y<br>x::z |\n"));
    }
}
