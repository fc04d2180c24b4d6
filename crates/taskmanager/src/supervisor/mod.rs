//! What a taskmanager decides: whom it listens to, which job processes run, when they have to end.
//!
//! Invariants: at most one process per job; a newer epoch starts in it only when no task of an
//! older one runs, else after it was killed and reaped (fence F7); what a killed process says late
//! counts for nothing; an abandoned slot is reported free only when nothing can run in it; tasks
//! outlive the connection to the jobmanager, but not its heartbeat timeout.

mod connection;
mod machine;
mod messages;
mod process;
mod reports;
mod requests;
#[cfg(test)]
mod tests;

pub use machine::{Supervisor, SupervisorConfig};
pub use messages::{Action, Event, KillReason, Notice, ProcessEvent, ProcessId};
