//! What can go wrong, and how often.

use std::ops::Range;
use std::time::Duration;

use millstream_env::Rng;

/// One kind of misbehaviour; the key of the counters of [`crate::ChaosStore::hits`].
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Fault {
    /// The request took longer than usual.
    Delay,
    /// A write failed and nothing was written.
    ErrorBefore,
    /// A write was reported as failed although it was made.
    ErrorAfter,
    /// A write was reported as failed and was made later.
    LandsLate,
    /// A read, a look-up or a listing failed.
    ReadError,
    /// A read ended early, without an error.
    ShortRead,
    /// One bit of what was read was another.
    BitFlip,
    /// A listing left out what was written last.
    StaleList,
    /// Every request failed for a while ("503 Slow Down").
    Burst,
    /// A deletion failed and nothing was deleted.
    DeleteError,
    /// A part of a multipart upload failed.
    PartError,
    /// A request lay about for so long that nobody waits for its answer any more.
    Stall,
    /// A request was served and its answer lay about.
    AnswerStall,
}

/// How often each kind happens, as probabilities per request.
#[derive(Clone, PartialEq, Debug)]
pub struct Faults {
    /// What every request takes.
    pub latency: Range<Duration>,
    /// Probability of [`Fault::Delay`].
    pub delay: f64,
    /// How long a delayed request waits.
    pub delay_range: Range<Duration>,
    /// Probability of [`Fault::ErrorBefore`].
    pub error_before: f64,
    /// Probability of [`Fault::ErrorAfter`].
    pub error_after: f64,
    /// Probability of [`Fault::LandsLate`].
    pub lands_late: f64,
    /// How long after its failure a late write lands.
    pub late_range: Range<Duration>,
    /// Probability of [`Fault::ReadError`].
    pub read_error: f64,
    /// Probability of [`Fault::ShortRead`].
    pub short_read: f64,
    /// Probability of [`Fault::BitFlip`].
    pub bit_flip: f64,
    /// Probability of [`Fault::StaleList`].
    pub stale_list: f64,
    /// How old an object must be to be in a stale listing.
    pub stale_by: Duration,
    /// Probability that a [`Fault::Burst`] starts.
    pub burst: f64,
    /// How long a burst lasts.
    pub burst_range: Range<Duration>,
    /// Probability of [`Fault::DeleteError`].
    pub delete_error: f64,
    /// Probability of [`Fault::PartError`].
    pub part_error: f64,
    /// Probability of [`Fault::Stall`].
    pub stall: f64,
    /// Probability of [`Fault::AnswerStall`].
    pub answer_stall: f64,
    /// How long a request or its answer lies about.
    pub stall_range: Range<Duration>,
}

impl Faults {
    /// A store that always does what it is asked.
    pub const NONE: Self = Self {
        latency: Duration::ZERO..Duration::ZERO,
        delay: 0.0,
        delay_range: Duration::from_millis(1)..Duration::from_millis(50),
        error_before: 0.0,
        error_after: 0.0,
        lands_late: 0.0,
        late_range: Duration::from_millis(500)..Duration::from_secs(4),
        read_error: 0.0,
        short_read: 0.0,
        bit_flip: 0.0,
        stale_list: 0.0,
        stale_by: Duration::from_secs(5),
        burst: 0.0,
        burst_range: Duration::from_millis(100)..Duration::from_secs(2),
        delete_error: 0.0,
        part_error: 0.0,
        stall: 0.0,
        answer_stall: 0.0,
        stall_range: Duration::from_secs(5)..Duration::from_secs(30),
    };

    /// A random subset of the faults that change no bytes, each at a random rate: tests in which
    /// every fault is always on never see what a single one does.
    pub fn swarm(rng: &Rng) -> Self {
        let rate = |max: f64| {
            let share = rng.range(0..1_000) as f64 / 1_000.0;
            if rng.chance(0.5) { share * max } else { 0.0 }
        };
        Self {
            delay: rate(0.5),
            error_before: rate(0.2),
            error_after: rate(0.2),
            lands_late: rate(0.2),
            read_error: rate(0.2),
            stale_list: rate(0.5),
            burst: rate(0.02),
            delete_error: rate(0.3),
            part_error: rate(0.05),
            ..Self::NONE
        }
    }
}

/// The error that an injected fault is reported as.
#[derive(Debug, thiserror::Error)]
#[error("injected: {fault:?}")]
pub struct InjectedFault {
    /// The kind.
    pub fault: Fault,
}

impl InjectedFault {
    pub(crate) fn error(fault: Fault) -> object_store::Error {
        object_store::Error::Generic {
            store: "chaos",
            source: Box::new(Self { fault }),
        }
    }
}
