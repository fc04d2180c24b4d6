//! What rows mean, from file to file: keys that are NULL, zero or no number, digits, quotes, ends.

use std::io::Write as _;
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::time::Duration;

use crate::field_cases::rows;
use crate::job::Job;
use crate::process::{finish, program, text};

/// Runs a job to its end in one process.
fn run(dir: &Path, job: &Job) -> Output {
    let job = job.write(dir, "job");
    let mut command = Command::new(program("millstream"));
    finish(command.arg("local").arg(job), Duration::from_secs(120))
}

/// The rows that come out for these lines, with this many subtasks.
fn counted(lines: &str, source: &str, steps: impl Fn(Job) -> Job, parallelism: u32) -> Vec<String> {
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("in"), lines).unwrap();
    let job = Job::new("meaning")
        .parallelism(parallelism)
        .checkpoints("interval: 1h")
        .file("in", "in", source);
    let output = run(dir.path(), &steps(job).file_sink("out", "json"));
    assert!(output.status.success(), "{}", text(&output.stderr));
    rows(&dir.path().join("out"))
}

// HND-023, HND-024: NULL is one key, and neither '' nor 'null'; a missing field is NULL.
#[test]
fn null_is_a_key_of_its_own_from_file_to_file() {
    let lines = "{\"k\":null,\"v\":1}\n{\"v\":2}\n{\"k\":\"\",\"v\":4}\n\
                 {\"k\":\"null\",\"v\":5}\n{\"k\":\"a\",\"v\":3}\n{\"k\":\"a\"}\n";
    let source = "format: json, columns: { k: VARCHAR, v: BIGINT }";
    let select = "s: \"sum(v)\", n: \"count(*)\", m: \"count(v)\"";
    let steps = |job: Job| job.aggregate("k", "sums", select, "");
    for parallelism in [1, 4] {
        assert_eq!(
            counted(lines, source, steps, parallelism),
            [
                r#"{"k":"","s":4,"n":1,"m":1}"#,
                r#"{"k":"a","s":3,"n":2,"m":1}"#,
                r#"{"k":"null","s":5,"n":1,"m":1}"#,
                r#"{"k":null,"s":3,"n":2,"m":2}"#,
            ],
            "{parallelism}"
        );
    }
}

// HND-025: the two zeros are one key, and so are all that are no number.
#[test]
fn zeros_are_one_key_and_nans_are_one_key() {
    let lines = "d\n0.0\n-0.0\nNaN\nNaN\n1.0\n";
    let source = "format: csv, columns: { d: DOUBLE }";
    let steps = |job: Job| job.count("d", "").step("select", "uid: only, columns: [n]");
    for parallelism in [1, 4] {
        let found = counted(lines, source, steps, parallelism);
        assert_eq!(found, [r#"{"n":1}"#, r#"{"n":2}"#, r#"{"n":2}"#]);
    }
}

// HND-026: a sum that does not fit ends the job by name, and never wraps.
#[test]
fn a_sum_that_overflows_fails_the_job_and_names_the_sum() {
    let dir = tempfile::tempdir().unwrap();
    let lines = "{\"k\":\"a\",\"i\":2147483647,\"b\":9223372036854775807}\n\
                 {\"k\":\"a\",\"i\":11,\"b\":4}\n";
    std::fs::write(dir.path().join("in"), lines).unwrap();
    let columns = "format: json, columns: { k: VARCHAR, i: INTEGER, b: BIGINT }";
    let sum = |column: &str| {
        Job::new("sums")
            .file("in", "in", columns)
            .aggregate("k", "sums", &format!("s: \"sum({column})\""), "")
            .sink("print")
    };
    let fits = run(dir.path(), &sum("i"));
    assert_eq!(
        text(&fits.stdout),
        "a, 2147483658\n",
        "{}",
        text(&fits.stderr)
    );
    let overflows = run(dir.path(), &sum("b"));
    assert_eq!(overflows.status.code(), Some(3));
    assert_eq!(text(&overflows.stdout), "");
    let stderr = text(&overflows.stderr).to_lowercase();
    assert!(
        stderr.contains("overflow") && stderr.contains("sum"),
        "{stderr}"
    );
}

// HND-027, HND-037: every digit survives, also beyond what a double holds.
#[test]
fn digits_survive_from_json_to_json() {
    let lines = "{\"id\":9007199254740993,\"d\":12345678901234567890,\"f\":-0.000000001}\n\
                 {\"id\":9223372036854775807,\"d\":0,\"f\":99999999.999999999}\n";
    let columns = "{ id: BIGINT, d: \"DECIMAL(20, 0)\", f: \"DECIMAL(18, 9)\" }";
    let source = format!("format: json, columns: {columns}");
    let steps = |job: Job| job.count("id, d, f", "");
    let found = counted(lines, &source, steps, 2);
    for digits in [
        "9007199254740993",
        "9223372036854775807",
        "12345678901234567890",
        "-0.000000001",
        "99999999.999999999",
    ] {
        assert!(
            found.iter().any(|row| row.contains(digits)),
            "{digits} in {found:?}"
        );
    }
}

// HND-037: a number that no BIGINT holds is an error with its place.
#[test]
fn a_number_too_large_for_its_column_is_refused_by_line() {
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(
        dir.path().join("in"),
        "{\"id\":1}\n{\"id\":9223372036854775808}\n",
    )
    .unwrap();
    let job = Job::new("large")
        .file("in", "in", "format: json, columns: { id: BIGINT }")
        .sink("print");
    let output = run(dir.path(), &job);
    assert_eq!(output.status.code(), Some(3));
    let stderr = text(&output.stderr);
    assert!(
        stderr.contains("line 2, column 7") && stderr.contains("BIGINT"),
        "{stderr}"
    );
}

// HND-036, HND-040: marks, ends of lines and quoted line ends, wherever splits are cut.
#[test]
fn quoted_lines_and_windows_ends_are_read_alike_by_four_readers() {
    let mut csv = String::from("\u{feff}id,note\r\n");
    for id in 1..=10_000 {
        let note = match (id % 2, id % 3) {
            (0, _) => "\"one\r\ntwo, still one\"",
            (_, 0) => "\"said \"\"so\"\"\"",
            (_, _) => "plain",
        };
        csv.push_str(&format!("{id},{note}\r\n"));
    }
    let csv = csv.trim_end();
    let source = "format: csv, columns: { id: BIGINT, note: VARCHAR }, split-size: 8 KiB";
    let kinds = "uid: kinds, columns: [id, { two: \"note LIKE '%two%'\" }]";
    let select = "n: \"count(*)\", s: \"sum(id)\"";
    let steps = |job: Job| {
        job.step("select", kinds)
            .aggregate("two", "sums", select, "")
    };
    let found = counted(csv, source, steps, 4);
    assert_eq!(
        found,
        [
            r#"{"two":false,"n":5000,"s":25000000}"#,
            r#"{"two":true,"n":5000,"s":25005000}"#,
        ]
    );
}

// HND-047: a directory is read without what our own sink is still writing, and without marks.
#[test]
fn the_directory_of_a_sink_is_a_source_of_finished_rows_only() {
    let dir = tempfile::tempdir().unwrap();
    let out = dir.path().join("first");
    let sequence = "n: { sequence: { start: 1 } }";
    let first = Job::new("first")
        .checkpoints("interval: 100ms")
        .generator("rows", "rows: 1000, rate: 2000", sequence)
        .file_sink(&out, "json");
    let output = run(dir.path(), &first);
    assert!(output.status.success(), "{}", text(&output.stderr));
    std::fs::write(out.join("_SUCCESS"), "").unwrap();
    std::fs::write(out.join(".part-0.crc"), [0_u8, 255, 1]).unwrap();
    std::fs::create_dir_all(out.join(".staging")).unwrap();
    std::fs::write(out.join(".staging/part-1.inprogress"), "{\"n\":7}\n").unwrap();
    let all = "uid: all, select: { n: \"count(*)\", s: \"sum(n)\" }";
    let second = Job::new("second")
        .parallelism(2)
        .file("in", out.join("**"), "format: json, columns: { n: BIGINT }")
        .step("aggregate", all)
        .sink("print, parallelism: 1");
    let output = run(dir.path(), &second);
    assert!(output.status.success(), "{}", text(&output.stderr));
    assert_eq!(text(&output.stdout), "1000, 500500\n");
}

/// A gzip member of this.
fn gzip(contents: &str) -> Vec<u8> {
    let mut command = Command::new("gzip");
    command
        .arg("-c")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped());
    let mut child = command.spawn().unwrap();
    let mut input = child.stdin.take().unwrap();
    let contents = contents.to_owned();
    let writer = std::thread::spawn(move || input.write_all(contents.as_bytes()).unwrap());
    let output = child.wait_with_output().unwrap();
    writer.join().unwrap();
    output.stdout
}

// HND-044: members are one text, however many readers there are.
#[test]
fn the_members_of_a_packed_file_are_read_as_one_text() {
    let dir = tempfile::tempdir().unwrap();
    let packed = [gzip("a\nb\nc"), gzip("d\ne\n")].concat();
    std::fs::write(dir.path().join("in.txt.gz"), packed).unwrap();
    let job = Job::new("packed")
        .parallelism(4)
        .checkpoints("interval: 1h")
        .step("source", "uid: in, connector: file, path: \"*.gz\"")
        .file_sink("out", "csv");
    let output = run(dir.path(), &job);
    assert!(output.status.success(), "{}", text(&output.stderr));
    let found = rows(&dir.path().join("out"));
    assert_eq!(found, ["a", "b", "cd", "e", "line"]);
}

// HND-044, HND-048: a reader that fails in the second member goes on where it was.
#[test]
fn a_packed_file_is_read_once_across_a_failure_in_its_second_member() {
    let dir = tempfile::tempdir().unwrap();
    let lines = |range: std::ops::Range<u32>| -> String {
        range
            .map(|n| format!("{{\"n\":{n},\"t\":\"größe\"}}\n"))
            .collect()
    };
    let packed = [gzip(&lines(0..50_000)), gzip(&lines(50_000..100_000))].concat();
    std::fs::write(dir.path().join("in.jsonl.gz"), packed).unwrap();
    let source = "format: json, columns: { n: BIGINT }";
    let all = "uid: all, select: { n: \"count(*)\", s: \"sum(n)\", x: \"max(n)\" }, emit: end";
    let job = Job::new("packed")
        .checkpoints("interval: 50ms")
        .restarts("type: fixed-delay, attempts: 1, delay: 100ms")
        .file("in", "in.jsonl.gz", source)
        .inject("slow", "delay: { per-row: 10us }")
        .inject("trouble", "fail: { at: 70000, message: no }, times: 1")
        .step("aggregate", all)
        .sink("print, parallelism: 1");
    let output = run(dir.path(), &job);
    assert!(output.status.success(), "{}", text(&output.stderr));
    assert_eq!(text(&output.stdout), "100000, 4999950000, 99999\n");
}

// HND-039: mistakes of a plan are found before anything runs, with their place, and break nothing.
#[test]
fn a_plan_that_cannot_work_is_refused_with_line_and_name() {
    let dir = tempfile::tempdir().unwrap();
    let cases = [
        ("filter", "uid: f, where: \"nope = 1\"", "nope"),
        ("filter", "uid: f, where: \"n +\"", "n +"),
        ("select", "uid: s, columns: { x: \"upper(n)\" }", "upper"),
        ("flat-map", "uid: w, expr: \"n\", as: word", "list"),
    ];
    for (step, has, part) in cases {
        let job = Job::new("mistaken")
            .generator("in", "rows: 1", "n: { sequence: {} }")
            .step(step, has)
            .sink("print");
        let output = run(dir.path(), &job);
        assert_eq!(
            output.status.code(),
            Some(1),
            "{step}: {}",
            text(&output.stderr)
        );
        let stderr = text(&output.stderr);
        assert!(stderr.contains("job.yaml:4"), "{step}: {stderr}");
        assert!(stderr.to_lowercase().contains(part), "{step}: {stderr}");
        assert!(!stderr.contains("panicked"), "{stderr}");
    }
}
