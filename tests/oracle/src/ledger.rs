//! Which rows were seen: per key a prefix without gap, and runs of rows beyond it.

use std::collections::{BTreeMap, BTreeSet};

use crate::row::Row;
use crate::rule::{Expectation, Rows};

/// Where a row stands.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Place {
    /// Index of the file.
    pub file: u32,
    /// Files of one writer share it: rows of a key stay in order through all of them.
    pub writer: u32,
    /// From 1.
    pub line: u64,
}

/// What is wrong with a row.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Fault {
    /// There is no such key.
    UnknownKey,
    /// There is no such n.
    NoSuchN,
    /// Another sum belongs to this n.
    WrongSum {
        /// That one.
        expected: i128,
    },
    /// The row was there before.
    Duplicate,
    /// The same writer wrote a later row of the key before.
    Order {
        /// That row's n.
        later_n: u64,
        /// Where it is.
        later: Place,
    },
}

/// Rows of a key that are missing although later ones are there.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Gap {
    /// The key.
    pub key: u64,
    /// The first missing n.
    pub expected_n: u64,
    /// The first n behind the gap.
    pub found_n: u64,
    /// Where it is.
    pub found: Place,
}

/// A key that ends too early.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Missing {
    /// The key.
    pub key: u64,
    /// The n that it ends with; 0 if it has no row.
    pub last_n: u64,
    /// Where its last row is.
    pub last: Option<Place>,
}

#[derive(Clone, Default)]
struct KeyState {
    /// Rows 1 to this were seen.
    prefix: u64,
    /// Runs beyond the prefix by their first n, disjoint.
    runs: BTreeMap<u64, Run>,
    /// The row that was read last.
    last: Option<(u64, Place)>,
    /// The prefix at which a gap was reported: once each.
    reported_at: Option<u64>,
}

#[derive(Clone, Copy)]
struct Run {
    last_n: u64,
    at: Place,
}

/// All keys.
pub struct Ledger {
    expectation: Expectation,
    keys: Vec<KeyState>,
    /// Keys that have runs.
    with_runs: BTreeSet<u64>,
    n_rows: u64,
}

impl Ledger {
    /// Nothing seen.
    pub fn new(expectation: Expectation) -> Self {
        let n_keys = usize::try_from(expectation.keys).expect("the number of keys was checked");
        Self {
            expectation,
            keys: vec![KeyState::default(); n_keys],
            with_runs: BTreeSet::new(),
            n_rows: 0,
        }
    }

    /// Takes a row; appends what is wrong with it.
    pub fn take(&mut self, row: Row, at: Place, faults: &mut Vec<Fault>) {
        self.n_rows += 1;
        let index = usize::try_from(row.key).ok();
        let Some(state) = index.and_then(|index| self.keys.get_mut(index)) else {
            return faults.push(Fault::UnknownKey);
        };
        let n = match u64::try_from(row.n) {
            Ok(n) if n >= 1 && n <= self.expectation.n_max() => n,
            Ok(_) | Err(_) => return faults.push(Fault::NoSuchN),
        };
        let expected = self.expectation.value.sum(n);
        if row.sum != expected {
            faults.push(Fault::WrongSum { expected });
        }
        if !state.take(n, at) {
            return faults.push(Fault::Duplicate);
        }
        if let Some((later_n, later)) = state.last
            && later.writer == at.writer
            && later_n > n
        {
            faults.push(Fault::Order { later_n, later });
        }
        state.last = Some((n, at));
        if !state.runs.is_empty() {
            self.with_runs.insert(row.key as u64);
        }
    }

    /// The gaps that were not reported before. Asked once all files of a view were read: within a
    /// view files of several checkpoints and subtasks interleave.
    pub fn gaps(&mut self) -> Vec<Gap> {
        let keys = &mut self.keys;
        self.with_runs
            .retain(|key| !keys[*key as usize].runs.is_empty());
        let mut gaps = Vec::new();
        for key in &self.with_runs {
            let state = &mut keys[*key as usize];
            let Some((found_n, run)) = state.runs.first_key_value() else {
                continue;
            };
            if state.reported_at != Some(state.prefix) {
                state.reported_at = Some(state.prefix);
                gaps.push(Gap {
                    key: *key,
                    expected_n: state.prefix + 1,
                    found_n: *found_n,
                    found: run.at,
                });
            }
        }
        gaps
    }

    /// The keys that end before the last row they must have.
    pub fn missing(&self) -> impl Iterator<Item = Missing> + '_ {
        let n_last = match self.expectation.rows {
            Rows::PerKey(n) => n,
            Rows::Total(_) | Rows::Open => 0,
        };
        let states = (0..).zip(&self.keys);
        states.filter_map(move |(key, state)| {
            let last_n = state.last_n();
            (last_n < n_last).then_some(Missing {
                key,
                last_n,
                last: state.last.map(|(_, place)| place),
            })
        })
    }

    /// Rows read, good and bad.
    pub fn n_rows(&self) -> u64 {
        self.n_rows
    }

    /// Keys with a row; the fewest and the most rows without gap that a key has.
    pub fn spread(&self) -> (u64, u64, u64) {
        let prefixes = || self.keys.iter().map(|state| state.prefix);
        let n_seen = self
            .keys
            .iter()
            .filter(|state| state.last.is_some())
            .count();
        let (least, most) = (prefixes().min(), prefixes().max());
        (n_seen as u64, least.unwrap_or(0), most.unwrap_or(0))
    }
}

impl KeyState {
    /// Whether the row is new.
    fn take(&mut self, n: u64, at: Place) -> bool {
        if n <= self.prefix {
            return false;
        }
        if let Some((_, run)) = self.runs.range_mut(..=n).next_back() {
            if run.last_n >= n {
                return false;
            }
            // A file usually holds the rows of a key one after the other: they are one run.
            if run.last_n + 1 == n && run.at.file == at.file {
                run.last_n = n;
                return true;
            }
        }
        if n > self.prefix + 1 {
            self.runs.insert(n, Run { last_n: n, at });
            return true;
        }
        self.prefix = n;
        while let Some(run) = self.runs.first_entry()
            && *run.key() == self.prefix + 1
        {
            self.prefix = run.remove().last_n;
        }
        true
    }

    /// The highest n seen.
    fn last_n(&self) -> u64 {
        let run = self.runs.last_key_value();
        run.map_or(self.prefix, |(_, run)| run.last_n)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rule::ValueRule;

    fn ledger(rows: Rows) -> Ledger {
        Ledger::new(Expectation {
            keys: 2,
            rows,
            value: ValueRule::One,
        })
    }

    /// Takes rows (file, key, n) with right sums; the faults of the last one.
    fn take(ledger: &mut Ledger, rows: &[(u32, u64, u64)]) -> Vec<Fault> {
        let mut faults = Vec::new();
        for (line, (file, key, n)) in (1..).zip(rows) {
            faults.clear();
            let row = Row {
                key: i128::from(*key),
                n: i128::from(*n),
                sum: i128::from(*n),
            };
            ledger.take(row, place(*file, line), &mut faults);
        }
        faults
    }

    fn place(file: u32, line: u64) -> Place {
        Place {
            file,
            writer: file,
            line,
        }
    }

    #[test]
    fn files_of_a_view_may_come_in_any_order() {
        let mut ledger = ledger(Rows::PerKey(6));
        let rows = [(1, 0, 3), (1, 0, 4), (2, 0, 5), (3, 0, 1), (3, 0, 2)];
        assert_eq!(take(&mut ledger, &rows), []);
        assert_eq!(ledger.gaps(), []);
        assert_eq!(ledger.spread(), (1, 0, 5));
    }

    #[test]
    fn a_gap_is_told_once_and_again_where_it_moved() {
        let mut ledger = ledger(Rows::Open);
        take(&mut ledger, &[(1, 1, 1), (1, 1, 4)]);
        let gap = |expected_n| Gap {
            key: 1,
            expected_n,
            found_n: 4,
            found: place(1, 2),
        };
        assert_eq!(ledger.gaps(), [gap(2)]);
        assert_eq!(ledger.gaps(), []);
        take(&mut ledger, &[(2, 1, 2)]);
        assert_eq!(ledger.gaps(), [gap(3)]);
        take(&mut ledger, &[(3, 1, 3)]);
        assert_eq!(ledger.gaps(), []);
    }

    #[test]
    fn a_row_is_a_duplicate_in_the_prefix_and_beyond_it() {
        let mut ledger = ledger(Rows::Open);
        let rows = [(1, 0, 1), (1, 0, 5), (1, 0, 6), (1, 0, 7)];
        take(&mut ledger, &rows);
        for n in [1, 5, 6, 7] {
            assert_eq!(take(&mut ledger, &[(2, 0, n)]), [Fault::Duplicate], "{n}");
        }
        assert_eq!(take(&mut ledger, &[(2, 0, 8)]), []);
    }

    #[test]
    fn order_is_judged_within_a_writer_only() {
        let mut ledger = ledger(Rows::Open);
        let order = Fault::Order {
            later_n: 2,
            later: place(1, 1),
        };
        assert_eq!(take(&mut ledger, &[(1, 0, 2), (1, 0, 1)]), [order]);
        assert_eq!(take(&mut ledger, &[(1, 1, 2), (2, 1, 1)]), []);
    }

    #[test]
    fn rows_that_cannot_be_are_told() {
        let mut ledger = ledger(Rows::PerKey(3));
        let faults = |ledger: &mut Ledger, key, n, sum| {
            let mut faults = Vec::new();
            ledger.take(Row { key, n, sum }, place(1, 1), &mut faults);
            faults
        };
        assert_eq!(faults(&mut ledger, 2, 1, 1), [Fault::UnknownKey]);
        assert_eq!(faults(&mut ledger, -1, 1, 1), [Fault::UnknownKey]);
        assert_eq!(faults(&mut ledger, 0, 0, 0), [Fault::NoSuchN]);
        assert_eq!(faults(&mut ledger, 0, 4, 4), [Fault::NoSuchN]);
        let wrong = Fault::WrongSum { expected: 1 };
        assert_eq!(faults(&mut ledger, 0, 1, 2), [wrong]);
        assert_eq!(ledger.missing().count(), 2);
    }
}
