//! Keyed and operator state: what a backend must do, the in-memory backend, the three layers of
//! working state, and the file that a snapshot is.
//!
//! Invariants:
//! - State is reached a slice at a time: [`StateKeys`] in, [`ValueBuffer`] out.
//! - A key is one byte string, `key group | state | key | namespace | user key`, the same in the
//!   memory maps, in RocksDB and in a snapshot; its byte order is *the* order of scans and
//!   snapshots (see [`keys`](StateKeys)).
//! - Every value starts with the index of its schema, so that no value is ever decoded by a
//!   schema it was not written with.
//! - The synchronous part of a snapshot does not depend on the size of the state; two backends
//!   in the same state write the same bytes ([`format`](mod@format)).
//! - Bytes that came from storage are checked before they are believed, and refused by offset.
//!
//! Must never depend on: an executor, a clock, a random source, files, RocksDB.

mod backend;
mod descriptor;
mod error;
pub mod format;
mod keys;
pub mod layers;
mod map;
mod memory;
mod restore;
mod scan;
mod values;

pub use backend::{
    CheckpointFiles, KeyedStateBackend, Receipt, Sharing, SinkError, SnapshotFiles, SnapshotSink,
    SnapshotSource, SnapshotSummary, SnapshotWork, StateUsage,
};
pub use descriptor::{
    SchemaIndex, StateDescriptor, StateId, StateKind, StateTable, StoredSchema, StoredState,
};
pub use error::StateError;
pub use keys::{KeyParts, MAX_KEY_BYTES, StateKeys};
pub use map::{ShardedMap, SortedEntries};
pub use memory::MemoryBackend;
pub use restore::{RestorePolicy, RestoreSummary, restore_parts};
pub use scan::{Scan, ScanPage, ScanRange};
pub use values::{MAX_VALUE_BYTES, Value, ValueBuffer};
