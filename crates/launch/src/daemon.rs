//! The `main` of a daemon: from command line, environment and file to its own work.

use std::error::Error;
use std::ffi::OsString;
use std::process::ExitCode;

use clap::{Args, Command, FromArgMatches};
use millstream_config::{ConfigErrors, LogConfig, Resolved};
use millstream_env::fail_points::FailPointError;
use millstream_env::{Env, FailPoints, Signals};
use millstream_telemetry::LogError;
use millstream_types::errors::{self, ErrorCode};
use tracing::warn;

use crate::settings::{Arguments, FAIL_POINTS_VARIABLE, LaunchError, table};
use crate::{start_log, usage};

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
    /// The code of its end.
    fn code(error: &Self::Error) -> ErrorCode;
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
    let arguments = match arguments::<D>(std::env::args_os()) {
        Ok(arguments) => arguments,
        Err(error) if error.use_stderr() => {
            eprintln!("{}", usage(&error));
            return ExitCode::from(REFUSED);
        }
        // Help, or the version.
        Err(error) => error.exit(),
    };
    let Err(error) = begin::<D>(&arguments) else {
        return ExitCode::SUCCESS;
    };
    eprintln!("{}", render::<D>(&error));
    match error {
        StartError::Launch(_) | StartError::FailPoints(_) => ExitCode::from(REFUSED),
        StartError::Log(_)
        | StartError::Runtime(_)
        | StartError::Signals(_)
        | StartError::Ended(_) => ExitCode::FAILURE,
    }
}

fn arguments<D: Daemon>(
    words: impl IntoIterator<Item = OsString>,
) -> Result<Arguments, clap::Error> {
    let matches = command::<D>().try_get_matches_from(words)?;
    Arguments::from_arg_matches(&matches)
}

fn command<D: Daemon>() -> Command {
    let command = Command::new(D::NAME).version(env!("CARGO_PKG_VERSION"));
    Arguments::augment_args(command)
        .about(D::ABOUT)
        .long_about(format!("{}.\n\n{SETTINGS}", D::ABOUT))
}

/// What is read on standard error: code and message on one line, then what to do.
fn render<D: Daemon>(error: &StartError<D::Error>) -> String {
    let said = |code: ErrorCode| code.render(&millstream_telemetry::chain(error), "");
    match error {
        StartError::Launch(error) => error.render(),
        StartError::Log(_) => said(errors::LOG_START),
        StartError::FailPoints(_) => said(errors::FAIL_POINTS),
        StartError::Runtime(_) | StartError::Signals(_) => said(errors::PROCESS),
        StartError::Ended(error) => {
            let what = millstream_telemetry::chain(error);
            D::code(error).render(&what, &D::remedy(error))
        }
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

        fn code(_error: &std::io::Error) -> ErrorCode {
            errors::PROCESS
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
        let said = render::<Idle>(&ended);
        assert_eq!(
            said,
            "error[USE-0005]: smoke\n  help: do something about smoke"
        );
    }

    #[test]
    fn an_unknown_flag_is_refused_and_the_version_is_no_mistake() {
        let arguments = |flag: &str| arguments::<Idle>(["idle", flag].map(OsString::from));
        assert!(arguments("--flag").unwrap_err().use_stderr());
        assert!(!arguments("--version").unwrap_err().use_stderr());
        assert!(arguments("--print-config").unwrap().print_config);
    }
}
