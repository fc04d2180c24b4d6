//! The program itself: exit codes, the verdict as JSON, and watching a directory that is written to.
#![allow(clippy::unwrap_used, reason = "helpers of tests")]

use std::process::{Child, Command, Output as Finished, Stdio};
use std::thread;
use std::time::Duration;

use millstream_oracle::row::Format;
use rand::SeedableRng;
use rand::rngs::StdRng;
use serde_json::Value;

use crate::output::{Output, name};

fn start(command: &str, args: &[String]) -> Child {
    let mut oracle = Command::new(env!("CARGO_BIN_EXE_oracle"));
    let oracle = oracle.arg(command).args(args);
    let oracle = oracle.stdout(Stdio::piped()).stderr(Stdio::piped());
    oracle.spawn().unwrap()
}

fn verdict(finished: &Finished) -> Value {
    serde_json::from_slice(&finished.stdout).unwrap()
}

#[test]
fn the_exit_code_says_exact_violated_or_not_understood() {
    let mut output = Output::generate(Format::Csv, 3, 9, &mut StdRng::seed_from_u64(1));
    output.commit_all();
    let exact = start("check", &output.args()).wait_with_output().unwrap();
    assert_eq!(exact.status.code(), Some(0));
    assert_eq!(verdict(&exact)["verdict"], "exact");
    assert_eq!(verdict(&exact)["rows"], 27);
    assert_eq!(verdict(&exact)["first"], Value::Null);

    let mut again = output.parts.pop().unwrap();
    again.name = name(Format::Csv, 1, 77, 0xfe);
    output.commit(&again);
    let violated = start("check", &output.args()).wait_with_output().unwrap();
    assert_eq!(violated.status.code(), Some(1));
    let verdict = verdict(&violated);
    assert_eq!(verdict["findings"]["duplicate"], again.rows.len());
    let first = &verdict["first"];
    assert_eq!(
        (&first["kind"], &first["breaks"]),
        (&"duplicate".into(), &"I1".into())
    );
    assert_eq!(
        (&first["checkpoint"], &first["attempt_nonce"]),
        (&77.into(), &"00000000000000fe".into())
    );
    let story = first["story"].as_str().unwrap();
    assert!(
        story.contains("expected the row once, found it again, first in "),
        "{story}"
    );

    let other = start("chekc", &output.args()).wait_with_output().unwrap();
    assert_eq!(other.status.code(), Some(2));
    let said = String::from_utf8(other.stderr).unwrap();
    assert!(said.starts_with("oracle: command \"chekc\", "), "{said}");
}

#[test]
fn watching_while_files_are_committed_finds_each_view_a_prefix() {
    let output = Output::generate(Format::Json, 20, 400, &mut StdRng::seed_from_u64(5));
    let done = tempfile::tempdir().unwrap();
    let done = done.path().join("done");
    let mut args = output.args();
    let done_text = done.to_str().unwrap();
    args.extend(
        [
            "--poll",
            "1ms",
            "--seconds",
            "60",
            "--until-done",
            done_text,
        ]
        .map(str::to_owned),
    );
    let oracle = start("watch", &args);
    for part in &output.parts {
        output.commit(part);
        thread::sleep(Duration::from_millis(3));
    }
    std::fs::create_dir_all(done.parent().unwrap()).unwrap();
    std::fs::write(&done, "").unwrap();
    let finished = oracle.wait_with_output().unwrap();
    let verdict = verdict(&finished);
    assert_eq!(finished.status.code(), Some(0), "{verdict:#}");
    assert_eq!(verdict["rows"], 8000);
    assert!(
        verdict["views"]["judged"].as_u64() >= Some(2),
        "{verdict:#}"
    );
}

#[test]
fn a_job_that_is_not_done_in_time_is_a_finding() {
    let output = Output::generate(Format::Json, 2, 4, &mut StdRng::seed_from_u64(1));
    output.commit_all();
    let mut args = output.args();
    args.extend(["--seconds", "0", "--until-done", "/nonexistent/done"].map(str::to_owned));
    let finished = start("watch", &args).wait_with_output().unwrap();
    assert_eq!(finished.status.code(), Some(1));
    assert_eq!(verdict(&finished)["first"]["kind"], "not-done");
    let said = String::from_utf8(finished.stderr).unwrap();
    assert_eq!(said, "");
}
