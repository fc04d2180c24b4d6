//! The life of one job and its failover (B8, B9).
//!
//! Every start, the first as any other, goes the same way: CLAIM on the chain, slots, one more look at
//! the chain if they took a while, deployment.
//! A failure opens a *wave*: the affected tasks are cancelled while the restart strategy's delay
//! runs; when both are over the job starts again. Failures that reach an open wave belong to it
//! and are not counted again.
//!
//! Invariants: nothing is deployed under an epoch that was not claimed; no end is announced before
//! its TERMINAL entry is durable (fence F16); after a cancel was accepted no task is deployed any
//! more; a stuck task holds nothing up for longer than the cancellation interval.

mod ending;
mod failover;
mod history;
mod machine;
mod messages;
mod start;
mod state;

#[cfg(test)]
mod tests;

pub use history::{FailureHistory, HistoryEntry};
pub use machine::{Job, JobConfig};
pub use messages::{Action, ClaimRefusal, Event, JobEnd, ReportedTask};
pub use state::{Execution, ExecutionState, JobStatus};
