use millstream_types::KeyGroup;

use super::*;
use crate::{KeyParts, ScanRange, SchemaIndex, SnapshotSink, StateDescriptor, StateId, StateKind};

const MAX: u32 = 128;
const COUNT: StateId = StateId(0);

fn max() -> MaxParallelism {
    MaxParallelism::new(MAX).unwrap()
}

fn descriptor(schema: &str, readable: &[&str]) -> StateDescriptor {
    StateDescriptor {
        readable: readable.iter().map(|text| (*text).into()).collect(),
        ..StateDescriptor::new("count", StateKind::Value, schema)
    }
}

fn backend_with(descriptors: Vec<StateDescriptor>, range: KeyGroupRange) -> MemoryBackend {
    MemoryBackend::new(StateTable::declare(descriptors).unwrap(), range, max())
}

fn backend_of(index: u32, parallelism: u32) -> MemoryBackend {
    let range = KeyGroupRange::of_subtask(index, parallelism, max());
    backend_with(vec![descriptor("u64/1", &[])], range)
}

fn backend() -> MemoryBackend {
    backend_of(0, 1)
}

/// The keys of these words that the range has.
fn keys(words: &[&str], range: KeyGroupRange) -> StateKeys {
    let mut keys = StateKeys::new();
    let hashed = words.iter().map(|word| {
        let bytes = word.as_bytes();
        (bytes, xxhash_rust::xxh3::xxh3_64(bytes))
    });
    let owned = hashed.filter(|(_, hash)| range.contains(max().key_group(*hash)));
    keys.extend(COUNT, max(), owned, b"").unwrap();
    keys
}

/// Counts the words a backend owns, as an aggregate would: one get and one put.
fn count(backend: &mut MemoryBackend, words: &[&str]) {
    for word in words {
        let keys = keys(&[word], backend.map.range());
        let mut values = ValueBuffer::new();
        backend.get(&keys, &mut values).unwrap();
        let counts: Vec<_> = values
            .iter()
            .map(|value| value.map_or(0, number) + 1)
            .collect();
        values.clear();
        let schema = backend.table().current_schema(COUNT);
        counts
            .iter()
            .for_each(|n| values.push(schema, &n.to_le_bytes()));
        backend.put(&keys, &values).unwrap();
    }
}

fn number(value: crate::Value<'_>) -> u64 {
    u64::from_le_bytes(value.bytes.try_into().unwrap())
}

fn counts(backend: &mut MemoryBackend) -> Vec<(String, u64)> {
    let mut scan = Scan::new(ScanRange::state(COUNT, backend.map.range()));
    let mut page = ScanPage::new();
    let mut found = Vec::new();
    loop {
        let more = backend.scan(&mut scan, 3, &mut page).unwrap();
        let text = |parts: KeyParts<'_>| String::from_utf8(parts.key.to_vec()).unwrap();
        found.extend(
            page.iter()
                .map(|(parts, value)| (text(parts), number(value))),
        );
        if !more {
            found.sort();
            return found;
        }
    }
}

fn snapshot(backend: &mut MemoryBackend, checkpoint: u64) -> Vec<u8> {
    let mut file = Vec::new();
    let work = backend.snapshot(CheckpointId(checkpoint)).unwrap();
    work.run(&mut file).unwrap();
    file
}

fn restore(
    backend: &mut MemoryBackend,
    files: &[&[u8]],
    policy: RestorePolicy,
) -> Result<RestoreSummary, StateError> {
    let mut sources = files.to_vec();
    let mut parts: Vec<_> = sources
        .iter_mut()
        .map(|s| s as &mut dyn SnapshotSource)
        .collect();
    backend.restore(&mut parts, policy)
}

const WORDS: [&str; 9] = ["to", "be", "or", "not", "to", "be", "that", "is", "to"];

#[test]
fn a_snapshot_holds_what_was_there_when_it_was_asked_for() {
    let mut first = backend();
    count(&mut first, &WORDS);
    let work = first.snapshot(CheckpointId(1)).unwrap();
    count(&mut first, &["to", "late"]);
    let mut file = Vec::new();
    let [summary] = &work.run(&mut file).unwrap()[..] else {
        panic!("one file");
    };
    assert_eq!(summary.n_entries, 6);
    let mut restored = backend();
    restore(&mut restored, &[&file], RestorePolicy::RequireAll).unwrap();
    let expected = [
        ("be", 2),
        ("is", 1),
        ("not", 1),
        ("or", 1),
        ("that", 1),
        ("to", 3),
    ];
    assert_eq!(
        counts(&mut restored),
        expected.map(|(word, n)| (word.to_owned(), n))
    );
}

#[test]
fn a_deleted_entry_is_in_no_later_snapshot() {
    let mut backend = backend();
    count(&mut backend, &WORDS);
    let mut values = ValueBuffer::new();
    values.push_absent();
    backend
        .put(&keys(&["to"], backend.map.range()), &values)
        .unwrap();
    assert!(!counts(&mut backend).iter().any(|(word, _)| word == "to"));
    let work = backend.snapshot(CheckpointId(1)).unwrap();
    assert_eq!(work.run(&mut Vec::new()).unwrap()[0].n_entries, 5);
}

#[test]
fn one_snapshot_at_a_time_and_the_next_after_it_ended_or_was_dropped() {
    let mut backend = backend();
    let work = backend.snapshot(CheckpointId(1)).unwrap();
    let refused = backend.snapshot(CheckpointId(2)).map(|_| ()).unwrap_err();
    assert!(matches!(
        refused,
        StateError::SnapshotRunning {
            running: CheckpointId(1),
            asked: CheckpointId(2)
        }
    ));
    drop(work);
    let work = backend.snapshot(CheckpointId(3)).unwrap();
    work.run(&mut Vec::new()).unwrap();
    backend.snapshot(CheckpointId(4)).unwrap();
}

// Proves F136 for this backend.
#[test]
fn counts_survive_every_change_of_parallelism() {
    let words: Vec<String> = (0..2_000u32).map(|i| format!("w{}", i * i % 997)).collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let mut reference = backend();
    let mut subtasks: Vec<_> = (0..4).map(|i| backend_of(i, 4)).collect();
    for parallelism in [3, 7, 1, 4] {
        count(&mut reference, &words);
        subtasks
            .iter_mut()
            .for_each(|subtask| count(subtask, &words));
        let files: Vec<_> = subtasks
            .iter_mut()
            .map(|subtask| snapshot(subtask, 1))
            .collect();
        let files: Vec<_> = files.iter().map(Vec::as_slice).collect();
        subtasks = (0..parallelism)
            .map(|i| backend_of(i, parallelism))
            .collect();
        for subtask in &mut subtasks {
            restore(subtask, &files, RestorePolicy::RequireAll).unwrap();
        }
        let mut all: Vec<_> = subtasks.iter_mut().flat_map(counts).collect();
        all.sort();
        assert_eq!(all, counts(&mut reference), "{parallelism}");
    }
}

// Proves F137 for this backend.
#[test]
fn parts_that_do_not_fit_the_job_are_refused_with_numbers() {
    let (a, b) = (
        snapshot(&mut backend_of(0, 2), 1),
        snapshot(&mut backend_of(1, 2), 1),
    );
    let check = |backend: &mut MemoryBackend, files: &[&[u8]]| {
        restore(backend, files, RestorePolicy::RequireAll)
            .unwrap_err()
            .to_string()
    };
    assert_eq!(
        check(&mut backend(), &[&a]),
        "key group 64 of 0 to 127 is in no part of the snapshot"
    );
    assert_eq!(
        check(&mut backend(), &[&a, &b, &b]),
        "key group 64 is in two parts of the snapshot"
    );
    let wide = MaxParallelism::new(256).unwrap();
    let table = StateTable::declare(vec![descriptor("u64/1", &[])]).unwrap();
    let mut other = MemoryBackend::new(table, KeyGroupRange::all(wide), wide);
    assert_eq!(
        check(&mut other, &[&a, &b]),
        "snapshot was taken with max parallelism 128, the job has 256"
    );
}

#[test]
fn a_schema_the_job_cannot_read_is_refused_and_a_readable_one_is_kept_apart() {
    let mut old = backend();
    count(&mut old, &["a"]);
    let file = snapshot(&mut old, 1);
    let all = old.map.range();

    let mut unaware = backend_with(vec![descriptor("u64/2", &[])], all);
    let error = restore(&mut unaware, &[&file], RestorePolicy::RequireAll).unwrap_err();
    let text = error.to_string();
    assert!(
        ["\"count\"", "\"u64/1\"", "\"u64/2\""]
            .iter()
            .all(|t| text.contains(t)),
        "{text}"
    );

    let mut new = backend_with(vec![descriptor("u64/2", &["u64/1"])], all);
    restore(&mut new, &[&file], RestorePolicy::RequireAll).unwrap();
    let current = new.table().current_schema(COUNT);
    let mut values = ValueBuffer::new();
    values.push(current, b"new");
    new.put(&keys(&["b"], all), &values).unwrap();
    let both = keys(&["a", "b"], all);
    new.get(&both, &mut values).unwrap();
    let version = |index| {
        new.table()
            .schema_version(COUNT, values.get(index).unwrap())
    };
    assert_eq!([version(0), version(1)], [Some("u64/1"), Some("u64/2")]);
    assert_ne!(values.get(0).unwrap().schema, current);
}

#[test]
fn parts_that_number_their_schemas_differently_are_brought_together() {
    let with = |index, schema, readable: &[&str]| {
        let range = KeyGroupRange::of_subtask(index, 2, max());
        let mut backend = backend_with(vec![descriptor(schema, readable)], range);
        count(&mut backend, &WORDS);
        snapshot(&mut backend, 1)
    };
    // Both schemas have index 0 where they were the only one.
    let files = [with(0, "u64/1", &[]), with(1, "u64/2", &[])];
    let all = KeyGroupRange::all(max());
    let mut new = backend_with(vec![descriptor("u64/2", &["u64/1"])], all);
    restore(&mut new, &[&files[0], &files[1]], RestorePolicy::RequireAll).unwrap();
    let mut scan = Scan::new(ScanRange::state(COUNT, all));
    let mut page = ScanPage::new();
    new.scan(&mut scan, 100, &mut page).unwrap();
    assert_eq!(page.len(), 6);
    for (parts, value) in page.iter() {
        let written_with = if parts.group.0 < 64 { "u64/1" } else { "u64/2" };
        assert_eq!(new.table().schema_version(COUNT, value), Some(written_with));
    }
}

// Proves F143 for this backend.
#[test]
fn a_state_that_is_gone_is_refused_or_dropped_and_listed() {
    let extra = StateDescriptor::new("extra", StateKind::Map, "1");
    let range = KeyGroupRange::all(max());
    let mut old = backend_with(vec![extra, descriptor("u64/1", &[])], range);
    let mut values = ValueBuffer::new();
    values.push(SchemaIndex(0), b"dropped");
    old.put(&keys(&["x"], range), &values).unwrap();
    let mut shifted = StateKeys::new();
    let kept = KeyParts {
        group: KeyGroup(9),
        state: StateId(1),
        key: b"kept",
        namespace: b"",
        user_key: b"",
    };
    shifted.push(kept).unwrap();
    old.put(&shifted, &values).unwrap();
    let file = snapshot(&mut old, 1);

    let error = restore(&mut backend(), &[&file], RestorePolicy::RequireAll).unwrap_err();
    assert!(matches!(error, StateError::Undeclared { state } if state == "extra"));

    // The state that stays has another id now, and is found all the same.
    let mut new = backend();
    let summary = restore(&mut new, &[&file], RestorePolicy::AllowNonRestored).unwrap();
    assert_eq!(
        (summary.n_entries, summary.dropped_states),
        (1, vec!["extra".to_owned()])
    );
    let mut moved = StateKeys::new();
    moved
        .push(KeyParts {
            state: COUNT,
            ..kept
        })
        .unwrap();
    new.get(&moved, &mut values).unwrap();
    assert_eq!(values.get(0).unwrap().bytes, b"dropped");
}

#[test]
fn a_state_of_another_kind_is_refused() {
    let file = snapshot(&mut backend(), 1);
    let list = StateDescriptor::new("count", StateKind::List, "u64/1");
    let mut other = backend_with(vec![list], KeyGroupRange::all(max()));
    let error = restore(&mut other, &[&file], RestorePolicy::RequireAll).unwrap_err();
    assert_eq!(
        error.to_string(),
        "state \"count\" is a value in the snapshot, the job declares a list"
    );
}

#[test]
fn a_key_of_a_foreign_group_changes_nothing() {
    let mut backend = backend_of(0, 2);
    let mut values = ValueBuffer::new();
    let foreign = keys(&WORDS, KeyGroupRange::all(max()));
    (0..foreign.len()).for_each(|_| values.push(SchemaIndex(0), b"12345678"));
    let error = backend.put(&foreign, &values).unwrap_err();
    assert!(
        matches!(error, StateError::ForeignKeyGroup { .. }),
        "{error}"
    );
    assert!(counts(&mut backend).is_empty());
}

// Proves F142 at unit level: what the synchronous part touches is the shards, not the entries, and
// a write afterwards copies what it writes to.
#[test]
fn the_synchronous_part_of_a_snapshot_does_not_copy_the_state() {
    let mut backend = backend();
    let range = backend.map.range();
    let mut values = ValueBuffer::new();
    let words: Vec<String> = (0..200_000).map(|i| format!("key-{i}")).collect();
    for chunk in words.chunks(1_000) {
        let chunk: Vec<&str> = chunk.iter().map(String::as_str).collect();
        values.clear();
        chunk
            .iter()
            .for_each(|_| values.push(SchemaIndex(0), &[7; 100]));
        backend.put(&keys(&chunk, range), &values).unwrap();
    }
    let bytes = backend.usage().active_bytes;
    let work = backend.snapshot(CheckpointId(1)).unwrap();
    assert_eq!(backend.usage().frozen_bytes, 0);
    values.clear();
    values.push(SchemaIndex(0), &[8; 100]);
    backend.put(&keys(&["key-1"], range), &values).unwrap();
    let copied = backend.usage().frozen_bytes;
    assert!(copied > 0 && copied < bytes / 100, "{copied} of {bytes}");
    assert_eq!(work.run(&mut Vec::new()).unwrap()[0].n_entries, 200_000);
    assert_eq!(backend.usage().frozen_bytes, 0);
}

#[test]
fn a_sink_that_gives_up_ends_the_snapshot_and_leaves_the_backend_whole() {
    struct Full(usize);
    impl SnapshotSink for Full {
        fn write(&mut self, chunk: bytes::Bytes) -> Result<(), crate::SinkError> {
            self.0 = self
                .0
                .checked_sub(chunk.len())
                .ok_or(crate::SinkError::Cancelled)?;
            Ok(())
        }
    }
    let mut backend = backend();
    count(&mut backend, &WORDS);
    let before = counts(&mut backend);
    let work = backend.snapshot(CheckpointId(1)).unwrap();
    let error = work.run(&mut Full(100)).unwrap_err();
    assert!(
        matches!(error, StateError::SnapshotCancelled { .. }),
        "{error}"
    );
    assert_eq!(counts(&mut backend), before);
    assert!(!snapshot(&mut backend, 2).is_empty());
}
