//! Field cases of operators, over real processes: what they share, and those with no better place.

use std::path::Path;
use std::time::{Duration, Instant};

use crate::fixture::{Cluster, PATIENCE, kill_process};
use crate::job::Job;
use crate::process::text;

/// A job of two vertices that takes checkpoints, fails with this message after about 1.5 s, and
/// ends after its restart.
pub fn failing_once(message: &str) -> Job {
    failing_once_with("rows: 6000, rate: 2000", message)
}

/// The same with other numbers of rows.
pub fn failing_once_with(rows: &str, message: &str) -> Job {
    let fault = format!("fail: {{ at: 1500, message: {message} }}, subtask: 0, times: 1");
    Job::new("noted")
        .parallelism(2)
        .checkpoints("interval: 200ms")
        .restarts("type: fixed-delay, attempts: 3, delay: 100ms")
        .generator("rows", rows, "key: { key: 10 }")
        .inject("trouble", &fault)
        .count("key", "each")
        .sink("blackhole")
}

/// Waits until something is true of the cluster.
pub fn wait_until(cluster: &Cluster, what: &str, is_true: impl Fn() -> bool) {
    let begun = Instant::now();
    while !is_true() {
        assert!(
            begun.elapsed() < PATIENCE,
            "not true: {what}\n{}",
            cluster.logs()
        );
        std::thread::sleep(Duration::from_millis(30));
    }
}

/// Completed checkpoints of a job.
pub fn completed(cluster: &Cluster, job: &str) -> u64 {
    let counts = &cluster.rest(&format!("/jobs/{job}/checkpoints"))["counts"];
    counts["completed"].as_u64().unwrap_or(0)
}

/// The rows in the visible files of a sink's directory, sorted.
pub fn rows(out: &Path) -> Vec<String> {
    let mut rows = Vec::new();
    for entry in std::fs::read_dir(out).unwrap().flatten() {
        let is_visible = !entry.file_name().to_string_lossy().starts_with('.');
        if is_visible && entry.path().is_file() {
            let text = std::fs::read_to_string(entry.path()).unwrap();
            rows.extend(text.lines().map(str::to_owned));
        }
    }
    rows.sort();
    rows
}

// HND-001: spare subtasks of a source finish, checkpoints go on, and nothing is read again.
#[test]
fn checkpoints_go_on_when_subtasks_have_nothing_to_read() {
    let mut cluster = Cluster::start(2, 3);
    let words = cluster.dir().join("words.txt");
    std::fs::write(&words, "ash\noak\nash\n").unwrap();
    let out = cluster.dir().join("out");
    let ticks = "rows: 120, rate: 12, parallelism: 1";
    let job = Job::new("trees")
        .parallelism(4)
        .checkpoints("interval: 200ms, tolerable-failed-checkpoints: 50")
        .restarts("type: fixed-delay, attempts: 5, delay: 100ms")
        .file("words", &words, "format: text")
        .generator("ticks", ticks, "line: { constant: tick }")
        .step("union", "uid: all, from: [words, ticks]")
        .count("line", "end")
        .file_sink(&out, "csv")
        .write(cluster.dir(), "trees");
    let id = cluster.submit(&job, "trees");
    cluster.until_job(&id, "RUNNING");
    wait_until(&cluster, "the file is read", || {
        let job = cluster.rest(&format!("/jobs/{id}"));
        let vertices = job["vertices"].as_array().cloned().unwrap_or_default();
        vertices.iter().any(|v| v["tasks"]["FINISHED"] == 4)
    });
    let before = completed(&cluster, &id);
    wait_until(&cluster, "checkpoints go on", || {
        completed(&cluster, &id) >= before + 5
    });
    let counts = cluster.rest(&format!("/jobs/{id}/checkpoints"))["counts"].clone();
    assert_eq!(counts["failed"], 0, "{counts}");
    assert_eq!(counts["refused"], 0, "{counts}");
    let busy = ["taskmanager-1", "taskmanager-2"];
    let name = busy
        .iter()
        .find(|name| !cluster.children(name).is_empty())
        .unwrap();
    cluster.kill(name);
    cluster.start_taskmanager(name.rsplit('-').next().unwrap().parse().unwrap(), 3, "");
    let end = cluster.follow(&job, "trees");
    assert!(
        end.status.success(),
        "{}\n{}",
        text(&end.stderr),
        cluster.logs()
    );
    let counted = rows(&out);
    let counted: Vec<_> = counted
        .iter()
        .filter(|row| !row.starts_with("line"))
        .collect();
    assert_eq!(counted, ["ash,2", "oak,1", "tick,120"]);
}

// Proves F119. HND-057: a bounded job ends with a checkpoint of its own,
// however long the interval is.
#[test]
fn the_last_rows_of_a_bounded_job_are_committed_also_after_a_kill_at_its_end() {
    for point in ["", "upload:kill:1", "commit:kill:1"] {
        let mut cluster = Cluster::start(0, 1);
        cluster.start_taskmanager(1, 1, point);
        let out = cluster.dir().join("out");
        let job = Job::new("last")
            .checkpoints("interval: 1h")
            .restarts("type: fixed-delay, attempts: 3, delay: 100ms")
            .generator("rows", "rows: 10", "n: { sequence: { start: 1 } }")
            .file_sink(&out, "json")
            .write(cluster.dir(), "last");
        let begun = Instant::now();
        let end = cluster.cli(&["run", &job.to_string_lossy()]);
        assert!(
            end.status.success(),
            "{point}: {}\n{}",
            text(&end.stderr),
            cluster.logs()
        );
        assert!(!point.is_empty() || begun.elapsed() < Duration::from_secs(10));
        let mut expected: Vec<String> = (1..=10).map(|n| format!("{{\"n\":{n}}}")).collect();
        expected.sort();
        assert_eq!(rows(&out), expected, "{point}");
        let was_killed = cluster.log("taskmanager-1").contains("signal 9");
        assert_eq!(was_killed, !point.is_empty(), "{point}\n{}", cluster.logs());
    }
}

// HND-064: so many restarts as the strategy says, and REST counts them.
#[test]
fn a_job_that_always_fails_runs_as_often_as_its_strategy_says() {
    let cluster = Cluster::start(1, 1);
    let cases = [
        (
            "type: failure-rate, max-failures-per-interval: 3, failure-rate-interval: 10m, delay: 50ms",
            3,
        ),
        ("type: fixed-delay, attempts: 3, delay: 50ms", 3),
        ("type: fixed-delay, attempts: 0, delay: 50ms", 0),
        ("type: none", 0),
    ];
    for (number, (strategy, restarts)) in cases.iter().enumerate() {
        let name = format!("failing-{number}");
        let job = Job::new("failing")
            .restarts(strategy)
            .generator("rows", "rows: 2, rate: 10", "n: { sequence: {} }")
            .inject("trouble", "fail: { at: 2, message: always }")
            .sink("print")
            .write(cluster.dir(), &name);
        let end = cluster.cli(&["run", &job.to_string_lossy(), "--client-id", &name]);
        assert_eq!(end.status.code(), Some(3), "{}", text(&end.stderr));
        let jobs = cluster.rest("/jobs/overview")["jobs"].clone();
        let jobs = jobs.as_array().unwrap();
        let newest = jobs
            .iter()
            .max_by_key(|job| job["start-time"].as_i64())
            .unwrap();
        assert_eq!(newest["state"], "FAILED");
        assert_eq!(newest["restarts"], *restarts, "{strategy}: {newest}");
        let runs = text(&end.stdout).lines().count();
        assert!(runs <= restarts + 1, "{strategy}: {runs}");
    }
}

/// Numbers of a job's checkpoint directories, with the epoch that wrote into them.
fn checkpoint_dirs(cluster: &Cluster, job: &str) -> Vec<(u64, u64)> {
    let dir = cluster.dir().join("checkpoints").join(job);
    let names = |dir: &Path| -> Vec<String> {
        let entries = std::fs::read_dir(dir).into_iter().flatten().flatten();
        let names = entries.map(|entry| entry.file_name().to_string_lossy().into_owned());
        names.collect()
    };
    let mut found = Vec::new();
    for name in names(&dir) {
        let Some(number) = name.strip_prefix("chk-").and_then(|n| n.parse().ok()) else {
            continue;
        };
        for part in names(&dir.join(&name)) {
            let epoch = part.split('-').next().and_then(|epoch| epoch.parse().ok());
            found.push((number, epoch.unwrap_or(0)));
        }
    }
    found.sort_unstable();
    found.dedup();
    found
}

// HND-070: what retention says is there, and nothing else, also with a jobmanager that was killed.
#[test]
fn checkpoint_directories_are_those_that_retention_says() {
    let mut cluster = Cluster::start(1, 2);
    let jobs = ["delete-on-cancellation", "retain-on-cancellation"].map(|retention| {
        let checkpoints = format!(
            "interval: 100ms, num-retained: 2, tolerable-failed-checkpoints: 50, \
             externalized-checkpoint-retention: {retention}"
        );
        let job = Job::new("kept")
            .checkpoints(&checkpoints)
            .generator("rows", "rate: 100", "key: { key: 10 }")
            .count("key", "each")
            .sink("blackhole")
            .write(cluster.dir(), retention);
        cluster.submit(&job, retention)
    });
    for is_restarted in [false, true] {
        if is_restarted {
            cluster.kill("jobmanager");
            cluster.start_jobmanager("");
        }
        for job in &jobs {
            cluster.until_job(job, "RUNNING");
            let before = completed(&cluster, job);
            wait_until(&cluster, "many checkpoints", || {
                completed(&cluster, job) >= before + 10
            });
            wait_until(
                &cluster,
                "at most two checkpoints and one under way",
                || checkpoint_dirs(&cluster, job).len() <= 3,
            );
        }
    }
    for job in &jobs {
        let canceled = cluster.cli(&["cancel", job]);
        assert!(canceled.status.success(), "{}", text(&canceled.stderr));
    }
    wait_until(&cluster, "deleted", || {
        checkpoint_dirs(&cluster, &jobs[0]).is_empty()
    });
    // Of the first jobmanager at most the one is left that it was about to delete when it was killed.
    let kept = || checkpoint_dirs(&cluster, &jobs[1]);
    wait_until(&cluster, "the newest two are kept", || {
        let (old, new): (Vec<_>, Vec<_>) = kept().into_iter().partition(|(_, epoch)| *epoch == 1);
        old.len() <= 1 && new.len() == 2
    });
    let newest = &cluster.rest(&format!("/jobs/{}/checkpoints", jobs[1]))["latest"]["completed"];
    if let Some(newest) = newest["id"].as_u64() {
        assert_eq!(kept().last(), Some(&(newest, 2)));
    }
}

// HND-071: what killed processes left is gone when their taskmanager starts again, or when it sees
// that a job's process ended; what another living taskmanager of the machine uses stays.
#[test]
fn local_state_of_killed_processes_does_not_pile_up() {
    let mut cluster = Cluster::prepared(&[]);
    let shared = cluster.dir().join("local-state");
    cluster.set(&format!(
        "state.backend.rocksdb.localdir={}",
        shared.display()
    ));
    cluster.start_jobmanager("");
    cluster.start_taskmanager(1, 1, "");
    cluster.start_taskmanager(2, 1, "");
    let job = Job::new("piled")
        .parallelism(2)
        .checkpoints("interval: 200ms, tolerable-failed-checkpoints: 50")
        .restarts("type: fixed-delay, attempts: unlimited, delay: 50ms")
        .set("state.backend.type", "rocksdb")
        .generator("rows", "rate: 5000", "key: { key: 1000 }")
        .count("key", "each")
        .sink("blackhole")
        .write(cluster.dir(), "piled");
    let id = cluster.submit(&job, "piled");
    let databases = || {
        let entries = std::fs::read_dir(&shared).into_iter().flatten().flatten();
        entries.filter(|entry| entry.path().is_dir()).count()
    };
    for _ in 0..4 {
        cluster.until_job(&id, "RUNNING");
        let before = completed(&cluster, &id);
        wait_until(&cluster, "a checkpoint", || {
            completed(&cluster, &id) > before
        });
        cluster.kill("taskmanager-1");
        cluster.start_taskmanager(1, 1, "");
    }
    cluster.until_job(&id, "RUNNING");
    wait_until(&cluster, "one database a subtask", || databases() == 2);
    let before = completed(&cluster, &id);
    wait_until(&cluster, "the living one goes on", || {
        completed(&cluster, &id) > before
    });
    let restarts = cluster.rest("/jobs/overview")["jobs"][0]["restarts"].clone();
    assert_eq!(
        restarts,
        4,
        "each kill cost one restart\n{}",
        cluster.logs()
    );
    let processes = cluster.children("taskmanager-1");
    kill_process(processes[0]);
    wait_until(&cluster, "another process took its place", || {
        let others = cluster.children("taskmanager-1");
        !others.is_empty() && others != processes && databases() == 2
    });
    let canceled = cluster.cli(&["cancel", &id]);
    assert!(canceled.status.success(), "{}", text(&canceled.stderr));
    wait_until(&cluster, "nothing is left", || databases() == 0);
}
