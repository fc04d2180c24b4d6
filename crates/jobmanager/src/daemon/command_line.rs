//! What a jobmanager adds to the `main` of a daemon.

use std::process::ExitCode;

use millstream_config::{ConfigErrors, JobmanagerConfig, LogConfig, Resolved};
use millstream_launch::{Daemon, Launched};
use millstream_types::errors::ErrorCode;

use super::{DaemonError, run};

enum Program {}

impl Daemon for Program {
    const NAME: &'static str = "jobmanager";
    const ABOUT: &'static str = "Coordinates the jobs of a Millstream cluster";
    type Config = JobmanagerConfig;
    type Error = DaemonError;

    fn config(table: &Resolved) -> Result<JobmanagerConfig, ConfigErrors> {
        JobmanagerConfig::new(table)
    }

    fn log(config: &JobmanagerConfig) -> &LogConfig {
        &config.log
    }

    async fn run(launched: Launched<JobmanagerConfig>) -> Result<(), DaemonError> {
        let Launched {
            env,
            config,
            table,
            signals,
            ..
        } = launched;
        run(env, &config, table, signals).await
    }

    fn code(error: &DaemonError) -> ErrorCode {
        error.code()
    }

    fn remedy(error: &DaemonError) -> String {
        error.remedy()
    }
}

/// The `main` of the `jobmanager` binary.
pub fn main() -> ExitCode {
    millstream_launch::main::<Program>()
}
