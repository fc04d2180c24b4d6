//! Each rule of the chain, kept and broken.

use super::super::tests::fixture::{JOB, completed};
use super::*;

const OWNER: WriterNonce = WriterNonce(1);

fn number(n: u64) -> EntryNumber {
    EntryNumber(n)
}

fn ids(first: u64, end: u64) -> CheckpointIds {
    CheckpointIds {
        first: CheckpointId(first),
        end: CheckpointId(end),
    }
}

fn claim(first: u64, end: u64) -> EntryKind {
    EntryKind::Claim {
        ids: ids(first, end),
    }
}

fn reserve(first: u64, end: u64) -> EntryKind {
    EntryKind::Reserve {
        ids: ids(first, end),
    }
}

fn taken(id: u64) -> EntryKind {
    EntryKind::Completed(completed(id))
}

/// Checkpoint `id`, recorded by this chain in its entry of the same number.
fn point(id: u64) -> RestorePoint {
    RestorePoint {
        number: number(id),
        epoch: Epoch(1),
        checkpoint: completed(id),
    }
}

fn boundary(retained: &[RestorePoint], ids: CheckpointIds) -> EntryKind {
    EntryKind::Boundary {
        retained: retained.to_vec(),
        ids,
    }
}

/// The entry that says this after `tip`.
fn after(tip: &Tip, epoch: u64, nonce: WriterNonce, kind: EntryKind) -> Entry {
    Entry {
        number: tip.number().next(),
        prev: tip.hash(),
        epoch: Epoch(epoch),
        nonce,
        kind,
    }
}

/// CLAIM of ids 1 to 4, then these, all by the owner.
fn chain(kinds: &[EntryKind]) -> (Vec<Entry>, Tip) {
    let (mut entries, mut tip) = (Vec::new(), Tip::genesis(JOB));
    for kind in std::iter::once(&claim(1, 5)).chain(kinds) {
        let entry = after(&tip, 1, OWNER, kind.clone());
        tip.extend(&entry).unwrap();
        entries.push(entry);
    }
    (entries, tip)
}

/// What becomes of an entry; one that is refused changes nothing.
fn try_extend(tip: &Tip, entry: &Entry) -> Result<(), ChainError> {
    let mut longer = tip.clone();
    let result = longer.extend(entry);
    match &result {
        Ok(()) => assert_eq!(
            (longer.number(), longer.hash()),
            (entry.number, entry.hash())
        ),
        Err(_) => assert_eq!(longer, *tip),
    }
    result
}

#[test]
fn an_entry_that_keeps_all_rules_is_appended() {
    let (_, tip) = chain(&[taken(2), taken(3)]);
    let kept = [
        taken(4),
        reserve(5, 7),
        EntryKind::Terminal(TerminalState::Failed),
        boundary(&[point(3)], ids(1, 5)),
        boundary(&[point(2), point(3)], ids(1, 5)),
    ];
    for kind in kept {
        assert_eq!(try_extend(&tip, &after(&tip, 1, OWNER, kind)), Ok(()));
    }
    // A CLAIM may leap over epochs and ids, and be of anybody.
    for (epoch, first) in [(2, 5), (7, 5), (2, 9)] {
        let entry = after(&tip, epoch, WriterNonce(epoch.into()), claim(first, 13));
        assert_eq!(try_extend(&tip, &entry), Ok(()));
    }
    let (_, without) = chain(&[]);
    let empty = after(&without, 1, OWNER, boundary(&[], ids(1, 5)));
    assert_eq!(try_extend(&without, &empty), Ok(()));
}

// Proves I8, rule by rule.
#[test]
fn an_entry_that_breaks_a_rule_is_refused_by_its_name() {
    let (_, tip) = chain(&[taken(2), taken(3)]);
    let wrong_id = |id| ChainError::CheckpointId {
        number: number(4),
        id: CheckpointId(id),
    };
    let mut invented = point(3);
    invented.checkpoint.checksum = Checksum(99);
    let misused = [
        (1, OWNER, reserve(6, 8), 6),
        (1, OWNER, reserve(4, 8), 4),
        (2, WriterNonce(2), claim(4, 8), 4),
        (1, OWNER, taken(0), 0),
        (1, OWNER, taken(1), 1),
        (1, OWNER, taken(3), 3),
        (1, OWNER, taken(5), 5),
        (1, OWNER, boundary(&[point(3)], ids(1, 6)), 1),
        (1, OWNER, boundary(&[point(3)], ids(2, 5)), 2),
        (1, OWNER, boundary(&[point(2)], ids(1, 5)), 1),
        (1, OWNER, boundary(&[invented], ids(1, 5)), 1),
        (1, OWNER, boundary(&[], ids(1, 5)), 1),
    ];
    for (epoch, nonce, kind, id) in misused {
        let entry = after(&tip, epoch, nonce, kind);
        assert_eq!(try_extend(&tip, &entry), Err(wrong_id(id)), "{entry:?}");
    }

    for epoch in [0, 1] {
        let entry = after(&tip, epoch, WriterNonce(2), claim(5, 9));
        let refused = ChainError::EpochNotRising {
            number: number(4),
            before: Epoch(1),
            found: Epoch(epoch),
        };
        assert_eq!(try_extend(&tip, &entry), Err(refused));
    }
    for (epoch, nonce) in [(1, WriterNonce(2)), (2, OWNER), (0, OWNER)] {
        let entry = after(&tip, epoch, nonce, taken(4));
        let refused = ChainError::NotTheOwner {
            number: number(4),
            owner: Epoch(1),
            found: Epoch(epoch),
        };
        assert_eq!(try_extend(&tip, &entry), Err(refused));
    }
    for found in [3, 5] {
        let mut entry = after(&tip, 1, OWNER, taken(4));
        entry.number = number(found);
        let refused = ChainError::Gap {
            expected: number(4),
            found: number(found),
        };
        assert_eq!(try_extend(&tip, &entry), Err(refused));
    }
    let mut entry = after(&tip, 1, OWNER, taken(4));
    entry.prev = Checksum(7);
    let refused = ChainError::BrokenHash {
        number: number(4),
        expected: tip.hash(),
        found: Checksum(7),
    };
    assert_eq!(try_extend(&tip, &entry), Err(refused));
}

#[test]
fn an_epoch_may_not_complete_a_checkpoint_with_an_id_of_an_earlier_one() {
    let (_, mut tip) = chain(&[taken(2)]);
    tip.extend(&after(&tip, 2, WriterNonce(2), claim(5, 9)))
        .unwrap();
    for (id, fits) in [(4, false), (5, true), (8, true), (9, false)] {
        let entry = after(&tip, 2, WriterNonce(2), taken(id));
        assert_eq!(try_extend(&tip, &entry).is_ok(), fits, "{id}");
    }
}

#[test]
fn nothing_follows_the_end_of_a_job() {
    let state = TerminalState::Canceled;
    let (_, tip) = chain(&[taken(2), EntryKind::Terminal(state)]);
    assert_eq!(tip.terminal(), Some(state));
    for entry in [
        after(&tip, 1, OWNER, taken(3)),
        after(&tip, 2, WriterNonce(2), claim(5, 9)),
    ] {
        let number = number(4);
        let refused = ChainError::AfterTerminal { number, state };
        assert_eq!(try_extend(&tip, &entry), Err(refused));
    }
}

#[test]
fn a_chain_is_checked_from_its_first_entry_or_a_boundary_and_for_its_own_job_only() {
    let kinds = [taken(2), taken(3), boundary(&[point(3)], ids(1, 5))];
    let (mut entries, _) = chain(&kinds);
    let (_, mut tip) = chain(&kinds);
    let last = after(&tip, 1, OWNER, taken(4));
    tip.extend(&last).unwrap();
    entries.push(last);
    assert_eq!(verify(JOB, &entries), Ok(tip.clone()));
    assert_eq!(verify(JOB, &entries[3..]), Ok(tip));
    for (start, found) in [(1, 2), (2, 3), (4, 5), (5, 0)] {
        let found = number(found);
        assert_eq!(
            verify(JOB, &entries[start..]),
            Err(ChainError::NoStart { found })
        );
    }
    let other = JobId::from_bytes(*b"another job, not");
    assert!(matches!(
        verify(other, &entries),
        Err(ChainError::BrokenHash {
            number: EntryNumber::FIRST,
            ..
        })
    ));
}
