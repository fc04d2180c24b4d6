//! From text to value, by the type of the key.

use std::collections::BTreeMap;
use std::fmt::Display;

use super::{
    Choice, Host, Kind, PortRange, StorageLocation, Value, ValueFault, human_bytes, human_duration,
    parse_bytes, parse_duration,
};
use crate::secret::SecretRef;
use crate::suggest::suggest;
use crate::yaml::{self, Node};

impl Kind {
    /// Reads the value of a YAML node.
    ///
    /// # Errors
    /// Why the value is not one of this type.
    pub fn read_node(&self, node: &Node) -> Result<Value, ValueFault> {
        if node.is_null() {
            return Err(ValueFault::Empty);
        }
        match (self, node.as_text()) {
            (Self::Secret, _) => SecretRef::read(node).map(Value::Secret),
            (Self::Map, _) => read_map(node),
            (Self::List, None) => read_list(node),
            (_, Some(text)) => self.read_text(text),
            (_, None) => Err(ValueFault::Shape {
                found: node.kind(),
                wanted: "a single value",
            }),
        }
    }

    /// Reads a value from a flag, a variable or a stored setting. Lists are separated by commas;
    /// lists, mappings and secrets may also be written as in a file: `[a, b]`, `{a: 1}`.
    ///
    /// # Errors
    /// Why the text is not a value of this type.
    pub fn read_text(&self, text: &str) -> Result<Value, ValueFault> {
        let text = text.trim();
        if text.is_empty() {
            return Err(ValueFault::Empty);
        }
        match self {
            Self::Duration { min, max } => {
                within(parse_duration(text)?, *min, *max, human_duration).map(Value::Duration)
            }
            Self::Bytes { min, max } => {
                within(parse_bytes(text)?, *min, *max, human_bytes).map(Value::Bytes)
            }
            Self::Int {
                or_unlimited: true, ..
            } if text == "unlimited" => Ok(Value::Int(u64::MAX)),
            Self::Int { min, max, .. } => {
                within(read_int(text)?, *min, *max, |n| n.to_string()).map(Value::Int)
            }
            Self::Float { min, max } => {
                within(read_float(text)?, *min, *max, |n| n.to_string()).map(Value::Float)
            }
            Self::Bool => read_bool(text).map(Value::Bool),
            Self::Choice(choices) => read_choice(text, choices).map(Value::Choice),
            Self::Text => read_line(text).map(Value::Text),
            Self::Host => Host::advertised(text).map(Value::Host),
            Self::BindHost => Host::parse(text).map(Value::Host),
            Self::Ports => PortRange::parse(text).map(Value::Ports),
            Self::Url => read_url(text).map(Value::Text),
            Self::Location => StorageLocation::parse(text).map(Value::Location),
            Self::List if text.starts_with('[') => self.read_node(&flow(text)?),
            Self::List => list_of(text.split(',').map(|item| Some(item.trim()))),
            Self::LogFilter => read_filter(text).map(Value::Text),
            Self::Secret if text.starts_with('{') => self.read_node(&secret_flow(text)?),
            Self::Map => self.read_node(&flow(text)?),
            Self::Secret => Err(ValueFault::LiteralSecret),
        }
    }
}

pub(crate) fn refused(found: &str, why: impl Display) -> ValueFault {
    ValueFault::Refused {
        found: found.to_owned(),
        why: why.to_string(),
    }
}

fn flow(text: &str) -> Result<Node, ValueFault> {
    let node = yaml::parse(text).map_err(|error| refused(text, error))?;
    match node.as_text() {
        Some(text) => Err(refused(text, "expected a list or a mapping")),
        None => Ok(node),
    }
}

fn secret_flow(text: &str) -> Result<Node, ValueFault> {
    // A fault here may be in a secret that was written out after all.
    flow(text).map_err(|_| ValueFault::LiteralSecret)
}

fn within<T: PartialOrd + Copy>(
    value: T,
    min: T,
    max: T,
    show: impl Fn(T) -> String,
) -> Result<T, ValueFault> {
    let allowed = if value < min {
        format!("{} or more", show(min))
    } else if value > max {
        format!("{} or less", show(max))
    } else {
        return Ok(value);
    };
    Err(ValueFault::OutOfRange {
        found: show(value),
        allowed,
    })
}

fn read_int(text: &str) -> Result<u64, ValueFault> {
    if !text.bytes().all(|b| b.is_ascii_digit()) {
        return Err(refused(text, "expected a whole number"));
    }
    // `u64::MAX` itself stands for `unlimited`.
    let number = text.parse().ok().filter(|number| *number < u64::MAX);
    number.ok_or_else(|| refused(text, "the number is too large"))
}

fn read_float(text: &str) -> Result<f64, ValueFault> {
    let digits = text
        .bytes()
        .all(|b| b.is_ascii_digit() || b == b'.' || b == b'-');
    match text.parse::<f64>() {
        Ok(number) if digits && number.is_finite() => Ok(number),
        _ => Err(refused(text, "expected a number like 1.5")),
    }
}

fn read_bool(text: &str) -> Result<bool, ValueFault> {
    match text.to_ascii_lowercase().as_str() {
        "true" => Ok(true),
        "false" => Ok(false),
        _ => Err(ValueFault::NotOneOf {
            found: text.to_owned(),
            allowed: vec!["true", "false"],
            suggestion: None,
        }),
    }
}

fn read_choice(text: &str, choices: &'static [Choice]) -> Result<&'static str, ValueFault> {
    let normal = |word: &str| word.to_ascii_lowercase().replace('_', "-");
    let wanted = normal(text);
    let found = choices.iter().find(|choice| {
        std::iter::once(&choice.name)
            .chain(choice.aliases)
            .any(|word| normal(word) == wanted)
    });
    match found {
        Some(Choice {
            name,
            not_built: None,
            ..
        }) => Ok(name),
        Some(Choice {
            name,
            not_built: Some(what),
            ..
        }) => Err(ValueFault::NotBuilt {
            found: (*name).to_owned(),
            what,
        }),
        None => {
            let built = choices.iter().filter(|choice| choice.not_built.is_none());
            let allowed: Vec<&'static str> = built.map(|choice| choice.name).collect();
            let suggestion = suggest(&wanted, allowed.iter().copied());
            Err(ValueFault::NotOneOf {
                found: text.to_owned(),
                allowed,
                suggestion,
            })
        }
    }
}

fn read_line(text: &str) -> Result<String, ValueFault> {
    if text.chars().any(char::is_control) {
        return Err(refused(
            text,
            "a control character or a line end is in the text",
        ));
    }
    Ok(text.to_owned())
}

fn read_url(text: &str) -> Result<String, ValueFault> {
    let rest = text
        .strip_prefix("http://")
        .or_else(|| text.strip_prefix("https://"));
    let Some(rest) = rest.filter(|rest| !rest.is_empty() && !rest.starts_with('/')) else {
        return Err(refused(
            text,
            "expected http://host:port or https://host:port",
        ));
    };
    if rest.contains('@') {
        // The text is not repeated: what stands before '@' is a secret.
        return Err(refused("…@…", "an address holds no user and no password"));
    }
    if rest.contains(['?', '#']) || text.contains(|c: char| c.is_whitespace() || c.is_control()) {
        return Err(refused(text, "an address has no query, fragment or blank"));
    }
    Ok(text.trim_end_matches('/').to_owned())
}

fn read_filter(text: &str) -> Result<String, ValueFault> {
    const LEVELS: [&str; 6] = ["off", "error", "warn", "info", "debug", "trace"];
    for directive in text.split(',') {
        let (target, level) = match directive.trim().split_once('=') {
            Some((target, level)) => (target.trim(), level.trim()),
            None => ("any", directive.trim()),
        };
        let target_is_path = !target.is_empty()
            && target
                .chars()
                .all(|c| c.is_ascii_alphanumeric() || c == '_' || c == ':');
        if !target_is_path || !LEVELS.contains(&level.to_ascii_lowercase().as_str()) {
            return Err(refused(
                text,
                "expected a level (off, error, warn, info, debug, trace) or target=level, \
                 separated by commas",
            ));
        }
    }
    Ok(text.to_owned())
}

fn read_list(node: &Node) -> Result<Value, ValueFault> {
    match node.as_sequence() {
        Some(items) => list_of(items.iter().map(Node::as_text)),
        None => Err(ValueFault::Shape {
            found: node.kind(),
            wanted: "a list of texts",
        }),
    }
}

fn list_of<'a>(items: impl Iterator<Item = Option<&'a str>>) -> Result<Value, ValueFault> {
    let mut texts = Vec::new();
    for item in items {
        match item {
            None => {
                return Err(ValueFault::Shape {
                    found: "a nested list",
                    wanted: "a list of texts",
                });
            }
            Some("") => return Err(ValueFault::Empty),
            Some(text) => texts.push(read_line(text)?),
        }
    }
    Ok(Value::List(texts))
}

fn read_map(node: &Node) -> Result<Value, ValueFault> {
    let Some(entries) = node.as_mapping() else {
        return Err(ValueFault::Shape {
            found: node.kind(),
            wanted: "a mapping of texts",
        });
    };
    let mut map = BTreeMap::new();
    for entry in entries {
        let Some(text) = entry.node.as_text() else {
            return Err(ValueFault::Shape {
                found: "a mapping with nothing or a structure in it",
                wanted: "a mapping of texts",
            });
        };
        map.insert(entry.key.clone(), text.to_owned());
    }
    Ok(Value::Map(map))
}
