//! A run that is killed at chosen moments and started again commits every row once.

use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Command, Output};
use std::time::Duration;

use crate::process::{finish, program, text};

const KEYS: u64 = 50;
const ROWS: u64 = 100_000;

/// Each key's rows come from one reader: the number of keys is a multiple of their number.
fn write_job(dir: &Path, backend: &str) {
    write_job_as(dir, backend, "csv");
}

/// The same with files of another format.
fn write_job_as(dir: &Path, backend: &str, format: &str) {
    let yaml = format!(
        "name: exactly-once\n\
         parallelism: 2\n\
         checkpointing: {{ interval: 200ms }}\n\
         restart-strategy: {{ type: fixed-delay, attempts: 100, delay: 100ms }}\n\
         state.backend.type: {backend}\n\
         pipeline:\n\
         \x20 - source:\n\
         \x20     uid: rows\n\
         \x20     connector: generator\n\
         \x20     rows: {ROWS}\n\
         \x20     rate: 20000\n\
         \x20     columns:\n\
         \x20       key: {{ key: {KEYS} }}\n\
         \x20       number: {{ sequence-per-key: {KEYS} }}\n\
         \x20 - key-by: [key]\n\
         \x20 - aggregate: {{ uid: sums, emit: each, \
         select: {{ n: \"count(*)\", sum: \"sum(number)\" }} }}\n\
         \x20 - sink: {{ uid: out, connector: file, path: out, format: {format} }}\n"
    );
    std::fs::write(dir.join("job.yaml"), yaml).unwrap();
}

fn run(dir: &Path, fail_points: &str) -> Output {
    let mut command = Command::new(program("millstream"));
    command
        .arg("local")
        .arg(dir.join("job.yaml"))
        .arg("--dir")
        .arg(dir.join("work"));
    command.env("MILLSTREAM_FAIL_POINTS", fail_points);
    finish(&mut command, Duration::from_secs(120))
}

fn judge(dir: &Path) -> Output {
    let mut command = Command::new(program("oracle"));
    command
        .arg("check")
        .arg(dir.join("out"))
        .args(["--format", "csv", "--final", "--value", "n"]);
    command.args(["--keys", &KEYS.to_string(), "--rows", &ROWS.to_string()]);
    command.args(["--columns", "key,n,sum"]);
    finish(&mut command, Duration::from_secs(60))
}

/// Kills the run at `point`, starts it again, and lets the oracle judge what became visible.
fn survives(point: &str, backend: &str) {
    let dir = tempfile::tempdir().unwrap();
    write_job(dir.path(), backend);
    let killed = run(dir.path(), point);
    assert_eq!(
        killed.status.signal(),
        Some(9),
        "{point} hit nothing: {}",
        text(&killed.stderr)
    );
    let last = run(dir.path(), "");
    assert_eq!(
        last.status.code(),
        Some(0),
        "{point}: {}",
        text(&last.stderr)
    );
    let verdict = judge(dir.path());
    assert_eq!(
        verdict.status.code(),
        Some(0),
        "{point}: {}",
        text(&verdict.stdout)
    );
}

#[test]
fn a_kill_during_alignment_loses_and_doubles_nothing() {
    survives("alignment:kill:6", "hashmap");
}

#[test]
fn a_kill_during_an_upload_loses_and_doubles_nothing() {
    survives("upload:kill:9", "rocksdb");
}

// Proves F60 by its outcome: the rows are exact.
#[test]
fn a_kill_between_metadata_and_chain_entry_loses_and_doubles_nothing() {
    survives("metadata-stored:kill:3", "rocksdb");
}

#[test]
fn a_kill_between_chain_entry_and_commit_loses_and_doubles_nothing() {
    survives("chain-entry-stored:kill:3", "hashmap");
}

// Proves F157.
#[test]
fn a_kill_during_a_commit_loses_and_doubles_nothing() {
    survives("commit:kill:3", "rocksdb");
}

/// Reads the rows of Parquet files into CSV files, for the oracle. One reader, so that they keep their
/// order.
fn as_csv(dir: &Path) -> Output {
    let yaml = "name: as-csv\n\
                checkpointing: { interval: 1h }\n\
                pipeline:\n\
                \x20 - source: { uid: in, connector: file, path: parquet, format: parquet, \
                columns: { sum: BIGINT, key: BIGINT, n: BIGINT } }\n\
                \x20 - select: { uid: order, columns: [key, n, sum] }\n\
                \x20 - sink: { uid: out, connector: file, path: out, format: csv }\n";
    let job = dir.join("as-csv.yaml");
    std::fs::write(&job, yaml).unwrap();
    let mut command = Command::new(program("millstream"));
    finish(command.arg("local").arg(job), Duration::from_secs(120))
}

// Proves F157 for Parquet: a file has its footer when a checkpoint promises it.
#[test]
fn parquet_files_are_exact_and_whole_after_kills() {
    for point in [
        "upload:kill:9",
        "chain-entry-stored:kill:3",
        "commit:kill:3",
    ] {
        let dir = tempfile::tempdir().unwrap();
        write_job_as(dir.path(), "hashmap", "parquet");
        let killed = run(dir.path(), point);
        assert_eq!(killed.status.signal(), Some(9), "{}", text(&killed.stderr));
        let last = run(dir.path(), "");
        assert_eq!(last.status.code(), Some(0), "{}", text(&last.stderr));
        std::fs::rename(dir.path().join("out"), dir.path().join("parquet")).unwrap();
        let read = as_csv(dir.path());
        assert_eq!(read.status.code(), Some(0), "{}", text(&read.stderr));
        let verdict = judge(dir.path());
        assert_eq!(
            verdict.status.code(),
            Some(0),
            "{point}: {}",
            text(&verdict.stdout)
        );
    }
}

#[test]
fn a_kill_during_a_restore_loses_and_doubles_nothing() {
    let dir = tempfile::tempdir().unwrap();
    write_job(dir.path(), "rocksdb");
    let killed = run(dir.path(), "chain-entry-stored:kill:4");
    assert_eq!(killed.status.signal(), Some(9), "{}", text(&killed.stderr));
    let killed = run(dir.path(), "restore:kill");
    assert_eq!(
        killed.status.signal(),
        Some(9),
        "restore hit nothing: {}",
        text(&killed.stderr)
    );
    let last = run(dir.path(), "");
    assert_eq!(last.status.code(), Some(0), "{}", text(&last.stderr));
    let verdict = judge(dir.path());
    assert_eq!(verdict.status.code(), Some(0), "{}", text(&verdict.stdout));
}

// HND-062: what has finished stays so.
#[test]
fn a_finished_job_does_not_run_again() {
    let dir = tempfile::tempdir().unwrap();
    write_job(dir.path(), "hashmap");
    let first = run(dir.path(), "");
    assert_eq!(first.status.code(), Some(0), "{}", text(&first.stderr));
    let listing = |dir: &Path| {
        let names = std::fs::read_dir(dir.join("out")).unwrap();
        let mut names: Vec<_> = names.map(|entry| entry.unwrap().file_name()).collect();
        names.sort();
        names
    };
    let before = listing(dir.path());
    let second = run(dir.path(), "");
    assert_eq!(second.status.code(), Some(0), "{}", text(&second.stderr));
    assert_eq!(listing(dir.path()), before);
    assert!(judge(dir.path()).status.success());
}

#[test]
fn a_directory_that_holds_another_job_is_named_with_the_ways_out() {
    let dir = tempfile::tempdir().unwrap();
    write_job(dir.path(), "hashmap");
    let killed = run(dir.path(), "upload:kill:1");
    assert_eq!(killed.status.signal(), Some(9), "{}", text(&killed.stderr));
    let path = dir.path().join("job.yaml");
    let other = std::fs::read_to_string(&path)
        .unwrap()
        .replace("count(*)", "max(number)");
    std::fs::write(&path, other).unwrap();
    let refused = run(dir.path(), "");
    let said = text(&refused.stderr);
    assert_eq!(refused.status.code(), Some(1), "{said}");
    assert!(
        said.contains("work holds a job of another job file"),
        "{said}"
    );
    assert!(said.contains("--dir"), "{said}");
    assert!(!said.contains("client id"), "{said}");
}
