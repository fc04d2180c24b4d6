//! The tree a text becomes: texts with their places, nothing typed yet.

use std::fmt;

/// A place in a text; both counts start at 1.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Position {
    /// Line, from 1.
    pub line: u32,
    /// Column in characters, from 1.
    pub column: u32,
}

impl fmt::Display for Position {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "line {}, column {}", self.line, self.column)
    }
}

/// How a scalar was written. Only a plain one may be read as null.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Style {
    /// Without quotes.
    Plain,
    /// In single or double quotes.
    Quoted,
    /// A `|` or `>` block.
    Block,
}

/// A value and where it starts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Node {
    /// Where the value starts; for an empty value, where its key ends.
    pub at: Position,
    /// What stands there.
    pub value: Value,
}

/// What a node holds. Scalars keep their text: `no`, `08` and `1.10` are exactly that until a key's
/// type says otherwise.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Value {
    /// A single text.
    Scalar {
        /// The text, unquoted and unescaped.
        text: String,
        /// How it was written.
        style: Style,
    },
    /// A list.
    Sequence(Vec<Node>),
    /// Keys and values in the order of the text; no key occurs twice.
    Mapping(Vec<Entry>),
}

/// One `key: value` of a mapping.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    /// The key as written, unquoted.
    pub key: String,
    /// Where the key starts.
    pub at: Position,
    /// Its value.
    pub node: Node,
}

impl Node {
    /// An empty value, as in `key:` with nothing behind it.
    pub(super) fn empty(at: Position) -> Self {
        Self {
            at,
            value: Value::Scalar {
                text: String::new(),
                style: Style::Plain,
            },
        }
    }

    /// The text of a scalar that is not null.
    #[must_use]
    pub fn as_text(&self) -> Option<&str> {
        match &self.value {
            Value::Scalar { text, .. } if !self.is_null() => Some(text),
            Value::Scalar { .. } | Value::Sequence(_) | Value::Mapping(_) => None,
        }
    }

    /// True for an empty value, `~` and `null`, if not quoted.
    #[must_use]
    pub fn is_null(&self) -> bool {
        match &self.value {
            Value::Scalar {
                text,
                style: Style::Plain,
            } => is_null_text(text),
            Value::Scalar { .. } | Value::Sequence(_) | Value::Mapping(_) => false,
        }
    }

    /// The entries of a mapping.
    #[must_use]
    pub fn as_mapping(&self) -> Option<&[Entry]> {
        match &self.value {
            Value::Mapping(entries) => Some(entries),
            Value::Scalar { .. } | Value::Sequence(_) => None,
        }
    }

    /// The items of a list.
    #[must_use]
    pub fn as_sequence(&self) -> Option<&[Self]> {
        match &self.value {
            Value::Sequence(items) => Some(items),
            Value::Scalar { .. } | Value::Mapping(_) => None,
        }
    }

    /// The value of `key`, if this is a mapping that has it.
    #[must_use]
    pub fn get(&self, key: &str) -> Option<&Self> {
        self.as_mapping()?
            .iter()
            .find(|entry| entry.key == key)
            .map(|entry| &entry.node)
    }

    /// What kind of value this is, for messages.
    #[must_use]
    pub fn kind(&self) -> &'static str {
        match &self.value {
            Value::Scalar { .. } if self.is_null() => "nothing",
            Value::Scalar { .. } => "a single value",
            Value::Sequence(_) => "a list",
            Value::Mapping(_) => "a mapping",
        }
    }
}

pub(super) fn is_null_text(text: &str) -> bool {
    matches!(text, "" | "~" | "null" | "Null" | "NULL")
}
