//! The result of a job as it is kept in the job store: JSON with a format version.

use std::collections::BTreeMap;

use bytes::Bytes;
use millstream_coordination::chain::TerminalState;
use millstream_coordination::job::{FailureHistory, JobStatus};
use millstream_types::{JobId, WallTime};
use serde_json::{Value, json};

use crate::details::{EndFailure, JobDetails, JobEnded, JobOverview};

/// The version that is written, and the newest that is read.
const VERSION: u64 = 1;

/// A stored result that cannot be shown.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum ResultError {
    /// Not JSON.
    #[error("the stored result is no JSON: {0}")]
    Json(String),
    /// A later version.
    #[error("the stored result has format version {found}, this program reads up to {VERSION}")]
    Version {
        /// What it says.
        found: u64,
    },
    /// A field that is not there, or not as it should be.
    #[error("the stored result has no sound {field:?}")]
    Field {
        /// Its name.
        field: &'static str,
    },
}

/// The bytes that are stored of a job that ended.
pub(crate) fn encode(details: &JobDetails) -> Bytes {
    let overview = &details.overview;
    let end = details.end.as_ref().map(|end| {
        json!({
            "state": end.state.to_string(),
            "headline": end.headline,
            "failure": end.failure.as_ref().map(failure),
        })
    });
    let since: BTreeMap<String, i64> = details
        .status_since
        .iter()
        .map(|(status, at)| (status.to_string(), at.as_millis()))
        .collect();
    let value = json!({
        "version": VERSION,
        "name": overview.name,
        "startedAt": overview.started_at.as_millis(),
        "endedAt": overview.ended_at.map(WallTime::as_millis),
        "restarts": overview.restarts,
        "statusSince": since,
        "warnings": details.warnings,
        "end": end,
    });
    Bytes::from(value.to_string())
}

fn failure(failure: &EndFailure) -> Value {
    json!({
        "kind": failure.kind,
        "failedAt": failure.failed_at.as_millis(),
        "task": failure.task,
        "taskmanager": failure.taskmanager,
        "operator": failure.operator,
        "message": failure.message,
        "causes": failure.causes,
        "remedy": failure.remedy,
    })
}

/// Reads a stored result. Vertices and settings are not kept.
pub(crate) fn decode(id: JobId, bytes: &[u8]) -> Result<JobDetails, ResultError> {
    let value: Value =
        serde_json::from_slice(bytes).map_err(|error| ResultError::Json(error.to_string()))?;
    let version = value["version"].as_u64();
    match version {
        Some(found) if found > VERSION => return Err(ResultError::Version { found }),
        Some(_) => {}
        None => return Err(ResultError::Field { field: "version" }),
    }
    let end = read_end(&value["end"])?;
    let at = |field: &'static str| {
        let at = value[field].as_i64().map(WallTime);
        at.ok_or(ResultError::Field { field })
    };
    let ended_at = at("endedAt")?;
    let name = text(&value["name"]).ok_or(ResultError::Field { field: "name" })?;
    let overview = JobOverview {
        id,
        name,
        status: status_of(end.state),
        started_at: at("startedAt")?,
        ended_at: Some(ended_at),
        last_modified_at: ended_at,
        tasks: BTreeMap::new(),
        restarts: value["restarts"]
            .as_u64()
            .and_then(|restarts| u32::try_from(restarts).ok())
            .ok_or(ResultError::Field { field: "restarts" })?,
    };
    Ok(JobDetails {
        overview,
        status_since: statuses(&value["statusSince"]),
        epoch: None,
        slot_wait: None,
        vertices: Vec::new(),
        failures: FailureHistory::new(1),
        settings: Vec::new(),
        warnings: texts(&value["warnings"]),
        end: Some(end),
    })
}

fn read_end(value: &Value) -> Result<JobEnded, ResultError> {
    let states = [
        TerminalState::Finished,
        TerminalState::Canceled,
        TerminalState::Failed,
    ];
    let state = states
        .into_iter()
        .find(|state| value["state"] == state.to_string())
        .ok_or(ResultError::Field { field: "end.state" })?;
    Ok(JobEnded {
        state,
        headline: text(&value["headline"]).unwrap_or_default(),
        failure: read_failure(&value["failure"]),
    })
}

fn read_failure(value: &Value) -> Option<EndFailure> {
    Some(EndFailure {
        kind: text(&value["kind"])?,
        failed_at: WallTime(value["failedAt"].as_i64()?),
        task: text(&value["task"]),
        taskmanager: text(&value["taskmanager"]),
        operator: text(&value["operator"]),
        message: text(&value["message"])?,
        causes: texts(&value["causes"]),
        remedy: text(&value["remedy"]),
    })
}

fn statuses(value: &Value) -> BTreeMap<JobStatus, WallTime> {
    JobStatus::ALL
        .into_iter()
        .filter_map(|status| {
            let at = value[status.to_string().as_str()].as_i64()?;
            Some((status, WallTime(at)))
        })
        .collect()
}

fn status_of(state: TerminalState) -> JobStatus {
    match state {
        TerminalState::Finished => JobStatus::Finished,
        TerminalState::Canceled => JobStatus::Canceled,
        TerminalState::Failed => JobStatus::Failed,
    }
}

fn text(value: &Value) -> Option<String> {
    value.as_str().map(str::to_owned)
}

fn texts(value: &Value) -> Vec<String> {
    let values = value.as_array().into_iter().flatten();
    values.filter_map(text).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Written by version 0.1; it is read for ever.
    const STORED: &str = r#"{"end":{"failure":{"causes":["division by zero"],"failedAt":1700000005000,
        "kind":"USER","message":"row 7 cannot be computed","operator":"ratio","remedy":null,
        "task":"ratio (1/2)","taskmanager":"tm-1"},
        "headline":"Recovery is suppressed by NoRestartBackoffTimeStrategy","state":"FAILED"},
        "endedAt":1700000006000,"name":"ratios","restarts":2,"startedAt":1700000000000,
        "statusSince":{"FAILED":1700000006000,"RUNNING":1700000001000},"version":1,
        "warnings":["no uid"]}"#;

    #[test]
    fn a_stored_result_is_read_back_whole_and_written_alike() {
        let job = JobId::from_bytes([7; 16]);
        let details = decode(job, STORED.as_bytes()).unwrap();
        assert_eq!(details.overview.status, JobStatus::Failed);
        assert_eq!(details.overview.restarts, 2);
        let failure = details.end.as_ref().unwrap().failure.as_ref().unwrap();
        assert_eq!(failure.causes, ["division by zero"]);
        assert_eq!(failure.task.as_deref(), Some("ratio (1/2)"));
        assert_eq!(details.status_since.len(), 2);
        assert_eq!(decode(job, &encode(&details)), Ok(details));
    }

    #[test]
    fn what_is_no_result_of_this_version_is_refused_by_name() {
        let job = JobId::from_bytes([7; 16]);
        let error = |text: &str| decode(job, text.as_bytes()).unwrap_err().to_string();
        assert!(error("x").contains("no JSON"));
        assert!(error(r#"{"version":2}"#).contains("format version 2"));
        assert!(error(r#"{"version":1}"#).contains("end.state"));
    }
}
