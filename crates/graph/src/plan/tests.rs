use millstream_types::{SubtaskId, VertexId};

use crate::testing::{count, filter, generator, graph, hash, join};
use crate::{JobGraph, OperatorKind, Partitioning, Plan};

fn names(plan: &Plan) -> Vec<String> {
    plan.vertices
        .iter()
        .map(|v| format!("{} x{}", v.name, v.parallelism))
        .collect()
}

fn word_count() -> JobGraph {
    let mut graph = graph(&[
        ("lines", generator(), 2),
        ("non-empty", filter(), 2),
        ("counts", count(), 2),
        ("out", OperatorKind::Blackhole, 2),
    ]);
    join(&mut graph, 0, 1, 0, Partitioning::Forward);
    join(&mut graph, 1, 2, 0, hash());
    join(&mut graph, 2, 3, 0, Partitioning::Forward);
    graph
}

#[test]
fn forward_edges_chain_and_a_key_by_begins_a_new_vertex() {
    let plan = Plan::new(&word_count(), true);
    assert_eq!(
        names(&plan),
        ["Source: lines -> non-empty x2", "counts -> Sink: out x2"]
    );
    assert_eq!(plan.edges.len(), 1);
    assert_eq!(plan.slots_needed(), 2);
}

#[test]
fn without_chaining_every_operator_is_a_vertex() {
    let plan = Plan::new(&word_count(), false);
    assert_eq!(plan.vertices.len(), 4);
    assert_eq!(plan.edges.len(), 3);
}

#[test]
fn an_operator_with_two_consumers_ends_its_chain() {
    let mut graph = word_count();
    graph.operators.push(graph.operators[3].clone());
    join(&mut graph, 1, 4, 0, Partitioning::Forward);
    let plan = Plan::new(&graph, true);
    assert_eq!(plan.vertices.len(), 3);
}

#[test]
fn a_hash_edge_connects_everyone_and_a_forward_edge_only_its_own() {
    let plan = Plan::new(&word_count(), false);
    let channels = |vertex| plan.input_channels(SubtaskId::new(VertexId(vertex), 1));
    assert_eq!(channels(1).iter().map(|c| c.from).collect::<Vec<_>>(), [1]);
    assert_eq!(
        channels(2).iter().map(|c| c.from).collect::<Vec<_>>(),
        [0, 1]
    );
}

#[test]
fn slots_are_shared_within_a_group_and_added_over_groups() {
    let mut graph = word_count();
    graph.operators[3].slot_sharing_group = "sinks".to_owned();
    assert_eq!(Plan::new(&graph, true).slots_needed(), 4);
}
