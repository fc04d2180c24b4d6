//! A job whose output tells of every lost and every doubled row.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use crate::fixture::PATIENCE;
use crate::job::Job;
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
        let out = dir.join("out");
        let Self { keys, rows, rate } = self;
        let columns = format!("key: {{ key: {keys} }}, number: {{ sequence-per-key: {keys} }}");
        let select = "n: \"count(*)\", sum: \"sum(number)\"";
        let job = Job::new("ledger")
            .parallelism(2)
            .checkpoints("interval: 250ms, tolerable-failed-checkpoints: 50")
            .restarts("type: fixed-delay, attempts: unlimited, delay: 100ms")
            .set("state.backend.type", "rocksdb")
            .generator("rows", &format!("rows: {rows}, rate: {rate}"), &columns)
            .aggregate("key", "sums", select, "each")
            .file_sink(&out, "csv");
        (job.write(dir, "ledger"), out)
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
