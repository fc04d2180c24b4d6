//! The head of a source task: a reader, polled between barriers.

use std::task::{Poll, Waker};

use bytes::Bytes;
use millstream_coordination::failure::FailureInfo;
use millstream_exchange::Feedback;
use millstream_operator::{Budget, OperatorError, ReaderOutput, Split, SplitReader};
use millstream_types::{CheckpointId, MonoTime};
use tracing::warn;

use super::splits;
use super::{Current, From, Head, Task, Turn};
use crate::counters::{Spent, TaskCounters};
use crate::failure;

const BUDGET: Budget = Budget {
    rows: 8_192,
    bytes: 1 << 20,
};

/// A reader and what its task knows of it.
pub(crate) struct ReaderHead {
    name: String,
    reader: Box<dyn SplitReader>,
    waker: Waker,
    feedback: Feedback,
    is_finished: bool,
    /// Bad records that are counted.
    bad_records: u64,
}

impl ReaderHead {
    /// A reader with the splits it restores and the checkpoint they come from, or the one that is
    /// its own from the start.
    pub(crate) fn open(
        name: String,
        mut reader: Box<dyn SplitReader>,
        waker: Waker,
        (restored, checkpoint): (&[Bytes], Option<CheckpointId>),
        own_split: Option<Split>,
        has_enumerator: bool,
    ) -> Result<Self, FailureInfo> {
        let mut splits =
            splits::decode_all(restored).map_err(|error| failure::of_operator(&name, &error))?;
        splits.extend(own_split);
        let unfinished = splits.len() as u64;
        if !splits.is_empty() {
            reader
                .add_splits(splits)
                .map_err(|error| failure::of_operator(&name, &error))?;
        }
        if !has_enumerator {
            reader.no_more_splits();
        }
        let feedback = Feedback {
            opened: Some((checkpoint, unfinished)),
            finished: 0,
        };
        Ok(Self {
            name,
            reader,
            waker,
            feedback,
            is_finished: false,
            bad_records: 0,
        })
    }

    pub(super) fn feedback(&self) -> Feedback {
        self.feedback
    }

    pub(super) fn no_more_splits(&mut self) {
        self.reader.no_more_splits();
    }

    pub(super) fn add(&mut self, encoded: &Bytes) -> Result<(), FailureInfo> {
        let added: Result<Split, OperatorError> = splits::decode(encoded);
        added
            .and_then(|split| self.reader.add_splits(vec![split]))
            .map_err(|error| failure::of_operator(&self.name, &error))
    }

    /// Counts what the last poll left out. The log has the first one and, at the end, their number:
    /// a file of nothing else must not fill the disk (HND-080).
    fn count_bad_records(&mut self, counters: &TaskCounters) {
        let found = self.reader.bad_records();
        if found == self.bad_records {
            return;
        }
        if self.bad_records == 0 {
            let first = self.reader.first_bad_record().unwrap_or("somewhere");
            warn!(
                first,
                "source {}: bad records are left out or put aside, and counted", self.name
            );
        }
        self.bad_records = found;
        counters.set_bad_records(found);
    }

    fn say_bad_records(&self) {
        if self.bad_records > 0 {
            warn!(
                "source {}: {} bad records were left out or put aside",
                self.name, self.bad_records
            );
        }
    }

    pub(super) fn snapshot(&mut self) -> Result<Vec<Bytes>, FailureInfo> {
        let unfinished = self.reader.snapshot();
        let unfinished = unfinished.map_err(|error| failure::of_operator(&self.name, &error))?;
        Ok(unfinished.iter().map(splits::encode).collect())
    }
}

impl Task {
    pub(super) fn turn_of_reader(&mut self, now: MonoTime) -> Result<Turn, FailureInfo> {
        let Head::Reader(head) = &mut self.head else {
            return Ok(Turn::Wait(Spent::Idle, MonoTime::NEVER));
        };
        if head.is_finished {
            return Ok(Turn::Wait(Spent::Idle, MonoTime::NEVER));
        }
        let polled = head.reader.poll_batch(BUDGET, now, &head.waker);
        head.count_bad_records(&self.counters);
        let output = match polled {
            Poll::Pending => return Ok(Turn::Wait(Spent::Idle, MonoTime::NEVER)),
            Poll::Ready(output) => output.map_err(|e| failure::of_operator(&head.name, &e))?,
        };
        match output {
            ReaderOutput::Batch(batch) => self.begin(batch, false),
            ReaderOutput::DeadLetters(batch) => self.begin(batch, true),
            ReaderOutput::SplitFinished(_) => {
                head.feedback.finished += 1;
                self.gate.send_feedback(head.feedback);
            }
            ReaderOutput::WaitUntil(at) => return Ok(Turn::Wait(Spent::Idle, at)),
            ReaderOutput::WaitForSplits => {
                return Ok(Turn::Wait(Spent::Idle, MonoTime::NEVER));
            }
            ReaderOutput::Finished => {
                head.is_finished = true;
                head.say_bad_records();
                self.begin_finish(true);
            }
        }
        Ok(Turn::Worked)
    }

    fn begin(&mut self, batch: millstream_batch::Batch, dead_letter: bool) {
        if batch.num_rows() > 0 {
            self.current = Some(Current {
                batch,
                offset: 0,
                from: From::Source { dead_letter },
            });
        }
    }
}
