//! What tasks say, as the machines take it.

use millstream_coordination::checkpoint::{self, Origin};
use millstream_coordination::job::{self, ExecutionState};
use millstream_coordination::protocol::{
    FromTaskmanager, OutputLines, SubtaskMetrics, TaskAddress, TaskReport, ToTaskmanager,
};
use millstream_types::TaskmanagerId;
use tracing::debug;

use super::{Master, TaskMessage, Work};
use crate::watch::JobEvent;

impl Master {
    pub(super) fn on_message(&mut self, message: TaskMessage) {
        match message {
            TaskMessage::Sent(from, message) => self.on_sent(from, *message),
            TaskMessage::Reported { taskmanager, tasks } => self.on_reported(taskmanager, tasks),
            TaskMessage::Metrics(metrics) => self.on_metrics(*metrics),
        }
    }

    fn on_sent(&mut self, from: Origin, message: FromTaskmanager) {
        let work = match message {
            FromTaskmanager::SubtaskState {
                epoch,
                subtask,
                attempt,
                state,
                failure,
                job: _,
            } => Work::Job(job::Event::TaskState {
                epoch,
                subtask,
                attempt,
                state,
                failure,
            }),
            FromTaskmanager::Acknowledge(message) => {
                let ack = message.into_acknowledgement(from);
                Work::Checkpoint(checkpoint::Event::Acknowledge(Box::new(ack)))
            }
            FromTaskmanager::Decline(message) => {
                let decline = message.into_decline(from);
                Work::Checkpoint(checkpoint::Event::Decline(Box::new(decline)))
            }
            FromTaskmanager::UploadStopped {
                epoch,
                subtask,
                checkpoint,
                objects,
                job: _,
            } => Work::Checkpoint(checkpoint::Event::UploadStopped(
                checkpoint::UploadStopped {
                    epoch,
                    subtask,
                    checkpoint,
                    objects,
                },
            )),
            FromTaskmanager::EndOfData {
                epoch,
                subtask,
                attempt,
                job: _,
            } => Work::Checkpoint(checkpoint::Event::EndOfData {
                epoch,
                subtask,
                attempt,
            }),
            FromTaskmanager::JobProcessStarted { epoch, address, .. } => {
                self.on_process_started(from.taskmanager, epoch, address);
                return;
            }
            FromTaskmanager::JobProcessFailed { epoch, failure, .. } => {
                self.on_process_failed(from.taskmanager, epoch, failure);
                return;
            }
            FromTaskmanager::Output(lines) => {
                self.on_output(lines);
                return;
            }
            // The session handles these.
            FromTaskmanager::Register(_)
            | FromTaskmanager::Heartbeat(_)
            | FromTaskmanager::SlotFreed { .. }
            | FromTaskmanager::Metrics(_)
            | FromTaskmanager::Leaving => return,
        };
        self.work.push_back(work);
    }

    fn on_output(&mut self, output: OutputLines) {
        if self.job.epoch() != Some(output.epoch) {
            debug!(job_id = %self.id, epoch = output.epoch.0, "lines of a fenced task left out");
            return;
        }
        if output.dropped > 0 {
            self.record.publish(&JobEvent::OutputDropped {
                lines: output.dropped,
            });
        }
        if !output.lines.is_empty() {
            self.record.publish(&JobEvent::Output {
                subtask: output.subtask,
                lines: output.lines,
            });
        }
    }

    fn on_reported(&mut self, taskmanager: TaskmanagerId, reports: Vec<TaskReport>) {
        let epoch = self.job.epoch();
        let mut unheard = Vec::new();
        for TaskReport { task, activity } in &reports {
            let execution = self.job.executions().get(&task.subtask);
            let is_current = epoch == Some(task.epoch)
                && execution.is_some_and(|execution| execution.attempt == task.attempt);
            if !is_current {
                continue;
            }
            let record = self.record.tasks.entry(task.subtask).or_default();
            if activity.is_some() || record.activity.is_some() {
                let (subtask, activity) = (task.subtask, activity.clone());
                let event = checkpoint::Event::Activity { subtask, activity };
                self.work.push_back(Work::Checkpoint(event));
            }
            record.activity.clone_from(activity);
            // The word to stop was lost with a connection.
            let is_stopping = execution.is_some_and(|e| e.state == ExecutionState::Canceling);
            if is_stopping && task.state < ExecutionState::Canceling {
                unheard.push(TaskAddress {
                    subtask: task.subtask,
                    attempt: task.attempt,
                });
            }
        }
        if let (Some(epoch), false) = (epoch, unheard.is_empty()) {
            let message = ToTaskmanager::Cancel {
                job: self.id,
                epoch,
                subtasks: unheard,
            };
            self.connections.send(&taskmanager, message);
        }
        let tasks = reports.into_iter().map(|report| report.task).collect();
        self.work
            .push_back(Work::Job(job::Event::Reported { taskmanager, tasks }));
    }

    fn on_metrics(&mut self, metrics: SubtaskMetrics) {
        let execution = self.job.executions().get(&metrics.task.subtask);
        let is_current = self.job.epoch() == Some(metrics.epoch)
            && execution.is_some_and(|execution| execution.attempt == metrics.task.attempt);
        if is_current {
            let record = self.record.tasks.entry(metrics.task.subtask).or_default();
            record.metrics = Some(metrics);
        }
    }
}
