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
