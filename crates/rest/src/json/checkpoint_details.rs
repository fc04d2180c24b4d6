//! `/jobs/:id/checkpoints/details/:checkpoint` and `…/subtasks/:vertex`.

use std::time::Duration;

use millstream_coordination::checkpoint::{AckRecord, CheckpointRecord, SubtaskRecord};
use millstream_types::VertexId;
use serde::Serialize;

use super::checkpoints::{CheckpointJson, TaskJson};
use super::statistics::Statistics;
use super::{millis, millis_between};

/// One checkpoint of the history; none if it was refused.
pub(crate) fn details(record: &CheckpointRecord, directory: &str) -> Option<CheckpointJson> {
    CheckpointJson::new(record, directory)
}

/// One vertex of a checkpoint, subtask by subtask.
#[derive(Serialize)]
pub(crate) struct SubtasksJson {
    #[serde(flatten)]
    task: TaskJson,
    summary: SummaryJson,
    subtasks: Vec<SubtaskJson>,
}

#[derive(Serialize)]
struct SummaryJson {
    checkpointed_size: Statistics,
    state_size: Statistics,
    end_to_end_duration: Statistics,
    checkpoint_duration: PhasesJson<Statistics>,
    alignment: AlignmentJson<Statistics>,
    start_delay: Statistics,
}

/// The two parts of taking a snapshot, in milliseconds.
#[derive(Serialize)]
struct PhasesJson<T> {
    sync: T,
    r#async: T,
    /// In the operators' hook before the barrier went out; ours.
    pre_barrier: T,
}

/// Bytes, and milliseconds from the first barrier to the last.
#[derive(Serialize)]
struct AlignmentJson<T> {
    buffered: T,
    processed: T,
    persisted: T,
    duration: T,
}

#[derive(Serialize)]
struct SubtaskJson {
    index: u32,
    status: &'static str,
    #[serde(flatten)]
    acknowledged: Option<AcknowledgedJson>,
}

#[derive(Serialize)]
struct AcknowledgedJson {
    ack_timestamp: i64,
    end_to_end_duration: i64,
    checkpointed_size: i64,
    state_size: i64,
    checkpoint: PhasesJson<i64>,
    alignment: AlignmentJson<i64>,
    start_delay: i64,
    unaligned_checkpoint: bool,
    /// It came after the checkpoint had been given up.
    aborted: bool,
}

impl SubtasksJson {
    /// None if the checkpoint was refused, or has no such vertex.
    pub(crate) fn new(record: &CheckpointRecord, vertex: &str) -> Option<Self> {
        let is_it = |id: VertexId| id.to_string() == vertex;
        let rows = record.subtasks.iter().filter(|(id, _)| is_it(id.vertex));
        let rows: Vec<_> = rows.map(|(id, row)| (id.index, row)).collect();
        let task = TaskJson::new(record, rows.iter().map(|(_, row)| *row))?;
        let acknowledged = rows.iter().filter_map(|(_, row)| row.acknowledged);
        let acknowledged: Vec<_> = acknowledged
            .filter(|ack| !ack.is_late)
            .map(|ack| AcknowledgedJson::new(record, &ack))
            .collect();
        Some(Self {
            task,
            summary: SummaryJson::new(&acknowledged),
            subtasks: rows
                .iter()
                .map(|(index, row)| SubtaskJson::new(record, *index, row))
                .collect(),
        })
    }
}

impl SummaryJson {
    fn new(acknowledged: &[AcknowledgedJson]) -> Self {
        let of =
            |value: fn(&AcknowledgedJson) -> i64| Statistics::of(acknowledged.iter().map(value));
        Self {
            checkpointed_size: of(|ack| ack.checkpointed_size),
            state_size: of(|ack| ack.state_size),
            end_to_end_duration: of(|ack| ack.end_to_end_duration),
            checkpoint_duration: PhasesJson {
                sync: of(|ack| ack.checkpoint.sync),
                r#async: of(|ack| ack.checkpoint.r#async),
                pre_barrier: of(|ack| ack.checkpoint.pre_barrier),
            },
            alignment: AlignmentJson {
                buffered: of(|ack| ack.alignment.buffered),
                processed: of(|ack| ack.alignment.processed),
                persisted: of(|ack| ack.alignment.persisted),
                duration: of(|ack| ack.alignment.duration),
            },
            start_delay: of(|ack| ack.start_delay),
        }
    }
}

impl SubtaskJson {
    fn new(record: &CheckpointRecord, index: u32, row: &SubtaskRecord) -> Self {
        let acknowledged = row.acknowledged;
        Self {
            index,
            status: match acknowledged {
                Some(_) => "completed",
                None => "pending_or_failed",
            },
            acknowledged: acknowledged.map(|ack| AcknowledgedJson::new(record, &ack)),
        }
    }
}

impl AcknowledgedJson {
    fn new(record: &CheckpointRecord, ack: &AckRecord) -> Self {
        let metrics = &ack.metrics;
        let bytes = |bytes: u64| i64::try_from(bytes).unwrap_or(i64::MAX);
        let ms = |duration: Duration| millis(duration);
        Self {
            ack_timestamp: ack.acknowledged_at.as_millis(),
            end_to_end_duration: millis_between(record.triggered_at, ack.acknowledged_at),
            checkpointed_size: bytes(ack.new_bytes),
            state_size: bytes(ack.state_bytes),
            checkpoint: PhasesJson {
                sync: ms(metrics.synchronous),
                r#async: ms(metrics.asynchronous),
                pre_barrier: ms(metrics.pre_barrier),
            },
            alignment: AlignmentJson {
                // Aligned channels hold data back under credit; nothing is buffered beside them.
                buffered: 0,
                processed: bytes(metrics.processed_in_flight_bytes),
                persisted: bytes(metrics.persisted_in_flight_bytes),
                duration: ms(metrics.alignment),
            },
            start_delay: ms(metrics.start_delay),
            unaligned_checkpoint: metrics.is_unaligned,
            aborted: ack.is_late,
        }
    }
}
