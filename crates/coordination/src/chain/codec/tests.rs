//! An entry is read back as it was written, and nothing else is read as one.

use std::num::NonZeroU32;

use proptest::prelude::*;

use super::super::messages::Append;
use super::super::tests::fixture::{completed, owner};
use super::*;

#[test]
fn the_canonical_bytes_give_the_entry_back_and_detect_every_flipped_bit() {
    let (mut store, mut owner) = owner(&[1, 2]);
    owner.append(Append::Boundary {
        retain: NonZeroU32::MIN,
    });
    owner.append(Append::Reserve(NonZeroU32::MIN));
    owner.append(Append::Terminal(TerminalState::Failed));
    owner.finish(&mut store);
    let kinds: Vec<_> = store
        .history
        .values()
        .map(|entry| entry.kind.name())
        .collect();
    assert!(
        ["CLAIM", "RESERVE", "COMPLETED", "TERMINAL", "BOUNDARY"]
            .iter()
            .all(|k| kinds.contains(k))
    );
    for entry in store.history.values() {
        let bytes = entry.canonical_bytes();
        assert_eq!(Entry::from_canonical_bytes(&bytes).as_ref(), Ok(entry));
        for length in 0..bytes.len() {
            assert!(Entry::from_canonical_bytes(&bytes[..length]).is_err());
        }
        for bit in 0..bytes.len() * 8 {
            let mut damaged = bytes.clone();
            damaged[bit / 8] ^= 1 << (bit % 8);
            assert!(
                Entry::from_canonical_bytes(&damaged).is_err(),
                "bit {bit} of {entry:?}"
            );
        }
        let mut longer = bytes.clone();
        longer.push(0);
        assert!(matches!(
            Entry::from_canonical_bytes(&longer),
            Err(EntryError::Length { .. })
        ));
    }
}

#[test]
fn a_stored_entry_of_format_version_1_reads_as_it_always_did() {
    let written = "4d53434500010000005b000000000000000200000000000000000000000000000007000000000000\
                   0003000000000000000000000000000000ff010000000000000009000000000000000da96a6ee395\
                   769363d1a7c6e965eea4a9";
    let entry = Entry {
        number: EntryNumber(2),
        prev: Checksum(7),
        epoch: Epoch(3),
        nonce: WriterNonce(255),
        kind: EntryKind::Claim {
            ids: CheckpointIds::block(CheckpointId(9), 4),
        },
    };
    let hex: String = entry
        .canonical_bytes()
        .iter()
        .map(|byte| format!("{byte:02x}"))
        .collect();
    assert_eq!(hex, written);
    assert_eq!(entry.hash(), Checksum::of(&entry.canonical_bytes()));
}

fn ids() -> impl Strategy<Value = CheckpointIds> {
    (any::<u64>(), 0..1_000u32).prop_map(|(first, n)| CheckpointIds::block(CheckpointId(first), n))
}

fn checkpoint() -> impl Strategy<Value = CompletedCheckpoint> {
    (any::<u64>(), any::<u128>()).prop_map(|(id, checksum)| CompletedCheckpoint {
        checksum: Checksum(checksum),
        ..completed(id)
    })
}

fn kind() -> impl Strategy<Value = EntryKind> {
    let point =
        (any::<u64>(), any::<u64>(), checkpoint()).prop_map(|(number, epoch, checkpoint)| {
            RestorePoint {
                number: EntryNumber(number),
                epoch: Epoch(epoch),
                checkpoint,
            }
        });
    let state = prop::sample::select(vec![
        TerminalState::Finished,
        TerminalState::Canceled,
        TerminalState::Failed,
    ]);
    prop_oneof![
        ids().prop_map(|ids| EntryKind::Claim { ids }),
        ids().prop_map(|ids| EntryKind::Reserve { ids }),
        checkpoint().prop_map(EntryKind::Completed),
        state.prop_map(EntryKind::Terminal),
        (prop::collection::vec(point, 0..4), ids())
            .prop_map(|(retained, ids)| EntryKind::Boundary { retained, ids }),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn whatever_an_entry_says_its_bytes_say_it_back(
        (number, epoch) in any::<(u64, u64)>(),
        (prev, nonce) in any::<(u128, u128)>(),
        kind in kind(),
    ) {
        let entry = Entry {
            number: EntryNumber(number),
            prev: Checksum(prev),
            epoch: Epoch(epoch),
            nonce: WriterNonce(nonce),
            kind,
        };
        let read = Entry::from_canonical_bytes(&entry.canonical_bytes());
        prop_assert_eq!(read, Ok(entry));
    }
}

/// Bytes with this length in their header and a checksum that fits: what no bug of ours writes, but
/// somebody may.
fn sealed(length: u32, body: &[u8]) -> Vec<u8> {
    let mut bytes = [
        MAGIC,
        &VERSION.to_be_bytes()[..],
        &length.to_be_bytes(),
        body,
    ]
    .concat();
    let checksum = Checksum::of(&bytes);
    bytes.extend_from_slice(&checksum.0.to_be_bytes());
    bytes
}

/// The same with its true length, and with number, hash, epoch and nonce before what it says.
fn saying(kind: &[u8]) -> Vec<u8> {
    let body = [&[0; 48], kind].concat();
    sealed((HEADER + body.len() + TRAILER) as u32, &body)
}

#[test]
fn bytes_that_are_no_entry_are_refused_by_what_is_wrong_with_them() {
    let length = |expected, found| EntryError::Length { expected, found };
    let field = |field| EntryError::Field { field };
    let ids = |first: u64, end: u64| [first.to_be_bytes(), end.to_be_bytes()].concat();
    let named = |length: u16, name: &[u8]| {
        saying(&[&[3][..], &[0; 24], &length.to_be_bytes(), name].concat())
    };
    let mut other_version = saying(&[4, 1]);
    other_version[5] = 2;
    let mut longer = saying(&[4, 1]);
    longer.push(0);
    let cases = [
        (b"MSC".to_vec(), length(26, 3)),
        (
            b"MSCD, and so on and so on.".to_vec(),
            EntryError::NotAnEntry,
        ),
        (other_version, EntryError::UnknownVersion { found: 2 }),
        (longer, length(76, 77)),
        (sealed(77, &[0; 50]), length(77, 76)),
        // Its length is as its header says, and too short for a header and a checksum.
        (sealed(20, &[])[..20].to_vec(), length(20, 20)),
        (sealed(26, &[]), field("number")),
        (saying(&[]), field("kind")),
        (saying(&[0]), field("kind")),
        (saying(&[6]), field("kind")),
        (saying(&[4]), field("terminal state")),
        (saying(&[4, 0]), field("terminal state")),
        (saying(&[4, 4]), field("terminal state")),
        (saying(&[4, 1, 0]), field("rest")),
        (
            saying(&[&[1][..], &ids(6, 5)].concat()),
            field("range of checkpoint ids"),
        ),
        (named(3, b"a"), field("metadata name")),
        (named(1, b"\xff"), field("metadata name")),
        (named(0, b""), field("metadata name")),
        (
            saying(&[&[5][..], &ids(5, 5), &[0, 0, 0, 1]].concat()),
            field("number of retained checkpoint"),
        ),
    ];
    for (bytes, refused) in cases {
        assert_eq!(
            Entry::from_canonical_bytes(&bytes),
            Err(refused),
            "{bytes:?}"
        );
    }
    let mut damaged = saying(&[4, 1]);
    damaged[40] ^= 1;
    assert!(matches!(
        Entry::from_canonical_bytes(&damaged),
        Err(EntryError::Checksum { .. })
    ));
}
