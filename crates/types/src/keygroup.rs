//! Key groups: the unit in which keyed state is spread over subtasks (B10.1).

use std::fmt;

/// One of `max_parallelism` groups of keys; a group is owned by exactly one subtask.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub struct KeyGroup(pub u16);

/// A maximum parallelism that cannot be.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum MaxParallelismError {
    /// Outside 1..=32768.
    #[error("max parallelism is {found}, outside 1 to 32768")]
    OutOfRange {
        /// What was asked for.
        found: u32,
    },
    /// Parallelism above the maximum.
    #[error("parallelism {parallelism} is above max parallelism {max}")]
    BelowParallelism {
        /// What was asked for.
        parallelism: u32,
        /// The maximum in force.
        max: u32,
    },
}

/// The number of key groups of a vertex, 1 to 32768. Fixed for the life of its state.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub struct MaxParallelism(u16);

impl MaxParallelism {
    const HIGHEST: u32 = 32_768;
    const LOWEST_DERIVED: u32 = 128;

    /// Checks the range.
    pub fn new(value: u32) -> Result<Self, MaxParallelismError> {
        if value == 0 || value > Self::HIGHEST {
            return Err(MaxParallelismError::OutOfRange { found: value });
        }
        // 32768 does not fit into u16 as is, so one less is kept.
        Ok(Self((value - 1) as u16))
    }

    /// What is used where the job names none: the next power of two of 1.5 times the parallelism,
    /// between 128 and 32768.
    pub fn derived(parallelism: u32) -> Self {
        let wanted = parallelism
            .saturating_add(parallelism / 2)
            .clamp(1, Self::HIGHEST)
            .next_power_of_two()
            .clamp(Self::LOWEST_DERIVED, Self::HIGHEST);
        Self((wanted - 1) as u16)
    }

    /// The number of key groups.
    pub const fn get(self) -> u32 {
        self.0 as u32 + 1
    }

    /// The group of a key with this hash (xxh3-64 of the key's encoding).
    pub const fn key_group(self, key_hash: u64) -> KeyGroup {
        KeyGroup((key_hash % self.get() as u64) as u16)
    }

    /// Refuses a parallelism above this maximum.
    pub fn check(self, parallelism: u32) -> Result<(), MaxParallelismError> {
        if parallelism > self.get() {
            return Err(MaxParallelismError::BelowParallelism {
                parallelism,
                max: self.get(),
            });
        }
        Ok(())
    }
}

impl fmt::Display for MaxParallelism {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.get(), f)
    }
}

/// The subtask that owns `group`: `group * parallelism / max_parallelism`.
pub const fn subtask_of_key_group(group: KeyGroup, parallelism: u32, max: MaxParallelism) -> u32 {
    ((group.0 as u64 * parallelism as u64) / max.get() as u64) as u32
}

/// Key groups from `first` to `last`, both included. Never empty.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct KeyGroupRange {
    first: u16,
    last: u16,
}

impl KeyGroupRange {
    /// `None` if `first` is above `last`.
    pub const fn new(first: KeyGroup, last: KeyGroup) -> Option<Self> {
        if first.0 > last.0 {
            return None;
        }
        Some(Self {
            first: first.0,
            last: last.0,
        })
    }

    /// All groups.
    pub const fn all(max: MaxParallelism) -> Self {
        Self {
            first: 0,
            last: (max.get() - 1) as u16,
        }
    }

    /// The groups of subtask `index` of `parallelism`:
    /// `ceil(i * max / p) ..= ceil((i + 1) * max / p) - 1`.
    ///
    /// # Panics
    /// If `index` is not below `parallelism` or that is above `max`: both are checked when a job
    /// is admitted.
    pub fn of_subtask(index: u32, parallelism: u32, max: MaxParallelism) -> Self {
        assert!(
            index < parallelism && parallelism <= max.get(),
            "checked at admission"
        );
        let bound = |i: u64| (i * u64::from(max.get())).div_ceil(u64::from(parallelism));
        Self {
            first: bound(u64::from(index)) as u16,
            last: (bound(u64::from(index) + 1) - 1) as u16,
        }
    }

    /// The lowest group.
    pub const fn first(self) -> KeyGroup {
        KeyGroup(self.first)
    }

    /// The highest group.
    pub const fn last(self) -> KeyGroup {
        KeyGroup(self.last)
    }

    /// The number of groups, at least 1.
    pub const fn count(self) -> u32 {
        self.last as u32 - self.first as u32 + 1
    }

    /// Whether `group` lies inside.
    pub const fn contains(self, group: KeyGroup) -> bool {
        self.first <= group.0 && group.0 <= self.last
    }

    /// The groups common to both.
    pub fn intersection(self, other: Self) -> Option<Self> {
        Self::new(
            KeyGroup(self.first.max(other.first)),
            KeyGroup(self.last.min(other.last)),
        )
    }

    /// Every group, in order.
    pub fn iter(self) -> impl Iterator<Item = KeyGroup> {
        (self.first..=self.last).map(KeyGroup)
    }
}

impl fmt::Debug for KeyGroupRange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}..={}", self.first, self.last)
    }
}

impl fmt::Display for KeyGroupRange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} to {}", self.first, self.last)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_group_is_owned_by_exactly_the_subtask_that_the_formula_names() {
        for max in [1, 2, 3, 7, 128, 1000, 32_768] {
            let max = MaxParallelism::new(max).unwrap();
            for parallelism in [1, 2, 3, 5, 7, 64, 127, 128, 1000] {
                if parallelism > max.get() {
                    assert!(max.check(parallelism).is_err());
                    continue;
                }
                let mut next = 0u32;
                for index in 0..parallelism {
                    let range = KeyGroupRange::of_subtask(index, parallelism, max);
                    assert_eq!(u32::from(range.first().0), next);
                    for group in range.iter() {
                        assert_eq!(subtask_of_key_group(group, parallelism, max), index);
                    }
                    next = u32::from(range.last().0) + 1;
                }
                assert_eq!(next, max.get());
            }
        }
    }

    #[test]
    fn the_derived_maximum_follows_flinks_rule() {
        for (parallelism, max) in [(1, 128), (85, 128), (86, 256), (200, 512), (40_000, 32_768)] {
            assert_eq!(
                MaxParallelism::derived(parallelism).get(),
                max,
                "{parallelism}"
            );
        }
    }
}
