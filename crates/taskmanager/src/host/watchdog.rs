//! Looks after tasks that were told to stop (B9): each is named again and again as long as it does
//! not, and in the end its process has to go, since a thread cannot be killed.
//!
//! A decision without a clock: whoever has the tasks asks at each [`Watchdog::deadline`].

use std::collections::BTreeMap;
use std::time::Duration;

use millstream_config::JobConfig;
use millstream_coordination::protocol::TaskAddress;
use millstream_types::MonoTime;

/// What is to be done about a task that does not stop.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Overdue {
    /// It is named in the log.
    Name {
        /// Which.
        task: TaskAddress,
        /// So long after it was told.
        after: Duration,
    },
    /// Its process ends.
    GiveUp {
        /// So long after it was told.
        after: Duration,
    },
}

/// Tasks that were told to stop and have not.
#[derive(Clone, Debug)]
pub(super) struct Watchdog {
    /// `task.cancellation.interval`
    interval: Duration,
    /// `task.cancellation.timeout`; none is never.
    timeout: Option<Duration>,
    told: BTreeMap<TaskAddress, Told>,
    /// The process ends, and nothing is left to be said.
    has_given_up: bool,
}

#[derive(Clone, Copy, Debug)]
struct Told {
    at: MonoTime,
    n_named: u32,
}

impl Watchdog {
    pub(super) fn new(config: &JobConfig) -> Self {
        Self {
            interval: config.cancellation_interval,
            timeout: config.cancellation_timeout,
            told: BTreeMap::new(),
            has_given_up: false,
        }
    }

    /// Takes in which tasks are still to stop now; says what is due.
    pub(super) fn look(
        &mut self,
        now: MonoTime,
        stopping: impl IntoIterator<Item = TaskAddress>,
    ) -> Vec<Overdue> {
        let before = std::mem::take(&mut self.told);
        let new = Told {
            at: now,
            n_named: 0,
        };
        let told = stopping.into_iter();
        self.told = told
            .map(|task| (task, before.get(&task).copied().unwrap_or(new)))
            .collect();
        let mut due = Vec::new();
        if self.has_given_up {
            return due;
        }
        for (task, told) in &mut self.told {
            let after = now.saturating_since(told.at);
            if self.timeout.is_some_and(|timeout| after >= timeout) {
                self.has_given_up = true;
                due.push(Overdue::GiveUp { after });
                return due;
            }
            let intervals = after.as_nanos() / self.interval.as_nanos().max(1);
            let intervals = u32::try_from(intervals).unwrap_or(u32::MAX);
            if intervals > told.n_named {
                told.n_named = intervals;
                let after = self.interval.saturating_mul(intervals);
                due.push(Overdue::Name { task: *task, after });
            }
        }
        due
    }

    /// When the next look is due.
    pub(super) fn deadline(&self) -> MonoTime {
        if self.has_given_up {
            return MonoTime::NEVER;
        }
        let next = self.told.values().map(|told| {
            let named = self.interval.saturating_mul(told.n_named.saturating_add(1));
            told.at + self.timeout.map_or(named, |timeout| named.min(timeout))
        });
        next.min().unwrap_or(MonoTime::NEVER)
    }
}

#[cfg(test)]
mod tests {
    use millstream_config::{Layer, Resolved};
    use millstream_types::{Attempt, SubtaskId, VertexId};

    use super::*;

    const DAY: u64 = 24 * 3_600;

    fn task(index: u32) -> TaskAddress {
        let subtask = SubtaskId::new(VertexId(0), index);
        let attempt = Attempt(0);
        TaskAddress { subtask, attempt }
    }

    /// Of a job with these settings, the defaults for the others.
    fn watchdog(settings: &[(&str, &str)]) -> Watchdog {
        let settings = settings.iter().map(|(key, value)| (*key, *value, "job"));
        let table = Resolved::new([Layer::stored(settings).unwrap()]);
        Watchdog::new(&JobConfig::new(&table, &mut Vec::new()).unwrap())
    }

    /// Told at second 0 to stop, looked at whenever it is due until this second; what was said, each
    /// with its second.
    fn watch(mut watchdog: Watchdog, seconds: u64) -> Vec<(u64, Overdue)> {
        assert_eq!(watchdog.look(MonoTime::ZERO, [task(0)]), []);
        let mut said = Vec::new();
        while watchdog.deadline() <= MonoTime::from_millis(seconds * 1_000) {
            let now = watchdog.deadline();
            for overdue in watchdog.look(now, [task(0)]) {
                said.push((now.as_millis() / 1_000, overdue));
            }
            assert!(watchdog.deadline() > now, "later than now");
        }
        said
    }

    fn name(after: u64) -> (u64, Overdue) {
        let named = Overdue::Name {
            task: task(0),
            after: Duration::from_secs(after),
        };
        (after, named)
    }

    // The times of F124.
    #[test]
    fn a_task_that_never_stops_is_named_every_thirty_seconds_and_given_up_after_three_minutes() {
        let after = Duration::from_secs(180);
        let expected = [
            name(30),
            name(60),
            name(90),
            name(120),
            name(150),
            (180, Overdue::GiveUp { after }),
        ];
        assert_eq!(watch(watchdog(&[]), DAY), expected);
    }

    // Proves F126.
    #[test]
    fn without_a_timeout_a_task_that_never_stops_is_named_for_ever_and_never_given_up() {
        let said = watch(watchdog(&[("task.cancellation.timeout", "0 s")]), 7 * DAY);
        let expected: Vec<_> = (1..=7 * DAY / 30).map(|n| name(30 * n)).collect();
        assert_eq!(said, expected);
    }

    #[test]
    fn a_task_that_stops_is_forgotten_and_each_is_measured_from_when_it_was_told() {
        let mut watchdog = watchdog(&[]);
        let at = |second: u64| MonoTime::from_millis(second * 1_000);
        assert_eq!(watchdog.deadline(), MonoTime::NEVER);
        assert_eq!(watchdog.look(at(0), [task(0)]), []);
        assert_eq!(watchdog.look(at(20), [task(0), task(1)]), []);
        assert_eq!(watchdog.deadline(), at(30));
        let after = Duration::from_secs(30);
        let named = |n| Overdue::Name {
            task: task(n),
            after,
        };
        assert_eq!(watchdog.look(at(31), [task(0), task(1)]), [named(0)]);
        assert_eq!(watchdog.look(at(40), [task(1)]), []);
        assert_eq!(watchdog.look(at(50), [task(1)]), [named(1)]);
        // A late look makes up for those before it, once.
        let after = Duration::from_secs(90);
        let late = Overdue::Name {
            task: task(1),
            after,
        };
        assert_eq!(watchdog.look(at(119), [task(1)]), [late]);
        assert_eq!(watchdog.look(at(120), []), []);
        assert_eq!(watchdog.deadline(), MonoTime::NEVER);
    }
}
