//! What users read of a job that runs, here or on a cluster.

use std::io::Write;

use millstream_coordination::failure::FailureKind;
use millstream_coordination::job::JobStatus;
use millstream_rpc::jobs::{JobEndInfo, JobEvent, JobFailure};
use millstream_telemetry::plain;
use millstream_types::errors::{self, ErrorCode};

use crate::error::CliError;

/// Prints an event: rows to `out`, everything else to standard error.
pub(crate) fn print(event: &JobEvent, out: &mut (dyn Write + Send)) -> Result<(), CliError> {
    match event {
        JobEvent::Output { lines, .. } => {
            let mut text = lines.join("\n");
            text.push('\n');
            out.write_all(text.as_bytes())
                .and_then(|()| out.flush())
                .map_err(|error| {
                    CliError::failed(errors::OUTPUT, "a row cannot be printed", &error, "")
                })?;
        }
        JobEvent::OutputDropped { lines } => {
            eprintln!(
                "warning: {lines} printed rows were dropped because they came faster than they \
                 were taken; a file sink drops none"
            );
        }
        JobEvent::Status {
            status, failure, ..
        } => match failure {
            Some(failure) => eprintln!("job is {status}: {}", plain(failure)),
            None => eprintln!("job is {status}"),
        },
        JobEvent::Ended(_) => {}
    }
    Ok(())
}

/// The command's result for a job that ended.
pub(crate) fn result(end: &JobEndInfo) -> Result<(), CliError> {
    if end.status == JobStatus::Finished {
        return Ok(());
    }
    if end.status == JobStatus::Canceled {
        let what = "the job was cancelled".to_owned();
        return Err(CliError::Failed {
            code: errors::JOB_CANCELLED,
            what,
            details: Vec::new(),
        });
    }
    let mut details = vec![format!("caused by: {}", plain(&end.headline))];
    details.extend(end.failure.iter().flat_map(failure_lines));
    Err(CliError::Failed {
        code: end.failure.as_ref().map_or(errors::JOB_FAILED, code_of),
        what: "Job execution failed.".to_owned(),
        details,
    })
}

/// The code of a failure's kind. Kinds of a later version than ours are failures all the same.
pub(crate) fn code_of(failure: &JobFailure) -> ErrorCode {
    let kind = FailureKind::ALL
        .iter()
        .find(|kind| kind.to_string() == failure.kind);
    kind.map_or(errors::JOB_FAILED, |kind| kind.code())
}

/// The chain of causes as A4-2 has it, then the remedy. What a user's data put into it stays a line.
pub(crate) fn failure_lines(failure: &JobFailure) -> Vec<String> {
    let place = match (&failure.task, &failure.operator) {
        (Some(task), Some(operator)) => format!(" (task {task}, operator {operator})"),
        (Some(task), None) => format!(" (task {task})"),
        (None, _) => String::new(),
    };
    let mut lines = vec![format!("caused by: {}{place}", failure.message)];
    lines.extend(
        failure
            .causes
            .iter()
            .map(|cause| format!("caused by: {cause}")),
    );
    lines.extend(
        failure
            .remedy
            .iter()
            .map(|remedy| format!("help: {remedy}")),
    );
    lines.iter().map(|line| plain(line)).collect()
}
