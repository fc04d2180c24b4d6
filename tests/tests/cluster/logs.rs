//! Logs of jobmanager, taskmanager and job process: one line a record, whatever is in it.

use std::collections::BTreeSet;

use serde_json::Value;

use crate::field_cases::{failing_once, failing_once_with};
use crate::fixture::Cluster;
use crate::process::text;

const SECRET: &str = "sesame-4711";

/// A cluster whose secret lies in a file, and which has run a job that failed, restarted and ended;
/// with the id of that job.
fn after_a_restart(settings: &[&str]) -> (Cluster, String) {
    let mut cluster = Cluster::prepared(settings);
    let secret = cluster.dir().join("secret");
    std::fs::write(&secret, SECRET).unwrap();
    cluster.set("s3.access-key=ali-baba");
    cluster.set(&format!("s3.secret-key={{ file: {} }}", secret.display()));
    cluster.start_jobmanager("");
    cluster.start_taskmanager(1, 2, "");
    // An end of line to some readers, and a turn of the reading direction.
    let message = "\"first line\\u2028second \\u202eline\"";
    let job = failing_once(message).write(cluster.dir(), "noted");
    let id = cluster.submit(&job, "noted");
    cluster.until_job(&id, "FINISHED");
    cluster.signal("jobmanager", "-TERM", false);
    cluster.signal("taskmanager-1", "-TERM", false);
    for name in ["jobmanager", "taskmanager-1"] {
        let status = cluster.wait(name, std::time::Duration::from_secs(20));
        assert!(status.is_some_and(|status| status.success()), "{name}");
    }
    (cluster, id)
}

/// The records of one daemon's JSON log.
fn records(cluster: &Cluster, name: &str) -> Vec<Value> {
    let log = cluster.log(name);
    let parse = |line: &str| -> Value {
        let parsed = serde_json::from_str(line);
        parsed.unwrap_or_else(|error| panic!("{name}: {error} in: {line}"))
    };
    log.lines().map(parse).collect()
}

fn find<'a>(records: &'a [Value], part: &str) -> &'a Value {
    let has = |record: &&Value| record["message"].as_str().unwrap().contains(part);
    let found = records.iter().find(has);
    found.unwrap_or_else(|| panic!("no record says {part:?}"))
}

// Proves F12.
#[test]
fn every_json_line_of_every_process_is_one_object_with_the_documented_keys() {
    let (cluster, id) = after_a_restart(&[
        "log.format=json",
        "log.level=debug",
        "log.json.static-fields={applicationARN: 'arn:aws:demo', applicationVersionId: '7'}",
    ]);
    for name in ["jobmanager", "taskmanager-1"] {
        let log = cluster.log(name);
        assert!(!log.contains(SECRET), "{name} writes its secret");
        let records = records(&cluster, name);
        assert!(records.len() > 20, "{name} says little: {log}");
        for record in &records {
            for key in [
                "locationInformation",
                "logger",
                "message",
                "threadName",
                "messageType",
                "timestamp",
            ] {
                let value = record[key].as_str();
                assert!(value.is_some_and(|v| !v.is_empty()), "{key} in {record}");
            }
            assert_eq!(record["messageSchemaVersion"], "1", "{record}");
            assert_eq!(record["applicationARN"], "arn:aws:demo", "{record}");
            assert_eq!(record["applicationVersionId"], "7", "{record}");
            let level = record["messageType"].as_str().unwrap();
            let levels = ["ERROR", "WARN", "INFO", "DEBUG", "TRACE"];
            assert!(levels.contains(&level), "{record}");
        }
    }
    let of_jobmanager = records(&cluster, "jobmanager");
    let failed = find(&of_jobmanager, "switched from RUNNING to FAILED");
    assert_eq!(failed["jobId"], id.as_str(), "{failed}");
    assert_eq!(failed["attempt"], 0, "{failed}");
    let deploying = find(&of_jobmanager, "(attempt #1) with attempt id");
    assert_eq!(deploying["tmId"], "tm-1", "{deploying}");
    let completed = find(&of_jobmanager, "Completed checkpoint ");
    assert!(completed["checkpointId"].is_u64(), "{completed}");
}

// Proves F12: a job process writes as its taskmanager does, with its own level, place and thread.
#[test]
fn lines_of_a_job_process_keep_their_level_and_their_chain_of_causes() {
    let mut cluster = Cluster::start_with(1, 2, &["log.format=json", "log.level=debug"]);
    let job = failing_once("broken").write(cluster.dir(), "noted");
    let id = cluster.submit(&job, "noted");
    cluster.until_job(&id, "FINISHED");
    // A socket that ends without a word is an error to whoever reads it.
    let job = failing_once_with("rate: 2000", "again").write(cluster.dir(), "endless");
    let endless = cluster.submit(&job, "endless");
    cluster.until_job(&endless, "RUNNING");
    cluster.kill("jobmanager");
    std::thread::sleep(std::time::Duration::from_millis(1_500));
    let records = records(&cluster, "taskmanager-1");
    let of_process: Vec<_> = records
        .iter()
        .filter(|r| r["fields"]["pid"].is_u64())
        .collect();
    let levels: BTreeSet<_> = of_process
        .iter()
        .map(|r| r["messageType"].as_str().unwrap())
        .collect();
    assert!(
        levels.contains("INFO") && levels.contains("DEBUG"),
        "{levels:?}"
    );
    let snapshot = of_process.iter().find(|r| {
        let message = r["message"].as_str().unwrap();
        message.starts_with("Starting checkpoint (") && message.contains(" on task ")
    });
    let snapshot = snapshot.expect("tasks say that a checkpoint starts");
    assert_eq!(snapshot["messageType"], "DEBUG", "{snapshot}");
    for (id, words) in [
        ("CKPT-0009", "Starting checkpoint ("),
        ("CKPT-0010", ", synchronous part) in thread Task "),
        ("CKPT-0011", ", asynchronous part) in thread "),
        ("CKPT-0012", "Received barrier for checkpoint "),
    ] {
        let said = of_process.iter().find(|r| r["fields"]["event_id"] == id);
        let said = said.unwrap_or_else(|| panic!("no line of a task has {id}"));
        assert!(said["message"].as_str().unwrap().contains(words), "{said}");
        assert!(said["checkpointId"].is_u64(), "{said}");
    }
    let thread = snapshot["threadName"].as_str().unwrap();
    assert!(thread.starts_with("Task "), "{snapshot}");
    let place = snapshot["locationInformation"].as_str().unwrap();
    assert!(place.starts_with("millstream_runtime::"), "{snapshot}");
    assert!(
        snapshot["jobId"].is_string() && snapshot["tmId"] == "tm-1",
        "{snapshot}"
    );
    let broken = find(&records, "the control stream broke");
    let chain = broken["throwableInformation"].as_str();
    assert!(
        chain.is_some_and(|chain| !chain.contains('\n') || chain.contains("Caused by")),
        "{broken}"
    );
}

/// `2026-01-31T23:59:59.999Z LEVEL logger`.
fn is_text_record(line: &str) -> bool {
    let mut words = line.split_whitespace();
    let (time, level, logger) = (words.next(), words.next(), words.next());
    let is_time = time
        .is_some_and(|time| time.len() == 24 && time.ends_with('Z') && time.as_bytes()[10] == b'T');
    let levels = ["ERROR", "WARN", "INFO", "DEBUG", "TRACE"];
    is_time
        && level.is_some_and(|level| levels.contains(&level))
        && logger.is_some_and(|logger| logger.trim_end_matches(':').contains("millstream"))
}

fn number_behind(line: &str, word: &str) -> u64 {
    let rest = line
        .split_once(word)
        .unwrap_or_else(|| panic!("{word:?} in {line}"))
        .1;
    let digits: String = rest.chars().take_while(char::is_ascii_digit).collect();
    digits
        .parse()
        .unwrap_or_else(|_| panic!("a number behind {word:?} in {line}"))
}

// Texts of the log catalogue, with the numbers that REST shows.
#[test]
fn a_text_log_tells_of_checkpoints_failure_restart_and_restore_with_their_numbers() {
    let (cluster, id) = after_a_restart(&[]);
    for name in ["jobmanager", "taskmanager-1"] {
        let log = cluster.log(name);
        assert!(!log.contains(SECRET), "{name} writes its secret");
        let unsafe_marks = ['\u{1b}', '\u{2028}', '\u{202e}'];
        assert!(
            !log.contains(unsafe_marks),
            "{name} writes what steers a terminal"
        );
        let other = log.lines().find(|line| !is_text_record(line));
        assert_eq!(other, None, "{name}: no record of its own");
    }
    let log = cluster.log("jobmanager");
    let line = |part: &str| -> String {
        let found = log.lines().find(|line| line.contains(part));
        found
            .unwrap_or_else(|| panic!("no line says {part:?}\n{log}"))
            .to_owned()
    };
    let completed = line(&format!(" for job {id} ("));
    let n = number_behind(&completed, "Completed checkpoint ");
    assert!(
        n >= 1 && completed.contains("event_id=CKPT-0006"),
        "{completed}"
    );
    assert!(
        number_behind(&completed, &format!("job {id} (")) > 0,
        "{completed}"
    );
    for word in ["checkpointDuration=", "finalizationTime="] {
        number_behind(&completed, word);
    }
    let triggered = line(&format!("Triggering checkpoint {n} (type="));
    assert!(triggered.contains(&format!("for job {id}.")), "{triggered}");
    let failed = line("switched from RUNNING to FAILED with failure cause: ");
    assert!(
        failed.contains(" (1/2) (") && failed.contains("first line"),
        "{failed}"
    );
    let restart = line(" tasks will be restarted to recover the failed task ");
    assert!(restart.contains(": 4 tasks will be"), "{restart}");
    let restored = line(&format!("Restoring job {id} from Checkpoint "));
    let from = number_behind(&restored, "from Checkpoint ");
    assert!(
        from >= n && log.contains(&format!("Completed checkpoint {from} for")),
        "{restored}"
    );
    for attempt in [0, 1] {
        let deploying = line(&format!("(attempt #{attempt}) with attempt id "));
        assert!(deploying.contains("to slot "), "{deploying}");
    }
}

#[test]
fn a_daemon_that_cannot_start_says_why_in_one_line_and_a_remedy() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("no-directory");
    std::fs::write(&file, "").unwrap();
    let mut command = std::process::Command::new(crate::process::program("jobmanager"));
    command.args(["-D", "jobmanager.rpc.port=0", "-D", "rest.port=0"]);
    command
        .arg("-D")
        .arg(format!("checkpointing.dir={}/x", file.display()));
    let output = crate::process::finish(&mut command, std::time::Duration::from_secs(30));
    assert_eq!(output.status.code(), Some(1));
    let stderr = text(&output.stderr);
    let said: Vec<_> = stderr
        .lines()
        .filter(|line| !is_text_record(line))
        .collect();
    assert_eq!(said.len(), 2, "{stderr}");
    assert!(
        said[0].starts_with("error[STORE-0005]: storage "),
        "{stderr}"
    );
    assert!(said[0].contains("no-directory"), "{stderr}");
}
