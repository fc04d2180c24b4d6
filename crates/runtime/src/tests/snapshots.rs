//! Snapshots that are aborted, and that fail.

use std::sync::Arc;
use std::time::Duration;

use millstream_coordination::failure::FailureKind;
use millstream_coordination::job::ExecutionState;
use millstream_env::Env;
use millstream_graph::{Emit, Fault, Inject, JobGraph, OperatorKind, Partitioning};
use millstream_snapshot::{Store, StorePolicy};
use millstream_testkit::{ChaosStore, Faults};
use object_store::memory::InMemory;
use object_store::path::Path as ObjectPath;

use super::fixture::{Script, generator, job_id, line, sums};

/// Checkpoints are taken when the script says so, with state in memory.
const SETTINGS: &[(&str, &str)] = &[
    ("checkpointing.interval", "1h"),
    ("state.backend.type", "hashmap"),
    ("pipeline.allow-fault-injection", "true"),
];

/// A store in memory that takes its time and has small parts, so that state is many of them.
fn slow_store(env: &Env) -> (ChaosStore<InMemory>, Store) {
    let latency = Duration::from_millis(50)..Duration::from_millis(51);
    let faults = Faults {
        latency,
        ..Faults::NONE
    };
    let rng = env.rng().fork("chaos");
    let objects = ChaosStore::new(InMemory::new(), faults, env.clock().clone(), rng);
    let policy = StorePolicy {
        part_bytes: 4_000,
        ..StorePolicy::default()
    };
    let root = ObjectPath::from("jobs");
    let store = Store::new(
        Arc::new(objects.clone()),
        "memory://test",
        root,
        env,
        policy,
    );
    (objects, store.job(job_id()))
}

// Proves F68: from the word that a checkpoint is off to a store without its parts.
#[tokio::test(flavor = "multi_thread")]
async fn the_uploads_of_an_aborted_checkpoint_are_given_up_and_leave_no_parts() {
    let (env, dir) = (Env::real("test"), tempfile::tempdir().unwrap());
    let (objects, store) = slow_store(&env);
    let (source, rows_schema) = generator(40_000, 20_000, None);
    let (aggregate, sums_schema) = sums(Emit::End);
    let sink_schema = sums_schema.clone();
    let graph = line(
        vec![
            ("source", source, rows_schema),
            ("sums", aggregate, sums_schema),
            ("out", OperatorKind::Blackhole, sink_schema),
        ],
        &[
            Partitioning::Hash { columns: vec![0] },
            Partitioning::Forward,
        ],
        2,
        SETTINGS,
    );
    let mut script = Script::start_on(store.clone(), &env, dir.path(), &graph, 1, None).await;
    script.end_of_data().await;
    script.trigger(1);
    // One of each keyed task, and neither is whole.
    while objects.uploads().n_open < 2 || objects.uploads().n_parts < 6 {
        env.clock().sleep(Duration::from_millis(5)).await;
    }
    script.abort(1);
    script.uploads_stopped(1, 2).await;
    while objects.uploads().n_open > 0 {
        env.clock().sleep(Duration::from_millis(5)).await;
    }
    assert_eq!(store.list("", None, 10).await.unwrap().names, []);
    assert_eq!(
        script.n_acknowledged(1),
        2,
        "the sources had nothing to upload"
    );

    script.checkpoint(2).await;
    assert_eq!(objects.uploads().n_open, 0);
    assert_eq!(store.list("", None, 10).await.unwrap().names.len(), 2);
    script.complete(2);
    let end = script.end().await;
    assert!(end.failure.is_none(), "{end:?}");
}

/// Source, fault and sink as one task, so often.
fn injecting(parallelism: u32, rows: u64, inject: Inject, sink: OperatorKind) -> JobGraph {
    let (source, schema) = generator(rows, 10, None);
    line(
        vec![
            ("source", source, schema.clone()),
            ("trouble", OperatorKind::Inject(inject), schema.clone()),
            ("out", sink, schema),
        ],
        &[Partitioning::Forward, Partitioning::Forward],
        parallelism,
        SETTINGS,
    )
}

// Proves F84 on this side: the task fails, and says in which part; nothing is declined, which the
// script would not take.
#[tokio::test(flavor = "multi_thread")]
async fn an_operator_that_fails_in_the_synchronous_part_of_a_snapshot_fails_its_task() {
    let (env, dir) = (Env::real("test"), tempfile::tempdir().unwrap());
    let inject = Inject {
        fault: Fault::RefuseSnapshot {
            message: "the cache is not consistent".to_owned(),
        },
        at_row: 10,
        subtask: Some(1),
        times: None,
    };
    let graph = injecting(2, 100, inject, OperatorKind::Blackhole);
    let mut script = Script::start(&env, dir.path(), &graph, 1, None).await;
    script.end_of_data().await;
    script.trigger(1);
    let failure = script.failed().await;
    assert_eq!(failure.kind, FailureKind::SynchronousSnapshot);
    assert_eq!(failure.operator.as_deref(), Some("trouble"));
    assert_eq!(failure.message, "the cache is not consistent");
    assert!(
        !failure.is_non_recoverable(),
        "the restart strategy decides"
    );
    script.cancel();
    let mut states: Vec<_> = script.end().await.states.into_values().collect();
    states.sort();
    assert_eq!(states, [ExecutionState::Canceled, ExecutionState::Failed]);
}
