//! The job graph as bytes (`job_graph.proto`): how it is submitted, stored and sent to job
//! processes.

mod operators;
mod schema;
mod sources;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;

use bytes::Bytes;
use millstream_graph::{
    Edge, JobGraph, OPERATORS_MAX, OperatorId, OperatorNode, OutputPort, Partitioning,
    SUBTASKS_MAX, Setting,
};
use millstream_types::{MaxParallelism, OperatorUid};
use prost::Message;
use prost::encoding::{DecodeContext, decode_key, skip_field};

use crate::error::{DecodeError, EncodeError, invalid, missing, unknown};
use crate::pb;

/// The largest job graph, encoded.
pub const GRAPH_BYTES_MAX: usize = 4 << 20;

/// What JobGraph repeats, by its tag, and how many of it are read.
const REPEATED: [(u32, &str, u64); 3] = [
    (2, "operators", OPERATORS_MAX as u64),
    (3, "edges", SUBTASKS_MAX),
    (4, "settings", 1_000),
];

/// The graph's bytes; the same graph always has the same.
pub fn encode_graph(graph: &JobGraph) -> Result<Bytes, EncodeError> {
    let message = graph_to_wire(graph)?;
    let found = message.encoded_len();
    if found > GRAPH_BYTES_MAX {
        return Err(EncodeError::TooLarge {
            what: format!("the graph of job {:?}", graph.name),
            found: found as u64,
            limit: GRAPH_BYTES_MAX as u64,
        });
    }
    Ok(message.encode_to_vec().into())
}

/// The graph of these bytes, well formed but not yet [validated](JobGraph::validate).
pub fn decode_graph(bytes: &[u8]) -> Result<JobGraph, DecodeError> {
    if bytes.len() > GRAPH_BYTES_MAX {
        return Err(DecodeError::TooLarge {
            what: "the job graph",
            found: bytes.len() as u64,
            limit: GRAPH_BYTES_MAX as u64,
        });
    }
    let malformed = |source| DecodeError::Malformed {
        message: "JobGraph",
        source,
    };
    let counts = count_fields(bytes).map_err(malformed)?;
    for (tag, of, limit) in REPEATED {
        let found = counts.get(&tag).copied().unwrap_or(0);
        if found > limit {
            let what = "the job graph";
            return Err(DecodeError::TooMany {
                what,
                of,
                found,
                limit,
            });
        }
    }
    graph_from_wire(pb::JobGraph::decode(bytes).map_err(malformed)?)
}

/// How often each field of a message occurs. Asked before memory is taken: an operator of two
/// bytes becomes one of some hundred.
fn count_fields(mut bytes: &[u8]) -> Result<BTreeMap<u32, u64>, prost::DecodeError> {
    let mut counts = BTreeMap::new();
    while !bytes.is_empty() {
        let (tag, wire_type) = decode_key(&mut bytes)?;
        skip_field(wire_type, tag, &mut bytes, DecodeContext::default())?;
        *counts.entry(tag).or_default() += 1;
    }
    Ok(counts)
}

pub(crate) fn graph_to_wire(graph: &JobGraph) -> Result<pb::JobGraph, EncodeError> {
    let operators: Result<_, _> = graph.operators.iter().map(node_to_wire).collect();
    Ok(pb::JobGraph {
        name: graph.name.clone(),
        operators: operators?,
        edges: graph.edges.iter().map(edge_to_wire).collect(),
        settings: graph.settings.iter().map(setting_to_wire).collect(),
    })
}

pub(crate) fn graph_from_wire(message: pb::JobGraph) -> Result<JobGraph, DecodeError> {
    let operators: Result<_, _> = message.operators.into_iter().map(node_from_wire).collect();
    let edges: Result<_, _> = message.edges.into_iter().map(edge_from_wire).collect();
    Ok(JobGraph {
        name: message.name,
        operators: operators?,
        edges: edges?,
        settings: message
            .settings
            .into_iter()
            .map(setting_from_wire)
            .collect(),
    })
}

fn setting_to_wire(setting: &Setting) -> pb::Setting {
    pb::Setting {
        key: setting.key.clone(),
        value: setting.value.clone(),
        origin: setting.origin.clone(),
    }
}

fn setting_from_wire(message: pb::Setting) -> Setting {
    Setting {
        key: message.key,
        value: message.value,
        origin: message.origin,
    }
}

fn node_to_wire(node: &OperatorNode) -> Result<pb::OperatorNode, EncodeError> {
    Ok(pb::OperatorNode {
        uid: node.uid.to_string(),
        uid_generated: node.uid_generated,
        name: node.name.clone(),
        parallelism: node.parallelism,
        max_parallelism: node.max_parallelism.get(),
        max_parallelism_explicit: node.max_parallelism_explicit,
        slot_sharing_group: node.slot_sharing_group.clone(),
        chain_with_input: node.chain_with_input,
        schema: Some(schema::to_wire(&node.schema)?),
        kind: Some(operators::to_wire(&node.kind)?),
    })
}

fn node_from_wire(message: pb::OperatorNode) -> Result<OperatorNode, DecodeError> {
    const NODE: &str = "OperatorNode";
    let uid = OperatorUid::new(&message.uid)
        .map_err(|error| invalid(NODE, "uid", format!("is refused: {error}")))?;
    let max_parallelism = MaxParallelism::new(message.max_parallelism)
        .map_err(|error| invalid(NODE, "max_parallelism", format!("is refused: {error}")))?;
    let schema = message.schema.ok_or(missing(NODE, "schema"))?;
    let kind = message.kind.ok_or(missing(NODE, "kind"))?;
    Ok(OperatorNode {
        uid,
        uid_generated: message.uid_generated,
        name: message.name,
        kind: operators::from_wire(kind)?,
        parallelism: message.parallelism,
        max_parallelism,
        max_parallelism_explicit: message.max_parallelism_explicit,
        slot_sharing_group: message.slot_sharing_group,
        chain_with_input: message.chain_with_input,
        schema: schema::from_wire(schema)?,
    })
}

fn edge_to_wire(edge: &Edge) -> pb::Edge {
    use pb::edge::Partitioning as P;
    let port = match edge.port {
        OutputPort::Main => pb::OutputPort::Main,
        OutputPort::DeadLetter => pb::OutputPort::DeadLetter,
    };
    let partitioning = match &edge.partitioning {
        Partitioning::Forward => P::Forward(pb::ForwardPartitioning {}),
        Partitioning::Rebalance => P::Rebalance(pb::RebalancePartitioning {}),
        Partitioning::Assign => P::Assign(pb::AssignPartitioning {}),
        Partitioning::Hash { columns } => P::Hash(pb::HashPartitioning {
            columns: columns_to_wire(columns),
        }),
        Partitioning::Broadcast => P::Broadcast(pb::BroadcastPartitioning {}),
    };
    pb::Edge {
        from: edge.from.0,
        port: port.into(),
        to: edge.to.0,
        input: edge.input,
        partitioning: Some(partitioning),
    }
}

fn edge_from_wire(message: pb::Edge) -> Result<Edge, DecodeError> {
    use pb::edge::Partitioning as P;
    let port = match pb::OutputPort::try_from(message.port) {
        Ok(pb::OutputPort::Main) => OutputPort::Main,
        Ok(pb::OutputPort::DeadLetter) => OutputPort::DeadLetter,
        Ok(pb::OutputPort::Unspecified) | Err(_) => {
            return Err(unknown("Edge", "port", message.port));
        }
    };
    let partitioning = match message
        .partitioning
        .ok_or(missing("Edge", "partitioning"))?
    {
        P::Forward(_) => Partitioning::Forward,
        P::Rebalance(_) => Partitioning::Rebalance,
        P::Assign(_) => Partitioning::Assign,
        P::Hash(hash) => Partitioning::Hash {
            columns: columns_from_wire(&hash.columns),
        },
        P::Broadcast(_) => Partitioning::Broadcast,
    };
    Ok(Edge {
        from: OperatorId(message.from),
        port,
        to: OperatorId(message.to),
        input: message.input,
        partitioning,
    })
}

/// Positions of columns; no schema has as many as would not fit.
fn columns_to_wire(columns: &[usize]) -> Vec<u32> {
    columns
        .iter()
        .map(|column| u32::try_from(*column).unwrap_or(u32::MAX))
        .collect()
}

fn columns_from_wire(columns: &[u32]) -> Vec<usize> {
    columns.iter().map(|column| *column as usize).collect()
}
