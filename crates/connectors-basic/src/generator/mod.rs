//! The generator source: rows made up from a seed.

mod pace;
mod position;
mod values;

use std::task::{Poll, Waker};

use millstream_batch::Batch;
use millstream_graph::GeneratorSource;
use millstream_operator::{Budget, ErrorKind, OperatorError, ReaderOutput, Split, SplitReader};
use millstream_types::MonoTime;

use arrow::datatypes::SchemaRef;

use pace::Pace;
use position::Position;
pub use position::generator_split;
use values::Columns;

/// Reads splits of a generator. A split is a residue class of row numbers with the position in it,
/// so the same rows come whatever parallelism the splits are restored with.
///
/// A fresh job adds [`generator_split`] of each subtask; a restored one adds what its checkpoint
/// holds.
pub struct GeneratorReader {
    columns: Columns,
    rows: Option<u64>,
    rate: Option<f64>,
    /// None before the first poll: the schedule counts from there.
    pace: Option<Pace>,
    splits: Vec<Position>,
    no_more_splits: bool,
}

impl GeneratorReader {
    /// A reader without splits, for rows of this schema.
    ///
    /// # Errors
    /// If the schema is not the configuration's, or a range is empty.
    pub fn new(config: &GeneratorSource, schema: SchemaRef) -> Result<Self, OperatorError> {
        if let Some(rate) = config.rate
            && !(rate.is_finite() && rate > 0.0)
        {
            let what = format!("a generator's rate is {rate} rows a second");
            return Err(OperatorError::new(ErrorKind::Internal, what)
                .with_remedy("give a rate above 0, or none for as fast as possible"));
        }
        Ok(Self {
            columns: Columns::new(config, schema)?,
            rows: config.rows,
            rate: config.rate,
            pace: None,
            splits: Vec::new(),
            no_more_splits: false,
        })
    }

    /// The split that is furthest behind: several splits (after a restore with fewer subtasks)
    /// advance together.
    fn next_split(&self) -> Option<usize> {
        let positions = self.splits.iter().enumerate();
        positions
            .min_by_key(|(_, split)| split.next)
            .map(|(i, _)| i)
    }

    fn rows_wanted(&self, budget: Budget) -> u64 {
        let by_bytes = (budget.bytes / self.columns.row_bytes()).max(1);
        budget.rows.clamp(1, by_bytes) as u64
    }
}

impl SplitReader for GeneratorReader {
    fn add_splits(&mut self, splits: Vec<Split>) -> Result<(), OperatorError> {
        for split in &splits {
            self.splits.push(Position::decode(split)?);
        }
        // The schedule counts from the furthest behind position: it has to know all of them.
        self.pace = None;
        Ok(())
    }

    fn no_more_splits(&mut self) {
        self.no_more_splits = true;
    }

    fn poll_batch(
        &mut self,
        budget: Budget,
        now: MonoTime,
        _waker: &Waker,
    ) -> Poll<Result<ReaderOutput, OperatorError>> {
        let Some(index) = self.next_split() else {
            let output = match self.no_more_splits {
                true => ReaderOutput::Finished,
                false => ReaderOutput::WaitForSplits,
            };
            return Poll::Ready(Ok(output));
        };
        let position = self.splits[index];
        let left = position.rows_before(self.rows.unwrap_or(u64::MAX));
        if left == 0 {
            self.splits.remove(index);
            return Poll::Ready(Ok(ReaderOutput::SplitFinished(position.id())));
        }
        let mut count = self.rows_wanted(budget).min(left);
        if let Some(rate) = self.rate {
            let step = position.modulus;
            let pace = self
                .pace
                .get_or_insert_with(|| Pace::new(rate, position.next, now));
            let due = pace.rows_due(position.next, step, now);
            if due == 0 {
                let wake_at = pace.wake_at(position.next, step, left);
                return Poll::Ready(Ok(ReaderOutput::WaitUntil(wake_at)));
            }
            count = count.min(due);
        }
        let batch = self.columns.batch(position.next, position.modulus, count);
        Poll::Ready(batch.map(|records| {
            self.splits[index].next = position.after(count);
            ReaderOutput::Batch(Batch::new(records))
        }))
    }

    fn snapshot(&mut self) -> Result<Vec<Split>, OperatorError> {
        Ok(self.splits.iter().map(Position::encode).collect())
    }
}

#[cfg(test)]
mod tests;
