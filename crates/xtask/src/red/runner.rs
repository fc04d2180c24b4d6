//! Runs one test in the copy, and tells a test that failed from one that was not built.

use std::path::{Path, PathBuf};
use std::process::Output;

use super::binary::Binary;
use crate::ci;
use crate::conformance::TestName;
use crate::report::Failure;

/// What came of a run.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Verdict {
    /// The test ran, and passed.
    Passed,
    /// The test ran, and failed; the end of what it said.
    Failed(String),
    /// The compiler refused the code; the end of what it said.
    NotBuilt(String),
    /// No test has this name.
    NoTest,
}

/// A test that hangs has failed: after two minutes it is ended.
const LIMITS: &str =
    "[profile.default]\nslow-timeout = { period = \"60s\", terminate-after = 2 }\n";
/// Lines of a failed command that are shown.
const LINES_SHOWN: usize = 12;

/// Exit code of nextest.
const TESTS_FAILED: i32 = 100;
/// Exit code of nextest.
const NO_TESTS: i32 = 4;
/// Of `cargo`, and of nextest when `cargo build` fails.
const NOT_BUILT: i32 = 101;

/// Runs tests of a tree.
pub struct Runner {
    tree: PathBuf,
    build: PathBuf,
    limits: PathBuf,
    nextest: bool,
}

impl Runner {
    /// Of the tree, with `build` as its target directory.
    pub fn new(tree: &Path, build: &Path) -> Result<Self, Failure> {
        std::fs::create_dir_all(build).map_err(Failure::io(format!("make {}", build.display())))?;
        let limits = build.join("nextest.toml");
        std::fs::write(&limits, LIMITS).map_err(Failure::io("write the limits of tests"))?;
        Ok(Self {
            tree: tree.to_owned(),
            build: build.to_owned(),
            limits,
            nextest: ci::has(tree, &["nextest", "--version"]),
        })
    }

    /// Builds what the test needs, and runs it.
    pub fn run(&self, binary: &Binary, test: &TestName) -> Result<Verdict, Failure> {
        if binary.starts_programs() {
            let output = self.cargo(&ci::PROGRAMS)?;
            if !output.status.success() {
                return Ok(Verdict::NotBuilt(end_of(&output)));
            }
        }
        match self.nextest {
            true => self.with_nextest(binary, test),
            false => self.with_cargo_test(binary, test),
        }
    }

    fn with_nextest(&self, binary: &Binary, test: &TestName) -> Result<Verdict, Failure> {
        let limits = format!("xtask:{}", self.limits.display());
        let filter = format!("test(/(^|::){}$/)", test.function);
        let mut args = vec!["nextest", "run", "--cargo-profile", ci::PROFILE];
        args.extend(binary.args());
        args.extend(["--tool-config-file", &limits, "--no-tests", "fail"]);
        args.extend(["--retries", "0", "-E", &filter]);
        let output = self.cargo(&args)?;
        match output.status.code() {
            Some(0) => Ok(Verdict::Passed),
            Some(TESTS_FAILED) => Ok(Verdict::Failed(end_of(&output))),
            Some(NO_TESTS) => Ok(Verdict::NoTest),
            Some(NOT_BUILT) => Ok(Verdict::NotBuilt(end_of(&output))),
            _ => Err(unexpected(&args, &output)),
        }
    }

    /// The runner of the toolchain has one exit code for everything, and takes names by their part.
    fn with_cargo_test(&self, binary: &Binary, test: &TestName) -> Result<Verdict, Failure> {
        let mut args = vec!["test", "--profile", ci::PROFILE];
        args.extend(binary.args());
        args.push("--no-run");
        let built = self.cargo(&args)?;
        if !built.status.success() {
            return Ok(Verdict::NotBuilt(end_of(&built)));
        }
        args.pop();
        args.extend(["--", &test.function]);
        let output = self.cargo(&args)?;
        let said = String::from_utf8_lossy(&output.stdout).into_owned();
        match (has_run(&said, &test.function), output.status.success()) {
            (false, true) => Ok(Verdict::NoTest),
            (true, true) => Ok(Verdict::Passed),
            (_, false) => Ok(Verdict::Failed(end_of(&output))),
        }
    }

    fn cargo(&self, args: &[&str]) -> Result<Output, Failure> {
        ci::cargo(&self.tree, args)
            .env("CARGO_TARGET_DIR", &self.build)
            .env("CARGO_TERM_COLOR", "never")
            .output()
            .map_err(Failure::io(format!("run cargo {}", args.join(" "))))
    }
}

/// Whether `cargo test` ran a function of this name.
fn has_run(said: &str, function: &str) -> bool {
    said.lines().any(|line| {
        let name = line
            .strip_prefix("test ")
            .and_then(|rest| rest.split(' ').next());
        name.and_then(|name| name.rsplit("::").next()) == Some(function)
    })
}

fn unexpected(args: &[&str], output: &Output) -> Failure {
    Failure::Unexpected(format!(
        "cargo {} ended with {}:\n{}",
        args.join(" "),
        output.status,
        end_of(output)
    ))
}

/// The lines that say why, or else the last ones.
fn end_of(output: &Output) -> String {
    let said = [&output.stdout[..], &output.stderr[..]].concat();
    let said = String::from_utf8_lossy(&said).into_owned();
    let lines: Vec<&str> = said
        .lines()
        .filter(|line| !line.trim().is_empty())
        .collect();
    let begins = |line: &&str| line.starts_with("error") || line.contains("panicked at");
    let start = lines
        .iter()
        .position(begins)
        .unwrap_or(lines.len().saturating_sub(LINES_SHOWN));
    let shown = lines[start..].iter().take(LINES_SHOWN);
    shown.map(|line| format!("    {line}\n")).collect()
}

#[cfg(test)]
mod tests {
    use std::os::unix::process::ExitStatusExt;
    use std::process::ExitStatus;

    use super::*;

    #[test]
    fn a_run_of_cargo_test_is_found_by_its_whole_name() {
        let said = "running 2 tests\ntest a::tests::stays ... ok\ntest a::stays_longer ... ok\n";
        assert!(has_run(said, "stays"));
        assert!(!has_run(said, "longer"));
        assert!(!has_run("running 0 tests\n", "stays"));
    }

    #[test]
    fn what_is_shown_begins_where_it_says_why() {
        let output = |text: &str| Output {
            status: ExitStatus::from_raw(0),
            stdout: text.as_bytes().to_vec(),
            stderr: Vec::new(),
        };
        let many = "line\n".repeat(40);
        let shown = end_of(&output(&format!(
            "{many}error[E0308]: no\n --> a.rs\n{many}"
        )));
        assert!(
            shown.starts_with("    error[E0308]: no\n     --> a.rs\n"),
            "{shown}"
        );
        assert_eq!(shown.lines().count(), LINES_SHOWN);
        assert_eq!(end_of(&output(&many)).lines().count(), LINES_SHOWN);
    }
}
