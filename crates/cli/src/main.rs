//! The `millstream` command.

use std::io::Write;
use std::process::ExitCode;

use clap::Parser;
use millstream_cli::{Cli, Command, run};
use millstream_env::{Env, FailPoints};
use millstream_telemetry::{LogConfig, LogFormat, init};

#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

fn main() -> ExitCode {
    let cli = Cli::parse();
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build();
    let runtime = match runtime {
        Ok(runtime) => runtime,
        Err(error) => {
            eprintln!("error: no threads for the runtime: {error}");
            return ExitCode::from(3);
        }
    };
    let code = runtime.block_on(async {
        let env = Env::real("millstream");
        if let Command::Local(args) = &cli.command
            && let Err(error) = start_log(&env, &args.log)
        {
            eprintln!("error: --log {:?} is not a level: {error}", args.log);
            return 1;
        }
        let env = match fail_points(&env) {
            Ok(env) => env,
            Err(error) => {
                eprintln!("error: MILLSTREAM_FAIL_POINTS: {error}");
                return 1;
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

fn start_log(env: &Env, filter: &str) -> Result<(), millstream_telemetry::LogError> {
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
    let specification = std::env::var("MILLSTREAM_FAIL_POINTS").unwrap_or_default();
    Ok(env.with_fail_points(FailPoints::parse(&specification, env.exit())?))
}
