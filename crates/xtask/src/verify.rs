//! Everything that shows the product to be what it says, beyond what CI has time for; each result is
//! noted with its date in `docs/verification.md`.

use std::fmt::Write as _;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use clap::Args;

use crate::ci::{PROFILE, cargo};
use crate::cpu;
use crate::mutants;
use crate::program::{commit, seconds_now, today};
use crate::report::Failure;

const PAGE: &str = "docs/verification.md";

/// `cargo xtask verify`.
#[derive(Args, Debug)]
pub struct VerifyArgs {
    /// Steps; all of them if there is none, which takes most of a day.
    steps: Vec<String>,
    /// Says what there is, and runs nothing.
    #[arg(long)]
    list: bool,
    /// Leaves the page as it is.
    #[arg(long)]
    dry: bool,
}

/// One thing to be shown.
#[derive(Debug)]
struct Step {
    name: &'static str,
    /// What it shows.
    about: &'static str,
    /// About how long it takes on two cores.
    takes: &'static str,
    runs: Runs,
    variables: &'static [(&'static str, &'static str)],
    /// What the line of its output says that is noted as its result.
    result: &'static str,
}

/// What a step starts.
#[derive(Clone, Copy, Debug)]
enum Runs {
    /// The tests of a filter.
    Tests(&'static str),
    Cargo(&'static [&'static str]),
    /// A script, and its arguments.
    Script(&'static [&'static str]),
    /// Small changes of the code; what no test notices must be known.
    Mutants,
}

impl Runs {
    fn command(self, root: &Path) -> Command {
        match self {
            Self::Tests(filter) => {
                let mut args = vec!["nextest", "run", "--workspace", "--cargo-profile", PROFILE];
                args.extend(["--no-capture", "-E", filter]);
                cargo(root, &args)
            }
            Self::Cargo(args) => cargo(root, args),
            Self::Script(args) => {
                let mut command = Command::new("bash");
                command.args(args).current_dir(root);
                command
            }
            Self::Mutants => cargo(root, &["mutants"]),
        }
    }
}

/// All steps, the shorter ones first.
const STEPS: [Step; 12] = [
    Step {
        name: "deny",
        about: "licences, sources and duplicates of all dependencies",
        takes: "a minute; needs cargo-deny",
        runs: Runs::Cargo(&["deny", "check", "bans", "licenses", "sources"]),
        variables: &[],
        result: " ok",
    },
    Step {
        name: "ci",
        about: "every check and test that CI runs",
        takes: "15 minutes",
        runs: Runs::Cargo(&["xtask", "ci"]),
        variables: &[],
        result: "tests run:",
    },
    Step {
        name: "storms",
        about: "ten storms of kills, each exact to the row",
        takes: "25 minutes",
        runs: Runs::Tests("test(a_storm_of_kills)"),
        variables: &[("TEST_STORMS", "10")],
        result: "tests run:",
    },
    Step {
        name: "rounds",
        about: "field cases that go wrong once in twenty times, twenty times",
        takes: "15 minutes",
        runs: Runs::Tests("test(rounds::)"),
        variables: &[("TEST_ROUNDS", "20")],
        result: "tests run:",
    },
    Step {
        name: "seeds",
        about: "simulated seeds that nobody ran before, all rare paths among them",
        takes: "20 minutes",
        runs: Runs::Tests("binary(sim) and test(new_seeds)"),
        variables: &[("SIM_LEDGER", "1"), ("SIM_SEEDS", SEEDS)],
        result: "tests run:",
    },
    Step {
        name: "red",
        about: "every planted fault is noticed by the test that claims its item",
        takes: "two hours",
        runs: Runs::Cargo(&["xtask", "conformance", "--red", "all"]),
        variables: &[],
        result: "all red",
    },
    Step {
        name: "fuzz",
        about: "half an hour of inputs against each decoder",
        takes: "seven hours",
        runs: Runs::Cargo(&["xtask", "fuzz", "--seconds", "1800"]),
        variables: &[],
        result: "stat::number_of_executed_units",
    },
    Step {
        name: "mutants",
        about: "small changes of the code are noticed by tests: coordination, exchange",
        takes: "an hour; needs cargo-mutants",
        runs: Runs::Mutants,
        variables: &[],
        result: "mutants tested",
    },
    Step {
        name: "bench",
        about: "rows per CPU-second beside Flink and DataFusion, three runs each",
        takes: "75 minutes on an idle machine; needs Java 17",
        runs: Runs::Cargo(&[
            "xtask",
            "bench",
            "--vs",
            "flink",
            "--vs",
            "datafusion",
            "--runs",
            "3",
        ]),
        variables: &[],
        result: "",
    },
    Step {
        name: "bare-machine",
        about: "the README's commands in a minimal Debian 12",
        takes: "95 CPU-minutes; needs root and debootstrap",
        runs: Runs::Script(&["deploy/check-bare-machine.sh", "--test"]),
        variables: &[],
        result: "test result: ok",
    },
    Step {
        name: "image",
        about: "the image's steps in a Debian tree, and the daemons of it at work",
        takes: "40 CPU-minutes; needs root and debootstrap",
        runs: Runs::Script(&["deploy/check-image.sh"]),
        variables: &[],
        result: "",
    },
    Step {
        name: "soak",
        about: "an hour at half speed with a fault a minute: memory, descriptors, threads and objects stay flat",
        takes: "an hour",
        runs: Runs::Tests("test(a_soak)"),
        variables: &[("TEST_SOAK", "60m")],
        result: "soak:",
    },
];

/// Stands for a range of seeds that begins now.
const SEEDS: &str = "{seeds}";
/// How many.
const N_SEEDS: u64 = 1_000;

/// Runs the steps, notes each result, and fails if one of them does.
pub fn verify(root: &Path, args: &VerifyArgs) -> Result<(), Failure> {
    if args.list {
        for step in &STEPS {
            println!("{:<13} {} ({})", step.name, step.about, step.takes);
        }
        return Ok(());
    }
    let steps = select(&args.steps)?;
    let mut failed = Vec::new();
    for step in steps {
        println!("\n== {}: {}", step.name, step.about);
        let ran = run(root, step)?;
        if !args.dry {
            note(root, step, &ran)?;
        }
        if !ran.passed {
            failed.push(step.name);
        }
    }
    if failed.is_empty() {
        return Ok(());
    }
    Err(Failure::Step {
        step: failed.join(", "),
        rerun: format!("cargo xtask verify {}", failed.join(" ")),
    })
}

fn select(names: &[String]) -> Result<Vec<&'static Step>, Failure> {
    if names.is_empty() {
        return Ok(STEPS.iter().collect());
    }
    let find = |name: &String| {
        STEPS.iter().find(|step| step.name == name).ok_or_else(|| {
            let known: Vec<_> = STEPS.iter().map(|step| step.name).collect();
            let known = known.join(", ");
            Failure::Unexpected(format!("there is no step {name}: there are {known}"))
        })
    };
    names.iter().map(find).collect()
}

/// What became of a step.
struct Ran {
    passed: bool,
    took: Duration,
    cpu: Duration,
    result: String,
}

fn run(root: &Path, step: &Step) -> Result<Ran, Failure> {
    let mut command = step.runs.command(root);
    let first = seconds_now()?;
    for (name, value) in step.variables {
        let seeds = format!("{first}..{}", first + N_SEEDS);
        command.env(name, value.replace(SEEDS, &seeds));
    }
    // Both streams as one, shown as they come, so that nothing is lost of a step of hours.
    let (reader, writer) = std::io::pipe().map_err(Failure::io("open a pipe"))?;
    let errors = writer.try_clone().map_err(Failure::io("share a pipe"))?;
    command.stdin(Stdio::null()).stdout(writer).stderr(errors);
    let cpu_before = cpu::of_children();
    let mut child = command
        .spawn()
        .map_err(Failure::io(format!("run {}", step.name)))?;
    // Our own ends of the pipe go with it: the output ends with the step.
    drop(command);
    let mut result = String::new();
    for line in BufReader::new(reader).lines() {
        let line = line.map_err(Failure::io(format!("read what {} says", step.name)))?;
        println!("{line}");
        if !step.result.is_empty() && line.contains(step.result) {
            result = line.trim().to_owned();
        }
    }
    let status = child
        .wait()
        .map_err(Failure::io(format!("wait for {}", step.name)))?;
    let passed = match step.runs {
        // Its status tells that something was missed, but not what.
        Runs::Mutants if !result.is_empty() => mutants::only_known_missed(root)?,
        Runs::Mutants | Runs::Tests(_) | Runs::Cargo(_) | Runs::Script(_) => status.success(),
    };
    Ok(Ran {
        passed,
        took: Duration::from_secs(seconds_now()?.saturating_sub(first)),
        cpu: cpu::of_children().saturating_sub(cpu_before),
        result,
    })
}

/// Adds a row to the page.
fn note(root: &Path, step: &Step, ran: &Ran) -> Result<(), Failure> {
    let path = root.join(PAGE);
    let mut text = std::fs::read_to_string(&path).map_err(Failure::io(format!("read {PAGE}")))?;
    text.push_str(&row(&today()?, &commit(root)?, step, ran));
    std::fs::write(&path, text).map_err(Failure::io(format!("write {PAGE}")))
}

fn row(date: &str, commit: &str, step: &Step, ran: &Ran) -> String {
    let mut row = String::new();
    let verdict = if ran.passed { "passed" } else { "**failed**" };
    let plain: String = ran.result.chars().filter(|c| !c.is_control()).collect();
    let said = plain.replace('|', "/");
    let _ = writeln!(
        row,
        "| {date} | {commit} | {} | {verdict} | {:.0} | {:.0} | {said} |",
        step.name,
        ran.took.as_secs_f64() / 60.0,
        ran.cpu.as_secs_f64() / 60.0,
    );
    row
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_unknown_step_is_answered_with_the_known_ones() {
        let error = select(&["soaking".to_owned()]).unwrap_err().to_string();
        assert!(
            error.contains("no step soaking") && error.contains("soak"),
            "{error}"
        );
        assert_eq!(select(&[]).unwrap().len(), STEPS.len());
    }

    #[test]
    fn a_step_is_noted_in_one_row_of_the_page() {
        let ran = Ran {
            passed: false,
            took: Duration::from_secs(300),
            cpu: Duration::from_secs(600),
            result: "3 tests run: 2 passed | 1 failed".to_owned(),
        };
        assert_eq!(
            row("2026-01-02", "abc", &STEPS[1], &ran),
            "| 2026-01-02 | abc | ci | **failed** | 5 | 10 | 3 tests run: 2 passed / 1 failed |\n"
        );
    }

    #[test]
    fn what_a_step_says_is_read_from_both_streams() {
        let step = Step {
            name: "says",
            about: "",
            takes: "",
            runs: Runs::Script(&["-c", "echo first: 1; echo the result: $N >&2; exit $N"]),
            variables: &[("N", "3")],
            result: "result:",
        };
        let ran = run(Path::new("."), &step).unwrap();
        assert!(!ran.passed);
        assert_eq!(ran.result, "the result: 3");
    }

    #[test]
    fn the_page_has_the_columns_of_a_row() {
        let page = std::fs::read_to_string(crate::workspace_root().join(PAGE)).unwrap();
        let head = "| date | commit | step | verdict | minutes | CPU-minutes | its last word |\n";
        assert!(page.contains(head), "{page}");
        for step in &STEPS {
            assert!(
                page.contains(&format!("| `{}` |", step.name)),
                "{}",
                step.name
            );
        }
    }
}
