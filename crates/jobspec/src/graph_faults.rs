//! Faults that only the whole graph shows, brought back to the lines of the file.

use std::collections::BTreeMap;

use millstream_config::yaml::Position;
use millstream_graph::{GraphError, GraphFault};

use crate::fault::FaultKind;
use crate::report::Report;
use crate::source_text::place;

/// Where each operator was written: by uid, with the step's key path.
pub(crate) type Places = BTreeMap<String, (Position, String)>;

pub(crate) fn report(error: &GraphError, places: &Places, report: &mut Report<'_>) {
    for fault in &error.faults {
        let found = uid_of(fault).and_then(|uid| places.get(uid));
        let (at, path) = match found {
            Some((at, path)) => (Some(place(*at)), path.as_str()),
            None => (None, ""),
        };
        // The graph's messages end with what to do.
        let text = fault.to_string();
        let kind = match text.rsplit_once(": ") {
            Some((message, remedy)) => FaultKind::structure(message, remedy),
            None => FaultKind::structure(text, "change the steps it names"),
        };
        report.at(at, path, kind);
    }
}

fn uid_of(fault: &GraphFault) -> Option<&str> {
    match fault {
        GraphFault::DuplicateUid { uid, .. }
        | GraphFault::Parallelism { uid, .. }
        | GraphFault::MaxParallelism { uid, .. }
        | GraphFault::Inputs { uid, .. }
        | GraphFault::NoOutput { uid, .. }
        | GraphFault::NoSuchOutput { uid, .. }
        | GraphFault::UnionSchema { uid, .. } => Some(uid.as_str()),
        GraphFault::Forward { to, .. } => Some(to.as_str()),
        GraphFault::KeyColumn { from, .. } => Some(from.as_str()),
        GraphFault::Cycle { uids } => uids.first().map(|uid| uid.as_str()),
        GraphFault::Empty
        | GraphFault::TooMany { .. }
        | GraphFault::NameTooLong { .. }
        | GraphFault::NameNotShown { .. }
        | GraphFault::DanglingEdge { .. } => None,
    }
}
