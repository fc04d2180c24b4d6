//! The built-in operators: select, filter, flat-map, union and the running aggregates.
//!
//! Invariants: an operator's result does not depend on how its input is cut into slices (but for
//! `emit: batch`, whose rows are by definition one per slice and key); state is touched once per
//! key and slice; nothing is allocated per row on the fixed-width paths.
//!
//! Must never depend on: an executor, an expression engine, I/O.

mod aggregate;
mod columns;
#[cfg(test)]
mod testing;

pub use aggregate::{Aggregate, AggregateSpec};
pub use columns::{Filter, FlatMap, Select, Union};
