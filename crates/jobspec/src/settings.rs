//! Everything in a job file that is not its name or its pipeline.

use std::path::Path;

use millstream_config::yaml::{self, Entry, FlatEntry, YamlError};
use millstream_config::{ConfigError, ConfigErrors, JobConfig, Layer, Origin, Resolved, find};
use millstream_graph::Setting;

use crate::OWN_KEYS;
use crate::fault::{FaultKind, Place, Warning};
use crate::paths;
use crate::report::Report;
use crate::source_text::place;

/// Checked settings. After a fault the rest of the file is still read, with what is left.
pub(crate) struct Settings {
    pub(crate) config: JobConfig,
    pub(crate) given: Vec<Setting>,
}

pub(crate) fn read(
    file: &str,
    entries: &[Entry],
    base_dir: Option<&Path>,
    defaults: &Resolved,
    flags: Layer,
    report: &mut Report<'_>,
) -> Settings {
    let layer = Layer::job(file, entries, &OWN_KEYS).unwrap_or_else(|errors| {
        report_all(&errors, entries, report);
        Layer::default()
    });
    let table = Resolved::for_job(defaults, [layer, flags]);
    let mut warnings = table.warnings().to_vec();
    let config = JobConfig::new(&table, &mut warnings).unwrap_or_else(|errors| {
        report_all(&errors, entries, report);
        JobConfig::new(&Resolved::new([]), &mut Vec::new()).expect("the defaults go together")
    });
    for warning in warnings {
        report.warn(Warning::Setting(warning));
    }
    let given = table.given_for_job().into_iter();
    let given = given.map(|(key, value, origin)| Setting {
        key: key.to_owned(),
        value: match (key, origin) {
            ("checkpointing.dir", "job") => directory(value, base_dir),
            _ => value,
        },
        origin: origin.to_owned(),
    });
    Settings {
        config,
        given: given.collect(),
    }
}

/// A directory of this machine is meant from the job file on, as all paths in it.
fn directory(value: String, base_dir: Option<&Path>) -> String {
    if value.contains("://") {
        return value;
    }
    paths::absolute(&value, base_dir)
}

fn report_all(errors: &ConfigErrors, entries: &[Entry], report: &mut Report<'_>) {
    let flat = yaml::flatten(entries, &|key| {
        find(key).is_some_and(|(key, _)| key.kind.takes_mapping())
    })
    .unwrap_or_default();
    for fault in errors.faults() {
        let entry = entry_of(fault, &flat);
        match (fault, entry) {
            (ConfigError::Yaml { fault, .. }, _) => {
                report.at(fault.position().map(place), "", yaml_fault(fault));
            }
            (ConfigError::Value { .. }, Some(entry)) => {
                report.value(entry.node, &entry.key, setting(fault));
            }
            (_, Some(entry)) => {
                let last = entry.key.rsplit('.').next().unwrap_or(&entry.key);
                report.key(entry.at, last, &entry.key, setting(fault));
            }
            (_, None) => report.at(line_of(fault), "", setting(fault)),
        }
    }
}

/// The entry that a fault is about. What concerns several keys names them in its text; then it is
/// the last of them, which the author probably wrote after the other.
fn entry_of<'f, 'n>(fault: &ConfigError, flat: &'f [FlatEntry<'n>]) -> Option<&'f FlatEntry<'n>> {
    let line = line_of(fault).map(|place| place.line);
    match fault {
        ConfigError::UnknownKey { key, .. }
        | ConfigError::NotMapping { key, .. }
        | ConfigError::NotInJobs { key, .. }
        | ConfigError::NotBuilt { key, .. }
        | ConfigError::Value { key, .. } => flat
            .iter()
            .find(|entry| entry.key == *key && line.is_none_or(|line| line == entry.at.line)),
        ConfigError::Conflict { what, .. } => flat.iter().rev().find(|entry| {
            find(&entry.key).is_some_and(|(key, _)| what.contains(&format!("{} is", key.name)))
        }),
        ConfigError::Twice { key, .. } => flat
            .iter()
            .rev()
            .find(|entry| find(&entry.key).is_some_and(|(found, _)| found.name == *key)),
        ConfigError::Yaml { .. }
        | ConfigError::NoMapping { .. }
        | ConfigError::UnknownVariable { .. }
        | ConfigError::MalformedFlag { .. }
        | ConfigError::Unprotected { .. }
        | ConfigError::Missing { .. } => None,
    }
}

fn line_of(fault: &ConfigError) -> Option<Place> {
    let (ConfigError::UnknownKey { origin, .. }
    | ConfigError::NotMapping { origin, .. }
    | ConfigError::NotInJobs { origin, .. }
    | ConfigError::NotBuilt { origin, .. }
    | ConfigError::Value { origin, .. }) = fault
    else {
        return None;
    };
    match origin {
        Origin::Job(Some(place)) | Origin::File(place) => Some(Place {
            line: place.line,
            column: 1,
        }),
        Origin::Default
        | Origin::Cluster
        | Origin::Job(None)
        | Origin::Variable(_)
        | Origin::Flag => None,
    }
}

/// The configuration's words without the place, which the report shows in its own way.
fn setting(fault: &ConfigError) -> FaultKind {
    let message = match fault {
        ConfigError::UnknownKey { key, .. } => format!("unknown key {key}"),
        ConfigError::NotMapping { key, found, .. } => {
            format!("{key} is {found}, expected a mapping: keys and values below it")
        }
        ConfigError::NotInJobs { key, .. } => {
            format!("{key} is a key of the daemons, not of a job")
        }
        ConfigError::NotBuilt { key, what, .. } => {
            format!("{key} is known, not built yet: {what}")
        }
        ConfigError::Value { key, fault, .. } => fault.message(key),
        other => other.to_string(),
    };
    FaultKind::Setting {
        code: fault.code(),
        message,
        remedy: fault.remedy(),
    }
}

/// The YAML reader's words, likewise.
pub(crate) fn yaml_fault(error: &YamlError) -> FaultKind {
    let message = error.to_string();
    let placed = error.position().map(|at| format!("{at}: "));
    let message = match placed.and_then(|placed| message.strip_prefix(&placed).map(str::to_owned)) {
        Some(rest) => rest,
        None => message,
    };
    FaultKind::Yaml {
        message,
        remedy: error.remedy(),
    }
}
