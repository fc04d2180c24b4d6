//! Development tasks: `cargo xtask ci | tidy | conformance | bench | fuzz | verify`.
//!
//! Invariants: what CI checks is what a developer runs; every complaint names file, line and remedy.
//!
//! Must never depend on: any crate of the product, so that it builds in seconds.

mod bench;
mod cases;
mod ci;
mod conformance;
mod cpu;
mod fuzz;
mod mutants;
mod program;
mod red;
mod report;
mod rust_source;
mod tidy;
mod tree;
mod verify;

use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Parser, Subcommand};

/// Development tasks.
#[derive(Parser, Debug)]
#[command(name = "cargo xtask", max_term_width = 100)]
struct Cli {
    #[command(subcommand)]
    task: Task,
}

#[derive(Subcommand, Debug)]
enum Task {
    /// Format, lints, tidy, build and all tests, as CI runs them.
    Ci,
    /// What compilers do not check: arrows between crates, hooks, citations, file lengths.
    Tidy,
    /// Writes docs/conformance.md and docs/cases.md: which test proves which item of the checklist
    /// and which field case. Or shows that such tests go red under planted faults.
    Conformance(conformance::ConformanceArgs),
    /// Measures rows per CPU-second, and appends them to docs/benchmarks.md.
    Bench(bench::BenchArgs),
    /// Searches for inputs that break a decoder, from the corpora of tests/fuzz on.
    Fuzz(fuzz::FuzzArgs),
    /// Runs what CI has no time for, and notes the results in docs/verification.md.
    Verify(verify::VerifyArgs),
}

fn main() -> ExitCode {
    let root = workspace_root();
    let result = match Cli::parse().task {
        Task::Ci => ci::run(&root),
        Task::Tidy => tidy::run(&root),
        Task::Conformance(args) => conformance::conformance(&root, &args),
        Task::Bench(args) => bench::bench(&root, &args),
        Task::Fuzz(args) => fuzz::fuzz(&root, &args),
        Task::Verify(args) => verify::verify(&root, &args),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            eprintln!("\n{failure}");
            ExitCode::FAILURE
        }
    }
}

/// The workspace this tool was built from.
fn workspace_root() -> PathBuf {
    let here = PathBuf::from(env!("CARGO_MANIFEST_DIR"));
    here.ancestors()
        .nth(2)
        .expect("the crate lies two folders below the root")
        .to_owned()
}
