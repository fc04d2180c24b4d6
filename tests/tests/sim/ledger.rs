//! What ran, for those who add up evidence: one line for each batch of seeds.

use std::collections::BTreeMap;
use std::fs::OpenOptions;
use std::io::Write;
use std::path::Path;
use std::process::Command;

use serde_json::Value;

use crate::batch::holds;
use crate::sabotage::Caught;

const FILE: &str = "ledger/simulation.tsv";

/// How often each path was taken in all of these runs.
pub fn paths(results: &[Value]) -> BTreeMap<String, u64> {
    let mut paths = BTreeMap::new();
    let taken = results
        .iter()
        .filter_map(|result| result["paths"].as_object());
    for (path, times) in taken.flatten() {
        *paths.entry(path.clone()).or_default() += times.as_u64().unwrap_or(0);
    }
    paths
}

/// Appends a batch to the ledger: commit, seeds, how many held, simulated hours, rows judged, seeds
/// that broke, and what happened how often.
pub fn append(seeds: &str, results: &[Value]) {
    let sum = |what: &str| -> u64 {
        let numbers = results.iter().filter_map(|result| result[what].as_u64());
        numbers.sum()
    };
    let broken: Vec<String> = results
        .iter()
        .filter(|result| !holds(result))
        .map(|result| result["run"].as_str().unwrap_or_default().to_owned())
        .collect();
    let happened: Vec<String> = paths(results)
        .into_iter()
        .map(|(path, times)| format!("{path}: {times}"))
        .collect();
    let line = [
        commit(),
        seeds.to_owned(),
        format!("{} of {}", results.len() - broken.len(), results.len()),
        format!("{:.2} h", sum("seconds") as f64 / 3_600.0),
        format!("{} rows", sum("rows")),
        format!("broken: {}", broken.join(", ")),
        happened.join("; "),
    ];
    add(FILE, &line);
}

/// Appends how a rule that was taken away was noticed, or that it was not.
pub fn append_search(rule: &str, seeds: &str, caught: Option<&Caught>) {
    let found = match caught {
        Some(Caught {
            seed,
            after,
            violation,
        }) => format!("caught by {seed}, after {after} seeds\t{violation}"),
        None => "not caught\t".to_owned(),
    };
    add(
        "ledger/sabotage.tsv",
        &[&commit(), rule, seeds, &found].map(str::to_owned),
    );
}

fn add(file: &str, fields: &[String]) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(file);
    let file = OpenOptions::new().append(true).create(true).open(path);
    writeln!(file.unwrap(), "{}", fields.join("\t")).unwrap();
}

/// The commit of what ran, and whether it was changed since.
fn commit() -> String {
    let git = |args: &[&str]| {
        let mut command = Command::new("git");
        let here = command.current_dir(env!("CARGO_MANIFEST_DIR"));
        let output = here.args(args).output().unwrap();
        String::from_utf8(output.stdout).unwrap().trim().to_owned()
    };
    let is_clean = git(&["status", "--porcelain", "--untracked-files=no"]).is_empty();
    let head = git(&["rev-parse", "--short", "HEAD"]);
    match is_clean {
        true => head,
        false => format!("{head}+"),
    }
}
