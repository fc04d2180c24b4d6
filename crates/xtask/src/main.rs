//! Development tasks: `cargo xtask ci | tidy | conformance`.
//!
//! Invariants: what CI checks is what a developer runs; every complaint names file, line and remedy.
//!
//! Must never depend on: any crate of the product, so that it builds in seconds.

mod ci;
mod conformance;
mod cpu;
mod report;
mod rust_source;
mod tidy;
mod tree;

use std::path::PathBuf;
use std::process::ExitCode;

const USAGE: &str = "\
usage: cargo xtask <command>

  ci            format, lints, tidy, build and all tests, as CI runs them
  tidy          what compilers do not check: arrows between crates, hooks, citations, file lengths
  conformance   writes docs/conformance.md: which test proves which item of the checklist
";

fn main() -> ExitCode {
    let command: Vec<String> = std::env::args().skip(1).collect();
    let root = workspace_root();
    let result = match command.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["ci"] => ci::run(&root),
        ["tidy"] => tidy::run(&root),
        ["conformance"] => conformance::write(&root),
        _ => {
            eprint!("{USAGE}");
            return ExitCode::from(2);
        }
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
