//! Reads a mapping by the table of its form.

use std::collections::BTreeMap;
use std::time::Duration;

use millstream_config::yaml::{Entry, Node, Position};
use millstream_config::{Value, ValueFault, suggest};

use crate::fault::FaultKind;
use crate::report::Report;
use crate::shape::{self, Read};
use crate::table::{Form, Key, Presence};

/// The checked keys of one form.
#[derive(Debug)]
pub(crate) struct Fields<'n> {
    /// What messages call the form.
    pub(crate) form: &'static Form,
    /// Where the mapping's key stands.
    pub(crate) at: Position,
    /// The mapping's key path.
    pub(crate) path: String,
    given: BTreeMap<&'static str, Field<'n>>,
    /// Whether every key was good and every needed one there.
    pub(crate) complete: bool,
}

/// The value of one key.
#[derive(Debug)]
pub(crate) struct Field<'n> {
    pub(crate) value: Read<'n>,
    /// The node; none for a default.
    pub(crate) node: Option<&'n Node>,
}

impl<'n> Fields<'n> {
    /// Reads `entries` of the mapping whose key stands at `at`; faults go to the report.
    pub(crate) fn read(
        form: &'static Form,
        at: Position,
        path: &str,
        entries: &'n [Entry],
        report: &mut Report<'_>,
    ) -> Self {
        let mut fields = Self {
            form,
            at,
            path: path.to_owned(),
            given: BTreeMap::new(),
            complete: true,
        };
        for entry in entries {
            fields.add(entry, report);
        }
        for key in form.keys() {
            fields.fill(key, report);
        }
        fields.check_one_of(report);
        fields
    }

    fn add(&mut self, entry: &'n Entry, report: &mut Report<'_>) {
        let path = format!("{}.{}", self.path, entry.key);
        let Some(key) = self.form.key(&entry.key) else {
            self.complete = false;
            let known: Vec<&'static str> = self.form.keys().map(|key| key.name).collect();
            let kind = FaultKind::UnknownKey {
                of: self.form.name.to_owned(),
                name: entry.key.clone(),
                suggestion: suggest(&entry.key.replace('_', "-"), known.iter().copied()),
                known,
            };
            return report.key(entry.at, &entry.key, &path, kind);
        };
        match shape::read(key, entry, &path, report) {
            Some(value) => {
                let node = Some(&entry.node);
                self.given.insert(key.name, Field { value, node });
            }
            None => self.complete = false,
        }
        if let Some(what) = key.not_built {
            self.complete = false;
            let kind = FaultKind::NotBuilt {
                key: key.name,
                what,
            };
            report.key(entry.at, &entry.key, &path, kind);
        }
    }

    /// The default of a key that was not given, and whether a key that was given has an effect.
    fn fill(&mut self, key: &'static Key, report: &mut Report<'_>) {
        if let (Some((other, allowed)), Some(field)) = (key.only_with, self.given.get(key.name)) {
            let found = self.word(other).or_else(|| default_of(self.form, other));
            if let (Some(found), Some(node)) = (found, field.node)
                && !allowed.contains(&found)
            {
                let kind = FaultKind::NoEffect {
                    key: key.name,
                    other,
                    found: found.to_owned(),
                    allowed,
                };
                report.value(node, &format!("{}.{}", self.path, key.name), kind);
                self.complete = false;
            }
        }
        if self.given.contains_key(key.name) {
            return;
        }
        match key.presence {
            Presence::Optional => {}
            Presence::Default(text) => {
                let value = shape::default(key, text);
                self.given.insert(key.name, Field { value, node: None });
            }
            Presence::Required if self.complete => {
                self.complete = false;
                let kind = FaultKind::MissingKey {
                    of: self.form.name.to_owned(),
                    key: key.name.to_owned(),
                    means: key.means,
                };
                let name = self.path.rsplit('.').next().unwrap_or_default().to_owned();
                report.key(self.at, &name, &self.path, kind);
            }
            // A misspelt key may be the missing one.
            Presence::Required => {}
        }
    }

    fn check_one_of(&mut self, report: &mut Report<'_>) {
        let [first, ..] = self.form.one_of else {
            return;
        };
        let given: Vec<&str> = self
            .form
            .one_of
            .iter()
            .copied()
            .filter(|name| self.given.contains_key(name))
            .collect();
        let kind = match given[..] {
            [_] => return,
            [] if self.complete => FaultKind::MissingKey {
                of: self.form.name.to_owned(),
                key: format!("one of {}", self.form.one_of.join(", ")),
                means: self.form.key(first).map_or("", |key| key.means),
            },
            [] => return,
            [one, two, ..] => FaultKind::structure(
                format!("{} has {one} and {two}", self.form.name),
                "keep one of the two",
            ),
        };
        self.complete = false;
        let name = self.path.rsplit('.').next().unwrap_or_default().to_owned();
        report.key(self.at, &name, &self.path, kind);
    }

    pub(crate) fn get(&self, name: &str) -> Option<&Field<'n>> {
        debug_assert!(self.form.key(name).is_some(), "{name} is in the table");
        self.given.get(name)
    }

    /// The node of a key that was written down.
    pub(crate) fn node(&self, name: &str) -> Option<&'n Node> {
        self.get(name)?.node
    }

    /// The canonical word of a key that takes one of several.
    pub(crate) fn word(&self, name: &str) -> Option<&'static str> {
        match self.get(name)?.value {
            Read::Scalar(Value::Choice(word)) => Some(word),
            _ => None,
        }
    }

    pub(crate) fn text(&self, name: &str) -> Option<&str> {
        match &self.get(name)?.value {
            Read::Scalar(Value::Text(text)) | Read::Text(text) => Some(text),
            _ => None,
        }
    }

    pub(crate) fn int(&self, name: &str) -> Option<u64> {
        match self.get(name)?.value {
            Read::Scalar(Value::Int(number)) => Some(number),
            _ => None,
        }
    }

    pub(crate) fn bytes(&self, name: &str) -> Option<u64> {
        match self.get(name)?.value {
            Read::Scalar(Value::Bytes(bytes)) => Some(bytes),
            _ => None,
        }
    }

    pub(crate) fn duration(&self, name: &str) -> Option<Duration> {
        match self.get(name)?.value {
            Read::Scalar(Value::Duration(duration)) => Some(duration),
            _ => None,
        }
    }

    pub(crate) fn bool(&self, name: &str) -> Option<bool> {
        match self.get(name)?.value {
            Read::Scalar(Value::Bool(flag)) => Some(flag),
            _ => None,
        }
    }

    pub(crate) fn byte(&self, name: &str) -> Option<u8> {
        match self.get(name)?.value {
            Read::Byte(byte) => Some(byte),
            _ => None,
        }
    }

    pub(crate) fn names(&self, name: &str) -> Option<&[&'n Node]> {
        match &self.get(name)?.value {
            Read::Names(nodes) => Some(nodes),
            _ => None,
        }
    }

    pub(crate) fn fields(&self, name: &str) -> Option<&Fields<'n>> {
        match &self.get(name)?.value {
            Read::Fields(fields) => Some(fields),
            _ => None,
        }
    }

    /// Path of one of the keys.
    pub(crate) fn path_of(&self, name: &str) -> String {
        format!("{}.{name}", self.path)
    }
}

fn default_of(form: &Form, name: &str) -> Option<&'static str> {
    match form.key(name)?.presence {
        Presence::Default(text) => Some(text),
        Presence::Required | Presence::Optional => None,
    }
}

/// The entries of a mapping that is no list and no scalar; an empty value is an empty mapping.
pub(crate) fn entries<'n>(
    node: &'n Node,
    path: &str,
    wanted: &'static str,
    report: &mut Report<'_>,
) -> Option<&'n [Entry]> {
    if node.is_null() {
        return Some(&[]);
    }
    let entries = node.as_mapping();
    if entries.is_none() {
        let fault = ValueFault::Shape {
            found: node.kind(),
            wanted,
        };
        let key = last_part(path);
        report.value(node, path, FaultKind::Value { key, fault });
    }
    entries
}

/// The last key of a key path.
pub(crate) fn last_part(path: &str) -> String {
    path.rsplit('.').next().unwrap_or(path).to_owned()
}
