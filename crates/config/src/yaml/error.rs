//! What can be wrong with a text before any key is looked at.

use super::node::Position;

/// A text that is refused as YAML. Values are never repeated in the message: they may be secrets.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum YamlError {
    /// Larger than the limit.
    #[error("the text has {found} bytes, more than the {limit} allowed")]
    TooLarge {
        /// Bytes found.
        found: usize,
        /// Bytes allowed.
        limit: usize,
    },
    /// A NUL or another control character.
    #[error("{at}: control character U+{code:04X}")]
    ControlCharacter {
        /// Where.
        at: Position,
        /// Its code point.
        code: u32,
    },
    /// A tab where indentation belongs.
    #[error("{at}: a tab is used as indentation")]
    TabIndentation {
        /// Where.
        at: Position,
    },
    /// Anchors, aliases, tags, merge keys and other parts of YAML that are refused by decision.
    #[error("{at}: {what} is not accepted")]
    Refused {
        /// Where.
        at: Position,
        /// Which feature.
        what: &'static str,
    },
    /// One key twice in one mapping, also when once dotted and once nested.
    #[error("key {key} is given twice: {first} and {second}")]
    DuplicateKey {
        /// The key, dotted from the root of the mapping looked at.
        key: String,
        /// The first place.
        first: Position,
        /// The second place.
        second: Position,
    },
    /// A second document in one text.
    #[error("{at}: a second document starts here; one text holds one document")]
    SeveralDocuments {
        /// Where.
        at: Position,
    },
    /// Nested deeper than the limit.
    #[error("{at}: nested deeper than {limit} levels")]
    TooDeep {
        /// Where.
        at: Position,
        /// Levels allowed.
        limit: usize,
    },
    /// Not YAML.
    #[error("{at}: {what}")]
    Syntax {
        /// Where.
        at: Position,
        /// What is wrong.
        what: String,
    },
}

impl YamlError {
    /// What the writer of the text should do.
    #[must_use]
    pub fn remedy(&self) -> String {
        match self {
            Self::TooLarge { .. } => "keep data out of the configuration".to_owned(),
            Self::ControlCharacter { .. } => {
                "remove the character, or write it as an escape in double quotes".to_owned()
            }
            Self::TabIndentation { .. } => "indent with spaces".to_owned(),
            Self::Refused { .. } => "write the value out, in quotes if it is a text".to_owned(),
            Self::DuplicateKey { .. } => "keep one of the two".to_owned(),
            Self::SeveralDocuments { .. } => "put each document into a file of its own".to_owned(),
            Self::TooDeep { .. } => "flatten the structure".to_owned(),
            Self::Syntax { .. } => {
                "correct the line; a text with ':', '#', '{' or '[' belongs in quotes".to_owned()
            }
        }
    }

    /// Where it is wrong, if at one place.
    #[must_use]
    pub fn position(&self) -> Option<Position> {
        match self {
            Self::TooLarge { .. } => None,
            Self::ControlCharacter { at, .. }
            | Self::TabIndentation { at }
            | Self::Refused { at, .. }
            | Self::SeveralDocuments { at }
            | Self::TooDeep { at, .. }
            | Self::Syntax { at, .. } => Some(*at),
            Self::DuplicateKey { second, .. } => Some(*second),
        }
    }
}
