//! What is proven: every item of the checklist with the tests that claim it and the planted fault
//! that shows such a test red.

mod claims;
mod table;
mod waiting;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use clap::Args;
use regex::Regex;

use crate::cases;
use crate::red;
use crate::report::{Failure, Violation};
use crate::tree::Tree;

use claims::Reader;
use table::Table;
use waiting::Waiting;

const CHECKLIST: &str = "docs/spec/conformance.md";
const TABLE: &str = "docs/conformance.md";

/// What `cargo xtask conformance` is asked for.
#[derive(Args, Debug)]
pub struct ConformanceArgs {
    /// Shows instead that the tests of these items go red: F18 F20, or all.
    ///
    /// Each fault of tests/red is planted in a copy of the work tree below the target directory
    /// (red/tree), where its test must pass without the fault and fail with it. The copy has a build
    /// directory of its own (red/build), kept for the next time. The first build there costs as much
    /// as a first build of the crates tested: a minute for one pure crate, ten and more for tests
    /// that start processes. `rm -r` of red gives the space back.
    #[arg(long, num_args = 1.., value_name = "ITEM")]
    red: Vec<String>,
}

/// Writes the tables, or shows tests red.
pub fn conformance(root: &Path, args: &ConformanceArgs) -> Result<(), Failure> {
    match args.red.is_empty() {
        true => write(root),
        false => red::run(root, &args.red),
    }
}

fn write(root: &Path) -> Result<(), Failure> {
    let tree = Tree::read(root)?;
    let knowledge = Knowledge::gather(&tree)?;
    std::fs::write(root.join(TABLE), knowledge.table().to_string())
        .map_err(Failure::io(format!("write {TABLE}")))?;
    println!("wrote {TABLE}");
    cases::write(root)
}

/// Complains if the table in the tree is not what the tests say, a comment proves nothing, a fault
/// cannot be planted, or an item without a test does not say why.
pub fn check(tree: &Tree) -> Result<Vec<Violation>, Failure> {
    let knowledge = Knowledge::gather(tree)?;
    let written = tree.texts.iter().find(|file| file.path == Path::new(TABLE));
    let is_current = written.is_some_and(|file| file.text == knowledge.table().to_string());
    let mut violations = knowledge.violations;
    if !is_current {
        let message = "does not say what the tests say: run `cargo xtask conformance`";
        violations.push(Violation::of(TABLE, message));
    }
    Ok(violations)
}

/// The planted faults, if all of them can be planted.
pub fn sound_faults(tree: &Tree) -> Result<Vec<red::Fault>, Failure> {
    let items = items(tree.text(CHECKLIST)?)?;
    let (proofs, _) = proofs(tree, &items)?;
    let (faults, mut violations) = red::faults(&tree.root)?;
    violations.extend(red::check(tree, &items, &proofs, &faults)?);
    match violations.is_empty() {
        true => Ok(faults),
        false => Err(Failure::Untidy(violations)),
    }
}

/// An item of the checklist.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Item {
    /// 59 of F59.
    pub number: u32,
    /// What is required.
    pub text: String,
}

/// A test: its file and its function.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct TestName {
    /// The file, from the root.
    pub path: PathBuf,
    /// The function.
    pub function: String,
}

/// Tests by the number of the item they claim to prove.
pub type Proofs = BTreeMap<u32, Vec<TestName>>;

/// All that is known about the items.
struct Knowledge {
    items: Vec<Item>,
    proofs: Proofs,
    faults: Vec<red::Fault>,
    waiting: Waiting,
    pure_crates: Vec<String>,
    violations: Vec<Violation>,
}

impl Knowledge {
    fn gather(tree: &Tree) -> Result<Self, Failure> {
        let items = items(tree.text(CHECKLIST)?)?;
        let (proofs, mut violations) = proofs(tree, &items)?;
        let (faults, malformed) = red::faults(&tree.root)?;
        violations.extend(malformed);
        violations.extend(red::check(tree, &items, &proofs, &faults)?);
        let (waiting, malformed) = Waiting::read(tree)?;
        violations.extend(malformed);
        violations.extend(waiting.check(&items, &proofs));
        Ok(Self {
            items,
            proofs,
            faults,
            waiting,
            pure_crates: crate::tidy::pure_crates()?,
            violations,
        })
    }

    fn table(&self) -> Table<'_> {
        Table {
            items: &self.items,
            proofs: &self.proofs,
            faults: &self.faults,
            waiting: &self.waiting,
            pure_crates: &self.pure_crates,
        }
    }
}

/// The checklist's items in order.
fn items(checklist: &str) -> Result<Vec<Item>, Failure> {
    let pattern = compile(r"(?m)^- \*\*F(\d+)\*\* (.*)$")?;
    let items = pattern.captures_iter(checklist).map(|capture| Item {
        number: capture[1].parse().unwrap_or_default(),
        text: capture[2].to_owned(),
    });
    Ok(items.collect())
}

/// What the comments of all Rust files say.
fn proofs(tree: &Tree, items: &[Item]) -> Result<(Proofs, Vec<Violation>), Failure> {
    let reader = Reader::new()?;
    let (mut proofs, mut violations) = (Proofs::new(), Vec::new());
    for (path, source) in &tree.rust {
        // This tool's own tests hold examples.
        if path.starts_with("crates/xtask") {
            continue;
        }
        for claim in reader.claims(source) {
            let Some(function) = claim.test else {
                let message =
                    "no test below this comment: put it right above the one that proves it";
                violations.push(Violation::at(path, claim.line, message));
                continue;
            };
            for number in claim.items {
                if items.iter().any(|item| item.number == number) {
                    let (path, function) = (path.clone(), function.clone());
                    let test = TestName { path, function };
                    proofs.entry(number).or_default().push(test);
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

/// The number of an item as it is written: 18 of F18.
pub fn item_number(text: &str) -> Option<u32> {
    let digits = text.strip_prefix('F')?;
    let is_number = !digits.is_empty() && digits.bytes().all(|b| b.is_ascii_digit());
    is_number.then(|| digits.parse().ok()).flatten()
}

fn compile(pattern: &str) -> Result<Regex, Failure> {
    Regex::new(pattern).map_err(|error| Failure::Unexpected(format!("{pattern}: {error}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_item_is_written_with_its_letter() {
        assert_eq!(item_number("F18"), Some(18));
        for text in ["18", "F", "F1a", "f18", "F+1"] {
            assert_eq!(item_number(text), None, "{text}");
        }
    }

    #[test]
    fn the_checklist_is_read_item_by_item() {
        let items = items("# F\n- **F1** G a | b T c\ntext\n- **F2** G d\n").unwrap();
        assert_eq!(items.len(), 2);
        assert_eq!(
            (items[0].number, items[0].text.as_str()),
            (1, "G a | b T c")
        );
    }
}
