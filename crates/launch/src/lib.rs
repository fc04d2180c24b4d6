//! What the programs have in common between `main` and their own work: from command line,
//! environment and file to a table of settings, a log, and access to storage.
//!
//! Invariants: a setting comes from the flag, else the environment, else the file, else the
//! default; nothing runs with a configuration that is refused; a secret is read where it is used
//! and never printed.
//!
//! Must never depend on: what a program does afterwards.

mod access;
mod daemon;
mod log;
mod settings;
mod usage;

pub use access::StorageAccess;
pub use daemon::{Daemon, Launched, main};
pub use log::{start_child_log, start_log};
pub use settings::{Arguments, FAIL_POINTS_VARIABLE, LaunchError, table};
pub use usage::usage;
