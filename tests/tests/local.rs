//! `millstream local` as its users run it: real processes, real files, real kills.

#![allow(
    clippy::unwrap_used,
    clippy::disallowed_methods,
    reason = "tests of real processes in real time"
)]

#[path = "local/kills.rs"]
mod kills;
#[path = "local/process.rs"]
mod process;
#[path = "local/words.rs"]
mod words;
