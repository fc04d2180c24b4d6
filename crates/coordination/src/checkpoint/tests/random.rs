//! Whatever comes in whatever order, the invariants hold.

use std::collections::{BTreeMap, BTreeSet};

use proptest::prelude::*;

use super::*;

/// What a random script is told to do next; numbers are folded into what exists.
#[derive(Clone, Copy, Debug)]
enum Step {
    Wait(u64),
    Request,
    Ack {
        subtask: usize,
        checkpoint: u64,
        is_stale: bool,
    },
    Decline {
        subtask: usize,
        checkpoint: u64,
        reason: usize,
    },
    Task {
        subtask: usize,
        state: usize,
    },
    EndOfData {
        subtask: usize,
    },
    Metadata {
        checkpoint: u64,
        outcome: usize,
    },
    Append {
        checkpoint: u64,
        happened: bool,
    },
    Suspend,
    Start {
        takes_pending: bool,
    },
    Deleted(u64),
    Stopped {
        subtask: usize,
        checkpoint: u64,
    },
    TriggerFailed {
        checkpoint: u64,
    },
}

fn steps() -> impl Strategy<Value = Step> {
    let small = 0..6u64;
    prop_oneof![
        4 => (0..40_000u64).prop_map(Step::Wait),
        1 => Just(Step::Request),
        9 => (0..2usize, small.clone(), prop::bool::weighted(0.1)).prop_map(
            |(subtask, checkpoint, is_stale)| Step::Ack { subtask, checkpoint, is_stale }
        ),
        1 => (0..2usize, small.clone(), 0..9usize).prop_map(
            |(subtask, checkpoint, reason)| Step::Decline { subtask, checkpoint, reason }
        ),
        2 => (0..2usize, 0..3usize).prop_map(|(subtask, state)| Step::Task { subtask, state }),
        1 => (0..2usize).prop_map(|subtask| Step::EndOfData { subtask }),
        4 => (small.clone(), 0..6usize).prop_map(
            |(checkpoint, outcome)| Step::Metadata { checkpoint, outcome }
        ),
        4 => (small.clone(), prop::bool::weighted(0.8)).prop_map(
            |(checkpoint, happened)| Step::Append { checkpoint, happened }
        ),
        1 => Just(Step::Suspend),
        2 => any::<bool>().prop_map(|takes_pending| Step::Start { takes_pending }),
        2 => (0..20u64).prop_map(Step::Deleted),
        1 => (0..2usize, small.clone()).prop_map(
            |(subtask, checkpoint)| Step::Stopped { subtask, checkpoint }
        ),
        1 => small.prop_map(|checkpoint| Step::TriggerFailed { checkpoint }),
    ]
}

/// The world around a coordinator: what the chain has, and what was asked of it.
struct World {
    script: Script,
    now: u64,
    next_request: u64,
    asked: BTreeSet<RequestId>,
    /// Appends that were sent and not answered, by id.
    appending: BTreeSet<u64>,
    on_chain: BTreeMap<u64, Vec<ObjectName>>,
    states: BTreeMap<u64, Vec<ObjectName>>,
    checked: usize,
}

const REASONS: [DeclineReason; 9] = [
    DeclineReason::Generic,
    DeclineReason::AsyncException,
    DeclineReason::TaskNotReady,
    DeclineReason::TaskClosing,
    DeclineReason::TaskNotCheckpointing,
    DeclineReason::AlignmentLimit,
    DeclineReason::OnCancellationBarrier,
    DeclineReason::Subsumed,
    DeclineReason::InputEndOfStream,
];

impl World {
    fn new() -> Self {
        let policy = CheckpointPolicy {
            max_concurrent: 2,
            tolerable_failed: 3,
            timeout: Duration::from_secs(25),
            ..policy(10)
        };
        let mut script = Script::new(policy, 1);
        script.stores_metadata = false;
        script.appends = false;
        script.deletes = false;
        Self {
            script,
            now: 0,
            next_request: 0,
            asked: BTreeSet::new(),
            appending: BTreeSet::new(),
            on_chain: BTreeMap::new(),
            states: BTreeMap::new(),
            checked: 0,
        }
    }

    /// The `n`th newest checkpoint that was ever begun.
    fn id(&self, n: u64) -> u64 {
        let triggers = self.script.triggers();
        let index = triggers.len().checked_sub(1 + n as usize);
        index.map_or(0, |index| triggers[index].1)
    }

    #[expect(clippy::too_many_lines, reason = "one arm per kind of step")]
    fn step(&mut self, step: Step) {
        let subtask = |index: usize| [SOURCE, SINK][index];
        let (epoch, attempt) = if self.script.epoch == 0 {
            (Epoch(0), Attempt(0))
        } else {
            self.script.current()
        };
        let event = match step {
            Step::Wait(millis) => {
                self.now += millis;
                Event::Tick
            }
            Step::Request => {
                self.next_request += 1;
                let id = RequestId(self.next_request);
                self.asked.insert(id);
                Event::Request(id)
            }
            Step::Ack { .. } if self.script.epoch == 0 => return,
            Step::Ack {
                subtask: of,
                checkpoint,
                is_stale,
            } => {
                let epoch = epoch.0 - u64::from(is_stale);
                let checkpoint = self.id(checkpoint);
                let ack = self.script.ack_of_epoch(epoch, subtask(of), checkpoint);
                Event::Acknowledge(Box::new(ack))
            }
            Step::Decline {
                subtask: of,
                checkpoint,
                reason,
            } => Event::Decline(Box::new(Decline {
                job: JOB,
                epoch,
                subtask: subtask(of),
                attempt,
                checkpoint: CheckpointId(self.id(checkpoint)),
                reason: REASONS[reason],
                message: String::new(),
                from: origin(),
            })),
            Step::Task { subtask: of, state } => Event::TaskState {
                epoch,
                subtask: subtask(of),
                attempt,
                state: [
                    ExecutionState::Running,
                    ExecutionState::Running,
                    ExecutionState::Finished,
                ][state],
            },
            Step::EndOfData { subtask: of } => Event::EndOfData {
                epoch,
                subtask: subtask(of),
                attempt,
            },
            Step::Metadata {
                checkpoint,
                outcome,
            } => {
                let checkpoint = self.id(checkpoint);
                match outcome {
                    0 | 1 => Event::MetadataNotStored {
                        checkpoint: CheckpointId(checkpoint),
                        outcome: [WriteOutcome::DidNotHappen, WriteOutcome::MayHaveHappened]
                            [outcome],
                        message: String::new(),
                    },
                    _ => metadata_stored(checkpoint),
                }
            }
            Step::Append {
                checkpoint,
                happened,
            } => {
                let id = self.id(checkpoint);
                // The chain answers only what it was asked.
                if !self.appending.remove(&id) {
                    return;
                }
                let checkpoint = CheckpointId(id);
                if happened {
                    self.on_chain.insert(id, self.states[&id].clone());
                    Event::Appended { checkpoint }
                } else {
                    let message = String::new();
                    Event::NotAppended {
                        checkpoint,
                        message,
                    }
                }
            }
            Step::Suspend => Event::Suspended,
            Step::Start { takes_pending } => return self.start(takes_pending),
            Step::Deleted(ticket) => Event::Deleted { ticket },
            Step::Stopped {
                subtask: of,
                checkpoint,
            } => Event::UploadStopped(UploadStopped {
                epoch,
                subtask: subtask(of),
                checkpoint: CheckpointId(self.id(checkpoint)),
                objects: Vec::new(),
            }),
            Step::TriggerFailed { checkpoint } => Event::TriggerFailed {
                epoch,
                checkpoint: CheckpointId(self.id(checkpoint)),
                message: String::new(),
            },
        };
        self.script.at(self.now, event);
        self.check();
    }

    /// A new claim: it finds the oldest open append on the chain, or none of them.
    fn start(&mut self, takes_pending: bool) {
        self.script.run_until(self.now);
        self.check();
        self.script.at(self.now, Event::Suspended);
        self.check();
        let open = std::mem::take(&mut self.appending);
        if let Some(id) = open.first().filter(|_| takes_pending) {
            self.on_chain.insert(*id, self.states[id].clone());
        }
        let restored = self.on_chain.keys().next_back().copied();
        self.script.start(self.now, u64::MAX / 3, restored);
        self.check();
    }

    fn check(&mut self) {
        let log = self.script.log[self.checked..].to_vec();
        self.checked = self.script.log.len();
        for (_, action) in log {
            match action {
                Action::AppendCompleted {
                    epoch, checkpoint, ..
                } => {
                    assert_eq!(
                        epoch,
                        Epoch(self.script.epoch),
                        "appended by a fenced epoch"
                    );
                    self.appending.insert(checkpoint.0);
                }
                Action::StoreMetadata(checkpoint) => {
                    assert_eq!(checkpoint.epoch, Epoch(self.script.epoch));
                    let objects: Vec<_> = checkpoint.objects().cloned().collect();
                    let ours = |name: &ObjectName| {
                        name.as_str().contains(&format!("/{}-n/", checkpoint.epoch))
                    };
                    assert!(
                        objects.iter().all(ours),
                        "I9: state of another epoch: {objects:?}"
                    );
                    self.states.insert(checkpoint.id.0, objects);
                }
                Action::NotifyCompleted { checkpoint, .. } => assert!(
                    self.on_chain.contains_key(&checkpoint.0),
                    "fence F5: {checkpoint} was announced and is not on the chain"
                ),
                Action::Answer { request, .. } => {
                    assert!(self.asked.remove(&request), "answered twice: {request:?}");
                }
                Action::Delete(deletion) => self.check_deletion(&deletion),
                Action::ReserveIds
                | Action::Trigger { .. }
                | Action::NotifyAborted { .. }
                | Action::FailJob { .. }
                | Action::Log(_) => {}
            }
        }
    }

    /// I11: the two newest checkpoints of the chain stay whole, and so does what may join it.
    fn check_deletion(&self, deletion: &Deletion) {
        let kept = self.on_chain.iter().rev().take(2);
        let open = self.appending.iter().map(|id| (id, &self.states[id]));
        for (id, objects) in kept.chain(open) {
            for name in &deletion.objects {
                assert!(
                    !objects.contains(name),
                    "{name} of checkpoint {id} was deleted"
                );
                assert_ne!(*name, metadata_name(*id));
            }
            assert!(
                !deletion.sweep || deletion.checkpoint.0 != *id,
                "{id} was swept"
            );
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, ..ProptestConfig::default() })]

    /// I9, I11, fence F5; one answer per request; the deadline always lies ahead.
    #[test]
    fn nothing_is_announced_before_it_is_durable_and_nothing_in_use_is_deleted(
        script in prop::collection::vec(steps(), 1..120)
    ) {
        let mut world = World::new();
        world.start(false);
        for state in [SOURCE, SINK] {
            world.script.state(0, state, ExecutionState::Running);
        }
        for step in script {
            world.step(step);
        }
        world.script.at(world.now, Event::Suspended);
        world.check();
        let open = world.appending.len();
        assert!(world.asked.len() <= open, "never answered: {:?}", world.asked);
    }
}
