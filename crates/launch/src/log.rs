//! The log of this process, as configured.

use std::collections::BTreeMap;
use std::sync::Arc;

use millstream_config::{LogConfig, LogFormat};
use millstream_env::Env;
use millstream_telemetry::{LogError, LogHandle, init};

/// The log of a daemon.
pub fn start_log(env: &Env, config: &LogConfig) -> Result<LogHandle, LogError> {
    let format = match config.format {
        LogFormat::Text => millstream_telemetry::LogFormat::Text,
        LogFormat::Json => millstream_telemetry::LogFormat::Json,
    };
    install(env, &config.level, format, config.static_fields.clone())
}

/// A log in text whatever is configured: of a job process, whose taskmanager gives its lines their
/// form, and of commands for people.
pub fn start_plain_log(env: &Env, level: &str) -> Result<LogHandle, LogError> {
    install(
        env,
        level,
        millstream_telemetry::LogFormat::Text,
        BTreeMap::new(),
    )
}

fn install(
    env: &Env,
    level: &str,
    format: millstream_telemetry::LogFormat,
    static_fields: BTreeMap<String, String>,
) -> Result<LogHandle, LogError> {
    let clock = env.clock().clone();
    init(millstream_telemetry::LogConfig {
        format,
        filter: level.to_owned(),
        static_fields,
        now: Arc::new(move || clock.wall()),
    })
}
