use std::collections::BTreeMap;
use std::sync::Mutex;
use std::sync::mpsc::{Receiver, Sender, channel};

use millstream_types::MaxParallelism;
use proptest::prelude::*;

use super::*;
use crate::{KeyParts, ScanRange, SchemaIndex, StateId};

/// An ordered map as the lowest layer. It can be told to refuse writes.
#[derive(Default, Debug)]
struct MapBase {
    entries: Mutex<BTreeMap<Vec<u8>, Vec<u8>>>,
    is_broken: std::sync::atomic::AtomicBool,
    /// The next write says here that it was called, and waits to be let through.
    gate: Mutex<Option<(Sender<()>, Receiver<()>)>>,
    /// Keys that were asked for.
    n_read: std::sync::atomic::AtomicUsize,
}

impl Base for MapBase {
    fn get(&self, keys: &StateKeys, values: &mut ValueBuffer) -> Result<(), StateError> {
        let entries = self.entries.lock().unwrap();
        self.n_read.fetch_add(keys.len(), Ordering::Relaxed);
        values.clear();
        for key in keys.iter() {
            values.push_stored(entries.get(key).map(Vec::as_slice));
        }
        Ok(())
    }

    fn scan(
        &self,
        prefix: &[u8],
        after: &[u8],
        max_entries: usize,
        page: &mut ScanPage,
    ) -> Result<bool, StateError> {
        page.clear();
        let entries = self.entries.lock().unwrap();
        let from = prefix.max(after).to_vec();
        for (key, stored) in entries.range(from..) {
            if key == after {
                continue;
            }
            if !key.starts_with(prefix) {
                break;
            }
            if page.len() == max_entries {
                return Ok(true);
            }
            page.push(key, stored);
        }
        Ok(false)
    }

    fn write(&self, keys: &StateKeys, values: &ValueBuffer) -> Result<(), StateError> {
        if self.is_broken.load(Ordering::Relaxed) {
            return Err(StateError::Store {
                action: "write",
                object: "the test's map".into(),
                remedy: "mend it",
                disposition: millstream_types::Disposition::FailTask,
                source: "broken".into(),
            });
        }
        let gate = self.gate.lock().unwrap().take();
        if let Some((called, go)) = gate {
            called.send(()).unwrap();
            // A test that panics drops the other end, and lets the write through.
            let _ = go.recv();
        }
        let mut entries = self.entries.lock().unwrap();
        for (index, key) in keys.iter().enumerate() {
            match values.stored(index) {
                Some(stored) => entries.insert(key.to_vec(), stored.to_vec()),
                None => entries.remove(key),
            };
        }
        Ok(())
    }
}

fn layers(active_bytes_max: usize) -> Layers<MapBase> {
    let range = KeyGroupRange::all(MaxParallelism::new(3).unwrap());
    Layers::new(Arc::default(), range, active_bytes_max)
}

fn keys(names: &[u8]) -> StateKeys {
    let mut keys = StateKeys::new();
    for name in names {
        keys.push(KeyParts {
            group: KeyGroup(u16::from(name % 3)),
            state: StateId(0),
            key: &[*name],
            namespace: b"",
            user_key: b"",
        })
        .unwrap();
    }
    keys
}

fn put(layers: &mut Layers<MapBase>, name: u8, value: Option<u8>) -> Result<(), StateError> {
    let mut values = ValueBuffer::new();
    match value {
        Some(value) => values.push(SchemaIndex(0), &[value]),
        None => values.push_absent(),
    }
    layers.put(&keys(&[name]), &values)
}

fn get(layers: &mut Layers<MapBase>, name: u8) -> Option<u8> {
    let mut values = ValueBuffer::new();
    layers.get(&keys(&[name]), &mut values).unwrap();
    values.get(0).map(|value| value.bytes[0])
}

fn scan_all(layers: &mut Layers<MapBase>, page_entries: usize) -> Vec<(u8, u8)> {
    let mut scan = Scan::new(ScanRange::state(StateId(0), layers.range()));
    let mut page = ScanPage::new();
    let mut found = Vec::new();
    loop {
        let more = layers.scan(&mut scan, page_entries, &mut page).unwrap();
        assert!(page.len() <= page_entries);
        found.extend(
            page.iter()
                .map(|(parts, value)| (parts.key[0], value.bytes[0])),
        );
        if !more {
            return found;
        }
    }
}

fn base_len(layers: &Layers<MapBase>) -> usize {
    layers.base().entries.lock().unwrap().len()
}

#[test]
fn nothing_written_after_the_freeze_is_in_the_base_when_the_snapshot_looks_at_it() {
    let mut layers = layers(usize::MAX);
    put(&mut layers, 1, Some(10)).unwrap();
    put(&mut layers, 2, Some(20)).unwrap();
    assert_eq!(base_len(&layers), 0);
    let freeze = layers.freeze(CheckpointId(1)).unwrap();
    put(&mut layers, 1, Some(11)).unwrap();
    put(&mut layers, 2, None).unwrap();
    put(&mut layers, 3, Some(30)).unwrap();
    let seen = freeze
        .drain_and_lift(|base| {
            Ok(base
                .entries
                .lock()
                .unwrap()
                .values()
                .cloned()
                .collect::<Vec<_>>())
        })
        .unwrap();
    assert_eq!(seen, [[0, 10], [0, 20]]);
    assert_eq!(
        [1, 2, 3].map(|name| get(&mut layers, name)),
        [Some(11), None, Some(30)]
    );
}

#[test]
fn while_another_thread_drains_the_task_reads_everything_and_cannot_overtake_it() {
    let mut layers = layers(1_000);
    put(&mut layers, 1, Some(10)).unwrap();
    put(&mut layers, 2, Some(20)).unwrap();
    let freeze = layers.freeze(CheckpointId(1)).unwrap();
    let ((called, is_called), (go, may_go)) = (channel(), channel());
    *layers.base().gate.lock().unwrap() = Some((called, may_go));
    let seen = std::thread::scope(|scope| {
        let go = go;
        let values = |base: &Arc<MapBase>| {
            base.entries
                .lock()
                .unwrap()
                .values()
                .cloned()
                .collect::<Vec<_>>()
        };
        let snapshot = scope.spawn(move || freeze.drain_and_lift(|base| Ok(values(base))));
        is_called.recv().unwrap();
        // The drain has begun and the base has none of it.
        assert_eq!(base_len(&layers), 0);
        assert_eq!(layers.usage().frozen_for, Some(CheckpointId(1)));
        put(&mut layers, 1, Some(11)).unwrap();
        assert_eq!(scan_all(&mut layers, 1), [(1, 11), (2, 20)]);
        let full = (3..=255).find_map(|name| put(&mut layers, name, Some(name)).err());
        assert!(matches!(full, Some(StateError::Full { .. })));
        drop(go);
        snapshot.join().unwrap().unwrap()
    });
    assert_eq!(seen, [vec![0, 10], vec![0, 20]]);
    assert_eq!(layers.usage().frozen_for, None);
    put(&mut layers, 2, None).unwrap();
    assert_eq!([1, 2].map(|name| get(&mut layers, name)), [Some(11), None]);
}

fn checkpoint(layers: &mut Layers<MapBase>) {
    let freeze = layers.freeze(CheckpointId(1)).unwrap();
    freeze.drain_and_lift(|_| Ok(())).unwrap();
}

#[test]
fn a_key_that_changes_in_every_interval_is_read_from_the_base_once() {
    let mut layers = layers(usize::MAX / 2);
    put(&mut layers, 7, Some(70)).unwrap();
    let n_read = |layers: &Layers<MapBase>| layers.base().n_read.load(Ordering::Relaxed);
    for round in 0..5 {
        assert_eq!(get(&mut layers, 1), (round > 0).then_some(round));
        put(&mut layers, 1, Some(round + 1)).unwrap();
        checkpoint(&mut layers);
    }
    assert_eq!(n_read(&layers), 1);
    assert!(layers.usage().drained_bytes > 0);
    // One that was left alone for an interval is asked for again.
    assert_eq!(get(&mut layers, 7), Some(70));
    assert_eq!(n_read(&layers), 2);
}

#[test]
fn what_was_drained_makes_room_and_is_never_read_when_the_base_is_ahead() {
    let mut layers = layers(2_000);
    put(&mut layers, 1, Some(10)).unwrap();
    checkpoint(&mut layers);
    assert_eq!(get(&mut layers, 1), Some(10));
    assert!(layers.usage().drained_bytes > 0);
    put(&mut layers, 1, Some(11)).unwrap();
    // The active map fills up and is written down, the newer value among the first.
    (2..=255).for_each(|name| put(&mut layers, name, Some(name)).unwrap());
    assert!(layers.usage().n_inline_drains > 0);
    assert_eq!(layers.usage().drained_bytes, 0);
    assert_eq!(get(&mut layers, 1), Some(11));
}

#[test]
fn a_second_freeze_waits_for_the_first_to_be_lifted() {
    let mut layers = layers(usize::MAX);
    let first = layers.freeze(CheckpointId(1)).unwrap();
    let error = layers.freeze(CheckpointId(2)).unwrap_err();
    assert!(
        error
            .to_string()
            .contains("snapshot 2 cannot start while 1"),
        "{error}"
    );
    first.drain_and_lift(|_| Ok(())).unwrap();
    layers.freeze(CheckpointId(2)).unwrap();
}

#[test]
fn a_freeze_given_up_keeps_its_entries_and_the_next_snapshot_has_them() {
    let mut layers = layers(usize::MAX);
    put(&mut layers, 1, Some(10)).unwrap();
    drop(layers.freeze(CheckpointId(1)).unwrap());
    put(&mut layers, 2, Some(20)).unwrap();
    assert_eq!(get(&mut layers, 1), Some(10));
    let freeze = layers.freeze(CheckpointId(2)).unwrap();
    freeze.drain_and_lift(|_| Ok(())).unwrap();
    assert_eq!(base_len(&layers), 2);
}

#[test]
fn a_drain_that_breaks_leaves_every_entry_readable_and_is_made_up_for() {
    let mut layers = layers(usize::MAX);
    put(&mut layers, 1, Some(10)).unwrap();
    let freeze = layers.freeze(CheckpointId(1)).unwrap();
    layers.base().is_broken.store(true, Ordering::Relaxed);
    freeze.drain_and_lift(|_| Ok(())).unwrap_err();
    assert!(
        put(&mut layers, 2, Some(20)).is_err(),
        "the base still refuses"
    );
    layers.base().is_broken.store(false, Ordering::Relaxed);
    assert_eq!(get(&mut layers, 1), Some(10));
    assert_eq!(base_len(&layers), 1);
}

#[test]
fn a_full_active_map_waits_during_a_freeze_and_drains_without_one() {
    let mut layers = layers(2_000);
    let fill = |layers: &mut Layers<MapBase>| {
        (0..=255u8).try_for_each(|name| put(layers, name, Some(name)))
    };
    fill(&mut layers).unwrap();
    assert!(layers.usage().n_inline_drains > 0);
    assert!(base_len(&layers) > 0);
    let freeze = layers.freeze(CheckpointId(1)).unwrap();
    let error = fill(&mut layers).unwrap_err();
    assert!(
        matches!(
            error,
            StateError::Full {
                running: CheckpointId(1),
                limit_bytes: 2_000,
                ..
            }
        ),
        "{error}"
    );
    assert_eq!(layers.usage().n_full, 1);
    freeze.drain_and_lift(|_| Ok(())).unwrap();
    fill(&mut layers).unwrap();
    let mut expected: Vec<_> = (0..=255).map(|name| (name % 3, name)).collect();
    expected.sort_unstable();
    let expected: Vec<_> = expected.into_iter().map(|(_, name)| (name, name)).collect();
    assert_eq!(scan_all(&mut layers, 7), expected);
}

#[test]
fn one_slice_larger_than_the_share_is_taken_by_an_empty_map() {
    let mut layers = layers(10);
    let freeze = layers.freeze(CheckpointId(1)).unwrap();
    put(&mut layers, 1, Some(1)).unwrap();
    assert!(matches!(
        put(&mut layers, 2, Some(1)),
        Err(StateError::Full { .. })
    ));
    drop(freeze);
    put(&mut layers, 2, Some(1)).unwrap();
}

#[derive(Clone, Debug)]
enum Op {
    Put(u8, Option<u8>),
    Freeze,
    Lift,
    GiveUp,
    Scan(usize),
}

fn ops() -> impl Strategy<Value = Vec<Op>> {
    let op = prop_oneof![
        12 => (0..40u8, any::<Option<u8>>()).prop_map(|(k, v)| Op::Put(k, v)),
        2 => Just(Op::Freeze),
        2 => Just(Op::Lift),
        1 => Just(Op::GiveUp),
        2 => (1..9usize).prop_map(Op::Scan),
    ];
    proptest::collection::vec(op, 1..200)
}

proptest! {
    #[test]
    fn the_layers_together_are_one_map(ops in ops()) {
        let mut layers = layers(3_000);
        let mut model = BTreeMap::new();
        let mut frozen = None;
        for op in ops {
            match op {
                Op::Put(name, value) => match put(&mut layers, name, value) {
                    Ok(()) => {
                        model.remove(&(name % 3, name));
                        model.extend(value.map(|value| ((name % 3, name), value)));
                    }
                    Err(error) => {
                        let is_full = matches!(error, StateError::Full { .. });
                        prop_assert!(is_full && frozen.is_some(), "{}", error);
                    }
                },
                Op::Freeze => match layers.freeze(CheckpointId(1)) {
                    Ok(freeze) => frozen = Some((freeze, model.clone())),
                    Err(_) => prop_assert!(frozen.is_some()),
                },
                Op::Lift => if let Some((freeze, then)) = frozen.take() {
                    let seen = freeze.drain_and_lift(|base| {
                        let entries = base.entries.lock().unwrap();
                        Ok(entries.values().map(|stored| stored[1]).collect::<Vec<_>>())
                    });
                    prop_assert_eq!(seen.unwrap(), then.into_values().collect::<Vec<_>>());
                },
                Op::GiveUp => frozen = None,
                Op::Scan(page_entries) => {
                    let expected: Vec<_> = model.iter().map(|((_, name), v)| (*name, *v)).collect();
                    prop_assert_eq!(scan_all(&mut layers, page_entries), expected);
                }
            }
            for name in 0..40 {
                prop_assert_eq!(get(&mut layers, name), model.get(&(name % 3, name)).copied());
            }
        }
    }
}
