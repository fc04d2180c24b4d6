//! Rows in flight and the kernels over them: batches, keys, grouping by key, partitioning.
//!
//! Invariants: a byte count is of the slice, never of a shared buffer's capacity; equal keys have
//! equal bytes whatever front end and column width they came from, different keys never do; kernels
//! keep the order of rows, allocate nothing per row and hash a key once.
//!
//! Must never depend on: an executor, a clock, I/O, another crate's hash or row format.

mod batch;
pub mod group;
pub mod key;
pub mod partition;
mod size;

pub use batch::{Batch, BatchError, RowKind};
pub use group::{Grouper, Groups};
pub use key::{KeyBuffer, KeyCodec, KeyError};
pub use partition::Partitions;
