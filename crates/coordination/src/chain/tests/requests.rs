//! What a jobmanager asks of the store, request by request.

use super::*;

/// The requests that are answered until nothing is outstanding.
fn requests(jobmanager: &mut Jobmanager, store: &mut Store) -> Vec<String> {
    let mut asked = Vec::new();
    while jobmanager.request.is_some() || jobmanager.chain.deadline() < MonoTime::NEVER {
        asked.extend(jobmanager.request.as_ref().map(show));
        jobmanager.go_on(store, Fault::Nothing);
    }
    asked
}

fn show(request: &Action) -> String {
    match request {
        Action::List { above, .. } => format!("list {above}"),
        Action::Probe { number, .. } => format!("probe {number}"),
        Action::ReadBack { number, .. } => format!("read back {number}"),
        Action::Create { entry, .. } => format!("create {}", entry.number),
        other => panic!("no request: {other:?}"),
    }
}

fn takeover_by(nonce: u128) -> Jobmanager {
    let mut rival = Jobmanager::new();
    rival.claim(nonce, JobRecord::Stored);
    rival
}

#[test]
fn a_first_claim_looks_at_the_first_number_only() {
    let mut first = Jobmanager::new();
    first.claim(1, JobRecord::BeingSubmitted);
    assert_eq!(
        requests(&mut first, &mut Store::default()),
        ["list 0", "probe 1", "create 1", "list 1"]
    );
}

#[test]
fn a_takeover_reads_up_from_what_is_listed_and_down_to_where_the_check_begins() {
    let (mut store, mut old) = owner(&[1, 2]);
    assert_eq!(
        requests(&mut takeover_by(2), &mut store),
        [
            "list 0", "probe 3", "probe 4", "probe 2", "probe 1", "create 4", "list 4"
        ]
    );
    // A boundary is far enough.
    old.claim(3, JobRecord::Stored);
    old.finish(&mut store);
    old.append(Append::Boundary { retain: count(1) });
    old.append(Append::Reserve(count(1)));
    old.finish(&mut store);
    assert_eq!(
        requests(&mut takeover_by(4), &mut store),
        [
            "list 0", "probe 7", "probe 8", "probe 6", "create 8", "list 8"
        ]
    );
}

#[test]
fn a_restart_reads_its_tip_again_and_what_lies_above() {
    let (mut store, mut owner) = owner(&[1, 2]);
    owner.claim(2, JobRecord::Stored);
    assert_eq!(
        requests(&mut owner, &mut store),
        ["list 0", "probe 3", "probe 4", "create 4", "list 4"]
    );
}

#[test]
fn a_restart_whose_tip_is_deleted_or_replaced_reads_from_the_listing() {
    for is_replaced in [false, true] {
        let (mut store, mut old) = owner(&[1, 2]);
        let (mut rival, _) = takeover(&mut store, 2);
        rival.append(Append::Completed(completed(5)));
        rival.append(Append::Boundary { retain: count(1) });
        rival.finish(&mut store);
        let mut orphan = store.entry(3);
        orphan.kind = EntryKind::Completed(completed(3));
        store.objects.retain(|number, _| *number >= EntryNumber(6));
        if is_replaced {
            let bytes = orphan.canonical_bytes();
            store.objects.insert(EntryNumber(3), bytes);
        }
        old.claim(3, JobRecord::Stored);
        assert_eq!(
            requests(&mut old, &mut store),
            [
                "list 0", "probe 3", "probe 6", "probe 7", "create 7", "list 7"
            ]
        );
        assert_eq!(old.told, [claimed(3, Some((5, 2, 5)), 9)]);
    }
}

#[test]
fn a_number_that_is_missing_below_what_is_listed_is_read_again_and_never_written() {
    let (mut store, mut old) = owner(&[1, 2]);
    let (mut rival, _) = takeover(&mut store, 2);
    rival.append(Append::Completed(completed(5)));
    rival.finish(&mut store);
    let number = EntryNumber(4);
    store.objects.remove(&number);
    old.claim(3, JobRecord::Stored);
    let asked = requests(&mut old, &mut store);
    assert_eq!(asked[..4], ["list 0", "probe 3", "probe 4", "list 0"]);
    assert!(!asked.contains(&"create 4".to_owned()), "{asked:?}");
    assert_eq!(old.told, [Action::Refuse(Refusal::Missing { number })]);
}

#[test]
fn a_claim_that_never_landed_leaves_nothing_that_misleads_the_next() {
    let mut store = Store::default();
    let mut late = Jobmanager::new();
    late.claim(1, JobRecord::BeingSubmitted);
    while !matches!(late.request, Some(Action::Create { .. })) {
        late.go_on(&mut store, Fault::Nothing);
    }
    late.go_on(&mut store, Fault::Dropped);
    let mut other = Jobmanager::new();
    other.claim(2, JobRecord::BeingSubmitted);
    other.finish(&mut store);
    other.append(Append::Completed(completed(1)));
    other.append(Append::Boundary { retain: count(1) });
    other.finish(&mut store);
    store.objects.retain(|number, _| *number >= EntryNumber(3));
    late.claim(3, JobRecord::Stored);
    assert_eq!(
        requests(&mut late, &mut store),
        ["list 0", "probe 3", "probe 4", "create 4", "list 4"]
    );
    assert_eq!(late.told, [claimed(2, Some((2, 1, 1)), 5)]);
}

#[test]
fn an_object_that_is_not_the_entry_of_its_name_is_refused_at_once() {
    let number = EntryNumber(2);
    for is_another_entry in [true, false] {
        let (mut store, _) = owner(&[1, 2]);
        let other = store.objects[&EntryNumber(3)].clone();
        let bytes = if is_another_entry { other } else { vec![7] };
        store.objects.insert(number, bytes);
        let mut rival = takeover_by(2);
        assert_eq!(
            requests(&mut rival, &mut store),
            ["list 0", "probe 3", "probe 4", "probe 2"]
        );
        assert!(matches!(rival.told[..], [Action::Refuse(_)]));
    }
}

#[test]
fn a_claimant_whose_number_is_taken_goes_on_above_it() {
    let (mut store, _) = owner(&[1]);
    let mut first = about_to_claim(&mut store, 2);
    let (_, told) = takeover(&mut store, 3);
    assert_eq!(told, [claimed(2, Some((2, 1, 1)), 5)]);
    assert_eq!(
        requests(&mut first, &mut store),
        ["create 3", "read back 3", "probe 4", "create 4", "list 4"]
    );
    assert_eq!(first.told, [claimed(3, Some((2, 1, 1)), 9)]);
}

#[test]
fn a_damaged_chain_is_read_again_eight_times_and_then_refused() {
    let (mut store, _) = owner(&[1, 2]);
    store.objects.remove(&EntryNumber(2));
    let mut rival = takeover_by(2);
    let asked = requests(&mut rival, &mut store);
    let listings = asked.iter().filter(|request| *request == "list 0");
    assert_eq!(listings.count(), 9, "{asked:?}");
    assert!(matches!(rival.told[..], [Action::Refuse(_)]));
}

#[test]
fn a_claim_that_lands_on_deleted_numbers_is_made_again_eight_times_and_then_lost() {
    let (mut store, mut old) = owner(&[1]);
    let mut rival = takeover_by(2);
    let mut claims = 0;
    while rival.told.is_empty() && claims < 20 {
        while !matches!(rival.request, Some(Action::Create { .. })) {
            rival.go_on(&mut store, Fault::Nothing);
        }
        // Always a moment before, the owner writes on and deletes what lies below.
        old.append(Append::Reserve(count(1)));
        old.append(Append::Boundary { retain: count(1) });
        old.finish(&mut store);
        let newest = *store.objects.keys().next_back().unwrap();
        store.objects.retain(|number, _| *number >= newest);
        rival.go_on(&mut store, Fault::Nothing);
        rival.go_on(&mut store, Fault::Nothing);
        claims += 1;
    }
    assert_eq!(claims, 9);
    assert!(matches!(
        rival.told[..],
        [Action::Lost(Loss::Passed { .. })]
    ));
}

#[test]
fn the_answer_to_a_request_that_was_made_again_is_late() {
    let (mut store, mut owner) = owner(&[]);
    owner.append(Append::Completed(completed(1)));
    let Some(Action::Create { ticket, .. }) = owner.request else {
        panic!("no create")
    };
    owner.go_on(&mut store, Fault::Dropped);
    owner.go_on(&mut store, Fault::Nothing); // read back: absent
    let due = owner.chain.deadline();
    let early = MonoTime::from_millis(due.as_millis() - 1);
    owner.feed(early, Event::Tick);
    assert_eq!(owner.request, None, "not yet");
    owner.feed(due, Event::Tick);
    let before = owner.chain.clone();
    let outcome = CreateOutcome::Ok;
    owner.feed(due, Event::Created { ticket, outcome });
    assert_eq!(owner.chain, before);
    assert_eq!(requests(&mut owner, &mut store), ["create 2", "list 2"]);
}

#[test]
fn requests_are_counted_anew_after_each_entry() {
    let (mut store, mut owner) = owner(&[1, 2]);
    for id in [3, 4] {
        owner.append(Append::Completed(completed(id)));
        let Some(Action::Create { ticket, .. }) = &owner.request else {
            panic!("no create")
        };
        assert_eq!(ticket.seq, 0, "or they would run out in a life of years");
        owner.finish(&mut store);
    }
}
