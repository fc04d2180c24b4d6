//! Lines that a child process made and this process passes on: the child knows their level, place,
//! thread and causes, and writes them in the form of its parent's log.

use serde_json::{Map, Value};

use crate::LogFormat;
use crate::line::{escape_in_json, plain};

/// Stands in front of each record that a child writes. What has it not is no record: a panic's
/// words, or what a library prints.
pub(crate) const RECORD_MARK: char = '\u{1e}';

/// Marks the event that carries such a line to the log.
pub(crate) const TARGET: &str = "millstream_telemetry::passed";

/// The field that holds it.
pub(crate) const FIELD: &str = "record";

/// Writes a record of a child process into the log of this one. False if the line is none; then
/// nothing is written.
pub fn pass_on(line: &str) -> bool {
    let Some(record) = line.strip_prefix(RECORD_MARK) else {
        return false;
    };
    // The child's own filter decided: this one lets everything through that is as grave as this.
    tracing::error!(target: TARGET, record);
    true
}

/// The record as it may stand in the log; none where it has not the log's form.
pub(crate) fn checked(record: &str, format: LogFormat) -> Option<String> {
    match format {
        LogFormat::Text => Some(plain(record)),
        LogFormat::Json => {
            let object = serde_json::from_str::<Map<String, Value>>(record);
            object.is_ok().then(|| escape_in_json(record))
        }
    }
}
