//! Whatever is killed, wherever it is hit: every row is committed once, every view is a prefix.

use std::time::Duration;

use crate::fixture::{Cluster, Ledger};
use crate::process::text;

const QUICK: Ledger = Ledger {
    keys: 40,
    rows: 80_000,
    rate: 16_000,
};

/// Ends the job, then the oracle that watched it, and demands that both are content.
pub fn end_well(
    cluster: &Cluster,
    ledger: &Ledger,
    job: &std::path::Path,
    out: &std::path::Path,
    watch: std::thread::JoinHandle<std::process::Output>,
) {
    let end = cluster.follow(job, "ledger");
    assert!(
        end.status.success(),
        "{}\n{}",
        text(&end.stderr),
        cluster.logs()
    );
    std::fs::write(cluster.dir().join("done"), "").unwrap();
    let verdict = watch.join().unwrap();
    assert!(verdict.status.success(), "{}", text(&verdict.stdout));
    ledger.judge(out);
}

/// A taskmanager's job process is killed at this point.
fn survives_in_job_process(point: &str) {
    let mut cluster = Cluster::start(0, 4);
    cluster.start_taskmanager(1, 4, point);
    let (job, out) = QUICK.write(cluster.dir());
    std::fs::create_dir_all(&out).unwrap();
    let watch = QUICK.watch(&out, &cluster.dir().join("done"));
    let id = cluster.submit(&job, "ledger");
    end_well(&cluster, &QUICK, &job, &out, watch);
    let failures = cluster.rest(&format!("/jobs/{id}"));
    let logs = cluster.logs();
    assert!(
        logs.contains("signal 9"),
        "{point} hit nothing: {failures}\n{logs}"
    );
}

#[test]
fn a_kill_during_alignment_in_a_job_process() {
    survives_in_job_process("alignment:kill:5");
}

// Proves F158: what the killed attempt had written before its checkpoint never shows.
#[test]
fn a_kill_during_an_upload_in_a_job_process() {
    survives_in_job_process("upload:kill:7");
}

#[test]
fn a_kill_during_a_commit_in_a_job_process() {
    survives_in_job_process("commit:kill:4");
}

/// The jobmanager is killed at this point of a checkpoint and started again: by how many the
/// checkpoint that is restored is older than that one.
fn survives_in_jobmanager(point: &str) -> u64 {
    let mut cluster = Cluster::start(1, 4);
    cluster.kill("jobmanager");
    cluster.start_jobmanager(point);
    cluster.until("the taskmanager came back", |overview| {
        overview["slots-total"] == 4
    });
    let (job, out) = QUICK.write(cluster.dir());
    std::fs::create_dir_all(&out).unwrap();
    let watch = QUICK.watch(&out, &cluster.dir().join("done"));
    cluster.submit(&job, "ledger");
    assert!(
        cluster.wait_for_kill("jobmanager"),
        "{point} hit nothing\n{}",
        cluster.logs()
    );
    let hit = last_number(&cluster.log("jobmanager"), "Triggering checkpoint ");
    cluster.start_jobmanager("");
    end_well(&cluster, &QUICK, &job, &out, watch);
    hit - last_number(&cluster.log("jobmanager"), " from Checkpoint ")
}

/// The number behind the last occurrence of this text.
fn last_number(log: &str, before: &str) -> u64 {
    let (_, behind) = log.rsplit_once(before).expect("it is logged");
    let digits = behind.split(|c: char| !c.is_ascii_digit()).next();
    digits.unwrap_or_default().parse().expect("a number")
}

// Proves F60, but for the files, which a sweep deletes.
#[test]
fn a_checkpoint_with_metadata_and_no_chain_entry_is_not_used() {
    assert_eq!(survives_in_jobmanager("metadata-stored:kill:4"), 1);
}

#[test]
fn a_checkpoint_with_a_chain_entry_is_used_though_nobody_was_told() {
    assert_eq!(survives_in_jobmanager("chain-entry-stored:kill:4"), 0);
}

// HND-060: what sleeps through its replacement and wakes up changes nothing.
#[test]
fn a_taskmanager_that_wakes_up_after_it_was_replaced_changes_nothing() {
    let ledger = Ledger {
        keys: 40,
        rows: 160_000,
        rate: 16_000,
    };
    let cluster = Cluster::start(2, 2);
    let (job, out) = ledger.write(cluster.dir());
    std::fs::create_dir_all(&out).unwrap();
    let watch = ledger.watch(&out, &cluster.dir().join("done"));
    let id = cluster.submit(&job, "ledger");
    cluster.until_job(&id, "RUNNING");
    std::thread::sleep(Duration::from_millis(1_500));
    let busy = [1, 2].map(|n| format!("taskmanager-{n}"));
    let name = busy
        .iter()
        .find(|name| !cluster.children(name).is_empty())
        .unwrap();
    cluster.signal(name, "-STOP", true);
    cluster.until("the silent one is given up", |overview| {
        overview["taskmanagers"] == 1
    });
    cluster.until_job(&id, "RUNNING");
    std::thread::sleep(Duration::from_millis(1_500));
    cluster.signal(name, "-CONT", true);
    cluster.until("it is back", |overview| overview["taskmanagers"] == 2);
    end_well(&cluster, &ledger, &job, &out, watch);
    cluster.until("all slots are free", |o| {
        o["slots-total"] == 4 && o["slots-available"] == 4
    });
}
