//! How soon a cluster is there, how soon a job runs, and what both take while nothing happens.

use std::path::Path;
use std::thread::sleep;
use std::time::Duration;

use serde_json::Value;

use super::ours::Cluster;
use super::proc;
use super::tools::rest;
use crate::report::Failure;

/// How long an idle cluster is watched, with a job and without.
const IDLE: Duration = Duration::from_secs(20);
/// Jobs that are submitted, one after the other.
const SUBMISSIONS: usize = 5;

/// What was seen.
#[derive(Clone, PartialEq, Debug)]
pub struct Startup {
    /// From the start of the first process to registered slots.
    pub slots: Duration,
    /// From the start of the client to all tasks running, each time.
    pub running: Vec<Duration>,
    /// Cores that the daemons use without a job.
    pub idle_cores: f64,
    /// Cores that they use with a job of one row a second.
    pub waiting_cores: f64,
    /// Memory of all processes with that job.
    pub waiting_mib: u64,
}

impl Cluster {
    /// Submits a job without work several times, and watches the cluster with it and without.
    pub fn measure_startup(&mut self, root: &Path) -> Result<Startup, Failure> {
        let job = root.join("tests/bench/jobs/idle.yaml");
        let (idle_cores, _) = self.watch();
        let mut running = Vec::new();
        let mut waiting = (0.0, 0);
        for submission in 1..=SUBMISSIONS {
            let begun = proc::now();
            let id = self.submit(&job)?;
            let port = self.rest_port();
            self.until("all tasks run", |_| {
                all_run(&rest(port, &format!("/jobs/{id}")))
            })?;
            running.push(begun.elapsed());
            if submission == SUBMISSIONS {
                waiting = self.watch();
            }
            self.cancel(&id)?;
        }
        Ok(Startup {
            slots: self.started_in(),
            running,
            idle_cores,
            waiting_cores: waiting.0,
            waiting_mib: waiting.1,
        })
    }

    /// Cores and memory of all processes over a while.
    fn watch(&self) -> (f64, u64) {
        let mut meter = proc::Meter::start(&self.ids());
        sleep(IDLE);
        meter.look(&self.ids());
        let used = meter.stop(&self.ids());
        (used.cpu_seconds / used.seconds, used.peak_rss_mib)
    }
}

fn all_run(details: &Value) -> bool {
    let vertices = details["vertices"].as_array();
    let is_running = |vertex: &Value| vertex["tasks"]["RUNNING"] == vertex["parallelism"];
    vertices.is_some_and(|vertices| !vertices.is_empty() && vertices.iter().all(is_running))
}

impl Startup {
    /// What it had to reach, and whether it did.
    pub fn remarks(&self) -> [String; 3] {
        let verdict = |reached: bool| if reached { "reached" } else { "**missed**" };
        let ms = |time: &Duration| time.as_millis();
        let all: Vec<_> = self
            .running
            .iter()
            .map(|time| ms(time).to_string())
            .collect();
        let mut sorted = self.running.clone();
        sorted.sort_unstable();
        let middle = sorted
            .get(sorted.len() / 2)
            .copied()
            .unwrap_or(Duration::MAX);
        [
            format!(
                "cold start: slots registered {} ms after the first process was started, of 1,000: {}",
                ms(&self.slots),
                verdict(self.slots < Duration::from_secs(1)),
            ),
            format!(
                "submission: all tasks run {} ms after the client was started, of 300 in the middle: {}",
                all.join(", "),
                verdict(middle < Duration::from_millis(300)),
            ),
            format!(
                "idle: {:.2} % of a core without a job, {:.2} % with one of a row a second that \
                 takes checkpoints ({} MiB in all processes), of 1 %: {}",
                self.idle_cores * 100.0,
                self.waiting_cores * 100.0,
                self.waiting_mib,
                verdict(self.idle_cores < 0.01),
            ),
        ]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_job_runs_when_every_task_of_every_vertex_does() {
        let job = |running: u64| {
            serde_json::json!({"vertices": [
                {"parallelism": 2, "tasks": {"RUNNING": 2}},
                {"parallelism": 2, "tasks": {"RUNNING": running}},
            ]})
        };
        assert!(all_run(&job(2)));
        assert!(!all_run(&job(1)));
        assert!(!all_run(&Value::Null));
        assert!(!all_run(&serde_json::json!({"vertices": []})));
    }

    #[test]
    fn what_is_missed_is_said() {
        let ms = Duration::from_millis;
        let startup = Startup {
            slots: ms(400),
            running: vec![ms(900), ms(200), ms(250)],
            idle_cores: 0.004,
            waiting_cores: 0.02,
            waiting_mib: 60,
        };
        let [cold, submission, idle] = startup.remarks();
        assert!(cold.ends_with("started, of 1,000: reached"), "{cold}");
        assert!(submission.contains("900, 200, 250 ms"), "{submission}");
        assert!(submission.ends_with("reached"), "{submission}");
        assert!(
            idle.contains("0.40 % of a core") && idle.ends_with("reached"),
            "{idle}"
        );
        let slow = Startup {
            slots: ms(1_000),
            running: vec![ms(300)],
            idle_cores: 0.01,
            ..startup
        };
        assert!(
            slow.remarks()
                .iter()
                .all(|line| line.ends_with("**missed**"))
        );
    }
}
