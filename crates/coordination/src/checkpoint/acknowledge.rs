//! What tasks answer to a checkpoint (B1.3, B1.4).

use millstream_types::sabotage::Rule;

use super::coordinator::{Coordinator, Phase};
use super::history::AckRecord;
use super::messages::{Acknowledgement, Action, Decline, UploadStopped};
use super::notice::{Notice, TaskMessage, TaskNotice};
use crate::moment::Moment;

/// What an acknowledgement is to its checkpoint.
enum Answer {
    Counts,
    /// Acknowledged already: its state is part of the checkpoint and must not be deleted.
    Duplicate,
    /// Of an execution that is not part of the checkpoint.
    Unknown,
    /// Of an epoch that was fenced.
    Stale,
    /// Of a checkpoint that is over.
    Over,
}

impl Coordinator {
    pub(super) fn on_acknowledge(
        &mut self,
        at: Moment,
        ack: Acknowledgement,
        actions: &mut Vec<Action>,
    ) {
        if ack.job != self.job {
            let (found, job) = (ack.job, self.job);
            actions.push(Action::Log(Notice::WrongJob { found, job }));
            return;
        }
        match self.judge(&ack) {
            Answer::Duplicate => {}
            Answer::Counts => self.accept(at, ack, actions),
            Answer::Unknown => {
                self.note(&ack, TaskMessage::UnknownTask, actions);
                self.discard(&ack, actions);
            }
            Answer::Stale => {
                let stale = TaskMessage::Stale {
                    epoch: ack.epoch,
                    current: self.run.as_ref().map(|run| run.epoch),
                };
                self.note(&ack, stale, actions);
                self.discard(&ack, actions);
            }
            Answer::Over => self.on_late(at, &ack, actions),
        }
    }

    fn note(&self, ack: &Acknowledgement, what: TaskMessage, actions: &mut Vec<Action>) {
        actions.push(Action::Log(Notice::Task(TaskNotice {
            checkpoint: ack.checkpoint,
            task: self.task_name(ack.subtask, ack.attempt),
            job: self.job,
            from: ack.from.clone(),
            what,
        })));
    }

    fn judge(&self, ack: &Acknowledgement) -> Answer {
        let run = self.run.as_ref();
        let ignores_epoch = self.sabotage.removed(Rule::AcceptAnyEpoch);
        if run.is_none_or(|run| run.epoch != ack.epoch) && !ignores_epoch {
            return Answer::Stale;
        }
        let Some(pending) = self.pending.get(&ack.checkpoint) else {
            return Answer::Over;
        };
        let task = run.and_then(|run| run.tasks.get(&ack.subtask));
        if task.is_none_or(|task| task.attempt != ack.attempt) && !ignores_epoch {
            Answer::Unknown
        } else if pending.awaiting.contains(&ack.subtask) {
            Answer::Counts
        } else if pending.snapshots.contains_key(&ack.subtask)
            || !matches!(pending.phase, Phase::Collecting)
        {
            Answer::Duplicate
        } else {
            Answer::Unknown
        }
    }

    fn accept(&mut self, at: Moment, ack: Acknowledgement, actions: &mut Vec<Action>) {
        let new_bytes = self.retention.new_bytes(&ack.snapshot);
        let record = ack_record(at, &ack, new_bytes, false);
        let Some(pending) = self.pending.get_mut(&ack.checkpoint) else {
            return;
        };
        pending.awaiting.remove(&ack.subtask);
        pending.snapshots.insert(ack.subtask, ack.snapshot);
        self.history
            .acknowledge(ack.checkpoint, ack.subtask, record);
        self.complete_if_acknowledged(at, ack.checkpoint, actions);
    }

    /// The uploader is done, so its private objects can go. Shared ones are orphans for the sweep.
    fn on_late(&mut self, at: Moment, ack: &Acknowledgement, actions: &mut Vec<Action>) {
        let new_bytes = self.retention.new_bytes(&ack.snapshot);
        let record = ack_record(at, ack, new_bytes, true);
        self.history
            .acknowledge(ack.checkpoint, ack.subtask, record);
        let checkpoint = ack.checkpoint;
        let what = if self.recent.contains(&checkpoint) {
            TaskMessage::Late
        } else {
            TaskMessage::UnknownCheckpoint
        };
        self.note(ack, what, actions);
        self.retention.on_upload_stopped(checkpoint, ack.subtask);
        self.discard(ack, actions);
    }

    /// A subtask uploads nothing more for a checkpoint; what it had stored goes. What one of another
    /// epoch had is swept.
    pub(super) fn on_upload_stopped(&mut self, stopped: &UploadStopped, actions: &mut Vec<Action>) {
        let (id, epoch) = (stopped.checkpoint, stopped.epoch);
        self.retention.on_upload_stopped(id, stopped.subtask);
        let is_of_this_run = self.run.as_ref().is_some_and(|run| run.epoch == epoch);
        if is_of_this_run && !self.retention.must_keep(id) {
            let objects = stopped.objects.iter();
            self.retention.discard(id, epoch, objects, actions);
        }
    }

    /// Deletes the private objects of an acknowledgement that no checkpoint took, unless it may
    /// repeat one that was taken: then what it names is in use.
    fn discard(&mut self, ack: &Acknowledgement, actions: &mut Vec<Action>) {
        let id = ack.checkpoint;
        let Some(run) = &self.run else {
            return;
        };
        let is_of_this_run = ack.epoch == run.epoch;
        let may_be_taken = match self.pending.get(&id) {
            // Another attempt's objects have other names than those of the one that counts.
            Some(pending) => pending.epoch == ack.epoch && !is_of_this_run,
            // Of an earlier epoch, anything up to the newest may have completed.
            None => !is_of_this_run && self.retention.latest().is_some_and(|last| id <= last),
        };
        if !may_be_taken && !self.retention.must_keep(id) {
            // Which files a task of another epoch reused is not known here: they are swept.
            let objects = ack.snapshot.objects();
            let objects = objects.filter(|name| is_of_this_run || !name.is_shared());
            self.retention.discard(id, ack.epoch, objects, actions);
        }
    }

    pub(super) fn on_decline(&mut self, at: Moment, decline: Decline, actions: &mut Vec<Action>) {
        if decline.job != self.job {
            let (found, job) = (decline.job, self.job);
            actions.push(Action::Log(Notice::WrongJob { found, job }));
            return;
        }
        let Decline {
            subtask,
            attempt,
            checkpoint,
            ..
        } = decline;
        self.retention.on_upload_stopped(checkpoint, subtask);
        let is_current = self.task_mut(decline.epoch, subtask, attempt).is_some();
        let is_awaited = self
            .pending
            .get(&checkpoint)
            .is_some_and(|pending| pending.awaiting.contains(&subtask));
        if !is_current || !is_awaited {
            return;
        }
        actions.push(Action::Log(Notice::Task(TaskNotice {
            checkpoint,
            task: self.task_name(subtask, attempt),
            job: self.job,
            from: decline.from,
            what: TaskMessage::Declined {
                message: decline.message.clone(),
            },
        })));
        let reason = decline.reason.into();
        let by = Some((subtask, attempt));
        self.abort(at, checkpoint, reason, decline.message, by, actions);
    }
}

fn ack_record(at: Moment, ack: &Acknowledgement, new_bytes: u64, is_late: bool) -> AckRecord {
    AckRecord {
        acknowledged_at: at.wall,
        state_bytes: ack.snapshot.size(),
        new_bytes,
        metrics: ack.metrics,
        is_late,
    }
}
