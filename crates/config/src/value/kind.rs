//! The types that keys have.

use std::time::Duration;

use super::duration::MAX_DURATION;
use super::{human_bytes, human_duration};

/// One word of a key that takes one of several.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Choice {
    /// The word that is printed.
    pub name: &'static str,
    /// Other words for it; case and `_` for `-` never matter.
    pub aliases: &'static [&'static str],
    /// If its effect is not built yet: what is missing.
    pub not_built: Option<&'static str>,
}

impl Choice {
    /// A built word with its aliases.
    #[must_use]
    pub const fn new(name: &'static str, aliases: &'static [&'static str]) -> Self {
        Self {
            name,
            aliases,
            not_built: None,
        }
    }

    /// A known word whose effect is missing.
    #[must_use]
    pub const fn not_built(name: &'static str, what: &'static str) -> Self {
        Self {
            name,
            aliases: &[],
            not_built: Some(what),
        }
    }
}

/// The type of a key's value, with its bounds.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Kind {
    /// A duration between two bounds, both included.
    Duration {
        /// The shortest allowed.
        min: Duration,
        /// The longest allowed.
        max: Duration,
    },
    /// A size between two bounds, both included.
    Bytes {
        /// The smallest allowed.
        min: u64,
        /// The largest allowed.
        max: u64,
    },
    /// A whole number between two bounds, both included.
    Int {
        /// The smallest allowed.
        min: u64,
        /// The largest allowed.
        max: u64,
        /// Whether the word `unlimited` is allowed.
        or_unlimited: bool,
    },
    /// A number between two bounds, both included.
    Float {
        /// The smallest allowed.
        min: f64,
        /// The largest allowed.
        max: f64,
    },
    /// `true` or `false`.
    Bool,
    /// One of several words.
    Choice(&'static [Choice]),
    /// A text of one line.
    Text,
    /// A host to connect to; never a wildcard.
    Host,
    /// A host to listen on.
    BindHost,
    /// Ports as `0`, `6121` or `50100-50200,50300`.
    Ports,
    /// An `http://` or `https://` address without user or query.
    Url,
    /// A local directory or `s3://bucket/prefix`.
    Location,
    /// A list of texts; in one text separated by commas.
    List,
    /// Names and texts.
    Map,
    /// Log levels: `info` or `info,millstream_net=debug`.
    LogFilter,
    /// A reference to a secret.
    Secret,
}

impl Kind {
    /// Any duration.
    pub const DURATION: Self = Self::Duration {
        min: Duration::ZERO,
        max: MAX_DURATION,
    };

    /// A duration of at least so many milliseconds.
    #[must_use]
    pub const fn duration_from_millis(millis: u64) -> Self {
        Self::Duration {
            min: Duration::from_millis(millis),
            max: MAX_DURATION,
        }
    }

    /// A whole number between two bounds.
    #[must_use]
    pub const fn int(min: u64, max: u64) -> Self {
        Self::Int {
            min,
            max,
            or_unlimited: false,
        }
    }

    /// Whether a mapping under the key is its value and not deeper keys.
    #[must_use]
    pub fn takes_mapping(&self) -> bool {
        matches!(self, Self::Map | Self::Secret)
    }

    /// The type in words, for the reference and for messages.
    #[must_use]
    pub fn describe(&self) -> String {
        match self {
            Self::Duration { min, .. } if min.is_zero() => "duration".to_owned(),
            Self::Duration { min, .. } => format!("duration, at least {}", human_duration(*min)),
            Self::Bytes { min, max } => {
                format!("size, {} to {}", human_bytes(*min), human_bytes(*max))
            }
            Self::Int {
                min,
                max,
                or_unlimited,
            } => {
                format!(
                    "number, {min} to {max}{}",
                    if *or_unlimited { " or `unlimited`" } else { "" }
                )
            }
            Self::Float { min, max } if *max == f64::MAX => format!("number, at least {min}"),
            Self::Float { min, max } => format!("number, {min} to {max}"),
            Self::Bool => "`true` or `false`".to_owned(),
            Self::Choice(choices) => {
                let built = choices.iter().filter(|choice| choice.not_built.is_none());
                built
                    .map(|choice| format!("`{}`", choice.name))
                    .collect::<Vec<_>>()
                    .join(" or ")
            }
            Self::Text => "text".to_owned(),
            Self::Host => "host name or address".to_owned(),
            Self::BindHost => "host name or address to listen on".to_owned(),
            Self::Ports => "port, or ranges of ports".to_owned(),
            Self::Url => "http or https address".to_owned(),
            Self::Location => "directory or `s3://bucket/prefix`".to_owned(),
            Self::List => "list".to_owned(),
            Self::Map => "mapping of texts".to_owned(),
            Self::LogFilter => "log levels".to_owned(),
            Self::Secret => "`{ file: … }` or `{ env: … }`".to_owned(),
        }
    }
}
