//! Checkpoints of changes, over real processes that are killed.

use std::path::Path;
use std::time::Duration;

use crate::field_cases::wait_until;
use crate::fixture::{Cluster, Ledger, kill_process};
use crate::process::text;

/// More than 1 MiB of state in each of two subtasks; a fifth of the keys changes in an interval.
const LEDGER: Ledger = Ledger {
    keys: 100_000,
    rows: 1_200_000,
    rate: 80_000,
};

/// Completed checkpoints: (id, bytes in all, bytes that were new).
fn completed(cluster: &Cluster, job: &str) -> Vec<(u64, u64, u64)> {
    let checkpoints = cluster.rest(&format!("/jobs/{job}/checkpoints"));
    let history = checkpoints["history"].as_array().cloned();
    let rows = history.unwrap_or_default().into_iter();
    let number = |value: &serde_json::Value| value.as_u64().unwrap_or(0);
    rows.filter(|row| row["status"] == "COMPLETED")
        .map(|row| {
            (
                number(&row["id"]),
                number(&row["state_size"]),
                number(&row["checkpointed_size"]),
            )
        })
        .collect()
}

fn shared_objects(cluster: &Cluster, job: &str) -> Vec<String> {
    let dir = cluster.dir().join("checkpoints").join(job).join("shared");
    let entries = std::fs::read_dir(dir).into_iter().flatten().flatten();
    entries
        .map(|entry| entry.file_name().to_string_lossy().into_owned())
        .collect()
}

/// Waits until a checkpoint newer than those so far is complete, and is mostly what was there before.
fn until_changes(cluster: &Cluster, job: &str) {
    let newest = completed(cluster, job).iter().map(|row| row.0).max();
    wait_until(
        cluster,
        "a checkpoint is mostly what was there before",
        || {
            completed(cluster, job)
                .iter()
                .any(|(id, all, new)| Some(*id) > newest && *new > 0 && new * 2 < *all)
        },
    );
}

// Proves F131 and F135 over processes: both sizes are shown; jobmanager, taskmanager and job process
// die while files are referred to and deleted, and every restore finds what it needs.
#[test]
fn checkpoints_of_changes_survive_every_kill_and_leave_nothing_behind() {
    let mut cluster = Cluster::start(1, 2);
    let (job, out) = LEDGER.write(cluster.dir());
    let id = cluster.submit(&job, "changes");
    cluster.until_job(&id, "RUNNING");
    until_changes(&cluster, &id);
    assert!(!shared_objects(&cluster, &id).is_empty());
    cluster.kill("jobmanager");
    cluster.start_jobmanager("");
    cluster.until_job(&id, "RUNNING");
    until_changes(&cluster, &id);
    cluster.kill("taskmanager-1");
    cluster.start_taskmanager(1, 2, "");
    cluster.until_job(&id, "RUNNING");
    until_changes(&cluster, &id);
    let process = cluster.children("taskmanager-1");
    process.into_iter().for_each(kill_process);
    let end = cluster.follow(&job, "changes");
    assert!(
        end.status.success(),
        "{}\n{}",
        text(&end.stderr),
        cluster.logs()
    );
    LEDGER.judge(&out);
    assert_restores(&cluster, &id);
    wait_until(&cluster, "nothing is left of its checkpoints", || {
        shared_objects(&cluster, &id).is_empty()
    });
}

/// Attempts after the first began from a checkpoint, by the jobmanager's log.
fn assert_restores(cluster: &Cluster, job: &str) {
    let log = cluster.log("jobmanager");
    let restored = |line: &&str| line.contains(job) && line.contains("RSTR-0002");
    assert!(log.lines().filter(restored).count() >= 3, "{log}");
}

// Proves the switch: with it off every checkpoint is everything, in files of its own.
#[test]
fn without_incremental_checkpoints_nothing_is_shared() {
    let cluster = Cluster::start(1, 2);
    let ledger = Ledger {
        rows: 400_000,
        ..LEDGER
    };
    let (job, out) = ledger.write(cluster.dir());
    let yaml = std::fs::read_to_string(&job).unwrap();
    let off = yaml.replace("{ interval: 250ms", "{ incremental: false, interval: 250ms");
    assert_ne!(yaml, off);
    std::fs::write(Path::new(&job), off).unwrap();
    let id = cluster.submit(&job, "whole");
    let mut most = 0;
    while cluster.rest(&format!("/jobs/{id}"))["state"] != "FINISHED" {
        assert!(shared_objects(&cluster, &id).is_empty());
        let sizes = completed(&cluster, &id);
        most = sizes.iter().map(|row| row.1).max().unwrap_or(most);
        assert!(sizes.iter().all(|(_, all, new)| all == new), "{sizes:?}");
        std::thread::sleep(Duration::from_millis(50));
    }
    assert!(most > 2 << 20, "{most}");
    ledger.judge(&out);
}
