//! Mistakes in job files and on the command line, and those that a local run shows.

use std::path::Path;

use super::golden::Mistakes;
use crate::fixture::own_mounts;

const SOUND: &str = "\
name: sound
parallelism: 1
pipeline:
  - source: { uid: in, connector: generator, rows: 10, columns: { n: { sequence: {} } } }
  - sink: { uid: out, connector: print }
";

/// A job file of this name with one part of the sound one replaced.
pub fn job(dir: &Path, name: &str, part: &str, with: &str) {
    assert!(SOUND.contains(part), "{part}");
    std::fs::write(dir.join(name), SOUND.replace(part, with)).unwrap();
}

/// A job file whose rows come from a file.
fn reading(dir: &Path, name: &str, input: &str) {
    let source = SOUND.lines().nth(3).unwrap();
    let reads = format!(
        "  - source: {{ uid: in, connector: file, path: {input}, format: csv, columns: {{ n: BIGINT }} }}"
    );
    job(dir, name, source, &reads);
}

#[test]
fn mistakes_in_a_job_file() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path();
    std::fs::create_dir(path.join("directory.yaml")).unwrap();
    std::fs::write(path.join("latin1.yaml"), b"name: caf\xe9\n").unwrap();
    job(path, "bracket.yaml", "rows: 10", "rows: [10");
    job(path, "setting.yaml", "parallelism", "paralelism");
    job(path, "step.yaml", "- source", "- sorce");
    job(
        path,
        "key.yaml",
        "connector: generator",
        "conector: generator",
    );
    job(
        path,
        "unit.yaml",
        "parallelism: 1",
        "checkpointing.interval: 10",
    );
    job(path, "uid.yaml", "uid: out", "uid: in");
    job(path, "type.yaml", "n: { sequence: {} }", "n: 7");
    job(path, "daemon.yaml", "parallelism: 1", "rest.port: 8081");
    job(path, "wide.yaml", "parallelism: 1", "parallelism: 100000");
    let filter = |text: &str| format!("  - filter: {{ where: \"{text}\" }}\n  - sink");
    job(path, "column.yaml", "  - sink", &filter("m > 1"));
    job(path, "function.yaml", "  - sink", &filter("abbs(n) = 1"));
    job(
        path,
        "where.yaml",
        "  - sink",
        &filter("n > 1").replace("where", "wehre"),
    );
    job(path, "boolean.yaml", "  - sink", &filter("n + 1"));
    job(
        path,
        "several.yaml",
        "parallelism: 1\n",
        "paralelism: 1\ncheckpointing.interval: 10\n",
    );

    let mut mistakes = Mistakes::in_directory(path);
    for (name, file) in [
        ("job-file-missing", "nowhere.yaml"),
        ("job-file-is-a-directory", "directory.yaml"),
        ("job-file-not-utf8", "latin1.yaml"),
        ("job-yaml-syntax", "bracket.yaml"),
        ("job-typo-in-setting", "setting.yaml"),
        ("job-typo-in-step", "step.yaml"),
        ("job-typo-in-key", "where.yaml"),
        ("job-connector-missing", "key.yaml"),
        ("job-duration-without-unit", "unit.yaml"),
        ("job-uid-twice", "uid.yaml"),
        ("job-value-of-another-type", "type.yaml"),
        ("job-sets-a-key-of-the-daemons", "daemon.yaml"),
        ("job-parallelism-above-the-limit", "wide.yaml"),
        ("expression-unknown-column", "column.yaml"),
        ("expression-unknown-function", "function.yaml"),
        ("expression-not-boolean", "boolean.yaml"),
        ("job-several-mistakes", "several.yaml"),
    ] {
        let output = mistakes.millstream(name, &["validate", file]);
        assert_eq!(output.status.code(), Some(1), "{name}");
    }
    mistakes.judge();
}

#[test]
fn mistakes_on_the_command_line() {
    let dir = tempfile::tempdir().unwrap();
    job(dir.path(), "job.yaml", "sound", "sound");
    let mut mistakes = Mistakes::in_directory(dir.path());
    for (name, words) in [
        ("verb-unknown", &["stauts"][..]),
        ("flag-unknown", &["list", "--jobmanger", "localhost:6123"]),
        ("argument-missing", &["status"]),
        ("job-id-malformed", &["status", "abc"]),
        ("address-malformed", &["list", "-m", "localhost"]),
        (
            "flag-without-value",
            &["run", "job.yaml", "-D", "parallelism"],
        ),
        (
            "flag-typo",
            &["run", "job.yaml", "-D", "checkpointing.intervall=3s"],
        ),
        (
            "log-level",
            &["local", "job.yaml", "--log", "loud=very=much"],
        ),
    ] {
        let output = mistakes.millstream(name, words);
        assert_eq!(output.status.code(), Some(1), "{name}");
    }
    mistakes.judge();
}

#[test]
fn mistakes_that_a_local_run_shows() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path();
    job(path, "job.yaml", "sound", "sound");
    job(path, "wide.yaml", "parallelism: 1", "parallelism: 2000");
    let inject = "  - inject: { uid: broken, fail: { at: 5 } }\n  - sink";
    job(path, "broken.yaml", "  - sink", inject);
    reading(path, "no-input.yaml", "numbers.csv");
    std::fs::write(path.join("words.csv"), "n\n1\ntwo\n").unwrap();
    reading(path, "bad-row.yaml", "words.csv");
    let divide = "  - select: { columns: { q: \"10 / n\" } }\n  - sink";
    job(path, "divide.yaml", "  - sink", divide);
    std::fs::write(path.join("file"), "").unwrap();
    std::fs::create_dir(path.join("mount")).unwrap();

    let mut mistakes = Mistakes::in_directory(path);
    for (name, words, code) in [
        ("local-input-missing", &["local", "no-input.yaml"][..], 3),
        ("local-input-malformed", &["local", "bad-row.yaml"], 3),
        ("local-division-by-zero", &["local", "divide.yaml"], 3),
        ("local-too-many-tasks", &["local", "wide.yaml"], 1),
        ("local-fault-injection", &["local", "broken.yaml"], 1),
        (
            "local-directory-is-a-file",
            &["local", "job.yaml", "--dir", "file"],
            1,
        ),
    ] {
        let output = mistakes.millstream(name, words);
        assert_eq!(output.status.code(), Some(code), "{name}");
    }
    let mount = format!(
        "mount -t tmpfs -o ro tmpfs {} && exec \"$0\" \"$@\"",
        path.join("mount").display()
    );
    let launcher = [own_mounts(), &["sh", "-c", &mount]].concat();
    let words = ["local", "job.yaml", "--dir", "mount/work"];
    let output = mistakes.run("local-directory-read-only", &launcher, "millstream", &words);
    assert_eq!(output.status.code(), Some(1));
    mistakes.judge();
}
