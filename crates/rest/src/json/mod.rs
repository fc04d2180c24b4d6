//! The JSON of each path. Names, types and units are Flink's: milliseconds, bytes, -1 for what has
//! not happened. What is ours has a name of its own beside them.

mod checkpoint_details;
mod checkpoints;
mod cluster;
mod job;
mod statistics;

pub(crate) use checkpoint_details::{SubtasksJson, details};
pub(crate) use checkpoints::{CheckpointJson, CheckpointsJson, Totals, join_words};
pub(crate) use cluster::{
    JobsJson, JobsOverviewJson, OverviewJson, TaskmanagerDetailsJson, TaskmanagersJson,
};
pub(crate) use job::{Io, JobDetailsJson, vertex_status};

use std::time::Duration;

use millstream_coordination::job::ExecutionState;
use millstream_types::WallTime;

/// Every state of a task, in the order in which it comes into them.
pub(crate) const EXECUTION_STATES: [ExecutionState; 9] = [
    ExecutionState::Created,
    ExecutionState::Scheduled,
    ExecutionState::Deploying,
    ExecutionState::Initializing,
    ExecutionState::Running,
    ExecutionState::Canceling,
    ExecutionState::Canceled,
    ExecutionState::Finished,
    ExecutionState::Failed,
];

fn millis_or_minus_one(at: Option<WallTime>) -> i64 {
    at.map_or(-1, WallTime::as_millis)
}

/// From one wall time to another; clocks may be set back in between.
fn millis_between(from: WallTime, to: WallTime) -> i64 {
    to.as_millis().saturating_sub(from.as_millis()).max(0)
}

fn millis(duration: Duration) -> i64 {
    i64::try_from(duration.as_millis()).unwrap_or(i64::MAX)
}
