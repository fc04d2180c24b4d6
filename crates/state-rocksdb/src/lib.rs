//! Keyed state larger than memory: three layers over RocksDB.
//!
//! Its one job: be a [`KeyedStateBackend`](millstream_state::KeyedStateBackend) whose lowest layer
//! is a database on the local disk. Nobody else names RocksDB.
//!
//! Invariants:
//! - The database is written by draining dirty maps only: by the thread of a snapshot, or by the
//!   task when its map is full and nothing is frozen. What is written after a barrier reaches it
//!   only once the snapshot of that barrier has its view.
//! - There is no write-ahead log and nothing is flushed for safety's sake: the database is working
//!   memory of one attempt, and what must survive is in a checkpoint. A database is never opened
//!   twice.
//! - Dirty maps, block cache and write buffers come out of one budget, [`RocksMemory`].
//! - A snapshot is the canonical file, whose bytes do not depend on the backend. It is read from a
//!   view of the database that later writes cannot reach. Or it is the files of a completed
//!   checkpoint and behind them what was drained since, noted on its way into the database.
//!
//! Must never depend on: an executor, a clock, the store that checkpoints go to.

mod backend;
mod base;
mod directory;
mod error;
mod ingest;
mod journal;
mod ledger;
mod memory;
#[cfg(test)]
mod tests;

pub use backend::{RocksBackend, SnapshotForm};
pub use directory::{StateDirectory, sweep};
pub use memory::{RocksMemory, RocksMemoryUsage};
