//! Files as sources and sinks: text lines, JSON lines, CSV, Parquet.
//!
//! Invariants: every record of a file comes once, whatever the splits, the batches and the
//! restores; a file that changes while it is read is an error, never a mix of both contents; a
//! record that cannot be read is never silently a row; a file of a sink is visible only when the
//! checkpoint that promised it is complete, and under a name that is never used twice.
//!
//! Reading blocks for as long as the disk takes for a quarter of a megabyte, or a page of Parquet.
//!
//! Must never depend on: an executor, a clock; on local files other than through `env`.

mod bytes_io;
mod decode;
mod fault;
mod sink;
mod source;

#[cfg(test)]
mod testing;

pub use sink::{FileCommitter, FileSinkWriter, file_sink};
pub use source::{FileEnumerator, FileReader};
