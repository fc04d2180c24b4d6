//! The search for inputs that break a decoder: libFuzzer around the targets of `tests/fuzz`.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use clap::Args;

use crate::ci::cargo;
use crate::report::Failure;
use crate::tree::cargo_metadata;

/// What the compiler adds so that libFuzzer sees which branches an input takes.
const COVERAGE: [&str; 6] = [
    "-Cpasses=sancov-module",
    "-Cllvm-args=-sanitizer-coverage-level=4",
    "-Cllvm-args=-sanitizer-coverage-inline-8bit-counters",
    "-Cllvm-args=-sanitizer-coverage-pc-table",
    "-Cllvm-args=-sanitizer-coverage-trace-compares",
    "-Ccodegen-units=1",
];

/// Corpora, from the root.
const CORPUS: &str = "tests/fuzz/corpus";
/// Inputs are not made longer than this: decoders are asked for their branches, not for their speed.
const INPUT_BYTES_MAX: u32 = 2_048;

/// `cargo xtask fuzz`.
#[derive(Args, Debug)]
pub struct FuzzArgs {
    /// Targets; all of them if there is none.
    targets: Vec<String>,
    /// Seconds for each target.
    #[arg(long, default_value_t = 60)]
    seconds: u32,
    /// Adds to the stored corpus what takes a branch that no stored input takes.
    #[arg(long)]
    keep: bool,
}

/// Builds the search, and runs it for each target. What it found before is where it begins.
pub fn fuzz(root: &Path, args: &FuzzArgs) -> Result<(), Failure> {
    let known = targets(root)?;
    if let Some(unknown) = args.targets.iter().find(|name| !known.contains(name)) {
        let known = known.join(", ");
        return Err(Failure::Unexpected(format!(
            "there is no target {unknown}: there are {known}"
        )));
    }
    let chosen = match args.targets.is_empty() {
        true => &known,
        false => &args.targets,
    };
    let (program, folder) = build(root)?;
    for target in chosen {
        println!("\n== {target}, {} s", args.seconds);
        let search = Search {
            program: &program,
            target,
            found: folder.join("corpus").join(target),
            stored: root.join(CORPUS).join(target),
            broken: folder.join("broken"),
        };
        search.run(args.seconds)?;
        if args.keep {
            search.keep()?;
        }
    }
    Ok(())
}

/// The targets are those that have a corpus; a test sees to it that all have one.
fn targets(root: &Path) -> Result<Vec<String>, Failure> {
    let folder = root.join(CORPUS);
    let entries = fs::read_dir(&folder).map_err(Failure::io(format!("read {CORPUS}")))?;
    let mut names: Vec<String> = entries
        .flatten()
        .map(|entry| entry.file_name().to_string_lossy().into_owned())
        .collect();
    names.sort();
    Ok(names)
}

/// The program, and the folder beside it for what is found.
fn build(root: &Path) -> Result<(PathBuf, PathBuf), Failure> {
    let metadata = cargo_metadata(root)?;
    let target = metadata["target_directory"].as_str().unwrap_or_default();
    // Everything is compiled in another way: in a place of its own, or it would push out the rest.
    let folder = Path::new(target).join("fuzz");
    let args = [
        "build",
        "-p",
        "millstream-fuzz",
        "--features",
        "search",
        "--bin",
        "fuzz",
        "--profile",
        crate::ci::PROFILE,
        // Build scripts and macros of the compiler must not be compiled in that way.
        "--target",
        host()?,
    ];
    let status = cargo(root, &args)
        .env("RUSTFLAGS", COVERAGE.join(" "))
        .env("CARGO_TARGET_DIR", &folder)
        .status()
        .map_err(Failure::io("run cargo build"))?;
    if !status.success() {
        return Err(Failure::Step {
            step: "build of the search".to_owned(),
            rerun: "cargo xtask fuzz".to_owned(),
        });
    }
    let program = folder.join(host()?).join(crate::ci::PROFILE).join("fuzz");
    Ok((program, folder))
}

fn host() -> Result<&'static str, Failure> {
    match (std::env::consts::ARCH, std::env::consts::OS) {
        ("x86_64", "linux") => Ok("x86_64-unknown-linux-gnu"),
        ("aarch64", "linux") => Ok("aarch64-unknown-linux-gnu"),
        (arch, os) => Err(Failure::Unexpected(format!(
            "the search is known to work on Linux, x86_64 and aarch64, not on {os}, {arch}"
        ))),
    }
}

struct Search<'a> {
    program: &'a Path,
    target: &'a str,
    /// What was found in this and earlier searches.
    found: PathBuf,
    /// What is committed.
    stored: PathBuf,
    /// Inputs that broke something.
    broken: PathBuf,
}

impl Search<'_> {
    fn run(&self, seconds: u32) -> Result<(), Failure> {
        for folder in [&self.found, &self.broken] {
            fs::create_dir_all(folder)
                .map_err(Failure::io(format!("create {}", folder.display())))?;
        }
        let broken = format!("{}/{}-", self.broken.display(), self.target);
        let args = [
            format!("-max_total_time={seconds}"),
            format!("-max_len={INPUT_BYTES_MAX}"),
            format!("-artifact_prefix={broken}"),
            // No input may take much of either.
            "-rss_limit_mb=2048".to_owned(),
            "-malloc_limit_mb=64".to_owned(),
            "-timeout=10".to_owned(),
            "-print_final_stats=1".to_owned(),
            "-verbosity=0".to_owned(),
        ];
        let ran = self.call(&args, &[&self.found, &self.stored])?;
        if ran {
            return Ok(());
        }
        Err(Failure::Step {
            step: format!("fuzz target {}, which broke: see {broken}*", self.target),
            rerun: format!(
                "FUZZ_TARGET={} {} <that file>",
                self.target,
                self.program.display()
            ),
        })
    }

    /// The fewest inputs that take all branches that are known, the stored ones among them.
    fn keep(&self) -> Result<(), Failure> {
        let args = ["-set_cover_merge=1".to_owned(), "-verbosity=0".to_owned()];
        self.call(&args, &[&self.stored, &self.found]).map(drop)
    }

    fn call(&self, args: &[String], folders: &[&PathBuf]) -> Result<bool, Failure> {
        let status = Command::new(self.program)
            .env("FUZZ_TARGET", self.target)
            .args(args)
            .args(folders)
            .status()
            .map_err(Failure::io(format!("run {}", self.program.display())))?;
        Ok(status.success())
    }
}
