//! Many seeds, each in a process of its own: nothing of one run reaches another, and a run that
//! goes round in circles can be ended.

use std::fs::File;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::Mutex;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

/// This program, also when a build has put another in its place.
const PROGRAM: &str = "/proc/self/exe";
/// Real time for one seed.
const SEED_TIMEOUT: Duration = Duration::from_secs(240);
const POLL: Duration = Duration::from_millis(20);

/// How one seed is run.
#[derive(Clone, Debug, Default)]
pub struct Job {
    /// Variables of its process.
    pub variables: Vec<(&'static str, String)>,
}

impl Job {
    /// This seed with all that belongs to it.
    pub fn seed(seed: u64) -> Self {
        let variables = vec![("SIM_SEED", seed.to_string())];
        Self { variables }
    }

    /// This scenario.
    pub fn scenario(file: &Path) -> Self {
        let variables = vec![("SIM_SCENARIO", file.display().to_string())];
        Self { variables }
    }

    /// With one more variable.
    pub fn with(mut self, name: &'static str, value: &str) -> Self {
        self.variables.push((name, value.to_owned()));
        self
    }

    fn name(&self) -> String {
        let all = self.variables.iter();
        let all: Vec<String> = all.map(|(name, value)| format!("{name}={value}")).collect();
        all.join(" ")
    }
}

/// Runs all of them, as many at once as there are processors. Results are in the order of the jobs.
pub fn run(jobs: &[Job]) -> Vec<Value> {
    let dir = tempfile::tempdir().unwrap();
    let next = Mutex::new(0..jobs.len());
    let results = Mutex::new(vec![Value::Null; jobs.len()]);
    let n_workers = std::thread::available_parallelism().map_or(1, usize::from);
    std::thread::scope(|scope| {
        for _ in 0..n_workers.min(jobs.len()) {
            scope.spawn(|| {
                loop {
                    let Some(index) = next.lock().unwrap().next() else {
                        return;
                    };
                    let result = run_one(&jobs[index], &dir.path().join(index.to_string()));
                    results.lock().unwrap()[index] = result;
                }
            });
        }
    });
    results.into_inner().unwrap()
}

fn run_one(job: &Job, scratch: &Path) -> Value {
    let (result, output) = (
        scratch.with_extension("result"),
        scratch.with_extension("out"),
    );
    let out = File::create(&output).unwrap();
    let mut command = Command::new(PROGRAM);
    command
        .args(["one_seed", "--exact", "--nocapture", "--test-threads=1"])
        .envs(job.variables.iter().map(|(name, value)| (name, value)))
        .env("SIM_RESULT", &result)
        .stdin(Stdio::null())
        .stderr(out.try_clone().unwrap())
        .stdout(out);
    let is_in_time = wait(&mut command.spawn().unwrap());
    let mut found = match std::fs::read(&result) {
        Ok(bytes) => serde_json::from_slice(&bytes).unwrap(),
        Err(_) => {
            let text = std::fs::read_to_string(&output).unwrap_or_default();
            let why = match is_in_time {
                true => "it ended without a result",
                false => "it did not end: its time stands still, or it is too much for it",
            };
            let tail: Vec<&str> = text.lines().rev().take(30).collect();
            json!({ "violations": [why], "output": tail })
        }
    };
    found["run"] = job.name().into();
    found
}

/// Whether the process ended by itself.
fn wait(child: &mut Child) -> bool {
    let begun = Instant::now();
    while child.try_wait().unwrap().is_none() {
        if begun.elapsed() > SEED_TIMEOUT {
            child.kill().unwrap();
            child.wait().unwrap();
            return false;
        }
        std::thread::sleep(POLL);
    }
    true
}

/// Whether nothing is wrong with a result.
pub fn holds(result: &Value) -> bool {
    result["violations"].as_array().is_some_and(Vec::is_empty)
}

/// Fails with everything that is wrong.
pub fn assert_all_hold(results: &[Value]) {
    let broken: Vec<String> = results
        .iter()
        .filter(|result| !holds(result))
        .map(|result| format!("{}: {:#}", result["run"], result["violations"]))
        .collect();
    assert!(
        broken.is_empty(),
        "{} of {} runs are wrong; see one with: SIM_SEED=… cargo nextest run --cargo-profile ci \
         -E 'binary(sim) & test(one_seed)' --no-capture\n{}",
        broken.len(),
        results.len(),
        broken.join("\n")
    );
}
