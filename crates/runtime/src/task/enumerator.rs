//! The head of an enumerator task: finds splits on the I/O runtime and assigns them to readers.

use std::collections::{BTreeSet, VecDeque};
use std::sync::Arc;

use bytes::Bytes;
use millstream_coordination::failure::FailureInfo;
use millstream_coordination::splits::{Action, AssignmentState, Event, SplitAssignment};
use millstream_env::Env;
use millstream_operator::{Discovery, Enumerator, OperatorError};
use millstream_types::{CheckpointId, MonoTime};
use parking_lot::Mutex;

use super::splits;
use super::{Head, Task, Turn};
use crate::counters::Spent;
use crate::failure;
use crate::signal::Signal;

type Found = Arc<Mutex<Option<Result<Discovery, OperatorError>>>>;

/// An enumerator and what it assigned.
pub(crate) struct EnumeratorHead {
    name: String,
    assignment: SplitAssignment,
    found: Found,
    events: VecDeque<Event>,
    /// Readers whose channel opened.
    opened: BTreeSet<u32>,
}

impl EnumeratorHead {
    /// Goes on from `restored`; looks for splits unless they were all found before.
    pub(crate) fn open(
        name: String,
        enumerator: Arc<dyn Enumerator>,
        readers: u32,
        restored: Option<(&[Bytes], CheckpointId)>,
        env: &Env,
        signal: &Signal,
    ) -> Result<Self, FailureInfo> {
        let mut is_discovered = false;
        let assignment = match restored {
            Some(([state], checkpoint)) => {
                let state: AssignmentState = splits::decode_assignment(state)
                    .map_err(|error| failure::of_operator(&name, &error))?;
                is_discovered = state.is_discovery_over;
                SplitAssignment::restore(readers, state, checkpoint)
            }
            Some(_) | None => SplitAssignment::new(readers),
        };
        let found = Found::default();
        if !is_discovered {
            let (found, signal) = (Arc::clone(&found), signal.clone());
            let discovering = env.spawner().blocking("discover-splits", move || {
                *found.lock() = Some(enumerator.discover());
                signal.ring();
            });
            env.spawner().supervise("await-splits", async move {
                if let Err(error) = discovering.await {
                    tracing::error!("{}", millstream_telemetry::chain(&error));
                }
            });
        }
        Ok(Self {
            name,
            assignment,
            found,
            events: VecDeque::new(),
            opened: BTreeSet::new(),
        })
    }

    pub(super) fn on_completed(&mut self, checkpoint: CheckpointId) {
        self.events.push_back(Event::Completed(checkpoint));
    }

    /// Directly in front of the barrier.
    pub(super) fn on_barrier(&mut self, checkpoint: CheckpointId) {
        let mut actions = Vec::new();
        self.assignment
            .step(Event::Barrier(checkpoint), &mut actions);
        debug_assert!(actions.is_empty(), "a barrier assigns nothing");
    }

    pub(super) fn snapshot(&mut self) -> Vec<Bytes> {
        vec![splits::encode_assignment(&self.assignment.snapshot())]
    }

    fn take_found(&mut self) -> Result<(), FailureInfo> {
        let Some(found) = self.found.lock().take() else {
            return Ok(());
        };
        let discovery = found.map_err(|error| failure::of_operator(&self.name, &error))?;
        let found = discovery.splits.iter().map(splits::to_assign).collect();
        self.events.push_back(Event::Discovered(found));
        if discovery.is_final {
            self.events.push_back(Event::DiscoveryOver);
        }
        Ok(())
    }
}

impl Task {
    pub(super) fn turn_of_enumerator(&mut self) -> Result<Turn, FailureInfo> {
        let Head::Enumerator(head) = &mut self.head else {
            return Ok(Turn::Wait(Spent::Idle, MonoTime::NEVER));
        };
        head.take_found()?;
        for (reader, feedback) in self.outputs.take_feedback() {
            if let Some((restored, unfinished)) = feedback.opened
                && head.opened.insert(reader)
            {
                head.events.push_back(Event::Opened {
                    reader,
                    restored,
                    unfinished,
                });
            }
            let total = feedback.finished;
            head.events.push_back(Event::Finished { reader, total });
        }
        let Some(event) = head.events.pop_front() else {
            return Ok(Turn::Wait(Spent::Idle, MonoTime::NEVER));
        };
        let (mut actions, mut has_ended) = (Vec::new(), false);
        head.assignment.step(event, &mut actions);
        for action in actions {
            match action {
                Action::Assign { reader, split } => {
                    let split = splits::from_assigned(&split);
                    self.outputs.send_splits(reader, splits::encode(&split));
                }
                Action::End => has_ended = true,
                Action::RestartEnumerator { reader, restored } => {
                    return Err(FailureInfo::new(
                        millstream_coordination::failure::FailureKind::Internal,
                        format!(
                            "reader {reader} was reset to {restored:?}, where its enumerator \
                             cannot follow"
                        ),
                    ));
                }
            }
        }
        if has_ended {
            self.begin_finish(true);
        }
        Ok(Turn::Worked)
    }
}
