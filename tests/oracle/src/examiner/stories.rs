//! How what was found is told.

use std::ffi::OsStr;
use std::fs::File;
use std::io::BufReader;

use crate::finding::{Finding, Kind, Location};
use crate::ledger::{Fault, Place};
use crate::line::{Line, Lines};
use crate::row::{Row, RowParser};

use super::{Examiner, READ_BYTES};

impl Examiner {
    fn location(&self, at: Place) -> Location {
        Location {
            file: self.files[at.file as usize].name.to_string_lossy().into(),
            line: at.line,
        }
    }

    pub(super) fn report_fault(&mut self, fault: Fault, row: Row, at: Place, text: &[u8]) {
        let expectation = self.subject.expectation;
        let (kind, expected, found, other) = match fault {
            Fault::UnknownKey => {
                let expected = format!("a key from 0 to {}", expectation.keys.saturating_sub(1));
                (Kind::UnknownKey, expected, format!("key {}", row.key), None)
            }
            Fault::NoSuchN => {
                let expected = format!("n from 1 to {}", expectation.n_max());
                (Kind::NoSuchN, expected, format!("n = {}", row.n), None)
            }
            Fault::WrongSum { expected } => {
                let (expected, found) = (format!("sum {expected}"), format!("sum {}", row.sum));
                (Kind::WrongSum, expected, found, None)
            }
            Fault::Duplicate => {
                // Finding the first one means to read files again: worth it once.
                let is_first = self.findings.count(Kind::Duplicate) == 0;
                let first = is_first.then(|| self.find(row, at)).flatten();
                let found = match &first {
                    Some(first) => format!("it again, first in {first}"),
                    None => "it again".to_owned(),
                };
                (Kind::Duplicate, "the row once".to_owned(), found, first)
            }
            Fault::Order { later_n, later } => {
                let later = self.location(later);
                let found = format!("it behind n = {later_n} in {later}");
                (
                    Kind::Order,
                    "rows of a key in order".to_owned(),
                    found,
                    Some(later),
                )
            }
        };
        let (view, at) = (self.view, self.location(at));
        self.findings.add(kind, || Finding {
            view,
            other,
            ..Finding::new(kind, expected, found)
                .at(at)
                .of_row(row.key, row.n)
                .quoting(text)
        });
    }

    /// Where a row stands for the first time, reading again what was read before this place.
    fn find(&self, wanted: Row, before: Place) -> Option<Location> {
        for (index, file) in self.files.iter().enumerate() {
            let input = File::open(self.subject.dir.join(&file.name)).ok();
            let Some(input) = input else { continue };
            let mut lines = Lines::new(BufReader::with_capacity(READ_BYTES, input));
            let mut parser = RowParser::new(self.format_of(&file.name), &self.subject.columns);
            while let Ok(Some((number, line))) = lines.read_next() {
                if index == before.file as usize && number >= before.line {
                    return None;
                }
                let (Line::Whole(text) | Line::Torn(text)) = line else {
                    continue;
                };
                if let Ok(Some(row)) = parser.parse(text)
                    && (row.key, row.n) == (wanted.key, wanted.n)
                {
                    return Some(Location {
                        file: file.name.to_string_lossy().into(),
                        line: number,
                    });
                }
            }
        }
        None
    }

    pub(super) fn report_line(
        &mut self,
        kind: Kind,
        expected: &str,
        found: &str,
        at: Place,
        text: &[u8],
    ) {
        let (view, at) = (self.view, self.location(at));
        self.findings.add(kind, || Finding {
            view,
            ..Finding::new(kind, expected, found).at(at).quoting(text)
        });
    }

    pub(super) fn report_gaps(&mut self) {
        for gap in self.ledger.gaps() {
            let n_missing = gap.found_n - gap.expected_n;
            let expected = format!("n = {} before any later one", gap.expected_n);
            let found = format!("n = {}; {n_missing} rows are missing", gap.found_n);
            let finding = Finding::new(Kind::Gap, expected, found)
                .at(self.location(gap.found))
                .of_row(i128::from(gap.key), i128::from(gap.expected_n));
            self.add(finding);
        }
    }

    pub(super) fn report_missing(&mut self) {
        let missing: Vec<_> = self.ledger.missing().collect();
        for missing in missing {
            let (view, last) = (self.view, missing.last.map(|place| self.location(place)));
            let n_last = self.subject.expectation.n_max();
            self.findings.add(Kind::Missing, || {
                let (expected, found) = match missing.last_n {
                    0 => ("its first row", "no row of the key".to_owned()),
                    n => ("all rows of the key", format!("n = {n} as its last")),
                };
                let expected = format!("{expected}, up to n = {n_last}");
                let mut finding = Finding::new(Kind::Missing, expected, found);
                finding = finding.of_row(i128::from(missing.key), i128::from(missing.last_n) + 1);
                (finding.view, finding.other) = (view, last);
                finding
            });
        }
    }

    pub(super) fn report_changed(&mut self, name: &OsStr, before: u64, now: u64) {
        let found = match before == now {
            true => format!("other content of the same {now} bytes"),
            false => format!("{now} bytes, before {before}"),
        };
        let expected = "a committed file to stay as it is";
        let finding = Finding::new(Kind::FileChanged, expected, found);
        self.add(finding.in_file(name.to_string_lossy()));
    }

    pub(super) fn report_vanished(&mut self, name: &OsStr) {
        if self.reported.insert(name.to_owned()) {
            let expected = "what was visible to stay visible";
            let finding = Finding::new(Kind::FileVanished, expected, "the file gone");
            self.add(finding.in_file(name.to_string_lossy()));
        }
    }

    pub(super) fn report_unreadable(&mut self, name: &OsStr, reason: &str) {
        if self.reported.insert(name.to_owned()) {
            let finding = Finding::new(Kind::Unreadable, "a file to read", reason);
            self.add(finding.in_file(name.to_string_lossy()));
        }
    }
}
