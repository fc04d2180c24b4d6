//! The types of values: how a text becomes one, and how it is printed so that it is read back.

mod address;
mod bytes;
mod duration;
mod fault;
mod kind;
mod location;
mod read;

pub use address::{Host, PortRange};
pub use bytes::{human_bytes, parse_bytes};
pub use duration::{MAX_DURATION, human_duration, parse_duration};
pub use fault::ValueFault;
pub use kind::{Choice, Kind};
pub use location::StorageLocation;

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use crate::secret::SecretRef;

/// A checked value of a key.
#[derive(Debug, Clone, PartialEq)]
pub enum Value {
    /// A duration.
    Duration(Duration),
    /// A size in bytes.
    Bytes(u64),
    /// A whole number; `u64::MAX` is `unlimited` where a key allows that.
    Int(u64),
    /// A number with a fraction.
    Float(f64),
    /// `true` or `false`.
    Bool(bool),
    /// The canonical name of one of several words.
    Choice(&'static str),
    /// A text as it was written.
    Text(String),
    /// A host name or address.
    Host(Host),
    /// Ports.
    Ports(PortRange),
    /// A directory, local or in an object store.
    Location(StorageLocation),
    /// Several texts.
    List(Vec<String>),
    /// Names and texts.
    Map(BTreeMap<String, String>),
    /// Where a secret is to be found; never the secret.
    Secret(SecretRef),
}

impl fmt::Display for Value {
    /// YAML that [`Kind::read_node`] reads back as the same value.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Duration(duration) => f.write_str(&human_duration(*duration)),
            Self::Bytes(bytes) => f.write_str(&human_bytes(*bytes)),
            Self::Int(u64::MAX) => f.write_str("unlimited"),
            Self::Int(number) => number.fmt(f),
            Self::Float(number) => number.fmt(f),
            Self::Bool(truth) => truth.fmt(f),
            Self::Choice(word) => f.write_str(word),
            Self::Text(text) => f.write_str(&quoted_if_needed(text)),
            Self::Host(host) => f.write_str(&quoted_if_needed(host.as_str())),
            Self::Ports(ports) => f.write_str(&quoted_if_needed(&ports.to_string())),
            Self::Location(location) => f.write_str(&quoted_if_needed(&location.to_string())),
            Self::List(items) => {
                let items: Vec<String> = items.iter().map(|item| quoted_if_needed(item)).collect();
                write!(f, "[{}]", items.join(", "))
            }
            Self::Map(entries) => {
                let entries: Vec<String> = entries
                    .iter()
                    .map(|(key, value)| {
                        format!("{}: {}", quoted_if_needed(key), quoted_if_needed(value))
                    })
                    .collect();
                write!(f, "{{{}}}", entries.join(", "))
            }
            Self::Secret(reference) => reference.fmt(f),
        }
    }
}

/// A text as a YAML scalar that stays this text, in block and in flow style.
pub(crate) fn quoted_if_needed(text: &str) -> String {
    let harmless = |c: char| c.is_ascii_alphanumeric() || "-._/".contains(c);
    let first_is_letter_or_slash = text.starts_with(|c: char| c.is_ascii_alphabetic() || c == '/');
    let is_word = matches!(
        text.to_ascii_lowercase().as_str(),
        "null" | "true" | "false" | "yes" | "no" | "on" | "off"
    );
    let scheme = text
        .split_once("://")
        .filter(|(_, rest)| !rest.contains(':'));
    let plain = match scheme {
        Some((scheme, rest)) => scheme.chars().all(harmless) && rest.chars().all(harmless),
        None => text.chars().all(harmless),
    };
    if plain && first_is_letter_or_slash && !is_word && !text.ends_with(':') {
        return text.to_owned();
    }
    let mut quoted = String::from("\"");
    for c in text.chars() {
        match c {
            '"' | '\\' => quoted.extend(['\\', c]),
            c if c.is_control() || c == '\u{2028}' || c == '\u{2029}' => {
                quoted.push_str(&format!("\\u{:04x}", u32::from(c)));
            }
            c => quoted.push(c),
        }
    }
    quoted.push('"');
    quoted
}
