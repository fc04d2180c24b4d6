//! Connectors that need nothing outside: a generator of rows, sinks that print or forget, and a
//! step that misbehaves as told.
//!
//! Invariants: a generated value is a pure function of seed, column and row number, so neither the
//! cut of batches nor a restore changes it; a printed row is one line whatever is in it.
//!
//! Must never depend on: an executor, a real clock, a storage library.

mod generator;
mod inject;
mod print;

#[cfg(test)]
mod testing;

pub use generator::{GeneratorReader, generator_split};
pub use inject::InjectOperator;
pub use print::{BlackholeOperator, PrintOperator};
