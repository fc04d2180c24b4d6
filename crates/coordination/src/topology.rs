//! The shape of a job as far as decisions need it: vertices, how they are connected, what fails
//! together.

use std::collections::BTreeSet;
use std::fmt;

use millstream_types::{MaxParallelism, OperatorUid, SubtaskId, VertexId};

mod of_plan;

/// How the subtasks of two vertices are joined.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Connection {
    /// Subtask i sends to subtask i alone; both sides have the same parallelism.
    Pointwise,
    /// Every subtask sends to every subtask.
    AllToAll,
}

/// An input of a vertex.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct TopologyInput {
    /// The producing vertex.
    pub from: VertexId,
    /// How its subtasks are joined with ours.
    pub connection: Connection,
}

/// A vertex: a chain of operators that runs as one task per subtask.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct TopologyVertex {
    /// Its id: its position in [`Topology::vertices`].
    pub id: VertexId,
    /// What people call it.
    pub name: String,
    /// The operators whose state it carries, from head to tail.
    pub operators: Vec<OperatorUid>,
    /// Number of subtasks, at least one.
    pub parallelism: u32,
    /// Number of key groups.
    pub max_parallelism: MaxParallelism,
    /// Vertices of one group share slots.
    pub slot_sharing_group: String,
    /// Where its records come from; empty for a source.
    pub inputs: Vec<TopologyInput>,
}

impl TopologyVertex {
    /// Every subtask, in order.
    pub fn subtasks(&self) -> impl Iterator<Item = SubtaskId> + use<> {
        let id = self.id;
        (0..self.parallelism).map(move |index| SubtaskId::new(id, index))
    }
}

/// The vertices of a job in topological order, and its failover regions.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Topology {
    vertices: Vec<TopologyVertex>,
    regions: Vec<BTreeSet<SubtaskId>>,
}

/// Vertices that are no topology.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum TopologyError {
    /// There is none.
    #[error("the job has no vertex")]
    Empty,
    /// The id is not the position.
    #[error("vertex {name:?} has id {found} at position {position}")]
    Id {
        /// Its name.
        name: String,
        /// Its id.
        found: VertexId,
        /// Where it stands.
        position: usize,
    },
    /// No subtask at all.
    #[error("vertex {name:?} has parallelism 0")]
    NoSubtask {
        /// Its name.
        name: String,
    },
    /// An input that does not stand before it.
    #[error("vertex {name:?} takes its input from vertex {from}, which does not stand before it")]
    Order {
        /// Its name.
        name: String,
        /// The input.
        from: VertexId,
    },
    /// A pointwise input of another parallelism.
    #[error(
        "vertex {name:?} is joined pointwise with vertex {from}, which has another parallelism"
    )]
    Pointwise {
        /// Its name.
        name: String,
        /// The input.
        from: VertexId,
    },
}

impl Topology {
    /// Checks order, ids and connections. All subtasks are one failover region.
    pub fn new(vertices: Vec<TopologyVertex>) -> Result<Self, TopologyError> {
        if vertices.is_empty() {
            return Err(TopologyError::Empty);
        }
        for (position, vertex) in vertices.iter().enumerate() {
            check_vertex(&vertices[..position], position, vertex)?;
        }
        let all = vertices.iter().flat_map(TopologyVertex::subtasks).collect();
        Ok(Self {
            vertices,
            regions: vec![all],
        })
    }

    /// The vertices, in topological order.
    pub fn vertices(&self) -> &[TopologyVertex] {
        &self.vertices
    }

    /// The vertex of this id.
    pub fn vertex(&self, id: VertexId) -> Option<&TopologyVertex> {
        self.vertices.get(id.0 as usize)
    }

    /// Every subtask of every vertex, in order.
    pub fn subtasks(&self) -> impl Iterator<Item = SubtaskId> + '_ {
        self.vertices.iter().flat_map(TopologyVertex::subtasks)
    }

    /// Whether there is such a subtask.
    pub fn contains(&self, subtask: SubtaskId) -> bool {
        self.vertex(subtask.vertex)
            .is_some_and(|vertex| subtask.index < vertex.parallelism)
    }

    /// The subtasks that send to this one.
    pub fn upstream_of(&self, subtask: SubtaskId) -> Vec<SubtaskId> {
        let Some(vertex) = self.vertex(subtask.vertex) else {
            return Vec::new();
        };
        let mut upstream = Vec::new();
        for input in &vertex.inputs {
            match input.connection {
                Connection::Pointwise => upstream.push(SubtaskId::new(input.from, subtask.index)),
                Connection::AllToAll => {
                    upstream.extend(self.vertices[input.from.0 as usize].subtasks());
                }
            }
        }
        upstream
    }

    /// What restarts when these subtasks failed: every region that holds one of them (B8.7).
    pub fn restart_set(&self, failed: &BTreeSet<SubtaskId>) -> BTreeSet<SubtaskId> {
        self.regions
            .iter()
            .filter(|region| !region.is_disjoint(failed))
            .flatten()
            .copied()
            .collect()
    }

    /// `name (i/n)`, with i from 1.
    pub fn name_of(&self, subtask: SubtaskId) -> SubtaskName<'_> {
        SubtaskName {
            vertex: self.vertex(subtask.vertex),
            subtask,
        }
    }
}

fn check_vertex(
    before: &[TopologyVertex],
    position: usize,
    vertex: &TopologyVertex,
) -> Result<(), TopologyError> {
    let name = || vertex.name.clone();
    if vertex.id.0 as usize != position {
        return Err(TopologyError::Id {
            name: name(),
            found: vertex.id,
            position,
        });
    }
    if vertex.parallelism == 0 {
        return Err(TopologyError::NoSubtask { name: name() });
    }
    for input in &vertex.inputs {
        let Some(from) = before.get(input.from.0 as usize) else {
            return Err(TopologyError::Order {
                name: name(),
                from: input.from,
            });
        };
        if input.connection == Connection::Pointwise && from.parallelism != vertex.parallelism {
            return Err(TopologyError::Pointwise {
                name: name(),
                from: input.from,
            });
        }
    }
    Ok(())
}

/// Prints `name (i/n)`.
#[derive(Clone, Copy, Debug)]
pub struct SubtaskName<'a> {
    vertex: Option<&'a TopologyVertex>,
    subtask: SubtaskId,
}

impl fmt::Display for SubtaskName<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.vertex {
            Some(vertex) => write!(
                f,
                "{} ({}/{})",
                vertex.name,
                u64::from(self.subtask.index) + 1,
                vertex.parallelism
            ),
            None => write!(f, "{}", self.subtask),
        }
    }
}

#[cfg(test)]
pub(crate) mod testing {
    //! Topologies for the tests of this crate.
    use super::*;

    /// A vertex named by its parallelism and inputs.
    pub(crate) fn vertex(
        id: u32,
        name: &str,
        parallelism: u32,
        inputs: &[(u32, Connection)],
    ) -> TopologyVertex {
        TopologyVertex {
            id: VertexId(id),
            name: name.to_owned(),
            operators: vec![OperatorUid::new(&name.replace(' ', "-")).unwrap()],
            parallelism,
            max_parallelism: MaxParallelism::derived(parallelism),
            slot_sharing_group: "default".to_owned(),
            inputs: inputs
                .iter()
                .map(|(from, connection)| TopologyInput {
                    from: VertexId(*from),
                    connection: *connection,
                })
                .collect(),
        }
    }

    /// `source` -> (hash) -> `sink`, both of this parallelism.
    pub(crate) fn source_and_sink(parallelism: u32) -> Topology {
        Topology::new(vec![
            vertex(0, "source", parallelism, &[]),
            vertex(1, "sink", parallelism, &[(0, Connection::AllToAll)]),
        ])
        .unwrap()
    }
}

#[cfg(test)]
mod tests {
    use super::testing::*;
    use super::*;

    #[test]
    fn a_pointwise_subtask_has_one_upstream_and_an_all_to_all_one_has_them_all() {
        let topology = Topology::new(vec![
            vertex(0, "a", 2, &[]),
            vertex(1, "b", 2, &[(0, Connection::Pointwise)]),
            vertex(2, "c", 3, &[(1, Connection::AllToAll)]),
        ])
        .unwrap();
        let subtask = |vertex, index| SubtaskId::new(VertexId(vertex), index);
        assert_eq!(topology.upstream_of(subtask(1, 1)), [subtask(0, 1)]);
        assert_eq!(
            topology.upstream_of(subtask(2, 0)),
            [subtask(1, 0), subtask(1, 1)]
        );
        assert_eq!(topology.upstream_of(subtask(9, 0)), []);
        assert_eq!(topology.name_of(subtask(2, 1)).to_string(), "c (2/3)");
    }

    #[test]
    fn what_is_no_topology_is_refused_by_name() {
        assert_eq!(Topology::new(vec![]), Err(TopologyError::Empty));
        let backwards = vec![
            vertex(0, "a", 1, &[(1, Connection::AllToAll)]),
            vertex(1, "b", 1, &[]),
        ];
        assert!(matches!(
            Topology::new(backwards),
            Err(TopologyError::Order { .. })
        ));
        let uneven = vec![
            vertex(0, "a", 1, &[]),
            vertex(1, "b", 2, &[(0, Connection::Pointwise)]),
        ];
        assert!(matches!(
            Topology::new(uneven),
            Err(TopologyError::Pointwise { .. })
        ));
    }
    #[test]
    fn a_subtask_beyond_its_vertex_or_of_no_vertex_is_not_contained() {
        let topology = source_and_sink(2);
        let contains = |vertex, index| topology.contains(SubtaskId::new(VertexId(vertex), index));
        assert!(contains(0, 1) && contains(1, 0));
        assert!(!contains(1, 2) && !contains(2, 0));
    }

    #[test]
    fn all_subtasks_restart_with_any_of_them_and_none_without() {
        let topology = source_and_sink(2);
        let one = BTreeSet::from([SubtaskId::new(VertexId(1), 1)]);
        assert!(
            topology
                .restart_set(&one)
                .into_iter()
                .eq(topology.subtasks())
        );
        assert!(topology.restart_set(&BTreeSet::new()).is_empty());
    }

    #[test]
    fn a_vertex_is_numbered_by_its_position_and_has_a_subtask() {
        let misplaced = Topology::new(vec![vertex(1, "a", 1, &[])]);
        assert!(matches!(
            misplaced,
            Err(TopologyError::Id { position: 0, .. })
        ));
        let empty = Topology::new(vec![vertex(0, "a", 0, &[])]);
        assert!(matches!(empty, Err(TopologyError::NoSubtask { .. })));
        let uneven = vec![
            vertex(0, "a", 1, &[]),
            vertex(1, "b", 2, &[(0, Connection::AllToAll)]),
            vertex(2, "c", 2, &[(1, Connection::Pointwise)]),
        ];
        assert!(Topology::new(uneven).is_ok());
    }
}
