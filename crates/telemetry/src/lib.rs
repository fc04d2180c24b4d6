//! Logs: field names, the texts operators search for, and their two forms, for people and for
//! machines.
//!
//! Invariants: a record is one line, whatever is in it; no control character reaches a terminal or
//! a collector; texts of the catalogue and their ids never change their meaning.
//!
//! Must never depend on: any crate of ours but `types`. The time of a line is given by the daemon.

pub mod catalog;
pub mod fields;
mod layer;
mod line;
mod passed;
mod ring;
mod setup;

pub use line::{Line, LogFormat, plain, rfc3339};
pub use passed::pass_on;
pub use ring::{LogRing, Page};
pub use setup::{LogConfig, LogError, LogHandle, init, init_child, subscriber};

/// An error with its causes, on one line, outermost first: `what: why: why`. A cause that says
/// nothing its error did not say already is left out.
pub fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        let cause_text = cause.to_string();
        if !text.ends_with(&cause_text) {
            text.push_str(": ");
            text.push_str(&cause_text);
        }
        source = cause.source();
    }
    text
}

#[cfg(test)]
mod tests;
