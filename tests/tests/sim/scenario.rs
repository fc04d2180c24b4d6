//! Runs that somebody wrote down: workload, faults, and the paths that must be taken.

use std::path::{Path, PathBuf};
use std::time::Duration;

use millstream_testkit::Faults;
use serde_yaml::Value;

use crate::disk::DiskFaults;
use crate::faults::{Act, Timeline};
use crate::options::Options;

/// A scenario, read from `tests/sim/scenarios/`.
pub struct Scenario {
    pub options: Options,
    pub timeline: Timeline,
    /// Paths of [`crate::journal::PATHS`], acts and faults that must occur.
    pub expect: Vec<String>,
}

/// All scenario files, in order of their names.
pub fn files() -> Vec<PathBuf> {
    let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("sim/scenarios");
    let entries = std::fs::read_dir(dir).unwrap();
    let mut files: Vec<PathBuf> = entries.map(|entry| entry.unwrap().path()).collect();
    files.sort();
    files
}

impl Scenario {
    /// Reads a file; what it does not know it refuses.
    pub fn read(path: &Path) -> Self {
        let text = std::fs::read_to_string(path).unwrap();
        let file: Value = serde_yaml::from_str(&text).unwrap();
        let mut options = Options::of(1).without_faults();
        let mut scenario = Self {
            timeline: Timeline::default(),
            expect: Vec::new(),
            options: options.clone(),
        };
        for (key, value) in entries(&file) {
            match key.as_str() {
                "about" => assert!(value.is_string(), "{key}"),
                "cluster" => entries(value).for_each(|(key, value)| set(&mut options, &key, value)),
                "store" => entries(value).for_each(|(key, value)| {
                    set_store(&mut options.store, &key, number(value));
                }),
                "disk" => entries(value).for_each(|(key, value)| {
                    set_disk(&mut options.disk, &key, number(value));
                }),
                "faults" => entries(value).for_each(|(at, act)| {
                    let act = act.as_str().unwrap().parse::<Act>();
                    let act = act.unwrap_or_else(|error| panic!("{path:?}: {error}"));
                    scenario.timeline.at(seconds(&at), act);
                }),
                "expect" => {
                    let paths = value.as_sequence().unwrap().iter();
                    let paths = paths.map(|path| path.as_str().unwrap().to_owned());
                    scenario.expect.extend(paths);
                }
                _ => panic!("{path:?}: {key:?} is no part of a scenario"),
            }
        }
        scenario.options = options;
        scenario
    }
}

fn entries(value: &Value) -> impl Iterator<Item = (String, &Value)> {
    let mapping = value.as_mapping().unwrap().iter();
    mapping.map(|(key, value)| {
        let text = key.as_str().map(str::to_owned);
        (text.unwrap_or_else(|| number(key).to_string()), value)
    })
}

fn number(value: &Value) -> f64 {
    value.as_f64().unwrap_or_else(|| panic!("{value:?}"))
}

fn seconds(text: &str) -> Duration {
    Duration::from_secs_f64(text.parse().unwrap_or_else(|_| panic!("{text:?}")))
}

fn set(options: &mut Options, key: &str, value: &Value) {
    let value = number(value);
    let seconds = || Duration::from_secs_f64(value);
    match key {
        "seed" => options.seed = value as u64,
        "taskmanagers" => options.taskmanagers = value as u32,
        "slots" => options.slots = value as u32,
        "parallelism" => options.parallelism = value as u32,
        "keys" => options.keys = value as u64,
        "rows" => options.rows = value as u64,
        "rate" => options.rate = value as u64,
        "inline-bytes" => options.inline_bytes = value as u64,
        "checkpoint-interval" => options.checkpoint_interval = seconds(),
        "checkpoint-timeout" => options.checkpoint_timeout = seconds(),
        "heartbeat-interval" => options.heartbeat_interval = seconds(),
        "heartbeat-timeout" => options.heartbeat_timeout = seconds(),
        "restart-delay" => options.restart_delay = seconds(),
        "chaos" => options.chaos = seconds(),
        _ => panic!("{key:?} is no option of a scenario"),
    }
}

fn set_store(faults: &mut Faults, key: &str, probability: f64) {
    let fault = match key {
        "delay" => &mut faults.delay,
        "error-before" => &mut faults.error_before,
        "error-after" => &mut faults.error_after,
        "lands-late" => &mut faults.lands_late,
        "read-error" => &mut faults.read_error,
        "stale-list" => &mut faults.stale_list,
        "burst" => &mut faults.burst,
        "delete-error" => &mut faults.delete_error,
        "part-error" => &mut faults.part_error,
        "stall" => &mut faults.stall,
        "answer-stall" => &mut faults.answer_stall,
        _ => panic!("{key:?} is no fault of a store"),
    };
    *fault = probability;
}

fn set_disk(faults: &mut DiskFaults, key: &str, probability: f64) {
    match key {
        "error-before" => faults.error_before = probability,
        "error-after" => faults.error_after = probability,
        _ => panic!("{key:?} is no fault of a disk"),
    }
}
