//! The log of this process, as configured.

use std::sync::Arc;

use millstream_config::{LogConfig, LogFormat};
use millstream_env::Env;
use millstream_telemetry::{LogError, LogHandle, init, init_child};
use serde_json::Value;

/// The log of a daemon.
pub fn start_log(env: &Env, config: &LogConfig) -> Result<LogHandle, LogError> {
    init(settings(env, config))
}

/// The log of a job process: in the form of its taskmanager's, which passes its records on. Each
/// has the fields of `context`.
pub fn start_child_log(
    env: &Env,
    config: &LogConfig,
    context: Vec<(String, Value)>,
) -> Result<LogHandle, LogError> {
    init_child(settings(env, config), context)
}

fn settings(env: &Env, config: &LogConfig) -> millstream_telemetry::LogConfig {
    let clock = env.clock().clone();
    millstream_telemetry::LogConfig {
        format: match config.format {
            LogFormat::Text => millstream_telemetry::LogFormat::Text,
            LogFormat::Json => millstream_telemetry::LogFormat::Json,
        },
        filter: config.level.clone(),
        static_fields: config.static_fields.clone(),
        now: Arc::new(move || clock.wall()),
    }
}
