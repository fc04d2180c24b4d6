//! What only a backend with a database below it can get wrong.

use std::os::unix::fs::FileExt;

use super::{VALUES, Write, max, rocks, rocks_with, small_memory, table};
use crate::{RocksBackend, RocksMemory, SnapshotForm, StateDirectory};
use millstream_state::{
    KeyedStateBackend, RestorePolicy, SnapshotSink, SnapshotSource, SnapshotWork, StateError,
    StateKeys, ValueBuffer,
};
use millstream_types::{CheckpointId, Checksum, Disposition, KeyGroupRange, MaxParallelism};

fn write(name: u8, value: &[u8]) -> Write {
    Write {
        state: VALUES,
        name,
        namespace: vec![],
        user_key: vec![],
        value: Some(value.to_vec()),
    }
}

fn put(backend: &mut RocksBackend, name: u8, value: &[u8]) -> Result<(), StateError> {
    let (mut keys, mut values) = (StateKeys::new(), ValueBuffer::new());
    write(name, value).push_key(&mut keys);
    write(name, value).push_value(&mut values);
    backend.put(&keys, &values)
}

fn put_absent(backend: &mut RocksBackend, name: u8) {
    let (mut keys, mut values) = (StateKeys::new(), ValueBuffer::new());
    write(name, b"").push_key(&mut keys);
    values.push_absent();
    backend.put(&keys, &values).unwrap();
}

fn get(backend: &mut RocksBackend, name: u8) -> Option<Vec<u8>> {
    let (mut keys, mut values) = (StateKeys::new(), ValueBuffer::new());
    write(name, b"").push_key(&mut keys);
    backend.get(&keys, &mut values).unwrap();
    values.get(0).map(|value| value.bytes.to_vec())
}

fn restored(root: &std::path::Path, file: &[u8]) -> RocksBackend {
    let mut backend = rocks(root, "restored", KeyGroupRange::all(max()));
    let mut source = file;
    let mut parts = [&mut source as &mut dyn SnapshotSource];
    backend
        .restore(&mut parts, RestorePolicy::RequireAll)
        .unwrap();
    backend
}

#[test]
fn without_checkpoints_a_full_map_is_drained_and_memory_stays_bounded() {
    let root = tempfile::tempdir().unwrap();
    let mut backend = rocks(root.path(), "a", KeyGroupRange::all(max()));
    let most = small_memory().dirty_bytes_max();
    for round in 0..20u8 {
        for name in 0..=255 {
            put(&mut backend, name, &[round; 8_000]).unwrap();
            assert!(backend.usage().active_bytes <= most + 64 * 1_024);
        }
    }
    assert!(backend.usage().n_inline_drains > 0);
    for name in [0, 100, 255] {
        assert_eq!(get(&mut backend, name), Some(vec![19; 8_000]));
    }
}

/// A sink that lets the task write between two chunks of the snapshot.
struct Interrupted<'a> {
    backend: &'a mut RocksBackend,
    file: Vec<u8>,
}

impl SnapshotSink for Interrupted<'_> {
    fn write(&mut self, chunk: bytes::Bytes) -> Result<(), millstream_state::SinkError> {
        // By now the freeze is lifted: the upload does not keep the task from its memory.
        for name in 0..=255 {
            put(self.backend, name, &[9; 8_000]).unwrap();
        }
        self.file.extend_from_slice(&chunk);
        Ok(())
    }
}

#[test]
fn a_snapshot_that_is_uploaded_slowly_sees_nothing_of_what_is_drained_meanwhile() {
    let root = tempfile::tempdir().unwrap();
    let mut backend = rocks(root.path(), "a", KeyGroupRange::all(max()));
    for name in 0..=255 {
        put(&mut backend, name, &[1; 500]).unwrap();
    }
    let work = backend.snapshot(CheckpointId(1)).unwrap();
    let drains = backend.usage().n_inline_drains;
    let mut sink = Interrupted {
        backend: &mut backend,
        file: Vec::new(),
    };
    work.run(&mut sink).unwrap();
    let file = sink.file;
    assert!(
        backend.usage().n_inline_drains > drains,
        "or the test shows nothing"
    );
    assert_eq!(get(&mut backend, 7), Some(vec![9; 8_000]));
    drop(backend);
    let mut restored = restored(root.path(), &file);
    for name in 0..=255 {
        assert_eq!(get(&mut restored, name), Some(vec![1; 500]));
    }
}

/// Files of the database of attempt `a`.
fn n_tables(root: &std::path::Path) -> usize {
    let files = std::fs::read_dir(root.join("a/db")).unwrap().flatten();
    let is_table = |file: &std::fs::DirEntry| file.path().extension().is_some_and(|e| e == "sst");
    files.filter(is_table).count()
}

/// Rounds of changes and deletions, by files and by write buffers in turns, as maps are large or not.
#[test]
fn files_and_write_buffers_follow_one_another_in_order() {
    let root = tempfile::tempdir().unwrap();
    let memory = RocksMemory::new(128 << 20, 1).unwrap();
    let range = KeyGroupRange::all(max());
    let mut backend = rocks_with(root.path(), "a", range, &memory);
    let mut expected = std::collections::BTreeMap::new();
    let mut file = Vec::new();
    for round in 0..16u8 {
        // Five megabytes, and some bytes.
        let size = if round % 3 == 0 { 20_000 } else { 10 };
        for name in 0..=255 {
            if name % 16 == round {
                put_absent(&mut backend, name);
                expected.remove(&name);
            } else if round % 2 == 0 || name % 3 == 0 {
                put(&mut backend, name, &vec![round; size]).unwrap();
                expected.insert(name, vec![round; size]);
            }
        }
        let bytes = backend.usage().active_bytes;
        assert_eq!(
            bytes > memory.ingest_bytes_min(),
            size == 20_000 && round % 2 == 0
        );
        file.clear();
        let work = backend
            .snapshot(CheckpointId(u64::from(round) + 1))
            .unwrap();
        work.run(&mut file).unwrap();
        if round == 0 {
            // A write buffer of this budget would hold all of it.
            assert!(n_tables(root.path()) > 0, "drained without a file");
        }
    }
    let mut restored = restored(root.path(), &file);
    for name in 0..=255 {
        assert_eq!(get(&mut backend, name), expected.get(&name).cloned());
        assert_eq!(get(&mut restored, name), expected.get(&name).cloned());
    }
}

#[test]
fn during_a_freeze_a_full_map_waits_and_goes_on_after_it() {
    let root = tempfile::tempdir().unwrap();
    let mut backend = rocks(root.path(), "a", KeyGroupRange::all(max()));
    put(&mut backend, 1, b"before").unwrap();
    let work = backend.snapshot(CheckpointId(1)).unwrap();
    let mut names = (0..=255u8).cycle();
    let full =
        names.find_map(|name| put(&mut backend, name, &vec![2; 20_000 + usize::from(name)]).err());
    assert!(matches!(full, Some(StateError::Full { .. })));
    assert_eq!(backend.usage().n_full, 1);
    assert_eq!(backend.usage().frozen_for, Some(CheckpointId(1)));
    work.run(&mut Vec::new()).unwrap();
    assert_eq!(backend.usage().frozen_for, None);
    put(&mut backend, 1, b"after").unwrap();
    assert_eq!(get(&mut backend, 1), Some(b"after".to_vec()));
}

#[test]
fn the_database_goes_with_the_backend_and_its_last_snapshot() {
    let root = tempfile::tempdir().unwrap();
    let mut backend = rocks(root.path(), "a", KeyGroupRange::all(max()));
    put(&mut backend, 1, b"x").unwrap();
    let work: Box<dyn SnapshotWork> = backend.snapshot(CheckpointId(1)).unwrap();
    drop(backend);
    assert!(root.path().join("a").exists());
    assert_eq!(work.run(&mut Vec::new()).unwrap()[0].n_entries, 1);
    assert!(!root.path().join("a").exists());
}

#[test]
fn a_damaged_snapshot_is_refused_before_any_of_it_is_in_the_database() {
    let root = tempfile::tempdir().unwrap();
    let mut backend = rocks(root.path(), "a", KeyGroupRange::all(max()));
    for name in 0..=255 {
        put(&mut backend, name, &[1; 500]).unwrap();
    }
    let mut file = Vec::new();
    backend
        .snapshot(CheckpointId(1))
        .unwrap()
        .run(&mut file)
        .unwrap();
    let middle = file.len() / 2;
    file[middle] ^= 1;
    let mut other = rocks(root.path(), "b", KeyGroupRange::all(max()));
    let mut source = &file[..];
    let mut parts = [&mut source as &mut dyn SnapshotSource];
    let error = other
        .restore(&mut parts, RestorePolicy::RequireAll)
        .unwrap_err();
    assert!(matches!(error, StateError::Corrupt { .. }), "{error}");
    assert!((0..=255).all(|name| get(&mut other, name).is_none()));
}

#[test]
fn a_damaged_database_file_is_an_error_with_a_remedy_and_never_a_value() {
    let root = tempfile::tempdir().unwrap();
    let mut backend = rocks(root.path(), "a", KeyGroupRange::all(max()));
    for name in 0..=255u8 {
        // Bytes that do not compress, so that the damage hits a value.
        let value: Vec<u8> = (0..20)
            .flat_map(|i| Checksum::of(&[name, i]).0.to_le_bytes())
            .collect();
        put(&mut backend, name, &value).unwrap();
    }
    let mut file = Vec::new();
    let work = backend.snapshot(CheckpointId(1)).unwrap();
    work.run(&mut file).unwrap();
    let mut restored = restored(root.path(), &file);
    let tables = std::fs::read_dir(root.path().join("restored/db")).unwrap();
    let is_table = |path: &std::path::PathBuf| path.extension().is_some_and(|e| e == "sst");
    let tables: Vec<_> = tables
        .map(|entry| entry.unwrap().path())
        .filter(is_table)
        .collect();
    assert_eq!(tables.len(), 1);
    let table = std::fs::File::options()
        .write(true)
        .open(&tables[0])
        .unwrap();
    // Its first and last block are in the cache since the file was taken over.
    let middle = table.metadata().unwrap().len() / 2;
    table.write_all_at(&[0xa5; 64], middle).unwrap();
    let (mut keys, mut values) = (StateKeys::new(), ValueBuffer::new());
    (0..=255).for_each(|name| write(name, b"").push_key(&mut keys));
    let error = restored.get(&keys, &mut values).unwrap_err();
    assert!(error.to_string().contains("restored/db"), "{error}");
    assert!(error.remedy().contains("restored from its last checkpoint"));
    assert_eq!(error.disposition(), Disposition::FailTask);
}

// Proves F137 for this backend.
#[test]
fn another_max_parallelism_is_refused_with_numbers() {
    let root = tempfile::tempdir().unwrap();
    let mut backend = rocks(root.path(), "a", KeyGroupRange::all(max()));
    let mut file = Vec::new();
    backend
        .snapshot(CheckpointId(1))
        .unwrap()
        .run(&mut file)
        .unwrap();
    let wide = MaxParallelism::new(32).unwrap();
    let directory = StateDirectory::create(root.path(), "b").unwrap();
    let range = KeyGroupRange::all(wide);
    let mut other = RocksBackend::create(
        directory,
        table(),
        range,
        wide,
        &small_memory(),
        SnapshotForm::Full,
    )
    .unwrap();
    let mut source = &file[..];
    let mut parts = [&mut source as &mut dyn SnapshotSource];
    let error = other
        .restore(&mut parts, RestorePolicy::RequireAll)
        .unwrap_err();
    assert_eq!(
        error.to_string(),
        "snapshot was taken with max parallelism 16, the job has 32"
    );
}

#[test]
fn a_database_that_cannot_be_opened_names_the_directory_and_a_remedy() {
    let root = tempfile::tempdir().unwrap();
    let directory = StateDirectory::create(root.path(), "a").unwrap();
    std::fs::write(directory.path().join("db"), b"not a directory").unwrap();
    let range = KeyGroupRange::all(max());
    let error = RocksBackend::create(
        directory,
        table(),
        range,
        max(),
        &small_memory(),
        SnapshotForm::Full,
    )
    .unwrap_err();
    assert!(error.to_string().contains("/a/db"), "{error}");
    assert!(!error.remedy().is_empty());
}
