//! The oracle looks at the output while the job runs, as any consumer of the files could.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;
use std::path::Path;

use millstream_env::fs::{FileKind, Fs, MemoryFs};
use millstream_oracle::examiner::{Examiner, Subject};
use millstream_oracle::row::{Columns, Format};
use millstream_oracle::rule::{Expectation, Rows, ValueRule};
use tempfile::TempDir;

use crate::options::{OUTPUT, Options};

const FILE_BYTES_MAX: u64 = 1 << 30;

/// Watches the output. What is on the simulated disk is copied to a real directory, for the oracle
/// knows no other.
pub struct OutputWatch {
    files: MemoryFs,
    copy: TempDir,
    copied: BTreeMap<OsString, Vec<u8>>,
    /// Names that a power cut took. POSIX shows a name before it can be made durable, so a consumer
    /// may see a file a moment before the power goes: it must come back as it was.
    taken: BTreeSet<OsString>,
    examiner: Examiner,
}

impl OutputWatch {
    pub fn new(options: &Options, files: MemoryFs) -> Self {
        let copy = tempfile::tempdir().unwrap();
        let subject = Subject {
            dir: copy.path().to_owned(),
            format: Some(Format::Csv),
            columns: Columns::default(),
            expectation: Expectation {
                keys: options.keys,
                rows: Rows::Total(options.rows),
                value: ValueRule::N,
            },
        };
        Self {
            files,
            copy,
            copied: BTreeMap::new(),
            taken: BTreeSet::new(),
            examiner: Examiner::new(subject),
        }
    }

    /// Looks once; says what is wrong.
    pub fn look(&mut self) -> Vec<String> {
        self.copy();
        self.examiner.look();
        self.findings()
    }

    /// The last look, at a job that is done.
    pub fn conclude(&mut self) -> Vec<String> {
        self.copy();
        self.examiner.conclude(true);
        let mut findings = self.findings();
        let gone = self.taken.iter().map(|name| {
            format!("file-vanished: a power cut took {name:?}, and it did not come back")
        });
        findings.extend(gone);
        findings
    }

    /// The power is gone: what a name was not durable for is not there now.
    pub fn power_cut(&mut self) {
        let now = self.visible();
        let names = self.copied.keys();
        let taken = names.filter(|name| !now.contains_key(*name)).cloned();
        self.taken.extend(taken);
    }

    /// Rows that were seen.
    pub fn n_rows(&self) -> u64 {
        self.examiner.ledger().n_rows()
    }

    /// Names of visible files, and the checkpoint that promised each.
    pub fn promised_by(&self) -> impl Iterator<Item = (&OsString, u64)> {
        let names = self.copied.keys();
        names.filter_map(|name| {
            let origin = millstream_oracle::listing::Origin::of_name(name);
            Some((name, origin.promise?.0))
        })
    }

    fn findings(&self) -> Vec<String> {
        let found = self.examiner.findings().kept().iter();
        found.map(ToString::to_string).collect()
    }

    /// Contents by name of what a plain listing shows.
    fn visible(&self) -> BTreeMap<OsString, Vec<u8>> {
        let files: &dyn Fs = &self.files;
        let entries = files.list(Path::new(OUTPUT)).unwrap_or_default();
        let is_visible = |name: &OsString| !name.as_encoded_bytes().starts_with(b".");
        let mut visible = BTreeMap::new();
        for entry in entries {
            if entry.kind == FileKind::File && is_visible(&entry.name) {
                let path = Path::new(OUTPUT).join(&entry.name);
                visible.insert(entry.name, files.read(&path, FILE_BYTES_MAX).unwrap());
            }
        }
        visible
    }

    fn copy(&mut self) {
        let mut now = self.visible();
        self.taken.retain(|name| !now.contains_key(name));
        for name in &self.taken {
            if let Some(contents) = self.copied.get(name) {
                now.insert(name.clone(), contents.clone());
            }
        }
        for name in self.copied.keys().filter(|name| !now.contains_key(*name)) {
            std::fs::remove_file(self.copy.path().join(name)).unwrap();
        }
        for (name, contents) in &now {
            if self.copied.get(name) != Some(contents) {
                std::fs::write(self.copy.path().join(name), contents).unwrap();
            }
        }
        self.copied = now;
    }
}
