use std::collections::BTreeSet;
use std::path::Path;
use std::time::Duration;

use millstream_coordination::failure::FailureKind;
use millstream_coordination::job::ExecutionState;
use millstream_env::Env;
use millstream_graph::{Emit, Fault, Inject, JobGraph, OperatorKind, Partitioning};
use millstream_types::CheckpointId;

use super::fixture::{Script, committed, file_sink, generator, line, sums};

fn hash() -> Partitioning {
    Partitioning::Hash { columns: vec![0] }
}

fn print() -> OperatorKind {
    OperatorKind::Print { label: None }
}

/// Generator, keyed count and sum, sink.
fn keyed(
    rows: u64,
    rate: Option<f64>,
    emit: Emit,
    sink: OperatorKind,
    settings: &[(&str, &str)],
) -> JobGraph {
    let (source, rows_schema) = generator(rows, 10, rate);
    let (aggregate, sums_schema) = sums(emit);
    let sink_schema = sums_schema.clone();
    line(
        vec![
            ("source", source, rows_schema),
            ("sums", aggregate, sums_schema),
            ("out", sink, sink_schema),
        ],
        &[hash(), Partitioning::Forward],
        2,
        settings,
    )
}

fn checkpointing(dir: &Path, backend: &str) -> Vec<(String, String)> {
    vec![
        ("checkpointing.interval".to_owned(), "1h".to_owned()),
        (
            "checkpointing.dir".to_owned(),
            dir.join("checkpoints").display().to_string(),
        ),
        ("state.backend.type".to_owned(), backend.to_owned()),
    ]
}

fn as_pairs(settings: &[(String, String)]) -> Vec<(&str, &str)> {
    settings
        .iter()
        .map(|(key, value)| (key.as_str(), value.as_str()))
        .collect()
}

/// What the keyed job must have committed: every key's running count and sum, each once.
fn expected(rows: u64) -> Vec<String> {
    let per_key = rows / 10;
    let row = |key: u64, n: u64| format!("{key},{n},{}", n * (n + 1) / 2);
    let mut all: Vec<_> = (0..10)
        .flat_map(|key| (1..=per_key).map(move |n| row(key, n)))
        .collect();
    all.sort();
    all
}

// Proves F122.
#[tokio::test(flavor = "multi_thread")]
async fn a_bounded_job_without_checkpoints_ends_by_itself_with_its_final_results() {
    let (env, dir) = (Env::real("test"), tempfile::tempdir().unwrap());
    let graph = keyed(1_000, None, Emit::End, print(), &[]);
    let script = Script::start(&env, dir.path(), &graph, 1, None).await;
    let end = script.end().await;
    assert!(
        end.states.values().all(|s| *s == ExecutionState::Finished),
        "{end:?}"
    );
    let lines: BTreeSet<_> = end
        .lines
        .iter()
        .map(|line| line.split("> ").last().unwrap().to_owned())
        .collect();
    assert_eq!(lines.len(), 10, "{:?}", end.lines);
    assert!(
        lines
            .iter()
            .all(|line| line.contains("100") && line.contains("5050")),
        "{lines:?}"
    );
}

// Proves F119 on this side: rows are visible only after the final checkpoint, all of them, and
// the tasks end with it.
#[tokio::test(flavor = "multi_thread")]
async fn rows_of_a_bounded_job_become_visible_with_its_final_checkpoint() {
    let (env, dir) = (Env::real("test"), tempfile::tempdir().unwrap());
    let settings = checkpointing(dir.path(), "hashmap");
    let sink = file_sink(dir.path());
    let graph = keyed(1_000, None, Emit::Each, sink, &as_pairs(&settings));
    let mut script = Script::start(&env, dir.path(), &graph, 1, None).await;
    script.end_of_data().await;
    script.checkpoint(1).await;
    assert_eq!(committed(&env, dir.path()), Vec::<String>::new());
    script.complete(1);
    let end = script.end().await;
    assert!(
        end.states.values().all(|s| *s == ExecutionState::Finished),
        "{end:?}"
    );
    assert_eq!(committed(&env, dir.path()), expected(1_000));
}

/// Runs until some rows went through, checkpoints, cancels without saying that it completed,
/// restores, and runs to the end.
async fn restores_exactly(backend: &str) {
    let (env, dir) = (Env::real("test"), tempfile::tempdir().unwrap());
    let settings = checkpointing(dir.path(), backend);
    let sink = file_sink(dir.path());
    let graph = keyed(
        20_000,
        Some(20_000.0),
        Emit::Each,
        sink,
        &as_pairs(&settings),
    );
    let mut script = Script::start(&env, dir.path(), &graph, 1, None).await;
    while script
        .metrics_in_and_out()
        .iter()
        .all(|(read, _)| *read < 1_000)
    {
        env.clock().sleep(Duration::from_millis(5)).await;
    }
    script.checkpoint(1).await;
    script.complete(1);
    let snapshots = script.checkpoint(2).await;
    script.cancel();
    let end = script.end().await;
    assert!(end.failure.is_none(), "{end:?}");
    let before = committed(&env, dir.path());
    assert!(
        !before.is_empty() && before.len() < 20_000,
        "{}",
        before.len()
    );

    let restore = Some((CheckpointId(2), &snapshots));
    let mut script = Script::start(&env, dir.path(), &graph, 2, restore).await;
    assert!(
        committed(&env, dir.path()).len() > before.len(),
        "promised rows are committed first"
    );
    script.end_of_data().await;
    script.checkpoint(3).await;
    script.complete(3);
    let end = script.end().await;
    assert!(
        end.states.values().all(|s| *s == ExecutionState::Finished),
        "{end:?}"
    );
    assert_eq!(committed(&env, dir.path()), expected(20_000));
}

// Proves F89, and F157's outcome: what a checkpoint promised is committed at the restore, once.
#[tokio::test(flavor = "multi_thread")]
async fn a_restored_job_commits_every_row_once_with_state_in_memory() {
    restores_exactly("hashmap").await;
}

#[cfg(feature = "rocksdb")]
#[tokio::test(flavor = "multi_thread")]
async fn a_restored_job_commits_every_row_once_with_state_in_rocksdb() {
    restores_exactly("rocksdb").await;
}

fn injecting(fault: Fault, settings: &[(&str, &str)]) -> JobGraph {
    let (source, schema) = generator(1_000, 10, None);
    let inject = Inject {
        fault,
        at_row: 100,
        subtask: Some(1),
        times: None,
    };
    line(
        vec![
            ("source", source, schema.clone()),
            ("trouble", OperatorKind::Inject(inject), schema.clone()),
            ("out", OperatorKind::Blackhole, schema),
        ],
        &[Partitioning::Forward, Partitioning::Forward],
        2,
        settings,
    )
}

#[tokio::test(flavor = "multi_thread")]
async fn a_failure_names_its_operator_and_leaves_other_tasks_alone() {
    for (fault, kind) in [
        (
            Fault::Fail {
                message: "division by zero".to_owned(),
            },
            FailureKind::User,
        ),
        (
            Fault::Panic {
                message: "division by zero".to_owned(),
            },
            FailureKind::User,
        ),
    ] {
        let (env, dir) = (Env::real("test"), tempfile::tempdir().unwrap());
        let graph = injecting(fault, &[("pipeline.allow-fault-injection", "true")]);
        let end = Script::start(&env, dir.path(), &graph, 1, None)
            .await
            .end()
            .await;
        let failure = end.failure.unwrap();
        assert_eq!(failure.kind, kind);
        assert!(failure.message.contains("division by zero"), "{failure:?}");
        let mut states: Vec<_> = end.states.values().copied().collect();
        states.sort();
        assert_eq!(states, [ExecutionState::Finished, ExecutionState::Failed]);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_running_job_is_cancelled_within_a_second() {
    let (env, dir) = (Env::real("test"), tempfile::tempdir().unwrap());
    let graph = keyed(
        1_000_000,
        Some(10.0),
        Emit::Each,
        OperatorKind::Blackhole,
        &[],
    );
    let mut script = Script::start(&env, dir.path(), &graph, 1, None).await;
    let before = env.clock().monotonic();
    script.cancel();
    let end = script.end().await;
    assert!(
        end.states.values().all(|s| *s == ExecutionState::Canceled),
        "{end:?}"
    );
    assert!(env.clock().monotonic().saturating_since(before) < Duration::from_secs(1));
}

// Proves F101: a reader that waits for its next row does not keep the barrier waiting. The middle
// one of five counts, since other tests keep the machine busy.
#[tokio::test(flavor = "multi_thread")]
async fn the_barrier_of_a_source_without_data_passes_within_100_milliseconds() {
    let (env, dir) = (Env::real("test"), tempfile::tempdir().unwrap());
    let settings = checkpointing(dir.path(), "hashmap");
    let a_row_an_hour = Some(1.0 / 3_600.0);
    let sink = OperatorKind::Blackhole;
    let graph = keyed(1_000, a_row_an_hour, Emit::Each, sink, &as_pairs(&settings));
    let mut script = Script::start(&env, dir.path(), &graph, 1, None).await;
    let mut took = Vec::new();
    for id in 1..=5 {
        env.clock().sleep(Duration::from_millis(100)).await;
        let before = env.clock().monotonic();
        script.checkpoint(id).await;
        took.push(env.clock().monotonic().saturating_since(before));
        script.complete(id);
    }
    let read: Vec<u64> = script
        .metrics_in_and_out()
        .iter()
        .map(|(read, _)| *read)
        .collect();
    assert!(read.iter().all(|read| *read <= 1), "{read:?}");
    took.sort();
    assert!(took[2] < Duration::from_millis(100), "{took:?}");
    script.cancel();
    script.end().await;
}
