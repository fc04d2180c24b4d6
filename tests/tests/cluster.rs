//! A cluster of real processes on the loopback interface: runs, kills, pauses.

#![allow(
    clippy::unwrap_used,
    clippy::disallowed_methods,
    reason = "tests of real processes in real time"
)]

#[path = "cluster/damage.rs"]
mod damage;
#[path = "cluster/endings.rs"]
mod endings;
#[path = "cluster/exactly_once.rs"]
mod exactly_once;
#[path = "cluster/field_cases.rs"]
mod field_cases;
#[path = "cluster/fixture.rs"]
mod fixture;
#[path = "cluster/hostile.rs"]
mod hostile;
#[path = "cluster/incremental.rs"]
mod incremental;
#[path = "cluster/job.rs"]
mod job;
#[path = "cluster/kills.rs"]
mod kills;
#[path = "cluster/leaving.rs"]
mod leaving;
#[path = "cluster/ledger.rs"]
mod ledger;
#[path = "cluster/logs.rs"]
mod logs;
#[path = "cluster/mistakes/mod.rs"]
mod mistakes;
#[path = "local/process.rs"]
mod process;
#[path = "cluster/python.rs"]
mod python;
#[path = "cluster/rounds.rs"]
mod rounds;
#[path = "cluster/rows.rs"]
mod rows;
#[path = "cluster/s3.rs"]
mod s3;
#[path = "cluster/seaweed.rs"]
mod seaweed;
#[path = "cluster/semantics.rs"]
mod semantics;
#[path = "cluster/settings.rs"]
mod settings;
#[path = "cluster/soak.rs"]
mod soak;
