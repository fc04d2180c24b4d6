//! The first job of the README.

use std::collections::BTreeMap;
use std::process::Command;
use std::time::Duration;

use crate::process::{finish, program, root, text};

/// The counts that the shell's own tools find under the documented word rule.
fn counted_by_the_shell() -> BTreeMap<String, u64> {
    let script = "find docs -name '*.md' -exec awk 1 {} + | tr 'A-Z' 'a-z' \
                  | LC_ALL=C tr -cs 'a-z0-9' '\\n' | grep . | sort | uniq -c";
    let mut command = Command::new("sh");
    let output = finish(
        command.arg("-c").arg(script).current_dir(root()),
        Duration::from_secs(60),
    );
    assert!(output.status.success(), "{}", text(&output.stderr));
    let line = |line: &str| {
        let (count, word) = line.trim().split_once(' ').unwrap();
        (word.to_owned(), count.parse().unwrap())
    };
    text(&output.stdout).lines().map(line).collect()
}

// Proves F15: two subtasks print, each line says which.
#[test]
fn the_words_of_our_documentation_are_counted_as_the_shell_counts_them() {
    let mut command = Command::new(program("millstream"));
    command
        .args(["local", "docs/examples/word-count.yaml"])
        .current_dir(root());
    let output = finish(&mut command, Duration::from_secs(120));
    assert!(output.status.success(), "{}", text(&output.stderr));
    let line = |line: &str| {
        let row = line
            .strip_prefix("1> ")
            .or_else(|| line.strip_prefix("2> "))
            .unwrap();
        let (word, count) = row.split_once(", ").unwrap();
        (word.to_owned(), count.parse().unwrap())
    };
    let stdout = text(&output.stdout);
    let counts: BTreeMap<String, u64> = stdout.lines().map(line).collect();
    assert_eq!(stdout.lines().count(), counts.len(), "each word once");
    assert_eq!(counts, counted_by_the_shell());
}

/// What the job file reference lists as a type is read from files, in both formats.
#[test]
fn every_type_that_a_job_file_may_declare_is_read() {
    let reference = std::fs::read_to_string(root().join("docs/reference/job-file.md")).unwrap();
    let (_, types) = reference.split_once("## Types").unwrap();
    let types = types.split("\n## ").next().unwrap();
    let names: Vec<_> = types
        .lines()
        .filter_map(|line| line.strip_prefix("| `")?.split('`').next())
        .collect();
    let value = |name: &str| match name {
        "BIGINT" | "INT" | "SMALLINT" | "TINYINT" => "-7",
        "DOUBLE" | "FLOAT" | "DECIMAL(p, s)" => "0.5",
        "BOOLEAN" => "true",
        "VARCHAR" => "\"a\"",
        "TIMESTAMP" => "\"2024-05-01T12:30:00.250678\"",
        "DATE" => "\"2024-05-01\"",
        other => panic!("type {other} is new: give it a value here"),
    };
    assert!(names.len() > 10, "{names:?}");
    let dir = tempfile::tempdir().unwrap();
    let fields = names.iter().enumerate();
    let fields: Vec<_> = fields
        .map(|(n, name)| format!("\"c{n}\":{}", value(name)))
        .collect();
    let json = format!("{{{}}}\n", fields.join(","));
    let header: Vec<_> = (0..names.len()).map(|n| format!("c{n}")).collect();
    let values: Vec<_> = names
        .iter()
        .map(|name| value(name).replace('"', ""))
        .collect();
    std::fs::write(dir.path().join("in.json"), json).unwrap();
    let csv = format!("{}\n{}\n", header.join(","), values.join(","));
    std::fs::write(dir.path().join("in.csv"), csv).unwrap();
    let columns = names.iter().enumerate();
    let columns: Vec<_> = columns
        .map(|(n, name)| format!("c{n}: \"{}\"", name.replace("p, s", "3, 1")))
        .collect();
    for format in ["json", "csv"] {
        let yaml = format!(
            "name: types\npipeline:\n  - source: {{ uid: in, connector: file, path: in.{format}, format: {format}, \
             columns: {{ {} }} }}\n  - sink: {{ uid: out, connector: print }}\n",
            columns.join(", ")
        );
        let job = dir.path().join("job.yaml");
        std::fs::write(&job, yaml).unwrap();
        let mut command = Command::new(program("millstream"));
        let output = finish(command.arg("local").arg(&job), Duration::from_secs(60));
        assert!(output.status.success(), "{}", text(&output.stderr));
        let shown = text(&output.stdout);
        assert!(shown.contains("2024-05-01T12:30:00.250678"), "{shown}");
        assert_eq!(shown.trim().split(", ").count(), names.len(), "{shown}");
    }
}

#[test]
fn a_mistake_in_a_job_file_is_shown_with_its_place_and_remedy() {
    let dir = tempfile::tempdir().unwrap();
    let job = dir.path().join("job.yaml");
    let yaml = "name: typo\npipeline:\n  - source: { uid: s, connector: generator, rows: 1, \
                columns: { n: { sequence: { start: 1 } } } }\n  - filtre: { uid: f, where: \"n > 0\" }\n\
                \x20 - sink: { uid: out, connector: blackhole }\n";
    std::fs::write(&job, yaml).unwrap();
    let mut command = Command::new(program("millstream"));
    let output = finish(command.arg("validate").arg(&job), Duration::from_secs(30));
    assert_eq!(output.status.code(), Some(1));
    let stderr = text(&output.stderr);
    for part in ["filtre", "job.yaml:4", "filter"] {
        assert!(stderr.contains(part), "{part} is missing in: {stderr}");
    }
}

#[test]
fn what_local_warns_of_it_says_once_and_what_it_cannot_run_it_refuses() {
    let dir = tempfile::tempdir().unwrap();
    let job = dir.path().join("job.yaml");
    let local = |parallelism: u32| {
        let yaml = format!(
            "parallelism: {parallelism}\ncheckpointing: {{ interval: 1s }}\npipeline:\n  - source: {{ \
             uid: s, connector: generator, rows: 1, columns: {{ n: {{ sequence: {{}} }} }} }}\n  - \
             sink: {{ uid: out, connector: blackhole }}\n"
        );
        std::fs::write(&job, yaml).unwrap();
        let mut command = Command::new(program("millstream"));
        finish(command.arg("local").arg(&job), Duration::from_secs(60))
    };
    let output = local(1);
    let stderr = text(&output.stderr);
    assert!(output.status.success(), "{stderr}");
    let said = stderr
        .matches("tolerable-failed-checkpoints is unset")
        .count();
    assert_eq!(said, 1, "{stderr}");

    let refused = local(1_001);
    let stderr = text(&refused.stderr);
    assert_eq!(refused.status.code(), Some(1), "{stderr}");
    for part in [
        "1001 tasks",
        "1000 at most",
        "Lower parallelism",
        "millstream run",
    ] {
        assert!(stderr.contains(part), "{part} is missing in: {stderr}");
    }
}

#[test]
fn every_example_is_valid() {
    let mut found = 0;
    for folder in ["docs/examples", "docs/examples/wordcount"] {
        for entry in std::fs::read_dir(root().join(folder)).unwrap() {
            let path = entry.unwrap().path();
            if path
                .extension()
                .is_some_and(|extension| extension == "yaml")
            {
                let mut command = Command::new(program("millstream"));
                let output = finish(command.arg("validate").arg(&path), Duration::from_secs(30));
                assert!(
                    output.status.success(),
                    "{}: {}",
                    path.display(),
                    text(&output.stderr)
                );
                found += 1;
            }
        }
    }
    assert!(found >= 5, "{found}");
}

/// What an example prints and how it ends, with its source made faster and, if it has no end, cut
/// after 12 rows.
fn run_example(name: &str) -> (Vec<String>, String, Option<i32>) {
    let example = root().join("docs/examples/wordcount").join(name);
    let yaml = std::fs::read_to_string(example).unwrap();
    let rate = yaml
        .lines()
        .find(|line| line.trim().starts_with("rate:"))
        .unwrap()
        .to_owned();
    let mut quick = "      rate: 5".to_owned();
    if !yaml.contains("rows:") {
        quick.push_str("\n      rows: 12");
    }
    let dir = tempfile::tempdir().unwrap();
    let yaml = yaml
        .replace(&rate, &quick)
        .replace("/tmp/millstream", &dir.path().to_string_lossy());
    let job = dir.path().join(name);
    std::fs::write(&job, yaml.replace("interval: 2s", "interval: 500ms")).unwrap();
    let mut command = Command::new(program("millstream"));
    let output = finish(command.arg("local").arg(&job), Duration::from_secs(120));
    let lines = text(&output.stdout).lines().map(str::to_owned).collect();
    (lines, text(&output.stderr), output.status.code())
}

/// The last column of each line.
fn last_column(lines: &[String]) -> Vec<u64> {
    lines
        .iter()
        .map(|line| line.rsplit(", ").next().unwrap().parse().unwrap())
        .collect()
}

// Proves F16; A4-2.
#[test]
fn without_a_restart_strategy_the_first_failure_is_final() {
    let (lines, stderr, code) = run_example("1-fragile.yaml");
    assert_eq!(last_column(&lines), [1, 3, 6, 10], "{stderr}");
    assert_eq!(code, Some(3));
    for part in [
        "Job execution failed",
        "Recovery is suppressed by NoRestartBackoffTimeStrategy",
    ] {
        assert!(stderr.contains(part), "{part} is missing in: {stderr}");
    }
}

// Proves F18; A4-3.
#[test]
fn without_checkpoints_every_restart_begins_again() {
    let (lines, stderr, code) = run_example("2-restarting.yaml");
    assert_eq!(last_column(&lines), [1, 3, 6, 10].repeat(4), "{stderr}");
    assert_eq!(code, Some(3));
    let strategy =
        "FixedDelayRestartBackoffTimeStrategy(maxNumberRestartAttempts=3, backoffTimeMS=2000)";
    assert!(stderr.contains(strategy), "{stderr}");
}

// Proves F162; A4-6: it really fails, really restores, and no sum is left out or jumps.
#[test]
fn with_checkpoints_the_distinct_sums_are_the_triangular_numbers() {
    let (lines, stderr, code) = run_example("3-stateful.yaml");
    assert_eq!(code, Some(0), "{stderr}");
    assert!(
        stderr.contains("RESTARTING"),
        "it must really fail: {stderr}"
    );
    let mut distinct: Vec<u64> = Vec::new();
    for sum in last_column(&lines) {
        if !distinct.contains(&sum) {
            distinct.push(sum);
        }
    }
    let expected: Vec<u64> = (1..=distinct.len() as u64)
        .map(|n| n * (n + 1) / 2)
        .collect();
    assert_eq!(distinct, expected);
    assert!(distinct.len() >= 10, "{distinct:?}");
}
