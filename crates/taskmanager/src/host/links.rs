//! Tasks that lose their channels fail with the reason of that.
//!
//! The tasks themselves know of it only that they were told to stop. So their end is reported once
//! they did: what is reported as ended can do nothing any more.

use std::collections::BTreeMap;
use std::sync::Arc;

use millstream_coordination::failure::FailureInfo;
use millstream_coordination::job::ExecutionState;
use millstream_coordination::protocol::{FromTaskmanager, TaskAddress};
use millstream_runtime::Uplink;
use millstream_types::{Epoch, SubtaskId};
use parking_lot::Mutex;
use tokio::sync::Notify;

use super::{LinkFailures, QueueUplink};

/// Tasks that lost channels in one epoch, each with the first reason. Bounded by the tasks of the
/// job that run here, however many of their channels break and however late they are looked at.
#[derive(Default)]
struct Broken {
    epoch: Epoch,
    tasks: BTreeMap<SubtaskId, FailureInfo>,
}

/// An uplink that knows why tasks were told to stop.
pub(super) struct Links {
    uplink: Arc<QueueUplink>,
    expected: Mutex<BTreeMap<TaskAddress, FailureInfo>>,
    broken: Mutex<Broken>,
    news: Notify,
}

impl Links {
    pub(super) fn new(uplink: Arc<QueueUplink>) -> Arc<Self> {
        Arc::new(Self {
            uplink,
            expected: Mutex::default(),
            broken: Mutex::default(),
            news: Notify::new(),
        })
    }

    /// A new epoch: what the data plane tells is of this one. Whoever tells never waits.
    pub(super) fn begin(self: &Arc<Self>, epoch: Epoch) -> LinkFailures {
        self.expected.lock().clear();
        *self.broken.lock() = Broken {
            epoch,
            tasks: BTreeMap::new(),
        };
        let links = Arc::clone(self);
        Arc::new(move |tasks, failure| {
            let mut broken = links.broken.lock();
            // The data plane of an epoch that is over may still have something to say.
            if broken.epoch == epoch {
                for task in tasks {
                    broken.tasks.entry(task).or_insert_with(|| failure.clone());
                }
                links.news.notify_one();
            }
        })
    }

    /// Waits for tasks that lost channels. Nothing is lost when it is dropped while it waits.
    pub(super) async fn broken(&self) -> BTreeMap<SubtaskId, FailureInfo> {
        loop {
            let tasks = std::mem::take(&mut self.broken.lock().tasks);
            if !tasks.is_empty() {
                return tasks;
            }
            self.news.notified().await;
        }
    }

    /// This task is being stopped because of this; the first reason is kept.
    pub(super) fn expect_failure(&self, task: TaskAddress, failure: FailureInfo) {
        self.expected.lock().entry(task).or_insert(failure);
    }
}

impl Uplink for Links {
    fn send(&self, mut message: FromTaskmanager) {
        if let FromTaskmanager::SubtaskState {
            subtask,
            attempt,
            state,
            failure,
            ..
        } = &mut message
            && *state == ExecutionState::Canceled
            && let Some(reason) = self
                .expected
                .lock()
                .remove(&TaskAddress::from((*subtask, *attempt)))
        {
            *state = ExecutionState::Failed;
            *failure = Some(reason);
        }
        self.uplink.send(message);
    }
}

#[cfg(test)]
mod tests {
    use millstream_coordination::failure::FailureKind;
    use millstream_types::Attempt;

    use super::*;
    use crate::testing::{state, subtask};

    #[test]
    fn a_task_that_lost_its_channels_fails_with_that_reason_and_others_are_canceled() {
        let (uplink, mut queue) = QueueUplink::new();
        let links = Links::new(uplink);
        let reason = FailureInfo::new(FailureKind::Link, "connection to tm-2 broke");
        links.expect_failure(TaskAddress::from((subtask(0), Attempt(0))), reason.clone());
        for index in [0, 1] {
            links.send(state(1, index, ExecutionState::Canceled));
        }
        let mut failed = state(1, 0, ExecutionState::Failed);
        if let FromTaskmanager::SubtaskState { failure, .. } = &mut failed {
            *failure = Some(reason);
        }
        assert_eq!(queue.try_recv().unwrap(), failed);
        let canceled = state(1, 1, ExecutionState::Canceled);
        assert_eq!(queue.try_recv().unwrap(), canceled);
    }

    #[tokio::test]
    async fn what_broke_is_kept_once_a_task_and_not_beyond_its_epoch() {
        let links = Links::new(QueueUplink::new().0);
        let failure = |text: &str| FailureInfo::new(FailureKind::Link, text);
        let earlier = links.begin(Epoch(3));
        earlier(vec![subtask(0)], failure("of another epoch"));
        let failures = links.begin(Epoch(4));
        earlier(vec![subtask(0)], failure("late"));
        for n in 0..1_000 {
            failures(vec![subtask(1), subtask(2)], failure(&format!("reset {n}")));
        }
        let first = || failure("reset 0");
        let expected = BTreeMap::from([(subtask(1), first()), (subtask(2), first())]);
        assert_eq!(links.broken().await, expected);
        failures(vec![subtask(1)], failure("again"));
        let again = BTreeMap::from([(subtask(1), failure("again"))]);
        assert_eq!(links.broken().await, again);
    }
}
