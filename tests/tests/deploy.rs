//! The compose file without an engine: its services in namespaces, with addresses and volumes of
//! their own. Needs root, or the tests fail and say so.

#![allow(
    clippy::unwrap_used,
    clippy::disallowed_methods,
    reason = "tests of real processes in real time"
)]

#[path = "deploy/compose.rs"]
mod compose;
#[path = "deploy/container.rs"]
mod container;
#[path = "deploy/fixture.rs"]
mod fixture;
#[path = "deploy/image.rs"]
mod image;
#[path = "cluster/job.rs"]
#[expect(dead_code, reason = "the ledger needs some of its steps only")]
mod job;
#[path = "cluster/ledger.rs"]
mod ledger;
#[path = "local/process.rs"]
mod process;
#[path = "deploy/stories.rs"]
mod stories;
