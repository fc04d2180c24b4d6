//! The checkpoints of a job on the page, each with the phases of its subtasks.

use std::time::Duration;

use maud::{Markup, html};
use millstream_coordination::checkpoint::{CheckpointRecord, CheckpointStatus, SubtaskRecord};
use millstream_types::{SubtaskId, WallTime};

use super::format::{ago, bytes, millis, short, time};
use super::job::subtask_name;
use crate::json::{Totals, join_words};
use crate::view::{CheckpointsView, VertexView};

pub(super) fn section(view: &CheckpointsView, vertices: &[VertexView], now: WallTime) -> Markup {
    let counts = view.counts;
    let rows = newest_first(view);
    html! {
        h3 { "Checkpoints" }
        p {
            (counts.completed) " completed, " (view.n_in_progress) " in progress, "
            (counts.failed) " failed, " (counts.refused) " refused; restored " (view.restored)
            " times"
            @if let Some(restored) = view.latest_restored { ", last from " (restored.id) }
            "."
            @if let Some(latest) = &view.latest_completed {
                " Last completed: " (id(latest)) ", triggered " (ago(latest.triggered_at, now)) "."
            }
        }
        @if view.consecutive_failures > 0 {
            p.banner { (view.consecutive_failures) " counted failures in a row." }
        }
        @if rows.is_empty() {
            p { "None yet." }
        } @else {
            div.wide { table {
                thead { tr {
                    th { "Id" } th { "Status" } th { "Kind" } th { "Triggered" }
                    th { "End to end" } th { "State" } th { "Acknowledged" }
                } }
                tbody { @for record in &rows { (row(record)) } }
            } }
            @for (nth, record) in rows.iter().filter(|r| !r.subtasks.is_empty()).enumerate() {
                (phases(record, vertices, nth == 0 || record.status == CheckpointStatus::Failed))
            }
        }
    }
}

/// The newest rows, and behind them what left the ring but is still what one asks for.
fn newest_first(view: &CheckpointsView) -> Vec<&CheckpointRecord> {
    let mut rows: Vec<&CheckpointRecord> = view.records.iter().rev().collect();
    let mut pinned = [&view.latest_completed, &view.latest_failed].map(Option::as_ref);
    pinned.sort_by_key(|record| std::cmp::Reverse(record.map(|record| record.id)));
    for record in pinned.into_iter().flatten() {
        if rows.iter().all(|row| row.id != record.id) {
            rows.push(record);
        }
    }
    rows
}

fn id(record: &CheckpointRecord) -> String {
    record
        .id
        .map_or_else(|| "n/a".to_owned(), |id| id.to_string())
}

fn status(record: &CheckpointRecord) -> &'static str {
    match record.status {
        CheckpointStatus::InProgress => "IN_PROGRESS",
        CheckpointStatus::Completed => "COMPLETED",
        CheckpointStatus::Failed => "FAILED",
        CheckpointStatus::Refused => "REFUSED",
    }
}

fn row(record: &CheckpointRecord) -> Markup {
    let totals = Totals::of(record.subtasks.values());
    let (acknowledged, of) = record.acknowledged();
    html! { tr {
        td { (id(record)) @if record.is_discarded { " (discarded)" } }
        td.{ "s-" (status(record)) } { (status(record)) }
        td { (record.kind) @if totals.is_unaligned { ", unaligned" } }
        td { (time(record.triggered_at)) }
        td.n { @match totals.end_to_end(record) { -1 => "n/a", end_to_end => (millis(end_to_end)) } }
        td { (state_size(record)) }
        td.n { (acknowledged) " of " (of) }
    } }
}

/// No size where there is no checkpoint: 0 bytes is what a completed one without state has (A0-3).
fn state_size(record: &CheckpointRecord) -> String {
    if let Some(state_bytes) = record.state_bytes {
        let new_bytes = Totals::of(record.subtasks.values()).new_bytes;
        return match new_bytes < state_bytes {
            true => format!("{}, of them {} new", bytes(state_bytes), bytes(new_bytes)),
            false => bytes(state_bytes),
        };
    }
    match (&record.failure, record.status) {
        (Some(failure), _) => {
            let why = join_words(&failure.reason.to_string(), &failure.message);
            format!("n/a: {why}")
        }
        (None, CheckpointStatus::InProgress) => "n/a: in progress".to_owned(),
        (None, _) => "n/a".to_owned(),
    }
}

/// Open where it is likely to be read: the page is loaded anew and forgets what was opened by hand.
fn phases(record: &CheckpointRecord, vertices: &[VertexView], is_open: bool) -> Markup {
    let mut rows: Vec<(&SubtaskId, &SubtaskRecord)> = record.subtasks.iter().collect();
    // Those that did not acknowledge are what one looks for (A1-3).
    rows.sort_by_key(|(_, row)| row.acknowledged.is_some());
    html! { details open[is_open] {
        summary { "Subtasks of checkpoint " (id(record)) " (" (status(record)) ")" }
        @if let Some(finalization) = record.finalization {
            p { "Metadata and chain entry took " (short(finalization)) "." }
        }
        div.wide { table {
            thead { tr {
                th { "Subtask" } th { "Acknowledged" } th { "Start delay" } th { "Alignment" }
                th { "Pre-barrier" } th { "Synchronous" } th { "Asynchronous" } th { "State" }
            } }
            tbody { @for (subtask, row) in rows { (phase_row(*subtask, row, record, vertices)) } }
        } }
    } }
}

fn phase_row(
    subtask: SubtaskId,
    row: &SubtaskRecord,
    record: &CheckpointRecord,
    vertices: &[VertexView],
) -> Markup {
    let name = name(subtask, vertices);
    let Some(ack) = &row.acknowledged else {
        let activity = row.activity.as_deref().unwrap_or("nothing is known of it");
        return html! { tr {
            td { (name) " #" (row.attempt) }
            td colspan="7" { strong { "not acknowledged" } ": " (activity) }
        } };
    };
    let metrics = &ack.metrics;
    let cell = |time: Duration| html! { td.n { (short(time)) } };
    let after = ack.acknowledged_at.as_millis() - record.triggered_at.as_millis();
    html! { tr {
        td { (name) " #" (row.attempt) @if metrics.is_unaligned { " (unaligned)" } }
        td { "after " (millis(after.max(0))) @if ack.is_late { ", too late" } }
        (cell(metrics.start_delay))
        (cell(metrics.alignment))
        (cell(metrics.pre_barrier))
        (cell(metrics.synchronous))
        (cell(metrics.asynchronous))
        td.n { (bytes(ack.state_bytes)) }
    } }
}

fn name(subtask: SubtaskId, vertices: &[VertexView]) -> String {
    let vertex = vertices.iter().find(|vertex| vertex.id == subtask.vertex);
    let index = usize::try_from(subtask.index).unwrap_or(usize::MAX);
    match vertex {
        Some(vertex) => subtask_name(vertex, index),
        None => subtask.to_string(),
    }
}
