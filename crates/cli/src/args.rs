//! The command line.

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand};
use millstream_types::JobId;

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
    /// Submit a job to a cluster and follow it to its end.
    Run(RunArgs),
    /// List the jobs of a cluster.
    List(ListArgs),
    /// Show one job on one screen.
    Status(JobArgs),
    /// End a job, and wait until it has ended.
    Cancel(JobArgs),
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

/// Where the cluster is.
#[derive(Args, Debug)]
pub struct ClusterArgs {
    /// The jobmanager's gRPC address.
    #[arg(
        long,
        short = 'm',
        value_name = "HOST:PORT",
        default_value = "localhost:6123"
    )]
    pub jobmanager: String,
}

/// Arguments of `run`.
#[derive(Args, Debug)]
pub struct RunArgs {
    /// The job file and its settings. Relative paths in it are the taskmanagers'.
    #[command(flatten)]
    pub file: JobFileArgs,
    /// Where the cluster is.
    #[command(flatten)]
    pub cluster: ClusterArgs,
    /// Print the job's id and return at once.
    #[arg(long, short = 'd')]
    pub detached: bool,
    /// An id of this submission: submitting again with it finds the same job. Default: a new one.
    #[arg(long, value_name = "ID")]
    pub client_id: Option<String>,
}

/// Arguments of `list`.
#[derive(Args, Debug)]
pub struct ListArgs {
    /// Where the cluster is.
    #[command(flatten)]
    pub cluster: ClusterArgs,
    /// Ended jobs too.
    #[arg(long, short = 'a')]
    pub all: bool,
}

/// Arguments of commands on one job.
#[derive(Args, Debug)]
pub struct JobArgs {
    /// The job's id: 32 hexadecimal digits.
    pub job: JobId,
    /// Where the cluster is.
    #[command(flatten)]
    pub cluster: ClusterArgs,
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
