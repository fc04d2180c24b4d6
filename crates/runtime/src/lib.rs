//! Runs the subtasks of one job on one taskmanager: tasks, channels between them, snapshots,
//! restores.
//!
//! Invariants: a task is one future on one thread; between two slices its chain is empty; control
//! is looked at between slices; nothing written after a barrier is in that barrier's snapshot; a
//! snapshot is acknowledged when all of it is durable and not before.
//!
//! Must never depend on: gRPC, the jobmanager, a job file.

mod activity;
mod chain;
mod channel;
mod counters;
mod factory;
mod failure;
mod gate;
mod job_process;
mod log;
mod output;
mod restore;
mod signal;
mod snapshot;
mod task;
mod two_phase;

#[cfg(test)]
mod tests;

pub use activity::{Activity, ActivityReport, UploadReport};
pub use channel::{ReceiverEnd, ReleaseCredit, SenderEnd, channel};
pub use counters::{TaskCounters, TaskCounts};
pub use job_process::{JobProcess, JobProcessSettings, RemoteChannels, TASKS_MAX, Uplink};
pub use signal::Signal;
