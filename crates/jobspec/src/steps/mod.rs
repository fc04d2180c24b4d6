//! One module per kind of step: checked keys in, operator and columns out.

pub(crate) mod aggregate;
pub(crate) mod generator;
pub(crate) mod inject;
pub(crate) mod named;
pub(crate) mod operators;
pub(crate) mod sink;
pub(crate) mod source;
pub(crate) mod transform;

use std::sync::Arc;

use arrow::datatypes::{Field, Schema, SchemaRef};
use millstream_graph::OperatorKind;

/// What a step does, and the columns of its result; of its input for a sink.
#[derive(Debug)]
pub(crate) struct Built {
    pub(crate) kind: OperatorKind,
    pub(crate) schema: SchemaRef,
}

/// How the rows of an aggregate's input are grouped.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Grouping {
    /// Not at all: one global group.
    None,
    /// By the columns at these positions.
    By(Vec<usize>),
    /// By columns with a fault.
    Unknown,
}

/// Columns that may all be NULL, see the crate's notes.
pub(crate) fn schema(fields: impl IntoIterator<Item = Field>) -> SchemaRef {
    let fields: Vec<Field> = fields
        .into_iter()
        .map(|field| field.with_nullable(true))
        .collect();
    Arc::new(Schema::new(fields))
}
