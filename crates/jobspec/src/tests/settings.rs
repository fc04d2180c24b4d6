//! Settings of the job: what is refused with file and line, and what the graph carries.

use millstream_config::{Layer, Resolved, Target};

use super::{faults, read};
use crate::parse_with_flags;

const PIPELINE: &str = "pipeline:\n  - source: {uid: in, connector: file, path: x}\n  - sink: {uid: out, connector: print}\n";

fn refused(settings: &str) -> String {
    faults(&format!("{settings}{PIPELINE}"))
}

// Proves F1.
#[test]
fn a_bare_number_is_refused_with_both_readings() {
    assert_eq!(
        refused("name: x\ncheckpointing:\n  interval: 300000\n"),
        "job.yaml:3:13: checkpointing.interval has no unit: \
         write 300000s (= 3d 11h 20m) or 300000ms (= 5m) (write the unit that is meant)"
    );
}

// Proves F3.
#[test]
fn an_unknown_key_is_refused_with_the_key_that_was_meant() {
    assert_eq!(
        refused("execution.checkpointing.timout: 1m\n"),
        "job.yaml:1:1: unknown key execution.checkpointing.timout \
         (did you mean execution.checkpointing.timeout?)"
    );
    assert!(refused("nmae: x\n").contains("did you mean name?"));
    assert_eq!(
        refused("name: x\ncheckpointing: 5\n"),
        "job.yaml:2:1: checkpointing is a single value, expected a mapping: keys and values below \
         it (write checkpointing: { interval: 10s }, or checkpointing.interval: 10s)"
    );
    assert!(refused("rest.port: 80\n").contains("is a key of the daemons"));
}

// Proves F4.
#[test]
fn old_names_are_accepted_with_one_warning_each() {
    let job = read(&format!(
        "state.backend.incremental: false\nrestart-strategy: none\n{PIPELINE}"
    ));
    assert_eq!(job.warnings.len(), 2, "{:?}", job.warnings);
    assert_eq!(job.graph.setting("restart-strategy.type"), Some("none"));
}

// Proves F5.
#[test]
fn a_pause_beside_several_checkpoints_is_refused_at_its_line() {
    let shown = refused("checkpointing:\n  min-pause: 500ms\n  max-concurrent-checkpoints: 2\n");
    assert!(shown.starts_with("job.yaml:3:3: "), "{shown}");
    assert!(
        shown.contains("checkpointing.min-pause is 500ms (job, job.yaml:2)"),
        "{shown}"
    );
}

// Proves F6: nothing unaligned is built, so it is refused in every mode.
#[test]
fn unaligned_at_least_once_is_refused() {
    let shown = refused("checkpointing:\n  mode: at-least-once\n  unaligned.enabled: true\n");
    assert!(shown.starts_with("job.yaml:3:22: "), "{shown}");
    assert!(shown.contains("unaligned"), "{shown}");
}

// Proves HND-078.
#[test]
fn one_key_twice_is_refused_with_both_places() {
    let shown = refused("checkpointing.interval: 5s\nexecution: {checkpointing: {interval: 5s}}\n");
    assert!(
        shown.contains("job.yaml:1") && shown.contains("job.yaml:2"),
        "{shown}"
    );
    let shown = refused("name: a\nname: b\n");
    assert!(
        shown.contains("line 1, column 1 and line 2, column 1"),
        "{shown}"
    );
}

#[test]
fn faults_of_settings_and_of_steps_come_together() {
    let text = "checkpointing.interval: 5\npipeline:\n  - source: {uid: in, connector: file, path: x}\n  \
                - filter: {uid: f, where: lin = 'x'}\n  - sink: {uid: out, connector: print}\n";
    let shown = faults(text);
    let lines: Vec<&str> = shown.lines().collect();
    assert_eq!(lines.len(), 2, "{shown}");
    assert!(lines[0].starts_with("job.yaml:1:25: "), "{shown}");
    assert!(
        lines[1].starts_with("job.yaml:4:29: pipeline[1].filter.where: "),
        "{shown}"
    );
}

#[test]
fn the_name_of_the_file_is_the_name_of_a_job_without_one() {
    assert_eq!(read(PIPELINE).graph.name, "job");
    assert_eq!(read(&format!("name: no\n{PIPELINE}")).graph.name, "no");
    assert!(refused("name: [a]\n").contains("job.yaml:1:7: name: name is a list"));
}

// F2: what the graph carries. The page that shows it is the cluster's.
#[test]
fn the_graph_carries_what_the_job_and_the_flags_set_and_not_what_the_cluster_did() {
    let cluster = Layer::file("conf", "state.backend.type: rocksdb\nparallelism: 3\n").unwrap();
    let cluster = Resolved::new([cluster]);
    let flags = Layer::flags(["checkpointing.timeout=1m"], Target::Job).unwrap();
    let text = format!("checkpointing: {{interval: 5m, timeout: 2m}}\n{PIPELINE}");
    let job = parse_with_flags("j.yaml", &text, None, &cluster, flags).unwrap();
    let settings: Vec<(&str, &str, &str)> = job
        .graph
        .settings
        .iter()
        .map(|s| (s.key.as_str(), s.value.as_str(), s.origin.as_str()))
        .collect();
    assert_eq!(
        settings,
        [
            ("checkpointing.interval", "5m", "job"),
            ("checkpointing.timeout", "1m", "flag")
        ]
    );
    assert_eq!(super::operator(&job.graph, "out").parallelism, 3);
}
