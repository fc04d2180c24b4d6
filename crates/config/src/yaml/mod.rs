//! YAML text to a tree with places.
//!
//! `serde_yaml` resolves aliases, types scalars (`1.10` becomes `1.1`) and forgets where a value
//! stood. So the tree comes from an own reader of the part of YAML that configuration needs, and
//! `serde_yaml` reads the same text as a second opinion: where the two disagree the text is refused,
//! never guessed at.
//!
//! Refused by decision: anchors, aliases, tags, merge keys, complex keys, directives, several
//! documents, tabs as indentation, control characters, more than [`MAX_BYTES`], more than
//! [`MAX_DEPTH`] levels.

mod block;
mod error;
mod flatten;
mod flow;
mod node;
mod reader;
mod scalar;
#[cfg(test)]
mod tests;

pub use error::YamlError;
pub use flatten::{FlatEntry, flatten};
pub use node::{Entry, Node, Position, Style, Value};

use reader::Reader;

/// The largest text that is read.
pub const MAX_BYTES: usize = 1024 * 1024;
/// The deepest nesting that is read.
pub const MAX_DEPTH: usize = 64;
/// The longest key, also when dotted together from several levels.
pub const MAX_KEY_BYTES: usize = 512;

/// Reads one document. An empty text is an empty (null) node.
///
/// # Errors
/// Whatever [`YamlError`] names; the first fault found.
pub fn parse(text: &str) -> Result<Node, YamlError> {
    if text.len() > MAX_BYTES {
        return Err(YamlError::TooLarge {
            found: text.len(),
            limit: MAX_BYTES,
        });
    }
    let mut text = text
        .strip_prefix('\u{feff}')
        .unwrap_or(text)
        .replace("\r\n", "\n");
    if !text.ends_with('\n') {
        text.push('\n');
    }
    let mut reader = Reader::new(&text);
    reader.refuse_control_characters()?;
    let node = reader.document()?;
    second_opinion(&text, &node)?;
    Ok(node)
}

/// Reads `text` with `serde_yaml` and compares.
fn second_opinion(text: &str, node: &Node) -> Result<(), YamlError> {
    let other: serde_yaml::Value = serde_yaml::from_str(text).map_err(|error| {
        let at = error.location().map_or(node.at, |location| Position {
            line: u32::try_from(location.line()).unwrap_or(u32::MAX),
            column: u32::try_from(location.column()).unwrap_or(u32::MAX),
        });
        // Only the place is taken over: the library's message may repeat a value.
        YamlError::Syntax {
            at,
            what: "not valid YAML".to_owned(),
        }
    })?;
    match disagreement(node, &other) {
        None => Ok(()),
        Some(at) => Err(YamlError::Syntax {
            at,
            what: "this value can be read in two ways".to_owned(),
        }),
    }
}

/// The first place where the two readings differ.
fn disagreement(node: &Node, other: &serde_yaml::Value) -> Option<Position> {
    use serde_yaml::Value as Other;
    match (&node.value, other) {
        (Value::Scalar { text, style }, _) => {
            (!scalars_agree(text, *style, other)).then_some(node.at)
        }
        (Value::Sequence(items), Other::Sequence(others)) if items.len() == others.len() => items
            .iter()
            .zip(others)
            .find_map(|(item, other)| disagreement(item, other)),
        (Value::Mapping(entries), Other::Mapping(others)) if entries.len() == others.len() => {
            entries
                .iter()
                .zip(others)
                .find_map(|(entry, (key, value))| {
                    // A key's style is not kept; whichever fits the other reading is right.
                    let keys_agree = scalars_agree(&entry.key, Style::Plain, key)
                        || scalars_agree(&entry.key, Style::Quoted, key);
                    if keys_agree {
                        disagreement(&entry.node, value)
                    } else {
                        Some(entry.at)
                    }
                })
        }
        (Value::Sequence(_) | Value::Mapping(_), _) => Some(node.at),
    }
}

fn scalars_agree(text: &str, style: Style, other: &serde_yaml::Value) -> bool {
    use serde_yaml::Value as Other;
    let plain = style == Style::Plain;
    match other {
        Other::String(string) => string == text,
        Other::Null => plain && node::is_null_text(text),
        Other::Bool(value) => plain && text.eq_ignore_ascii_case(&value.to_string()),
        Other::Number(_) => plain && !text.is_empty() && !text.contains([' ', '\n']),
        Other::Sequence(_) | Other::Mapping(_) | Other::Tagged(_) => false,
    }
}
