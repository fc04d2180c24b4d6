//! How checkpoints are taken: what the configuration comes to. Whoever reads the configuration
//! checks it: numbers are not zero, and an interval is not below the pause.

use std::time::Duration;

/// Checkpoint settings of a job.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct CheckpointPolicy {
    /// Time between planned triggers; `None` takes no periodic checkpoints.
    pub interval: Option<Duration>,
    /// Least time from a completion to the next periodic trigger.
    pub min_pause: Duration,
    /// From the creation of a checkpoint to its completion.
    pub timeout: Duration,
    /// How many may be pending at once, at least one.
    pub max_concurrent: usize,
    /// Consecutive counted failures that do not fail the job.
    pub tolerable_failed: u32,
    /// Completed checkpoints kept, at least one.
    pub num_retained: usize,
    /// Whether checkpoints go on when some tasks finished. Off only to show what that was like.
    pub after_tasks_finish: bool,
    /// When periodic triggers begin after a start.
    pub trigger_when: TriggerWhen,
}

/// When periodic triggers begin after a start.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum TriggerWhen {
    /// When every task is running or finished.
    AllRunning,
    /// When the job is; the first triggers may be refused.
    JobRunning,
}

impl Default for CheckpointPolicy {
    fn default() -> Self {
        Self {
            interval: None,
            min_pause: Duration::ZERO,
            timeout: Duration::from_secs(600),
            max_concurrent: 1,
            tolerable_failed: 0,
            num_retained: 2,
            after_tasks_finish: true,
            trigger_when: TriggerWhen::AllRunning,
        }
    }
}
