//! Why a value is refused.

use millstream_types::errors::{self, ErrorCode};

/// A value that its key does not take. The message is made where the key is known.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ValueFault {
    /// Nothing, or only blanks.
    Empty,
    /// A number where a unit is needed.
    NoUnit {
        /// What the number could mean, ready to be shown.
        readings: String,
    },
    /// Not a value of this type.
    Refused {
        /// The text found.
        found: String,
        /// What is wrong with it.
        why: String,
    },
    /// None of the words that the key takes.
    NotOneOf {
        /// The text found.
        found: String,
        /// The words allowed.
        allowed: Vec<&'static str>,
        /// The word that was probably meant.
        suggestion: Option<&'static str>,
    },
    /// Beyond a bound.
    OutOfRange {
        /// The value found.
        found: String,
        /// What is allowed, ready to be shown.
        allowed: String,
    },
    /// A list where a text belongs, and the like.
    Shape {
        /// What stands there.
        found: &'static str,
        /// What belongs there.
        wanted: &'static str,
    },
    /// A secret written down; the message does not repeat it.
    LiteralSecret,
    /// A value whose effect is not built yet.
    NotBuilt {
        /// The value found.
        found: String,
        /// What is missing.
        what: &'static str,
    },
}

impl ValueFault {
    /// One line that names the key, the value and what is wrong.
    #[must_use]
    pub fn message(&self, key: &str) -> String {
        match self {
            Self::Empty => format!("{key} has no value"),
            Self::NoUnit { readings } => format!("{key} has no unit: write {readings}"),
            Self::Refused { found, why } => format!("{key} is {found:?}: {why}"),
            Self::NotOneOf { found, allowed, .. } => {
                format!(
                    "{key} is {found:?}, which is none of {}",
                    allowed.join(", ")
                )
            }
            Self::OutOfRange { found, allowed } => {
                format!("{key} is {found}, allowed is {allowed}")
            }
            Self::Shape { found, wanted } => format!("{key} is {found}, expected {wanted}"),
            Self::LiteralSecret => {
                format!("{key} is written out; a secret is given by reference only")
            }
            Self::NotBuilt { found, what } => {
                format!("{key} is {found}, which is known, not built yet: {what}")
            }
        }
    }

    /// Its code.
    #[must_use]
    pub fn code(&self) -> ErrorCode {
        match self {
            Self::NoUnit { .. } => errors::CONF_NO_UNIT,
            Self::LiteralSecret => errors::CONF_LITERAL_SECRET,
            Self::NotBuilt { .. } => errors::CONF_NOT_BUILT,
            Self::Empty
            | Self::Refused { .. }
            | Self::NotOneOf { .. }
            | Self::OutOfRange { .. }
            | Self::Shape { .. } => errors::CONF_VALUE,
        }
    }

    /// What to do about it.
    #[must_use]
    pub fn remedy(&self, key: &str) -> String {
        match self {
            Self::Empty => format!("give {key} a value, or remove it for the default"),
            Self::NoUnit { .. } => "write the unit that is meant".to_owned(),
            Self::NotOneOf {
                suggestion: Some(word),
                ..
            } => format!("did you mean {word}?"),
            Self::NotOneOf { .. } | Self::OutOfRange { .. } | Self::Refused { .. } => {
                format!("set {key} to an allowed value")
            }
            Self::Shape { wanted, .. } => format!("write {wanted}"),
            Self::LiteralSecret => {
                format!("write {key}: {{ file: /path }} or {key}: {{ env: NAME }}")
            }
            Self::NotBuilt { .. } => format!("remove {key}, or use another value"),
        }
    }
}
