//! A job whose output tells of every lost and every doubled row.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use crate::fixture::PATIENCE;
use crate::process::{finish, program, text};

/// A job whose output the oracle can judge.
pub struct Ledger {
    pub keys: u64,
    pub rows: u64,
    pub rate: u64,
}

impl Ledger {
    /// Writes the job file, and where its output goes.
    pub fn write(&self, dir: &Path) -> (PathBuf, PathBuf) {
        let (job, out) = (dir.join("ledger.yaml"), dir.join("out"));
        let Self { keys, rows, rate } = self;
        let yaml = format!(
            "name: ledger\n\
             parallelism: 2\n\
             checkpointing: {{ interval: 250ms, tolerable-failed-checkpoints: 50 }}\n\
             restart-strategy: {{ type: fixed-delay, attempts: unlimited, delay: 100ms }}\n\
             state.backend.type: rocksdb\n\
             pipeline:\n\
             \x20 - source:\n\
             \x20     uid: rows\n\
             \x20     connector: generator\n\
             \x20     rows: {rows}\n\
             \x20     rate: {rate}\n\
             \x20     columns:\n\
             \x20       key: {{ key: {keys} }}\n\
             \x20       number: {{ sequence-per-key: {keys} }}\n\
             \x20 - key-by: [key]\n\
             \x20 - aggregate: {{ uid: sums, emit: each, \
             select: {{ n: \"count(*)\", sum: \"sum(number)\" }} }}\n\
             \x20 - sink: {{ uid: out, connector: file, path: {}, format: csv }}\n",
            out.display()
        );
        std::fs::write(&job, yaml).unwrap();
        (job, out)
    }

    fn oracle(&self, verb: &str, out: &Path) -> Command {
        let mut command = Command::new(program("oracle"));
        command
            .arg(verb)
            .arg(out)
            .args(["--format", "csv", "--value", "n", "--final"]);
        command.args([
            "--keys",
            &self.keys.to_string(),
            "--rows",
            &self.rows.to_string(),
        ]);
        command.args(["--columns", "key,n,sum"]);
        command
    }

    /// Judges what is visible now.
    pub fn judge(&self, out: &Path) {
        let verdict = finish(&mut self.oracle("check", out), PATIENCE);
        assert!(verdict.status.success(), "{}", text(&verdict.stdout));
    }

    /// Looks at the output again and again until the file `done` exists; the last look is final.
    pub fn watch(&self, out: &Path, done: &Path) -> std::thread::JoinHandle<Output> {
        let mut command = self.oracle("watch", out);
        command
            .args(["--poll", "100ms", "--until-done"])
            .arg(done)
            .args(["--seconds", "290"]);
        std::thread::spawn(move || finish(&mut command, PATIENCE))
    }
}
