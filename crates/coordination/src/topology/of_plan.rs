//! The topology of a job graph's plan.

use millstream_graph::{JobGraph, Partitioning, Plan};

use super::{Connection, Topology, TopologyError, TopologyInput, TopologyVertex};

impl Topology {
    /// What decisions need of this plan of this graph. All subtasks are one region for now: the
    /// plan's regions begin to count when surviving tasks can adopt a new epoch.
    pub fn of_plan(graph: &JobGraph, plan: &Plan) -> Result<Self, TopologyError> {
        let vertices = plan.vertices.iter().map(|vertex| {
            let nodes = vertex.operators.iter().filter_map(|id| graph.operator(*id));
            let inputs = plan
                .inputs_of(vertex.id)
                .into_iter()
                .map(|edge| TopologyInput {
                    from: edge.from,
                    connection: match edge.partitioning {
                        Partitioning::Forward => Connection::Pointwise,
                        Partitioning::Rebalance
                        | Partitioning::Assign
                        | Partitioning::Hash { .. }
                        | Partitioning::Broadcast => Connection::AllToAll,
                    },
                });
            TopologyVertex {
                id: vertex.id,
                name: vertex.name.clone(),
                operators: nodes.map(|node| node.uid.clone()).collect(),
                parallelism: vertex.parallelism,
                max_parallelism: vertex.max_parallelism,
                slot_sharing_group: vertex.slot_sharing_group.clone(),
                inputs: inputs.collect(),
            }
        });
        Self::new(vertices.collect())
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow::datatypes::Schema;
    use millstream_graph::{Edge, OperatorId, OperatorKind, OperatorNode, OutputPort};
    use millstream_types::{MaxParallelism, OperatorUid, SubtaskId, VertexId};

    use super::*;

    fn node(uid: &str, chain_with_input: bool) -> OperatorNode {
        OperatorNode {
            uid: OperatorUid::new(uid).unwrap(),
            uid_generated: false,
            name: uid.to_owned(),
            kind: OperatorKind::Union,
            parallelism: 2,
            max_parallelism: MaxParallelism::derived(2),
            max_parallelism_explicit: false,
            slot_sharing_group: "default".to_owned(),
            chain_with_input,
            schema: Arc::new(Schema::empty()),
        }
    }

    #[test]
    fn chains_become_vertices_with_all_their_operators_and_forward_edges_are_pointwise() {
        let edge = |from, to, partitioning| Edge {
            from: OperatorId(from),
            port: OutputPort::Main,
            to: OperatorId(to),
            input: 0,
            partitioning,
        };
        let graph = JobGraph {
            name: "test".to_owned(),
            operators: vec![
                node("a", true),
                node("b", true),
                node("c", false),
                node("d", true),
            ],
            edges: vec![
                edge(0, 1, Partitioning::Forward),
                edge(1, 2, Partitioning::Forward),
                edge(2, 3, Partitioning::Broadcast),
            ],
            settings: Vec::new(),
        };
        let topology = Topology::of_plan(&graph, &Plan::new(&graph, true)).unwrap();
        let uids: Vec<Vec<&str>> = topology
            .vertices()
            .iter()
            .map(|vertex| vertex.operators.iter().map(OperatorUid::as_str).collect())
            .collect();
        assert_eq!(uids, [vec!["a", "b"], vec!["c"], vec!["d"]]);
        let upstream = |vertex| {
            topology
                .upstream_of(SubtaskId::new(VertexId(vertex), 1))
                .len()
        };
        assert_eq!((upstream(0), upstream(1), upstream(2)), (0, 1, 2));
    }
}
