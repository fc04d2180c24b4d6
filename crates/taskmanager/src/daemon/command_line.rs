//! From command line, environment and file to a running taskmanager.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::Parser;
use millstream_config::{ConfigErrors, Layer, Resolved, Target};
use millstream_env::fs::FsError;
use millstream_env::{Env, FailPoints, Signals};
use tracing::warn;

use super::{DaemonError, DaemonSettings, run};
use crate::log;
use crate::process::{self, FAIL_POINTS_VARIABLE};

/// A configuration file larger than this is none.
const FILE_BYTES_MAX: u64 = 1 << 20;
/// Exit code of a configuration that is refused.
const REFUSED: u8 = 2;

/// Runs the tasks of a Millstream cluster.
///
/// Settings come from flags, the environment (MILLSTREAM_…), the file and the defaults; the first
/// that has a key wins.
#[derive(Parser, Debug)]
#[command(name = "taskmanager", version)]
struct Arguments {
    /// The configuration file (YAML).
    #[arg(long, value_name = "FILE", env = "MILLSTREAM_CONFIG")]
    config: Option<PathBuf>,
    /// One setting, such as -D taskmanager.numberOfTaskSlots=4; may be given again.
    #[arg(short = 'D', value_name = "KEY=VALUE")]
    settings: Vec<String>,
    /// Prints the effective configuration, each value with its origin, and ends.
    #[arg(long)]
    print_config: bool,
}

/// Why no taskmanager ran.
#[derive(Debug, thiserror::Error)]
enum StartError {
    #[error("configuration file {path} cannot be read")]
    File { path: PathBuf, source: FsError },
    #[error("configuration file {path} is no text")]
    NoText { path: PathBuf },
    #[error("{}", .0.report())]
    Config(ConfigErrors),
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
        Self::Config(errors)
    }
}

/// The `main` of the `taskmanager` binary, which is its own job process too.
pub fn main() -> ExitCode {
    if process::asked_for() {
        return process::main();
    }
    let arguments = Arguments::parse();
    match begin(&arguments) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("taskmanager: {}", millstream_telemetry::chain(&error));
            if let StartError::Daemon(error) = &error {
                eprintln!("{}", error.remedy());
            }
            match error {
                StartError::File { .. }
                | StartError::NoText { .. }
                | StartError::Config(_)
                | StartError::FailPoints(_) => ExitCode::from(REFUSED),
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
    log::of_taskmanager(&env, &settings.config.log)?;
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

fn table(env: &Env, arguments: &Arguments) -> Result<Resolved, StartError> {
    let file = match &arguments.config {
        None => Layer::default(),
        Some(path) => Layer::file(&path.display().to_string(), &text(env, path)?)?,
    };
    let variables = std::env::vars_os()
        .filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)));
    let environment = Layer::environment(variables, &[FAIL_POINTS_VARIABLE])?;
    let settings = arguments.settings.iter().map(String::as_str);
    let flags = Layer::flags(settings, Target::Daemon)?;
    Ok(Resolved::new([file, environment, flags]))
}

fn text(env: &Env, path: &Path) -> Result<String, StartError> {
    let bytes = env.fs().read(path, FILE_BYTES_MAX).map_err(|source| {
        let path = path.to_owned();
        StartError::File { path, source }
    })?;
    String::from_utf8(bytes).map_err(|_| StartError::NoText {
        path: path.to_owned(),
    })
}
