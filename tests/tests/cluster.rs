//! A cluster of real processes on the loopback interface: runs, kills, pauses.

#![allow(
    clippy::unwrap_used,
    clippy::disallowed_methods,
    reason = "tests of real processes in real time"
)]

#[path = "cluster/endings.rs"]
mod endings;
#[path = "cluster/fixture.rs"]
mod fixture;
#[path = "cluster/kills.rs"]
mod kills;
#[path = "local/process.rs"]
mod process;
