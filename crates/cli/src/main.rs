//! The `millstream` command.

use std::io::Write;
use std::process::ExitCode;

use clap::Parser;
use millstream_cli::{Cli, Command, run};
use millstream_env::{Env, FailPoints};
use millstream_launch::usage;
use millstream_telemetry::{LogConfig, LogError, LogFormat, init};
use millstream_types::errors;

#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

/// Exit codes: a mistake in what was given, and an operation that failed.
const MISTAKE: u8 = 1;
const FAILED: u8 = 3;

fn main() -> ExitCode {
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(error) if error.use_stderr() => {
            eprintln!("{}", usage(&error));
            return ExitCode::from(MISTAKE);
        }
        // Help, or the version.
        Err(error) => error.exit(),
    };
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build();
    let runtime = match runtime {
        Ok(runtime) => runtime,
        Err(error) => {
            let what = format!("there are no threads for the runtime: {error}");
            eprintln!("{}", errors::PROCESS.render(&what, ""));
            return ExitCode::from(FAILED);
        }
    };
    let code = runtime.block_on(async {
        let env = Env::real("millstream");
        if let Command::Local(args) = &cli.command
            && let Err(error) = start_log(&env, &args.log)
        {
            // Nobody else started a log: its filter is at fault, and the error's own words name a key
            // that this program does not read.
            let what = match error {
                LogError::Filter { filter, source } => {
                    format!("--log {filter} is no log level: {source}")
                }
                error @ (LogError::AlreadyInstalled | LogError::Gone) => error.to_string(),
            };
            eprintln!("{}", errors::LOG_FILTER.render(&what, ""));
            return MISTAKE;
        }
        let env = match fail_points(&env) {
            Ok(env) => env,
            Err(error) => {
                let what = format!("MILLSTREAM_FAIL_POINTS is refused: {error}");
                eprintln!("{}", errors::FAIL_POINTS.render(&what, ""));
                return MISTAKE;
            }
        };
        let mut out = std::io::stdout();
        let code = run(&env, cli, &mut out).await;
        // Whoever closed the other end has read enough.
        let _ = out.flush();
        code
    });
    ExitCode::from(code)
}

fn start_log(env: &Env, filter: &str) -> Result<(), LogError> {
    let clock = env.clock().clone();
    init(LogConfig {
        format: LogFormat::Text,
        filter: filter.to_owned(),
        static_fields: std::collections::BTreeMap::new(),
        now: std::sync::Arc::new(move || clock.wall()),
    })?;
    Ok(())
}

/// Arms what tests ask for; builds without debug assertions refuse.
fn fail_points(env: &Env) -> Result<Env, millstream_env::fail_points::FailPointError> {
    let specification = std::env::var(millstream_launch::FAIL_POINTS_VARIABLE).unwrap_or_default();
    Ok(env.with_fail_points(FailPoints::parse(&specification, env.exit())?))
}
