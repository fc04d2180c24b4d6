//! The effective table: every built key with its value and where it comes from.

use std::collections::BTreeMap;
use std::fmt::Write;

use crate::error::Warning;
use crate::layer::Layer;
use crate::origin::Origin;
use crate::registry::{Key, Scope, Status, keys};
use crate::value::Value;

/// One row of the table.
#[derive(Debug, Clone, PartialEq)]
pub struct Row {
    /// The key.
    pub key: &'static Key,
    /// Its value; `None` if it is unset and has no default.
    pub value: Option<Value>,
    /// Where the value comes from.
    pub origin: Origin,
}

/// The effective configuration of a daemon or of a job.
#[derive(Debug, Clone, PartialEq)]
pub struct Resolved {
    rows: BTreeMap<&'static str, Row>,
    warnings: Vec<Warning>,
}

impl Resolved {
    /// Lays the layers over the defaults, the last one uppermost: file, environment, flags.
    #[must_use]
    pub fn new(layers: impl IntoIterator<Item = Layer>) -> Self {
        let built = keys().filter(|key| key.status == Status::Built);
        let rows = built.map(|key| (key.name, default_row(key))).collect();
        let mut resolved = Self {
            rows,
            warnings: Vec::new(),
        };
        for layer in layers {
            resolved.lay(layer);
        }
        resolved
    }

    /// The configuration of a job: what the cluster sets for its jobs, then the layers.
    #[must_use]
    pub fn for_job(cluster: &Self, layers: impl IntoIterator<Item = Layer>) -> Self {
        let mut resolved = Self::new([]);
        for row in cluster.rows.values() {
            if row.key.scope == Scope::Job && row.origin != Origin::Default {
                let row = Row {
                    origin: Origin::Cluster,
                    ..row.clone()
                };
                resolved.rows.insert(row.key.name, row);
            }
        }
        for layer in layers {
            resolved.lay(layer);
        }
        resolved
    }

    fn lay(&mut self, layer: Layer) {
        for setting in layer.settings {
            let row = Row {
                key: setting.key,
                value: Some(setting.value),
                origin: setting.origin,
            };
            self.rows.insert(setting.key.name, row);
        }
        self.warnings.extend(layer.warnings);
    }

    /// What is worth a line of WARN each.
    #[must_use]
    pub fn warnings(&self) -> &[Warning] {
        &self.warnings
    }

    /// All rows, by name.
    pub fn rows(&self) -> impl Iterator<Item = &Row> {
        self.rows.values()
    }

    /// The row of a key, by its short name.
    #[must_use]
    pub fn row(&self, name: &str) -> Option<&Row> {
        self.rows.get(name)
    }

    /// What a job graph carries: the settings of job scope that somebody gave, as key, printed
    /// value and word of the origin. [`Layer::stored`] reads them back.
    #[must_use]
    pub fn given_for_job(&self) -> Vec<(&'static str, String, &'static str)> {
        let given = self.rows.values().filter(|row| {
            row.key.scope == Scope::Job && !matches!(row.origin, Origin::Default | Origin::Cluster)
        });
        given
            .filter_map(|row| {
                Some((
                    row.key.name,
                    stored_text(row.value.as_ref()?),
                    row.origin.word(),
                ))
            })
            .collect()
    }

    /// The table as YAML that gives the same configuration again, each line with its origin.
    /// Secrets are shown as the reference that was given; the table never holds their values.
    #[must_use]
    pub fn print_config(&self) -> String {
        let mut text = String::new();
        for row in self.rows.values() {
            let _ = match &row.value {
                Some(value) => writeln!(text, "{}: {value}  # {}", row.key.name, row.origin),
                None => writeln!(text, "# {} is unset", row.key.name),
            };
        }
        text
    }

    /// The value of a key that has a default or was given.
    ///
    /// Only policies call these readers, with names and types of the table; a mistake there is one
    /// in this crate and shows in its tests.
    pub(crate) fn value(&self, name: &str) -> Option<&Value> {
        let row = self.rows.get(name);
        row.expect("policies read registered, built keys")
            .value
            .as_ref()
    }
}

fn default_row(key: &'static Key) -> Row {
    let value = key.default.map(|text| {
        let value = key.kind.read_text(text);
        value.unwrap_or_else(|fault| unreachable!("default: {}", fault.message(key.name)))
    });
    Row {
        key,
        value,
        origin: Origin::Default,
    }
}

/// The text that [`crate::Kind::read_text`] reads back: without the quotes that YAML needs.
fn stored_text(value: &Value) -> String {
    match value {
        Value::Text(text) => text.clone(),
        Value::Host(host) => host.to_string(),
        Value::Ports(ports) => ports.to_string(),
        Value::Location(location) => location.to_string(),
        Value::Duration(_)
        | Value::Bytes(_)
        | Value::Int(_)
        | Value::Float(_)
        | Value::Bool(_)
        | Value::Choice(_)
        | Value::List(_)
        | Value::Map(_)
        | Value::Secret(_) => value.to_string(),
    }
}
