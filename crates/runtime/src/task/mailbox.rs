//! What a task is told from outside.

use std::collections::VecDeque;
use std::sync::Arc;

use millstream_exchange::Barrier;
use millstream_types::CheckpointId;
use parking_lot::Mutex;

use crate::signal::Signal;

/// Messages that a task has not read yet. A task that reads none is stuck and will be replaced;
/// notices beyond this number are superseded by later ones.
const MESSAGES_MAX: usize = 1_024;

/// A message to a task.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum TaskControl {
    /// Begin a checkpoint.
    Trigger(Barrier),
    /// A checkpoint is complete, and everything before it.
    Completed(CheckpointId),
    /// A checkpoint was given up.
    Aborted(CheckpointId),
    /// Stop.
    Cancel,
}

/// Both ends of a task's messages.
#[derive(Clone)]
pub(crate) struct Mailbox {
    messages: Arc<Mutex<VecDeque<TaskControl>>>,
    signal: Signal,
}

impl Mailbox {
    pub(crate) fn new(signal: Signal) -> Self {
        Self {
            messages: Arc::default(),
            signal,
        }
    }

    pub(crate) fn put(&self, control: TaskControl) {
        let mut messages = self.messages.lock();
        if control == TaskControl::Cancel {
            // Nothing said before matters any more.
            messages.clear();
        } else if messages.len() >= MESSAGES_MAX {
            messages.pop_front();
        }
        messages.push_back(control);
        drop(messages);
        self.signal.ring();
    }

    pub(crate) fn take(&self) -> Option<TaskControl> {
        self.messages.lock().pop_front()
    }
}
