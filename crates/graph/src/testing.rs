//! Small graphs for this crate's tests.

use std::sync::Arc;

use arrow::datatypes::{DataType, Field, Schema};
use millstream_types::{MaxParallelism, OperatorUid};

use crate::*;

/// Operators by (uid, kind, parallelism), without edges.
pub(crate) fn graph(operators: &[(&str, OperatorKind, u32)]) -> JobGraph {
    let schema = Arc::new(Schema::new(vec![Field::new("word", DataType::Utf8, true)]));
    let node = |(uid, kind, parallelism): &(&str, OperatorKind, u32)| OperatorNode {
        uid: OperatorUid::new(uid).unwrap(),
        uid_generated: false,
        name: (*uid).to_owned(),
        kind: kind.clone(),
        parallelism: *parallelism,
        max_parallelism: MaxParallelism::new(128).unwrap(),
        max_parallelism_explicit: false,
        slot_sharing_group: "default".to_owned(),
        chain_with_input: true,
        schema: Arc::clone(&schema),
    };
    JobGraph {
        name: "test".to_owned(),
        operators: operators.iter().map(node).collect(),
        edges: Vec::new(),
        settings: Vec::new(),
    }
}

/// Adds an edge on the main port.
pub(crate) fn join(graph: &mut JobGraph, from: u32, to: u32, input: u32, how: Partitioning) {
    graph.edges.push(Edge {
        from: OperatorId(from),
        port: OutputPort::Main,
        to: OperatorId(to),
        input,
        partitioning: how,
    });
}

pub(crate) fn generator() -> OperatorKind {
    OperatorKind::Generator(GeneratorSource {
        rows: None,
        rate: None,
        seed: 0,
        columns: vec![],
    })
}

pub(crate) fn filter() -> OperatorKind {
    OperatorKind::Filter {
        predicate: "true".to_owned(),
    }
}

pub(crate) fn count() -> OperatorKind {
    OperatorKind::Aggregate {
        keys: vec![0],
        aggregates: vec![],
        emit: Emit::Each,
    }
}

pub(crate) fn hash() -> Partitioning {
    Partitioning::Hash { columns: vec![0] }
}
