//! The logical graph: operators and the edges between them.

use std::fmt;

use arrow::datatypes::SchemaRef;
use millstream_types::{MaxParallelism, OperatorUid};

use crate::operator::OperatorKind;

/// An operator of one graph, by its position in [`JobGraph::operators`].
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub struct OperatorId(pub u32);

impl fmt::Display for OperatorId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.0, f)
    }
}

/// What leaves an operator where: its result, or a side output.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug, Default)]
pub enum OutputPort {
    /// The operator's result.
    #[default]
    Main,
    /// Records that a source could not read, with their position and the reason.
    DeadLetter,
}

/// How the rows of an edge find their destination.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Partitioning {
    /// Subtask i to subtask i. Both sides have the same parallelism.
    Forward,
    /// Batch after batch, round robin.
    Rebalance,
    /// Splits from an enumerator to the reader that each is for.
    Assign,
    /// By key group of these columns of the producer's schema.
    Hash {
        /// Column positions, at least one.
        columns: Vec<usize>,
    },
    /// Every row to every subtask.
    Broadcast,
}

impl Partitioning {
    /// What Flink calls a ship strategy: "FORWARD", "REBALANCE", "ASSIGN", "HASH" or "BROADCAST".
    pub const fn name(&self) -> &'static str {
        match self {
            Self::Forward => "FORWARD",
            Self::Rebalance => "REBALANCE",
            Self::Assign => "ASSIGN",
            Self::Hash { .. } => "HASH",
            Self::Broadcast => "BROADCAST",
        }
    }
}

/// One operator of a job.
#[derive(Clone, PartialEq, Debug)]
pub struct OperatorNode {
    /// Stable identity of its state.
    pub uid: OperatorUid,
    /// Whether the front end made up the uid because the author gave none.
    pub uid_generated: bool,
    /// For people.
    pub name: String,
    /// What it does.
    pub kind: OperatorKind,
    /// Number of subtasks.
    pub parallelism: u32,
    /// Number of key groups.
    pub max_parallelism: MaxParallelism,
    /// Whether the author fixed [`Self::max_parallelism`].
    pub max_parallelism_explicit: bool,
    /// Operators of one group may share a slot, one subtask of each.
    pub slot_sharing_group: String,
    /// Whether it may be chained to the operator in front of it.
    pub chain_with_input: bool,
    /// Schema of the main output; of its input for a sink.
    pub schema: SchemaRef,
}

/// A stream between two operators.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Edge {
    /// The producer.
    pub from: OperatorId,
    /// Which of its outputs.
    pub port: OutputPort,
    /// The consumer.
    pub to: OperatorId,
    /// Which of the consumer's inputs, from 0.
    pub input: u32,
    /// How rows are spread.
    pub partitioning: Partitioning,
}

/// One configuration value of the job, as resolved by the front end.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Setting {
    /// The key in its short form.
    pub key: String,
    /// The value as text.
    pub value: String,
    /// Where it was set: "job", "flag", …
    pub origin: String,
}

/// A whole job.
#[derive(Clone, PartialEq, Debug)]
pub struct JobGraph {
    /// For people.
    pub name: String,
    /// The operators; [`OperatorId`] is the position.
    pub operators: Vec<OperatorNode>,
    /// The streams between them.
    pub edges: Vec<Edge>,
    /// Settings of job scope that were given, sorted by key.
    pub settings: Vec<Setting>,
}

impl JobGraph {
    /// The operator with this id; `None` for an id of another graph.
    pub fn operator(&self, id: OperatorId) -> Option<&OperatorNode> {
        self.operators.get(id.0 as usize)
    }

    /// All ids in order.
    pub fn operator_ids(&self) -> impl Iterator<Item = OperatorId> + use<> {
        (0..self.operators.len() as u32).map(OperatorId)
    }

    /// Edges that end at `id`, in the order of the consumer's inputs.
    pub fn inputs_of(&self, id: OperatorId) -> Vec<&Edge> {
        let mut edges: Vec<_> = self.edges.iter().filter(|edge| edge.to == id).collect();
        edges.sort_by_key(|edge| edge.input);
        edges
    }

    /// Edges that start at `id`.
    pub fn outputs_of(&self, id: OperatorId) -> impl Iterator<Item = &Edge> {
        self.edges.iter().filter(move |edge| edge.from == id)
    }

    /// The value of a setting, if the job gave one.
    pub fn setting(&self, key: &str) -> Option<&str> {
        self.settings
            .iter()
            .find(|setting| setting.key == key)
            .map(|setting| setting.value.as_str())
    }
}
