//! Rules that are taken away, one at a time, and the runs that must notice it.

use std::path::{Path, PathBuf};

use millstream_types::sabotage::{Rule, Sabotage};
use serde_json::Value;

use crate::batch::{self, Job};

/// Rules by the fence that they are a part of; more than one where each would be enough.
const RULES: &[(&str, &[Rule])] = &[
    // An owner whose claim was followed finds out before it tells a taskmanager anything.
    ("F1", &[Rule::ObeyAnyEpoch, Rule::DeployUnconfirmed]),
    ("F1-acks", &[Rule::AcceptAnyEpoch]),
    ("F2", &[Rule::OverwriteEntry]),
    ("F3", &[Rule::RestartWithoutClaim]),
    ("F4", &[Rule::AppendAfterForeign]),
    ("F4-unknown", &[Rule::AssumeHappened]),
    ("F5", &[Rule::NotifyBeforeDurable]),
    ("F5-chain", &[Rule::AnnounceBeforeDurable]),
    ("F6", &[Rule::PruneWithoutBoundary]),
    ("F6-above", &[Rule::NeverLookAbove]),
    ("F6-lag", &[Rule::PruneAtOnce]),
    ("F7", &[Rule::StartBesideOld]),
    ("F8", &[Rule::TalkToAnyEpoch]),
    ("F9", &[Rule::NameWithoutNonce]),
    ("F9-ids", &[Rule::ReuseCheckpointIds]),
    ("F12", &[Rule::ReuseTransactions]),
    ("F13", &[Rule::AbortBeforeCommit]),
    ("F13-order", &[Rule::WriteBeforeCommit]),
];

/// Seeds that run at once while one is looked for that notices.
const CHUNK: u64 = 8;

/// The variable that names a rule.
pub const VARIABLE: &str = "SIM_SABOTAGE";

/// Everything but the rule of this name holds.
pub fn without(name: &str) -> Sabotage {
    let found = RULES.iter().find(|(known, _)| *known == name);
    let (_, rules) = found.unwrap_or_else(|| panic!("{name:?} is no rule that can be taken away"));
    Sabotage::removing(rules)
}

/// A rule, and the runs that notice its absence.
pub struct Stored {
    pub name: String,
    /// Seeds and scenarios; none where another rule does the same work, for the reason given.
    pub killers: Vec<String>,
    pub why: String,
}

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("sim")
}

/// What `tests/sim/sabotage.txt` holds, in which every rule has a line.
pub fn stored() -> Vec<Stored> {
    let text = std::fs::read_to_string(folder().join("sabotage.txt")).unwrap();
    let lines = text.lines().filter(|line| !line.starts_with('#'));
    let stored: Vec<Stored> = lines.map(read).collect();
    let names: Vec<&str> = stored.iter().map(|rule| rule.name.as_str()).collect();
    let known: Vec<&str> = RULES.iter().map(|(name, _)| *name).collect();
    assert_eq!(names, known);
    stored
}

fn read(line: &str) -> Stored {
    let (runs, why) = line.split_once(" # ").unwrap_or_else(|| panic!("{line:?}"));
    let mut words = runs.split_whitespace().map(str::to_owned);
    let name = words.next().unwrap();
    let killers: Vec<String> = words.filter(|word| word != "-").collect();
    let why = why.to_owned();
    Stored { name, killers, why }
}

/// The run that a killer stands for, with all rules.
pub fn job(killer: &str) -> Job {
    match killer.strip_suffix(".yaml") {
        Some(_) => Job::scenario(&folder().join("scenarios").join(killer)),
        None => Job::seed(killer.parse().unwrap()),
    }
}

/// Whether a run was judged, and found wrong.
pub fn notices(result: &Value) -> bool {
    !result["hash"].is_null() && !batch::holds(result)
}

/// A seed that notices that the rule is missing.
pub struct Caught {
    pub seed: u64,
    /// Seeds that were run for it.
    pub after: u64,
    pub violation: String,
}

/// Looks for the first seed that notices; none of those given may.
pub fn search(name: &str, seeds: std::ops::Range<u64>) -> Option<Caught> {
    let first = seeds.start;
    let mut chunks = seeds.clone().step_by(CHUNK as usize);
    chunks.find_map(|begin| {
        let chunk: Vec<u64> = (begin..seeds.end.min(begin + CHUNK)).collect();
        let jobs: Vec<Job> = chunk
            .iter()
            .map(|seed| Job::seed(*seed).with(VARIABLE, name))
            .collect();
        let results = batch::run(&jobs);
        let found = chunk.iter().zip(&results).find(|(_, r)| notices(r));
        found.map(|(seed, result)| Caught {
            seed: *seed,
            after: seed - first + 1,
            violation: result["violations"][0]
                .as_str()
                .unwrap_or_default()
                .to_owned(),
        })
    })
}
