//! SQL expressions over the columns of a batch.
//!
//! One job: text and a schema become a [`Compiled`] expression, or an [`ExprError`] that says where
//! in the text and what to write instead. This is the only crate that names DataFusion; nobody else
//! sees its types or its messages.
//!
//! What holds behind [`compile`]:
//!
//! - **Deterministic.** The same row gives the same value, today and in a replay after a failure.
//!   Functions of the clock, of chance or of the session (`now()`, `random()`, `uuid()`,
//!   `version()`) are refused.
//! - **Row by row.** A row's outcome does not depend on the rows it shares a batch with. `a <> 0
//!   AND b / a > 1` never divides by zero, however the batches are cut: the right side of AND, OR,
//!   and the branches of CASE and COALESCE count only for the rows that need them.
//! - **Checked.** Integer and decimal overflow, narrowing casts that do not fit, and integer
//!   division by zero are errors that name the row, never wrapped values. Floating point follows
//!   IEEE 754: `1 / x` is infinite for a DOUBLE `x` of zero. `TRY_CAST` gives NULL where `CAST` fails.
//! - **Typed.** Numbers widen to the common type of both sides (INT with BIGINT gives BIGINT,
//!   integers with DECIMAL give DECIMAL, anything with DOUBLE gives DOUBLE). A literal with a
//!   point, such as `0.1`, is an exact DECIMAL. Text and numbers are never compared with, nor added
//!   to, each other without a CAST; a text *literal* is read as a date, time or interval where it
//!   meets one. `||` writes its operands as text.
//! - **Bounded.** Text of at most 256 KiB, nesting of at most 128, regular expressions that are
//!   literals and run in linear time, growth functions such as `repeat` with a small literal count.
//!
//! Column names are matched as written, with or without double quotes; function names in any case.
//! Text is lower-cased as a whole (`Σ` at the end of a word becomes `ς`), by the Unicode tables of
//! the Rust standard library, whatever the machine's locale is.

mod aggregate;
mod catalog;
mod check;
mod checked;
mod compiled;
mod error;
mod excerpt;
mod growth;
mod lazy;
mod limits;
mod parse;
mod pattern;
mod plan;
mod rules;
mod split;
mod translate;
mod types;
mod widen;

use std::sync::Arc;

use arrow::datatypes::SchemaRef;

pub use aggregate::{AggregateCall, AggregateFunction};
pub use catalog::{FunctionDoc, functions};
pub use compiled::{Compiled, Predicate};
pub use error::{ErrorKind, EvalError, EvalFault, ExprError};
pub use excerpt::{Position, Span};
pub use limits::{MAX_DEPTH, MAX_LENGTH_BYTES};
pub use types::sql_name;

/// Compiles one scalar SQL expression against the columns of `schema`.
///
/// Everything that can be found without data is found here: unknown names, types that do not fit,
/// patterns that do not parse, constants that always fail.
pub fn compile(text: &str, schema: &SchemaRef) -> Result<Compiled, ExprError> {
    limits::guarded(text, |tokens| {
        let ast = parse::expression(tokens, text)?;
        compile_ast(&ast, text, schema)
    })
}

/// Compiles a condition: as [`compile`], and its type must be BOOLEAN.
pub fn compile_predicate(text: &str, schema: &SchemaRef) -> Result<Predicate, ExprError> {
    Predicate::new(compile(text, schema)?)
}

/// Reads one aggregate call such as `sum(amount)` or `count(*)`; its argument is any scalar
/// expression.
pub fn parse_aggregate(text: &str, schema: &SchemaRef) -> Result<AggregateCall, ExprError> {
    limits::guarded(text, |tokens| {
        let ast = parse::expression(tokens, text)?;
        aggregate::call(&ast, text, schema)
    })
}

/// Checks, plans and wraps a parsed expression; `text` is what positions refer to.
fn compile_ast(ast: &parse::Ast, text: &str, schema: &SchemaRef) -> Result<Compiled, ExprError> {
    let planner = plan::Planner::new(text, schema)?;
    check::scalar(ast, text, schema)?;
    let physical = planner.plan(ast)?;
    Compiled::new(
        physical,
        Arc::from(text),
        Arc::clone(schema),
        parse::span(ast),
    )
}
