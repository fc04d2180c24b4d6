//! The command line.

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand};

/// Runs and checks Millstream jobs.
#[derive(Parser, Debug)]
#[command(name = "millstream", version, about, max_term_width = 100)]
pub struct Cli {
    /// What to do.
    #[command(subcommand)]
    pub command: Command,
}

/// The commands.
#[derive(Subcommand, Debug)]
pub enum Command {
    /// Run a job in this process, to its end: jobmanager, taskmanager and tasks without a network.
    Local(LocalArgs),
    /// Check a job file and show what would run, without running it.
    Validate(ValidateArgs),
}

/// What every command on a job file takes.
#[derive(Args, Debug)]
pub struct JobFileArgs {
    /// The job file.
    pub job: PathBuf,
    /// A setting of the job, over the one in its file: `-D checkpointing.interval=5s`.
    #[arg(short = 'D', value_name = "KEY=VALUE")]
    pub settings: Vec<String>,
}

/// Arguments of `local`.
#[derive(Args, Debug)]
pub struct LocalArgs {
    /// The job file and its settings.
    #[command(flatten)]
    pub file: JobFileArgs,
    /// Where checkpoints and the job itself are kept. The same directory given again resumes the
    /// job there if it did not end. Default: a temporary directory, removed at the end.
    #[arg(long, value_name = "DIR")]
    pub dir: Option<PathBuf>,
    /// What to log on standard error: error, warn, info, debug, or `info,MODULE=debug`.
    #[arg(
        long,
        value_name = "LEVEL",
        default_value = "warn",
        env = "MILLSTREAM_LOG"
    )]
    pub log: String,
}

/// Arguments of `validate`.
#[derive(Args, Debug)]
pub struct ValidateArgs {
    /// The job file and its settings.
    #[command(flatten)]
    pub file: JobFileArgs,
    /// Print the plan as JSON.
    #[arg(long)]
    pub json: bool,
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    #[test]
    fn the_command_line_is_consistent() {
        Cli::command().debug_assert();
    }
}
