//! Reads the value of one key by its shape.

use millstream_config::yaml::{Entry, Node};
use millstream_config::{Kind, Value, ValueFault};

use crate::fault::FaultKind;
use crate::fields::{Fields, entries};
use crate::report::Report;
use crate::table::{Key, Shape};

/// A value as far as its shape alone tells.
#[derive(Debug)]
pub(crate) enum Read<'n> {
    Scalar(Value),
    Text(String),
    Integer(i64),
    Integers([i64; 2]),
    Floats([f64; 2]),
    /// Rows a second; `None` is unlimited.
    Rate(Option<f64>),
    Byte(u8),
    /// Scalars that name columns or steps, at least one.
    Names(Vec<&'n Node>),
    Fields(Fields<'n>),
    /// Read where the columns of the input are known.
    Node,
}

/// The value of `entry`; a fault goes to the report and gives `None`.
pub(crate) fn read<'n>(
    key: &'static Key,
    entry: &'n Entry,
    path: &str,
    report: &mut Report<'_>,
) -> Option<Read<'n>> {
    let node = &entry.node;
    let read = match key.shape {
        Shape::Form(form) => {
            let entries = entries(node, path, "a mapping", report)?;
            let fields = Fields::read(form, entry.at, path, entries, report);
            return fields.complete.then_some(Read::Fields(fields));
        }
        Shape::Names => names(node),
        Shape::Integers => pair(node, "[lowest, highest]", integer).map(Read::Integers),
        Shape::Floats => pair(node, "[lowest, limit]", float).map(Read::Floats),
        Shape::ColumnTypes | Shape::Columns | Shape::Aggregates | Shape::Generated => {
            not_null(node).map(|()| Read::Node)
        }
        Shape::Emit => not_null(node).map(|()| Read::Node),
        Shape::Scalar(kind) => kind.read_node(node).map(Read::Scalar),
        Shape::Message
        | Shape::Uid
        | Shape::Pattern
        | Shape::Directory
        | Shape::Integer
        | Shape::Rate
        | Shape::Byte
        | Shape::Expression => scalar(node).and_then(|text| from_text(key.shape, text)),
    };
    match read {
        Ok(read) => Some(read),
        Err(fault) => {
            let key = key.name.to_owned();
            report.value(node, path, FaultKind::Value { key, fault });
            None
        }
    }
}

/// The value of a default, whose text is ours.
pub(crate) fn default<'n>(key: &'static Key, text: &'static str) -> Read<'n> {
    let read = match key.shape {
        Shape::Scalar(kind) => kind.read_text(text).map(Read::Scalar),
        shape => from_text(shape, text),
    };
    read.unwrap_or_else(|fault| unreachable!("default: {}", fault.message(key.name)))
}

fn from_text<'n>(shape: Shape, text: &str) -> Result<Read<'n>, ValueFault> {
    match shape {
        Shape::Message | Shape::Expression => Ok(Read::Text(text.to_owned())),
        Shape::Uid => uid(text),
        Shape::Pattern => pattern(text),
        Shape::Directory => local_path(text),
        Shape::Integer => integer(text).map(Read::Integer),
        Shape::Rate => rate(text),
        Shape::Byte => byte(text),
        Shape::Scalar(_)
        | Shape::Integers
        | Shape::Floats
        | Shape::Names
        | Shape::ColumnTypes
        | Shape::Columns
        | Shape::Aggregates
        | Shape::Generated
        | Shape::Emit
        | Shape::Form(_) => unreachable!("{shape:?} is not read from one text"),
    }
}

fn refused<T>(found: &str, why: impl Into<String>) -> Result<T, ValueFault> {
    Err(ValueFault::Refused {
        found: found.chars().take(80).collect(),
        why: why.into(),
    })
}

fn not_null(node: &Node) -> Result<(), ValueFault> {
    if node.is_null() {
        Err(ValueFault::Empty)
    } else {
        Ok(())
    }
}

fn scalar(node: &Node) -> Result<&str, ValueFault> {
    not_null(node)?;
    let wanted = "a single value";
    let found = node.kind();
    node.as_text().ok_or(ValueFault::Shape { found, wanted })
}

fn names(node: &Node) -> Result<Read<'_>, ValueFault> {
    not_null(node)?;
    let nodes: Vec<&Node> = match node.as_sequence() {
        Some(items) => items.iter().collect(),
        None => vec![node],
    };
    if nodes.is_empty() {
        return Err(ValueFault::Empty);
    }
    for name in &nodes {
        scalar(name)?;
    }
    Ok(Read::Names(nodes))
}

fn pair<T: PartialOrd + Copy>(
    node: &Node,
    wanted: &'static str,
    read: fn(&str) -> Result<T, ValueFault>,
) -> Result<[T; 2], ValueFault> {
    let Some([low, high]) = node.as_sequence() else {
        let found = node.kind();
        return Err(ValueFault::Shape { found, wanted });
    };
    let (low_text, high_text) = (scalar(low)?, scalar(high)?);
    let (low, high) = (read(low_text)?, read(high_text)?);
    if low > high {
        let found = format!("[{low_text}, {high_text}]");
        return refused(&found, "the first number is the lower one");
    }
    Ok([low, high])
}

fn integer(text: &str) -> Result<i64, ValueFault> {
    match text.trim().parse() {
        Ok(number) => Ok(number),
        Err(_) => refused(text, "expected a whole number of 64 bits"),
    }
}

fn float(text: &str) -> Result<f64, ValueFault> {
    match text.trim().parse::<f64>() {
        Ok(number) if number.is_finite() => Ok(number),
        _ => refused(text, "expected a number"),
    }
}

fn rate<'n>(text: &str) -> Result<Read<'n>, ValueFault> {
    if text.trim() == "unlimited" {
        return Ok(Read::Rate(None));
    }
    match float(text) {
        Ok(rate) if rate > 0.0 && rate <= 1e12 => Ok(Read::Rate(Some(rate))),
        _ => refused(
            text,
            "expected rows a second, a number above 0 such as 100 or 0.5, or unlimited",
        ),
    }
}

fn byte<'n>(text: &str) -> Result<Read<'n>, ValueFault> {
    match text.as_bytes() {
        b"\\t" => Ok(Read::Byte(b'\t')),
        [b'"' | b'\n' | b'\r'] => refused(text, "quotes and line ends have another meaning"),
        [byte] if byte.is_ascii() => Ok(Read::Byte(*byte)),
        _ => refused(
            text,
            "expected one ASCII character, such as \",\" or \"\\t\"",
        ),
    }
}

/// Uids of helpers, such as the enumerator of a source, are made by adding to the author's.
const UID_MAX: usize = 244;

fn uid<'n>(text: &str) -> Result<Read<'n>, ValueFault> {
    let allowed = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
    if text.is_empty() || text.len() > UID_MAX || !text.chars().all(allowed) {
        return refused(text, "a uid is 1 to 244 letters, digits, '-', '_' or '.'");
    }
    Ok(Read::Text(text.to_owned()))
}

fn local_path<'n>(text: &str) -> Result<Read<'n>, ValueFault> {
    if let Some((scheme, _)) = text.split_once("://") {
        return Err(ValueFault::NotBuilt {
            found: format!("a {scheme}:// address"),
            what: "files of object stores; write a local path",
        });
    }
    match Kind::Text.read_text(text)? {
        Value::Text(path) => Ok(Read::Text(path)),
        other => unreachable!("a text was read as {other:?}"),
    }
}

fn pattern<'n>(text: &str) -> Result<Read<'n>, ValueFault> {
    if let Err(error) = glob::Pattern::new(text) {
        let why = format!(
            "not a pattern: {} at character {}",
            error.msg,
            error.pos + 1
        );
        return refused(text, why);
    }
    local_path(text)
}
