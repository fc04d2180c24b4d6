use std::collections::BTreeMap;

use millstream_types::CheckpointId;
use proptest::prelude::*;

use super::*;
use crate::format::{SnapshotHeader, SnapshotWriter};
use crate::{KeyParts, StateDescriptor, StateKeys, StateKind};

const MAX: u32 = 8;

fn max() -> MaxParallelism {
    MaxParallelism::new(MAX).unwrap()
}

fn table() -> StateTable {
    let state = |name| StateDescriptor::new(name, StateKind::Value, "v/1");
    StateTable::declare(vec![state("a"), state("b")]).unwrap()
}

type Model = BTreeMap<Vec<u8>, Vec<u8>>;
/// What a key is set to; none deletes.
type Change = (Vec<u8>, Option<Vec<u8>>);

fn file(contents: Contents, checkpoint: u64, range: KeyGroupRange, changes: &[Change]) -> Vec<u8> {
    let header = SnapshotHeader {
        checkpoint: CheckpointId(checkpoint),
        contents,
        max_parallelism: max(),
        range,
        states: table().stored(),
    };
    write(&header, changes)
}

fn write(header: &SnapshotHeader, changes: &[Change]) -> Vec<u8> {
    let mut file = Vec::new();
    let mut writer = SnapshotWriter::new(header, &mut file).unwrap();
    let sorted: BTreeMap<_, _> = changes.iter().cloned().collect();
    for (key, stored) in sorted {
        match stored {
            Some(stored) => writer.entry(&key, &stored).unwrap(),
            None => writer.deletion(&key).unwrap(),
        }
    }
    writer.finish().unwrap();
    file
}

fn restore(files: &[Vec<u8>], range: KeyGroupRange) -> Result<(Model, RestoreSummary), StateError> {
    let mut sources: Vec<&[u8]> = files.iter().map(Vec::as_slice).collect();
    let mut parts: Vec<_> = sources
        .iter_mut()
        .map(|source| source as &mut dyn SnapshotSource)
        .collect();
    let mut found = Model::new();
    let policy = RestorePolicy::RequireAll;
    let summary = restore_parts(
        &mut parts,
        &mut table(),
        range,
        max(),
        policy,
        |key, stored| {
            assert!(
                found.insert(key.to_vec(), stored.to_vec()).is_none(),
                "each key once"
            );
            Ok(())
        },
    )?;
    Ok((found, summary))
}

fn all_groups() -> KeyGroupRange {
    KeyGroupRange::all(max())
}

fn of(subtask: u32, parallelism: u32) -> KeyGroupRange {
    KeyGroupRange::of_subtask(subtask, parallelism, max())
}

fn change(group: u16, state: u16, key: u8, value: Option<u8>) -> Change {
    let mut keys = StateKeys::new();
    let parts = KeyParts {
        group: KeyGroup(group),
        state: StateId(state),
        key: &[key],
        namespace: b"",
        user_key: b"",
    };
    keys.push(parts).unwrap();
    (keys.get(0).to_vec(), value.map(|value| vec![0, value]))
}

fn changes() -> impl Strategy<Value = Vec<Change>> {
    let one = (
        0..MAX as u16,
        0u16..2,
        0u8..6,
        prop::option::of(any::<u8>()),
    );
    let one = one.prop_map(|(group, state, key, value)| change(group, state, key, value));
    prop::collection::vec(one, 0..40)
}

fn within(range: KeyGroupRange, changes: &[Change]) -> Vec<Change> {
    let is_ours = |change: &&Change| range.contains(crate::keys::group_of(&change.0));
    changes.iter().filter(is_ours).cloned().collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]

    /// Old subtasks each leave a file of everything and changes behind it; new ones, however many,
    /// find what was put last.
    #[test]
    fn the_newest_change_of_each_key_is_restored_whatever_the_parallelism(
        waves in prop::collection::vec(changes(), 1..6),
        before in 1u32..4,
        after in 1u32..4,
    ) {
        let mut model = Model::new();
        let mut files = Vec::new();
        for subtask in 0..before {
            let range = of(subtask, before);
            for (number, wave) in waves.iter().enumerate() {
                let mut ours = within(range, wave);
                let contents = match number {
                    0 => Contents::All,
                    _ => Contents::Changes,
                };
                if contents == Contents::All {
                    // Of one key the last counts, and everything holds no deletions.
                    let last: BTreeMap<_, _> = ours.into_iter().collect();
                    ours = last.into_iter().filter(|(_, stored)| stored.is_some()).collect();
                }
                files.push(file(contents, number as u64 + 1, range, &ours));
                for (key, stored) in ours {
                    match stored {
                        Some(stored) => drop(model.insert(key, stored)),
                        None => drop(model.remove(&key)),
                    }
                }
            }
        }
        let mut found = Model::new();
        for subtask in 0..after {
            let (part, summary) = restore(&files, of(subtask, after)).unwrap();
            prop_assert_eq!(summary.n_entries, part.len() as u64);
            prop_assert_eq!(summary.is_own, before == 1 && after == 1);
            found.extend(part);
        }
        prop_assert_eq!(found, model);
    }
}

#[test]
fn changes_need_what_they_change_in_front_of_them() {
    let all = |checkpoint| file(Contents::All, checkpoint, all_groups(), &[]);
    let changes = |checkpoint| file(Contents::Changes, checkpoint, all_groups(), &[]);
    let failed = |files: &[Vec<u8>]| restore(files, all_groups()).unwrap_err();
    let group = KeyGroup(0);
    assert!(matches!(failed(&[]), StateError::PartsMissing { .. }));
    assert!(matches!(
        failed(&[changes(1)]),
        StateError::PartsMissing { .. }
    ));
    assert!(matches!(
        failed(&[changes(1), all(2)]),
        StateError::PartsMissing { .. }
    ));
    assert!(
        matches!(failed(&[all(1), all(2)]), StateError::PartsOverlap { group: g } if g == group)
    );
    assert!(matches!(
        failed(&[all(1), changes(3), changes(2)]),
        StateError::PartsUnrelated { group: g } if g == group
    ));
    assert!(restore(&[all(1), changes(2), changes(2), changes(3)], all_groups()).is_ok());
    // State 1 of one file is another state in the file before.
    let mut states = table().stored();
    states[1].name = "c".into();
    let renamed = SnapshotHeader {
        checkpoint: CheckpointId(2),
        contents: Contents::Changes,
        max_parallelism: max(),
        range: all_groups(),
        states,
    };
    let renamed = write(&renamed, &[]);
    assert!(matches!(
        failed(&[all(1), renamed]),
        StateError::PartsUnrelated { .. }
    ));
}
