//! Barriers: alignment, the synchronous part of snapshots, what becomes of checkpoints.

use millstream_coordination::checkpoint::DeclineReason;
use millstream_coordination::failure::{FailureInfo, FailureKind};
use millstream_coordination::protocol::{DeclineMessage, FromTaskmanager};
use millstream_coordination::snapshot_types::CheckpointMetrics;
use millstream_env::fail_points;
use millstream_exchange::align::{
    AlignAction, AlignEvent, AlignmentMetrics, DeclineReason as Aligned,
};
use millstream_exchange::{Barrier, Element};
use millstream_operator::Event;
use millstream_telemetry::catalog;
use millstream_types::{CheckpointId, MonoTime};
use tracing::warn;

use super::{Head, Task};
use crate::chain::SnapshotError;
use crate::log;
use crate::snapshot::{OperatorWork, TakenSnapshot};

impl Task {
    /// Steps the alignment; what it wants is done when the chain is empty, but for channels, which
    /// are blocked at once.
    pub(super) fn align(&mut self, now: MonoTime, event: AlignEvent) {
        let mut actions = Vec::new();
        self.alignment.step(now, event, &mut actions);
        for action in actions {
            match action {
                AlignAction::Block(channel) => {
                    self.gate.block(channel);
                    self.target.env.fail_points().hit(fail_points::ALIGNMENT);
                }
                AlignAction::Log(line) => log::alignment(&self.name, &line),
                later => self.aligned.push_back(later),
            }
        }
    }

    pub(super) fn on_trigger(&mut self, now: MonoTime, barrier: Barrier) {
        self.align(now, AlignEvent::Trigger { barrier });
    }

    pub(super) fn on_completed(&mut self, checkpoint: CheckpointId) {
        self.chain.checkpoint_completed(checkpoint);
        self.chain
            .push_event(Event::CheckpointCompleted(checkpoint));
        if let Head::Enumerator(enumerator) = &mut self.head {
            enumerator.on_completed(checkpoint);
        }
        self.finish.on_completed(checkpoint);
    }

    pub(super) fn on_aborted(&mut self, now: MonoTime, checkpoint: CheckpointId) {
        self.uploads.abort(checkpoint);
        self.align(now, AlignEvent::AbortedByJobmanager { id: checkpoint });
        self.chain.push_event(Event::CheckpointAborted(checkpoint));
    }

    pub(super) fn on_aligned(
        &mut self,
        now: MonoTime,
        action: AlignAction,
    ) -> Result<(), FailureInfo> {
        match action {
            AlignAction::Unblock(channels) => self.gate.unblock(&channels),
            AlignAction::Snapshot { barrier, metrics } => self.snapshot(now, barrier, metrics)?,
            AlignAction::Decline { id, reason } => {
                let message = format!("{} gave up the checkpoint", self.name);
                self.decline(id, reason, message);
            }
            AlignAction::ForwardCancel { id } => self.outputs.cancel(id),
            AlignAction::Block(channel) => self.gate.block(channel),
            AlignAction::Log(_) => {}
        }
        Ok(())
    }

    /// Pre-barrier hook, barrier out, synchronous part, asynchronous part begun (B2).
    fn snapshot(
        &mut self,
        now: MonoTime,
        barrier: Barrier,
        aligned: AlignmentMetrics,
    ) -> Result<(), FailureInfo> {
        let checkpoint = barrier.id;
        self.log_start(checkpoint);
        self.chain.push_event(Event::PreBarrier(checkpoint));
        self.chain.run(now, &mut self.outputs, false)?;
        let hooked_at = self.now();
        if let Head::Enumerator(enumerator) = &mut self.head {
            enumerator.on_barrier(checkpoint);
        }
        self.outputs.mark(&Element::Barrier(barrier))?;
        // Whether its notification arrived or not: what older ones left may be gone.
        if let Some(completed) = barrier.completed {
            self.chain.checkpoint_completed(completed);
        }
        let parts = match self.take_parts(checkpoint, hooked_at) {
            Ok(parts) => parts,
            Err(SnapshotError::Failed(failure)) => return Err(failure),
            Err(SnapshotError::Refused(failure)) => {
                warn!(
                    checkpoint_id = checkpoint.0,
                    "{}: snapshot refused: {failure}", self.name
                );
                let reason = Aligned::SnapshotFailed;
                self.align(
                    now,
                    AlignEvent::SnapshotRefused {
                        id: checkpoint,
                        reason,
                    },
                );
                return Ok(());
            }
        };
        let frozen_at = self.now();
        self.log_frozen(checkpoint, &parts);
        self.finish.on_snapshot(checkpoint);
        let metrics = CheckpointMetrics {
            start_delay: aligned.start_delay,
            alignment: aligned.alignment,
            pre_barrier: hooked_at.saturating_since(now),
            synchronous: frozen_at.saturating_since(hooked_at),
            processed_in_flight_bytes: aligned.bytes_processed,
            ..CheckpointMetrics::default()
        };
        self.target.env.fail_points().hit(fail_points::SNAPSHOT);
        let taken = TakenSnapshot {
            checkpoint,
            parts,
            metrics,
            frozen_at,
        };
        self.uploads.begin(&self.target, taken);
        Ok(())
    }

    fn take_parts(
        &mut self,
        checkpoint: CheckpointId,
        now: MonoTime,
    ) -> Result<Vec<OperatorWork>, SnapshotError> {
        let clock = self.target.env.clock().clone();
        let mut parts = self.chain.snapshot(checkpoint, now, &clock)?;
        let elements = match &mut self.head {
            Head::Operator => return Ok(parts),
            Head::Reader(reader) => reader.snapshot().map_err(|mut failure| {
                failure.kind = FailureKind::SynchronousSnapshot;
                SnapshotError::Failed(failure)
            })?,
            Head::Enumerator(enumerator) => enumerator.snapshot(),
        };
        if let Some(head) = parts.first_mut() {
            head.elements = elements;
        }
        Ok(parts)
    }

    fn log_start(&self, checkpoint: CheckpointId) {
        log::detail(checkpoint, || {
            let (number, of) = (self.target.task.subtask.index + 1, self.parallelism);
            catalog::task_checkpoint_started(
                checkpoint,
                "CHECKPOINT",
                &self.vertex_name,
                number,
                of,
            )
        });
    }

    fn log_frozen(&self, checkpoint: CheckpointId, parts: &[OperatorWork]) {
        for part in parts {
            log::detail(checkpoint, || {
                catalog::snapshot_synchronous_part(
                    &part.name,
                    self.target.location(),
                    log::thread(),
                    part.synchronous.as_millis(),
                )
            });
        }
    }

    fn decline(&self, checkpoint: CheckpointId, reason: Aligned, message: String) {
        let reason = match reason {
            Aligned::Subsumed => DeclineReason::Subsumed,
            Aligned::OnCancellationBarrier => DeclineReason::OnCancellationBarrier,
            Aligned::InputEndOfStream => DeclineReason::InputEndOfStream,
            Aligned::TaskClosing => DeclineReason::TaskClosing,
            Aligned::SnapshotFailed => DeclineReason::Generic,
        };
        let target = &self.target;
        target
            .uplink
            .send(FromTaskmanager::Decline(Box::new(DeclineMessage {
                job: target.job,
                epoch: target.epoch,
                task: target.task,
                checkpoint,
                reason,
                message,
            })));
    }
}
