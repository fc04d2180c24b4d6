//! The `main` of a daemon: from command line, environment and file to its own work.

use std::error::Error;
use std::process::ExitCode;

use clap::{Args, Command, FromArgMatches};
use millstream_config::{ConfigErrors, LogConfig, Resolved};
use millstream_env::fail_points::FailPointError;
use millstream_env::{Env, FailPoints, Signals};
use millstream_telemetry::LogError;
use tracing::warn;

use crate::settings::{Arguments, FAIL_POINTS_VARIABLE, LaunchError, table};
use crate::start_log;

/// Exit code of a configuration that is refused.
const REFUSED: u8 = 2;
/// Where settings come from, for `--help`.
const SETTINGS: &str = "Settings come from flags, the environment (MILLSTREAM_…), the file and the \
                        defaults; the first that has a key wins.";

/// A program that runs until a signal asks it to end.
pub trait Daemon {
    /// What it is called: "jobmanager".
    const NAME: &'static str;
    /// What it does, in one sentence without a full stop.
    const ABOUT: &'static str;
    /// Its checked configuration.
    type Config;
    /// Why it ended that was not told to.
    type Error: Error + 'static;

    /// Checks its settings.
    fn config(table: &Resolved) -> Result<Self::Config, ConfigErrors>;
    /// How it logs.
    fn log(config: &Self::Config) -> &LogConfig;
    /// Runs until a signal comes.
    fn run(launched: Launched<Self::Config>) -> impl Future<Output = Result<(), Self::Error>>;
    /// What to do about its end.
    fn remedy(error: &Self::Error) -> String;
}

/// What a daemon finds when its own work begins.
#[derive(Debug)]
pub struct Launched<C> {
    /// Time, files, network, with fail points armed.
    pub env: Env,
    /// Its checked configuration.
    pub config: C,
    /// The table the configuration is from.
    pub table: Resolved,
    /// Armed fail points, as they were given: for processes of its own.
    pub fail_points: Option<String>,
    /// What asks it to end.
    pub signals: Signals,
}

/// Why a daemon does not run.
#[derive(Debug, thiserror::Error)]
enum StartError<E: Error + 'static> {
    #[error(transparent)]
    Launch(#[from] LaunchError),
    #[error("there is no log")]
    Log(#[from] LogError),
    #[error("{FAIL_POINTS_VARIABLE} is refused")]
    FailPoints(#[from] FailPointError),
    #[error("the process has no runtime")]
    Runtime(#[source] std::io::Error),
    #[error("signals cannot be received")]
    Signals(#[source] std::io::Error),
    #[error(transparent)]
    Ended(E),
}

/// Runs the daemon; its errors are said on standard error, with what to do about them.
pub fn main<D: Daemon>() -> ExitCode {
    let Err(error) = begin::<D>(&arguments::<D>()) else {
        return ExitCode::SUCCESS;
    };
    eprintln!("{}: {}", D::NAME, millstream_telemetry::chain(&error));
    if let Some(remedy) = remedy::<D>(&error) {
        eprintln!("{remedy}");
    }
    match error {
        StartError::Launch(_) | StartError::FailPoints(_) => ExitCode::from(REFUSED),
        StartError::Log(_)
        | StartError::Runtime(_)
        | StartError::Signals(_)
        | StartError::Ended(_) => ExitCode::FAILURE,
    }
}

/// Ends the process where it is asked for help or the version, and where a flag is unknown.
fn arguments<D: Daemon>() -> Arguments {
    let matches = command::<D>().get_matches();
    Arguments::from_arg_matches(&matches).unwrap_or_else(|error| error.exit())
}

fn command<D: Daemon>() -> Command {
    let command = Command::new(D::NAME).version(env!("CARGO_PKG_VERSION"));
    Arguments::augment_args(command)
        .about(D::ABOUT)
        .long_about(format!("{}.\n\n{SETTINGS}", D::ABOUT))
}

fn remedy<D: Daemon>(error: &StartError<D::Error>) -> Option<String> {
    match error {
        StartError::Ended(error) => Some(D::remedy(error)),
        StartError::Signals(_) => {
            Some("raise the limits of processes and open files of this user".to_owned())
        }
        // They say it themselves.
        StartError::Launch(_)
        | StartError::Log(_)
        | StartError::FailPoints(_)
        | StartError::Runtime(_) => None,
    }
}

fn begin<D: Daemon>(arguments: &Arguments) -> Result<(), StartError<D::Error>> {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .map_err(StartError::Runtime)?;
    let result = runtime.block_on(start::<D>(arguments));
    // What still blocks a thread has been named in the log, and ends with the process.
    runtime.shutdown_background();
    result
}

async fn start<D: Daemon>(arguments: &Arguments) -> Result<(), StartError<D::Error>> {
    let env = Env::real(D::NAME);
    let table = table(&env, arguments)?;
    let config = D::config(&table).map_err(LaunchError::from)?;
    if arguments.print_config {
        print!("{}", table.print_config());
        return Ok(());
    }
    start_log(&env, D::log(&config))?;
    for warning in table.warnings() {
        warn!("{warning}");
    }
    let fail_points = std::env::var(FAIL_POINTS_VARIABLE).unwrap_or_default();
    // Checked here, where somebody reads the message.
    let env = env.with_fail_points(FailPoints::parse(&fail_points, env.exit())?);
    let signals = Signals::of_process(env.spawner(), env.exit()).map_err(StartError::Signals)?;
    let launched = Launched {
        env,
        config,
        table,
        fail_points: Some(fail_points).filter(|text| !text.trim().is_empty()),
        signals,
    };
    D::run(launched).await.map_err(StartError::Ended)
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Idle;

    impl Daemon for Idle {
        const NAME: &'static str = "idle";
        const ABOUT: &'static str = "Does nothing";
        type Config = LogConfig;
        type Error = std::io::Error;

        fn config(table: &Resolved) -> Result<LogConfig, ConfigErrors> {
            Ok(LogConfig::new(table))
        }

        fn log(config: &LogConfig) -> &LogConfig {
            config
        }

        async fn run(_launched: Launched<LogConfig>) -> Result<(), std::io::Error> {
            Ok(())
        }

        fn remedy(error: &std::io::Error) -> String {
            format!("do something about {error}")
        }
    }

    #[test]
    fn help_says_what_the_daemon_does_and_where_its_settings_come_from() {
        let mut command = command::<Idle>();
        command.clone().debug_assert();
        let help = command.render_long_help().to_string();
        for part in [
            "Does nothing.",
            SETTINGS,
            "--print-config",
            "-D <KEY=VALUE>",
        ] {
            assert!(help.contains(part), "{part} is missing in {help}");
        }
        let matches = command.try_get_matches_from(["idle", "-D", "a=1", "-D", "b=2"]);
        let arguments = Arguments::from_arg_matches(&matches.unwrap()).unwrap();
        assert_eq!(arguments.settings, ["a=1", "b=2"]);
    }

    #[test]
    fn an_end_that_nobody_asked_for_has_the_daemon_s_remedy() {
        let ended = StartError::Ended(std::io::Error::other("smoke"));
        let said = remedy::<Idle>(&ended);
        assert_eq!(said.as_deref(), Some("do something about smoke"));
    }
}
