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
use tokio::sync::mpsc;

use super::{LinkFailures, QueueUplink};

/// Channels that broke.
#[derive(Clone, PartialEq, Debug)]
pub(super) struct LinkFailure {
    pub(super) epoch: Epoch,
    pub(super) tasks: Vec<SubtaskId>,
    pub(super) failure: FailureInfo,
}

/// An uplink that knows why tasks were told to stop.
pub(super) struct Links {
    uplink: Arc<QueueUplink>,
    expected: Mutex<BTreeMap<TaskAddress, FailureInfo>>,
    /// Few at a time: one for each connection that breaks.
    broken: mpsc::UnboundedSender<LinkFailure>,
}

impl Links {
    pub(super) fn new(
        uplink: Arc<QueueUplink>,
    ) -> (Arc<Self>, mpsc::UnboundedReceiver<LinkFailure>) {
        let (broken, receiver) = mpsc::unbounded_channel();
        let expected = Mutex::default();
        let links = Self {
            uplink,
            expected,
            broken,
        };
        (Arc::new(links), receiver)
    }

    /// A new epoch: what the data plane tells is of this one.
    pub(super) fn begin(&self, epoch: Epoch) -> LinkFailures {
        self.expected.lock().clear();
        let broken = self.broken.clone();
        Arc::new(move |tasks, failure| {
            // The loop that reads it ends with the process.
            let _ = broken.send(LinkFailure {
                epoch,
                tasks,
                failure,
            });
        })
    }

    /// These tasks are being stopped because of this; the first reason is kept.
    pub(super) fn expect_failure(&self, tasks: &[TaskAddress], failure: &FailureInfo) {
        let mut expected = self.expected.lock();
        for task in tasks {
            expected.entry(*task).or_insert_with(|| failure.clone());
        }
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
        let (links, _broken) = Links::new(uplink);
        let reason = FailureInfo::new(FailureKind::Link, "connection to tm-2 broke");
        links.expect_failure(&[TaskAddress::from((subtask(0), Attempt(0)))], &reason);
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

    #[test]
    fn what_broke_is_told_with_its_epoch() {
        let (links, mut broken) = Links::new(QueueUplink::new().0);
        let failures = links.begin(Epoch(4));
        let failure = FailureInfo::new(FailureKind::Link, "reset");
        failures(vec![subtask(1)], failure.clone());
        let expected = LinkFailure {
            epoch: Epoch(4),
            tasks: vec![subtask(1)],
            failure,
        };
        assert_eq!(broken.try_recv().unwrap(), expected);
    }
}
