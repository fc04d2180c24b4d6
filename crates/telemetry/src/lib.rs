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

/// An error with its causes, on one line, outermost first: `what: why: why`; see [`causes`].
pub fn chain(error: &dyn std::error::Error) -> String {
    causes(error).join(": ")
}

/// The texts of an error and of its causes, outermost first. A cause that says nothing that was
/// not said before it is left out: libraries repeat the cause in the text of their error.
pub fn causes(error: &dyn std::error::Error) -> Vec<String> {
    let mut texts = vec![error.to_string()];
    let mut source = error.source();
    while let Some(cause) = source {
        let text = cause.to_string();
        if !texts.iter().any(|before| before.contains(&text)) {
            texts.push(text);
        }
        source = cause.source();
    }
    texts
}

#[cfg(test)]
mod tests;
