use millstream_types::KeyGroup;

use super::*;
use crate::{
    KeyParts, SchemaIndex, SnapshotSource, StateError, StateId, StateKeys, StateKind, StoredSchema,
};

type Entries = Vec<(Vec<u8>, Vec<u8>)>;

fn group_range(first: u16, last: u16) -> KeyGroupRange {
    KeyGroupRange::new(KeyGroup(first), KeyGroup(last)).unwrap()
}

fn header(first: u16, last: u16) -> SnapshotHeader {
    let schema = |index, version: &str| StoredSchema {
        index: SchemaIndex(index),
        version: version.into(),
    };
    SnapshotHeader {
        checkpoint: CheckpointId(7),
        contents: Contents::All,
        max_parallelism: MaxParallelism::new(128).unwrap(),
        range: group_range(first, last),
        states: vec![
            StoredState {
                id: StateId(0),
                name: "count".into(),
                kind: StateKind::Value,
                schemas: vec![schema(0, "i64/1"), schema(1, "i64/2")],
            },
            StoredState {
                id: StateId(1),
                name: "seen".into(),
                kind: StateKind::Map,
                schemas: vec![schema(0, "utf8/1")],
            },
        ],
    }
}

fn entry(group: u16, state: u16, key: &[u8], stored: &[u8]) -> (Vec<u8>, Vec<u8>) {
    let mut keys = StateKeys::new();
    keys.push(KeyParts {
        group: KeyGroup(group),
        state: StateId(state),
        key,
        namespace: b"",
        user_key: b"",
    })
    .unwrap();
    (keys.get(0).to_vec(), stored.to_vec())
}

fn small() -> Entries {
    vec![
        entry(2, 0, b"ann", &[0, 1]),
        entry(2, 0, b"anz", &[1, 2, 3]),
        entry(2, 1, b"ann", &[0]),
        entry(5, 0, b"bob", &[0, 9]),
    ]
}

/// Enough for several blocks in each of three key groups.
fn large() -> Entries {
    let keys = (0..9_000u32).map(|i| {
        let value = [&[0u8][..], &i.to_be_bytes().repeat(6)].concat();
        entry((i / 3_000) as u16, 0, &(i % 3_000).to_be_bytes(), &value)
    });
    keys.collect()
}

fn write(header: &SnapshotHeader, entries: &Entries) -> Vec<u8> {
    let mut file = Vec::new();
    let mut writer = SnapshotWriter::new(header, &mut file).unwrap();
    for (key, stored) in entries {
        writer.append(key, stored).unwrap();
    }
    let summary = writer.finish().unwrap();
    assert_eq!(summary.bytes, file.len() as u64);
    assert_eq!(summary.n_entries, entries.len() as u64);
    assert_eq!(summary.checksum, millstream_types::Checksum::of(&file));
    file
}

fn read(mut file: &[u8], groups: Option<KeyGroupRange>) -> Result<Entries, StateError> {
    read_from(&mut file, groups)
}

fn read_from(
    source: &mut dyn SnapshotSource,
    groups: Option<KeyGroupRange>,
) -> Result<Entries, StateError> {
    let mut reader = SnapshotReader::open(source)?;
    if let Some(groups) = groups {
        reader.select(groups);
    }
    let mut found = Vec::new();
    while let Some(entry) = reader.next_entry()? {
        let stored = entry.stored.unwrap_or_default();
        found.push((entry.key.to_vec(), stored.to_vec()));
    }
    Ok(found)
}

#[test]
fn what_is_written_is_read_back_whole_and_by_key_group() {
    for entries in [Entries::new(), small(), large()] {
        let file = write(&header(0, 9), &entries);
        assert_eq!(read(&file, None).unwrap(), entries);
        let part = read(&file, Some(group_range(1, 2))).unwrap();
        let expected = entries.iter().filter(|(key, _)| matches!(key[1], 1 | 2));
        assert_eq!(part, expected.cloned().collect::<Vec<_>>());
        assert!(read(&file, Some(group_range(6, 9))).unwrap().is_empty());
    }
}

fn unhex(text: &str) -> Vec<u8> {
    let digits: String = text.split_whitespace().collect();
    let byte = |at| u8::from_str_radix(&digits[at..at + 2], 16).unwrap();
    (0..digits.len()).step_by(2).map(byte).collect()
}

/// Files of every version stay readable for ever.
#[test]
fn the_golden_file_of_version_1_is_read() {
    let file = unhex(GOLDEN_V1);
    let mut source = &file[..];
    let reader = SnapshotReader::open(&mut source).unwrap();
    assert_eq!(*reader.header(), header(0, 9));
    assert_eq!(read(&file, None).unwrap(), small());
}

/// What this version writes stays what it is.
#[test]
fn the_golden_file_of_version_2_is_read_and_written() {
    let changes = SnapshotHeader {
        contents: Contents::Changes,
        ..header(0, 9)
    };
    let mut entries = small();
    entries[1].1.clear();
    let file = write(&changes, &entries);
    let hex: String = file.iter().map(|byte| format!("{byte:02x}")).collect();
    assert_eq!(unhex(GOLDEN_V2), file, "{hex}");
    let mut source = &file[..];
    let reader = SnapshotReader::open(&mut source).unwrap();
    assert_eq!(*reader.header(), changes);
    assert_eq!(read(&file, None).unwrap(), entries);
}

const GOLDEN_V2: &str = "
    4d534b535441544502000000010000003e0000008bda069107000000000000008000000000000900
    01020000000105636f756e74020000056936342f3101056936342f32010003047365656e01000006
    757466382f3102000000230000002eda4a9702000300000000090002000003616e6e000200010702
    7a000003060103616e6e00010002000000140000002b14759105000100000000090005000003626f
    620002000903000000300000007a9b318f0200000002005600000000000000010000000300000000
    00000005008500000000000000010000000100000000000000a50000000000000001010000000000
    000400000000000000ff3a51af444e4b53
";

const GOLDEN_V1: &str = "
    4d534b535441544501000000010000003d0000002b4b6b9f07000000000000008000000000000900
    020000000105636f756e74020000056936342f3101056936342f32010003047365656e0100000675
    7466382f310200000026000000a4222d2502000300000000090002000003616e6e0002000107027a
    000301020303060103616e6e0001000200000014000000a9c5697205000100000000090005000003
    626f62000200090300000030000000ac087e35020000000200550000000000000001000000030000
    000000000005008700000000000000010000000100000000000000a7000000000000000301000000
    00000004000000000000009e640d63444e4b53
";

#[test]
fn every_cut_is_an_error() {
    let file = write(&header(0, 9), &small());
    for length in 0..file.len() {
        let error = read(&file[..length], None).unwrap_err();
        match error {
            StateError::NotASnapshot { found } => assert_eq!(found, file[..length.min(8)]),
            StateError::Corrupt { offset, .. } => assert!(offset <= length as u64),
            other => panic!("{length}: {other}"),
        }
    }
}

#[test]
fn every_flipped_bit_is_an_error_at_an_offset_not_behind_it() {
    let file = write(&header(0, 9), &small());
    for position in 0..file.len() {
        for bit in 0..8 {
            let mut bad = file.clone();
            bad[position] ^= 1 << bit;
            match read(&bad, None).unwrap_err() {
                StateError::NotASnapshot { .. } => assert!(position < 8),
                StateError::VersionTooNew { .. } => assert!((8..10).contains(&position)),
                StateError::Corrupt { .. } => {}
                other => panic!("{position}: {other}"),
            }
        }
    }
}

#[test]
fn blocks_that_changed_places_are_refused() {
    let header = header(0, 9);
    let file = write(&header, &large());
    let mut source = &file[..];
    let reader = SnapshotReader::open(&mut source).unwrap();
    let [a, b, c] = [0, 1, 2].map(|i| reader.index()[i].offset as usize);
    assert_eq!(
        b - a,
        c - b,
        "groups of equal length, or the test shows nothing"
    );
    let mut bad = file.clone();
    bad[a..b].copy_from_slice(&file[b..c]);
    bad[b..c].copy_from_slice(&file[a..b]);
    let error = read(&bad, None).unwrap_err();
    assert!(
        matches!(error, StateError::Corrupt { offset, .. } if offset == a as u64),
        "{error}"
    );
}

#[test]
fn blocks_of_another_subtasks_file_are_refused() {
    let file = write(&header(0, 9), &small());
    let other = write(&header(0, 8), &small());
    assert_eq!(file.len(), other.len());
    let data = PREAMBLE_BYTES + 12 + u32::from_le_bytes(file[16..20].try_into().unwrap()) as usize;
    let mixed = [&file[..data], &other[data..]].concat();
    assert!(matches!(
        read(&mixed, None),
        Err(StateError::Corrupt { .. })
    ));
}

#[test]
fn a_later_version_is_refused_by_its_number() {
    let mut file = write(&header(0, 9), &small());
    file[8] = 3;
    let error = read(&file, None).unwrap_err().to_string();
    assert!(
        error.contains("version 3, the newest this version reads is 2"),
        "{error}"
    );
}

/// A file that claims to be as long as files can be, and pretends to have every byte of it.
struct Endless {
    front: Vec<u8>,
    n_read: usize,
    largest_read: usize,
}

impl SnapshotSource for Endless {
    fn byte_len(&self) -> u64 {
        u64::MAX
    }

    fn read_at(
        &mut self,
        offset: u64,
        buffer: &mut [u8],
    ) -> Result<(), Box<dyn std::error::Error + Send + Sync>> {
        self.n_read += 1;
        self.largest_read = self.largest_read.max(buffer.len());
        if self.n_read > 16 {
            return Err("the store gave up".into());
        }
        for (position, byte) in buffer.iter_mut().enumerate() {
            let at = usize::try_from(offset).unwrap() + position;
            *byte = self.front.get(at).copied().unwrap_or(0xff);
        }
        Ok(())
    }
}

#[test]
fn lengths_that_lie_cost_neither_a_panic_nor_memory() {
    let file = write(&header(0, 9), &small());
    let mut lying_block = file[..16].to_vec();
    lying_block.extend_from_slice(&[0xff; 4]);
    for front in [file.clone(), lying_block, file[..12].to_vec()] {
        let mut source = Endless {
            front,
            n_read: 0,
            largest_read: 0,
        };
        let error = read_from(&mut source, None).unwrap_err();
        assert!(
            matches!(
                error,
                StateError::Corrupt { .. } | StateError::Unreadable { .. }
            ),
            "{error}"
        );
        assert!(source.largest_read <= 1 << 20);
    }
}

/// Well-formed blocks around contents that no writer writes: the checksums do not help here.
#[test]
fn sealed_nonsense_is_refused_for_what_is_wrong_with_it() {
    let cases: [(Entries, &str); 3] = [
        (
            vec![entry(2, 9, b"k", &[0])],
            "state that the header does not list",
        ),
        (
            vec![entry(2, 0, b"k", &[5])],
            "schema that the header does not list",
        ),
        (
            vec![entry(2, 0, b"k", &[])],
            "schema that the header does not list",
        ),
    ];
    for (entries, what) in cases {
        let error = read(&write(&header(0, 9), &entries), None).unwrap_err();
        assert!(error.to_string().contains(what), "{error}");
    }
    let outside = write(&header(0, 1), &small());
    let error = read(&outside, None).unwrap_err();
    assert!(
        error.to_string().contains("index contradicts the header"),
        "{error}"
    );
}

/// Changes one byte of the first data block and gives it a valid checksum again.
fn resealed(position: usize, byte: u8) -> Vec<u8> {
    let mut file = write(&header(0, 9), &small());
    let word = |at: usize, file: &[u8]| u32::from_le_bytes(file[at..at + 4].try_into().unwrap());
    let seed = block::Seed::of_header(word(PREAMBLE_BYTES + 8, &file));
    let start = PREAMBLE_BYTES + 12 + word(PREAMBLE_BYTES + 4, &file) as usize;
    let end = start + 12 + word(start + 4, &file) as usize;
    file[start + 12 + position] = byte;
    block::seal(
        &mut file[start..end],
        block::BlockKind::Data,
        seed,
        start as u64,
    );
    file
}

#[test]
fn a_block_that_contradicts_itself_is_refused_though_its_checksum_is_right() {
    // group u16, count u32, then (0, 9, key, 2, value), (7, 1, "z", 3, value), ...
    assert!(
        read(&resealed(20, 7), None).is_ok(),
        "the byte that is there already"
    );
    for (position, byte, what) in [
        (0, 3, "another key group than the index says"),
        (2, 4, "more entries than the index says"),
        (2, 2, "bytes behind its entries"),
        (7, 8, "not one of its key group"),
        (9, 3, "not one of its key group"),
        (20, 10, "shares more than the key before it has"),
        (21, 0x7f, "ends within an entry"),
        (22, b'a', "keys are out of order"),
        (25, 2, "schema that the header does not list"),
    ] {
        let error = read(&resealed(position, byte), None)
            .unwrap_err()
            .to_string();
        assert!(error.contains(what), "{position}: {error}");
    }
}

#[test]
#[should_panic(expected = "entries come in key order")]
fn a_writer_insists_on_key_order() {
    let mut entries = small();
    entries.swap(0, 1);
    write(&header(0, 9), &entries);
}
