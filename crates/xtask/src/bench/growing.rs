//! State that grows without end: what its checkpoints cost while it does.

use std::path::Path;
use std::thread::sleep;
use std::time::Duration;

use serde_json::Value;

use super::ours::Cluster;
use super::outcome::{CHECKPOINTS_MIN, Checkpoints, Outcome};
use super::proc;
use super::tools::rest;
use crate::report::Failure;

/// A side has grown enough when a checkpoint is as large as this, of several.
pub const STATE_BYTES: u64 = 500 << 20;
/// Or when it had so much time.
pub const PATIENCE: Duration = Duration::from_secs(240);
/// Rows a second at most, on either side.
pub const RATE: u64 = 60_000;

impl Cluster {
    /// Runs a job until its state is large, then cancels it.
    pub fn measure_growing(&mut self, job: &Path) -> Result<Outcome, Failure> {
        let mut meter = proc::Meter::start(&self.ids());
        let id = self.submit(job)?;
        let checkpoints = loop {
            sleep(Duration::from_millis(500));
            meter.look(&self.ids());
            let checkpoints = rest(self.rest_port(), &format!("/jobs/{id}/checkpoints"));
            let size = checkpoints["latest"]["completed"]["state_size"].as_u64();
            let is_large = size.unwrap_or(0) >= STATE_BYTES;
            let completed = Checkpoints::of(&checkpoints).completed;
            if is_large && completed >= CHECKPOINTS_MIN || meter.elapsed() > PATIENCE {
                break checkpoints;
            }
        };
        let measured = meter.stop(&self.ids());
        let details = rest(self.rest_port(), &format!("/jobs/{id}"));
        if details["state"] != "RUNNING" {
            let state = &details["state"];
            return Err(Failure::Unexpected(format!(
                "job {id} is {state}: see its jobmanager's log"
            )));
        }
        let keyed = last_vertex(&details)?;
        let synchronous = self.synchronous_ms(&id, &keyed["id"], &checkpoints);
        self.cancel(&id)?;
        Ok(Outcome {
            rows: keyed["metrics"]["read-records"].as_u64().unwrap_or(0),
            checkpoints: Some(Checkpoints {
                synchronous_ms: middle(synchronous),
                ..Checkpoints::of(&checkpoints)
            }),
            ..measured
        })
    }

    /// The synchronous part of each completed checkpoint, of its slowest subtask.
    fn synchronous_ms(&self, job: &str, vertex: &Value, checkpoints: &Value) -> Vec<f64> {
        let history = checkpoints["history"]
            .as_array()
            .map(Vec::as_slice)
            .unwrap_or_default();
        let completed = history.iter().filter(|row| row["status"] == "COMPLETED");
        let of = |row: &Value| {
            let vertex = vertex.as_str()?;
            let path = format!(
                "/jobs/{job}/checkpoints/details/{}/subtasks/{vertex}",
                row["id"]
            );
            rest(self.rest_port(), &path)["summary"]["checkpoint_duration"]["sync"]["max"].as_f64()
        };
        completed.filter_map(of).collect()
    }
}

fn last_vertex(details: &Value) -> Result<Value, Failure> {
    let vertices = details["vertices"]
        .as_array()
        .and_then(|vertices| vertices.last().cloned());
    vertices.ok_or_else(|| Failure::Unexpected(format!("a job without vertices: {details}")))
}

/// The median, the lower of two.
pub fn middle(mut values: Vec<f64>) -> Option<f64> {
    values.sort_by(f64::total_cmp);
    values.get(values.len().saturating_sub(1) / 2).copied()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_job_makes_as_many_rows_as_flink_is_told_to() {
        let job = crate::workspace_root().join("tests/bench/jobs/growing-state.yaml");
        let text = std::fs::read_to_string(job).unwrap();
        assert!(text.contains(&format!("rate: {RATE}\n")), "{text}");
    }

    #[test]
    fn the_middle_is_one_of_the_values() {
        assert_eq!(middle(vec![3.0, 1.0, 2.0]), Some(2.0));
        assert_eq!(middle(vec![4.0, 1.0]), Some(1.0));
        assert_eq!(middle(vec![]), None);
    }
}
