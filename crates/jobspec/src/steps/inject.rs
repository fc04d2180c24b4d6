//! Faults on purpose: as a step and as an option of sources.

use arrow::datatypes::SchemaRef;
use millstream_graph::{Fault, Inject, OperatorCall, OperatorKind};

use super::Built;
use crate::fault::FaultKind;
use crate::fields::{Fields, last_part};
use crate::inputs::Input;
use crate::report::Report;

/// Faults on purpose have no place in a job that somebody relies on.
pub(crate) fn check_allowed(allowed: bool, fields: &Fields<'_>, report: &mut Report<'_>) {
    if !allowed {
        let kind = FaultKind::structure(
            "inject makes the job fail on purpose, and is not allowed",
            "remove it, or set pipeline.allow-fault-injection: true",
        );
        report.key(fields.at, &last_part(&fields.path), &fields.path, kind);
    }
}

pub(crate) fn build(fields: &Fields<'_>, input: &Input) -> Option<Built> {
    let (fault, at_row) = fault(fields)?;
    let number = |name| {
        let number = fields.int(name)?;
        Some(u32::try_from(number).expect("bounded by the table"))
    };
    let inject = Inject {
        fault,
        at_row,
        subtask: number("subtask"),
        times: number("times"),
    };
    Some(Built {
        kind: OperatorKind::Inject(inject),
        schema: SchemaRef::clone(input.schema.as_ref()?),
    })
}

fn fault(fields: &Fields<'_>) -> Option<(Fault, u64)> {
    let mut found = fields
        .form
        .one_of
        .iter()
        .filter_map(|name| Some((*name, fields.fields(name)?)));
    let (name, inner) = found.next()?;
    let message = || Some(inner.text("message")?.to_owned());
    let fault = match name {
        "fail" => Fault::Fail {
            message: message()?,
        },
        "panic" => Fault::Panic {
            message: message()?,
        },
        "block" => Fault::BlockInSocketRead {
            during: match inner.word("during")? {
                "open" => OperatorCall::Open,
                "snapshot" => OperatorCall::Snapshot,
                "close" => OperatorCall::Close,
                _ => OperatorCall::Process,
            },
        },
        "delay" => Fault::Delay {
            per_row: inner.duration("per-row")?,
        },
        "refuse-snapshot" => Fault::RefuseSnapshot {
            message: message()?,
        },
        other => unreachable!("the table has a fault {other}"),
    };
    Some((fault, inner.int("at")?))
}
