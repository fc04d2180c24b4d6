//! Lines of the catalogue that tasks write (docs/spec/log-catalogue.md).

use millstream_exchange::align::AlignLog;
use millstream_telemetry::catalog::{self, Message};
use millstream_types::CheckpointId;
use tracing::{Level, debug, info, warn};

/// A line for who looks closely; its text is made only if somebody does.
pub(crate) fn detail(checkpoint: CheckpointId, message: impl FnOnce() -> Message) {
    if tracing::enabled!(Level::DEBUG) {
        let message = message();
        debug!(
            event_id = message.id,
            checkpoint_id = checkpoint.0,
            "{message}"
        );
    }
}

/// What the alignment of a task has to say.
pub(crate) fn alignment(task: &str, log: &AlignLog) {
    match *log {
        AlignLog::NewerBarrier { newer, current } => {
            given_up(current, &catalog::barrier_overtaken(task, newer, current));
        }
        AlignLog::NewerCancelled { newer, current } => {
            given_up(
                current,
                &catalog::cancellation_overtaken(task, newer, current),
            );
        }
        AlignLog::AbortingAlignment { id } => detail(id, || catalog::alignment_aborted(id)),
        AlignLog::SkippingAlignment { id } => detail(id, || catalog::alignment_skipped(id)),
        AlignLog::AbortedBefore { id } => {
            let message = catalog::abort_notified_before_barrier(id);
            info!(event_id = message.id, checkpoint_id = id.0, "{message}");
        }
        AlignLog::ObsoleteBarrier { id, current } => debug!(
            checkpoint_id = id.0,
            "{task}: Barrier of checkpoint {id} came after checkpoint {current}: ignored."
        ),
        AlignLog::UnexpectedBarrier { id, channel } => warn!(
            checkpoint_id = id.0,
            "{task}: Barrier of checkpoint {id} from channel {channel} was not expected: ignored."
        ),
    }
}

fn given_up(checkpoint: CheckpointId, message: &Message) {
    warn!(
        event_id = message.id,
        checkpoint_id = checkpoint.0,
        "{message}"
    );
}

/// The thread that asks.
pub(crate) fn thread() -> String {
    let thread = std::thread::current();
    thread.name().unwrap_or("unnamed").to_owned()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::sync::Arc;
    use std::time::Duration;

    use millstream_exchange::align::{AlignAction, AlignEvent, AlignMode, Alignment};
    use millstream_exchange::{Barrier, BarrierKind, ChannelIndex};
    use millstream_telemetry::{LogConfig, LogFormat, subscriber};
    use millstream_types::{Epoch, MonoTime, WallTime};
    use parking_lot::Mutex;

    use super::*;

    fn barrier(channel: u32, id: u64) -> AlignEvent {
        AlignEvent::Barrier {
            channel: ChannelIndex(channel),
            barrier: Barrier {
                id: CheckpointId(id),
                epoch: Epoch(1),
                kind: BarrierKind::Checkpoint,
                age: Duration::ZERO,
                learnt_at: MonoTime::ZERO,
                completed: None,
            },
        }
    }

    fn cancel(channel: u32, id: u64) -> AlignEvent {
        AlignEvent::Cancel {
            channel: ChannelIndex(channel),
            id: CheckpointId(id),
        }
    }

    fn aborted(id: u64) -> AlignEvent {
        AlignEvent::AbortedByJobmanager {
            id: CheckpointId(id),
        }
    }

    /// What a task with two channels logs over these events.
    fn logged(filter: &str, events: &[AlignEvent]) -> Vec<String> {
        let lines = Arc::new(Mutex::new(Vec::new()));
        let config = LogConfig {
            format: LogFormat::Text,
            filter: filter.to_owned(),
            static_fields: BTreeMap::new(),
            now: Arc::new(|| WallTime(0)),
        };
        let sink = Arc::clone(&lines);
        let (subscriber, _handle) =
            subscriber(config, move |line| sink.lock().push(line.to_owned())).unwrap();
        let say = || {
            let mut machine = Alignment::new(AlignMode::ExactlyOnce, 2, true);
            let mut actions = Vec::new();
            for event in events {
                machine.step(MonoTime::ZERO, *event, &mut actions);
            }
            for action in &actions {
                if let AlignAction::Log(log) = action {
                    alignment("counts (1/2)#0", log);
                }
            }
        };
        // Another test in this process may be the first to come by these lines, without a
        // subscriber: that they are of no interest is then remembered for all.
        say();
        tracing::subscriber::with_default(subscriber, || {
            tracing::callsite::rebuild_interest_cache();
            say();
        });
        std::mem::take(&mut *lines.lock())
    }

    #[test]
    fn what_an_alignment_says_has_the_catalogue_s_words_and_ids() {
        let newer = logged("debug", &[barrier(0, 19), barrier(1, 20), cancel(0, 20)]);
        let words = [
            "counts (1/2)#0: Received checkpoint barrier for checkpoint 20 before completing \
             current checkpoint 19. Skipping current checkpoint.",
            "Checkpoint 20 canceled, aborting alignment.",
        ];
        let ids = ["event_id=CKPT-0013", "event_id=CKPT-0014"];
        assert_eq!(newer.len(), 2, "{newer:?}");
        for ((line, words), id) in newer.iter().zip(words).zip(ids) {
            assert!(line.contains(words) && line.contains(id), "{line}");
        }
        let others = [
            (
                vec![cancel(0, 5)],
                "Checkpoint 5 canceled, skipping alignment.",
                "event_id=CKPT-0015",
            ),
            (
                vec![barrier(0, 7), cancel(1, 8)],
                "Received cancellation barrier for checkpoint 8 before completing current \
                 checkpoint 7. Skipping current checkpoint.",
                "event_id=CKPT-0016",
            ),
            (
                vec![aborted(3), barrier(0, 3)],
                "Checkpoint 3 has been notified as aborted, would not trigger any checkpoint.",
                "event_id=CKPT-0017",
            ),
        ];
        for (events, words, id) in others {
            let lines = logged("debug", &events);
            assert!(
                lines[0].contains(words) && lines[0].contains(id),
                "{lines:?}"
            );
        }
    }

    #[test]
    fn details_are_at_debug_only() {
        let events = [cancel(0, 5)];
        assert_eq!(logged("info", &events), Vec::<String>::new());
        assert_eq!(logged("debug", &events).len(), 1);
    }
}
