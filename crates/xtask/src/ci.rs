//! Everything CI runs, in the order in which it fails soonest.

use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use crate::cpu;
use crate::report::Failure;
use crate::tidy;

/// The one profile of tests, so that nothing is built twice.
pub const PROFILE: &str = "ci";

/// A command of CI.
struct Step {
    name: &'static str,
    args: Vec<&'static str>,
}

/// Runs all steps; the last one is the test run, whose summary ends the output.
pub fn run(root: &Path) -> Result<(), Failure> {
    require_components(root)?;
    let nextest = has(root, &["nextest", "--version"]);
    let mut spent = Vec::new();
    for step in checks() {
        spent.push((step.name, timed(|| run_step(root, &step))?));
    }
    spent.push(("tidy", timed(|| tidy::run(root))?));
    for step in builds(nextest) {
        spent.push((step.name, timed(|| run_step(root, &step))?));
    }
    report(&spent);
    run_step(root, &tests(nextest))
}

fn checks() -> [Step; 3] {
    [
        Step {
            name: "format",
            args: vec!["fmt", "--all", "--check"],
        },
        Step {
            name: "lints",
            args: vec![
                "clippy",
                "--workspace",
                "--all-targets",
                "--profile",
                PROFILE,
                "--",
                "-D",
                "warnings",
            ],
        },
        // The build of the README's first command.
        Step {
            name: "lints without RocksDB",
            args: vec![
                "clippy",
                "-p",
                "millstream-cli",
                "--no-default-features",
                "--profile",
                PROFILE,
                "--",
                "-D",
                "warnings",
            ],
        },
    ]
}

/// Builds the programs that tests start, of the same packages as the tests (`crates/env/Cargo.toml`).
pub const PROGRAMS: [&str; 7] = [
    "build",
    "--workspace",
    "--bins",
    "--profile",
    PROFILE,
    "--features",
    "millstream-env/test-clock",
];

fn builds(nextest: bool) -> [Step; 2] {
    let mut build_tests = tests(nextest);
    build_tests.name = "build of the tests";
    build_tests.args.push("--no-run");
    build_tests.args.retain(|arg| *arg != "--no-fail-fast");
    [
        Step {
            name: "build of the programs",
            args: PROGRAMS.to_vec(),
        },
        build_tests,
    ]
}

fn tests(nextest: bool) -> Step {
    let args = match nextest {
        true => vec![
            "nextest",
            "run",
            "--workspace",
            "--no-fail-fast",
            "--cargo-profile",
            PROFILE,
        ],
        // The runner that comes with the toolchain; its documentation tests are no part of CI.
        false => vec![
            "test",
            "--workspace",
            "--no-fail-fast",
            "--profile",
            PROFILE,
            "--lib",
            "--bins",
            "--tests",
        ],
    };
    Step {
        name: "tests",
        args,
    }
}

/// Formatting and lints are parts of the toolchain that a minimal one lacks.
fn require_components(root: &Path) -> Result<(), Failure> {
    for component in ["fmt", "clippy"] {
        if !has(root, &[component, "--version"]) {
            return Err(Failure::Step {
                step: format!("looking for cargo {component}"),
                rerun: "rustup component add rustfmt clippy && cargo xtask ci".to_owned(),
            });
        }
    }
    Ok(())
}

/// Whether a subcommand of cargo is there.
pub fn has(root: &Path, args: &[&str]) -> bool {
    let mut command = cargo(root, args);
    command.stdout(Stdio::null()).stderr(Stdio::null());
    command.status().is_ok_and(|status| status.success())
}

fn run_step(root: &Path, step: &Step) -> Result<(), Failure> {
    let rerun = format!("cargo {}", step.args.join(" "));
    println!("\n== {}: {rerun}", step.name);
    let status = cargo(root, &step.args)
        .status()
        .map_err(Failure::io(rerun.clone()))?;
    match status.success() {
        true => Ok(()),
        false => Err(Failure::Step {
            step: step.name.to_owned(),
            rerun,
        }),
    }
}

/// `cargo` as the developer would start it: what this program's own `cargo run` put into the
/// environment would make it build some packages again.
pub fn cargo(root: &Path, args: &[&str]) -> Command {
    let mut command = Command::new("cargo");
    command.args(args).current_dir(root);
    for (name, _) in std::env::vars_os() {
        let shown = name.to_string_lossy();
        let ours = [
            "CARGO_PKG_",
            "CARGO_MANIFEST_",
            "CARGO_BIN_",
            "CARGO_CRATE_",
        ];
        if ours.iter().any(|prefix| shown.starts_with(prefix)) {
            command.env_remove(&name);
        }
    }
    command
}

fn timed(work: impl FnOnce() -> Result<(), Failure>) -> Result<Duration, Failure> {
    let before = cpu::of_children();
    work()?;
    let spent = cpu::of_children().saturating_sub(before);
    println!("   {} CPU-seconds", seconds(spent));
    Ok(spent)
}

fn report(spent: &[(&str, Duration)]) {
    println!("\n== CPU-seconds before the test run");
    for (name, time) in spent {
        println!("   {:>8}  {name}", seconds(*time));
    }
    println!(
        "   {:>8}  in all",
        seconds(spent.iter().map(|(_, time)| *time).sum())
    );
}

fn seconds(time: Duration) -> String {
    format!("{:.1}", time.as_secs_f64())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_build_uses_the_one_profile() {
        let steps = checks()
            .into_iter()
            .chain(builds(true))
            .chain(builds(false));
        for step in steps.filter(|step| step.name != "format") {
            assert!(
                step.args
                    .windows(2)
                    .any(|args| args[0].ends_with("profile") && args[1] == PROFILE)
            );
        }
    }

    #[test]
    fn a_build_of_tests_runs_none_and_asks_for_nothing_that_runs_need() {
        for build in [builds(true), builds(false)]
            .into_iter()
            .map(|[_, tests]| tests)
        {
            assert!(build.args.contains(&"--no-run"));
            assert!(!build.args.contains(&"--no-fail-fast"));
        }
    }

    #[test]
    fn a_failing_step_says_how_to_run_it_again() {
        let step = Step {
            name: "tests",
            args: vec!["no-such-command"],
        };
        let failure = run_step(Path::new("."), &step).unwrap_err();
        assert!(
            failure.to_string().ends_with("cargo no-such-command"),
            "{failure}"
        );
    }
}
