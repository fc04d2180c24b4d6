//! Bad input over a real cluster (docs/spec/bad-input.md): what is refused, in which words, and that
//! everything else goes on.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use crate::fixture::{Cluster, Ledger, PATIENCE, free_port, own_mounts};
use crate::job::Job;
use crate::process::{finish, program, text};
use crate::seaweed::venv;

const SMALL: Ledger = Ledger {
    keys: 10,
    rows: 1_000,
    rate: 2_000,
};

/// Sends bytes as the request of a call and prints what comes back.
const RAW_CALL: &str = r#"
import sys, grpc
address, method, path = sys.argv[1:]
unlimited = [("grpc.max_send_message_length", -1), ("grpc.max_receive_message_length", -1)]
call = grpc.insecure_channel(address, options=unlimited).unary_unary("/millstream.v1.JobService/" + method)
try:
    print("OK", call(open(path, "rb").read(), timeout=60))
except grpc.RpcError as error:
    print(error.code().name, error.details())
"#;

fn call(cluster: &Cluster, method: &str, request: &[u8]) -> String {
    let path = cluster.dir().join("request");
    std::fs::write(&path, request).unwrap();
    let mut command = Command::new(venv("python"));
    command
        .args(["-c", RAW_CALL, &cluster.jobmanager(), method])
        .arg(path);
    let output = finish(&mut command, PATIENCE);
    assert!(output.status.success(), "{}", text(&output.stderr));
    text(&output.stdout)
}

/// A field of a protobuf message that holds bytes.
fn field(tag: u8, bytes: impl AsRef<[u8]>) -> Vec<u8> {
    let bytes = bytes.as_ref();
    let mut message = vec![(tag << 3) | 2];
    let mut length = bytes.len();
    while length >= 0x80 {
        message.push(length as u8 | 0x80);
        length >>= 7;
    }
    message.push(length as u8);
    message.extend_from_slice(bytes);
    message
}

/// The most memory a process has had, in MiB.
fn peak_mebibytes(process: u32) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{process}/status")).unwrap();
    let line = status
        .lines()
        .find(|line| line.starts_with("VmHWM:"))
        .unwrap();
    line.split_whitespace()
        .nth(1)
        .unwrap()
        .parse::<u64>()
        .unwrap()
        / 1_024
}

/// A call with a request, how the answer begins, and what it names.
type Case = (&'static str, Vec<u8>, &'static str, &'static [&'static str]);

fn hostile_calls() -> Vec<Case> {
    const CLIENT_ID: u8 = 1;
    const JOB_FILE: u8 = 2;
    const GRAPH: u8 = 3;
    let sound = "pipeline:\n\
                 \x20 - source: {uid: a, connector: generator, columns: {n: {sequence: {}}}}\n\
                 \x20 - sink: {uid: b, connector: blackhole}\n";
    let of_client = |name: &str| [field(CLIENT_ID, name), field(JOB_FILE, sound)].concat();
    // A column that is a list of lists of lists …, as the messages nest.
    let lists = (0..5_000).fold(Vec::new(), |inner, _| field(2, field(5, field(1, inner))));
    let nested = field(2, field(9, field(1, lists)));
    let refused = |request: Vec<u8>, parts: &'static [&'static str]| -> Case {
        ("SubmitJob", request, "INVALID_ARGUMENT", parts)
    };
    vec![
        // Two bytes an operator: small on the wire, a gigabyte in memory.
        refused(
            field(GRAPH, [0x12_u8, 0].repeat(1_000_000)),
            &["1000000 operators, above the limit of 1000"],
        ),
        (
            "SubmitJob",
            field(GRAPH, vec![0_u8; 5_000_000]),
            "",
            &["50000", "limit"],
        ),
        refused(field(GRAPH, nested), &["JobGraph"]),
        refused(field(GRAPH, "no graph"), &["JobGraph"]),
        refused(
            field(JOB_FILE, "#".repeat(2 << 20)),
            &["2097152 bytes", "limit of 1048576"],
        ),
        refused(
            field(JOB_FILE, format!("pipeline: {}", "[".repeat(100_000))),
            &["deep"],
        ),
        refused(
            field(JOB_FILE, "a: &a [x, x]\nb: &b [*a, *a]\nc: [*b, *b]\n"),
            &["anchor"],
        ),
        refused(of_client("two\nlines"), &["client id", r"two\nlines"]),
        refused(Vec::new(), &["SubmitJobRequest.job is missing"]),
        (
            "GetJob",
            field(1, "../../../etc/passwd"),
            "INVALID_ARGUMENT",
            &["32 hexadecimal digits"],
        ),
    ]
}

#[test]
fn a_hostile_submission_is_refused_in_words_and_the_next_job_runs() {
    let cluster = Cluster::start(1, 2);
    let process = cluster.id("jobmanager");
    let before = peak_mebibytes(process);
    for (method, request, code, parts) in hostile_calls() {
        let answer = call(&cluster, method, &request);
        assert!(
            answer.starts_with(code) && !answer.starts_with("OK"),
            "{code}: {answer}"
        );
        for part in parts {
            assert!(answer.contains(part), "{part} is missing: {answer}");
        }
        assert!(answer.len() < 10_000, "{} bytes", answer.len());
    }
    assert!(call(&cluster, "DeleteEverything", b"").starts_with("UNIMPLEMENTED"));
    let grown = peak_mebibytes(process) - before;
    assert!(grown < 200, "refusing took {grown} MiB");

    let list = text(&cluster.cli(&["list", "--all"]).stdout);
    assert_eq!(list, "", "nothing was accepted");
    let (job, out) = SMALL.write(cluster.dir());
    cluster.submit(&job, "sound");
    let end = cluster.follow(&job, "sound");
    assert!(
        end.status.success(),
        "{}\n{}",
        text(&end.stderr),
        cluster.logs()
    );
    SMALL.judge(&out);
}

#[test]
fn a_name_neither_runs_in_the_page_nor_steers_a_terminal() {
    let cluster = Cluster::start(1, 2);
    let (job, _) = SMALL.write(cluster.dir());
    let yaml = std::fs::read_to_string(&job).unwrap();
    let named = |name: &str| std::fs::write(&job, yaml.replace("name: ledger", name)).unwrap();

    named(r#"name: "forged\e[2J\n2026-01-01T00:00:00.000Z ERROR all is lost""#);
    let end = cluster.cli(&["run", &job.to_string_lossy()]);
    let said = text(&end.stderr);
    assert_eq!(end.status.code(), Some(1), "{said}");
    assert!(said.contains("a control character"), "{said}");
    assert!(!said.contains('\u{1b}'), "{said}");
    let request = field(2, std::fs::read(&job).unwrap());
    let answer = call(&cluster, "SubmitJob", &request);
    assert!(answer.starts_with("INVALID_ARGUMENT"), "{answer}");
    let log = cluster.log("jobmanager");
    let forged = log
        .lines()
        .find(|line| line.starts_with("2026-01-01T00:00:00.000Z"));
    assert_eq!(forged, None);

    named(r#"name: "<script>alert(1)</script>\u202E""#);
    let id = cluster.submit(&job, "hostile-name");
    let end = cluster.follow(&job, "hostile-name");
    assert!(end.status.success(), "{}", text(&end.stderr));
    for page in [cluster.page("/"), cluster.page(&format!("/?job={id}"))] {
        assert!(page.contains("&lt;script&gt;alert(1)"), "{page}");
        assert!(!page.contains("<script>alert"), "{page}");
    }
    // What turns the reading direction is shown as what it is.
    for shown in [
        text(&cluster.cli(&["list", "--all"]).stdout),
        text(&cluster.cli(&["status", &id]).stdout),
        cluster.log("jobmanager"),
    ] {
        assert!(shown.contains(r"</script>\u{202e}"), "{shown}");
        assert!(!shown.contains('\u{202e}'), "{shown}");
    }
    // Whoever reads JSON gets the name as it is.
    let found = cluster.rest(&format!("/jobs/{id}"))["name"].clone();
    assert_eq!(found, "<script>alert(1)</script>\u{202e}");
}

// An operator's mistake: the second cluster takes the job over, the first lets go of it, and the
// output is that of one.
#[test]
fn two_clusters_on_one_directory_do_not_run_a_job_twice() {
    let ledger = Ledger {
        keys: 40,
        rows: 120_000,
        rate: 16_000,
    };
    let first = Cluster::start(1, 2);
    let (job, out) = ledger.write(first.dir());
    std::fs::create_dir_all(&out).unwrap();
    let done = first.dir().join("done");
    let watch = ledger.watch(&out, &done);
    let id = first.submit(&job, "ledger");
    first.until_job(&id, "RUNNING");
    std::thread::sleep(Duration::from_secs(2));

    let same = format!(
        "checkpointing.dir={}",
        first.dir().join("checkpoints").display()
    );
    let second = Cluster::start_with(1, 2, &[&same]);
    second.until_job(&id, "RUNNING");
    first.until_job(&id, "SUSPENDED");
    let status = text(&first.cli(&["status", &id]).stdout);
    assert!(status.contains("SUSPENDED"), "{status}");
    let end = second.follow(&job, "ledger");
    assert!(
        end.status.success(),
        "{}\n{}",
        text(&end.stderr),
        second.logs()
    );
    std::fs::write(done, "").unwrap();
    let verdict = watch.join().unwrap();
    assert!(verdict.status.success(), "{}", text(&verdict.stdout));
    ledger.judge(&out);
}

#[test]
fn a_cluster_of_another_name_is_refused_the_directory() {
    let first = Cluster::start(0, 0);
    let mut command = Command::new(program("jobmanager"));
    for setting in [
        format!(
            "checkpointing.dir={}",
            first.dir().join("checkpoints").display()
        ),
        "high-availability.cluster-id=other".to_owned(),
        format!("jobmanager.rpc.port={}", free_port()),
        format!("rest.port={}", free_port()),
    ] {
        command.arg("-D").arg(setting);
    }
    let second = finish(&mut command, PATIENCE);
    assert_eq!(second.status.code(), Some(1), "{}", text(&second.stderr));
    let stderr = text(&second.stderr);
    for part in [
        "belongs to cluster \"millstream\", this is cluster \"other\"",
        "high-availability.cluster-id",
    ] {
        assert!(stderr.contains(part), "{part} is missing: {stderr}");
    }
}

// The first SIGTERM waits for what hangs; whoever is in a hurry says it twice.
#[test]
fn a_second_sigterm_ends_a_taskmanager_at_once() {
    let mut cluster = Cluster::start(1, 2);
    let job = Job::new("stuck")
        .restarts("type: none")
        .generator("rows", "rate: 1000", "n: { sequence: {} }")
        .inject("stuck", "block: { at: 10, in: socket }")
        .sink("blackhole")
        .write(cluster.dir(), "job");
    let id = cluster.submit(&job, "stuck");
    cluster.until_job(&id, "RUNNING");
    std::thread::sleep(Duration::from_millis(500));
    cluster.signal("taskmanager-1", "-TERM", false);
    let ended = cluster.wait("taskmanager-1", Duration::from_millis(300));
    assert_eq!(
        ended,
        None,
        "it did not wait for its task\n{}",
        cluster.logs()
    );
    cluster.signal("taskmanager-1", "-TERM", false);
    let ended = cluster.wait("taskmanager-1", Duration::from_secs(5));
    assert_eq!(
        ended.and_then(|status| status.code()),
        Some(128 + 15),
        "{}",
        cluster.logs()
    );
}

#[test]
fn a_directory_that_cannot_be_one_is_refused_at_the_start() {
    let mut cluster = Cluster::prepared(&[]);
    let file = cluster.dir().join("file");
    std::fs::write(&file, "").unwrap();
    for dir in [file.join("below"), PathBuf::from("/proc/millstream")] {
        cluster.set(&format!("checkpointing.dir={}", dir.display()));
        cluster.spawn_jobmanager("");
        let ended = cluster.wait("jobmanager", Duration::from_secs(20));
        let said = cluster.log("jobmanager");
        assert_eq!(ended.and_then(|status| status.code()), Some(1), "{said}");
        let words = said.lines().rev().take(2).collect::<Vec<_>>().join("\n");
        assert!(words.contains(&*dir.to_string_lossy()), "{said}");
        assert!(words.contains("Check the"), "a remedy is missing: {said}");
    }
}

// A disk that is full where the sink writes: named with path and remedy, and nobody else suffers.
#[test]
fn a_full_disk_under_a_sink_fails_its_job_by_name() {
    let mut cluster = Cluster::start(0, 2);
    let out = cluster.dir().join("out");
    std::fs::create_dir_all(&out).unwrap();
    let mount = format!(
        "mount -t tmpfs -o size=64k tmpfs {} && exec \"$0\" \"$@\"",
        out.display()
    );
    let launcher = [own_mounts(), &["sh", "-c", &mount]].concat();
    cluster.launch_taskmanager(&launcher, 1, 2, "");
    let ledger = Ledger {
        keys: 10,
        rows: 100_000,
        rate: 50_000,
    };
    let (job, _) = ledger.write(cluster.dir());
    let yaml = std::fs::read_to_string(&job).unwrap();
    std::fs::write(&job, yaml.replace("attempts: unlimited", "attempts: 0")).unwrap();
    let id = cluster.submit(&job, "ledger");
    cluster.until_job(&id, "FAILED");
    let status = text(&cluster.cli(&["status", &id]).stdout);
    for part in [
        "No space left on device",
        &out.to_string_lossy(),
        "free space",
    ] {
        assert!(status.contains(part), "{part} is missing: {status}");
    }
    let other = Job::new("other")
        .restarts("type: none")
        .generator("rows", "rows: 10", "n: { sequence: {} }")
        .sink("print")
        .write(cluster.dir(), "job");
    let end = cluster.cli(&["run", &other.to_string_lossy()]);
    assert!(end.status.success(), "{}", text(&end.stderr));
    assert_eq!(text(&end.stdout).lines().count(), 10);
}

/// A job that copies a CSV file of (id, n), whose bad records go where `on_error` says.
fn copy(cluster: &Cluster, on_error: &str) -> (PathBuf, PathBuf) {
    let dir = cluster.dir();
    let input = dir.join("numbers.csv");
    std::fs::write(
        &input,
        "id,n\n1,10\n2,twenty\n3,30\n4,40,extra\n5,50\n6,\"60",
    )
    .unwrap();
    let out = dir.join(on_error);
    let how = format!("format: csv, columns: {{ id: BIGINT, n: BIGINT }}, on-error: {on_error}");
    let mut job = Job::new("numbers")
        .restarts("type: none")
        .checkpoints("interval: 1s")
        .file("numbers", &input, &how)
        .file_sink(&out, "csv");
    if on_error == "dead-letter" {
        let bad = dir.join("bad");
        job = job.step(
            "sink",
            format!(
                "uid: bad, connector: file, path: \"{}\", format: json, \
                 from: numbers.dead-letter",
                bad.display()
            ),
        );
    }
    (job.write(dir, "job"), out)
}

/// The lines of all committed files below a directory, sorted.
fn lines(dir: &Path) -> Vec<String> {
    let files = std::fs::read_dir(dir).into_iter().flatten().flatten();
    let is_visible = |file: &std::fs::DirEntry| {
        file.path().is_file() && !file.file_name().to_string_lossy().starts_with('.')
    };
    let mut lines: Vec<String> = files
        .filter(is_visible)
        .flat_map(|file| {
            let text = std::fs::read_to_string(file.path()).unwrap();
            text.lines().map(str::to_owned).collect::<Vec<_>>()
        })
        .collect();
    lines.sort();
    lines
}

// HND-041 over a cluster: an extra field and a quote that never closes are bad records with their
// place, and so is a value of another type.
#[test]
fn bad_records_fail_the_job_or_are_left_out_or_put_aside_with_file_line_and_column() {
    let cluster = Cluster::start(1, 2);
    let input = cluster
        .dir()
        .join("numbers.csv")
        .to_string_lossy()
        .into_owned();

    let (job, out) = copy(&cluster, "fail");
    let end = cluster.cli(&["run", &job.to_string_lossy()]);
    let said = text(&end.stderr);
    assert_eq!(end.status.code(), Some(3), "{said}");
    for part in [&input, "line 3, column 3", "\"twenty\" is no BIGINT"] {
        assert!(said.contains(part), "{part} is missing: {said}");
    }
    assert_eq!(
        lines(&out),
        [""; 0],
        "nothing of a job that failed is visible"
    );

    let good = ["1,10", "3,30", "5,50", "id,n"];
    let (job, out) = copy(&cluster, "skip");
    let end = cluster.cli(&["run", &job.to_string_lossy()]);
    assert!(end.status.success(), "{}", text(&end.stderr));
    assert_eq!(lines(&out), good);

    let (job, out) = copy(&cluster, "dead-letter");
    let end = cluster.cli(&["run", &job.to_string_lossy()]);
    assert!(end.status.success(), "{}", text(&end.stderr));
    assert_eq!(lines(&out), good);
    let bad: Vec<serde_json::Value> = lines(&cluster.dir().join("bad"))
        .iter()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    let mut places: Vec<_> = bad
        .iter()
        .map(|row| row["line"].as_u64().unwrap())
        .collect();
    places.sort_unstable();
    assert_eq!(places, [3, 5, 7], "{bad:?}");
    for row in &bad {
        assert_eq!(row["source"], "numbers", "{row}");
        assert_eq!(row["file"], input.as_str(), "{row}");
        assert!(
            row["column"].is_number() && row["error"].is_string(),
            "{row}"
        );
        assert!(row["record"].is_string(), "{row}");
    }
}

// HND-049 over a cluster: a file that grows while it is read is an error, never half of each.
#[test]
fn a_file_that_changes_under_a_job_fails_it_by_name() {
    let cluster = Cluster::start(1, 2);
    let input = cluster.dir().join("log.txt");
    let line = "x".repeat(999);
    std::fs::write(&input, format!("{line}\n").repeat(40_000)).unwrap();
    let job = Job::new("changing")
        .restarts("type: none")
        .file("lines", &input, "format: text")
        .inject("slow", "delay: { per-row: 1ms }")
        .sink("blackhole")
        .write(cluster.dir(), "job");
    let id = cluster.submit(&job, "changing");
    cluster.until_job(&id, "RUNNING");
    std::thread::sleep(Duration::from_secs(1));
    let mut file = std::fs::File::options().append(true).open(&input).unwrap();
    std::io::Write::write_all(&mut file, b"more\n").unwrap();
    cluster.until_job(&id, "FAILED");
    let status = text(&cluster.cli(&["status", &id]).stdout);
    for part in [
        &*input.to_string_lossy(),
        "changed while the job reads it",
        "under a new name",
    ] {
        assert!(status.contains(part), "{part} is missing: {status}");
    }
}
