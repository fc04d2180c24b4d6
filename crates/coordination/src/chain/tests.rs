//! Stories of one chain, one fault at a time.

pub(super) mod fixture;
mod looks;
mod requests;
mod rivals;

use std::num::NonZeroU32;

use millstream_types::{CheckpointId, Epoch, MonoTime};

use self::fixture::{Fault, JOB, Jobmanager, Store, appended, claimed, completed, owner};
use super::*;

fn count(value: u32) -> NonZeroU32 {
    NonZeroU32::new(value).unwrap()
}

/// A second jobmanager takes over; it says what it was told.
fn takeover(store: &mut Store, nonce: u128) -> (Jobmanager, Vec<Action>) {
    let mut rival = Jobmanager::new();
    rival.claim(nonce, JobRecord::Stored);
    let told = rival.finish(store);
    (rival, told)
}

fn refusal(store: &mut Store) -> Refusal {
    match &takeover(store, 9).1[..] {
        [Action::Refuse(refusal)] => refusal.clone(),
        other => panic!("not refused: {other:?}"),
    }
}

#[test]
fn the_first_claim_of_a_job_is_entry_1_and_reserves_the_first_block_of_ids() {
    let (store, owner) = owner(&[]);
    assert_eq!(store.entry(1).prev, Entry::root(JOB));
    assert_eq!(owner.chain.owned_epoch(), Some(Epoch(1)));
}

#[test]
fn a_takeover_restores_from_the_newest_completed_checkpoint_and_the_old_owner_steps_down() {
    // Proves I10, fences F3 and F4.
    let (mut store, mut old) = owner(&[1, 2]);
    assert_eq!(takeover(&mut store, 2).1, [claimed(2, Some((3, 1, 2)), 5)]);
    old.append(Append::Completed(completed(3)));
    let taken = Loss::SlotTaken {
        number: EntryNumber(4),
        epoch: Epoch(2),
        nonce: WriterNonce(2),
    };
    assert_eq!(old.finish(&mut store), [Action::Lost(taken)]);
    assert_eq!(old.chain.owned_epoch(), None);
    old.append(Append::Completed(completed(3)));
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
fn a_restart_by_the_same_owner_claims_again_and_settles_its_own_write_in_flight() {
    // Fence F3. The write lands before the claim in one story and after it in the other.
    for (lands_first, restore) in [(true, Some((2, 1, 1))), (false, None)] {
        let (mut store, mut owner) = owner(&[]);
        owner.append(Append::Completed(completed(1)));
        owner.go_on(&mut store, Fault::Late);
        if lands_first {
            store.land_late(0);
        }
        owner.claim(2, JobRecord::Stored);
        assert_eq!(owner.finish(&mut store), [claimed(2, restore, 5)]);
        store.land_late(0);
        assert!(verify(JOB, store.history.values()).is_ok());
    }
}

#[test]
fn nothing_is_announced_while_the_outcome_of_a_write_is_open() {
    // Fences F4 and F5.
    for (fault, reads_back_as) in [(Fault::AnswerLost, true), (Fault::Dropped, false)] {
        let (mut store, mut owner) = owner(&[]);
        owner.append(Append::Completed(completed(1)));
        owner.go_on(&mut store, fault);
        assert!(matches!(owner.request, Some(Action::ReadBack { .. })));
        assert_eq!(store.objects.len() == 2, reads_back_as);
        assert_eq!(owner.told, []);
        let done = appended(2, EntryKind::Completed(completed(1)));
        assert_eq!(owner.finish(&mut store), [done]);
    }
}

#[test]
fn a_write_that_lands_after_it_was_repeated_is_recognised_as_our_own() {
    let (mut store, mut owner) = owner(&[]);
    owner.append(Append::Completed(completed(1)));
    owner.go_on(&mut store, Fault::Late);
    owner.go_on(&mut store, Fault::Nothing); // read back: absent
    owner.go_on(&mut store, Fault::Nothing); // the wait is over
    store.land_late(0);
    let done = appended(2, EntryKind::Completed(completed(1)));
    assert_eq!(owner.finish(&mut store), [done]);
}

#[test]
fn trouble_with_the_store_is_retried_ever_more_slowly_and_never_given_up() {
    let (mut store, mut owner) = owner(&[]);
    owner.append(Append::Terminal(TerminalState::Finished));
    let mut waits = Vec::new();
    for _ in 0..8 {
        owner.go_on(&mut store, Fault::Refused);
        waits.push(owner.chain.deadline().as_millis());
        owner.feed(owner.chain.deadline(), Event::Tick);
    }
    assert_eq!(owner.chain.failures(), 8);
    assert_eq!(waits, [100, 200, 400, 800, 1600, 3200, 5000, 5000]);
    let done = appended(2, EntryKind::Terminal(TerminalState::Finished));
    assert_eq!(owner.finish(&mut store), [done]);
    assert_eq!(owner.chain.failures(), 0);
}

#[test]
fn appends_wait_in_line_and_are_written_one_at_a_time() {
    let (mut store, mut owner) = owner(&[]);
    owner.append(Append::Completed(completed(4)));
    owner.append(Append::Reserve(count(2)));
    owner.append(Append::Completed(completed(6)));
    let second_block = CheckpointIds::block(CheckpointId(5), 2);
    assert_eq!(
        owner.finish(&mut store),
        [
            appended(2, EntryKind::Completed(completed(4))),
            appended(3, EntryKind::Reserve { ids: second_block }),
            appended(4, EntryKind::Completed(completed(6))),
        ]
    );
}

#[test]
fn a_full_queue_rejects_instead_of_growing() {
    let (_, mut owner) = owner(&[]);
    (0..66).for_each(|_| owner.append(Append::Reserve(count(1))));
    let [
        Action::Rejected {
            why: Rejection::QueueFull { limit: 64 },
            ..
        },
    ] = &owner.told[..]
    else {
        panic!("{:?}", owner.told)
    };
}

#[test]
fn a_checkpoint_id_outside_the_epochs_block_or_used_before_is_rejected() {
    let (mut store, mut owner) = owner(&[2]);
    for id in [1, 2, 5] {
        owner.append(Append::Completed(completed(id)));
        let told = owner.finish(&mut store);
        let [
            Action::Rejected {
                why: Rejection::Invalid(error),
                ..
            },
        ] = &told[..]
        else {
            panic!("{told:?}")
        };
        let (number, id) = (EntryNumber(3), CheckpointId(id));
        assert_eq!(*error, ChainError::CheckpointId { number, id });
    }
}

#[test]
fn a_finished_job_is_never_claimed_again() {
    // Fence F16.
    let (mut store, mut owner) = owner(&[1]);
    owner.append(Append::Terminal(TerminalState::Canceled));
    owner.append(Append::Completed(completed(2)));
    let told = owner.finish(&mut store);
    assert!(matches!(
        told[1],
        Action::Rejected {
            why: Rejection::Invalid(_),
            ..
        }
    ));
    let state = TerminalState::Canceled;
    let Refusal::Terminal {
        state: found,
        completed,
    } = refusal(&mut store)
    else {
        panic!("not refused as ended")
    };
    let ids: Vec<_> = completed.iter().map(|point| point.checkpoint.id).collect();
    assert_eq!((found, ids), (state, vec![CheckpointId(1)]));
}

#[test]
fn a_claimant_never_starts_empty_over_a_chain_that_is_lost_or_damaged() {
    let (mut store, _) = owner(&[1, 2]);
    store.objects.remove(&EntryNumber(2));
    let number = EntryNumber(2);
    assert_eq!(refusal(&mut store), Refusal::Missing { number });

    let (mut store, _) = owner(&[1, 2]);
    store.objects.get_mut(&number).unwrap()[20] ^= 1;
    assert!(matches!(
        refusal(&mut store),
        Refusal::Unreadable {
            number: EntryNumber(2),
            ..
        }
    ));

    let (mut store, _) = owner(&[1, 2]);
    let mut forged = store.entry(2);
    forged.kind = EntryKind::Completed(completed(3));
    store.objects.insert(number, forged.canonical_bytes());
    let broken = refusal(&mut store);
    assert!(matches!(
        broken,
        Refusal::Broken(ChainError::BrokenHash {
            number: EntryNumber(3),
            ..
        })
    ));

    let (mut store, _) = owner(&[1, 2]);
    let elsewhere = store.objects[&EntryNumber(3)].clone();
    store.objects.insert(number, elsewhere);
    assert!(matches!(
        refusal(&mut store),
        Refusal::Broken(ChainError::Gap { .. })
    ));

    assert_eq!(refusal(&mut Store::default()), Refusal::NoChain);
}

#[test]
fn a_chain_that_became_shorter_is_refused_by_whoever_knew_it_longer() {
    let (mut store, mut owner) = owner(&[1, 2]);
    store.objects.remove(&EntryNumber(3));
    owner.claim(2, JobRecord::Stored);
    let known = EntryNumber(3);
    let regressed = [Action::Refuse(Refusal::Regressed { known })];
    assert_eq!(owner.finish(&mut store), regressed);
    store.objects.clear();
    owner.claim(3, JobRecord::BeingSubmitted);
    assert_eq!(owner.finish(&mut store), regressed);
}

/// A chain CLAIM, COMPLETED 1 to 3, BOUNDARY keeping 2 of them; what lies below it is deleted.
fn collected() -> (Store, Jobmanager) {
    let (mut store, mut owner) = owner(&[1, 2, 3]);
    owner.append(Append::Boundary { retain: count(2) });
    owner.finish(&mut store);
    store.objects.retain(|number, _| *number >= EntryNumber(5));
    (store, owner)
}

#[test]
fn a_boundary_stands_for_the_entries_that_are_deleted() {
    let (mut store, mut old) = collected();
    let (rival, told) = takeover(&mut store, 2);
    assert_eq!(told, [claimed(2, Some((4, 1, 3)), 5)]);
    let kept: Vec<_> = rival.chain.tip().unwrap().completed().to_vec();
    assert_eq!(
        kept.iter().map(|p| p.checkpoint.id.0).collect::<Vec<_>>(),
        [2, 3]
    );
    old.append(Append::Reserve(count(1)));
    assert!(matches!(old.finish(&mut store)[..], [Action::Lost(_)]));
}

#[test]
fn a_number_that_is_free_only_because_its_entry_was_deleted_is_lost() {
    // Fence F6. The old owner wants number 3, which was taken over, collected and deleted.
    let (mut store, mut old) = owner(&[1]);
    let (mut rival, _) = takeover(&mut store, 2);
    rival.append(Append::Completed(completed(5)));
    rival.append(Append::Boundary { retain: count(1) });
    rival.finish(&mut store);
    store.objects.retain(|number, _| *number >= EntryNumber(5));
    old.append(Append::Completed(completed(2)));
    let passed = Loss::Passed {
        number: EntryNumber(3),
        highest: EntryNumber(5),
    };
    assert_eq!(old.finish(&mut store), [Action::Lost(passed)]);
    // Its orphan misleads nobody.
    assert_eq!(takeover(&mut store, 3).1, [claimed(3, Some((4, 2, 5)), 9)]);
}

#[test]
fn entries_deleted_while_they_are_read_make_the_claimant_read_again() {
    let (mut store, mut old) = owner(&[1, 2, 3]);
    let mut rival = Jobmanager::new();
    rival.claim(2, JobRecord::Stored);
    (0..3).for_each(|_| rival.go_on(&mut store, Fault::Nothing));
    old.append(Append::Boundary { retain: count(1) });
    old.finish(&mut store);
    store.objects.retain(|number, _| *number >= EntryNumber(5));
    assert_eq!(rival.finish(&mut store), [claimed(2, Some((4, 1, 3)), 5)]);
}

/// A claimant that read the chain and is about to write its CLAIM.
fn about_to_claim(store: &mut Store, nonce: u128) -> Jobmanager {
    let mut claimant = Jobmanager::new();
    claimant.claim(nonce, JobRecord::Stored);
    while !matches!(claimant.request, Some(Action::Create { .. })) {
        claimant.go_on(store, Fault::Nothing);
    }
    claimant
}

// HND-066: a jobmanager that takes over while the old one still collects does not give the job up.
#[test]
fn a_claim_on_a_number_that_a_deletion_freed_is_made_again() {
    let (mut store, mut old) = owner(&[1, 2, 3]);
    let mut rival = about_to_claim(&mut store, 2);
    old.append(Append::Completed(completed(4)));
    old.append(Append::Boundary { retain: count(1) });
    old.finish(&mut store);
    store.objects.retain(|number, _| *number >= EntryNumber(6));
    assert_eq!(rival.finish(&mut store), [claimed(2, Some((5, 1, 4)), 5)]);
    old.append(Append::Reserve(count(1)));
    assert!(matches!(old.finish(&mut store)[..], [Action::Lost(_)]));
}

#[test]
fn a_claim_that_another_claim_followed_is_lost() {
    let (mut store, _old) = owner(&[1]);
    let mut first = about_to_claim(&mut store, 2);
    first.go_on(&mut store, Fault::Nothing);
    let (_second, told) = takeover(&mut store, 3);
    assert_eq!(told.len(), 1, "{told:?}");
    let passed = Loss::Passed {
        number: EntryNumber(3),
        highest: EntryNumber(4),
    };
    assert_eq!(first.finish(&mut store), [Action::Lost(passed)]);
}

#[test]
fn answers_that_are_late_or_repeated_change_nothing() {
    let (mut store, mut owner) = owner(&[]);
    owner.append(Append::Completed(completed(1)));
    let Some(Action::Create { ticket, .. }) = owner.request else {
        panic!("no create")
    };
    let late = Event::Created {
        ticket,
        outcome: CreateOutcome::Ok,
    };
    owner.claim(2, JobRecord::Stored);
    let before = owner.chain.clone();
    owner.feed(MonoTime::ZERO, late.clone());
    let Some(Action::List { ticket, .. }) = owner.request else {
        panic!("no listing")
    };
    let unasked = Event::Read {
        ticket,
        slot: Slot::Absent,
    };
    owner.feed(MonoTime::ZERO, unasked);
    owner.feed(MonoTime::ZERO, Event::Tick);
    assert_eq!(owner.chain, before);
    assert_eq!(owner.finish(&mut store), [claimed(2, None, 5)]);
    owner.feed(MonoTime::ZERO, late);
    assert_eq!(owner.chain.owned_epoch(), Some(Epoch(2)));
}

#[test]
fn every_refusal_names_a_remedy() {
    for refusal in [
        Refusal::NoChain,
        Refusal::Terminal {
            state: TerminalState::Failed,
            completed: Vec::new(),
        },
        Refusal::Unreadable {
            number: EntryNumber(1),
            cause: EntryError::NotAnEntry,
        },
        Refusal::Unreadable {
            number: EntryNumber(1),
            cause: EntryError::UnknownVersion { found: 2 },
        },
        Refusal::Broken(ChainError::NoStart {
            found: EntryNumber(3),
        }),
    ] {
        assert!(refusal.remedy().ends_with('.'), "{refusal}");
        assert!(!refusal.to_string().ends_with('.'), "{refusal}");
    }
}
