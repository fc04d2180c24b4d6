//! The other sides: Apache Flink, and the same query as a batch of DataFusion, which is the limit.

use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

use super::case::{Case, Input};
use super::growing::{PATIENCE, RATE, STATE_BYTES, middle};
use super::outcome::{Checkpoints, Outcome};
use super::tools::{last_line, python_with};
use crate::program::run;
use crate::report::Failure;

const FLINK: &str = "apache-flink==2.3.0";
const DATAFUSION: &str = "datafusion==55.0.0";

/// A warm Flink cluster.
pub struct Flink {
    scripts: PathBuf,
    dir: PathBuf,
}

impl Flink {
    /// Installs it where it is missing, and starts it.
    pub fn start(root: &Path, dir: &Path) -> Result<Self, Failure> {
        let flink = Self {
            scripts: root.join("tests/bench/flink"),
            dir: dir.to_owned(),
        };
        python_with(dir, "flink", FLINK)?;
        flink.cluster("start")?;
        Ok(flink)
    }

    /// One run in the warm cluster, on RocksDB, with mini-batches or without.
    pub fn measure(
        &self,
        case: &Case,
        units: u64,
        data: &Path,
        mini_batch: bool,
    ) -> Result<Outcome, Failure> {
        let rows = case.rows(units);
        let mut command = self.script(&self.dir.join("flink/bin/python"));
        command.arg(self.scripts.join("bench.py")).args([
            "run",
            case.flink_query,
            "--backend",
            "rocksdb",
        ]);
        command.args(["--events", &rows.to_string()]);
        match case.input {
            Input::Bids(_) | Input::Words(_) => {
                command.arg("--var").arg(format!("DATA={}", data.display()))
            }
            Input::Generated { n_keys, .. } => command
                .args(["--var", &format!("ROWS={rows}")])
                .args(["--var", &format!("MAXKEY={}", n_keys - 1)]),
            Input::Growing => return self.measure_growing(),
        };
        if mini_batch {
            for setting in ["enabled=true", "allow-latency=2s", "size=50000"] {
                command.args(["--set", &format!("table.exec.mini-batch.{setting}")]);
            }
        }
        let line = last_line(&run(&mut command)?)?;
        if line["kind"] != "run" {
            return Err(Failure::Unexpected(format!(
                "Flink did not finish {}: {line}",
                case.name
            )));
        }
        let number = |name: &str| line[name].as_f64().unwrap_or(0.0);
        Ok(Outcome {
            rows,
            seconds: number("runtime_s"),
            cpu_seconds: number("tm_cpu_s") + number("jm_cpu_s"),
            peak_rss_mib: line["peak_rss_mb"].as_u64().unwrap_or(0),
            checkpoints: Some(Checkpoints::of(&line["checkpoints"])),
            others_cores: number("others_cores"),
        })
    }

    /// Grows state, in a cluster of its own, until it is as large as ours.
    fn measure_growing(&self) -> Result<Outcome, Failure> {
        let mut command = self.script(&self.dir.join("flink/bin/python"));
        command.arg(self.scripts.join("bench.py"));
        command.args(["bigstate", "--kills", "", "--rate", &RATE.to_string()]);
        command.args(["--target-mb", &(STATE_BYTES >> 20).to_string()]);
        command.args(["--seconds", &PATIENCE.as_secs().to_string()]);
        let printed = run(&mut command)?;
        let lines = printed.lines();
        let lines: Vec<Value> = lines
            .filter_map(|line| serde_json::from_str(line).ok())
            .collect();
        let all = |name: &str| {
            let checkpoints = lines.iter().filter(|line| line["kind"] == "bigstate-ckpt");
            let values = checkpoints.filter_map(|line| line[name].as_f64());
            values.collect::<Vec<_>>()
        };
        let rate = lines.iter().find(|line| line["kind"] == "bigstate-rate");
        let rate = rate.ok_or_else(|| Failure::Unexpected(format!("no rate in: {printed}")))?;
        let number = |name: &str| rate[name].as_f64().unwrap_or(0.0);
        let (durations, sizes) = (all("e2e_ms"), all("state_mb"));
        let largest = |values: &[f64]| values.iter().copied().fold(0.0, f64::max);
        Ok(Outcome {
            rows: rate["rows"].as_u64().unwrap_or(0),
            seconds: number("seconds"),
            cpu_seconds: number("tm_cpu_s") + number("jm_cpu_s"),
            peak_rss_mib: rate["rss_mb"].as_u64().unwrap_or(0),
            checkpoints: Some(Checkpoints {
                completed: durations.len() as u64,
                mean_ms: durations.iter().sum::<f64>() / durations.len().max(1) as f64,
                max_ms: largest(&durations),
                state_bytes: (largest(&sizes) * 1e6) as u64,
                synchronous_ms: middle(all("sync_ms")),
            }),
            others_cores: number("others_cores"),
        })
    }

    fn cluster(&self, command: &str) -> Result<(), Failure> {
        run(self.script(&self.scripts.join("cluster.sh")).arg(command))?;
        Ok(())
    }

    fn script(&self, program: &Path) -> Command {
        let mut command = Command::new("bash");
        let exports = format!(". {}/env.sh && exec \"$@\"", self.scripts.display());
        command.args(["-c", &exports, "bash"]).arg(program);
        command
            .env("FLINK_VENV", self.dir.join("flink"))
            .env("BENCH_RUN", self.dir.join("flink-run"));
        command.env("JOB_LIMIT_S", "600");
        command
    }
}

impl Drop for Flink {
    fn drop(&mut self) {
        let _ = self.cluster("stop");
    }
}

/// DataFusion on one partition a core, in one process, without checkpoints.
pub struct DataFusion {
    python: PathBuf,
    script: PathBuf,
}

impl DataFusion {
    /// Installs it where it is missing.
    pub fn prepare(root: &Path, dir: &Path) -> Result<Self, Failure> {
        let python = python_with(dir, "datafusion", DATAFUSION)?;
        Ok(Self {
            python,
            script: root.join("tests/bench/datafusion/batch.py"),
        })
    }

    /// Computes a case as a batch.
    pub fn measure(&self, case: &Case, data: &Path) -> Result<Outcome, Failure> {
        let rows = case.rows(case.units().datafusion);
        let line: Value = last_line(&run(self
            .command("run", case, data)
            .args(["--rows", &rows.to_string()]))?)?;
        let number = |name: &str| line[name].as_f64().unwrap_or(0.0);
        Ok(Outcome {
            rows,
            seconds: number("seconds"),
            cpu_seconds: number("cpu_seconds"),
            peak_rss_mib: line["peak_rss_mib"].as_u64().unwrap_or(0),
            checkpoints: None,
            others_cores: 0.0,
        })
    }

    /// Compares the files that a job of ours wrote with what a batch makes of the same rows.
    pub fn check(
        &self,
        case: &Case,
        data: &Path,
        rows: u64,
        written: &Path,
    ) -> Result<String, Failure> {
        let mut command = self.command("check", case, data);
        run(command
            .args(["--rows", &rows.to_string()])
            .arg("--written")
            .arg(written))
    }

    fn command(&self, verb: &str, case: &Case, data: &Path) -> Command {
        let mut command = Command::new(&self.python);
        command
            .arg(&self.script)
            .args([verb, case.name])
            .arg("--data")
            .arg(data);
        command
    }
}
