//! A whole cluster in one thread, the same again from the same seed: real daemons, real gRPC, on a
//! simulated network, simulated disks and a simulated object store, all of which fail as a seed says.
//!
//! `SIM_SEED=1234` runs one seed and prints what happened; `SIM_SEEDS=1000..1300` many, each in a
//! process of its own; `SIM_LEDGER=1` notes in `tests/ledger/simulation.tsv` what ran.

#![allow(
    clippy::unwrap_used,
    clippy::disallowed_methods,
    reason = "tests; processes that run seeds take real time"
)]

#[path = "sim/acts.rs"]
mod acts;
#[path = "sim/batch.rs"]
mod batch;
#[path = "sim/chain.rs"]
mod chain;
#[path = "sim/clock.rs"]
mod clock;
#[path = "sim/disk.rs"]
mod disk;
#[path = "sim/entropy.rs"]
mod entropy;
#[path = "sim/faults.rs"]
mod faults;
#[path = "sim/host.rs"]
mod host;
#[path = "sim/journal.rs"]
mod journal;
#[path = "sim/judge.rs"]
mod judge;
#[path = "sim/ledger.rs"]
mod ledger;
#[path = "sim/leftovers.rs"]
mod leftovers;
#[path = "sim/net.rs"]
mod net;
#[path = "sim/options.rs"]
mod options;
#[path = "sim/output.rs"]
mod output;
#[path = "sim/panics.rs"]
mod panics;
#[path = "sim/recorder.rs"]
mod recorder;
#[path = "sim/run.rs"]
mod run;
#[path = "sim/sabotage.rs"]
mod sabotage;
#[path = "sim/scenario.rs"]
mod scenario;
#[path = "sim/self_test.rs"]
mod self_test;
#[path = "sim/store.rs"]
mod store;
#[path = "sim/stray.rs"]
mod stray;
#[path = "sim/user.rs"]
mod user;
#[path = "sim/world.rs"]
mod world;

use std::collections::BTreeMap;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use batch::Job;
use faults::Timeline;
use options::Options;
use run::Report;
use scenario::Scenario;
use serde_json::{Value, json};

/// Lines of a broken run that are shown.
const TAIL: usize = 200;
/// New seeds of a run of CI.
const NEW_SEEDS: u64 = 300;

/// Runs a seed in a thread of its own, whose randomness follows from it too.
fn simulate(options: Options, timeline: Timeline) -> Report {
    entropy::seed(options.seed);
    let thread = std::thread::Builder::new()
        .name("simulation".to_owned())
        .stack_size(32 << 20);
    let running = thread.spawn(move || run::run(options, timeline)).unwrap();
    match running.join() {
        Ok(report) => report,
        Err(panic) => std::panic::resume_unwind(panic),
    }
}

fn variable(name: &str) -> Option<String> {
    std::env::var(name).ok()
}

/// What one process runs, with the rule taken away that is named.
fn chosen() -> (Options, Timeline) {
    let (mut options, timeline) = chosen_run();
    if let Some(name) = variable(sabotage::VARIABLE) {
        options.sabotage = sabotage::without(&name);
    }
    (options, timeline)
}

fn chosen_run() -> (Options, Timeline) {
    if let Some(file) = variable("SIM_SCENARIO") {
        let scenario = Scenario::read(Path::new(&file));
        return (scenario.options, scenario.timeline);
    }
    let seed = variable("SIM_SEED").map_or(1, |seed| seed.parse().unwrap());
    let mut options = Options::of(seed);
    if variable("SIM_FAULTS").as_deref() == Some("none") {
        options = options.without_faults();
    }
    let timeline = Timeline::of(&options);
    (options, timeline)
}

// Every other test of this file runs its seeds through this one.
#[test]
fn one_seed() {
    let (options, timeline) = chosen();
    let seed = options.seed;
    println!("{options}\n{timeline:#?}");
    let report = simulate(options, timeline);
    let is_chosen = variable("SIM_SEED").or(variable("SIM_SCENARIO")).is_some();
    let is_talk = is_chosen && variable("SIM_RESULT").is_none();
    if is_talk || !report.violations.is_empty() {
        let lines = if is_talk { usize::MAX } else { TAIL };
        println!("{}", report.journal.tail(lines).join("\n"));
        println!("{:#?}", report.paths);
    }
    let hash = format!("{:016x}", report.hash);
    println!(
        "seed {seed}: {} rows in {:?}, log {hash}",
        report.n_rows, report.elapsed
    );
    if let Some(path) = variable("SIM_RESULT") {
        let result = json!({
            "seed": seed,
            "hash": hash,
            "seconds": report.elapsed.as_secs(),
            "rows": report.n_rows,
            "violations": report.violations,
            "paths": report.paths,
        });
        std::fs::write(path, result.to_string()).unwrap();
    }
    assert!(report.violations.is_empty(), "{:#?}", report.violations);
}

#[test]
fn without_faults_a_seed_gives_the_same_log_in_two_processes() {
    let jobs: Vec<Job> = [1, 1, 2, 2]
        .into_iter()
        .map(|seed| Job::seed(seed).with("SIM_FAULTS", "none"))
        .collect();
    let results = batch::run(&jobs);
    batch::assert_all_hold(&results);
    assert_eq!(results[0]["hash"], results[1]["hash"]);
    assert_eq!(results[2]["hash"], results[3]["hash"]);
    assert_ne!(results[0]["hash"], results[2]["hash"]);
}

#[test]
fn what_was_written_down_holds() {
    let files = scenario::files();
    let jobs: Vec<Job> = files.iter().map(|file| Job::scenario(file)).collect();
    let results = batch::run(&jobs);
    batch::assert_all_hold(&results);
    for (file, result) in files.iter().zip(&results) {
        for path in Scenario::read(file).expect {
            let is_taken = result["paths"][&path].as_u64() > Some(0);
            assert!(is_taken, "{file:?}: {path:?} never happened: {result:#}");
        }
    }
}

// Two in a hundred run twice, in two processes.
#[test]
fn stored_seeds_hold_and_give_the_same_log_again() {
    let file = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("sim/seeds.txt");
    let text = std::fs::read_to_string(file).unwrap();
    let lines = text.lines().filter(|line| !line.starts_with('#'));
    let seeds = lines.filter_map(|line| line.split_whitespace().next());
    let jobs: Vec<Job> = seeds.map(|seed| Job::seed(seed.parse().unwrap())).collect();
    assert!(!jobs.is_empty());
    let twice: Vec<Job> = jobs.iter().chain(&jobs[..2]).cloned().collect();
    let results = batch::run(&twice);
    batch::assert_all_hold(&results);
    for (first, again) in results.iter().zip(&results[jobs.len()..]) {
        assert_eq!(first["hash"], again["hash"], "{}", first["run"]);
    }
}

// A simulation that cannot fail proves nothing: what notices is what is listed, and the same runs
// hold while all rules do.
#[test]
fn each_rule_that_is_taken_away_is_missed() {
    if let (Some(name), Some(_)) = (variable(sabotage::VARIABLE), variable("SIM_SEEDS")) {
        return search(&name);
    }
    let stored = sabotage::stored();
    let runs = stored.iter().flat_map(|rule| {
        let killers = rule.killers.iter();
        killers.map(move |killer| (rule, sabotage::job(killer)))
    });
    let (mut names, mut jobs, mut holding) = (Vec::new(), Vec::new(), BTreeMap::new());
    for (rule, job) in runs {
        names.push(&rule.name);
        holding.insert(format!("{job:?}"), job.clone());
        jobs.push(job.with(sabotage::VARIABLE, &rule.name));
    }
    let n_broken = jobs.len();
    jobs.extend(holding.into_values());
    let results = batch::run(&jobs);
    let (broken, whole) = results.split_at(n_broken);
    batch::assert_all_hold(whole);
    for (name, result) in names.iter().zip(broken) {
        println!("{name}: {}", result["violations"]);
        assert!(
            sabotage::notices(result),
            "nobody misses {name}: {result:#}"
        );
    }
    let unlisted = stored
        .iter()
        .find(|rule| rule.killers.is_empty() && rule.why.is_empty());
    assert!(
        unlisted.is_none(),
        "a rule that nobody misses needs a reason"
    );
}

/// From scratch: how many seeds it takes to notice.
fn search(name: &str) {
    let seeds = new_seeds();
    let caught = sabotage::search(name, seeds.clone());
    if variable("SIM_LEDGER").is_some() {
        ledger::append_search(name, &format!("{seeds:?}"), caught.as_ref());
    }
    let caught = caught.unwrap_or_else(|| panic!("none of the seeds {seeds:?} misses {name}"));
    let sabotage::Caught {
        seed,
        after,
        violation,
    } = caught;
    println!("{name}: caught by {seed}, after {after} seeds: {violation}");
}

#[test]
fn new_seeds_hold_and_take_the_rare_paths() {
    let seeds = new_seeds();
    println!("seeds {seeds:?}");
    let jobs: Vec<Job> = seeds.clone().map(Job::seed).collect();
    let results = batch::run(&jobs);
    if variable("SIM_LEDGER").is_some() {
        ledger::append(&format!("{seeds:?}"), &results);
    }
    let paths = ledger::paths(&results);
    println!("{paths:#?}");
    batch::assert_all_hold(&results);
    assert_rare_paths(&results, jobs.len() as u64);
}

/// As told, or some that nobody ran before.
fn new_seeds() -> Range<u64> {
    if let Some(range) = variable("SIM_SEEDS") {
        let (first, end) = range.split_once("..").unwrap();
        return first.parse().unwrap()..end.parse().unwrap();
    }
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    let first = since.unwrap().as_secs();
    first..first + NEW_SEEDS
}

/// Enough seeds take every path.
fn assert_rare_paths(results: &[Value], n_seeds: u64) {
    if n_seeds < NEW_SEEDS {
        return;
    }
    let paths = ledger::paths(results);
    let never: Vec<&str> = journal::PATHS
        .iter()
        .map(|(path, _)| *path)
        .filter(|path| !paths.contains_key(*path))
        .collect();
    assert!(never.is_empty(), "never happened: {never:?}");
}
