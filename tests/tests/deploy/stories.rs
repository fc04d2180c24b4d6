//! What operators do with the compose file, and what must come of it.

use std::path::PathBuf;
use std::time::Duration;

use serde_json::Value;

use crate::compose::{self, Variables};
use crate::fixture::{Addresses, PATIENCE, Stack};
use crate::ledger::Ledger;
use crate::process::{root, text};

/// Time for a cluster to be complete (F14), from nothing.
const START: Duration = Duration::from_secs(20);
/// Time for a job to go on after whatever happened (HND-066).
const RECOVERY: Duration = Duration::from_secs(60);

fn is_complete(taskmanagers: u32) -> impl Fn(&Value) -> bool {
    // As many slots as a service of the file has when nothing is set.
    move |overview| {
        overview["taskmanagers"] == taskmanagers && overview["slots-total"] == taskmanagers * 2
    }
}

fn up(addresses: Addresses, variables: &Variables, scale: u32) -> Stack {
    let mut stack = Stack::new(addresses, variables, &[], &[]);
    stack.up(scale);
    stack.until("all are registered", START, "/overview", is_complete(scale));
    stack
}

/// Every health check of the file says that all is well.
fn all_are_healthy(stack: &Stack) {
    for name in stack.names() {
        let container = stack.container(&name);
        let Some(health) = &container.service.health else {
            continue;
        };
        let health: Vec<_> = health.iter().map(String::as_str).collect();
        let output = container.exec(&health).expect("the container runs");
        assert!(output.status.success(), "{name}: {}", text(&output.stderr));
    }
}

/// Submits a ledger of three subtasks whose files are in the shared volume.
fn submit(stack: &Stack, ledger: &Ledger) -> (PathBuf, String) {
    let data = stack.data();
    let (job, out) = ledger.write(&data);
    let yaml = std::fs::read_to_string(&job).unwrap();
    let yaml = yaml.replace(&*data.to_string_lossy(), "/var/lib/millstream");
    std::fs::write(&job, yaml.replace("parallelism: 2", "parallelism: 3")).unwrap();
    std::fs::create_dir(&out).unwrap();
    stack.give(&out);
    let output = stack.exec(&run(&["-d"]));
    (out, text(&output.stdout).trim().to_owned())
}

fn run<'a>(more: &[&'a str]) -> Vec<&'a str> {
    let job = "/var/lib/millstream/ledger.yaml";
    let mut command = vec!["millstream", "run", job, "--client-id", "ledger"];
    command.extend(more);
    command
}

// HND-066: also when the jobmanager comes back with another address and another host name.
// HND-079, case 2: all listen on 0.0.0.0, and on different hosts.
#[test]
fn a_job_outlives_containers_that_are_killed_stopped_and_come_back_elsewhere() {
    let ledger = Ledger {
        // Three times something: then all rows of a key come from one of three sources, in order.
        keys: 42,
        rows: 504_000,
        rate: 16_000,
    };
    let mut stack = up(Addresses::V4, &Variables::new(), 3);
    all_are_healthy(&stack);
    let (out, id) = submit(&stack, &ledger);
    let watch = ledger.watch(&out, &stack.dir().join("done"));
    stack.until_running(&id, RECOVERY);
    std::thread::sleep(Duration::from_secs(3));

    let busy = |stack: &Stack| -> Vec<String> {
        let names = (1..=3).map(|number| format!("taskmanager-{number}"));
        names
            .filter(|name| stack.container(name).job_processes() > 0)
            .collect()
    };
    assert!(busy(&stack).len() > 1, "rows cross the network");
    let name = busy(&stack).remove(0);
    stack.kill(&name);
    stack.until("it is missed", PATIENCE, "/overview", is_complete(2));
    stack.start(&name);
    stack.until("another is there", START, "/overview", is_complete(3));
    stack.until_running(&id, RECOVERY);
    std::thread::sleep(Duration::from_secs(2));

    stack.stop();
    stack.up(3);
    stack.until("all are back", START, "/overview", is_complete(3));
    stack.until_running(&id, RECOVERY);
    std::thread::sleep(Duration::from_secs(2));

    stack.kill("jobmanager-1");
    stack.start("jobmanager-1");
    stack.until_running(&id, RECOVERY);
    all_are_healthy(&stack);

    stack.exec(&run(&[]));
    std::fs::write(stack.dir().join("done"), "").unwrap();
    let verdict = watch.join().unwrap();
    assert!(verdict.status.success(), "{}", text(&verdict.stdout));
    ledger.judge(&out);
    let checkpoints = stack.rest(&format!("/jobs/{id}/checkpoints"));
    assert!(
        checkpoints["counts"]["restored"].as_u64() >= Some(1),
        "it went on from a checkpoint: {checkpoints}"
    );
    stack.stop();
}

#[test]
fn a_taskmanagers_slots_share_the_memory_of_its_container() {
    let variable = |name: &str, value: &str| (name.to_owned(), value.to_owned());
    let variables = Variables::from([
        variable("TASKMANAGER_MEMORY", "768m"),
        variable("MILLSTREAM_TASKMANAGER_NUMBEROFTASKSLOTS", "3"),
    ]);
    let mut stack = Stack::new(Addresses::V4, &variables, &[], &[]);
    stack.up(1);
    stack.until("it is registered", START, "/overview", |overview| {
        overview["slots-total"] == 3
    });
    let log = stack.log("taskmanager-1");
    let expected = format!("memory_per_slot_bytes={}", 256 << 20);
    assert!(log.contains(&expected), "{expected} is missing in:\n{log}");
    stack.stop();
}

#[test]
fn with_addresses_of_ipv6_alone_taskmanagers_exchange_rows() {
    let variables = Variables::from([("BIND_HOST".to_owned(), "::".to_owned())]);
    let mut stack = up(Addresses::V6, &variables, 2);
    all_are_healthy(&stack);
    let output = stack.exec(&["millstream", "run", "word-count.yaml"]);
    let lines = text(&output.stdout);
    for subtask in ["1> ", "2> "] {
        assert!(
            lines.lines().any(|line| line.starts_with(subtask)),
            "{lines}"
        );
    }
    stack.stop();
}

// Proves F14.
#[test]
fn with_the_profile_s3_checkpoints_are_in_the_object_store() {
    let home = PathBuf::from(std::env::var("HOME").unwrap());
    let server = home.join(".cache/millstream/venv/bin/weed");
    assert!(server.exists(), "no S3 server: run deploy/setup.sh");
    let variables = compose::env_file("deploy/s3.env");
    let mut stack = Stack::new(Addresses::V4, &variables, &["s3"], &[server]);
    stack.up(2);
    stack.until("all are registered", START, "/overview", is_complete(2));
    all_are_healthy(&stack);
    let dir = "checkpointing.dir=s3://millstream/checkpoints";
    let output = stack.exec(&["millstream", "run", "-d", "exactly-once.yaml", "-D", dir]);
    let id = text(&output.stdout).trim().to_owned();
    let path = format!("/jobs/{id}/checkpoints");
    stack.until("a checkpoint is complete", PATIENCE, &path, |checkpoints| {
        checkpoints["counts"]["completed"].as_u64() >= Some(1)
    });
    let latest = stack.rest(&path)["latest"]["completed"]["external_path"].clone();
    let place = latest.as_str().unwrap_or_default();
    assert!(
        place.starts_with("s3://millstream/checkpoints/"),
        "{latest}"
    );
    stack.exec(&["millstream", "cancel", &id]);
    stack.stop();
}

#[test]
fn ports_are_published_on_loopback_and_no_name_stands_in_the_way_of_scaling() {
    let services = compose::services(&Variables::new(), &["s3"]);
    let names: Vec<_> = services.iter().map(|s| s.name.as_str()).collect();
    assert_eq!(names, ["jobmanager", "s3", "taskmanager"]);
    for service in &services {
        let fixed = service
            .raw
            .get("container_name")
            .or(service.raw.get("hostname"));
        assert_eq!(fixed, None, "{}", service.name);
        for port in service.raw["ports"].as_array().into_iter().flatten() {
            let port = port.as_str().unwrap();
            assert!(port.starts_with("127.0.0.1:"), "{port}");
            assert_ne!(service.name, "taskmanager", "{port}");
        }
        if service.name != "s3" {
            assert!(service.is_read_only && service.restarts && service.health.is_some());
        }
    }
    let build = &services[0].raw["build"];
    let dockerfile = std::fs::read_to_string(root().join("deploy/Dockerfile")).unwrap();
    for (name, default) in build["args"].as_object().unwrap() {
        let argument = format!("ARG {name}={}", default.as_str().unwrap());
        assert!(dockerfile.contains(&argument), "{argument}");
    }
}
