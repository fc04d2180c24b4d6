//! The way from tasks to their taskmanager: a bounded queue that never waits.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use millstream_coordination::protocol::{FromTaskmanager, OutputLines};
use millstream_env::StopSignal;
use millstream_runtime::Uplink;
use tokio::sync::mpsc;

/// Messages that may wait. A heartbeat of the largest job is one; a restart has a few per task.
const QUEUE_MAX: usize = 65_536;

/// Puts messages into a queue. Lines of print sinks have half of it to themselves; beyond, they are
/// dropped and counted. Should anything else not fit, the way counts as broken.
#[derive(Debug)]
pub struct QueueUplink {
    queue: mpsc::Sender<FromTaskmanager>,
    dropped_lines: AtomicU64,
    broken: StopSignal,
}

impl QueueUplink {
    /// The uplink and the queue's other end.
    pub fn new() -> (Arc<Self>, mpsc::Receiver<FromTaskmanager>) {
        Self::with_room(QUEUE_MAX)
    }

    fn with_room(messages: usize) -> (Arc<Self>, mpsc::Receiver<FromTaskmanager>) {
        let (queue, receiver) = mpsc::channel(messages);
        let uplink = Self {
            queue,
            dropped_lines: AtomicU64::new(0),
            broken: StopSignal::new(),
        };
        (Arc::new(uplink), receiver)
    }

    /// Fires once a message was lost.
    pub fn broken(&self) -> StopSignal {
        self.broken.clone()
    }

    fn has_room_for_lines(&self) -> bool {
        self.queue.capacity() * 2 > self.queue.max_capacity()
    }
}

impl Uplink for QueueUplink {
    fn send(&self, mut message: FromTaskmanager) {
        if let FromTaskmanager::Output(output) = &mut message {
            let lost = output.lines.len() as u64 + output.dropped;
            if !self.has_room_for_lines() {
                self.dropped_lines.fetch_add(lost, Ordering::Relaxed);
                return;
            }
            output.dropped += self.dropped_lines.swap(0, Ordering::Relaxed);
        } else if let Some(last) =
            last_count(&message, || self.dropped_lines.swap(0, Ordering::Relaxed))
        {
            // No line may follow that could say it.
            let _ = self.queue.try_send(last);
        }
        match self.queue.try_send(message) {
            // Nobody listens any more: the taskmanager gave this process up.
            Ok(()) | Err(mpsc::error::TrySendError::Closed(_)) => {}
            Err(mpsc::error::TrySendError::Full(_)) => self.broken.cancel(),
        }
    }
}

/// What is said of dropped lines in front of the end of a task, if any were.
pub(crate) fn last_count(
    message: &FromTaskmanager,
    dropped: impl FnOnce() -> u64,
) -> Option<FromTaskmanager> {
    let FromTaskmanager::SubtaskState {
        job,
        epoch,
        subtask,
        state,
        ..
    } = message
    else {
        return None;
    };
    let dropped = state.is_terminal().then(dropped).filter(|n| *n > 0)?;
    Some(FromTaskmanager::Output(OutputLines {
        job: *job,
        epoch: *epoch,
        subtask: *subtask,
        lines: Vec::new(),
        dropped,
    }))
}

#[cfg(test)]
mod tests {
    use millstream_coordination::job::ExecutionState;
    use millstream_types::{Attempt, Epoch, JobId, SubtaskId, VertexId};

    use super::*;

    fn line(text: &str) -> FromTaskmanager {
        FromTaskmanager::Output(OutputLines {
            job: JobId::from_bytes([1; 16]),
            epoch: Epoch(1),
            subtask: SubtaskId::new(VertexId(0), 0),
            lines: vec![text.to_owned()],
            dropped: 0,
        })
    }

    fn lines_and_dropped(message: FromTaskmanager) -> (Vec<String>, u64) {
        match message {
            FromTaskmanager::Output(output) => (output.lines, output.dropped),
            other => panic!("no lines: {other:?}"),
        }
    }

    #[test]
    fn lines_that_nobody_takes_are_dropped_and_counted() {
        let (uplink, mut queue) = QueueUplink::with_room(4);
        for text in ["a", "b", "c", "d", "e"] {
            uplink.send(line(text));
        }
        let mut taken = Vec::new();
        while let Ok(message) = queue.try_recv() {
            taken.push(lines_and_dropped(message));
        }
        assert_eq!(
            taken,
            [(vec!["a".to_owned()], 0), (vec!["b".to_owned()], 0)]
        );
        uplink.send(line("f"));
        let next = lines_and_dropped(queue.try_recv().unwrap());
        assert_eq!(next, (vec!["f".to_owned()], 3));
        assert!(!uplink.broken().is_cancelled());
    }

    #[test]
    fn lines_dropped_last_are_said_before_their_task_ends() {
        let (uplink, mut queue) = QueueUplink::with_room(4);
        for text in ["a", "b", "c"] {
            uplink.send(line(text));
        }
        let end = FromTaskmanager::SubtaskState {
            job: JobId::from_bytes([1; 16]),
            epoch: Epoch(1),
            subtask: SubtaskId::new(VertexId(0), 0),
            attempt: Attempt(0),
            state: ExecutionState::Finished,
            failure: None,
        };
        uplink.send(end.clone());
        let _ = (queue.try_recv(), queue.try_recv());
        let said = lines_and_dropped(queue.try_recv().unwrap());
        assert_eq!(said, (Vec::new(), 1));
        assert_eq!(queue.try_recv().unwrap(), end);
    }

    #[test]
    fn a_lost_message_that_is_no_line_breaks_the_way() {
        let (uplink, _queue) = QueueUplink::with_room(2);
        for _ in 0..3 {
            uplink.send(FromTaskmanager::Metrics(Vec::new()));
        }
        assert!(uplink.broken().is_cancelled());
    }
}
