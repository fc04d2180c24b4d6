//! Job files in, graphs or faults out.

mod examples;
mod faults;
mod graphs;
mod random;
mod settings;

use millstream_config::Resolved;
use millstream_graph::{JobGraph, OperatorNode};

use crate::{JobFile, JobFileErrors, parse};

fn try_read(text: &str) -> Result<JobFile, JobFileErrors> {
    parse("job.yaml", text, None, &Resolved::new([]))
}

/// A file that must be accepted.
pub(crate) fn read(text: &str) -> JobFile {
    try_read(text).unwrap_or_else(|errors| panic!("{}\n\n{text}", errors.render()))
}

/// A file that must be refused: one line a fault, with its remedy.
fn faults(text: &str) -> String {
    let errors = try_read(text).expect_err(text);
    let lines = errors
        .faults()
        .iter()
        .map(|fault| format!("{fault} ({})", fault.remedy()));
    lines.collect::<Vec<_>>().join("\n")
}

fn operator<'g>(graph: &'g JobGraph, uid: &str) -> &'g OperatorNode {
    let mut found = graph
        .operators
        .iter()
        .filter(|node| node.uid.as_str() == uid);
    found.next().unwrap_or_else(|| panic!("no operator {uid}"))
}
