//! The job file: YAML text in, a checked [`JobGraph`] out.
//!
//! One set of tables describes every step and key. They drive the reader, its suggestions and the
//! reference ([`reference_markdown`]), so that none of them knows what another does not.
//!
//! Invariants: all faults of a file are collected, each with place, key path and remedy, before
//! anything runs; a key is accepted only where it has its effect; the graph that is returned passed
//! [`JobGraph::validate`]; the same file gives the same graph, uids included.
//!
//! What the reader decides:
//!
//! - **Edges.** Forward between equal parallelisms, rebalance between different ones, hash behind
//!   `key-by`, assign from the enumerator of a file source to its readers.
//! - **Bounds.** A file source and a generator with `rows` end; a step ends if all its inputs do.
//!   An aggregate emits `end` where its input ends and `each` where it does not.
//! - **Nullability.** Every column may be NULL, whatever an expression could promise: rows of one
//!   stream then have one schema, also behind a union.
//!
//! Must never depend on: an executor, the file system, the environment. Callers pass texts.

mod fault;
mod fields;
mod graph_faults;
mod head;
mod inputs;
mod paths;
mod pipeline;
mod reference;
mod report;
mod settings;
mod shape;
mod source_text;
mod steps;
mod table;
mod types;

#[cfg(test)]
mod tests;

use std::path::Path;

use millstream_config::yaml::{self, Node};
use millstream_config::{Layer, Resolved, ValueFault};
use millstream_graph::JobGraph;

pub use fault::{Fault, FaultKind, JobFileErrors, Place, Warning};
pub use reference::reference_markdown;

use report::Report;

/// The keys of a job file that are no settings.
const OWN_KEYS: [&str; 3] = ["name", "pipeline", "sql"];

/// A job file that was accepted.
#[derive(Debug, Clone, PartialEq)]
pub struct JobFile {
    /// The job.
    pub graph: JobGraph,
    /// What is worth a line of WARN each.
    pub warnings: Vec<Warning>,
}

/// Reads a job file.
///
/// `file` is its name for messages and, without its ending, the job's where the file gives none.
/// With `base_dir`, relative paths of sources and sinks become absolute against it, as a local run
/// wants it; without, they stay as they are and mean the taskmanager's. `defaults` is what the
/// cluster sets for its jobs.
///
/// # Errors
/// All faults found, at most [`JobFileErrors::LIMIT`].
pub fn parse(
    file: &str,
    text: &str,
    base_dir: Option<&Path>,
    defaults: &Resolved,
) -> Result<JobFile, JobFileErrors> {
    parse_with_flags(file, text, base_dir, defaults, Layer::default())
}

/// As [`parse`], with settings from the command line, which win over the file's.
///
/// # Errors
/// All faults found, at most [`JobFileErrors::LIMIT`].
pub fn parse_with_flags(
    file: &str,
    text: &str,
    base_dir: Option<&Path>,
    defaults: &Resolved,
    flags: Layer,
) -> Result<JobFile, JobFileErrors> {
    let mut report = Report::new(file, text);
    let graph = read(file, text, base_dir, defaults, flags, &mut report);
    let warnings = report.finish()?;
    let graph = graph.expect("a file without a fault gives a graph");
    Ok(JobFile { graph, warnings })
}

fn read(
    file: &str,
    text: &str,
    base_dir: Option<&Path>,
    defaults: &Resolved,
    flags: Layer,
    report: &mut Report<'_>,
) -> Option<JobGraph> {
    let root = match yaml::parse(text) {
        Ok(root) => root,
        Err(error) => {
            let place = error.position().map(source_text::place);
            report.at(place, "", settings::yaml_fault(&error));
            return None;
        }
    };
    let empty = [];
    let entries = if root.is_null() {
        &empty
    } else {
        fields::entries(&root, "", "keys and values", report)?
    };
    let settings = settings::read(file, entries, base_dir, defaults, flags, report);
    if let Some(sql) = root.get("sql") {
        let kind = FaultKind::NotBuilt {
            key: "sql",
            what: "jobs in SQL; write a pipeline",
        };
        report.value(sql, "sql", kind);
        return None;
    }
    let name = name_of(file, root.get("name"), report);
    let steps = steps_of(root.get("pipeline"), report)?;
    let (operators, edges) = pipeline::read(steps, &settings.config, base_dir, report)?;
    let graph = JobGraph {
        name: name?,
        operators: operators.nodes,
        edges,
        settings: settings.given,
    };
    if let Err(error) = graph.validate() {
        graph_faults::report(&error, &operators.places, report);
    }
    (!report.has_faults()).then_some(graph)
}

/// The job's name; the file's where it has none.
fn name_of(file: &str, node: Option<&Node>, report: &mut Report<'_>) -> Option<String> {
    let Some(node) = node.filter(|node| !node.is_null()) else {
        let stem = Path::new(file).file_stem();
        return Some(stem.map_or("job".to_owned(), |stem| stem.to_string_lossy().into_owned()));
    };
    match millstream_config::Kind::Text.read_node(node) {
        Ok(millstream_config::Value::Text(name)) => Some(name),
        Ok(other) => unreachable!("a text was read as {other:?}"),
        Err(fault) => {
            let key = "name".to_owned();
            report.value(node, "name", FaultKind::Value { key, fault });
            None
        }
    }
}

fn steps_of<'n>(node: Option<&'n Node>, report: &mut Report<'_>) -> Option<&'n [Node]> {
    let node = node.filter(|node| !node.is_null());
    let Some(node) = node else {
        let kind = FaultKind::MissingKey {
            of: "the job".to_owned(),
            key: "pipeline".to_owned(),
            means: "the list of its steps, from a source to a sink",
        };
        report.at(None, "pipeline", kind);
        return None;
    };
    let Some(steps) = node.as_sequence() else {
        let fault = ValueFault::Shape {
            found: node.kind(),
            wanted: "a list of steps, each on a line that starts with \"- \"",
        };
        let key = "pipeline".to_owned();
        report.value(node, "pipeline", FaultKind::Value { key, fault });
        return None;
    };
    Some(steps)
}
