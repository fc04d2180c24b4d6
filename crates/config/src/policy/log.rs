//! What is logged, and how.

use std::collections::BTreeMap;

use crate::resolved::Resolved;
use crate::value::Value;

/// The form of log lines.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LogFormat {
    /// For people.
    Text,
    /// One JSON object a line.
    Json,
}

/// What is logged, and how.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LogConfig {
    /// The form.
    pub format: LogFormat,
    /// Levels, as `info` or `info,millstream_net=debug`.
    pub level: String,
    /// Fields of every JSON line.
    pub static_fields: BTreeMap<String, String>,
}

impl LogConfig {
    /// What the table says about logs.
    #[must_use]
    pub fn new(table: &Resolved) -> Self {
        Self {
            format: match table.choice("log.format") {
                Some("json") => LogFormat::Json,
                _ => LogFormat::Text,
            },
            level: table.text("log.level").unwrap_or("info").to_owned(),
            static_fields: match table.value("log.json.static-fields") {
                Some(Value::Map(fields)) => fields.clone(),
                _ => BTreeMap::new(),
            },
        }
    }
}
