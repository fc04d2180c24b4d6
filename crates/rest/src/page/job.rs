//! One job on the page: how it ended, what failed, its vertices.

use maud::{Markup, html};
use millstream_coordination::failure::FailureRecord;
use millstream_coordination::job::ExecutionState;
use millstream_types::WallTime;

use super::checkpoints;
use super::format::{ago, bytes, time};
use crate::json::{EXECUTION_STATES, Io, vertex_status};
use crate::view::{CheckpointsView, FailuresView, JobView, VertexView};

pub(super) fn section(job: &JobView, checkpoints: &CheckpointsView, now: WallTime) -> Markup {
    html! {
        section {
            h2 { (job.row.name) " " small.{ "s-" (job.row.status) } { (job.row.status) } }
            @if let Some(ended) = &job.ended { p { (ended) } }
            @if let Some(wait) = &job.slot_wait {
                p {
                    "Waits for slots since " (time(wait.since)) " (" (ago(wait.since, now)) "): "
                    (wait.needed) " needed, " (wait.free) " free."
                }
            }
            (failures(&job.failures, now))
            (vertices(job))
            (checkpoints::section(checkpoints, &job.vertices, now))
        }
    }
}

/// States with their numbers, those without a task left out.
pub(super) fn state_counts(counts: impl Iterator<Item = (ExecutionState, usize)>) -> Markup {
    let present: Vec<String> = counts
        .filter(|(_, n)| *n > 0)
        .map(|(state, n)| format!("{n} {state}"))
        .collect();
    html! { (present.join(" / ")) }
}

fn vertices(job: &JobView) -> Markup {
    html! {
        h3 { "Vertices" }
        @if job.vertices.is_empty() {
            p { "n/a: the job ended under an earlier jobmanager, which kept them." }
        } @else {
            div.wide { table {
                thead { tr {
                    th { "Vertex" } th { "Status" } th { "Tasks" } th { "Records in" }
                    th { "Records out" } th { "Bytes in" } th { "Bytes out" }
                } }
                tbody { @for vertex in &job.vertices { (vertex_row(vertex)) } }
            } }
            @for (name, activity) in activities(job) { p { strong { (name) } ": " (activity) } }
        }
    }
}

fn vertex_row(vertex: &VertexView) -> Markup {
    let status = vertex_status(vertex);
    let io = Io::of(&vertex.subtasks);
    let n_in = |state| vertex.subtasks.iter().filter(|s| s.state == state).count();
    // A sum over some of the subtasks is a lower bound, and says so.
    let at_least = if io.is_complete() { "" } else { "≥ " };
    html! { tr {
        td { (vertex.name) }
        td.{ "s-" (status) } { (status) }
        td { (state_counts(EXECUTION_STATES.into_iter().map(|state| (state, n_in(state))))) }
        td.n { (at_least) (io.read_records) }
        td.n { (at_least) (io.write_records) }
        td.n { (at_least) (bytes(io.read_bytes)) }
        td.n { (at_least) (bytes(io.write_bytes)) }
    } }
}

fn activities(job: &JobView) -> Vec<(String, &str)> {
    let mut lasting = Vec::new();
    for vertex in &job.vertices {
        for (index, subtask) in vertex.subtasks.iter().enumerate() {
            if let Some(activity) = &subtask.activity {
                lasting.push((subtask_name(vertex, index), activity.as_str()));
            }
        }
    }
    lasting
}

/// As in logs: `counts (1/2)`.
pub(super) fn subtask_name(vertex: &VertexView, index: usize) -> String {
    format!("{} ({}/{})", vertex.name, index + 1, vertex.subtasks.len())
}

fn failures(failures: &FailuresView, now: WallTime) -> Markup {
    let Some(newest) = &failures.newest else {
        return html! {};
    };
    let first = failures.first.as_ref().filter(|first| *first != newest);
    html! {
        h3 { "Last failure" }
        (failure(newest, now))
        @if failures.n_concurrent > 0 {
            p { (failures.n_concurrent) " more tasks failed before the restart." }
        }
        @if let Some(first) = first {
            h3 { "First fault" }
            p { "The same cause occurred " (failures.repeated) " times in a row, first here:" }
            (failure(first, now))
        }
    }
}

fn failure(record: &FailureRecord, now: WallTime) -> Markup {
    let info = &record.failure;
    html! { div.failure {
        p {
            strong { (info.kind) } " " (time(record.failed_at)) " (" (ago(record.failed_at, now)) ")"
            @if let Some(task) = &record.task {
                " in " (task.name) " attempt " (task.attempt)
                @if let Some(taskmanager) = &task.taskmanager { " on " (taskmanager) }
            }
            @if let Some(operator) = &info.operator { ", operator " (operator) }
        }
        p { (info.message) }
        @for cause in &info.causes { p.cause { "because: " (cause) } }
        @if let Some(remedy) = &info.remedy { p { strong { "What to do: " } (remedy) } }
    } }
}
