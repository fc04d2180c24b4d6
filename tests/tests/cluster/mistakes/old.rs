//! Stored jobs and checkpoints that are not what this version wrote.

use std::path::{Path, PathBuf};

use super::golden::Mistakes;
use crate::field_cases::{completed, wait_until};
use crate::fixture::Cluster;
use crate::job::Job;

/// Format versions of entries of a claim chain, and of all other stored objects, begin here.
const CHAIN_VERSION_AT: usize = 4;
const VERSION_AT: usize = 8;

/// Makes an object one of format version 9.
fn make_newer(path: &Path, version_at: usize) {
    let mut bytes = std::fs::read(path).unwrap();
    assert_eq!(
        bytes[version_at..version_at + 2],
        [0, 1],
        "{}",
        path.display()
    );
    bytes[version_at + 1] = 9;
    std::fs::write(path, bytes).unwrap();
}

/// The newest file of this name, or in a folder of this name, below a directory.
fn newest(dir: &Path, name: &str) -> PathBuf {
    let mut found = Vec::new();
    let mut open = vec![dir.to_owned()];
    while let Some(dir) = open.pop() {
        for entry in std::fs::read_dir(dir).unwrap().flatten() {
            match entry.path() {
                path if path.is_dir() => open.push(path),
                path if path.ends_with(name) || path.parent().unwrap().ends_with(name) => {
                    found.push((entry.metadata().unwrap().modified().unwrap(), path));
                }
                _ => {}
            }
        }
    }
    found.into_iter().max().expect(name).1
}

#[test]
fn what_a_later_version_wrote_or_somebody_changed_is_refused_by_name() {
    let mut cluster = Cluster::start(1, 3);
    let id = |name: &str| {
        let job = Job::new(name)
            .checkpoints("interval: 300ms")
            .generator("rows", "rate: 10", "n: { sequence: {} }")
            .sink("blackhole")
            .write(cluster.dir(), name);
        let id = cluster.submit(&job, name);
        cluster.until_job(&id, "RUNNING");
        wait_until(&cluster, "a checkpoint is there", || {
            completed(&cluster, &id) > 0
        });
        id
    };
    let jobs = ["chain", "job", "checkpoint"].map(id);
    let mut mistakes = Mistakes::in_directory(cluster.dir());
    mistakes.mask(cluster.jobmanager(), "CLUSTER");
    cluster.kill("jobmanager");
    cluster.kill("taskmanager-1");
    let dir = |id: &str| cluster.dir().join("checkpoints").join(id);
    let [chain, job, checkpoint] = &jobs;
    let entry = newest(&dir(chain), "chain");
    make_newer(&entry, CHAIN_VERSION_AT);
    make_newer(&dir(job).join("job"), VERSION_AT);
    let metadata = newest(&dir(checkpoint), "_metadata");
    // The chain knows its checksum: whatever is in it, it is not what was stored.
    make_newer(&metadata, VERSION_AT);
    let number = entry.file_name().unwrap().to_string_lossy().into_owned();
    let number = number.trim_start_matches('0');
    mistakes.mask(format!("entry {number} "), "entry N ");
    let path = metadata
        .strip_prefix(dir(checkpoint))
        .unwrap()
        .display()
        .to_string();
    let number = path.trim_start_matches("chk-").split('/').next().unwrap();
    mistakes.mask(format!("checkpoint {number} of"), "checkpoint N of");
    mistakes.mask(format!("chk-{number}/"), "chk-N/");
    cluster.start_jobmanager("");
    let at = cluster.jobmanager();
    for (name, id) in [
        ("old-chain-entry", chain),
        ("old-job", job),
        ("checkpoint-changed", checkpoint),
    ] {
        cluster.until_job(id, "SUSPENDED");
        let output = mistakes.millstream(name, &["status", id, "-m", &at]);
        assert_eq!(output.status.code(), Some(0), "{name}");
    }
    mistakes.judge();
}
