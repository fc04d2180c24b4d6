//! Events of a watched job on the wire.

use super::details::{end_from_wire, end_to_wire, status_from_wire, status_to_wire};
use super::types::JobEvent;
use crate::control::common::{subtask_from_wire, subtask_to_wire};
use crate::error::{DecodeError, missing};
use crate::pb::{self, job_event::Event};
use crate::scalar::{time_from_wire, time_to_wire};

pub(super) fn to_wire(event: JobEvent) -> pb::JobEvent {
    let event = match event {
        JobEvent::Status {
            status,
            at,
            failure,
        } => Event::Status(pb::StatusChanged {
            status: status_to_wire(status),
            at: Some(time_to_wire(at)),
            failure,
        }),
        JobEvent::Output { subtask, lines } => Event::Output(pb::PrintedLines {
            subtask: subtask_to_wire(subtask),
            lines,
        }),
        JobEvent::OutputDropped { lines } => Event::OutputDropped(pb::OutputDropped { lines }),
        JobEvent::Ended(end) => Event::Ended(end_to_wire(&end)),
    };
    pb::JobEvent { event: Some(event) }
}

pub(super) fn from_wire(message: pb::JobEvent) -> Result<JobEvent, DecodeError> {
    Ok(match message.event.ok_or(missing("JobEvent", "event"))? {
        Event::Status(message) => JobEvent::Status {
            status: status_from_wire("StatusChanged", "status", message.status)?,
            at: time_from_wire("StatusChanged", "at", message.at)?,
            failure: message.failure,
        },
        Event::Output(message) => JobEvent::Output {
            subtask: subtask_from_wire("PrintedLines", message.subtask)?,
            lines: message.lines,
        },
        Event::OutputDropped(message) => JobEvent::OutputDropped {
            lines: message.lines,
        },
        Event::Ended(end) => JobEvent::Ended(end_from_wire(end)?),
    })
}
