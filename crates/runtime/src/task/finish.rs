//! The end of a task: drain, wait for the final checkpoint, leave (B5.6-B5.9).

use millstream_coordination::failure::FailureInfo;
use millstream_coordination::protocol::FromTaskmanager;
use millstream_exchange::Element;
use millstream_operator::Event;
use millstream_types::{CheckpointId, EventTime};

use super::Task;

/// How far a task is on its way to the end.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Finish {
    /// It has data.
    Running,
    /// Its last rows are leaving the chain.
    Draining { drain: bool },
    /// It waits for a checkpoint taken after its last row.
    AwaitingFinal {
        /// The first such checkpoint.
        taken: Option<CheckpointId>,
        /// Whether it, or a later one, is complete.
        is_complete: bool,
    },
    /// Nothing to wait for: the job takes no checkpoints.
    Free,
}

impl Finish {
    pub(super) fn on_snapshot(&mut self, checkpoint: CheckpointId) {
        if let Self::AwaitingFinal { taken, .. } = self {
            taken.get_or_insert(checkpoint);
        }
    }

    pub(super) fn on_completed(&mut self, checkpoint: CheckpointId) {
        if let Self::AwaitingFinal {
            taken: Some(taken),
            is_complete,
        } = self
        {
            *is_complete |= checkpoint >= *taken;
        }
    }
}

impl Task {
    /// There is no more data: sends the end through the chain.
    pub(super) fn begin_finish(&mut self, drain: bool) {
        if self.finish != Finish::Running {
            return;
        }
        self.finish = Finish::Draining { drain };
        if drain {
            self.chain.push_event(Event::Watermark(EventTime::MAX));
            self.chain.push_event(Event::EndOfInput);
            self.chain.push_event(Event::Finish);
        }
    }

    /// When the chain has let go of its last rows: says so downstream and to the jobmanager.
    /// Returns whether there was something to do.
    pub(super) fn end_draining(&mut self) -> Result<bool, FailureInfo> {
        let Finish::Draining { drain } = self.finish else {
            return Ok(false);
        };
        self.outputs.mark(&Element::EndOfData { drain })?;
        if !self.is_checkpointing {
            self.finish = Finish::Free;
            return Ok(true);
        }
        self.finish = Finish::AwaitingFinal {
            taken: None,
            is_complete: false,
        };
        let target = &self.target;
        target.uplink.send(FromTaskmanager::EndOfData {
            job: target.job,
            epoch: target.epoch,
            subtask: target.task.subtask,
            attempt: target.task.attempt,
        });
        Ok(true)
    }

    /// Whether the task may leave.
    pub(super) fn is_done(&self) -> bool {
        match self.finish {
            Finish::Free => true,
            Finish::AwaitingFinal {
                taken: Some(taken),
                is_complete: true,
            } => self.chain.has_committed(taken),
            Finish::Running | Finish::Draining { .. } | Finish::AwaitingFinal { .. } => false,
        }
    }

    /// Leaves.
    pub(super) fn end_partition(&mut self) -> Result<(), FailureInfo> {
        self.outputs.mark(&Element::EndOfPartition)
    }
}
