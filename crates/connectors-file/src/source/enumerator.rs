//! Finds the splits of a file source.

use std::path::Path;
use std::sync::Arc;

use millstream_env::fs::Fs;
use millstream_graph::{FileFormat, FileSource};
use millstream_operator::{Discovery, Enumerator, OperatorError, Split};

use super::content::{Packing, check_head};
use super::expand::expand;
use super::parquet;
use super::pin::Pin;
use super::split::FileSplit;

/// A byte order mark belongs to the first line, so the first split holds it whole.
const SPLIT_BYTES_MIN: u64 = 4;

/// Finds the files of a pattern once and cuts them into splits.
///
/// Text and JSON lines are cut into ranges of about `split_bytes`: a line belongs to the range in
/// which its first byte lies. A CSV file is one split: whether a byte in its middle is inside of
/// quotes is known only from its start. A compressed file is one split, too. A
/// Parquet file is cut between row groups.
pub struct FileEnumerator {
    fs: Arc<dyn Fs>,
    config: FileSource,
}

impl FileEnumerator {
    /// An enumerator that looks at these files.
    pub fn new(fs: Arc<dyn Fs>, config: FileSource) -> Self {
        Self { fs, config }
    }

    fn packing(&self, path: &Path) -> Option<Packing> {
        Packing::of(self.config.compression, path)
    }

    fn split(&self, path: &Path, pin: Pin, splits: &mut Vec<Split>) {
        let step = match self.config.format {
            FileFormat::Text | FileFormat::JsonLines => {
                self.config.split_bytes.max(SPLIT_BYTES_MIN)
            }
            FileFormat::Csv { .. } | FileFormat::Parquet => u64::MAX,
        };
        let step = match self.packing(path) {
            Some(Packing::Gzip | Packing::Zstd) => u64::MAX,
            None => step,
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
            let (pin, head) = Pin::new(self.fs.as_ref(), &path)?;
            if self.config.format == FileFormat::Parquet {
                let (schema, step) = (&self.config.schema, self.config.split_bytes);
                let of_file = parquet::splits(&self.fs, &path, pin, schema, step)?;
                splits.extend(of_file.iter().map(FileSplit::encode));
                continue;
            }
            check_head(&path, &head, self.packing(&path))?;
            self.split(&path, pin, &mut splits);
        }
        Ok(Discovery {
            splits,
            is_final: true,
        })
    }
}
