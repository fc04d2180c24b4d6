//! Large rows, many rows, and how they are counted.

use std::io::{Read, Write};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use serde_json::Value;

use crate::field_cases::{completed, rows, wait_until};
use crate::fixture::Cluster;
use crate::job::Job;
use crate::process::{program, text};

const MIB: usize = 1 << 20;

/// Lines `<key><key>…` of these lengths between small ones.
fn write_lines(path: &Path, lengths: &[usize]) {
    let mut file = std::io::BufWriter::new(std::fs::File::create(path).unwrap());
    for (number, length) in lengths.iter().enumerate() {
        writeln!(file, "small {number}").unwrap();
        let letter = b'a' + u8::try_from(number).unwrap();
        file.write_all(&vec![letter; *length]).unwrap();
        file.write_all(b"\n").unwrap();
    }
    writeln!(file, "small last").unwrap();
}

/// Counts lines by their first letters, and remembers each line's length as it arrives.
fn lengths_job(dir: &Path, source: &str) -> Job {
    let (keyed, measured) = (
        "uid: keyed, columns: [{ k: \"substr(line, 1, 7)\" }, line]",
        "uid: measured, columns: [k, n, { length: \"length(longest)\" }]",
    );
    let longest = "n: \"count(*)\", longest: \"max(line)\"";
    Job::new("lengths")
        .parallelism(2)
        .restarts("type: none")
        .file("lines", dir.join("lines.txt"), source)
        .step("select", keyed)
        .aggregate("k", "longest", longest, "")
        .step("select", measured)
        .sink("print")
}

/// Printed rows without the number of their subtask, sorted, and how many subtasks printed one of
/// at least this length.
fn printed(stdout: &str, length: usize) -> (Vec<String>, usize) {
    let mut rows: Vec<String> = Vec::new();
    let mut subtasks = std::collections::BTreeSet::new();
    for line in stdout.lines() {
        let (subtask, row) = line.split_once("> ").unwrap();
        let found: usize = row.rsplit(", ").next().unwrap().parse().unwrap();
        if found >= length {
            subtasks.insert(subtask.to_owned());
        }
        rows.push(row.to_owned());
    }
    rows.sort();
    (rows, subtasks.len())
}

/// Of all vertices.
fn bad_records(job: &Value) -> u64 {
    let vertices = job["vertices"].as_array().unwrap().iter();
    let counts = vertices.map(|vertex| vertex["metrics"]["bad-records"].as_u64().unwrap());
    counts.sum()
}

fn expected(lengths: &[usize]) -> Vec<String> {
    let mut rows = vec!["small l, 1, 10".to_owned()];
    for (number, length) in lengths.iter().enumerate() {
        rows.push(format!("small {number}, 1, 7"));
        let letter = char::from(b'a' + u8::try_from(number).unwrap());
        rows.push(format!("{}, 1, {length}", letter.to_string().repeat(7)));
    }
    rows.sort();
    rows
}

// HND-073, first part: rows larger than any message arrive whole, and so do their neighbours.
#[test]
fn rows_of_many_megabytes_cross_a_keyed_exchange() {
    let cluster = Cluster::start(2, 1);
    let lengths = [6, 10, 6, 6, 10, 6].map(|n| n * MIB);
    write_lines(&cluster.dir().join("lines.txt"), &lengths);
    let job = lengths_job(cluster.dir(), "format: text").write(cluster.dir(), "lengths");
    let end = cluster.cli(&["run", &job.to_string_lossy()]);
    assert!(
        end.status.success(),
        "{}\n{}",
        text(&end.stderr),
        cluster.logs()
    );
    let (found, n_subtasks) = printed(&text(&end.stdout), 6 * MIB);
    assert_eq!(found, expected(&lengths));
    // One file is one split of one reader: the rows of one of two subtasks came over the network.
    assert_eq!(n_subtasks, 2, "{}", text(&end.stdout));
}

// HND-073: the row is refused with what it has, what is accepted, and what to do; nothing hangs.
#[test]
fn a_row_above_the_limit_is_refused_by_file_line_and_limit_or_counted() {
    let cluster = Cluster::start(2, 1);
    let lengths = [40 * MIB];
    write_lines(&cluster.dir().join("lines.txt"), &lengths);
    let run = |name: &str, source: &str| {
        let job = lengths_job(cluster.dir(), source).write(cluster.dir(), name);
        cluster.cli(&["run", &job.to_string_lossy(), "--client-id", name])
    };
    let refused = run("fail", "format: text");
    let stderr = text(&refused.stderr);
    assert_eq!(refused.status.code(), Some(3), "{stderr}");
    for part in [
        "lines.txt",
        "line 2",
        "41943040 bytes",
        "16777216",
        "max-line",
    ] {
        assert!(stderr.contains(part), "{part} is missing in: {stderr}");
    }

    let skipped = run("skip", "on-error: skip");
    assert!(skipped.status.success(), "{}", text(&skipped.stderr));
    let (found, _) = printed(&text(&skipped.stdout), 0);
    assert_eq!(found, ["small 0, 1, 7", "small l, 1, 10"]);
    let list = text(&cluster.cli(&["list", "-a"]).stdout);
    let newest = list
        .lines()
        .next()
        .unwrap()
        .split(" : ")
        .nth(1)
        .unwrap()
        .to_owned();
    let job = cluster.rest(&format!("/jobs/{newest}"));
    assert_eq!(bad_records(&job), 1, "{job}");
    let status = text(&cluster.cli(&["status", &newest]).stdout);
    assert!(
        status.contains("1 bad records left out or put aside"),
        "{status}"
    );

    let whole = run("whole", "max-line: 48 MiB");
    assert!(
        whole.status.success(),
        "{}\n{}",
        text(&whole.stderr),
        cluster.logs()
    );
    assert_eq!(printed(&text(&whole.stdout), 0).0, expected(&lengths));
}

// HND-080: bad rows do not flood the log, and are counted to the last one.
#[test]
fn a_hundred_thousand_bad_rows_are_counted_and_the_log_stays_short() {
    let cluster = Cluster::start(1, 1);
    let mut lines = String::new();
    for n in 0..10 {
        lines.push_str(&"{\"id\": broken}\n".repeat(10_000));
        lines.push_str(&format!("{{\"id\": {n}}}\n"));
    }
    std::fs::write(cluster.dir().join("lines.json"), lines).unwrap();
    let how = "format: json, columns: { id: BIGINT }, on-error: skip";
    let job = Job::new("dirty")
        .file("lines", cluster.dir().join("lines.json"), how)
        .sink("print")
        .write(cluster.dir(), "dirty");
    let end = cluster.cli(&["run", &job.to_string_lossy()]);
    assert!(end.status.success(), "{}", text(&end.stderr));
    assert_eq!(text(&end.stdout).lines().count(), 10);
    let id = cluster.rest("/jobs")["jobs"][0]["id"]
        .as_str()
        .unwrap()
        .to_owned();
    let job = cluster.rest(&format!("/jobs/{id}"));
    assert_eq!(bad_records(&job), 100_000, "{job}");
    for name in ["jobmanager", "taskmanager-1"] {
        let lines = cluster.log(name).lines().count();
        assert!(lines < 200, "{name} writes {lines} lines");
    }
    assert!(
        cluster.log("taskmanager-1").contains("100000 bad records"),
        "{}",
        cluster.logs()
    );
}

/// 1,000 rows, of which half pass, of 10 keys.
fn counting_job(out: &Path, chain: bool, fails: bool) -> Job {
    let columns = "n: { sequence: {} }, key: { key: 10 }";
    let job = Job::new("counted")
        .parallelism(2)
        .checkpoints("interval: 1h")
        .set("pipeline.operator-chaining.enabled", chain)
        .restarts("type: fixed-delay, attempts: 2, delay: 50ms")
        .generator("numbers", "rows: 1000, rate: 2000", columns)
        .step("filter", "uid: half, where: \"n % 20 < 10\"");
    let once = "fail: { at: 20, message: once }, subtask: 0, times: 1";
    let job = if fails {
        job.inject("trouble", once)
    } else {
        job
    };
    job.count("key", "end").file_sink(out, "csv")
}

/// (name, rows in, rows out) of each vertex.
fn counters(job: &Value) -> Vec<(String, u64, u64)> {
    let vertices = job["vertices"].as_array().unwrap().iter();
    let of = |vertex: &Value| {
        let metrics = &vertex["metrics"];
        assert_eq!(metrics["read-records-complete"], true, "{vertex}");
        let count = |key: &str| metrics[key].as_u64().unwrap();
        let name = vertex["name"].as_str().unwrap().to_owned();
        (name, count("read-records"), count("write-records"))
    };
    vertices.map(of).collect()
}

// HND-075: counters are exact at the end, the same over REST and the command line, and stay.
#[test]
fn record_counters_are_exact_chained_unchained_and_after_a_restart() {
    let cluster = Cluster::start(2, 1);
    for (name, chain, fails) in [
        ("chained", true, false),
        ("unchained", false, false),
        ("restarted", false, true),
    ] {
        let out = cluster.dir().join(name);
        let job = counting_job(&out, chain, fails).write(cluster.dir(), name);
        let id = cluster.submit(&job, name);
        cluster.until_job(&id, "FINISHED");
        let at_end = counters(&cluster.rest(&format!("/jobs/{id}")));
        let count = |part: &str| {
            let found = at_end.iter().find(|(name, ..)| name.contains(part));
            let (_, taken, given) = found.unwrap_or_else(|| panic!("{part} in {at_end:?}"));
            (*taken, *given)
        };
        if chain {
            assert_eq!(at_end.len(), 2, "{at_end:?}");
            assert_eq!(count("half").1, 500, "{name}: {at_end:?}");
            assert_eq!(count("counts").0, 500, "{name}: {at_end:?}");
        } else {
            assert_eq!(count("numbers").1, 1_000, "{name}: {at_end:?}");
            assert_eq!(count("half"), (1_000, 500), "{name}: {at_end:?}");
            assert_eq!(count("counts"), (500, 10), "{name}: {at_end:?}");
            assert_eq!(count("out").0, 10, "{name}: {at_end:?}");
        }
        let found = rows(&out)
            .iter()
            .filter(|row| !row.starts_with("key"))
            .count();
        assert_eq!(found, 10);
        std::thread::sleep(Duration::from_millis(2_500));
        let later = cluster.rest(&format!("/jobs/{id}"));
        assert_eq!(counters(&later), at_end, "counters move after the end");
        let bytes = later["vertices"][0]["metrics"]["write-bytes"].as_u64();
        assert!(bytes > Some(0), "{later}");
        let status = text(&cluster.cli(&["status", &id]).stdout);
        for (name, taken, given) in &at_end {
            let line = status
                .lines()
                .find(|line| line.contains(&format!("{name}: ")));
            let line = line.unwrap_or_else(|| panic!("{name} in {status}"));
            assert!(
                line.contains(&format!("{taken} rows in, {given} out")),
                "{line}"
            );
        }
        if fails {
            assert!(status.contains("restarts 1"), "{status}");
        }
    }
}

/// A client that is too slow costs lines, which are counted, and never holds up the job.
#[test]
fn a_client_that_does_not_read_misses_lines_is_told_how_many_and_blocks_nobody() {
    let cluster = Cluster::start(1, 1);
    const ROWS: u64 = 400_000;
    let columns = "n: { sequence: {} }, text: { random-text: 40 }";
    let job = Job::new("flood")
        .generator("rows", &format!("rows: {ROWS}"), columns)
        .sink("print")
        .write(cluster.dir(), "flood");
    let mut command = Command::new(program("millstream"));
    command
        .arg("run")
        .arg(&job)
        .args(["-m", &cluster.jobmanager()]);
    command
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    let mut client = command.spawn().unwrap();
    wait_until(&cluster, "the job ends while nobody reads", || {
        cluster.rest("/overview")["jobs-finished"] == 1
    });
    let mut stdout = String::new();
    client
        .stdout
        .take()
        .unwrap()
        .read_to_string(&mut stdout)
        .unwrap();
    let output = client.wait_with_output().unwrap();
    let stderr = text(&output.stderr);
    assert!(output.status.success(), "{stderr}");
    let said = stderr.lines().filter_map(|line| {
        let rest = line.strip_prefix("warning: ")?;
        let (number, what) = rest.split_once(' ')?;
        assert!(what.starts_with("printed rows were dropped"), "{line}");
        number.parse::<u64>().ok()
    });
    let dropped: u64 = said.sum();
    let printed = stdout.lines().count() as u64;
    assert!(
        dropped > 0,
        "the client was not slow: {printed} lines, {stderr}"
    );
    assert_eq!(printed + dropped, ROWS, "{stderr}");
}

/// Memory that the job processes of both taskmanagers hold, in MiB.
fn resident_mib(cluster: &Cluster) -> u64 {
    let names = ["taskmanager-1", "taskmanager-2"];
    let ids = names.iter().flat_map(|name| cluster.children(name));
    let of = |id: u32| -> u64 {
        let status = std::fs::read_to_string(format!("/proc/{id}/status")).unwrap_or_default();
        let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
        let kib = line.and_then(|line| line.split_whitespace().next()?.parse().ok());
        kib.unwrap_or(0) / 1_024
    };
    ids.map(of).sum()
}

// HND-004: what a slow consumer does not take stays with its producers, and barriers still pass.
#[test]
fn a_slow_consumer_holds_its_producers_back_and_memory_stays_bounded() {
    let cluster = Cluster::start(2, 1);
    let columns = "key: { key: 100 }, text: { random-text: 1000 }";
    let job = Job::new("pressed")
        .parallelism(2)
        .checkpoints("interval: 500ms, timeout: 1m")
        .generator("rows", "", columns)
        .aggregate("key", "longest", "longest: \"max(text)\"", "each")
        .inject("slow", "delay: { per-row: 2ms }")
        .sink("blackhole")
        .write(cluster.dir(), "pressed");
    let id = cluster.submit(&job, "pressed");
    cluster.until_job(&id, "RUNNING");
    wait_until(&cluster, "a checkpoint passes", || {
        completed(&cluster, &id) >= 1
    });
    let sent = || {
        let job = cluster.rest(&format!("/jobs/{id}"));
        job["vertices"][0]["metrics"]["write-records"]
            .as_u64()
            .unwrap_or(0)
    };
    std::thread::sleep(Duration::from_secs(2));
    let (memory, rows) = (resident_mib(&cluster), sent());
    std::thread::sleep(Duration::from_secs(8));
    let grown = resident_mib(&cluster).saturating_sub(memory);
    assert!(grown < 64, "{memory} MiB grew by {grown} MiB");
    let passed = sent() - rows;
    // Two subtasks of 500 rows a second take what is sent, beside what is on its way.
    assert!(
        passed < 20_000,
        "{passed} rows were sent to a consumer that takes 1,000 a second"
    );
    assert!(completed(&cluster, &id) >= 2, "{}", cluster.logs());
    assert!(cluster.cli(&["cancel", &id]).status.success());
}
