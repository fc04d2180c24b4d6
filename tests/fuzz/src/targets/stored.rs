//! What lies in storage: chain entries, metadata, files of state.

use millstream_coordination::chain::Entry;
use millstream_snapshot::metadata;
use millstream_state::format::{Contents, SnapshotHeader, SnapshotReader, SnapshotWriter};
use millstream_state::{
    KeyParts, SchemaIndex, StateId, StateKeys, StateKind, StoredSchema, StoredState,
};
use millstream_types::{CheckpointId, KeyGroup, KeyGroupRange, MaxParallelism};
use xxhash_rust::xxh3::{Xxh3Default, xxh3_128};

/// Version, length and checksum are made right, so that the rest is looked at.
pub(super) fn chain_entry(data: &[u8]) {
    let mut bytes = b"MSCE\0\x01".to_vec();
    let length = (10 + data.len() + 16) as u32;
    bytes.extend_from_slice(&length.to_be_bytes());
    bytes.extend_from_slice(data);
    let checksum = xxh3_128(&bytes);
    bytes.extend_from_slice(&checksum.to_be_bytes());
    for bytes in [&bytes[..], data] {
        match Entry::from_canonical_bytes(bytes) {
            Ok(entry) => assert_eq!(entry.canonical_bytes(), bytes, "an entry has one spelling"),
            Err(error) => assert!(!error.to_string().is_empty() && !error.remedy().is_empty()),
        }
    }
}

pub(super) fn metadata(data: &[u8]) {
    let mut bytes = b"MSCKPTMD\0\x01\0\0".to_vec();
    bytes.extend_from_slice(&((36 + data.len()) as u64).to_be_bytes());
    let mut hasher = Xxh3Default::new();
    hasher.update(&bytes);
    hasher.update(data);
    bytes.extend_from_slice(&hasher.digest128().to_be_bytes());
    bytes.extend_from_slice(data);
    match metadata::decode(&bytes) {
        Ok(read) => {
            let written = metadata::encode(&read).expect("what was read can be written");
            let again = metadata::decode(&written).expect("what was written is read");
            assert_eq!(again, read);
        }
        Err(fault) => assert!(!fault.to_string().is_empty()),
    }
    assert!(metadata::decode(data).is_err() || data.starts_with(b"MSCKPTMD"));
}

type Entries = Vec<(Vec<u8>, Vec<u8>)>;

const GROUPS: u16 = 16;

fn header() -> SnapshotHeader {
    SnapshotHeader {
        checkpoint: CheckpointId(7),
        contents: Contents::Changes,
        max_parallelism: MaxParallelism::new(128).expect("within bounds"),
        range: KeyGroupRange::new(KeyGroup(0), KeyGroup(GROUPS - 1)).expect("ascending"),
        states: vec![StoredState {
            id: StateId(0),
            name: "count".into(),
            kind: StateKind::Value,
            schemas: vec![StoredSchema {
                index: SchemaIndex(0),
                version: "i64/1".into(),
            }],
        }],
    }
}

/// Entries from bytes: a key group and a length each, then the value. Keys ascend.
fn entries(mut data: &[u8]) -> Entries {
    let mut entries = Entries::new();
    while let Some((&[group, len], rest)) = data.split_first_chunk::<2>() {
        let (value, rest) = rest.split_at(usize::from(len).min(rest.len()));
        data = rest;
        let mut keys = StateKeys::new();
        let parts = KeyParts {
            group: KeyGroup(u16::from(group) % GROUPS),
            state: StateId(0),
            key: &(entries.len() as u32).to_be_bytes(),
            namespace: b"",
            user_key: b"",
        };
        keys.push(parts).expect("a short key");
        // What has no value was deleted.
        let stored = match value {
            [] => Vec::new(),
            _ => [&[0][..], value].concat(),
        };
        entries.push((keys.get(0).to_vec(), stored));
    }
    entries.sort();
    entries
}

fn read(mut file: &[u8]) -> Option<Entries> {
    let mut reader = SnapshotReader::open(&mut file).ok()?;
    if *reader.header() != header() {
        return None;
    }
    let mut found = Entries::new();
    while let Some(entry) = reader.next_entry().ok()? {
        found.push((
            entry.key.to_vec(),
            entry.stored.unwrap_or_default().to_vec(),
        ));
    }
    Some(found)
}

/// The first half of the data becomes a file; each four bytes of the second change it. And the data
/// itself is read as a file.
pub(super) fn state_file(data: &[u8]) {
    let _ = read(data);
    let (contents, changes) = data.split_at(data.len() / 2);
    let entries = entries(contents);
    let mut file = Vec::new();
    let header = header();
    let mut writer = SnapshotWriter::new(&header, &mut file).expect("written to memory");
    for (key, stored) in &entries {
        let written = match stored[..] {
            [] => writer.deletion(key),
            _ => writer.entry(key, stored),
        };
        written.expect("written to memory");
    }
    writer.finish().expect("written to memory");
    assert_eq!(
        read(&file).as_ref(),
        Some(&entries),
        "what was written is read"
    );
    let mut damaged = file.clone();
    for change in changes.chunks_exact(4) {
        let at = usize::from(u16::from_le_bytes([change[0], change[1]])) % damaged.len();
        match change[2] % 4 {
            0 => damaged.truncate(at.max(1)),
            1 => damaged.insert(at, change[3]),
            _ => damaged[at] ^= change[3],
        }
    }
    if let Some(found) = read(&damaged) {
        assert_eq!(found, entries, "a changed file gave other entries");
    }
}
