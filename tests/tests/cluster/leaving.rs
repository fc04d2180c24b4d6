//! Orderly and bounded ends: of daemons that are told to go, and of jobs whose tasks do not react.

use std::time::{Duration, Instant};

use crate::field_cases::wait_until;
use crate::fixture::{Cluster, Ledger, PATIENCE, send};
use crate::job::Job;
use crate::process::text;

const LEDGER: Ledger = Ledger {
    keys: 40,
    rows: 96_000,
    rate: 12_000,
};

/// The taskmanager of two that has a job process.
fn busy(cluster: &Cluster) -> String {
    let names = [1, 2].map(|n| format!("taskmanager-{n}"));
    let busy = names.iter().find(|name| !cluster.children(name).is_empty());
    busy.expect("the job runs somewhere").clone()
}

// Proves F36: no failure is counted, nothing waits for a heartbeat, and the output is exact.
#[test]
fn a_taskmanager_that_is_told_to_go_leaves_at_once_and_its_job_moves() {
    let mut cluster = Cluster::start_with(2, 2, &["heartbeat.timeout=60s"]);
    let (job, out) = LEDGER.write(cluster.dir());
    let yaml = std::fs::read_to_string(&job).unwrap();
    std::fs::write(&job, yaml.replace("attempts: unlimited", "attempts: 0")).unwrap();
    std::fs::create_dir_all(&out).unwrap();
    let watch = LEDGER.watch(&out, &cluster.dir().join("done"));
    let id = cluster.submit(&job, "moving");
    cluster.until_job(&id, "RUNNING");
    std::thread::sleep(Duration::from_millis(1_500));
    let name = busy(&cluster);
    let begun = Instant::now();
    cluster.signal(&name, "-TERM", false);
    cluster.until("it has deregistered", |o| o["taskmanagers"] == 1);
    assert!(
        begun.elapsed() < Duration::from_secs(10),
        "{:?}",
        begun.elapsed()
    );
    let status = cluster.wait(&name, Duration::from_secs(15));
    assert!(
        status.is_some_and(|status| status.success()),
        "{status:?}\n{}",
        cluster.logs()
    );
    cluster.until_job(&id, "RUNNING");
    assert!(
        begun.elapsed() < Duration::from_secs(25),
        "{:?}",
        begun.elapsed()
    );
    let end = cluster.follow(&job, "moving");
    assert!(
        end.status.success(),
        "{}\n{}",
        text(&end.stderr),
        cluster.logs()
    );
    std::fs::write(cluster.dir().join("done"), "").unwrap();
    let verdict = watch.join().unwrap();
    assert!(verdict.status.success(), "{}", text(&verdict.stdout));
    LEDGER.judge(&out);
}

#[test]
fn a_jobmanager_that_is_told_to_go_ends_well_and_its_jobs_go_on_with_the_next() {
    let mut cluster = Cluster::start(1, 2);
    let (job, out) = LEDGER.write(cluster.dir());
    std::fs::create_dir_all(&out).unwrap();
    let id = cluster.submit(&job, "resumed");
    cluster.until_job(&id, "RUNNING");
    std::thread::sleep(Duration::from_millis(1_500));
    cluster.signal("jobmanager", "-TERM", false);
    let status = cluster.wait("jobmanager", Duration::from_secs(10));
    assert!(
        status.is_some_and(|status| status.success()),
        "{status:?}\n{}",
        cluster.logs()
    );
    cluster.start_jobmanager("");
    cluster.until_job(&id, "RUNNING");
    let end = cluster.follow(&job, "resumed");
    assert!(
        end.status.success(),
        "{}\n{}",
        text(&end.stderr),
        cluster.logs()
    );
    LEDGER.judge(&out);
}

/// A job whose only subtask blocks in a system call: with its fifth row, or in the next call of
/// another kind.
fn blocked_job(during: &str) -> Job {
    Job::new("blocked")
        .checkpoints("interval: 200ms")
        .set("task.cancellation.interval", "1s")
        .set("task.cancellation.timeout", "4s")
        .generator("rows", "rate: 50", "key: { key: 10 }")
        .inject(
            "stuck-lookup",
            &format!("block: {{ at: 5, in: socket, during: {during} }}"),
        )
        .sink("blackhole")
}

fn healthy_job() -> Job {
    Job::new("healthy")
        .checkpoints("interval: 200ms")
        .generator("rows", "rate: 50", "key: { key: 10 }")
        .sink("blackhole")
}

fn restarts(cluster: &Cluster, job: &str) -> u64 {
    let jobs = cluster.rest("/jobs/overview")["jobs"].clone();
    let mut jobs = jobs.as_array().unwrap().iter();
    let job = jobs.find(|row| row["jid"] == job).unwrap();
    job["restarts"].as_u64().unwrap()
}

/// Cancels a job whose task does not react, and looks at what is left.
fn ends_in_bounded_time(during: &str, stop_the_process: bool) {
    let cluster = Cluster::start(1, 2);
    let healthy = cluster.submit(&healthy_job().write(cluster.dir(), "healthy"), "healthy");
    cluster.until_job(&healthy, "RUNNING");
    let before = cluster.children("taskmanager-1");
    let blocked = blocked_job(during).write(cluster.dir(), "blocked");
    let blocked = cluster.submit(&blocked, "blocked");
    let its_own = || {
        let mut after = cluster.children("taskmanager-1").into_iter();
        after.find(|id| !before.contains(id))
    };
    wait_until(&cluster, "it has a process of its own", || {
        its_own().is_some()
    });
    let process = its_own().expect("there was one");
    std::thread::sleep(Duration::from_secs(3));
    if stop_the_process {
        send("-STOP", process);
    }
    let begun = Instant::now();
    let canceled = cluster.cli(&["cancel", &blocked]);
    assert!(
        canceled.status.success(),
        "{}\n{}",
        text(&canceled.stderr),
        cluster.logs()
    );
    assert!(
        text(&canceled.stdout).contains("CANCELED"),
        "{}",
        text(&canceled.stdout)
    );
    assert!(
        begun.elapsed() < Duration::from_secs(12),
        "{:?}",
        begun.elapsed()
    );
    wait_until(&cluster, "the process is gone", || {
        !cluster.children("taskmanager-1").contains(&process)
    });
    cluster.until("its slot is free", |o| o["slots-available"] == 1);
    let log = cluster.log("jobmanager");
    let named = log
        .lines()
        .find(|line| line.contains("did not react to cancelling signal"));
    let named = named.unwrap_or_else(|| panic!("the log does not say why\n{}", cluster.logs()));
    assert!(named.contains(" (1/1)#0' did not"), "{named}");
    assert!(named.contains("stuck-lookup"), "{named}");
    assert!(named.contains("TASK-0004"), "{named}");

    let again = cluster.submit(&healthy_job().write(cluster.dir(), "again"), "again");
    cluster.until_job(&again, "RUNNING");
    assert_eq!(restarts(&cluster, &healthy), 0, "{}", cluster.logs());
    assert_eq!(
        cluster.rest(&format!("/jobs/{healthy}"))["state"],
        "RUNNING"
    );
}

// HND-059: the slot comes back, the other job notices nothing, and the log says which task.
#[test]
fn a_task_that_blocks_in_a_call_does_not_hold_up_its_cancellation() {
    ends_in_bounded_time("process", false);
}

// HND-059: blocked before the first row.
#[test]
fn a_task_that_blocks_in_open_does_not_hold_up_its_cancellation() {
    ends_in_bounded_time("open", false);
}

// HND-059: blocked in a snapshot.
#[test]
fn a_task_that_blocks_in_a_snapshot_does_not_hold_up_its_cancellation() {
    ends_in_bounded_time("snapshot", false);
}

// HND-059: blocked in what it does to end.
#[test]
fn a_task_that_blocks_in_close_does_not_hold_up_its_cancellation() {
    ends_in_bounded_time("close", false);
}

// HND-059: also where nothing in the process can react.
#[test]
fn a_job_process_that_stands_still_does_not_hold_up_its_cancellation() {
    ends_in_bounded_time("process", true);
}

// Proves F124, with an interval of one second: a thread cannot be killed, so what never ends takes its
// taskmanager with it, and the other jobs there move.
#[test]
fn a_task_that_never_stops_ends_a_taskmanager_that_runs_jobs_in_threads() {
    let mut cluster = Cluster::prepared(&["taskmanager.isolation=thread"]);
    cluster.start_jobmanager("");
    cluster.start_taskmanager(1, 2, "");
    let healthy = cluster.submit(&healthy_job().write(cluster.dir(), "healthy"), "healthy");
    let blocked = blocked_job("process").write(cluster.dir(), "blocked");
    let blocked = cluster.submit(&blocked, "blocked");
    for job in [&healthy, &blocked] {
        cluster.until_job(job, "RUNNING");
    }
    std::thread::sleep(Duration::from_secs(1));
    cluster.start_taskmanager(2, 2, "");
    cluster.until("both are there", |o| o["taskmanagers"] == 2);
    let canceled = cluster.cli(&["cancel", &blocked]);
    assert!(canceled.status.success(), "{}", text(&canceled.stderr));

    let end = cluster.wait("taskmanager-1", PATIENCE).expect("it ends");
    assert!(!end.success(), "{end}");
    let log = cluster.log("taskmanager-1");
    for seconds in 1..=3 {
        let named = format!(" (1/1)#0' did not react to cancelling signal for {seconds} seconds");
        assert!(log.contains(&named), "{seconds}\n{log}");
    }
    assert!(
        log.contains("did not exit gracefully within 4 + seconds"),
        "{log}"
    );
    wait_until(&cluster, "the other job moved", || {
        restarts(&cluster, &healthy) == 1
    });
    cluster.until_job(&healthy, "RUNNING");
}

#[test]
fn a_cluster_on_ipv6_runs_jobs_over_two_taskmanagers() {
    let cluster = Cluster::start_with(
        2,
        1,
        &[
            "jobmanager.rpc.address=::1",
            "jobmanager.bind-host=::1",
            "rest.bind-host=::1",
            "taskmanager.bind-host=::1",
        ],
    );
    let taskmanagers = cluster.rest("/taskmanagers")["taskmanagers"].clone();
    for taskmanager in taskmanagers.as_array().unwrap() {
        assert_eq!(taskmanager["path"], "::1", "the advertised address");
    }
    let ledger = Ledger {
        keys: 40,
        rows: 24_000,
        rate: 12_000,
    };
    let (job, out) = ledger.write(cluster.dir());
    let id = cluster.submit(&job, "six");
    cluster.until_job(&id, "RUNNING");
    for name in ["taskmanager-1", "taskmanager-2"] {
        assert!(
            !cluster.children(name).is_empty(),
            "{name} has a part of the job"
        );
    }
    let end = cluster.follow(&job, "six");
    assert!(
        end.status.success(),
        "{}\n{}",
        text(&end.stderr),
        cluster.logs()
    );
    ledger.judge(&out);
}

// HND-079, third case: an address that the others do not resolve is named, in bounded time, also by
// sources whose few rows would have fitted into the channel.
#[test]
fn an_advertised_name_that_nobody_resolves_fails_the_job_by_name() {
    let cluster = Cluster::start_with(2, 1, &["taskmanager.host=tm.invalid"]);
    for rows in ["rows: 1000", "rate: 1000"] {
        let job = Job::new("unreachable")
            .parallelism(2)
            .restarts("type: none")
            .generator("rows", rows, "key: { key: 10 }")
            .count("key", "")
            .sink("print")
            .write(cluster.dir(), "unreachable");
        let begun = Instant::now();
        let end = cluster.cli(&["run", &job.to_string_lossy()]);
        assert_eq!(end.status.code(), Some(3), "{}", text(&end.stderr));
        let stderr = text(&end.stderr);
        let took = begun.elapsed();
        assert!(took < Duration::from_secs(60), "{took:?}");
        assert!(stderr.contains("tm.invalid"), "{stderr}");
        assert!(
            stderr.contains("tm-1") || stderr.contains("tm-2"),
            "{stderr}"
        );
    }
}
