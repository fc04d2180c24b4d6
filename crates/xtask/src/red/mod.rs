//! Shows that tests which prove items go red: each fault of `tests/red` is planted in a copy of the
//! work tree, where its test must pass without the fault and fail with it.

mod binary;
mod check;
mod copy;
mod faults;
mod runner;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::path::{Path, PathBuf};

use crate::conformance::{self, item_number};
use crate::cpu;
use crate::report::Failure;
use crate::tree::{Tree, cargo_metadata};

use binary::Binary;
use copy::Copy;
use runner::{Runner, Verdict};

pub use check::check;
#[cfg(test)]
pub use faults::parse;
pub use faults::{Fault, faults};

/// Plants the faults of these items, or of `all`, and prints what came of each.
pub fn run(root: &Path, wanted: &[String]) -> Result<(), Failure> {
    let tree = Tree::read(root)?;
    let chosen = choose(conformance::sound_faults(&tree)?, wanted)?;
    let folder = target_directory(root)?.join("red");
    let copy = Copy::of(root, &folder.join("tree"))?;
    let runner = Runner::new(copy.folder(), &folder.join("build"))?;
    println!("{} faults in {}\n", chosen.len(), copy.folder().display());
    println!("{:<5} {:<22} {:>6}  fault, test", "item", "state", "CPU s");
    let mut green = BTreeSet::new();
    for (binary, faults) in by_binary(&tree, chosen) {
        let mut sound: BTreeMap<String, Verdict> = BTreeMap::new();
        for fault in &faults {
            if !sound.contains_key(&fault.test.function) {
                let verdict = runner.run(&binary, &fault.test)?;
                sound.insert(fault.test.function.clone(), verdict);
            }
        }
        for fault in faults {
            let before = cpu::of_children();
            let outcome = match sound.get(&fault.test.function) {
                Some(Verdict::Passed) => {
                    let run = || runner.run(&binary, &fault.test);
                    Outcome::of(copy.planted(&fault.file, &fault.text, &fault.with, run)?)
                }
                other => Outcome::Unsound(other.cloned().unwrap_or(Verdict::NoTest)),
            };
            let spent = cpu::of_children().saturating_sub(before);
            print_row(&fault, &outcome, spent.as_secs());
            if outcome != Outcome::Red {
                green.insert(fault.item);
            }
        }
    }
    conclude(&green)
}

/// What planting a fault came to.
#[derive(PartialEq, Eq, Debug)]
enum Outcome {
    /// The test noticed.
    Red,
    /// The test did not notice.
    Green,
    /// The compiler noticed, which shows nothing about the test.
    NotBuilt(String),
    /// The test does not pass without the fault.
    Unsound(Verdict),
}

impl Outcome {
    fn of(verdict: Verdict) -> Self {
        match verdict {
            Verdict::Failed(_) => Self::Red,
            Verdict::Passed => Self::Green,
            Verdict::NotBuilt(said) => Self::NotBuilt(said),
            Verdict::NoTest => Self::Unsound(Verdict::NoTest),
        }
    }

    /// What was said where that helps.
    fn said(&self) -> &str {
        match self {
            Self::NotBuilt(said)
            | Self::Unsound(Verdict::Failed(said) | Verdict::NotBuilt(said)) => said,
            Self::Red | Self::Green | Self::Unsound(Verdict::Passed | Verdict::NoTest) => "",
        }
    }
}

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Red => "red",
            Self::Green => "NOT NOTICED",
            Self::NotBuilt(_) => "DOES NOT COMPILE",
            Self::Unsound(Verdict::NoTest) => "NO SUCH TEST",
            Self::Unsound(Verdict::NotBuilt(_)) => "NOT BUILT WITHOUT IT",
            Self::Unsound(Verdict::Failed(_) | Verdict::Passed) => "FAILS WITHOUT IT",
        })
    }
}

fn print_row(fault: &Fault, outcome: &Outcome, seconds: u64) {
    println!(
        "{:<5} {outcome:<22} {seconds:>6}  {}, {}::{}",
        format!("F{}", fault.item),
        fault.about,
        fault.test.path.display(),
        fault.test.function
    );
    print!("{}", outcome.said());
    if *outcome == Outcome::Red && !fault.is_shown {
        let (path, line) = (fault.path.display(), fault.line);
        println!(
            "      seen red: take `{}` out of {path}:{line}",
            faults::NOT_SHOWN
        );
    }
}

fn conclude(green: &BTreeSet<u32>) -> Result<(), Failure> {
    if green.is_empty() {
        println!("\nall red: every test notices its fault");
        return Ok(());
    }
    let items: Vec<String> = green.iter().map(|number| format!("F{number}")).collect();
    Err(Failure::Unexpected(format!(
        "not shown red: {items}. A test that does not notice proves nothing: make it stricter, or \
         plant a fault that breaks the item. To run it again:\n  cargo xtask conformance --red {items}",
        items = items.join(" ")
    )))
}

fn choose(faults: Vec<Fault>, wanted: &[String]) -> Result<Vec<Fault>, Failure> {
    if wanted == ["all"] {
        return Ok(faults);
    }
    let mut numbers = BTreeSet::new();
    for text in wanted {
        let number = item_number(text).ok_or_else(|| {
            Failure::Unexpected(format!(
                "{text:?} is no item: write items such as F18, or all"
            ))
        })?;
        if !faults.iter().any(|fault| fault.item == number) {
            let message = format!(
                "no fault is planted for {text}: add one to {}",
                faults::FOLDER
            );
            return Err(Failure::Unexpected(message));
        }
        numbers.insert(number);
    }
    let chosen = faults
        .into_iter()
        .filter(|fault| numbers.contains(&fault.item));
    Ok(chosen.collect())
}

/// One binary after the other, so that each is built without a fault only once.
fn by_binary(tree: &Tree, faults: Vec<Fault>) -> BTreeMap<Binary, Vec<Fault>> {
    let mut groups: BTreeMap<Binary, Vec<Fault>> = BTreeMap::new();
    for fault in faults {
        // Every fault's test is in a binary: that was checked.
        if let Some(binary) = Binary::of(tree, &fault.test) {
            groups.entry(binary).or_default().push(fault);
        }
    }
    groups
}

fn target_directory(root: &Path) -> Result<PathBuf, Failure> {
    let metadata = cargo_metadata(root)?;
    let directory = metadata["target_directory"].as_str();
    directory
        .map(PathBuf::from)
        .ok_or_else(|| Failure::Unexpected("cargo metadata names no target directory".to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn two_faults() -> Vec<Fault> {
        let block = |item: u32| {
            format!("item: F{item}\nabout: it\nfile: a.rs\ntext: x\nwith: y\ntest: a.rs::shows\n\n")
        };
        let (faults, violations) = parse("r.txt", &format!("{}{}", block(18), block(20)));
        assert!(violations.is_empty());
        faults
    }

    fn chosen(wanted: &[&str]) -> Result<Vec<u32>, String> {
        let wanted: Vec<String> = wanted.iter().map(|item| (*item).to_owned()).collect();
        choose(two_faults(), &wanted)
            .map(|faults| faults.iter().map(|fault| fault.item).collect())
            .map_err(|failure| failure.to_string())
    }

    #[test]
    fn items_are_chosen_by_name_or_all() {
        assert_eq!(chosen(&["all"]), Ok(vec![18, 20]));
        assert_eq!(chosen(&["F20"]), Ok(vec![20]));
        assert!(chosen(&["20"]).unwrap_err().contains("is no item"));
        assert!(
            chosen(&["F20", "F3"])
                .unwrap_err()
                .contains("planted for F3")
        );
    }

    #[test]
    fn only_a_test_that_ran_and_failed_is_red() {
        let outcomes = [
            Verdict::Failed(String::new()),
            Verdict::Passed,
            Verdict::NotBuilt(String::new()),
            Verdict::NoTest,
        ]
        .map(|verdict| Outcome::of(verdict).to_string());
        assert_eq!(
            outcomes,
            ["red", "NOT NOTICED", "DOES NOT COMPILE", "NO SUCH TEST"]
        );
    }

    #[test]
    fn what_was_not_red_is_a_failure_that_names_it() {
        assert!(conclude(&BTreeSet::new()).is_ok());
        let failure = conclude(&BTreeSet::from([3, 18])).unwrap_err().to_string();
        assert!(
            failure.ends_with("cargo xtask conformance --red F3 F18"),
            "{failure}"
        );
    }
}
