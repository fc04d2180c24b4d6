//! From operators to vertices: chaining, channels, slots.

use std::collections::BTreeMap;

use arrow::datatypes::SchemaRef;
use millstream_types::{MaxParallelism, SubtaskId, VertexId};

use crate::graph::{Edge, JobGraph, OperatorId, OutputPort, Partitioning};

/// An edge of a plan, by its position in [`Plan::edges`].
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub struct EdgeId(pub u32);

/// One channel: the part of an edge between two subtasks.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub struct ChannelId {
    /// The edge.
    pub edge: EdgeId,
    /// Producing subtask's index.
    pub from: u32,
    /// Consuming subtask's index.
    pub to: u32,
}

/// A chain of operators that runs as one task per subtask.
#[derive(Clone, PartialEq, Debug)]
pub struct Vertex {
    /// Its position in [`Plan::vertices`].
    pub id: VertexId,
    /// The chain from head to tail.
    pub operators: Vec<OperatorId>,
    /// Names of the operators, joined by `->`; a source's begins with `Source: `, a sink's with
    /// `Sink: `.
    pub name: String,
    /// Number of subtasks.
    pub parallelism: u32,
    /// Number of key groups.
    pub max_parallelism: MaxParallelism,
    /// See [`crate::OperatorNode::slot_sharing_group`].
    pub slot_sharing_group: String,
}

impl Vertex {
    /// All subtasks in order.
    pub fn subtasks(&self) -> impl Iterator<Item = SubtaskId> + use<> {
        let id = self.id;
        (0..self.parallelism).map(move |index| SubtaskId::new(id, index))
    }
}

/// An edge between vertices.
#[derive(Clone, PartialEq, Debug)]
pub struct VertexEdge {
    /// Its position in [`Plan::edges`].
    pub id: EdgeId,
    /// Producing vertex, and the operator in its chain that produces.
    pub from: VertexId,
    /// The producing operator: the tail of its chain, or any where the port is a side output.
    pub from_operator: OperatorId,
    /// Which of its outputs.
    pub port: OutputPort,
    /// Consuming vertex; the head of its chain consumes.
    pub to: VertexId,
    /// Which input of the head.
    pub input: u32,
    /// How rows are spread.
    pub partitioning: Partitioning,
    /// Schema of the rows.
    pub schema: SchemaRef,
}

impl VertexEdge {
    /// Whether every producer is connected to every consumer.
    pub fn is_all_to_all(&self) -> bool {
        !matches!(self.partitioning, Partitioning::Forward)
    }
}

/// What runs: vertices in topological order and the edges between them.
#[derive(Clone, PartialEq, Debug)]
pub struct Plan {
    /// In topological order.
    pub vertices: Vec<Vertex>,
    /// All edges between vertices.
    pub edges: Vec<VertexEdge>,
}

impl Plan {
    /// The plan of a valid graph. With `chaining` off every operator is a vertex of its own.
    ///
    /// # Panics
    /// If the graph was not [validated](JobGraph::validate).
    pub fn new(graph: &JobGraph, chaining: bool) -> Self {
        let order = graph
            .topological_order()
            .expect("a validated graph has no cycle");
        let mut vertex_of: BTreeMap<OperatorId, usize> = BTreeMap::new();
        let mut chains: Vec<Vec<OperatorId>> = Vec::new();
        for id in order {
            let chained_to = chaining.then(|| chain_target(graph, id)).flatten();
            let vertex = match chained_to {
                Some(input) => vertex_of[&input],
                None => {
                    chains.push(Vec::new());
                    chains.len() - 1
                }
            };
            chains[vertex].push(id);
            vertex_of.insert(id, vertex);
        }
        let vertices: Vec<_> = chains
            .into_iter()
            .enumerate()
            .map(|(index, operators)| vertex(graph, VertexId(index as u32), operators))
            .collect();
        let edges = graph
            .edges
            .iter()
            .filter(|edge| vertex_of[&edge.from] != vertex_of[&edge.to])
            .enumerate()
            .map(|(index, edge)| VertexEdge {
                id: EdgeId(index as u32),
                from: VertexId(vertex_of[&edge.from] as u32),
                from_operator: edge.from,
                port: edge.port,
                to: VertexId(vertex_of[&edge.to] as u32),
                input: edge.input,
                partitioning: edge.partitioning.clone(),
                schema: graph.edge_schema(edge),
            })
            .collect();
        Self { vertices, edges }
    }

    /// The vertex with this id; `None` for an id of another plan.
    pub fn vertex(&self, id: VertexId) -> Option<&Vertex> {
        self.vertices.get(id.0 as usize)
    }

    /// Every subtask in topological order of the vertices.
    pub fn subtasks(&self) -> impl Iterator<Item = SubtaskId> + '_ {
        self.vertices.iter().flat_map(Vertex::subtasks)
    }

    /// Edges that end at this vertex, in order of the head's inputs.
    pub fn inputs_of(&self, id: VertexId) -> Vec<&VertexEdge> {
        let mut edges: Vec<_> = self.edges.iter().filter(|edge| edge.to == id).collect();
        edges.sort_by_key(|edge| (edge.input, edge.id));
        edges
    }

    /// Edges that start at this vertex.
    pub fn outputs_of(&self, id: VertexId) -> impl Iterator<Item = &VertexEdge> {
        self.edges.iter().filter(move |edge| edge.from == id)
    }

    /// The channels into one subtask, grouped by edge in the order of [`Plan::inputs_of`].
    pub fn input_channels(&self, subtask: SubtaskId) -> Vec<ChannelId> {
        let mut channels = Vec::new();
        for edge in self.inputs_of(subtask.vertex) {
            for from in self.connected_upstream(edge, subtask.index) {
                channels.push(ChannelId {
                    edge: edge.id,
                    from,
                    to: subtask.index,
                });
            }
        }
        channels
    }

    /// The channels out of one subtask over one edge, in order of the consuming subtasks.
    pub fn output_channels(&self, edge: &VertexEdge, from: u32) -> Vec<ChannelId> {
        let consumers = self.vertices[edge.to.0 as usize].parallelism;
        let all = if edge.is_all_to_all() {
            0..consumers
        } else {
            from..from + 1
        };
        all.map(|to| ChannelId {
            edge: edge.id,
            from,
            to,
        })
        .collect()
    }

    /// The producing subtasks (by index) that send to subtask `to` over this edge.
    pub fn connected_upstream(&self, edge: &VertexEdge, to: u32) -> std::ops::Range<u32> {
        if edge.is_all_to_all() {
            0..self.vertices[edge.from.0 as usize].parallelism
        } else {
            to..to + 1
        }
    }

    /// Slots the job needs: over all sharing groups, the highest parallelism in each.
    pub fn slots_needed(&self) -> u32 {
        let mut groups: BTreeMap<&str, u32> = BTreeMap::new();
        for vertex in &self.vertices {
            let highest = groups.entry(&vertex.slot_sharing_group).or_default();
            *highest = (*highest).max(vertex.parallelism);
        }
        groups.values().sum()
    }
}

/// The operator that `id` is chained to, if it is.
fn chain_target(graph: &JobGraph, id: OperatorId) -> Option<OperatorId> {
    let inputs = graph.inputs_of(id);
    let [
        Edge {
            from,
            port: OutputPort::Main,
            partitioning: Partitioning::Forward,
            ..
        },
    ] = inputs.as_slice()
    else {
        return None;
    };
    let (upstream, node) = (graph.operator(*from)?, graph.operator(id)?);
    let only_output = graph
        .outputs_of(*from)
        .filter(|edge| edge.port == OutputPort::Main)
        .count();
    (node.chain_with_input
        && only_output == 1
        && upstream.parallelism == node.parallelism
        && upstream.max_parallelism == node.max_parallelism
        && upstream.slot_sharing_group == node.slot_sharing_group)
        .then_some(*from)
}

fn vertex(graph: &JobGraph, id: VertexId, operators: Vec<OperatorId>) -> Vertex {
    let node = |id: OperatorId| graph.operator(id).expect("ids come from this graph");
    let head = node(operators[0]);
    let names: Vec<_> = operators
        .iter()
        .map(|id| {
            let node = node(*id);
            match &node.kind {
                kind if kind.is_source() => format!("Source: {}", node.name),
                kind if kind.is_sink() => format!("Sink: {}", node.name),
                _ => node.name.clone(),
            }
        })
        .collect();
    Vertex {
        id,
        name: names.join(" -> "),
        parallelism: head.parallelism,
        max_parallelism: head.max_parallelism,
        slot_sharing_group: head.slot_sharing_group.clone(),
        operators,
    }
}

#[cfg(test)]
mod tests;
