//! The `millstream` command: runs a job here, checks a job file.
//!
//! Invariants: results go to standard output and everything else to standard error; the exit code
//! says how it went (D.1): 0 done, 1 a mistake in what was given, 3 the operation failed.
//!
//! Must never depend on: a decision that belongs to the cluster.

mod args;
mod codec;
mod error;
mod job_file;
mod local;
mod plan;

pub use args::{Cli, Command};
pub use error::CliError;

use std::io::Write;

use millstream_env::Env;

/// Runs one command and returns its exit code.
pub async fn run(env: &Env, cli: Cli, out: &mut (dyn Write + Send)) -> u8 {
    let result = match cli.command {
        Command::Local(args) => local::run(env, &args, out).await,
        Command::Validate(args) => plan::validate(env, &args, out),
    };
    match result {
        Ok(()) => 0,
        Err(error) => {
            eprintln!("{}", error.render());
            error.exit_code()
        }
    }
}
