//! Everything that can be wrong with a graph, found before anything runs.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use millstream_types::{MaxParallelismError, OperatorUid};

use crate::graph::{Edge, JobGraph, OperatorId, OutputPort, Partitioning};
use crate::operator::OperatorKind;

/// Operators of a job at most.
pub const OPERATORS_MAX: usize = 1_000;
/// Subtasks of a job at most, and edges.
pub const SUBTASKS_MAX: u64 = 10_000;
const NAME_BYTES_MAX: usize = 1_024;

/// A graph that is refused, with every fault found.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[error("the job graph is refused: {}", list(.faults))]
pub struct GraphError {
    /// At least one.
    pub faults: Vec<GraphFault>,
}

fn list(faults: &[GraphFault]) -> String {
    faults
        .iter()
        .map(ToString::to_string)
        .collect::<Vec<_>>()
        .join("; ")
}

/// One fault of a graph.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum GraphFault {
    /// No operator at all.
    #[error("the job has no operators: add at least a source and a sink")]
    Empty,
    /// Above a limit.
    #[error("the job has {found} {what}, above the limit of {limit}: split the job")]
    TooMany {
        /// "operators", "subtasks".
        what: &'static str,
        /// How many there are.
        found: u64,
        /// How many may be.
        limit: u64,
    },
    /// A name that cannot be shown.
    #[error("{what} is {bytes} bytes long, above the limit of {limit}: shorten it")]
    NameTooLong {
        /// Whose name.
        what: String,
        /// Its length.
        bytes: usize,
        /// The limit.
        limit: usize,
    },
    /// A name that would steer a terminal, or end a line.
    #[error("{what} is {name:?}, which has a control character: leave it out")]
    NameNotShown {
        /// Whose name.
        what: String,
        /// The name.
        name: String,
    },
    /// Two operators with one identity.
    #[error("uid {uid} is used by {first:?} and {second:?}: every uid must be unique in a job")]
    DuplicateUid {
        /// The uid.
        uid: OperatorUid,
        /// Name of the first operator.
        first: String,
        /// Name of the second.
        second: String,
    },
    /// Parallelism outside its bounds.
    #[error("operator {uid}: parallelism is {found}, outside 1 to {limit}")]
    Parallelism {
        /// The operator.
        uid: OperatorUid,
        /// What was asked for.
        found: u32,
        /// The highest allowed.
        limit: u32,
    },
    /// Parallelism above the number of key groups.
    #[error("operator {uid}: {source}: lower the parallelism or raise pipeline.max-parallelism")]
    MaxParallelism {
        /// The operator.
        uid: OperatorUid,
        /// Both numbers.
        source: MaxParallelismError,
    },
    /// An edge to nowhere.
    #[error("edge {from} to {to} names an operator that does not exist")]
    DanglingEdge {
        /// Producer.
        from: OperatorId,
        /// Consumer.
        to: OperatorId,
    },
    /// The graph runs in a circle.
    #[error("operators {uids:?} form a cycle: a job must be acyclic")]
    Cycle {
        /// Operators on it.
        uids: Vec<OperatorUid>,
    },
    /// Number or kind of the inputs.
    #[error("operator {uid} ({kind}) has {found} inputs, expected {expected}")]
    Inputs {
        /// The operator.
        uid: OperatorUid,
        /// Its kind.
        kind: &'static str,
        /// What it has.
        found: usize,
        /// What it must have.
        expected: &'static str,
    },
    /// A result nobody reads.
    #[error("operator {uid} ({kind}) has no output: add a sink or remove it")]
    NoOutput {
        /// The operator.
        uid: OperatorUid,
        /// Its kind.
        kind: &'static str,
    },
    /// An output that its operator does not have.
    #[error("operator {uid} ({kind}) has no {port:?} output")]
    NoSuchOutput {
        /// The operator.
        uid: OperatorUid,
        /// Its kind.
        kind: &'static str,
        /// The port asked for.
        port: OutputPort,
    },
    /// A forward edge between different parallelisms.
    #[error(
        "forward edge from {from} ({from_parallelism}) to {to} ({to_parallelism}): both need the same parallelism"
    )]
    Forward {
        /// Producer.
        from: OperatorUid,
        /// Its parallelism.
        from_parallelism: u32,
        /// Consumer.
        to: OperatorUid,
        /// Its parallelism.
        to_parallelism: u32,
    },
    /// A key column that is not there.
    #[error(
        "hash edge from {from} names column {column}, but the producer has {columns} columns and at least one key is needed"
    )]
    KeyColumn {
        /// Producer.
        from: OperatorUid,
        /// Column position, or none where no key was given.
        column: String,
        /// How many columns there are.
        columns: usize,
    },
    /// Inputs of a union that differ.
    #[error(
        "union {uid}: input {input} has columns ({found}), input 0 has ({expected}): make them equal with a select"
    )]
    UnionSchema {
        /// The union.
        uid: OperatorUid,
        /// Which input.
        input: u32,
        /// Its columns.
        found: String,
        /// Those of input 0.
        expected: String,
    },
}

impl JobGraph {
    /// Finds every fault. A graph that passes can be planned.
    pub fn validate(&self) -> Result<(), GraphError> {
        let mut faults = Vec::new();
        self.check_sizes(&mut faults);
        self.check_operators(&mut faults);
        let dangling = faults.len();
        self.check_edges(&mut faults);
        if dangling == faults.len() {
            self.check_shape(&mut faults);
        }
        if faults.is_empty() {
            Ok(())
        } else {
            Err(GraphError { faults })
        }
    }

    /// Operators so that every producer comes before its consumers; `None` if there is a cycle.
    pub fn topological_order(&self) -> Option<Vec<OperatorId>> {
        let mut missing: BTreeMap<OperatorId, usize> = self
            .operator_ids()
            .map(|id| (id, self.inputs_of(id).len()))
            .collect();
        let mut ready: BTreeSet<OperatorId> = missing
            .iter()
            .filter(|(_, n)| **n == 0)
            .map(|(id, _)| *id)
            .collect();
        let mut order = Vec::new();
        while let Some(id) = ready.pop_first() {
            order.push(id);
            for edge in self.outputs_of(id) {
                let count = missing.get_mut(&edge.to)?;
                *count -= 1;
                if *count == 0 {
                    ready.insert(edge.to);
                }
            }
        }
        (order.len() == self.operators.len()).then_some(order)
    }

    /// Schema of the rows on an edge.
    pub fn edge_schema(&self, edge: &Edge) -> SchemaRef {
        match edge.port {
            OutputPort::Main => match self.operator(edge.from) {
                Some(node) => Arc::clone(&node.schema),
                None => Arc::new(Schema::empty()),
            },
            OutputPort::DeadLetter => dead_letter_schema(),
        }
    }

    fn check_sizes(&self, faults: &mut Vec<GraphFault>) {
        if self.operators.is_empty() {
            faults.push(GraphFault::Empty);
        }
        let subtasks: u64 = self
            .operators
            .iter()
            .map(|node| u64::from(node.parallelism))
            .sum();
        let sizes = [
            (
                "operators",
                self.operators.len() as u64,
                OPERATORS_MAX as u64,
            ),
            ("edges", self.edges.len() as u64, SUBTASKS_MAX),
            ("subtasks", subtasks, SUBTASKS_MAX),
        ];
        for (what, found, limit) in sizes {
            if found > limit {
                faults.push(GraphFault::TooMany { what, found, limit });
            }
        }
        let names = self
            .operators
            .iter()
            .map(|node| (format!("name of {}", node.uid), &node.name));
        for (what, name) in names.chain([("the job's name".to_owned(), &self.name)]) {
            if name.len() > NAME_BYTES_MAX {
                let (bytes, limit) = (name.len(), NAME_BYTES_MAX);
                faults.push(GraphFault::NameTooLong { what, bytes, limit });
            } else if name.contains(char::is_control) {
                let name = name.clone();
                faults.push(GraphFault::NameNotShown { what, name });
            }
        }
    }

    fn check_operators(&self, faults: &mut Vec<GraphFault>) {
        let mut seen: BTreeMap<&OperatorUid, &str> = BTreeMap::new();
        for node in &self.operators {
            let uid = node.uid.clone();
            if let Some(first) = seen.insert(&node.uid, &node.name) {
                let (first, second) = (first.to_owned(), node.name.clone());
                faults.push(GraphFault::DuplicateUid {
                    uid: uid.clone(),
                    first,
                    second,
                });
            }
            let limit = match node.kind {
                OperatorKind::FileEnumerator(_) => 1,
                _ => SUBTASKS_MAX as u32,
            };
            if node.parallelism == 0 || node.parallelism > limit {
                let found = node.parallelism;
                faults.push(GraphFault::Parallelism { uid, found, limit });
            } else if let Err(source) = node.max_parallelism.check(node.parallelism) {
                faults.push(GraphFault::MaxParallelism { uid, source });
            }
        }
    }

    fn check_edges(&self, faults: &mut Vec<GraphFault>) {
        for edge in &self.edges {
            let (Some(from), Some(to)) = (self.operator(edge.from), self.operator(edge.to)) else {
                faults.push(GraphFault::DanglingEdge {
                    from: edge.from,
                    to: edge.to,
                });
                continue;
            };
            let is_file_source = matches!(from.kind, OperatorKind::FileSource(_));
            if from.kind.is_sink() || (edge.port == OutputPort::DeadLetter && !is_file_source) {
                let (uid, kind) = (from.uid.clone(), from.kind.label());
                faults.push(GraphFault::NoSuchOutput {
                    uid,
                    kind,
                    port: edge.port,
                });
            }
            match &edge.partitioning {
                Partitioning::Forward if from.parallelism != to.parallelism => {
                    faults.push(GraphFault::Forward {
                        from: from.uid.clone(),
                        from_parallelism: from.parallelism,
                        to: to.uid.clone(),
                        to_parallelism: to.parallelism,
                    });
                }
                Partitioning::Hash { columns } => {
                    let count = from.schema.fields().len();
                    let bad = columns.iter().find(|column| **column >= count);
                    if bad.is_some() || columns.is_empty() {
                        let column = bad.map_or("none".to_owned(), ToString::to_string);
                        let from = from.uid.clone();
                        faults.push(GraphFault::KeyColumn {
                            from,
                            column,
                            columns: count,
                        });
                    }
                }
                Partitioning::Forward
                | Partitioning::Rebalance
                | Partitioning::Assign
                | Partitioning::Broadcast => {}
            }
        }
    }

    fn check_shape(&self, faults: &mut Vec<GraphFault>) {
        match self.topological_order() {
            Some(_) => {}
            None => {
                let uids = self
                    .operators
                    .iter()
                    .map(|node| node.uid.clone())
                    .take(20)
                    .collect();
                faults.push(GraphFault::Cycle { uids });
            }
        }
        for (id, node) in self.operator_ids().zip(&self.operators) {
            let inputs = self.inputs_of(id);
            let (fits, expected) = match &node.kind {
                OperatorKind::FileEnumerator(_) | OperatorKind::Generator(_) => {
                    (inputs.is_empty(), "none")
                }
                OperatorKind::FileSource(_) => (
                    inputs.len() == 1 && inputs[0].partitioning == Partitioning::Assign,
                    "one, from its enumerator",
                ),
                OperatorKind::Union => (inputs.len() >= 2, "two or more"),
                _ => (inputs.len() == 1, "one"),
            };
            let numbered = inputs
                .iter()
                .enumerate()
                .all(|(i, edge)| edge.input == i as u32);
            let (uid, kind) = (node.uid.clone(), node.kind.label());
            if !fits || !numbered {
                let found = inputs.len();
                faults.push(GraphFault::Inputs {
                    uid: uid.clone(),
                    kind,
                    found,
                    expected,
                });
            }
            if !node.kind.is_sink() && self.outputs_of(id).next().is_none() {
                faults.push(GraphFault::NoOutput { uid, kind });
            }
            if node.kind == OperatorKind::Union {
                self.check_union(&node.uid, &inputs, faults);
            }
        }
    }

    fn check_union(&self, uid: &OperatorUid, inputs: &[&Edge], faults: &mut Vec<GraphFault>) {
        let columns = |edge: &Edge| {
            let schema = self.edge_schema(edge);
            let column = |field: &Arc<Field>| format!("{} {}", field.name(), field.data_type());
            schema
                .fields()
                .iter()
                .map(column)
                .collect::<Vec<_>>()
                .join(", ")
        };
        let Some(first) = inputs.first() else { return };
        let expected = columns(first);
        for edge in &inputs[1..] {
            let found = columns(edge);
            if found != expected {
                faults.push(GraphFault::UnionSchema {
                    uid: uid.clone(),
                    input: edge.input,
                    found,
                    expected: expected.clone(),
                });
            }
        }
    }
}

/// Columns of a source's dead-letter output.
pub fn dead_letter_schema() -> SchemaRef {
    let text = |name| Field::new(name, DataType::Utf8, true);
    let number = |name| Field::new(name, DataType::Int64, true);
    Arc::new(Schema::new(vec![
        text("source"),
        text("file"),
        number("line"),
        number("column"),
        text("error"),
        text("record"),
    ]))
}

#[cfg(test)]
mod tests;
