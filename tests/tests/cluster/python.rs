//! `docs/examples/submit.py`: a client in another language, which knows nothing but the address.

use std::path::Path;
use std::process::{Command, Output};

use crate::fixture::{Cluster, Ledger, PATIENCE};
use crate::job::Job;
use crate::process::{finish, root, text};
use crate::seaweed::venv;

fn submit(cluster: &Cluster, job: &Path) -> Output {
    let mut command = Command::new(venv("python"));
    command.arg(root().join("docs/examples/submit.py"));
    command.arg(cluster.jobmanager()).arg(job);
    finish(&mut command, PATIENCE)
}

const SMALL: Ledger = Ledger {
    keys: 10,
    rows: 1_000,
    rate: 2_000,
};

#[test]
fn a_python_client_finds_the_services_by_reflection_and_follows_a_job_to_its_end() {
    let cluster = Cluster::start(1, 2);
    let (job, out) = SMALL.write(cluster.dir());
    let output = submit(&cluster, &job);
    let (said, errors) = (text(&output.stdout), text(&output.stderr));
    assert!(
        output.status.success(),
        "{said}\n{errors}\n{}",
        cluster.logs()
    );
    let services = said.lines().next().unwrap_or_default();
    for service in [
        "grpc.health.v1.Health",
        "grpc.reflection.",
        "millstream.v1.JobService",
    ] {
        assert!(services.contains(service), "{service} is missing: {said}");
    }
    let id = said.lines().find_map(|line| line.strip_prefix("job: "));
    let id = id.unwrap_or_default();
    assert_eq!(
        cluster.rest(&format!("/jobs/{id}"))["state"],
        "FINISHED",
        "{said}"
    );
    let states: Vec<_> = said
        .lines()
        .filter(|line| line.starts_with("state: "))
        .collect();
    assert!(states.contains(&"state: RUNNING"), "{said}");
    assert_eq!(states.last(), Some(&"state: FINISHED"), "{said}");
    SMALL.judge(&out);
}

#[test]
fn a_python_client_sees_that_a_job_failed_by_the_exit_code() {
    let cluster = Cluster::start(1, 2);
    let job = Job::new("failing")
        .restarts("type: none")
        .generator("rows", "rows: 100", "n: { sequence: {} }")
        .inject("trouble", "fail: { at: 10, message: on purpose }")
        .sink("blackhole")
        .write(cluster.dir(), "failing");
    let output = submit(&cluster, &job);
    let said = text(&output.stdout);
    assert_eq!(
        output.status.code(),
        Some(1),
        "{said}\n{}",
        text(&output.stderr)
    );
    assert_eq!(said.lines().last(), Some("state: FAILED"), "{said}");
}

// Every fault at once, each with its place, also for whoever has no tool of ours.
#[test]
fn a_python_client_gets_every_fault_of_a_job_file_in_words() {
    let cluster = Cluster::start(0, 1);
    let job = Job::new("wrong")
        .set("parallelsim", 2)
        .generator("rows", "rows: -1", "n: { sequence: {} }")
        .step("filter", "uid: few, where: \"m > 1\"")
        .sink("print")
        .write(cluster.dir(), "wrong");
    let output = submit(&cluster, &job);
    let errors = text(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{errors}");
    for part in [
        "INVALID_ARGUMENT",
        "parallelsim",
        "parallelism",
        "rows",
        "job:5:33",
        "m > 1",
    ] {
        assert!(errors.contains(part), "{part} is missing: {errors}");
    }
    let list = text(&cluster.cli(&["list"]).stdout);
    assert!(!list.contains("wrong"), "{list}");
}
