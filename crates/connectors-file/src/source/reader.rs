//! The reader of a file source: splits one after another.

use std::collections::VecDeque;
use std::sync::Arc;
use std::task::{Poll, Waker};

use millstream_env::fs::Fs;
use millstream_graph::{FileFormat, FileSource};
use millstream_operator::{Budget, OperatorError, ReaderOutput, Split, SplitReader};
use millstream_types::MonoTime;

use super::bad::BadRecords;
use super::parquet::ParquetProgress;
use super::progress::Progress;
use super::split::FileSplit;

/// Reads splits that a [`FileEnumerator`](super::FileEnumerator) found.
///
/// A poll reads a bounded part of a file; a batch holds rows of one split. A restored reader goes on
/// behind the last record that was handed out.
pub struct FileReader {
    fs: Arc<dyn Fs>,
    config: FileSource,
    /// Names the source in dead letters.
    name: String,
    waiting: VecDeque<FileSplit>,
    current: Option<Current>,
    no_more_splits: bool,
    bad_records: BadRecords,
}

/// The split that is being read.
enum Current {
    Records(Box<Progress>),
    Parquet(Box<ParquetProgress>),
}

impl FileReader {
    /// A reader without splits. `name` is the source's, for dead letters.
    pub fn new(fs: Arc<dyn Fs>, config: FileSource, name: impl Into<String>) -> Self {
        Self {
            fs,
            config,
            name: name.into(),
            waiting: VecDeque::new(),
            current: None,
            no_more_splits: false,
            bad_records: BadRecords::default(),
        }
    }

    /// The next output; `None` if nothing was found so far.
    fn step(&mut self, budget: Budget) -> Result<Option<ReaderOutput>, OperatorError> {
        if self.current.is_none() {
            let Some(split) = self.waiting.front() else {
                return Ok(Some(match self.no_more_splits {
                    true => ReaderOutput::Finished,
                    false => ReaderOutput::WaitForSplits,
                }));
            };
            let (fs, config, split) = (&self.fs, &self.config, split.clone());
            self.current = Some(match config.format {
                FileFormat::Text | FileFormat::JsonLines | FileFormat::Csv { .. } => {
                    let opened = Progress::open(fs, config, &self.name, split)?;
                    Current::Records(Box::new(opened))
                }
                FileFormat::Parquet => {
                    let opened = ParquetProgress::open(fs, config, split)?;
                    Current::Parquet(Box::new(opened))
                }
            });
            self.waiting.pop_front();
        }
        let current = self.current.as_mut().expect("it was just opened");
        let output = match current {
            Current::Records(records) => records.step(budget, &mut self.bad_records)?,
            Current::Parquet(rows) => rows.step(budget)?,
        };
        if let Some(ReaderOutput::SplitFinished(_)) = output {
            self.current = None;
        }
        Ok(output)
    }
}

impl SplitReader for FileReader {
    fn add_splits(&mut self, splits: Vec<Split>) -> Result<(), OperatorError> {
        for split in &splits {
            self.waiting.push_back(FileSplit::decode(split)?);
        }
        Ok(())
    }

    fn no_more_splits(&mut self) {
        self.no_more_splits = true;
    }

    fn poll_batch(
        &mut self,
        budget: Budget,
        _now: MonoTime,
        waker: &Waker,
    ) -> Poll<Result<ReaderOutput, OperatorError>> {
        match self.step(budget) {
            Ok(Some(output)) => Poll::Ready(Ok(output)),
            Ok(None) => {
                // There is more to read: the task looks at control in between.
                waker.wake_by_ref();
                Poll::Pending
            }
            Err(error) => Poll::Ready(Err(error)),
        }
    }

    fn snapshot(&mut self) -> Result<Vec<Split>, OperatorError> {
        let current = self.current.iter().map(|current| match current {
            Current::Records(records) => records.split(),
            Current::Parquet(rows) => rows.split(),
        });
        Ok(current
            .chain(&self.waiting)
            .map(FileSplit::encode)
            .collect())
    }

    fn bad_records(&self) -> u64 {
        self.bad_records.n
    }

    fn first_bad_record(&self) -> Option<&str> {
        self.bad_records.first.as_deref()
    }
}
