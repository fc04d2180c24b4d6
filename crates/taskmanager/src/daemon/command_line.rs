//! From command line, environment and file to a running taskmanager.

use std::process::ExitCode;

use clap::Parser;
use millstream_config::ConfigErrors;
use millstream_env::{Env, FailPoints, Signals};
use millstream_launch::{Arguments, LaunchError, start_log, table};
use tracing::warn;

use super::{DaemonError, DaemonSettings, run};
use crate::process::{self, FAIL_POINTS_VARIABLE};

/// Exit code of a configuration that is refused.
const REFUSED: u8 = 2;

/// Runs the tasks of a Millstream cluster.
///
/// Settings come from flags, the environment (MILLSTREAM_…), the file and the defaults; the first
/// that has a key wins.
#[derive(Parser, Debug)]
#[command(name = "taskmanager", version)]
struct CommandLine {
    #[command(flatten)]
    arguments: Arguments,
}

/// Why no taskmanager ran.
#[derive(Debug, thiserror::Error)]
enum StartError {
    #[error(transparent)]
    Launch(#[from] LaunchError),
    #[error("there is no log")]
    Log(#[from] millstream_telemetry::LogError),
    #[error("{FAIL_POINTS_VARIABLE} is refused")]
    FailPoints(#[from] millstream_env::fail_points::FailPointError),
    #[error("the taskmanager has no runtime")]
    Runtime(#[from] std::io::Error),
    #[error(transparent)]
    Daemon(#[from] DaemonError),
}

impl From<ConfigErrors> for StartError {
    fn from(errors: ConfigErrors) -> Self {
        Self::Launch(errors.into())
    }
}

/// The `main` of the `taskmanager` binary, which is its own job process too.
pub fn main() -> ExitCode {
    if process::asked_for() {
        return process::main();
    }
    let CommandLine { arguments } = CommandLine::parse();
    match begin(&arguments) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("taskmanager: {}", millstream_telemetry::chain(&error));
            if let StartError::Daemon(error) = &error {
                eprintln!("{}", error.remedy());
            }
            match error {
                StartError::Launch(_) | StartError::FailPoints(_) => ExitCode::from(REFUSED),
                StartError::Log(_) | StartError::Runtime(_) | StartError::Daemon(_) => {
                    ExitCode::FAILURE
                }
            }
        }
    }
}

fn begin(arguments: &Arguments) -> Result<(), StartError> {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()?;
    let result = runtime.block_on(start(arguments));
    // What still blocks a thread has been named in the log, and ends with the process.
    runtime.shutdown_background();
    result
}

async fn start(arguments: &Arguments) -> Result<(), StartError> {
    let env = Env::real("taskmanager");
    let table = table(&env, arguments)?;
    let mut settings = DaemonSettings::new(table)?;
    if arguments.print_config {
        print!("{}", settings.table.print_config());
        return Ok(());
    }
    start_log(&env, &settings.config.log)?;
    for warning in settings.table.warnings() {
        warn!("{warning}");
    }
    let fail_points = std::env::var(FAIL_POINTS_VARIABLE).unwrap_or_default();
    // Checked here, where somebody reads the message; this process runs tasks in threads only.
    let env = env.with_fail_points(FailPoints::parse(&fail_points, env.exit())?);
    settings.fail_points = Some(fail_points).filter(|text| !text.trim().is_empty());
    let signals = Signals::of_process(env.spawner(), env.exit()).map_err(DaemonError::Signals)?;
    run(env, settings, signals).await?;
    Ok(())
}
