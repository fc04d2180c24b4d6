//! The file sink: files that nobody sees until the checkpoint that promised them is complete.
//!
//! While it is written a file lies in `<path>/.staging/<job>/`. Committing links it to its final
//! name in `<path>` and removes the staging name. A final name is
//! `part-<uid>-<subtask>-<checkpoint>-<nonce>-<sequence>.<ending>`: sorted, a subtask's files are in
//! the order in which they were written.

mod committable;
mod committer;
mod encode;
mod names;
mod output;
mod writer;

use std::sync::Arc;

use arrow::datatypes::SchemaRef;
use millstream_env::fs::Fs;
use millstream_graph::FileSink;
use millstream_operator::{OperatorError, TwoPhaseSink};
use millstream_types::JobId;

pub use committer::FileCommitter;
pub use writer::FileSinkWriter;

/// Both halves of a file sink of this job for rows of this schema.
///
/// # Errors
/// If the format has no form for a column.
pub fn file_sink(
    fs: &Arc<dyn Fs>,
    config: &FileSink,
    schema: &SchemaRef,
    job: JobId,
) -> Result<TwoPhaseSink, OperatorError> {
    let writer = FileSinkWriter::new(Arc::clone(fs), config.clone(), schema, job)?;
    Ok(TwoPhaseSink {
        writer: Box::new(writer),
        committer: Arc::new(FileCommitter::new(Arc::clone(fs), config.clone(), job)),
    })
}

#[cfg(test)]
mod tests;
