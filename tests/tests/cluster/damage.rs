//! Storage that fails: damaged checkpoints, and a disk that is full.

use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::field_cases::{completed, wait_until};
use crate::fixture::{Cluster, Ledger, own_mounts};
use crate::process::text;

const LEDGER: Ledger = Ledger {
    keys: 1_000,
    rows: 60_000,
    rate: 6_000,
};

/// Files below a directory, by path.
fn files(dir: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(dir).into_iter().flatten().flatten() {
        match entry.path() {
            path if path.is_dir() => found.extend(files(&path)),
            path => found.push(path),
        }
    }
    found.sort();
    found
}

/// The objects of the newest completed checkpoint: its metadata, and its state.
fn newest(cluster: &Cluster, job: &str) -> (PathBuf, Vec<PathBuf>) {
    let dir = cluster.dir().join("checkpoints").join(job);
    let number = |path: &Path| -> u64 {
        let name = path
            .strip_prefix(&dir)
            .unwrap()
            .iter()
            .next()
            .unwrap()
            .to_string_lossy();
        name.strip_prefix("chk-")
            .and_then(|n| n.parse().ok())
            .unwrap_or(0)
    };
    let all = files(&dir);
    let metadata = all.iter().filter(|path| path.ends_with("_metadata"));
    let metadata = metadata.max_by_key(|path| number(path)).unwrap().clone();
    let chosen = number(&metadata);
    let state = all
        .into_iter()
        .filter(|path| number(path) == chosen && *path != metadata)
        .collect();
    (metadata, state)
}

/// Changes one byte in the middle.
fn flip_a_byte(path: &Path) {
    let mut bytes = std::fs::read(path).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 0x20;
    std::fs::write(path, bytes).unwrap();
}

/// The name of a file as messages have it.
fn name(path: &Path) -> String {
    path.file_name().unwrap().to_string_lossy().into_owned()
}

/// Damages the newest checkpoint while no jobmanager runs. The job is then refused, by the name of
/// the object and with these words, and starts from nothing else. Once the object is back it goes
/// on: by itself where tasks had found the damage, else with the next jobmanager.
fn is_refused(
    damage: impl FnOnce(&Path, &[PathBuf]) -> PathBuf,
    words: &[&str],
    found_by_tasks: bool,
) {
    let mut cluster = Cluster::start(1, 2);
    let (job, out) = LEDGER.write(cluster.dir());
    let yaml = std::fs::read_to_string(&job).unwrap();
    let settings = "interval: 1500ms, data-inline-threshold: 0 B";
    std::fs::write(&job, yaml.replace("interval: 250ms", settings)).unwrap();
    std::fs::create_dir_all(&out).unwrap();
    let id = cluster.submit(&job, "damaged");
    wait_until(&cluster, "two checkpoints", || {
        completed(&cluster, &id) >= 2
    });
    cluster.kill("jobmanager");
    wait_until(&cluster, "its tasks stop", || {
        cluster.children("taskmanager-1").is_empty()
    });
    let (metadata, state) = newest(&cluster, &id);
    assert!(!state.is_empty(), "state is in objects of its own");
    let kept: Vec<_> = state
        .iter()
        .chain([&metadata])
        .map(|path| (path.clone(), std::fs::read(path).unwrap()))
        .collect();
    let hit = damage(&metadata, &state);
    let before = cluster.log("jobmanager").len();
    let visible = files(&out).len();
    cluster.start_jobmanager("");
    wait_until(&cluster, "the job is refused", || {
        let status = text(&cluster.cli(&["status", &id]).stdout);
        words
            .iter()
            .copied()
            .chain([name(&hit).as_str(), "help: "])
            .all(|word| status.contains(word))
    });
    std::thread::sleep(Duration::from_secs(1));
    let log = cluster.log("jobmanager")[before..].to_owned();
    assert_eq!(log.contains("Deploying "), found_by_tasks, "{log}");
    assert!(!log.contains("No checkpoint found during restore"), "{log}");
    let restored: std::collections::BTreeSet<_> = log
        .lines()
        .filter_map(|line| line.split_once(" from Checkpoint "))
        .map(|(_, id)| id.split('.').next().unwrap_or_default().to_owned())
        .collect();
    assert_eq!(restored.len(), usize::from(found_by_tasks), "{log}");
    // What the damaged checkpoint promised may still become visible, nothing else.
    assert!(files(&out).len() <= visible + 8, "{:?}", files(&out));

    for (path, bytes) in kept {
        std::fs::write(path, bytes).unwrap();
    }
    if !found_by_tasks {
        assert_eq!(cluster.rest(&format!("/jobs/{id}"))["state"], "SUSPENDED");
        let cancel = cluster.cli(&["cancel", &id]);
        let said = text(&cancel.stderr);
        assert_eq!(cancel.status.code(), Some(1), "{said}");
        assert!(said.contains("cannot be cancelled"), "{said}");
        assert!(!said.contains("submitting again"), "{said}");
        cluster.kill("jobmanager");
        cluster.start_jobmanager("");
    }
    let end = cluster.follow(&job, "damaged");
    assert!(
        end.status.success(),
        "{}\n{}",
        text(&end.stderr),
        cluster.logs()
    );
    LEDGER.judge(&out);
}

#[test]
fn a_changed_byte_in_the_metadata_refuses_the_restore() {
    let damage = |metadata: &Path, _: &[PathBuf]| {
        flip_a_byte(metadata);
        metadata.to_owned()
    };
    is_refused(damage, &["checksum"], false);
}

#[test]
fn metadata_that_is_gone_refuses_the_restore() {
    let damage = |metadata: &Path, _: &[PathBuf]| {
        std::fs::remove_file(metadata).unwrap();
        metadata.to_owned()
    };
    is_refused(damage, &["does not exist"], false);
}

#[test]
fn a_changed_byte_in_the_state_refuses_the_restore() {
    let damage = |_: &Path, state: &[PathBuf]| {
        flip_a_byte(&state[0]);
        state[0].clone()
    };
    is_refused(damage, &["corrupt", "checksum"], true);
}

#[test]
fn state_that_is_gone_refuses_the_restore_before_any_task_starts() {
    let damage = |_: &Path, state: &[PathBuf]| {
        std::fs::remove_file(&state[0]).unwrap();
        state[0].clone()
    };
    is_refused(damage, &["does not exist"], false);
}

// State above the threshold of an acknowledgement is in objects: they lie in the job's directory, a
// restart finds them, and they go with their checkpoint (HND-070).
#[test]
fn state_in_objects_is_restored_and_goes_with_its_checkpoint() {
    let ledger = Ledger {
        keys: 8_000,
        rows: 96_000,
        rate: 12_000,
    };
    let cluster = Cluster::start(1, 2);
    let (job, out) = ledger.write(cluster.dir());
    let id = cluster.submit(&job, "large");
    wait_until(&cluster, "some checkpoints", || {
        completed(&cluster, &id) >= 4
    });
    let (_, state) = newest(&cluster, &id);
    let bytes: u64 = state
        .iter()
        .map(|path| path.metadata().map_or(0, |m| m.len()))
        .sum();
    assert!(bytes > 100_000, "the state is no small one: {state:?}");
    let process = cluster.children("taskmanager-1")[0];
    crate::fixture::kill_process(process);
    let end = cluster.follow(&job, "large");
    assert!(
        end.status.success(),
        "{}\n{}",
        text(&end.stderr),
        cluster.logs()
    );
    ledger.judge(&out);
    let left = || -> Vec<_> {
        let all = files(&cluster.dir().join("checkpoints")).into_iter();
        all.filter(|path| path.to_string_lossy().contains("/chk-"))
            .collect()
    };
    wait_until(
        &cluster,
        &format!("no objects are left: {:?}", left()),
        || left().is_empty(),
    );
}

#[test]
fn a_full_disk_of_local_state_is_named_and_the_job_recovers_when_there_is_room() {
    let ledger = Ledger {
        keys: 1_000,
        rows: 60_000,
        rate: 12_000,
    };
    let mut cluster = Cluster::start(0, 2);
    let state = cluster.state_dir(1);
    std::fs::create_dir(&state).unwrap();
    let mount = format!(
        "mount -t tmpfs -o size=64m tmpfs {} && exec \"$@\"",
        state.display()
    );
    let mut by = own_mounts().to_vec();
    by.extend(["sh", "-c", &mount, "sh"]);
    cluster.launch_taskmanager(&by, 1, 2, "");
    cluster.until("it is registered", |overview| overview["taskmanagers"] == 1);
    // The same directory as the taskmanager sees it.
    let inside = PathBuf::from(format!("/proc/{}/root", cluster.id("taskmanager-1")));
    let filler = inside.join(state.strip_prefix("/").unwrap()).join("filler");
    let filled = std::fs::write(&filler, vec![1; 80 << 20]);
    assert!(filled.is_err(), "the disk is full");

    let (job, out) = ledger.write(cluster.dir());
    let id = cluster.submit(&job, "full");
    wait_until(&cluster, "it fails and tries again", || {
        let jobs = cluster.rest("/jobs/overview")["jobs"].clone();
        jobs[0]["restarts"]
            .as_u64()
            .is_some_and(|restarts| restarts >= 2)
    });
    let status = text(&cluster.cli(&["status", &id]).stdout);
    assert!(status.contains(&state.display().to_string()), "{status}");
    assert!(status.contains("No space left on device"), "{status}");
    assert!(status.contains("help: "), "{status}");
    std::fs::remove_file(&filler).unwrap();
    let end = cluster.follow(&job, "full");
    assert!(
        end.status.success(),
        "{}\n{}",
        text(&end.stderr),
        cluster.logs()
    );
    ledger.judge(&out);
}

// As in two containers without a common volume: one path, two directories.
#[test]
fn a_taskmanager_that_sees_another_directory_under_the_same_name_is_refused() {
    let mut cluster = Cluster::start(0, 1);
    let checkpoints = cluster.dir().join("checkpoints");
    let mount = format!(
        "mount -t tmpfs tmpfs {} && exec \"$@\"",
        checkpoints.display()
    );
    let mut by = own_mounts().to_vec();
    by.extend(["sh", "-c", &mount, "sh"]);
    cluster.launch_taskmanager(&by, 1, 1, "");
    let ended = cluster.wait("taskmanager-1", Duration::from_secs(60));
    let log = cluster.log("taskmanager-1");
    assert_eq!(ended.and_then(|status| status.code()), Some(1), "{log}");
    for part in [
        "the jobmanager at localhost:".to_owned(),
        format!("keeps checkpoints in {}", checkpoints.display()),
        "there is no object _cluster".to_owned(),
        "mount one shared directory".to_owned(),
    ] {
        assert!(log.contains(&part), "{part} is missing in: {log}");
    }
    assert_eq!(cluster.rest("/overview")["taskmanagers"], 0);
}
