//! What a cluster decides: when to restart, where to run, which checkpoint counts, and what the tasks
//! of one operator agree on: who reads which split, what a committer commits.
//!
//! Invariants: every decision is a function from (time, event) to actions; every event has an
//! answer, also when it is late, repeated or unknown; nothing is announced before it is durable.
//!
//! Must never depend on: an executor, a clock, a random source, a socket, a file.

pub mod chain;
pub mod checkpoint;
pub mod committer;
pub mod failure;
pub mod job;
pub mod liveness;
mod moment;
pub mod protocol;
pub mod restart;
pub mod restore;
pub mod slots;
pub mod snapshot_types;
pub mod splits;
pub mod topology;

pub use moment::Moment;
