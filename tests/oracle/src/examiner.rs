//! Reads view after view of the directory, each file once, and judges every row.

mod stories;

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::{self, BufReader};
use std::path::{Path, PathBuf};

use crate::finding::{Finding, Findings, Kind};
use crate::ledger::{Ledger, Place};
use crate::line::{Fingerprint, Line, Lines};
use crate::listing::{self, Entry, Listing, Origin, Stamp};
use crate::row::{Columns, Format, RowParser};
use crate::rule::{Expectation, Rows};

const READ_BYTES: usize = 256 * 1024;

/// What is examined, and against what.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Subject {
    /// The directory of the file sink.
    pub dir: PathBuf,
    /// The form of all files; by each one's name if not told (`.csv` or not).
    pub format: Option<Format>,
    /// Names of the columns.
    pub columns: Columns,
    /// What the rows must be.
    pub expectation: Expectation,
}

/// A file that was read.
struct KnownFile {
    name: OsString,
    stamp: Stamp,
    fingerprint: Fingerprint,
    is_there: bool,
}

/// How a view compares with the one before.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Look {
    /// There are new files.
    Grew,
    /// There are none.
    Same,
    /// The directory does not exist, or did not stand still: nothing was judged.
    NotJudged,
}

/// Remembers what was visible.
pub struct Examiner {
    subject: Subject,
    ledger: Ledger,
    findings: Findings,
    files: Vec<KnownFile>,
    by_name: BTreeMap<OsString, usize>,
    /// Each writer's number, and its newest file.
    writers: BTreeMap<OsString, (u32, Origin)>,
    n_writers: u32,
    /// Names whose trouble was reported.
    reported: BTreeSet<OsString>,
    /// Why the last view was not judged.
    not_judged: String,
    view: u64,
}

impl Examiner {
    /// Nothing seen yet.
    pub fn new(subject: Subject) -> Self {
        Self {
            ledger: Ledger::new(subject.expectation),
            subject,
            findings: Findings::default(),
            files: Vec::new(),
            by_name: BTreeMap::new(),
            writers: BTreeMap::new(),
            n_writers: 0,
            reported: BTreeSet::new(),
            not_judged: String::new(),
            view: 0,
        }
    }

    /// Takes a view and judges it: what was visible is still there and unchanged, the new rows are
    /// right, and each key is a prefix.
    pub fn look(&mut self) -> Look {
        self.view += 1;
        let listing = match listing::list(&self.subject.dir, || {}) {
            Ok(listing) => listing,
            Err(error) => return self.on_no_listing(&error),
        };
        for name in &listing.vanished {
            self.report_vanished(name);
        }
        if !listing.is_settled {
            self.not_judged = "names that came and went during every listing".to_owned();
            return Look::NotJudged;
        }
        self.compare(&listing);
        let n_files = self.files.len();
        self.read_new(&listing);
        self.report_gaps();
        match self.files.len() > n_files {
            true => Look::Grew,
            false => Look::Same,
        }
    }

    fn on_no_listing(&mut self, error: &io::Error) -> Look {
        // A sink makes its directory when it starts. Once seen, it must not go.
        if error.kind() != io::ErrorKind::NotFound || !self.files.is_empty() {
            let reason = error.to_string();
            self.report_unreadable(OsStr::new("."), &reason);
        }
        self.not_judged = error.to_string();
        Look::NotJudged
    }

    /// Reads every file again, whatever its times say, and judges what holds once nothing more
    /// comes. `is_final`: the job is done, so that all rows must be there.
    pub fn conclude(&mut self, is_final: bool) -> Look {
        let look = self.look();
        if look == Look::NotJudged {
            let found = self.not_judged.clone();
            self.add(Finding::new(
                Kind::NoView,
                "a last view of the directory",
                found,
            ));
        }
        for index in 0..self.files.len() {
            self.verify_content(index);
        }
        if self.ledger.n_rows() == 0 {
            let finding = Finding::new(Kind::Empty, "rows to judge", "none");
            self.add(finding);
        }
        let total = match self.subject.expectation.rows {
            Rows::Total(total) => Some(total),
            Rows::PerKey(_) | Rows::Open => None,
        };
        let n_rows = self.ledger.n_rows();
        if let Some(total) = total
            && (n_rows > total || (is_final && n_rows < total))
        {
            let (expected, found) = (format!("{total} rows in all"), n_rows.to_string());
            self.add(Finding::new(Kind::WrongTotal, expected, found));
        }
        if is_final {
            self.report_missing();
        }
        look
    }

    /// What was found wrong.
    pub fn findings(&self) -> &Findings {
        &self.findings
    }

    /// The rows seen.
    pub fn ledger(&self) -> &Ledger {
        &self.ledger
    }

    /// Adds what the examiner itself cannot see.
    pub fn add(&mut self, mut finding: Finding) {
        finding.view = self.view;
        self.findings.add(finding.kind, || finding);
    }

    /// Files that are visible, and their bytes.
    pub fn n_files_and_bytes(&self) -> (u64, u64) {
        let there = self.files.iter().filter(|file| file.is_there);
        let bytes = there.map(|file| file.fingerprint.bytes);
        bytes.fold((0, 0), |(n, sum), bytes| (n + 1, sum + bytes))
    }

    /// What was visible must be visible still, unchanged.
    fn compare(&mut self, listing: &Listing) {
        for index in 0..self.files.len() {
            match listing.entries.get(&self.files[index].name) {
                Some(Entry::File(stamp)) => {
                    self.files[index].is_there = true;
                    // Linking and unlinking other names of a file changes its stamp too.
                    if self.files[index].stamp != *stamp {
                        self.files[index].stamp = *stamp;
                        self.verify_content(index);
                    }
                }
                Some(Entry::Unreadable(reason)) => {
                    let name = self.files[index].name.clone();
                    self.report_unreadable(&name, reason);
                }
                None => {
                    let name = self.files[index].name.clone();
                    self.files[index].is_there = false;
                    self.report_vanished(&name);
                }
            }
        }
    }

    fn verify_content(&mut self, index: usize) {
        let file = &self.files[index];
        if !file.is_there {
            return;
        }
        let (name, before) = (file.name.clone(), file.fingerprint);
        match Fingerprint::of_file(&self.subject.dir.join(&name)) {
            Ok(now) if now == before => {}
            Ok(now) => {
                self.files[index].fingerprint = now;
                self.report_changed(&name, before.bytes, now.bytes);
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                self.files[index].is_there = false;
                self.report_vanished(&name);
            }
            Err(error) => self.report_unreadable(&name, &error.to_string()),
        }
    }

    fn read_new(&mut self, listing: &Listing) {
        let mut new = Vec::new();
        for (name, entry) in &listing.entries {
            match entry {
                Entry::File(stamp) if !self.by_name.contains_key(name) => {
                    new.push((Origin::of_name(name), name, *stamp));
                }
                Entry::File(_) => {}
                Entry::Unreadable(reason) => self.report_unreadable(name, reason),
            }
        }
        // A writer's files in its own order, so that order can be judged across them.
        new.sort_by(|a, b| (&a.0, a.1).cmp(&(&b.0, b.1)));
        for (origin, name, stamp) in new {
            let writer = self.writer_of(origin);
            self.read_file(name, stamp, writer);
        }
    }

    /// The number under which the ledger judges the order of this file's rows.
    fn writer_of(&mut self, origin: Origin) -> u32 {
        let next = self.n_writers;
        let (writer, newest) = self
            .writers
            .entry(origin.writer.clone())
            .or_insert_with(|| (next, origin.clone()));
        // A file that comes after one that was written later is not read in the order of writing.
        let writer = if origin < *newest { next } else { *writer };
        self.n_writers += u32::from(writer == next);
        *newest = origin.max(newest.clone());
        writer
    }

    fn read_file(&mut self, name: &OsString, stamp: Stamp, writer: u32) {
        let file = match File::open(self.subject.dir.join(name)) {
            Ok(file) => file,
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                return self.report_vanished(name);
            }
            Err(error) => return self.report_unreadable(name, &error.to_string()),
        };
        let index = self.files.len();
        let mut lines = Lines::new(BufReader::with_capacity(READ_BYTES, file));
        // Known before its rows are read: they refer to it.
        self.by_name.insert(name.clone(), index);
        self.files.push(KnownFile {
            name: name.clone(),
            stamp,
            fingerprint: lines.fingerprint(),
            is_there: true,
        });
        let at = Place {
            file: index as u32,
            writer,
            line: 0,
        };
        if let Err(error) = self.read_rows(&mut lines, name, at) {
            self.report_unreadable(name, &error.to_string());
        }
        let fingerprint = lines.fingerprint();
        self.files[index].fingerprint = fingerprint;
        if fingerprint.bytes != stamp.bytes {
            self.report_changed(name, stamp.bytes, fingerprint.bytes);
        }
    }

    fn read_rows(
        &mut self,
        lines: &mut Lines<BufReader<File>>,
        name: &OsStr,
        mut at: Place,
    ) -> io::Result<()> {
        let columns = self.subject.columns.clone();
        let mut parser = RowParser::new(self.format_of(name), &columns);
        let mut faults = Vec::new();
        while let Some((number, line)) = lines.read_next()? {
            at.line = number;
            let (text, trouble) = match line {
                Line::Whole(text) => (text, None),
                Line::Torn(text) => (text, Some((Kind::TornLine, "no line end"))),
                Line::TooLong(text) => (text, Some((Kind::Malformed, "a line too long for one"))),
            };
            if let Some((kind, found)) = trouble {
                self.report_line(kind, "a whole row", found, at, text);
            }
            if matches!(trouble, Some((Kind::Malformed, _))) {
                continue;
            }
            match parser.parse(text) {
                Ok(Some(row)) => {
                    faults.clear();
                    self.ledger.take(row, at, &mut faults);
                    for fault in &faults {
                        self.report_fault(*fault, row, at, text);
                    }
                }
                Ok(None) => {}
                Err(found) => self.report_line(Kind::Malformed, "a row", &found, at, text),
            }
        }
        if let Err(found) = parser.finish() {
            self.report_line(Kind::Malformed, "a CSV file", &found, at, b"");
        }
        Ok(())
    }

    fn format_of(&self, name: &OsStr) -> Format {
        let is_csv = Path::new(name).extension() == Some(OsStr::new("csv"));
        self.subject.format.unwrap_or(match is_csv {
            true => Format::Csv,
            false => Format::Json,
        })
    }
}
