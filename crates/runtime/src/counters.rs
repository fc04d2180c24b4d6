//! What a task counts, once per slice: rows, bytes, and where its time went.

use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::time::Duration;

use millstream_types::EventTime;

/// Counters of one task, written by it and read by whoever reports. Sums since its start.
#[derive(Default, Debug)]
pub struct TaskCounters {
    records_in: AtomicU64,
    records_out: AtomicU64,
    bytes_in: AtomicU64,
    bytes_out: AtomicU64,
    bad_records: AtomicU64,
    busy_nanos: AtomicU64,
    idle_nanos: AtomicU64,
    backpressured_nanos: AtomicU64,
    watermark: AtomicI64,
}

/// A reading of the counters.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct TaskCounts {
    /// Rows taken in.
    pub records_in: u64,
    /// Rows sent on.
    pub records_out: u64,
    /// Bytes taken in.
    pub bytes_in: u64,
    /// Bytes sent on.
    pub bytes_out: u64,
    /// Records that were no rows: left out, or sent on as dead letters.
    pub bad_records: u64,
    /// Time at work.
    pub busy: Duration,
    /// Time without input.
    pub idle: Duration,
    /// Time in which nobody took its output.
    pub backpressured: Duration,
    /// The watermark at its input; none before the first.
    pub watermark: Option<EventTime>,
}

/// Where a stretch of time went.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Spent {
    Busy,
    Idle,
    Backpressured,
}

impl TaskCounters {
    pub(crate) fn new() -> Self {
        let counters = Self::default();
        counters
            .watermark
            .store(EventTime::MIN.0, Ordering::Relaxed);
        counters
    }

    pub(crate) fn took_in(&self, rows: usize, bytes: u64) {
        self.records_in.fetch_add(rows as u64, Ordering::Relaxed);
        self.bytes_in.fetch_add(bytes, Ordering::Relaxed);
    }

    pub(crate) fn sent(&self, rows: usize, bytes: u64) {
        self.records_out.fetch_add(rows as u64, Ordering::Relaxed);
        self.bytes_out.fetch_add(bytes, Ordering::Relaxed);
    }

    pub(crate) fn set_bad_records(&self, records: u64) {
        self.bad_records.store(records, Ordering::Relaxed);
    }

    pub(crate) fn spend(&self, spent: Spent, time: Duration) {
        let nanos = u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
        let counter = match spent {
            Spent::Busy => &self.busy_nanos,
            Spent::Idle => &self.idle_nanos,
            Spent::Backpressured => &self.backpressured_nanos,
        };
        counter.fetch_add(nanos, Ordering::Relaxed);
    }

    pub(crate) fn set_watermark(&self, watermark: EventTime) {
        self.watermark.store(watermark.0, Ordering::Relaxed);
    }

    /// The counters now.
    pub fn read(&self) -> TaskCounts {
        let nanos = |counter: &AtomicU64| Duration::from_nanos(counter.load(Ordering::Relaxed));
        let watermark = EventTime(self.watermark.load(Ordering::Relaxed));
        TaskCounts {
            records_in: self.records_in.load(Ordering::Relaxed),
            records_out: self.records_out.load(Ordering::Relaxed),
            bytes_in: self.bytes_in.load(Ordering::Relaxed),
            bytes_out: self.bytes_out.load(Ordering::Relaxed),
            bad_records: self.bad_records.load(Ordering::Relaxed),
            busy: nanos(&self.busy_nanos),
            idle: nanos(&self.idle_nanos),
            backpressured: nanos(&self.backpressured_nanos),
            watermark: (watermark != EventTime::MIN).then_some(watermark),
        }
    }
}
