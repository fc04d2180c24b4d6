//! `/jobs/:id/checkpoints`.

use std::collections::BTreeMap;

use millstream_coordination::checkpoint::{
    CheckpointRecord, CheckpointStatus, RestoreRecord, SubtaskRecord,
};
use millstream_types::WallTime;
use serde::Serialize;

use super::statistics::Statistics;
use super::{millis, millis_between, millis_or_minus_one};
use crate::view::CheckpointsView;

#[derive(Serialize)]
pub(crate) struct CheckpointsJson {
    counts: CountsJson,
    summary: SummaryJson,
    latest: LatestJson,
    /// Newest first.
    history: Vec<CheckpointJson>,
}

/// `total` is what was triggered: a refused one was not, and is counted apart.
#[derive(Serialize)]
struct CountsJson {
    restored: u64,
    total: u64,
    in_progress: usize,
    completed: u64,
    failed: u64,
    refused: u64,
}

/// Over the completed checkpoints of the history.
#[derive(Serialize)]
struct SummaryJson {
    checkpointed_size: Statistics,
    state_size: Statistics,
    end_to_end_duration: Statistics,
    alignment_buffered: Statistics,
    processed_data: Statistics,
    persisted_data: Statistics,
}

#[derive(Serialize)]
struct LatestJson {
    completed: Option<CheckpointJson>,
    /// None are taken yet.
    savepoint: Option<CheckpointJson>,
    failed: Option<CheckpointJson>,
    restored: Option<RestoredJson>,
}

#[derive(Serialize)]
struct RestoredJson {
    id: u64,
    restore_timestamp: i64,
    is_savepoint: bool,
    external_path: Option<String>,
}

impl CheckpointsJson {
    pub(crate) fn new(view: &CheckpointsView) -> Self {
        let directory = view.directory.as_str();
        let json = |record: &CheckpointRecord| CheckpointJson::new(record, directory);
        let counts = view.counts;
        let in_progress = u64::try_from(view.n_in_progress).unwrap_or(u64::MAX);
        Self {
            counts: CountsJson {
                restored: view.restored,
                total: counts.completed + counts.failed + in_progress,
                in_progress: view.n_in_progress,
                completed: counts.completed,
                failed: counts.failed,
                refused: counts.refused,
            },
            summary: SummaryJson::new(&view.records),
            latest: LatestJson {
                completed: view.latest_completed.as_ref().and_then(json),
                savepoint: None,
                failed: view.latest_failed.as_ref().and_then(json),
                restored: view.latest_restored.map(|at| RestoredJson::new(at, view)),
            },
            history: view.records.iter().rev().filter_map(json).collect(),
        }
    }
}

impl RestoredJson {
    fn new(restored: RestoreRecord, view: &CheckpointsView) -> Self {
        let is_it = |record: &&CheckpointRecord| record.id == Some(restored.id);
        let known = view
            .records
            .iter()
            .chain(&view.latest_completed)
            .find(is_it);
        Self {
            id: restored.id.0,
            restore_timestamp: restored.restored_at.as_millis(),
            is_savepoint: false,
            external_path: known.and_then(|record| external_path(record, &view.directory)),
        }
    }
}

impl SummaryJson {
    fn new(records: &[CheckpointRecord]) -> Self {
        let completed = records
            .iter()
            .filter(|record| record.status == CheckpointStatus::Completed)
            .map(|record| (record, Totals::of(record.subtasks.values())));
        let completed: Vec<_> = completed.collect();
        let of = |value: fn(&CheckpointRecord, &Totals) -> i64| {
            Statistics::of(
                completed
                    .iter()
                    .map(|(record, totals)| value(record, totals)),
            )
        };
        Self {
            checkpointed_size: of(|_, totals| bytes(totals.new_bytes)),
            state_size: of(|record, totals| bytes(totals.state_bytes_of(record))),
            end_to_end_duration: of(|record, totals| totals.end_to_end(record)),
            // Aligned channels hold data back under credit; nothing is buffered beside them.
            alignment_buffered: of(|_, _| 0),
            processed_data: of(|_, totals| bytes(totals.processed_bytes)),
            persisted_data: of(|_, totals| bytes(totals.persisted_bytes)),
        }
    }
}

#[derive(Serialize)]
pub(crate) struct CheckpointJson {
    #[serde(rename = "className")]
    class_name: &'static str,
    id: u64,
    status: &'static str,
    is_savepoint: bool,
    #[serde(rename = "savepointFormat")]
    savepoint_format: Option<&'static str>,
    trigger_timestamp: i64,
    latest_ack_timestamp: i64,
    checkpointed_size: u64,
    state_size: u64,
    end_to_end_duration: i64,
    alignment_buffered: u64,
    processed_data: u64,
    persisted_data: u64,
    num_subtasks: usize,
    num_acknowledged_subtasks: usize,
    checkpoint_type: &'static str,
    /// By vertex.
    tasks: BTreeMap<String, TaskJson>,
    #[serde(flatten)]
    outcome: OutcomeJson,
}

/// What a checkpoint has besides, by how it ended.
#[derive(Serialize)]
#[serde(untagged)]
enum OutcomeJson {
    InProgress {},
    Completed {
        external_path: Option<String>,
        discarded: bool,
        /// From the last acknowledgement to the entry on the chain; ours.
        finalization_duration: i64,
    },
    Failed {
        failure_timestamp: i64,
        failure_message: Option<String>,
    },
}

#[derive(Serialize)]
pub(super) struct TaskJson {
    id: u64,
    status: &'static str,
    latest_ack_timestamp: i64,
    checkpointed_size: u64,
    state_size: u64,
    end_to_end_duration: i64,
    alignment_buffered: u64,
    processed_data: u64,
    persisted_data: u64,
    num_subtasks: usize,
    num_acknowledged_subtasks: usize,
}

impl CheckpointJson {
    /// None for one that was refused: it has no id, and Flink's readers need one.
    pub(super) fn new(record: &CheckpointRecord, directory: &str) -> Option<Self> {
        let id = record.id?;
        let totals = Totals::of(record.subtasks.values());
        let state_size = totals.state_bytes_of(record);
        let (class_name, status, outcome) = outcome(record, directory)?;
        Some(Self {
            class_name,
            id: id.0,
            status,
            is_savepoint: false,
            savepoint_format: None,
            trigger_timestamp: record.triggered_at.as_millis(),
            latest_ack_timestamp: millis_or_minus_one(totals.latest_ack_at),
            checkpointed_size: totals.new_bytes,
            state_size,
            end_to_end_duration: totals.end_to_end(record),
            alignment_buffered: 0,
            processed_data: totals.processed_bytes,
            persisted_data: totals.persisted_bytes,
            num_subtasks: totals.n_subtasks,
            num_acknowledged_subtasks: totals.n_acknowledged,
            checkpoint_type: if totals.is_unaligned {
                "UNALIGNED_CHECKPOINT"
            } else {
                "CHECKPOINT"
            },
            tasks: tasks(record),
            outcome,
        })
    }
}

fn outcome(
    record: &CheckpointRecord,
    directory: &str,
) -> Option<(&'static str, &'static str, OutcomeJson)> {
    Some(match record.status {
        CheckpointStatus::InProgress => ("in_progress", "IN_PROGRESS", OutcomeJson::InProgress {}),
        CheckpointStatus::Completed => {
            let outcome = OutcomeJson::Completed {
                external_path: external_path(record, directory),
                discarded: record.is_discarded,
                finalization_duration: record.finalization.map_or(-1, millis),
            };
            ("completed", "COMPLETED", outcome)
        }
        CheckpointStatus::Failed => {
            let failure = record.failure.as_ref();
            let outcome = OutcomeJson::Failed {
                failure_timestamp: millis_or_minus_one(failure.map(|f| f.failed_at)),
                failure_message: failure.map(|f| join_words(&f.reason.to_string(), &f.message)),
            };
            ("failed", "FAILED", outcome)
        }
        CheckpointStatus::Refused => return None,
    })
}

/// Reason and message, without saying the same twice.
pub(crate) fn join_words(reason: &str, message: &str) -> String {
    if message.is_empty() || message == reason {
        reason.to_owned()
    } else {
        format!("{reason} {message}")
    }
}

fn tasks(record: &CheckpointRecord) -> BTreeMap<String, TaskJson> {
    let mut by_vertex: BTreeMap<_, Vec<&SubtaskRecord>> = BTreeMap::new();
    for (subtask, row) in &record.subtasks {
        by_vertex.entry(subtask.vertex).or_default().push(row);
    }
    let tasks = by_vertex.into_iter().filter_map(|(vertex, rows)| {
        let task = TaskJson::new(record, rows.into_iter())?;
        Some((vertex.to_string(), task))
    });
    tasks.collect()
}

impl TaskJson {
    /// Of these subtasks; none if there is none, or the checkpoint was refused.
    pub(super) fn new<'a>(
        record: &CheckpointRecord,
        rows: impl Iterator<Item = &'a SubtaskRecord>,
    ) -> Option<Self> {
        let id = record.id?;
        let (_, status, _) = outcome(record, "")?;
        let totals = Totals::of(rows);
        let is_acknowledged = totals.n_acknowledged == totals.n_subtasks;
        (totals.n_subtasks > 0).then(|| Self {
            id: id.0,
            status: if is_acknowledged { "COMPLETED" } else { status },
            latest_ack_timestamp: millis_or_minus_one(totals.latest_ack_at),
            checkpointed_size: totals.new_bytes,
            state_size: totals.state_bytes,
            end_to_end_duration: totals
                .latest_ack_at
                .map_or(-1, |at| millis_between(record.triggered_at, at)),
            alignment_buffered: 0,
            processed_data: totals.processed_bytes,
            persisted_data: totals.persisted_bytes,
            num_subtasks: totals.n_subtasks,
            num_acknowledged_subtasks: totals.n_acknowledged,
        })
    }
}

/// The checkpoint's own directory, where its metadata lies.
fn external_path(record: &CheckpointRecord, directory: &str) -> Option<String> {
    let metadata = record.metadata.as_ref()?.as_str();
    let own = metadata.rsplit_once('/').map_or("", |(parent, _)| parent);
    Some(format!("{}/{own}", directory.trim_end_matches('/')))
}

/// What several subtasks acknowledged in time.
#[derive(Default)]
pub(crate) struct Totals {
    n_subtasks: usize,
    n_acknowledged: usize,
    state_bytes: u64,
    pub(crate) new_bytes: u64,
    processed_bytes: u64,
    persisted_bytes: u64,
    pub(crate) latest_ack_at: Option<WallTime>,
    pub(crate) is_unaligned: bool,
}

impl Totals {
    pub(crate) fn of<'a>(rows: impl IntoIterator<Item = &'a SubtaskRecord>) -> Self {
        let mut totals = Self::default();
        for row in rows {
            totals.n_subtasks += 1;
            let Some(ack) = row.acknowledged.filter(|ack| !ack.is_late) else {
                continue;
            };
            totals.n_acknowledged += 1;
            totals.state_bytes += ack.state_bytes;
            totals.new_bytes += ack.new_bytes;
            totals.processed_bytes += ack.metrics.processed_in_flight_bytes;
            totals.persisted_bytes += ack.metrics.persisted_in_flight_bytes;
            totals.latest_ack_at = totals.latest_ack_at.max(Some(ack.acknowledged_at));
            totals.is_unaligned |= ack.metrics.is_unaligned;
        }
        totals
    }

    /// All state of a completed one; what was acknowledged so far of another.
    fn state_bytes_of(&self, record: &CheckpointRecord) -> u64 {
        record.state_bytes.unwrap_or(self.state_bytes)
    }

    /// Milliseconds to the last acknowledgement, or to the failure; -1 before the first.
    pub(crate) fn end_to_end(&self, record: &CheckpointRecord) -> i64 {
        let failed_at = record.failure.as_ref().map(|failure| failure.failed_at);
        let end = failed_at.or(self.latest_ack_at);
        end.map_or(-1, |at| millis_between(record.triggered_at, at))
    }
}

fn bytes(bytes: u64) -> i64 {
    i64::try_from(bytes).unwrap_or(i64::MAX)
}
