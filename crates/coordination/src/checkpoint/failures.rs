//! The failure manager: how many checkpoints failed in a row, and when that fails the job (B1.9).

use std::collections::BTreeSet;

use millstream_types::{CheckpointId, SubtaskId};

use super::reason::FailureReason;

/// One counted failure of the present streak.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct CountedFailure {
    /// The checkpoint; none where it failed before it had an id.
    pub checkpoint: Option<CheckpointId>,
    /// Why.
    pub reason: FailureReason,
    /// Who had not acknowledged, with what each was doing.
    pub unacknowledged: Vec<(SubtaskId, Option<String>)>,
}

/// Counts consecutive failures.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct FailureManager {
    tolerable: u32,
    streak: Vec<CountedFailure>,
    counted_ids: BTreeSet<CheckpointId>,
    last_success: Option<CheckpointId>,
}

impl FailureManager {
    pub(super) fn new(tolerable: u32) -> Self {
        Self {
            tolerable,
            streak: Vec::new(),
            counted_ids: BTreeSet::new(),
            last_success: None,
        }
    }

    /// Failures in a row so far.
    pub(super) fn consecutive(&self) -> usize {
        self.streak.len()
    }

    /// A larger id succeeded: the streak is over. A late success of an older one says nothing.
    pub(super) fn on_success(&mut self, id: CheckpointId) {
        if self.last_success.is_none_or(|last| id > last) {
            self.last_success = Some(id);
            self.reset();
        }
    }

    /// Returns the streak when it is longer than tolerated; the next one then begins anew.
    pub(super) fn on_failure(&mut self, failure: CountedFailure) -> Option<Vec<CountedFailure>> {
        if !failure.reason.is_counted() {
            return None;
        }
        if let Some(id) = failure.checkpoint {
            let is_late = self.last_success.is_some_and(|last| id <= last);
            if is_late || !self.counted_ids.insert(id) {
                return None;
            }
        }
        self.streak.push(failure);
        if self.streak.len() <= self.tolerable as usize {
            return None;
        }
        self.counted_ids.clear();
        Some(std::mem::take(&mut self.streak))
    }

    fn reset(&mut self) {
        self.streak.clear();
        self.counted_ids.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Runs failures (`-id`), successes (`id`), failures without id (0); whether each failed the
    /// job.
    fn run(tolerable: u32, script: &[i64]) -> Vec<bool> {
        let mut manager = FailureManager::new(tolerable);
        script
            .iter()
            .map(|step| {
                let id = CheckpointId(step.unsigned_abs());
                if *step > 0 {
                    manager.on_success(id);
                    return false;
                }
                let failure = CountedFailure {
                    checkpoint: (*step < 0).then_some(id),
                    reason: FailureReason::Expired,
                    unacknowledged: Vec::new(),
                };
                manager.on_failure(failure).is_some()
            })
            .collect()
    }

    // Proves F77.
    #[test]
    fn with_none_tolerated_the_first_failure_fails_the_job() {
        assert_eq!(run(0, &[-1]), [true]);
    }

    // Proves F78.
    #[test]
    fn a_success_between_two_streaks_keeps_the_job_alive() {
        let script = [-1, -2, -3, -4, -5, 6, -7, -8, -9, -10, -11];
        assert!(!run(5, &script).contains(&true));
    }

    // Proves F79.
    #[test]
    fn one_checkpoint_counts_once_however_many_subtasks_decline() {
        assert_eq!(run(1, &[-1, -1, -1, -2]), [false, false, false, true]);
    }

    // Proves F80.
    #[test]
    fn a_late_failure_of_an_older_checkpoint_does_not_count() {
        assert_eq!(run(0, &[9, -8, -10]), [false, false, true]);
    }

    // Proves F86.
    #[test]
    fn after_the_job_failed_the_next_streak_begins_at_zero() {
        let script = [-1, -2, -3, -4, -5, -6];
        assert_eq!(run(2, &script), [false, false, true, false, false, true]);
    }

    #[test]
    fn failures_before_an_id_existed_count_each_time() {
        assert_eq!(run(2, &[0, 0, 0]), [false, false, true]);
    }

    // Proves F81 and F82.
    #[test]
    fn exactly_five_reasons_count() {
        use FailureReason::{AsyncException, Declined, Expired, FinalizeFailure, IoException};
        let counted = FailureReason::ALL.into_iter().filter(|r| r.is_counted());
        assert_eq!(
            counted.collect::<Vec<_>>(),
            [
                Expired,
                Declined,
                AsyncException,
                IoException,
                FinalizeFailure
            ]
        );
        for reason in FailureReason::ALL.into_iter().filter(|r| !r.is_counted()) {
            let mut manager = FailureManager::new(0);
            for id in 1..=100 {
                let failure = CountedFailure {
                    checkpoint: Some(CheckpointId(id)),
                    reason,
                    unacknowledged: Vec::new(),
                };
                assert_eq!(manager.on_failure(failure), None, "{reason:?}");
            }
        }
    }
}
