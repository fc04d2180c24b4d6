//! The log of this process, as configured.

use std::collections::BTreeMap;
use std::sync::Arc;

use millstream_config::{LogConfig, LogFormat};
use millstream_env::Env;
use millstream_telemetry::{LogError, LogHandle, init};

/// The log of a taskmanager.
pub(crate) fn of_taskmanager(env: &Env, config: &LogConfig) -> Result<LogHandle, LogError> {
    let format = match config.format {
        LogFormat::Text => millstream_telemetry::LogFormat::Text,
        LogFormat::Json => millstream_telemetry::LogFormat::Json,
    };
    install(env, config, format, config.static_fields.clone())
}

/// The log of a job process: lines that its taskmanager puts into its own log, in its own form.
pub(crate) fn of_job_process(env: &Env, config: &LogConfig) -> Result<LogHandle, LogError> {
    let format = millstream_telemetry::LogFormat::Text;
    install(env, config, format, BTreeMap::new())
}

fn install(
    env: &Env,
    config: &LogConfig,
    format: millstream_telemetry::LogFormat,
    static_fields: BTreeMap<String, String>,
) -> Result<LogHandle, LogError> {
    let clock = env.clock().clone();
    init(millstream_telemetry::LogConfig {
        format,
        filter: config.level.clone(),
        static_fields,
        now: Arc::new(move || clock.wall()),
    })
}
