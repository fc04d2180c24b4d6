//! What an attached client sees of its job: states, printed lines, the end.
//!
//! Invariants: states and the end always arrive, in order; lines find room or are counted as
//! dropped, and the client is told how many.

use std::collections::VecDeque;
use std::sync::Arc;

use futures::Stream;
use millstream_coordination::job::JobStatus;
use millstream_types::{SubtaskId, WallTime};
use parking_lot::Mutex;
use tokio::sync::Notify;

use crate::details::JobEnded;

/// Lines and their bytes that wait for one client.
const LINES_MAX: usize = 20_000;
const BYTES_MAX: usize = 4 << 20;

/// States that wait for one client; of more, the oldest are left out.
const STATUSES_MAX: usize = 1_000;

/// Something that happened to a watched job.
#[derive(Clone, PartialEq, Debug)]
pub enum JobEvent {
    /// It is in this state. Comes first for whoever begins to watch.
    StatusChanged {
        /// The state.
        status: JobStatus,
        /// Since when.
        at: WallTime,
        /// What it failed with, in one line, where it is restarting or failing.
        failure: Option<String>,
    },
    /// A print sink wrote.
    Output {
        /// Which subtask.
        subtask: SubtaskId,
        /// The lines, without line ends.
        lines: Vec<String>,
    },
    /// Lines of print sinks were dropped here, because they were not taken in time.
    OutputDropped {
        /// How many.
        lines: u64,
    },
    /// It ended; nothing follows.
    Ended(JobEnded),
}

/// The watcher's end.
#[derive(Debug)]
pub struct JobWatch {
    queue: Arc<WatchQueue>,
}

impl JobWatch {
    /// The next event; none after the end, or when the jobmanager shuts down before it.
    pub async fn next(&mut self) -> Option<JobEvent> {
        loop {
            let notified = self.queue.changed.notified();
            {
                let mut state = self.queue.state.lock();
                if let Some(event) = state.pop() {
                    return Some(event);
                }
                if state.is_closed {
                    return None;
                }
            }
            notified.await;
        }
    }

    pub(crate) fn of_ended(ended: JobEnded) -> Self {
        let queue = Arc::new(WatchQueue::default());
        queue.push(JobEvent::Ended(ended));
        queue.watch()
    }

    /// The events as a stream.
    pub fn into_stream(self) -> impl Stream<Item = JobEvent> + Send {
        futures::stream::unfold(self, |mut watch| async move {
            let event = watch.next().await?;
            Some((event, watch))
        })
    }
}

/// What waits for one watcher.
#[derive(Debug, Default)]
pub(crate) struct WatchQueue {
    state: Mutex<QueueState>,
    changed: Notify,
}

#[derive(Debug, Default)]
struct QueueState {
    events: VecDeque<JobEvent>,
    lines: usize,
    bytes: usize,
    statuses: usize,
    /// Lines dropped since the last output that found room; said before the next that does.
    dropped: u64,
    is_closed: bool,
}

impl WatchQueue {
    pub(crate) fn watch(self: &Arc<Self>) -> JobWatch {
        JobWatch {
            queue: Arc::clone(self),
        }
    }

    /// Adds an event; lines that find no room are counted. Nothing follows the end.
    pub(crate) fn push(&self, event: JobEvent) {
        let mut state = self.state.lock();
        if state.is_closed {
            return;
        }
        match event {
            JobEvent::Output { subtask, lines } => state.push_output(subtask, lines),
            JobEvent::OutputDropped { lines } => state.dropped += lines,
            JobEvent::StatusChanged { .. } => {
                state.statuses += 1;
                state.events.push_back(event);
                state.forget_old_status();
            }
            JobEvent::Ended(_) => {
                state.say_dropped();
                state.events.push_back(event);
                state.is_closed = true;
            }
        }
        drop(state);
        self.changed.notify_waiters();
    }

    /// Ends the stream without an end of the job.
    pub(crate) fn close(&self) {
        self.state.lock().is_closed = true;
        self.changed.notify_waiters();
    }
}

impl QueueState {
    fn push_output(&mut self, subtask: SubtaskId, lines: Vec<String>) {
        let bytes: usize = lines.iter().map(String::len).sum();
        if self.lines + lines.len() > LINES_MAX || self.bytes + bytes > BYTES_MAX {
            self.dropped += lines.len() as u64;
            return;
        }
        self.say_dropped();
        self.lines += lines.len();
        self.bytes += bytes;
        self.events.push_back(JobEvent::Output { subtask, lines });
    }

    fn say_dropped(&mut self) {
        let lines = std::mem::take(&mut self.dropped);
        if lines > 0 {
            self.events.push_back(JobEvent::OutputDropped { lines });
        }
    }

    fn forget_old_status(&mut self) {
        if self.statuses <= STATUSES_MAX {
            return;
        }
        let is_status = |event: &JobEvent| matches!(event, JobEvent::StatusChanged { .. });
        if let Some(oldest) = self.events.iter().position(is_status) {
            self.events.remove(oldest);
            self.statuses -= 1;
        }
    }

    fn pop(&mut self) -> Option<JobEvent> {
        let event = self.events.pop_front()?;
        match &event {
            JobEvent::Output { lines, .. } => {
                self.lines -= lines.len();
                self.bytes -= lines.iter().map(String::len).sum::<usize>();
            }
            JobEvent::StatusChanged { .. } => self.statuses -= 1,
            JobEvent::OutputDropped { .. } | JobEvent::Ended(_) => {}
        }
        Some(event)
    }
}
