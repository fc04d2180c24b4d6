//! One log record, and its two forms.

use std::collections::BTreeMap;
use std::fmt::Write;

use millstream_types::WallTime;
use serde_json::{Map, Value, json};

use crate::fields;

/// What a text is cut at; a record never floods a collector.
const TEXT_BYTES_MAX: usize = 16 * 1024;

/// The form of the log.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum LogFormat {
    /// For people.
    #[default]
    Text,
    /// One JSON object a line, with the keys of A2-4.
    Json,
}

/// One record, before it has a form.
#[derive(Clone, PartialEq, Debug)]
pub struct Line {
    /// When.
    pub at: WallTime,
    /// "INFO".
    pub level: &'static str,
    /// Who logs: the target, usually a module's path.
    pub logger: String,
    /// The module of the statement.
    pub module: String,
    /// The file of the statement, without directories.
    pub file: String,
    /// The line of the statement.
    pub line: u32,
    /// The logical thread.
    pub thread: String,
    /// The text.
    pub message: String,
    /// Fields of the spans around it, outermost first; a name occurs once.
    pub context: Vec<(String, Value)>,
    /// Fields of the event itself.
    pub fields: Vec<(String, Value)>,
    /// Errors with their causes, outermost first, one an entry.
    pub error_chain: Vec<String>,
}

impl Line {
    /// The record in the given form, without the end of line.
    pub fn format(&self, format: LogFormat, static_fields: &BTreeMap<String, String>) -> String {
        match format {
            LogFormat::Text => self.text(),
            LogFormat::Json => self.json(static_fields),
        }
    }

    /// `time LEVEL logger context… message field=value… error="…"`.
    fn text(&self) -> String {
        let mut text = format!(
            "{} {:<5} {}",
            rfc3339(self.at),
            self.level,
            plain(&self.logger)
        );
        push_fields(&mut text, &self.context);
        text.push_str(": ");
        text.push_str(&plain(&cut(&self.message)));
        push_fields(&mut text, &self.fields);
        if !self.error_chain.is_empty() {
            let chain = Value::String(self.error_chain.join(": "));
            push_fields(&mut text, &[(fields::ERROR.to_owned(), chain)]);
        }
        text
    }

    fn json(&self, static_fields: &BTreeMap<String, String>) -> String {
        let mut object = Map::new();
        // What the configuration adds; it cannot hide what the record says.
        for (key, value) in static_fields {
            object.insert(key.clone(), json!(value));
        }
        for key in ["applicationARN", "applicationVersionId"] {
            object.entry(key).or_insert_with(|| json!(""));
        }
        let location = format!("{}({}:{})", self.module, self.file, self.line);
        object.insert("locationInformation".into(), json!(location));
        object.insert("logger".into(), json!(self.logger));
        object.insert("message".into(), json!(cut(&self.message)));
        object.insert("messageSchemaVersion".into(), json!("1"));
        object.insert("messageType".into(), json!(self.level));
        object.insert("threadName".into(), json!(self.thread));
        object.insert("timestamp".into(), json!(rfc3339(self.at)));
        if !self.error_chain.is_empty() {
            let throwable = cut(&self.error_chain.join("\nCaused by: "));
            object.insert("throwableInformation".into(), json!(throwable));
        }
        let mut others = Map::new();
        // The event's own fields are later, so they win over the context's.
        for (name, value) in self.context.iter().chain(&self.fields) {
            let value = match value {
                Value::String(text) => json!(cut(text)),
                other => other.clone(),
            };
            match fields::JSON_KEYS.iter().find(|(field, _)| field == name) {
                Some((_, key)) => object.insert((*key).to_owned(), value),
                None => others.insert(name.clone(), value),
            };
        }
        if !others.is_empty() {
            object.insert("fields".into(), Value::Object(others));
        }
        escape_in_json(&Value::Object(object).to_string())
    }
}

fn push_fields(text: &mut String, fields: &[(String, Value)]) {
    for (name, value) in fields {
        let shown = match value {
            Value::String(value) => quoted(&cut(value)),
            other => plain(&other.to_string()),
        };
        text.push(' ');
        text.push_str(&plain(name));
        text.push('=');
        text.push_str(&shown);
    }
}

/// The value, in quotes unless it reads as one word.
fn quoted(value: &str) -> String {
    let is_word = !value.is_empty()
        && value
            .chars()
            .all(|c| !c.is_whitespace() && !is_unsafe(c) && !matches!(c, '"' | '='));
    if is_word {
        return value.to_owned();
    }
    let mut text = String::with_capacity(value.len() + 2);
    text.push('"');
    for c in value.chars() {
        if matches!(c, '"' | '\\') {
            text.push('\\');
        }
        push_plain(&mut text, c);
    }
    text.push('"');
    text
}

/// The text with everything escaped that could end the line or steer a terminal.
pub fn plain(value: &str) -> String {
    let mut text = String::with_capacity(value.len());
    value.chars().for_each(|c| push_plain(&mut text, c));
    text
}

fn push_plain(text: &mut String, c: char) {
    if is_unsafe(c) {
        text.extend(c.escape_default())
    } else {
        text.push(c)
    }
}

/// Control characters, the line ends of Unicode, and the marks that reverse the reading direction.
fn is_unsafe(c: char) -> bool {
    c.is_control()
        || matches!(c, '\u{2028}' | '\u{2029}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

/// JSON leaves some of these as they are; within JSON they can only stand inside a string.
pub(crate) fn escape_in_json(json: &str) -> String {
    let mut text = String::with_capacity(json.len());
    for c in json.chars() {
        if is_unsafe(c) {
            // All of them are in the basic plane: one code unit.
            let _ = write!(text, "\\u{:04x}", u32::from(c));
        } else {
            text.push(c);
        }
    }
    text
}

/// The text, cut at a character's end if it is too long, and then it says so.
fn cut(text: &str) -> String {
    if text.len() <= TEXT_BYTES_MAX {
        return text.to_owned();
    }
    let end = (0..=TEXT_BYTES_MAX)
        .rev()
        .find(|end| text.is_char_boundary(*end))
        .unwrap_or(0);
    format!("{} [cut, {} bytes]", &text[..end], text.len())
}

/// The time as RFC 3339 writes it, UTC, with milliseconds: `2026-01-31T23:59:59.999Z`.
pub fn rfc3339(at: WallTime) -> String {
    let millis = at.as_millis();
    let (days, millis_of_day) = (millis.div_euclid(86_400_000), millis.rem_euclid(86_400_000));
    let (year, month, day) = civil_date(days);
    let (seconds, ms) = (millis_of_day / 1_000, millis_of_day % 1_000);
    let (hour, minute, second) = (seconds / 3_600, seconds / 60 % 60, seconds % 60);
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}.{ms:03}Z")
}

/// The proleptic Gregorian date this many days after 1970-01-01. Counts in eras of 400 years, whose
/// years begin in March so that the leap day is the last.
fn civil_date(days_since_1970: i64) -> (i64, i64, i64) {
    let days = days_since_1970 + 719_468;
    let era = days.div_euclid(146_097);
    let day_of_era = days.rem_euclid(146_097);
    let year_of_era =
        (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month_from_march = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month_from_march + 2) / 5 + 1;
    let month = if month_from_march < 10 {
        month_from_march + 3
    } else {
        month_from_march - 9
    };
    let year = year_of_era + era * 400 + i64::from(month <= 2);
    (year, month, day)
}

#[cfg(test)]
mod tests;
