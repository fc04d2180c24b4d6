//! Checkpoints, chains and jobs on a real S3 server: exact output, mistakes in words, an outage.

use std::time::{Duration, Instant};

use serde_json::Value;

use crate::fixture::{Cluster, Ledger, free_port};
use crate::kills::end_well;
use crate::process::text;
use crate::seaweed::{BUCKET, SECRET_KEY, Seaweed};

/// In which a daemon must have said that its storage is unusable.
const SOON: Duration = Duration::from_secs(20);

fn as_texts(settings: &[String]) -> Vec<&str> {
    settings.iter().map(String::as_str).collect()
}

/// No log and no output shows the secret, or a value as the compiler prints it.
fn is_fit_to_be_read(cluster: &Cluster, output: &str) {
    let mut all = output.to_owned();
    for entry in std::fs::read_dir(cluster.dir()).unwrap().flatten() {
        let name = entry.file_name().to_string_lossy().into_owned();
        if let Some(daemon) = name.strip_suffix(".log") {
            all += &cluster.log(daemon);
        }
    }
    for hidden in [
        SECRET_KEY,
        "Error {",
        "Some(",
        "Err(",
        "source: ",
        "Generic {",
        "panicked",
    ] {
        let line = all.lines().find(|line| line.contains(hidden));
        assert_eq!(line, None, "no text for people: {hidden:?}");
    }
}

/// The newest checkpoint that failed, as REST shows it; null while none has.
fn latest_failed(cluster: &Cluster, job: &str) -> Value {
    cluster.rest(&format!("/jobs/{job}/checkpoints"))["latest"]["failed"].clone()
}

fn records_written(cluster: &Cluster, job: &str) -> u64 {
    let job = cluster.rest(&format!("/jobs/{job}"));
    let vertices = job["vertices"].as_array().cloned().unwrap_or_default();
    let written = |vertex: &Value| vertex["metrics"]["write-records"].as_u64();
    vertices.iter().filter_map(written).sum()
}

// HND-066, on S3: taskmanager and jobmanager die, and the job goes on from its objects.
#[test]
fn kills_lose_and_double_nothing_on_s3() {
    let server = Seaweed::start();
    let mut settings = server.settings();
    // All state becomes objects: nothing travels in acknowledgements.
    settings.push("checkpointing.data-inline-threshold=0 B".to_owned());
    let ledger = Ledger {
        keys: 40,
        rows: 192_000,
        rate: 16_000,
    };
    let mut cluster = Cluster::start_with(2, 2, &as_texts(&settings));
    let (job, out) = ledger.write(cluster.dir());
    std::fs::create_dir_all(&out).unwrap();
    let watch = ledger.watch(&out, &cluster.dir().join("done"));
    let id = cluster.submit(&job, "ledger");
    cluster.until_job(&id, "RUNNING");
    for round in 0..4 {
        std::thread::sleep(Duration::from_millis(1_500));
        if round % 2 == 1 {
            cluster.kill("jobmanager");
            cluster.start_jobmanager("");
        } else {
            let number = [1, 2].into_iter();
            let mut busy =
                number.filter(|n| !cluster.children(&format!("taskmanager-{n}")).is_empty());
            let number = busy.next().expect("the job runs somewhere");
            cluster.kill(&format!("taskmanager-{number}"));
            cluster.start_taskmanager(number, 2, "");
        }
        cluster.until_job(&id, "RUNNING");
    }
    let begun = Instant::now();
    let checkpoint = loop {
        let checkpoints = cluster.rest(&format!("/jobs/{id}/checkpoints"));
        let latest = checkpoints["latest"]["completed"].clone();
        if latest.is_object() {
            break latest;
        }
        assert!(begun.elapsed() < SOON, "{checkpoints}\n{}", cluster.logs());
        std::thread::sleep(Duration::from_millis(50));
    };
    let path = checkpoint["external_path"].as_str().unwrap_or_default();
    assert!(
        path.starts_with(&format!("s3://{BUCKET}/cluster/{id}/")),
        "{checkpoint}"
    );
    end_well(&cluster, &ledger, &job, &out, watch);
    is_fit_to_be_read(&cluster, "");
}

/// Starts a jobmanager with its storage misconfigured: what it says before it ends.
fn refusal(settings: &[String]) -> String {
    let mut cluster = Cluster::prepared(&as_texts(settings));
    cluster.spawn_jobmanager("");
    let ended = cluster.wait("jobmanager", SOON);
    let said = cluster.log("jobmanager");
    assert_eq!(ended.and_then(|status| status.code()), Some(1), "{said}");
    is_fit_to_be_read(&cluster, "");
    said
}

/// The settings with one replaced.
fn with(settings: &[String], key: &str, value: &str) -> Vec<String> {
    let others = settings.iter().filter(|s| s.split('=').next() != Some(key));
    let replaced = std::iter::once(format!("{key}={value}"));
    others.cloned().chain(replaced).collect()
}

#[test]
fn a_storage_that_cannot_be_used_is_named_with_cause_and_remedy_within_seconds() {
    let server = Seaweed::start();
    let right = server.settings();

    let said = refusal(&with(
        &right,
        "checkpointing.dir",
        "s3://nobodys-bucket/cluster",
    ));
    for part in [
        "s3://nobodys-bucket/cluster",
        "refused",
        "Check the credentials",
        "bucket",
    ] {
        assert!(said.contains(part), "{part} is missing: {said}");
    }

    let said = refusal(&with(&right, "s3.access-key", "nobody"));
    for part in [
        "s3://checkpoints/cluster",
        "refused",
        "Check the credentials",
    ] {
        assert!(said.contains(part), "{part} is missing: {said}");
    }

    let dir = tempfile::tempdir().unwrap();
    let wrong = dir.path().join("secret");
    std::fs::write(&wrong, format!("{SECRET_KEY}-wrong")).unwrap();
    let said = refusal(&with(
        &right,
        "s3.secret-key-file",
        &wrong.to_string_lossy(),
    ));
    for part in [
        "s3://checkpoints/cluster",
        "refused",
        "Check the credentials",
    ] {
        assert!(said.contains(part), "{part} is missing: {said}");
    }

    let missing = dir.path().join("none");
    let said = refusal(&with(
        &right,
        "s3.secret-key-file",
        &missing.to_string_lossy(),
    ));
    for part in ["s3.secret-key", &missing.to_string_lossy()] {
        assert!(said.contains(part), "{part} is missing: {said}");
    }

    let nobody = format!("http://127.0.0.1:{}", free_port());
    let said = refusal(&with(&right, "s3.endpoint", &nobody));
    for part in ["s3://checkpoints/cluster", &nobody, "answers"] {
        assert!(said.contains(part), "{part} is missing: {said}");
    }
}

#[test]
fn a_submission_with_a_bucket_of_its_own_that_is_not_there_is_refused() {
    let server = Seaweed::start();
    let cluster = Cluster::start_with(0, 1, &as_texts(&server.settings()));
    let ledger = Ledger {
        keys: 10,
        rows: 1_000,
        rate: 1_000,
    };
    let (job, _) = ledger.write(cluster.dir());
    let yaml = std::fs::read_to_string(&job).unwrap();
    let own = "interval: 250ms, dir: s3://nobodys-bucket/mine,";
    std::fs::write(&job, yaml.replace("interval: 250ms,", own)).unwrap();
    let begun = Instant::now();
    let output = cluster.cli(&["run", "-d", &job.to_string_lossy()]);
    let said = text(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(begun.elapsed() < SOON, "{:?}", begun.elapsed());
    for part in [
        "s3://nobodys-bucket/mine",
        "Check the credentials",
        "bucket",
    ] {
        assert!(said.contains(part), "{part} is missing: {said}");
    }
    is_fit_to_be_read(&cluster, &said);
    let list = text(&cluster.cli(&["list"]).stdout);
    assert!(!list.contains("ledger"), "{list}");
}

#[test]
fn a_taskmanager_with_a_wrong_secret_fails_the_job_by_name() {
    let server = Seaweed::start();
    let mut cluster = Cluster::start_with(0, 1, &as_texts(&server.settings()));
    let wrong = cluster.dir().join("wrong");
    std::fs::write(&wrong, format!("{SECRET_KEY}-wrong")).unwrap();
    cluster.set(&format!("s3.secret-key-file={}", wrong.display()));
    cluster.start_taskmanager(1, 2, "");
    let ledger = Ledger {
        keys: 10,
        rows: 1_000,
        rate: 1_000,
    };
    let (job, _) = ledger.write(cluster.dir());
    let yaml = std::fs::read_to_string(&job).unwrap();
    std::fs::write(&job, yaml.replace("attempts: unlimited", "attempts: 0")).unwrap();
    let id = cluster.submit(&job, "ledger");
    cluster.until_job(&id, "FAILED");
    let status = text(&cluster.cli(&["status", &id]).stdout);
    for part in ["s3://checkpoints/cluster", "refused", "credentials"] {
        assert!(status.contains(part), "{part} is missing: {status}");
    }
    is_fit_to_be_read(&cluster, &status);
}

// HND-067, run 2: a store that is silent for some seconds costs checkpoints within the tolerance,
// and nothing else; the cause of each names it.
#[test]
fn a_store_that_hangs_costs_checkpoints_only_and_is_named_as_their_cause() {
    let server = Seaweed::start();
    let mut settings = server.settings();
    settings.push("checkpointing.timeout=4s".to_owned());
    settings.push("checkpointing.data-inline-threshold=0 B".to_owned());
    let ledger = Ledger {
        keys: 40,
        rows: 320_000,
        rate: 16_000,
    };
    let cluster = Cluster::start_with(1, 2, &as_texts(&settings));
    let (job, out) = ledger.write(cluster.dir());
    std::fs::create_dir_all(&out).unwrap();
    let watch = ledger.watch(&out, &cluster.dir().join("done"));
    let id = cluster.submit(&job, "ledger");
    cluster.until_job(&id, "RUNNING");
    std::thread::sleep(Duration::from_secs(2));
    server.pause();
    let before = records_written(&cluster, &id);
    std::thread::sleep(Duration::from_secs(9));
    let failed = latest_failed(&cluster, &id);
    let after = records_written(&cluster, &id);
    server.resume();
    let cause = failed["failure_message"]
        .as_str()
        .unwrap_or_default()
        .to_owned();
    assert!(
        cause.contains("storage") || cause.contains(&format!("s3://{BUCKET}/cluster")),
        "storage is not named: {failed}\n{}",
        cluster.logs()
    );
    assert!(
        after > before + 16_000,
        "the job stood still: {before} to {after}"
    );
    end_well(&cluster, &ledger, &job, &out, watch);
    let counts = cluster.rest(&format!("/jobs/{id}/checkpoints"))["counts"].clone();
    assert_eq!(counts["restored"], 0, "nothing failed over: {counts}");
    is_fit_to_be_read(&cluster, "");
}
