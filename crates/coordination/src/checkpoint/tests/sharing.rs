//! Files that several checkpoints refer to: they stay as long as one does or may, and no longer.

use std::collections::BTreeSet;

use proptest::prelude::*;

use super::*;

fn concurrent(max_concurrent: usize) -> CheckpointPolicy {
    CheckpointPolicy {
        num_retained: 1,
        max_concurrent,
        ..policy(10)
    }
}

fn shared(name: &str) -> ObjectName {
    object(&format!("shared/1-v0.0-{name}.sst"))
}

/// An acknowledgement that refers to these shared objects, 100 bytes each, beside its private one.
fn sharing(script: &Script, subtask: SubtaskId, checkpoint: u64, names: &[ObjectName]) -> Event {
    let mut ack = script.ack_of(subtask, checkpoint);
    for state in ack.snapshot.operators.values_mut() {
        state
            .operator
            .extend(names.iter().map(|name| StateHandle::Object {
                name: name.clone(),
                size: 100,
                checksum: Checksum::of(b"s"),
            }));
    }
    Event::Acknowledge(Box::new(ack))
}

/// Checkpoint 1 is complete with this object in it, checkpoint 2 has begun.
fn with_second_under_way(kept: &ObjectName) -> Script {
    let mut script = Script::running(concurrent(1), 0);
    script.run_until(0);
    let ack = sharing(&script, SOURCE, 1, std::slice::from_ref(kept));
    script.at(1_000, ack);
    script.ack(1_000, SINK, 1);
    script.run_until(10_000);
    script
}

/// The newest complete checkpoint that a trigger named.
fn named_by_trigger(script: &Script, id: u64) -> Option<u64> {
    let of = |(_, action): &(u64, Action)| match action {
        Action::Trigger {
            checkpoint,
            completed,
            ..
        } if checkpoint.0 == id => Some(completed.map(|completed| completed.0)),
        _ => None,
    };
    script.log.iter().find_map(of).expect("it was triggered")
}

/// Both checkpoints hold the shared object; it goes with the second, and not while a pending one
/// may have reused its handle.
#[test]
fn a_shared_object_goes_with_the_last_checkpoint_that_refers_to_it() {
    let mut script = Script::running(concurrent(2), 0);
    let name = shared("a");
    let names = [name.clone()];
    let ack_sharing = |script: &mut Script, millis, checkpoint| {
        let ack = sharing(script, SOURCE, checkpoint, &names);
        script.at(millis, ack);
        script.ack(millis, SINK, checkpoint);
    };
    script.run_until(0);
    ack_sharing(&mut script, 1_000, 1);
    script.run_until(10_000);
    ack_sharing(&mut script, 11_000, 2);
    assert!(
        !script.deleted().contains(&name),
        "checkpoint 2 refers to it"
    );
    // 3 and 4 are begun while 2 is the newest: both may reuse it.
    script.run_until(30_000);
    script.ack_all(31_000, 3);
    assert!(
        !script.deleted().contains(&name),
        "checkpoint 4 may refer to it"
    );
    script.ack_all(32_000, 4);
    assert!(script.deleted().contains(&name));
}

// Proves F132 for the coordinator: what an aborted checkpoint alone had goes, what it reused stays.
#[test]
fn an_aborted_checkpoint_takes_what_it_alone_had() {
    let [kept, own, late] = ["kept", "own", "late"].map(shared);
    let mut script = with_second_under_way(&kept);
    let names = [kept.clone(), own.clone()];
    script.at(11_000, sharing(&script, SOURCE, 2, &names));
    script.decline(11_000, SINK, 2, DeclineReason::AsyncException);
    assert_eq!(script.reason(2), FailureReason::AsyncException);
    let deleted: BTreeSet<_> = script.deleted().into_iter().collect();
    assert!(
        deleted.contains(&own) && !deleted.contains(&kept),
        "{deleted:?}"
    );
    // Of one that comes too late the same.
    let names = [kept.clone(), late.clone()];
    script.at(12_000, sharing(&script, SINK, 2, &names));
    let deleted = script.deleted();
    assert!(
        deleted.contains(&late) && !deleted.contains(&kept),
        "{deleted:?}"
    );
}

// HND-069: what a subtask had stored when it gave up is in no acknowledgement.
#[test]
fn a_subtask_that_gave_up_takes_what_it_had_stored() {
    let [kept, own, zombie] = ["kept", "own", "zombie"].map(shared);
    let mut script = with_second_under_way(&kept);
    script.decline(11_000, SOURCE, 2, DeclineReason::AsyncException);
    let stopped = |epoch, objects: &[&ObjectName]| {
        Event::UploadStopped(UploadStopped {
            epoch: Epoch(epoch),
            subtask: SOURCE,
            checkpoint: CheckpointId(2),
            objects: objects.iter().copied().cloned().collect(),
        })
    };
    script.at(11_500, stopped(0, &[&zombie]));
    script.at(12_000, stopped(1, &[&kept, &own]));
    assert_eq!(
        script
            .deleted()
            .iter()
            .filter(|name| name.as_str().starts_with("shared"))
            .collect::<Vec<_>>(),
        [&own]
    );
}

// Proves F131 for the coordinator: both sizes are noted.
#[test]
fn new_bytes_are_those_that_no_checkpoint_before_had() {
    let mut script = Script::running(concurrent(1), 0);
    script.run_until(0);
    script.at(1_000, sharing(&script, SOURCE, 1, &[shared("a")]));
    script.ack(1_000, SINK, 1);
    script.run_until(10_000);
    let names = [shared("a"), shared("b")];
    script.at(11_000, sharing(&script, SOURCE, 2, &names));
    script.ack(11_000, SINK, 2);
    let bytes = |id: u64| {
        let ack = script.record(id).subtasks[&SOURCE].acknowledged.unwrap();
        (ack.state_bytes, ack.new_bytes)
    };
    assert_eq!(bytes(1), (110, 110));
    assert_eq!(bytes(2), (210, 110));
}

#[test]
fn a_trigger_names_the_newest_complete_checkpoint() {
    let mut script = Script::running(concurrent(2), 0);
    script.run_until(10_000);
    script.ack_all(11_000, 1);
    script.run_until(20_000);
    script.ack_all(21_000, 3);
    script.run_until(30_000);
    let named: Vec<_> = (1..=4).map(|id| named_by_trigger(&script, id)).collect();
    assert_eq!(named, [None, None, Some(1), Some(3)]);
}

#[test]
fn what_is_in_use_is_known_unless_a_checkpoint_is_in_doubt() {
    let mut script = Script::running(concurrent(1), 0);
    script.run_until(0);
    script.at(1_000, sharing(&script, SOURCE, 1, &[shared("a")]));
    script.ack(1_000, SINK, 1);
    let in_use = script.coordinator.shared_in_use().unwrap();
    assert_eq!(in_use.checkpoints, [CheckpointId(1)].into());
    assert_eq!(in_use.objects, [shared("a")].into());
    // What became of its metadata stays open, and the checkpoint is given up.
    script.stores_metadata = false;
    script.run_until(10_000);
    script.ack_all(11_000, 2);
    script.at(
        12_000,
        Event::MetadataNotStored {
            checkpoint: CheckpointId(2),
            outcome: WriteOutcome::MayHaveHappened,
            message: "timed out".to_owned(),
        },
    );
    assert_eq!(script.coordinator.shared_in_use(), None);
    // When newer ones have all places, nobody can restore from it.
    script.stores_metadata = true;
    script.run_until(20_000);
    script.ack_all(21_000, 3);
    assert!(script.coordinator.shared_in_use().is_some());
}

#[derive(Clone, Copy, Debug)]
enum Step {
    Wait(u64),
    /// The oldest checkpoint that still waits for this subtask.
    Ack {
        sink: bool,
        whole: bool,
    },
    Decline {
        sink: bool,
    },
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        4 => (0..15_000u64).prop_map(Step::Wait),
        8 => (any::<bool>(), prop::bool::weighted(0.2)).prop_map(|(sink, whole)| Step::Ack { sink, whole }),
        1 => any::<bool>().prop_map(|sink| Step::Decline { sink }),
    ];
    prop::collection::vec(step, 1..160)
}

/// Two tasks that refer to what the newest complete checkpoint named by the barrier holds.
#[derive(Default)]
struct Tasks {
    /// What each acknowledged, by checkpoint.
    acknowledged: BTreeMap<(SubtaskId, u64), Vec<ObjectName>>,
    n_names: u64,
}

impl Tasks {
    /// What a subtask may refer to in this checkpoint.
    fn base(&self, script: &Script, subtask: SubtaskId, checkpoint: u64) -> Vec<ObjectName> {
        let completed = named_by_trigger(script, checkpoint);
        let found = completed.and_then(|completed| self.acknowledged.get(&(subtask, completed)));
        found.cloned().unwrap_or_default()
    }

    fn snapshot(&mut self, base: Vec<ObjectName>, whole: bool) -> Vec<ObjectName> {
        self.n_names += 1;
        let new = shared(&self.n_names.to_string());
        let reused = if whole { Vec::new() } else { base };
        reused.into_iter().chain([new]).collect()
    }

    /// Everything that a checkpoint refers to, or that one under way may refer to, is there.
    fn check(&self, script: &Script) -> Result<(), TestCaseError> {
        let deleted: BTreeSet<_> = script.deleted().into_iter().collect();
        let retained = script.coordinator.retained();
        for name in retained.flat_map(|retained| retained.checkpoint.objects()) {
            prop_assert!(!deleted.contains(name), "{name} is referred to and deleted");
        }
        for id in script.coordinator.pending() {
            for subtask in [SOURCE, SINK] {
                let known = self.acknowledged.get(&(subtask, id.0)).cloned();
                let may = known.unwrap_or_else(|| self.base(script, subtask, id.0));
                for name in may {
                    prop_assert!(!deleted.contains(&name), "{name} of {id} is deleted");
                }
            }
        }
        Ok(())
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]

    // Proves F134: some 10,000 steps.
    #[test]
    fn a_shared_object_is_deleted_when_nothing_can_refer_to_it_and_not_before(
        steps in steps(),
        max_concurrent in 1usize..4,
        num_retained in 1usize..4,
    ) {
        let policy = CheckpointPolicy { num_retained, ..concurrent(max_concurrent) };
        let mut script = Script::running(policy, 0);
        let mut tasks = Tasks::default();
        let mut now = 0;
        for step in steps {
            match step {
                Step::Wait(millis) => {
                    now += millis;
                    script.run_until(now);
                }
                Step::Ack { sink, whole } => {
                    let subtask = if sink { SINK } else { SOURCE };
                    let waits = |id: &CheckpointId| !tasks.acknowledged.contains_key(&(subtask, id.0));
                    let oldest = script.coordinator.pending().find(waits);
                    if let Some(id) = oldest {
                        let base = tasks.base(&script, subtask, id.0);
                        let names = tasks.snapshot(base, whole);
                        tasks.acknowledged.insert((subtask, id.0), names.clone());
                        script.at(now, sharing(&script, subtask, id.0, &names));
                    }
                }
                Step::Decline { sink } => {
                    let subtask = if sink { SINK } else { SOURCE };
                    let oldest = script.coordinator.pending().next();
                    if let Some(id) = oldest {
                        script.decline(now, subtask, id.0, DeclineReason::AsyncException);
                    }
                }
            }
            tasks.check(&script)?;
        }
        // Everything under way ends, and newer checkpoints that refer to nothing take all places.
        for _ in 0..num_retained + 8 {
            now += 70_000;
            script.run_until(now);
            for id in script.coordinator.pending().collect::<Vec<_>>() {
                script.ack_all(now, id.0);
            }
        }
        now += 70_000;
        script.run_until(now);
        let deleted: BTreeSet<_> = script.deleted().into_iter().collect();
        let retained: BTreeSet<_> = script
            .coordinator
            .retained()
            .flat_map(|retained| retained.checkpoint.objects().cloned())
            .collect();
        for name in tasks.acknowledged.values().flatten() {
            prop_assert!(deleted.contains(name) != retained.contains(name), "{name}");
        }
    }
}
