//! From command line, environment and file to a running jobmanager.

use std::process::ExitCode;

use clap::Parser;
use millstream_config::{ConfigErrors, JobmanagerConfig};
use millstream_env::{Env, FailPoints, Signals};
use millstream_launch::{Arguments, FAIL_POINTS_VARIABLE, LaunchError, start_log, table};
use tracing::warn;

use super::{DaemonError, run};

/// Exit code of a configuration that is refused.
const REFUSED: u8 = 2;

/// Coordinates the jobs of a Millstream cluster.
///
/// Settings come from flags, the environment (MILLSTREAM_…), the file and the defaults; the first
/// that has a key wins.
#[derive(Parser, Debug)]
#[command(name = "jobmanager", version)]
struct CommandLine {
    #[command(flatten)]
    arguments: Arguments,
}

/// Why no jobmanager ran.
#[derive(Debug, thiserror::Error)]
enum MainError {
    #[error(transparent)]
    Launch(#[from] LaunchError),
    #[error("there is no log")]
    Log(#[from] millstream_telemetry::LogError),
    #[error("{FAIL_POINTS_VARIABLE} is refused")]
    FailPoints(#[from] millstream_env::fail_points::FailPointError),
    #[error("the jobmanager has no runtime")]
    Runtime(#[from] std::io::Error),
    #[error(transparent)]
    Daemon(#[from] DaemonError),
}

impl From<ConfigErrors> for MainError {
    fn from(errors: ConfigErrors) -> Self {
        Self::Launch(errors.into())
    }
}

/// The `main` of the `jobmanager` binary.
pub fn main() -> ExitCode {
    let CommandLine { arguments } = CommandLine::parse();
    let Err(error) = begin(&arguments) else {
        return ExitCode::SUCCESS;
    };
    eprintln!("jobmanager: {}", millstream_telemetry::chain(&error));
    match error {
        MainError::Daemon(error) => {
            eprintln!("{}", error.remedy());
            ExitCode::FAILURE
        }
        MainError::Launch(_) | MainError::FailPoints(_) => ExitCode::from(REFUSED),
        MainError::Log(_) | MainError::Runtime(_) => ExitCode::FAILURE,
    }
}

fn begin(arguments: &Arguments) -> Result<(), MainError> {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()?;
    let result = runtime.block_on(start(arguments));
    // What still blocks a thread has been named in the log, and ends with the process.
    runtime.shutdown_background();
    result
}

async fn start(arguments: &Arguments) -> Result<(), MainError> {
    let env = Env::real("jobmanager");
    let table = table(&env, arguments)?;
    let config = JobmanagerConfig::new(&table)?;
    if arguments.print_config {
        print!("{}", table.print_config());
        return Ok(());
    }
    start_log(&env, &config.log)?;
    for warning in table.warnings() {
        warn!("{warning}");
    }
    let fail_points = std::env::var(FAIL_POINTS_VARIABLE).unwrap_or_default();
    let env = env.with_fail_points(FailPoints::parse(&fail_points, env.exit())?);
    let signals = Signals::of_process(env.spawner(), env.exit()).map_err(DaemonError::Signals)?;
    run(env, &config, table, signals).await?;
    Ok(())
}
