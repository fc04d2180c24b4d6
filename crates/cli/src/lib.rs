//! The `millstream` command: runs a job here or on a cluster, checks a job file.
//!
//! Invariants: results go to standard output and everything else to standard error; the exit code
//! says how it went (D.1): 0 done, 1 a mistake in what was given, 2 the cluster is out of reach, 3 the operation failed.
//!
//! Must never depend on: a decision that belongs to the cluster.

mod args;
mod error;
mod job_file;
mod local;
mod output;
mod plan;
mod remote;

pub use args::{Cli, Command};
pub use error::CliError;

use std::io::Write;

use millstream_env::Env;

/// Runs one command and returns its exit code.
pub async fn run(env: &Env, cli: Cli, out: &mut (dyn Write + Send)) -> u8 {
    let result = match cli.command {
        Command::Local(args) => local::run(env, &args, out).await,
        Command::Validate(args) => plan::validate(env, &args, out),
        Command::Run(args) => remote::run(env, &args, out).await,
        Command::List(args) => remote::list(env, &args, out).await,
        Command::Status(args) => remote::status(env, &args, out).await,
        Command::Cancel(args) => remote::cancel(env, &args, out).await,
    };
    match result {
        Ok(()) => 0,
        Err(error) => {
            eprintln!("{}", error.render());
            error.exit_code()
        }
    }
}
