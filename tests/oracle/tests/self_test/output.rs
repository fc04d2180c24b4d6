//! Output as the file sink leaves it, made without the engine, to be damaged by tests.
#![allow(clippy::unwrap_used, reason = "helpers of tests")]

use std::fs;
use std::path::PathBuf;

use millstream_oracle::examiner::{Examiner, Subject};
use millstream_oracle::finding::Finding;
use millstream_oracle::row::{Columns, Format};
use millstream_oracle::rule::{Expectation, Rows, ValueRule};
use rand::Rng;
use rand::rngs::StdRng;
use tempfile::TempDir;

/// One committed file.
#[derive(Clone, Debug)]
pub struct Part {
    /// Its name.
    pub name: String,
    /// (key, n, sum).
    pub rows: Vec<[u64; 3]>,
}

/// A directory of committed files.
pub struct Output {
    dir: TempDir,
    format: Format,
    pub keys: u64,
    pub n: u64,
    /// In the order of their commits.
    pub parts: Vec<Part>,
}

impl Output {
    /// What a job of two subtasks with a restart in the middle commits: keys are spread over the
    /// subtasks, each checkpoint commits one file a subtask, of at least one row.
    pub fn generate(format: Format, keys: u64, n: u64, rng: &mut StdRng) -> Self {
        let mut parts = Vec::new();
        let (mut from, mut checkpoint) = (1, 0);
        while from <= n {
            let to = (from + rng.random_range(0..n.div_ceil(4))).min(n);
            checkpoint += rng.random_range(1..3);
            // The nonce of the restarted job sorts before that of the job before.
            let nonce = if from <= n / 2 { 0x5c } else { 0x3a };
            for subtask in 0..2 {
                let own = |key: &u64| key % 2 == subtask;
                let rows = (from..=to).flat_map(|n| (0..keys).filter(own).map(move |key| (key, n)));
                let rows = rows.map(|(key, n)| [key, n, n * (n + 1) / 2]).collect();
                let name = name(format, subtask, checkpoint, nonce);
                parts.push(Part { name, rows });
            }
            from = to + 1;
        }
        parts.retain(|part| !part.rows.is_empty());
        let dir = tempfile::tempdir().unwrap();
        Self {
            dir,
            format,
            keys,
            n,
            parts,
        }
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    /// Makes a part visible as a commit does: written elsewhere, then linked.
    pub fn commit(&self, part: &Part) {
        let staging = self.path(".staging");
        fs::create_dir_all(&staging).unwrap();
        let staged = staging.join(&part.name);
        fs::write(&staged, self.text(part)).unwrap();
        fs::hard_link(&staged, self.path(&part.name)).unwrap();
        fs::remove_file(&staged).unwrap();
    }

    pub fn commit_all(&self) {
        self.parts.iter().for_each(|part| self.commit(part));
    }

    pub fn text(&self, part: &Part) -> String {
        let header = match self.format {
            Format::Json => "",
            Format::Csv => "key,n,sum\n",
        };
        let rows = part.rows.iter().map(|[key, n, sum]| match self.format {
            Format::Json => format!("{{\"key\":{key},\"n\":{n},\"sum\":{sum}}}\n"),
            Format::Csv => format!("{key},{n},{sum}\n"),
        });
        std::iter::once(header.to_owned()).chain(rows).collect()
    }

    pub fn examiner(&self) -> Examiner {
        self.examiner_for(Rows::PerKey(self.n))
    }

    pub fn examiner_for(&self, rows: Rows) -> Examiner {
        Examiner::new(Subject {
            dir: self.dir.path().to_owned(),
            format: None,
            columns: Columns::default(),
            expectation: Expectation {
                keys: self.keys,
                rows,
                value: ValueRule::N,
            },
        })
    }

    /// What a check of the finished job finds.
    pub fn check(&self) -> Vec<Finding> {
        let mut examiner = self.examiner();
        examiner.conclude(true);
        examiner.findings().kept().to_vec()
    }

    /// The words of the command line that judges this output.
    pub fn args(&self) -> Vec<String> {
        let words = ["--keys", "K", "--rows-per-key", "N", "--final"];
        let mut args: Vec<String> = words.map(str::to_owned).to_vec();
        (args[1], args[3]) = (self.keys.to_string(), self.n.to_string());
        args.push(self.dir.path().to_str().unwrap().to_owned());
        args
    }
}

/// As the sink names its files.
pub fn name(format: Format, subtask: u64, checkpoint: u64, nonce: u64) -> String {
    let ending = match format {
        Format::Json => "jsonl",
        Format::Csv => "csv",
    };
    format!("part-out-{subtask:05}-{checkpoint:010}-{nonce:016x}-{checkpoint:06}.{ending}")
}
