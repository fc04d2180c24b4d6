//! Which step an item of the pipeline is, and by which form it is read.

use millstream_config::yaml::{Entry, Node};
use millstream_config::{Kind, Value, ValueFault, suggest};

use crate::fault::FaultKind;
use crate::report::Report;
use crate::table::{self, Connector, Form, Forms, Shape, Step};

/// One step of the file.
#[derive(Clone, Copy)]
pub(crate) struct Head<'n> {
    pub(crate) step: &'static Step,
    /// Its key and value.
    pub(crate) entry: &'n Entry,
    pub(crate) index: usize,
}

/// The one key of a step and what it stands for.
pub(crate) fn head<'n>(
    index: usize,
    node: &'n Node,
    path: &str,
    report: &mut Report<'_>,
) -> Option<Head<'n>> {
    let entries = match node.as_mapping() {
        Some(entries) if entries.len() == 1 => entries,
        Some(entries) if entries.len() > 1 && table::step(&entries[0].key).is_some() => {
            let kind = FaultKind::structure(
                format!("a step has one key, this one has {} too", entries[1].key),
                format!(
                    "indent the lines below {} deeper, or begin the next step with \"- \"",
                    entries[0].key
                ),
            );
            report.key(entries[1].at, &entries[1].key, path, kind);
            return None;
        }
        _ => {
            let fault = ValueFault::Shape {
                found: node.kind(),
                wanted: "one step, such as `filter: { where: \"word <> ''\" }`",
            };
            let key = path.to_owned();
            report.value(node, path, FaultKind::Value { key, fault });
            return None;
        }
    };
    let entry = &entries[0];
    match table::step(&entry.key) {
        Some(step) => Some(Head { step, entry, index }),
        None => {
            let known: Vec<&'static str> = table::STEPS.iter().map(|step| step.name).collect();
            let kind = FaultKind::UnknownStep {
                name: entry.key.chars().take(80).collect(),
                suggestion: suggest(&entry.key.replace('_', "-"), known.iter().copied()),
                known,
            };
            report.key(entry.at, &entry.key, path, kind);
            None
        }
    }
}

/// The form of a step, which its connector may decide.
pub(crate) fn form(
    head: Head<'_>,
    path: &str,
    report: &mut Report<'_>,
) -> Option<(&'static Form, Option<Connector>)> {
    let connectors = match &head.step.forms {
        Forms::One(form) => return Some((form, None)),
        Forms::Connector(connectors) => *connectors,
    };
    let (_, first) = connectors.first().expect("a connector step has connectors");
    let key = first.key("connector").expect("its forms have the key");
    let Some(node) = head.entry.node.get("connector") else {
        let kind = FaultKind::MissingKey {
            of: head.step.name.to_owned(),
            key: "connector".to_owned(),
            means: key.means,
        };
        report.key(head.entry.at, &head.entry.key, path, kind);
        return None;
    };
    let Shape::Scalar(Kind::Choice(words)) = key.shape else {
        unreachable!("a connector is one of several words")
    };
    match Kind::Choice(words).read_node(node) {
        Ok(Value::Choice(word)) => {
            let found = connectors.iter().find(|(known, _)| known.word() == word);
            let (connector, form) = found.expect("every word has its form");
            Some((form, Some(*connector)))
        }
        Ok(other) => unreachable!("a word was read as {other:?}"),
        Err(fault) => {
            let key = "connector".to_owned();
            report.value(
                node,
                &format!("{path}.connector"),
                FaultKind::Value { key, fault },
            );
            None
        }
    }
}
