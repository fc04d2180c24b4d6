//! What an operator, a source, a sink is to the runtime: the seams behind which connectors and
//! operators live.
//!
//! Invariants: an operator sees its [`Context`] and nothing else (no clock, no executor, no I/O);
//! every call happens on the one thread of its task, never concurrently; between two slices the
//! chain is empty.
//!
//! Must never depend on: an executor, a wire format, a connector.

mod error;
mod expression;
mod operator;
mod sink;
mod source;

pub use error::{ErrorKind, OperatorError};
pub use expression::Expression;
pub use operator::{
    Context, Declaration, Emitted, Event, Operator, OperatorInfo, OperatorSnapshot, Progress,
    RestoredState,
};
pub use sink::{CommitFailure, Committable, Committer, RowOutput, SinkWriter, TwoPhaseSink};
pub use source::{Budget, Discovery, Enumerator, ReaderOutput, Split, SplitReader};
