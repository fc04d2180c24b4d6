//! What users see of a cluster: output, states, endings that stay.

use std::time::Duration;

use crate::fixture::{Cluster, Ledger};
use crate::process::{root, text};

// Proves F8 and F11.
#[test]
fn a_detached_run_prints_an_id_that_the_other_verbs_know() {
    // Nowhere to run yet: the command does not wait for that.
    let mut cluster = Cluster::start(0, 0);
    let ledger = Ledger {
        keys: 10,
        rows: 1_000_000,
        rate: 1_000,
    };
    let (job, _) = ledger.write(cluster.dir());
    let id = cluster.submit(&job, "first");
    assert!(
        id.len() == 32 && id.bytes().all(|b| b.is_ascii_hexdigit()),
        "{id}"
    );
    assert_eq!(
        cluster.submit(&job, "first"),
        id,
        "submitting is idempotent by client id"
    );
    let list = text(&cluster.cli(&["list"]).stdout);
    assert!(list.contains(&id) && !list.contains("RUNNING"), "{list}");
    cluster.start_taskmanager(1, 2, "");
    cluster.until_job(&id, "RUNNING");
    let list = text(&cluster.cli(&["list"]).stdout);
    assert!(
        list.contains(&id) && list.contains("ledger (RUNNING)"),
        "{list}"
    );
    let status = text(&cluster.cli(&["status", &id]).stdout);
    assert!(status.contains("2 RUNNING"), "{status}");

    let unknown = "0".repeat(32);
    for verb in ["status", "cancel"] {
        let output = cluster.cli(&[verb, &unknown]);
        assert_eq!(output.status.code(), Some(1));
        let stderr = text(&output.stderr);
        // One line says what, another what to do.
        let lines: Vec<&str> = stderr.lines().collect();
        assert!(lines[0].contains(&unknown), "{stderr}");
        assert!(lines[1].starts_with("  help: "), "{stderr}");
        assert_eq!(lines.len(), 2, "{stderr}");
    }
}

// Proves F10; HND-062: also when the jobmanager dies right after.
#[test]
fn a_cancelled_job_stays_cancelled_when_the_jobmanager_is_killed() {
    let mut cluster = Cluster::start(1, 2);
    let ledger = Ledger {
        keys: 10,
        rows: 1_000_000,
        rate: 1_000,
    };
    let (job, _) = ledger.write(cluster.dir());
    let id = cluster.submit(&job, "first");
    cluster.until_job(&id, "RUNNING");
    let first = cluster.cli(&["cancel", &id]);
    assert!(first.status.success(), "{}", text(&first.stderr));
    assert!(
        text(&first.stdout).contains("CANCELED"),
        "{}",
        text(&first.stdout)
    );
    cluster.kill("jobmanager");
    cluster.start_jobmanager("");
    cluster.until("it is settled", |o| {
        o["recovering"] == false && o["slots-available"] == 2
    });
    assert_eq!(cluster.rest(&format!("/jobs/{id}"))["state"], "CANCELED");
    let again = cluster.cli(&["cancel", &id]);
    assert!(
        again.status.success(),
        "a second cancel is no error: {}",
        text(&again.stderr)
    );
    // What another jobmanager ended is shown all the same.
    let status = cluster.cli(&["status", &id]);
    assert!(status.status.success(), "{}", text(&status.stderr));
    assert!(text(&status.stdout).contains("(CANCELED)"));
    let checkpoints = cluster.rest(&format!("/jobs/{id}/checkpoints"));
    assert_eq!(checkpoints["counts"]["completed"], 0);
    std::thread::sleep(Duration::from_secs(1));
    assert!(
        cluster.children("taskmanager-1").is_empty(),
        "nothing of it runs"
    );
}

// Proves F9: too few slots are said, and the restart strategy decides.
#[test]
fn a_job_without_slots_fails_with_the_numbers() {
    let cluster = Cluster::start(1, 1);
    let ledger = Ledger {
        keys: 10,
        rows: 1_000,
        rate: 1_000,
    };
    let (job, _) = ledger.write(cluster.dir());
    let yaml = std::fs::read_to_string(&job).unwrap();
    let yaml = yaml.replace("attempts: unlimited", "attempts: 0");
    std::fs::write(&job, yaml).unwrap();
    let id = cluster.submit(&job, "first");
    cluster.until_job(&id, "CREATED");
    let waiting = text(&cluster.cli(&["status", &id]).stdout);
    assert!(waiting.contains(": 2 needed, 1 free"), "{waiting}");
    cluster.until_job(&id, "FAILED");
    let status = text(&cluster.cli(&["status", &id]).stdout);
    for part in [
        "slots",
        "Recovery is suppressed by FixedDelayRestartBackoffTimeStrategy",
    ] {
        assert!(status.contains(part), "{part} is missing in: {status}");
    }
    // Not only when it is too late.
    let log = cluster.log("jobmanager");
    let waits = log
        .lines()
        .find(|line| line.contains("job waits for slots"));
    let waits = waits.unwrap_or_else(|| panic!("nothing on the wait: {log}"));
    for part in [&*id, "needed=2", "free=1", "registered=1"] {
        assert!(waits.contains(part), "{part} is missing in: {waits}");
    }
}

#[test]
fn printed_rows_of_all_subtasks_reach_the_attached_client() {
    let cluster = Cluster::start(2, 1);
    let yaml = std::fs::read_to_string(root().join("docs/examples/word-count.yaml")).unwrap();
    let docs = root().join("docs/**/*.md");
    let job = cluster.dir().join("words.yaml");
    std::fs::write(&job, yaml.replace("../**/*.md", &docs.to_string_lossy())).unwrap();
    let output = cluster.cli(&["run", &job.to_string_lossy()]);
    assert!(
        output.status.success(),
        "{}\n{}",
        text(&output.stderr),
        cluster.logs()
    );
    let lines = text(&output.stdout);
    assert!(lines.lines().any(|line| line.starts_with("1> ")));
    assert!(lines.lines().any(|line| line.starts_with("2> ")));
    assert!(
        lines.contains("> checkpoint, "),
        "two taskmanagers exchanged rows"
    );
}

#[test]
fn mistakes_are_told_in_words_and_by_exit_code() {
    let cluster = Cluster::start(0, 1);
    let missing = cluster.cli(&["run", "/nowhere/job.yaml"]);
    assert_eq!(missing.status.code(), Some(1));
    assert!(text(&missing.stderr).contains("/nowhere/job.yaml"));
    drop(cluster);
    let mut command = std::process::Command::new(crate::process::program("millstream"));
    let nobody = crate::process::finish(
        command.args(["list", "-m", "localhost:1"]),
        Duration::from_secs(30),
    );
    assert_eq!(nobody.status.code(), Some(2));
    let stderr = text(&nobody.stderr);
    assert!(
        stderr.contains("cannot reach localhost:1") && stderr.contains("help:"),
        "{stderr}"
    );
}

// Proves F17.
#[test]
fn a_job_with_checkpoints_and_nothing_else_configured_says_how_it_will_restart() {
    let cluster = Cluster::start(0, 0);
    let (job, _) = Ledger {
        keys: 10,
        rows: 1_000,
        rate: 1_000,
    }
    .write(cluster.dir());
    let yaml = std::fs::read_to_string(&job).unwrap();
    let lines = yaml
        .lines()
        .filter(|line| !line.starts_with("restart-strategy"));
    std::fs::write(&job, lines.collect::<Vec<_>>().join("\n")).unwrap();
    let id = cluster.submit(&job, "first");
    let log = cluster.log("jobmanager");
    let said = log
        .lines()
        .find(|line| line.contains("Using restart back off time strategy"));
    let said = said.expect("the strategy is logged");
    assert!(
        said.contains("ExponentialDelayRestartBackoffTimeStrategy("),
        "{said}"
    );
    assert!(said.contains(&id), "{said}");
}
