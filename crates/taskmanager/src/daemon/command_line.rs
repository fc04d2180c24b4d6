//! What a taskmanager adds to the `main` of a daemon.

use std::path::PathBuf;
use std::process::ExitCode;

use millstream_config::{ConfigErrors, LogConfig, Resolved, TaskmanagerConfig};
use millstream_launch::{Daemon, Launched};
use millstream_types::errors::ErrorCode;

use super::{DaemonError, DaemonSettings, run};
use crate::process;

enum Program {}

impl Daemon for Program {
    const NAME: &'static str = "taskmanager";
    const ABOUT: &'static str = "Runs the tasks of a Millstream cluster";
    type Config = TaskmanagerConfig;
    type Error = DaemonError;

    fn config(table: &Resolved) -> Result<TaskmanagerConfig, ConfigErrors> {
        TaskmanagerConfig::new(table)
    }

    fn log(config: &TaskmanagerConfig) -> &LogConfig {
        &config.log
    }

    async fn run(launched: Launched<TaskmanagerConfig>) -> Result<(), DaemonError> {
        let Launched {
            env,
            config,
            table,
            fail_points,
            signals,
        } = launched;
        let settings = DaemonSettings {
            config,
            table,
            program: PathBuf::from("/proc/self/exe"),
            fail_points,
        };
        run(env, settings, signals).await
    }

    fn code(error: &DaemonError) -> ErrorCode {
        error.code()
    }

    fn remedy(error: &DaemonError) -> String {
        error.remedy()
    }
}

/// The `main` of the `taskmanager` binary, which is its own job process too.
pub fn main() -> ExitCode {
    if process::asked_for() {
        return process::main();
    }
    millstream_launch::main::<Program>()
}
