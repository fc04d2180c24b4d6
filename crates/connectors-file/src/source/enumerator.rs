//! Finds the splits of a file source.

use std::path::Path;
use std::sync::Arc;

use millstream_env::fs::Fs;
use millstream_graph::{FileFormat, FileSource};
use millstream_operator::{Discovery, Enumerator, OperatorError, Split};

use super::expand::expand;
use super::pin::Pin;
use super::split::FileSplit;

/// A byte order mark belongs to the first line, so the first split holds it whole.
const SPLIT_BYTES_MIN: u64 = 4;

/// Finds the files of a pattern once and cuts them into splits.
///
/// Text and JSON lines are cut into ranges of about `split_bytes`: a line belongs to the range in
/// which its first byte lies. A CSV file is one split: whether a byte in its middle is inside of
/// quotes is known only from its start.
pub struct FileEnumerator {
    fs: Arc<dyn Fs>,
    config: FileSource,
}

impl FileEnumerator {
    /// An enumerator that looks at these files.
    pub fn new(fs: Arc<dyn Fs>, config: FileSource) -> Self {
        Self { fs, config }
    }

    fn split(&self, path: &Path, pin: Pin, splits: &mut Vec<Split>) {
        let step = match self.config.format {
            FileFormat::Text | FileFormat::JsonLines => {
                self.config.split_bytes.max(SPLIT_BYTES_MIN)
            }
            FileFormat::Csv { .. } => u64::MAX,
        };
        let mut start = 0;
        while start < pin.bytes {
            let end = start.saturating_add(step).min(pin.bytes);
            splits.push(FileSplit::new(path, start, end, pin).encode());
            start = end;
        }
    }
}

impl Enumerator for FileEnumerator {
    fn discover(&self) -> Result<Discovery, OperatorError> {
        let mut splits = Vec::new();
        for path in expand(self.fs.as_ref(), &self.config.path)? {
            let pin = Pin::new(self.fs.as_ref(), &path)?;
            self.split(&path, pin, &mut splits);
        }
        Ok(Discovery {
            splits,
            is_final: true,
        })
    }
}
