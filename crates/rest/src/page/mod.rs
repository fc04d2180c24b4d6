//! The page: plain HTML over the same facts as the JSON, made to be read on a phone as well.

mod checkpoints;
mod format;
mod job;

use maud::{DOCTYPE, Markup, html};
use millstream_types::{JobId, WallTime};

use crate::view::{CheckpointsView, ClusterSummary, JobRow, JobView, TaskmanagerView};
use format::{ago, duration, time};

/// Jobs whose details are shown without being asked for; the list always has all.
const OPEN_JOBS_MAX: usize = 5;

/// All that the page shows.
pub(crate) struct Facts {
    pub(crate) now: WallTime,
    pub(crate) summary: ClusterSummary,
    pub(crate) rows: Vec<JobRow>,
    pub(crate) open: Vec<(JobView, CheckpointsView)>,
    pub(crate) taskmanagers: Vec<TaskmanagerView>,
}

/// The jobs to show in detail where none was chosen: those that have not ended first, then the
/// newest, so that a job that just finished can still be read.
pub(crate) fn open_jobs(rows: &[JobRow]) -> Vec<JobId> {
    let mut order: Vec<&JobRow> = rows.iter().collect();
    order.sort_by_key(|row| (row.ended_at.is_some(), -row.started_at.as_millis(), row.id));
    let newest = order.into_iter().take(OPEN_JOBS_MAX);
    newest.map(|row| row.id).collect()
}

pub(crate) fn render(facts: &Facts) -> Markup {
    html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta name="viewport" content="width=device-width, initial-scale=1";
                meta http-equiv="refresh" content="5";
                title { "Millstream" }
                link rel="stylesheet" href="/style.css";
            }
            body {
                header {
                    h1 { a href="/" { "Millstream" } }
                    (summary(&facts.summary))
                }
                main {
                    (jobs(facts))
                    @for (view, checkpoints) in &facts.open {
                        (job::section(view, checkpoints, facts.now))
                    }
                    (taskmanagers(facts))
                }
                footer { "As of " (time(facts.now)) ", renewed every 5 s. Version " (env!("CARGO_PKG_VERSION")) }
            }
        }
    }
}

fn summary(summary: &ClusterSummary) -> Markup {
    html! {
        @if summary.is_recovering {
            p.banner { "Stored jobs are still being looked for: the list may be incomplete." }
        }
        p {
            (summary.taskmanagers) " taskmanagers, " (summary.slots_available) " of "
            (summary.slots_total) " slots free. Jobs: " (summary.jobs_running) " running, "
            (summary.jobs_finished) " finished, " (summary.jobs_cancelled) " cancelled, "
            (summary.jobs_failed) " failed"
            @if summary.jobs_suspended > 0 { ", " (summary.jobs_suspended) " suspended" }
            "."
        }
    }
}

fn jobs(facts: &Facts) -> Markup {
    html! {
        h2 { "Jobs" }
        @if facts.rows.is_empty() {
            p { "None yet: " code { "millstream run job.yaml" } " submits one." }
        } @else {
            div.wide { table {
                thead { tr {
                    th { "Name" } th { "State" } th { "Started" } th { "Duration" }
                    th { "Tasks" } th { "Restarts" } th { "Id" }
                } }
                tbody { @for row in &facts.rows { tr {
                    td { a href={ "/?job=" (row.id) } { (row.name) } }
                    td.{ "s-" (row.status) } { (row.status) }
                    td { (time(row.started_at)) }
                    td { (duration(row.started_at, row.ended_at.unwrap_or(facts.now))) }
                    td { (job::state_counts(row.tasks.iter().map(|(state, n)| (*state, *n)))) }
                    td { (row.restarts) }
                    td { code { (row.id) } }
                } } }
            } }
        }
    }
}

fn taskmanagers(facts: &Facts) -> Markup {
    html! {
        h2 { "Taskmanagers" }
        @if facts.taskmanagers.is_empty() {
            p { "None is registered: jobs wait for slots." }
        } @else {
            div.wide { table {
                thead { tr {
                    th { "Id" } th { "Host" } th { "Slots free" } th { "Connected" }
                    th { "Heard" } th { "Registered" } th { "Process" } th { "Version" }
                } }
                tbody { @for taskmanager in &facts.taskmanagers { tr {
                    td { code { (taskmanager.id) } }
                    td { (taskmanager.host) " (" (taskmanager.advertised_host) ")" }
                    td { (taskmanager.slots_available) " of " (taskmanager.slots_total) }
                    td { @if taskmanager.is_connected { "yes" } @else { strong { "no" } } }
                    td { (ago(taskmanager.heard_at, facts.now)) }
                    td { (time(taskmanager.registered_at)) }
                    td { (taskmanager.pid) }
                    td { (taskmanager.version) }
                } } }
            } }
        }
    }
}
