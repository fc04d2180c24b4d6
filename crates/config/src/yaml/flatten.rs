//! A tree as dotted keys: `a: {b: 1}` and `a.b: 1` are the same key.

use std::collections::BTreeMap;

use super::MAX_KEY_BYTES;
use super::error::YamlError;
use super::node::{Entry, Node, Position, Value};

/// A value under its dotted key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FlatEntry<'a> {
    /// The dotted key from the root.
    pub key: String,
    /// Where the last part of the key stands.
    pub at: Position,
    /// The value: a scalar, a list, an empty mapping, or a mapping that `keep_whole` asked for.
    pub node: &'a Node,
}

/// Flattens the entries of a mapping. A mapping under a key for which `keep_whole` holds stays one
/// value.
///
/// # Errors
/// [`YamlError::DuplicateKey`] if one dotted key is reached twice.
pub fn flatten<'a>(
    entries: &'a [Entry],
    keep_whole: &dyn Fn(&str) -> bool,
) -> Result<Vec<FlatEntry<'a>>, YamlError> {
    let mut flat = Vec::new();
    let mut seen = BTreeMap::new();
    descend("", entries, keep_whole, &mut |entry| {
        if let Some(first) = seen.insert(entry.key.clone(), entry.at) {
            return Err(YamlError::DuplicateKey {
                key: entry.key,
                first,
                second: entry.at,
            });
        }
        flat.push(entry);
        Ok(())
    })?;
    Ok(flat)
}

fn descend<'a>(
    prefix: &str,
    entries: &'a [Entry],
    keep_whole: &dyn Fn(&str) -> bool,
    found: &mut dyn FnMut(FlatEntry<'a>) -> Result<(), YamlError>,
) -> Result<(), YamlError> {
    for entry in entries {
        let key = match prefix {
            "" => entry.key.clone(),
            _ => format!("{prefix}.{}", entry.key),
        };
        if key.len() > MAX_KEY_BYTES {
            return Err(YamlError::Refused {
                at: entry.at,
                what: "a key of more than 512 bytes",
            });
        }
        match &entry.node.value {
            Value::Mapping(inner) if !inner.is_empty() && !keep_whole(&key) => {
                descend(&key, inner, keep_whole, found)?;
            }
            Value::Mapping(_) | Value::Sequence(_) | Value::Scalar { .. } => {
                found(FlatEntry {
                    key,
                    at: entry.at,
                    node: &entry.node,
                })?;
            }
        }
    }
    Ok(())
}
