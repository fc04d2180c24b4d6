//! When entries below a BOUNDARY may be deleted: not before every listing shows the BOUNDARY.
//!
//! A deleted entry's number can be created again, by an owner that was followed and does not know it
//! yet. It then lists what lies above (fence F6), and a listing that is behind would show nothing where
//! the claim that followed, the BOUNDARY and the deletion are all younger than the listing.

use std::collections::VecDeque;
use std::time::Duration;

use millstream_types::MonoTime;
use millstream_types::sabotage::{Rule, Sabotage};

use super::entry::EntryNumber;

/// How far behind a store's listing may be.
pub const LISTING_LAG_MAX: Duration = Duration::from_secs(30);

/// BOUNDARYs that come faster than this are not told apart.
const APART: Duration = Duration::from_secs(1);

/// The BOUNDARYs that one owner wrote, and below which of them entries may be deleted.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Pruning {
    /// Those that wait, with the time at which each was known to be durable, oldest first.
    waiting: VecDeque<(EntryNumber, MonoTime)>,
    below: EntryNumber,
    sabotage: Sabotage,
}

impl Pruning {
    /// For an owner that wrote no BOUNDARY yet.
    pub fn new(sabotage: Sabotage) -> Self {
        Self {
            waiting: VecDeque::new(),
            below: EntryNumber::NONE,
            sabotage,
        }
    }

    /// A BOUNDARY is durable.
    pub fn on_boundary(&mut self, now: MonoTime, number: EntryNumber) {
        let newest = self.waiting.back().map(|(_, at)| *at);
        if newest.is_none_or(|at| now.saturating_since(at) >= APART) {
            self.waiting.push_back((number, now));
        }
        self.look(now);
    }

    /// Entries below this number may be deleted, now and later; 0 for none.
    pub fn prunable_below(&mut self, now: MonoTime) -> EntryNumber {
        self.look(now);
        self.below
    }

    fn look(&mut self, now: MonoTime) {
        let wait = match self.sabotage.removed(Rule::PruneAtOnce) {
            true => Duration::ZERO,
            false => LISTING_LAG_MAX,
        };
        while let Some((number, at)) = self.waiting.front()
            && now.saturating_since(*at) >= wait
        {
            self.below = *number;
            self.waiting.pop_front();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_are_deleted_once_no_listing_can_miss_the_boundary_above_them() {
        let mut pruning = Pruning::new(Sabotage::default());
        let mut at = |secs: u64, number: u64| {
            let now = MonoTime::ZERO + Duration::from_secs(secs);
            pruning.on_boundary(now, EntryNumber(number));
            pruning.prunable_below(now).0
        };
        assert_eq!(at(0, 3), 0);
        assert_eq!(at(29, 5), 0);
        assert_eq!(at(30, 7), 3, "the first is 30 s old");
        assert_eq!(at(58, 9), 3);
        assert_eq!(at(59, 11), 5);
        assert_eq!(at(500, 13), 11);
        // Time alone is enough.
        let later = MonoTime::ZERO + Duration::from_secs(530);
        assert_eq!(pruning.prunable_below(later), EntryNumber(13));
    }

    #[test]
    fn many_boundaries_a_second_take_little_room_and_wait_no_less() {
        let mut pruning = Pruning::new(Sabotage::default());
        for n in 0..100_000_u64 {
            let now = MonoTime::ZERO + Duration::from_millis(n);
            pruning.on_boundary(now, EntryNumber(n + 1));
            let below = pruning.prunable_below(now).0;
            // The entry below was written in millisecond `below - 1`.
            assert!(below == 0 || n - (below - 1) >= 30_000, "{below} at {n}");
            assert!(pruning.waiting.len() <= 31);
        }
        assert_eq!(pruning.below, EntryNumber(69_001));
    }
}
