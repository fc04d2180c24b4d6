//! A taskmanager: offers slots, runs the tasks of each job in a job process, and lets none of them
//! outlive its right to run.
//!
//! Invariants: [`supervisor`] decides and touches nothing; a job process is started, told and
//! killed through one seam, [`host::JobHost`], in threads as in processes; nothing is reported
//! ended before it can do nothing any more; what dies with the taskmanager is all of it.
//!
//! Must never depend on: how a jobmanager decides; a job file; the form of a message.

mod advertise;
mod budget;
mod connect;
pub mod daemon;
mod embedded;
pub mod host;
mod leftovers;
pub mod process;
mod shell;
mod sight;
mod storage;
pub mod supervisor;
#[cfg(test)]
mod testing;

pub use connect::{Connect, ConnectError, ControlConnection};
pub use embedded::{EmbeddedSettings, EmbeddedTaskmanager};
pub use millstream_launch::StorageAccess;
pub use millstream_runtime::TASKS_MAX;
pub use sight::{Found, OtherStorage};
