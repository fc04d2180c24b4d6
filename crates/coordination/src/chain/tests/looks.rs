//! Stories of looks at the chain: of an owner before something rests on its claim, and of a claimant
//! whose listing is behind.

use std::num::NonZeroU32;

use millstream_types::{Epoch, MonoTime};

use super::super::*;
use super::fixture::{Fault, Jobmanager, appended, claimed, completed, owner};

#[test]
fn an_owner_that_looks_is_told_that_nobody_followed_and_writes_on() {
    let (mut store, mut owner) = owner(&[1]);
    owner.append(Append::Nothing);
    owner.append(Append::Completed(completed(2)));
    owner.append(Append::Nothing);
    // The store does not answer at first: that is no verdict.
    owner.go_on(&mut store, Fault::Refused);
    assert_eq!(owner.told, []);
    assert_eq!(owner.chain.owned_epoch(), Some(Epoch(1)));
    let epoch = Epoch(1);
    assert_eq!(
        owner.finish(&mut store),
        [
            Action::Confirmed { epoch },
            appended(3, EntryKind::Completed(completed(2))),
            Action::Confirmed { epoch },
        ]
    );
    assert_eq!(store.objects.len(), 3, "a look writes nothing");
}

#[test]
fn an_owner_that_looks_and_finds_another_claim_steps_down() {
    let (mut store, mut old) = owner(&[1]);
    let mut rival = Jobmanager::new();
    rival.claim(2, JobRecord::Stored);
    rival.finish(&mut store);
    old.append(Append::Nothing);
    old.append(Append::Completed(completed(2)));
    let taken = Loss::SlotTaken {
        number: EntryNumber(3),
        epoch: Epoch(2),
        nonce: WriterNonce(2),
    };
    assert_eq!(old.finish(&mut store), [Action::Lost(taken)]);
    assert_eq!(old.chain.owned_epoch(), None);
    old.append(Append::Nothing);
    let [
        Action::Rejected {
            why: Rejection::NotTheOwner,
            ..
        },
    ] = &old.told[..]
    else {
        panic!("{:?}", old.told)
    };
}

#[test]
fn an_owner_that_looks_after_the_claim_that_followed_was_deleted_steps_down() {
    let (mut store, mut old) = owner(&[1]);
    let mut rival = Jobmanager::new();
    rival.claim(2, JobRecord::Stored);
    rival.finish(&mut store);
    rival.append(Append::Boundary {
        retain: NonZeroU32::MIN,
    });
    rival.finish(&mut store);
    store.objects.retain(|number, _| *number >= EntryNumber(4));
    old.append(Append::Nothing);
    let passed = Loss::Passed {
        number: EntryNumber(2),
        highest: EntryNumber(4),
    };
    assert_eq!(old.finish(&mut store), [Action::Lost(passed)]);
}

#[test]
fn an_owner_that_looks_is_not_misled_by_a_listing_that_is_behind() {
    let (mut store, mut old) = owner(&[1]);
    let mut rival = Jobmanager::new();
    rival.claim(2, JobRecord::Stored);
    rival.finish(&mut store);
    old.append(Append::Nothing);
    while let Some(request) = old.request.take() {
        let event = match request {
            Action::List { ticket, .. } => Event::Listed {
                ticket,
                listing: Listing::Empty,
            },
            Action::Probe { ticket, number } => Event::Read {
                ticket,
                slot: Slot::Present(Box::new(store.entry(number.0))),
            },
            other => panic!("nothing is written: {other:?}"),
        };
        old.feed(MonoTime::ZERO, event);
    }
    assert!(matches!(old.told[..], [Action::Lost(_)]), "{:?}", old.told);
}

#[test]
fn an_owner_that_looks_is_not_misled_by_its_own_boundary() {
    let (mut store, mut owner) = owner(&[1, 2]);
    owner.append(Append::Boundary {
        retain: NonZeroU32::MIN,
    });
    owner.finish(&mut store);
    store.objects.retain(|number, _| *number >= EntryNumber(4));
    owner.append(Append::Nothing);
    let epoch = Epoch(1);
    assert_eq!(owner.finish(&mut store), [Action::Confirmed { epoch }]);
}

/// Tells a claimant of a stored job that nothing is listed, until it gives up or has asked `n`
/// times; says when it asked.
fn listed_empty(claimant: &mut Jobmanager, n: usize) -> Vec<u64> {
    let (mut now, mut asked) = (MonoTime::ZERO, Vec::new());
    while asked.len() < n && claimant.told.is_empty() {
        match claimant.request.take() {
            Some(Action::List { ticket, .. }) => {
                asked.push(now.as_millis());
                let listing = Listing::Empty;
                claimant.feed(now, Event::Listed { ticket, listing });
            }
            Some(Action::Probe { ticket, .. }) => {
                let slot = Slot::Absent;
                claimant.feed(now, Event::Read { ticket, slot });
            }
            Some(other) => panic!("nothing is written: {other:?}"),
            None => {
                now = claimant.chain.deadline();
                claimant.feed(now, Event::Tick);
            }
        }
    }
    asked
}

#[test]
fn a_listing_that_shows_no_chain_is_asked_for_again_ever_more_slowly_and_then_believed() {
    let mut claimant = Jobmanager::new();
    claimant.claim(2, JobRecord::Stored);
    let asked = listed_empty(&mut claimant, usize::MAX);
    assert_eq!(asked, [0, 0, 100, 300, 700, 1_500, 3_100, 6_300, 11_300]);
    assert_eq!(claimant.told, [Action::Refuse(Refusal::NoChain)]);
    assert_eq!(claimant.chain.deadline(), MonoTime::NEVER);
}

#[test]
fn a_chain_that_is_listed_after_a_while_is_claimed() {
    let (mut store, mut old) = owner(&[1, 2]);
    old.append(Append::Boundary {
        retain: NonZeroU32::MIN,
    });
    old.finish(&mut store);
    // Without its beginning nothing but a listing leads to the chain.
    store.objects.retain(|number, _| *number >= EntryNumber(4));
    let mut claimant = Jobmanager::new();
    claimant.claim(2, JobRecord::Stored);
    listed_empty(&mut claimant, 6);
    assert_eq!(
        claimant.finish(&mut store),
        [claimed(2, Some((3, 1, 2)), 5)]
    );
}

#[test]
fn a_new_claim_begins_at_once_where_the_last_one_waits_for_a_listing() {
    let (mut store, _) = owner(&[1]);
    let mut claimant = Jobmanager::new();
    claimant.claim(2, JobRecord::Stored);
    listed_empty(&mut claimant, 5);
    claimant.claim(3, JobRecord::Stored);
    assert!(matches!(claimant.request, Some(Action::List { .. })));
    assert_eq!(claimant.chain.deadline(), MonoTime::NEVER);
    assert_eq!(
        claimant.finish(&mut store),
        [claimed(2, Some((2, 1, 1)), 5)]
    );
}
