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
mod tests;
