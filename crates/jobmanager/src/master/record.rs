//! What a master remembers only to show it: times, metrics, watchers.

use std::collections::BTreeMap;
use std::sync::Arc;

use millstream_coordination::job::{ExecutionState, JobStatus};
use millstream_coordination::protocol::SubtaskMetrics;
use millstream_types::{SubtaskId, WallTime};

use crate::details::{JobEnded, SlotWait};
use crate::watch::{JobEvent, JobWatch, WatchQueue};

/// Facts of one job.
pub(super) struct Record {
    pub(super) submitted_at: WallTime,
    pub(super) status_since: BTreeMap<JobStatus, WallTime>,
    pub(super) last_modified_at: WallTime,
    pub(super) restarts: u32,
    pub(super) restored: u64,
    pub(super) tasks: BTreeMap<SubtaskId, TaskRecord>,
    pub(super) slot_wait: Option<SlotWait>,
    pub(super) end: Option<(JobEnded, WallTime)>,
    /// The newest failure, in one line.
    pub(super) last_failure: Option<String>,
    /// Why the job is suspended, where its history does not say.
    pub(super) suspended_because: Option<String>,
    watchers: Vec<Arc<WatchQueue>>,
    /// What happened before anybody watched; the first watcher gets it.
    unwatched: Option<Arc<WatchQueue>>,
}

/// Facts of the newest execution of one subtask.
#[derive(Clone, Default)]
pub(super) struct TaskRecord {
    pub(super) state_since: BTreeMap<ExecutionState, WallTime>,
    pub(super) metrics: Option<SubtaskMetrics>,
    pub(super) activity: Option<String>,
    pub(super) host: Option<String>,
}

impl Record {
    pub(super) fn new(submitted_at: WallTime) -> Self {
        let unwatched = Arc::new(WatchQueue::default());
        Self {
            submitted_at,
            status_since: BTreeMap::from([(JobStatus::Initializing, submitted_at)]),
            last_modified_at: submitted_at,
            restarts: 0,
            restored: 0,
            tasks: BTreeMap::new(),
            slot_wait: None,
            end: None,
            last_failure: None,
            suspended_because: None,
            watchers: vec![unwatched.clone()],
            unwatched: Some(unwatched),
        }
    }

    pub(super) fn status(&mut self, status: JobStatus, at: WallTime) {
        self.status_since.insert(status, at);
        self.last_modified_at = at;
        let failure = match status {
            JobStatus::Restarting | JobStatus::Failing | JobStatus::Suspended => {
                self.last_failure.clone()
            }
            JobStatus::Initializing
            | JobStatus::Created
            | JobStatus::Running
            | JobStatus::Failed
            | JobStatus::Cancelling
            | JobStatus::Canceled
            | JobStatus::Finished => None,
        };
        self.publish(&JobEvent::StatusChanged {
            status,
            at,
            failure,
        });
    }

    pub(super) fn watch(&mut self, status: JobStatus) -> JobWatch {
        if let Some(queue) = self.unwatched.take() {
            return queue.watch();
        }
        let queue = Arc::new(WatchQueue::default());
        queue.push(JobEvent::StatusChanged {
            status,
            at: self.last_modified_at,
            failure: None,
        });
        self.watchers.push(queue.clone());
        queue.watch()
    }

    /// What nobody watched, for whoever comes after the end.
    pub(super) fn take_unwatched(&mut self) -> Option<Arc<WatchQueue>> {
        self.unwatched.take()
    }

    /// To everybody who watches; queues without watcher are forgotten.
    pub(super) fn publish(&mut self, event: &JobEvent) {
        let unwatched = self.unwatched.as_ref();
        self.watchers.retain(|queue| {
            let is_kept = unwatched.is_some_and(|kept| Arc::ptr_eq(kept, queue));
            is_kept || Arc::strong_count(queue) > 1
        });
        for queue in &self.watchers {
            queue.push(event.clone());
        }
    }

    pub(super) fn close_watches(&mut self) {
        for queue in self.watchers.drain(..) {
            queue.close();
        }
    }
}
