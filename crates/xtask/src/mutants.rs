//! Changes of the code that no test notices: those that are known, and why, are in a file.

use std::collections::BTreeSet;
use std::path::Path;

use crate::report::Failure;

const LEDGER: &str = "tests/ledger/mutants.tsv";
/// Where `cargo mutants` leaves what was missed (`output` in `.cargo/mutants.toml`).
const MISSED: &str = "target/mutants.out/missed.txt";

/// Whether whatever the last run missed is known; says what is not.
pub fn only_known_missed(root: &Path) -> Result<bool, Failure> {
    let read = |path: &str| {
        std::fs::read_to_string(root.join(path)).map_err(Failure::io(format!("read {path}")))
    };
    let (missed, ledger) = (read(MISSED)?, read(LEDGER)?);
    let unknown = unknown(&missed, &ledger);
    for line in &unknown {
        println!("missed, and not in {LEDGER}: {line}");
    }
    Ok(unknown.is_empty())
}

/// What was missed and is not in the ledger, without the line, which changes.
fn unknown(missed: &str, ledger: &str) -> BTreeSet<String> {
    let known: BTreeSet<String> = ledger.lines().filter_map(of_ledger).collect();
    let missed: BTreeSet<String> = missed.lines().filter_map(of_run).collect();
    missed.difference(&known).cloned().collect()
}

/// `file:line:column: what` as `file: what`.
fn of_run(line: &str) -> Option<String> {
    let (place, what) = line.split_once(": ")?;
    let file = place.split(':').next()?;
    Some(format!("{file}: {what}"))
}

/// The columns file, function, mutation and reason, as above.
fn of_ledger(line: &str) -> Option<String> {
    let mut columns = line.split('\t');
    let (file, function) = (columns.next()?, columns.next()?);
    let (mutation, _reason) = (columns.next()?, columns.next()?);
    // What replaces a function as a whole names it already.
    let place = if mutation.contains(function) {
        String::new()
    } else {
        format!(" in {function}")
    };
    Some(format!("{file}: {mutation}{place}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_missed_is_known_by_file_function_and_mutation_wherever_it_stands() {
        let ledger = "# head\n\
                      a.rs\tA::b\treplace < with <=\tthe same\n\
                      a.rs\tA::c\treplace A::c -> u64 with 0\tthe same\n";
        let missed = "a.rs:9:4: replace < with <= in A::b\n\
                      a.rs:1:2: replace A::c -> u64 with 0\n\
                      a.rs:9:4: replace < with == in A::b\n\
                      b.rs:9:4: replace < with <= in A::b\n";
        let unknown: Vec<_> = unknown(missed, ledger).into_iter().collect();
        assert_eq!(
            unknown,
            [
                "a.rs: replace < with == in A::b",
                "b.rs: replace < with <= in A::b"
            ]
        );
    }

    #[test]
    fn every_line_of_the_ledger_has_four_columns_and_names_a_file() {
        let root = crate::workspace_root();
        let ledger = std::fs::read_to_string(root.join(LEDGER)).unwrap();
        for line in ledger.lines().filter(|line| !line.starts_with('#')) {
            let columns: Vec<_> = line.split('\t').collect();
            assert_eq!(columns.len(), 4, "{line}");
            assert!(root.join(columns[0]).is_file(), "{line}");
        }
    }
}
