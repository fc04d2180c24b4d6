//! The job graph: the one form in which every front end hands a job to the cluster, and the plan
//! that follows from it.
//!
//! Invariants: a [`JobGraph`] that passed [`JobGraph::validate`] is acyclic, its uids are unique,
//! every edge joins operators that exist, and every parallelism fits its maximum. A [`Plan`] is a
//! pure function of a valid graph.
//!
//! Must never depend on: a wire format, a configuration format, an executor.

mod graph;
mod operator;
mod plan;
mod validate;

#[cfg(test)]
mod testing;

pub use graph::{Edge, JobGraph, OperatorId, OperatorNode, OutputPort, Partitioning, Setting};
pub use operator::{
    AggregateColumn, AggregateFunction, BadRecordPolicy, Compression, Emit, Fault, FileFormat,
    FileSink, FileSource, GeneratorColumn, GeneratorSource, GeneratorValue, Inject, NamedExpr,
    OperatorCall, OperatorKind, ParquetCompression, SinkFormat,
};
pub use plan::{ChannelId, EdgeId, Plan, Vertex, VertexEdge};
pub use validate::{GraphError, GraphFault, OPERATORS_MAX, SUBTASKS_MAX, dead_letter_schema};
