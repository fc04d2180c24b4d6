use millstream_types::MaxParallelism;

use crate::testing::{count, filter, generator, graph, hash, join};
use crate::{JobGraph, OperatorKind, Partitioning};

/// A valid pipeline: generator, filter, keyed count, sink.
fn pipeline() -> JobGraph {
    let mut graph = graph(&[
        ("a", generator(), 2),
        ("b", filter(), 2),
        ("c", count(), 2),
        ("d", OperatorKind::Blackhole, 2),
    ]);
    join(&mut graph, 0, 1, 0, Partitioning::Forward);
    join(&mut graph, 1, 2, 0, hash());
    join(&mut graph, 2, 3, 0, Partitioning::Forward);
    graph
}

fn check(change: impl FnOnce(&mut JobGraph)) -> String {
    let mut graph = pipeline();
    change(&mut graph);
    match graph.validate() {
        Ok(()) => "valid".to_owned(),
        Err(error) => error.to_string(),
    }
}

#[test]
fn a_sound_graph_passes() {
    assert_eq!(check(|_| {}), "valid");
}

// Proves F7 (duplicate uids).
#[test]
fn a_duplicate_uid_names_both_operators() {
    let message = check(|graph| {
        graph.operators[1].uid = graph.operators[2].uid.clone();
        graph.operators[1].name = "left".to_owned();
        graph.operators[2].name = "right".to_owned();
    });
    assert!(
        message.contains("uid c is used by \"left\" and \"right\""),
        "{message}"
    );
}

#[test]
fn every_fault_is_listed_not_only_the_first() {
    let message = check(|graph| {
        graph.operators[0].parallelism = 0;
        graph.operators[2].max_parallelism = MaxParallelism::new(1).unwrap();
    });
    assert!(
        message.contains("operator a: parallelism is 0"),
        "{message}"
    );
    assert!(
        message.contains("operator c: parallelism 2 is above max parallelism 1"),
        "{message}"
    );
    assert!(
        message.contains("forward edge from a (0) to b (2)"),
        "{message}"
    );
}

#[test]
fn a_cycle_is_refused() {
    let message = check(|graph| {
        graph.operators[1].kind = OperatorKind::Union;
        join(graph, 2, 1, 1, hash());
    });
    assert!(message.contains("cycle"), "{message}");
}

#[test]
fn an_edge_to_nowhere_is_refused() {
    let message = check(|graph| join(graph, 0, 77, 0, Partitioning::Forward));
    assert!(
        message.contains("edge 0 to 77 names an operator that does not exist"),
        "{message}"
    );
}

#[test]
fn a_key_column_outside_the_schema_is_refused() {
    for columns in [vec![], vec![0, 9]] {
        let message = check(|graph| graph.edges[1].partitioning = Partitioning::Hash { columns });
        assert!(message.contains("hash edge from b"), "{message}");
    }
}

#[test]
fn a_result_that_nobody_reads_is_refused() {
    let message = check(|graph| drop(graph.edges.pop()));
    assert!(
        message.contains("operator c (aggregate) has no output"),
        "{message}"
    );
    assert!(
        message.contains("operator d (blackhole sink) has 0 inputs"),
        "{message}"
    );
}

#[test]
fn limits_are_named_with_what_was_found() {
    let message = check(|graph| graph.operators[0].parallelism = 1 << 31);
    assert!(
        message.contains("2147483654 subtasks, above the limit of 10000"),
        "{message}"
    );
    let message = check(|graph| graph.name = "n".repeat(5_000));
    assert!(
        message.contains("the job's name is 5000 bytes long"),
        "{message}"
    );
}

#[test]
fn a_name_that_would_steer_a_terminal_is_refused() {
    let message = check(|graph| graph.name = "job\u{1b}[2J\n".to_owned());
    let expected = "the job's name is \"job\\u{1b}[2J\\n\", which has a control character";
    assert!(message.contains(expected), "{message}");
}
