//! `cargo xtask bench`: rows per CPU-second of Millstream, and of others on the same rows.
//!
//! The rules are in `docs/benchmarks.md`. Everything a side starts is its own process, whose CPU time
//! is read from the kernel; no side's own figures are believed but for its checkpoints.

mod case;
mod data;
mod growing;
mod latency;
mod ours;
mod outcome;
mod page;
mod proc;
mod rivals;
mod startup;
mod tools;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use clap::{Args, ValueEnum};

use self::case::{Case, Input};
use self::data::Data;
use self::latency::Latency;
use self::ours::{Cluster, Sink, write_job};
use self::page::{Circumstances, Measured};
use self::rivals::{DataFusion, Flink};
use self::startup::Startup;
use crate::program::{commit, today};
use crate::report::Failure;

/// The case whose output is the input of others, seen from outside.
const PASS_THROUGH: &str = "pass-through";

/// Arguments of `bench`.
#[derive(Args, Debug)]
pub struct BenchArgs {
    /// Which benchmarks; none: all.
    names: Vec<String>,
    /// Measure another side in the same run.
    #[arg(long, value_enum)]
    vs: Vec<Rival>,
    /// Runs of each side; the page shows all, and the middle one's details.
    #[arg(long, default_value_t = 1)]
    runs: u32,
    /// Print the table and leave the page alone.
    #[arg(long)]
    dry: bool,
    /// Skip the comparison of the output with DataFusion's.
    #[arg(long, requires = "dry")]
    unchecked: bool,
    /// Where data, environments and runs are kept. Default: ~/.cache/millstream/bench.
    #[arg(long, value_name = "DIR")]
    dir: Option<PathBuf>,
    /// Where the release programs are. Default: they are built.
    #[arg(long, value_name = "DIR", requires = "dry")]
    binaries: Option<PathBuf>,
}

/// Another side.
#[derive(ValueEnum, Clone, Copy, PartialEq, Eq, Debug)]
enum Rival {
    /// Apache Flink 2.3 on RocksDB.
    Flink,
    /// The same query as a batch of DataFusion: the practical limit.
    Datafusion,
}

/// Measures, prints the table, and appends it to the page.
pub fn bench(root: &Path, args: &BenchArgs) -> Result<(), Failure> {
    let cases = case::select(&args.names).map_err(Failure::Unexpected)?;
    let dir = args.dir.clone().or_else(default_dir);
    let dir = dir.ok_or_else(|| Failure::Unexpected("HOME is not set: give --dir".to_owned()))?;
    let data = Data::prepare(root, &dir)?;
    let bench = Bench {
        root: root.to_owned(),
        binaries: match &args.binaries {
            Some(binaries) => binaries.clone(),
            None => build(root)?,
        },
        data,
        dir,
    };
    let mut measured = Vec::new();
    for case in cases {
        let checked = match args.unchecked {
            true => "no".to_owned(),
            false => bench.check(case)?,
        };
        println!("{}: output checked: {checked}", case.name);
        measured.push(Measured {
            case,
            ours: Vec::new(),
            flink: Vec::new(),
            flink_mini_batch: Vec::new(),
            datafusion: Vec::new(),
            checked,
        });
    }
    let startup = bench.measure_ours(&mut measured, args.runs)?;
    let latency = Latency::measure(root, &bench.binaries, &bench.dir.join("latency"))?;
    println!("{}", latency.remark());
    if args.vs.contains(&Rival::Flink) {
        bench.measure_flink(&mut measured, args.runs)?;
    }
    if args.vs.contains(&Rival::Datafusion) {
        bench.measure_datafusion(&mut measured, args.runs)?;
    }
    let [cold, submission, idle] = startup.remarks();
    let remarks = [cold, submission, idle, latency.remark()];
    let section = page::section(&circumstances(root)?, &measured, &remarks);
    println!("{section}");
    match args.dry {
        true => Ok(()),
        false => page::append(root, &section),
    }
}

/// What all cases share.
struct Bench {
    root: PathBuf,
    dir: PathBuf,
    binaries: PathBuf,
    data: Data,
}

impl Bench {
    /// Runs one copy of a case's rows into files and compares them with a batch's answer.
    fn check(&self, case: &'static Case) -> Result<String, Failure> {
        let datafusion = DataFusion::prepare(&self.root, &self.dir)?;
        let run_dir = self.dir.join("check");
        let cluster = Cluster::start(&self.binaries, &run_dir)?;
        let write = |case: &Case, data: &Path| {
            let written = run_dir.join(format!("written-{}", case.name));
            let sink = Sink::Files(&written);
            let job = write_job(&self.root, &run_dir, case, data, 1, &sink)?;
            cluster.run(&job)?;
            Ok::<_, Failure>(written)
        };
        let data = match case.input {
            Input::Bids(_) | Input::Words(_) => self.data.copies(case, 1)?,
            Input::Generated { .. } if case.name == PASS_THROUGH => PathBuf::new(),
            // A job that only passes them on shows which rows the generator makes.
            Input::Generated { .. } => write(find(PASS_THROUGH)?, Path::new(""))?,
            Input::Growing => return Ok("by its operator's own tests: it has no end".to_owned()),
        };
        let written = write(case, &data)?;
        let result = datafusion.check(case, &data, case.rows(1), &written);
        drop(cluster);
        let result = result?;
        // Of a failure all is kept, to be looked at.
        fs::remove_dir_all(&run_dir)
            .map_err(Failure::io(format!("remove {}", run_dir.display())))?;
        Ok(result)
    }

    fn measure_ours(&self, measured: &mut [Measured], runs: u32) -> Result<Startup, Failure> {
        let run_dir = self.dir.join("run");
        let mut cluster = Cluster::start(&self.binaries, &run_dir)?;
        let startup = cluster.measure_startup(&self.root)?;
        for line in startup.remarks() {
            println!("{line}");
        }
        for each in measured {
            let units = each.case.units().ours;
            let data = self.data.copies(each.case, units)?;
            let job = write_job(
                &self.root,
                &run_dir,
                each.case,
                &data,
                units,
                &Sink::Blackhole,
            )?;
            for _ in 0..runs {
                let outcome = match each.case.input {
                    Input::Growing => cluster.measure_growing(&job)?,
                    Input::Bids(_) | Input::Words(_) | Input::Generated { .. } => {
                        cluster.measure(each.case, &job)?
                    }
                };
                show(each.case, "Millstream", &outcome);
                each.ours.push(outcome);
            }
        }
        Ok(startup)
    }

    fn measure_flink(&self, measured: &mut [Measured], runs: u32) -> Result<(), Failure> {
        let flink = Flink::start(&self.root, &self.dir)?;
        for each in measured {
            let units = each.case.units().flink;
            let is_bounded = each.case.input != Input::Growing;
            // The first run of a query in a cluster is slower: it does not count.
            if is_bounded {
                let few = units.div_ceil(5);
                flink.measure(each.case, few, &self.data.copies(each.case, few)?, false)?;
            }
            let data = self.data.copies(each.case, units)?;
            for _ in 0..runs {
                let outcome = flink.measure(each.case, units, &data, false)?;
                show(each.case, "Flink", &outcome);
                each.flink.push(outcome);
                if each.case.is_stateful && is_bounded {
                    let outcome = flink.measure(each.case, units, &data, true)?;
                    show(each.case, "Flink, mini-batch", &outcome);
                    each.flink_mini_batch.push(outcome);
                }
            }
        }
        Ok(())
    }

    fn measure_datafusion(&self, measured: &mut [Measured], runs: u32) -> Result<(), Failure> {
        let datafusion = DataFusion::prepare(&self.root, &self.dir)?;
        let bounded = measured.iter_mut();
        for each in bounded.filter(|each| each.case.input != Input::Growing) {
            let data = self.data.copies(each.case, each.case.units().datafusion)?;
            for _ in 0..runs {
                let outcome = datafusion.measure(each.case, &data)?;
                show(each.case, "DataFusion", &outcome);
                each.datafusion.push(outcome);
            }
        }
        Ok(())
    }
}

fn show(case: &Case, side: &str, outcome: &outcome::Outcome) {
    let rate = outcome.rows_per_cpu_second() / 1e3;
    let checkpoints = outcome
        .checkpoints
        .map_or(0, |checkpoints| checkpoints.completed);
    println!(
        "{}: {side}: {rate:.0} k rows per CPU-second, {:.1} s, {checkpoints} checkpoints",
        case.name, outcome.seconds
    );
}

fn find(name: &str) -> Result<&'static Case, Failure> {
    let found = case::CASES.iter().find(|case| case.name == name);
    found.ok_or_else(|| Failure::Unexpected(format!("there is no benchmark {name}")))
}

/// How the programs are built that are deployed (`deploy/Dockerfile`), without what only a workspace needs.
const BUILD: &str = "build --release --locked --bins -p millstream-jobmanager \
                     -p millstream-taskmanager -p millstream-cli";

/// The programs as they are deployed.
fn build(root: &Path) -> Result<PathBuf, Failure> {
    println!("building the release programs: an hour of CPU time the first time");
    let status = Command::new("cargo")
        .args(BUILD.split_whitespace())
        .current_dir(root)
        .status()
        .map_err(Failure::io("run cargo build --release"))?;
    if !status.success() {
        return Err(Failure::Step {
            step: "building the release programs".to_owned(),
            rerun: format!("cargo {BUILD}"),
        });
    }
    let target =
        std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| root.join("target"), PathBuf::from);
    Ok(target.join("release"))
}

fn default_dir() -> Option<PathBuf> {
    Some(PathBuf::from(std::env::var_os("HOME")?).join(".cache/millstream/bench"))
}

fn circumstances(root: &Path) -> Result<Circumstances, Failure> {
    let cpuinfo = fs::read_to_string("/proc/cpuinfo").map_err(Failure::io("read /proc/cpuinfo"))?;
    let values = |key: &str| {
        let lines: Vec<_> = cpuinfo
            .lines()
            .filter(|line| line.starts_with(key))
            .collect();
        let value = lines
            .first()
            .and_then(|line| line.split_once(": "))
            .map_or("", |(_, value)| value);
        (lines.len(), value.to_owned())
    };
    let memory = fs::read_to_string("/proc/meminfo").map_err(Failure::io("read /proc/meminfo"))?;
    let total = memory
        .split_whitespace()
        .nth(1)
        .and_then(|kib| kib.parse::<u64>().ok())
        .unwrap_or(0);
    let (n_cores, model) = values("model name");
    Ok(Circumstances {
        date: today()?,
        commit: format!("commit {}", commit(root)?),
        hardware: format!("{n_cores} cores of {model}, {} GiB of memory", total >> 20),
    })
}

#[cfg(test)]
mod tests {
    use super::BUILD;

    #[test]
    fn what_is_measured_is_built_as_what_is_deployed() {
        let dockerfile = crate::workspace_root().join("deploy/Dockerfile");
        let text = std::fs::read_to_string(dockerfile).unwrap();
        assert!(text.contains(&format!("RUN cargo {BUILD}\n")), "{text}");
    }
}
