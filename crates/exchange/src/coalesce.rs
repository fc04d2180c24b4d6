//! Output buffers: small parts for one destination become one batch before they are sent.
//!
//! Each destination has a line of its own. Rows, bytes and the linger time send it; so do barriers,
//! idleness and end marks, which stand in it. A watermark sends nothing: it waits in line, and a
//! newer one replaces it if no row came between.

use std::collections::VecDeque;
use std::time::Duration;

use millstream_batch::{Batch, BatchError};
use millstream_types::{EventTime, MonoTime};

use crate::element::{ChannelStatus, DestinationIndex, Element};

/// When a line is sent.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct CoalesceLimits {
    /// Rows in line.
    pub rows: usize,
    /// Encoded bytes in line; also the size up to which an element is cut.
    pub bytes: usize,
    /// Age of the oldest element in line.
    pub linger: Duration,
}

impl Default for CoalesceLimits {
    fn default() -> Self {
        Self {
            rows: 8_192,
            bytes: 128 * 1024,
            linger: Duration::from_millis(5),
        }
    }
}

/// The output buffers of one edge of one subtask.
#[derive(Debug)]
pub struct Coalescer {
    limits: CoalesceLimits,
    lines: Vec<Line>,
}

#[derive(Debug, Default)]
struct Line {
    waiting: VecDeque<Waiting>,
    rows: usize,
    bytes: usize,
    /// When the oldest element came; meaningless while nothing waits.
    since: MonoTime,
}

#[derive(Debug)]
enum Waiting {
    /// Joined when sent. `sealed`: large enough to be sent as it is.
    Rows {
        batches: Vec<Batch>,
        sealed: bool,
    },
    Watermark(EventTime),
}

impl Coalescer {
    /// Buffers for this many destinations.
    pub fn new(destinations: u32, limits: CoalesceLimits) -> Self {
        let lines = (0..destinations).map(|_| Line::default()).collect();
        Self { limits, lines }
    }

    /// Puts rows in line for a destination; what is due is added to `out`.
    ///
    /// # Errors
    /// If batches of different streams are mixed.
    pub fn push_batch(
        &mut self,
        now: MonoTime,
        to: DestinationIndex,
        batch: Batch,
        out: &mut Vec<(DestinationIndex, Element)>,
    ) -> Result<(), BatchError> {
        if batch.is_empty() {
            return Ok(());
        }
        let limits = self.limits;
        let line = &mut self.lines[to.0 as usize];
        line.touch(now);
        line.add_cut(batch, limits);
        if line.rows >= limits.rows || line.bytes >= limits.bytes {
            line.send(to, out)?;
        }
        Ok(())
    }

    /// Puts a watermark in every line. It leaves with what is sent next, or after the linger time.
    pub fn push_watermark(&mut self, now: MonoTime, watermark: EventTime) {
        for line in &mut self.lines {
            line.touch(now);
            match line.waiting.back_mut() {
                Some(Waiting::Watermark(older)) => *older = watermark.max(*older),
                Some(Waiting::Rows { .. }) | None => {
                    line.waiting.push_back(Waiting::Watermark(watermark));
                }
            }
        }
    }

    /// Sends every line and this mark behind it: barrier, status, end of data or of partition. A
    /// channel that becomes active is no reason to wait either.
    pub fn push_mark(
        &mut self,
        mark: &Element,
        out: &mut Vec<(DestinationIndex, Element)>,
    ) -> Result<(), BatchError> {
        self.flush(out)?;
        out.extend(self.destinations().map(|to| (to, mark.clone())));
        Ok(())
    }

    /// The subtask went idle or came back: sends every line and the status behind it.
    pub fn push_status(
        &mut self,
        status: ChannelStatus,
        out: &mut Vec<(DestinationIndex, Element)>,
    ) -> Result<(), BatchError> {
        self.push_mark(&Element::Status(status), out)
    }

    /// Sends the lines whose oldest element is as old as the linger time.
    pub fn on_time(
        &mut self,
        now: MonoTime,
        out: &mut Vec<(DestinationIndex, Element)>,
    ) -> Result<(), BatchError> {
        let linger = self.limits.linger;
        for (to, line) in (0..).map(DestinationIndex).zip(&mut self.lines) {
            if !line.waiting.is_empty() && line.since + linger <= now {
                line.send(to, out)?;
            }
        }
        Ok(())
    }

    /// Sends every line.
    pub fn flush(&mut self, out: &mut Vec<(DestinationIndex, Element)>) -> Result<(), BatchError> {
        for (to, line) in (0..).map(DestinationIndex).zip(&mut self.lines) {
            line.send(to, out)?;
        }
        Ok(())
    }

    /// When [`Self::on_time`] is due next.
    pub fn deadline(&self) -> MonoTime {
        let waiting = self.lines.iter().filter(|line| !line.waiting.is_empty());
        let due = waiting.map(|line| line.since + self.limits.linger);
        due.min().unwrap_or(MonoTime::NEVER)
    }

    /// Encoded bytes in all lines: part of the network memory.
    pub fn buffered_bytes(&self) -> usize {
        self.lines.iter().map(|line| line.bytes).sum()
    }

    fn destinations(&self) -> impl Iterator<Item = DestinationIndex> + use<> {
        (0..self.lines.len() as u32).map(DestinationIndex)
    }
}

impl Line {
    fn touch(&mut self, now: MonoTime) {
        if self.waiting.is_empty() {
            self.since = now;
        }
    }

    /// Cuts what is far above the limit, so that a channel's window is used in steps and no element
    /// comes near the largest that is allowed. A single row is never cut.
    fn add_cut(&mut self, batch: Batch, limits: CoalesceLimits) {
        let (rows, bytes) = (batch.num_rows(), batch.encoded_bytes());
        let middle = batch.pair_safe_cut(rows / 2);
        if bytes > 2 * limits.bytes && middle > 0 && middle < rows {
            self.add_cut(batch.slice(0, middle), limits);
            self.add_cut(batch.slice(middle, rows - middle), limits);
        } else {
            self.add(batch, bytes, limits);
        }
    }

    fn add(&mut self, batch: Batch, bytes: usize, limits: CoalesceLimits) {
        self.rows += batch.num_rows();
        self.bytes += bytes;
        // Joining copies: not worth it for what is large already.
        let sealed = batch.num_rows() >= limits.rows / 2 || bytes >= limits.bytes / 2;
        match self.waiting.back_mut() {
            Some(Waiting::Rows {
                batches,
                sealed: false,
            }) if !sealed => batches.push(batch),
            Some(Waiting::Rows { .. } | Waiting::Watermark(_)) | None => {
                self.waiting.push_back(Waiting::Rows {
                    batches: vec![batch],
                    sealed,
                });
            }
        }
    }

    fn send(
        &mut self,
        to: DestinationIndex,
        out: &mut Vec<(DestinationIndex, Element)>,
    ) -> Result<(), BatchError> {
        (self.rows, self.bytes) = (0, 0);
        for waiting in self.waiting.drain(..) {
            let element = match waiting {
                Waiting::Watermark(watermark) => Some(Element::Watermark(watermark)),
                Waiting::Rows { batches, .. } => Batch::concat(&batches)?.map(Element::Batch),
            };
            out.extend(element.map(|element| (to, element)));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow::array::{ArrayRef, AsArray, Int64Array, RecordBatch};
    use arrow::datatypes::Int64Type;

    use super::*;

    const A: DestinationIndex = DestinationIndex(0);
    const B: DestinationIndex = DestinationIndex(1);

    fn rows(values: std::ops::Range<i64>) -> Batch {
        let column: ArrayRef = Arc::new(Int64Array::from_iter_values(values));
        Batch::new(RecordBatch::try_from_iter([("n", column)]).unwrap())
    }

    fn at(millis: u64) -> MonoTime {
        MonoTime::from_millis(millis)
    }

    fn coalescer(rows: usize) -> Coalescer {
        Coalescer::new(
            2,
            CoalesceLimits {
                rows,
                ..CoalesceLimits::default()
            },
        )
    }

    /// What was sent, with rows as their numbers.
    fn show(sent: &[(DestinationIndex, Element)]) -> Vec<String> {
        let text = |(to, element): &(DestinationIndex, Element)| match element {
            Element::Batch(batch) => {
                let numbers = batch.records().column(0).as_primitive::<Int64Type>();
                format!("{to}: rows {:?}", numbers.values().to_vec())
            }
            Element::Watermark(time) => format!("{to}: watermark {}", time.0),
            other => format!("{to}: {other:?}"),
        };
        sent.iter().map(text).collect()
    }

    #[test]
    fn parts_for_one_destination_become_one_batch_when_enough_rows_came() {
        let (mut buffers, mut out) = (coalescer(10), Vec::new());
        buffers.push_batch(at(0), A, rows(0..4), &mut out).unwrap();
        buffers.push_batch(at(1), B, rows(4..6), &mut out).unwrap();
        buffers.push_batch(at(1), A, rows(6..8), &mut out).unwrap();
        assert_eq!(show(&out), [""; 0]);
        buffers.push_batch(at(2), A, rows(8..12), &mut out).unwrap();
        assert_eq!(show(&out), ["0: rows [0, 1, 2, 3, 6, 7, 8, 9, 10, 11]"]);
        assert_eq!(buffers.deadline(), at(6), "B's line goes on waiting");
    }

    #[test]
    fn the_linger_time_counts_from_the_oldest_element_of_a_line() {
        let (mut buffers, mut out) = (coalescer(10), Vec::new());
        assert_eq!(buffers.deadline(), MonoTime::NEVER);
        buffers.push_batch(at(10), A, rows(0..1), &mut out).unwrap();
        buffers.push_batch(at(13), A, rows(1..2), &mut out).unwrap();
        assert_eq!(buffers.deadline(), at(15));
        buffers.on_time(at(14), &mut out).unwrap();
        assert_eq!(show(&out), [""; 0]);
        buffers.on_time(at(15), &mut out).unwrap();
        assert_eq!(show(&out), ["0: rows [0, 1]"]);
        assert_eq!(
            (buffers.deadline(), buffers.buffered_bytes()),
            (MonoTime::NEVER, 0)
        );
    }

    #[test]
    fn a_watermark_waits_in_line_and_keeps_its_place_between_rows() {
        let (mut buffers, mut out) = (coalescer(10), Vec::new());
        buffers.push_batch(at(0), A, rows(0..1), &mut out).unwrap();
        buffers.push_watermark(at(0), EventTime(5));
        buffers.push_watermark(at(0), EventTime(7));
        buffers.push_batch(at(1), A, rows(1..2), &mut out).unwrap();
        buffers.push_watermark(at(1), EventTime(9));
        assert_eq!(show(&out), [""; 0]);
        buffers.on_time(at(5), &mut out).unwrap();
        let expected = [
            "0: rows [0]",
            "0: watermark 7",
            "0: rows [1]",
            "0: watermark 9",
            "1: watermark 9",
        ];
        assert_eq!(show(&out), expected);
    }

    #[test]
    fn a_mark_sends_every_line_and_itself_behind_it() {
        let (mut buffers, mut out) = (coalescer(10), Vec::new());
        buffers.push_batch(at(0), B, rows(0..1), &mut out).unwrap();
        buffers
            .push_mark(&Element::EndOfPartition, &mut out)
            .unwrap();
        let expected = ["1: rows [0]", "0: EndOfPartition", "1: EndOfPartition"];
        assert_eq!(show(&out), expected);
    }

    #[test]
    fn a_large_batch_is_not_copied_and_a_huge_one_is_cut() {
        let limits = CoalesceLimits {
            rows: 8,
            bytes: 80,
            linger: Duration::ZERO,
        };
        let (mut buffers, mut out) = (Coalescer::new(1, limits), Vec::new());
        buffers.push_batch(at(0), A, rows(0..1), &mut out).unwrap();
        let large = rows(1..8);
        let address = |batch: &Batch| {
            batch
                .records()
                .column(0)
                .as_primitive::<Int64Type>()
                .values()
                .inner()
                .as_ptr()
        };
        buffers
            .push_batch(at(0), A, large.clone(), &mut out)
            .unwrap();
        assert_eq!(show(&out), ["0: rows [0]", "0: rows [1, 2, 3, 4, 5, 6, 7]"]);
        let Element::Batch(sent) = &out[1].1 else {
            panic!("rows")
        };
        assert_eq!(address(sent), address(&large));

        out.clear();
        buffers.push_batch(at(0), A, rows(0..64), &mut out).unwrap();
        assert_eq!(out.len(), 4);
        assert!(out.iter().all(|(_, element)| element.cost() <= 2 * 80));
    }
}
