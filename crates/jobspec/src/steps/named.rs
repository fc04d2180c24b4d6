//! Mappings whose keys are names of columns.

use std::collections::BTreeSet;

use arrow::datatypes::{DataType, SchemaRef};
use millstream_config::yaml::{Entry, Node};
use millstream_config::{ValueFault, suggest};
use millstream_expr::Compiled;

use crate::fault::FaultKind;
use crate::fields::{Fields, entries};
use crate::inputs::Input;
use crate::report::Report;

/// More columns in one step are refused: each expression is planned against all of them.
const COLUMNS_MAX: usize = 1_000;
/// The longest column name.
const NAME_BYTES_MAX: usize = 255;

/// A name of the author's choice and the value it stands for.
pub(crate) struct Named<'n> {
    pub(crate) entry: &'n Entry,
    pub(crate) path: String,
}

/// The entries of `key`, whose names are checked. Empty after a fault.
pub(crate) fn read<'n>(
    fields: &Fields<'n>,
    key: &'static str,
    wanted: &'static str,
    report: &mut Report<'_>,
) -> Option<Vec<Named<'n>>> {
    let node = fields.node(key)?;
    let path = fields.path_of(key);
    let found = entries(node, &path, wanted, report)?;
    check_count(node, found.len(), &path, report)?;
    let named = found.iter().map(|entry| Named {
        entry,
        path: format!("{path}.{}", entry.key),
    });
    let named: Vec<Named<'n>> = named.collect();
    let good = named
        .iter()
        .filter(|named| check_name(named.entry, &named.path, report))
        .count();
    (good == named.len()).then_some(named)
}

/// Refuses no columns and too many.
pub(crate) fn check_count(
    node: &Node,
    count: usize,
    path: &str,
    report: &mut Report<'_>,
) -> Option<()> {
    let kind = match count {
        0 => FaultKind::Value {
            key: crate::fields::last_part(path),
            fault: ValueFault::Empty,
        },
        1..=COLUMNS_MAX => return Some(()),
        _ => FaultKind::Limit {
            what: "columns of one step",
            found: count as u64,
            limit: COLUMNS_MAX as u64,
        },
    };
    report.value(node, path, kind);
    None
}

/// Whether a column may have this name.
pub(crate) fn check_name(entry: &Entry, path: &str, report: &mut Report<'_>) -> bool {
    let name = &entry.key;
    let is_good =
        !name.is_empty() && name.len() <= NAME_BYTES_MAX && !name.chars().any(char::is_control);
    if !is_good {
        let kind = FaultKind::Value {
            key: "the name of a column".to_owned(),
            fault: ValueFault::Refused {
                found: name.chars().take(80).collect(),
                why: "a name has 1 to 255 bytes and no control characters".to_owned(),
            },
        };
        report.key(entry.at, name, path, kind);
    }
    is_good
}

/// Refuses a name that another column of the result has.
pub(crate) fn check_distinct<'a>(
    names: impl IntoIterator<Item = (&'a str, &'a Node)>,
    path: &str,
    report: &mut Report<'_>,
) {
    let mut seen = BTreeSet::new();
    for (name, node) in names {
        if !seen.insert(name) {
            let message = format!("two columns of the result are named {name:?}");
            let kind = FaultKind::structure(message, "give one of them another name");
            report.value(node, path, kind);
        }
    }
}

/// The text of a scalar that must be there.
pub(crate) fn text<'n>(
    node: &'n Node,
    path: &str,
    wanted: &'static str,
    report: &mut Report<'_>,
) -> Option<&'n str> {
    let text = node.as_text().filter(|text| !text.trim().is_empty());
    if text.is_none() {
        let fault = match node.kind() {
            _ if node.is_null() || node.as_text().is_some() => ValueFault::Empty,
            found => ValueFault::Shape { found, wanted },
        };
        let key = crate::fields::last_part(path);
        report.value(node, path, FaultKind::Value { key, fault });
    }
    text
}

/// Compiles the expression that `node` holds against the input, if its columns are known.
pub(crate) fn expression(
    node: &Node,
    path: &str,
    input: &Input,
    report: &mut Report<'_>,
) -> Option<Compiled> {
    let text = text(node, path, "a SQL expression", report)?;
    let schema = input.schema.as_ref()?;
    let compiled = match millstream_expr::compile(text, schema) {
        Ok(compiled) => compiled,
        Err(error) => {
            report.expression(node, path, error);
            return None;
        }
    };
    if *compiled.data_type() == DataType::Null {
        let kind = FaultKind::structure(
            "the expression is always NULL and has no type",
            "write its type, for example CAST(NULL AS VARCHAR)",
        );
        report.value(node, path, kind);
        return None;
    }
    Some(compiled)
}

/// The position of the column that `node` names.
pub(crate) fn column(
    node: &Node,
    path: &str,
    schema: &SchemaRef,
    report: &mut Report<'_>,
) -> Option<usize> {
    let name = text(node, path, "the name of a column", report)?;
    let found = schema.index_of(name).ok();
    if found.is_none() {
        let columns: Vec<String> = schema.fields().iter().map(|f| f.name().clone()).collect();
        let suggestion = suggest(name, columns.iter().map(String::as_str)).map(str::to_owned);
        let kind = FaultKind::UnknownColumn {
            name: name.chars().take(80).collect(),
            suggestion,
            columns,
        };
        report.value(node, path, kind);
    }
    found
}

/// A name as SQL quotes it, for expressions that we write.
pub(crate) fn quoted(name: &str) -> String {
    format!("\"{}\"", name.replace('"', "\"\""))
}
