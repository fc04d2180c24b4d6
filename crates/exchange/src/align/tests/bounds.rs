//! What is remembered of checkpoints, and for how many of them.

use super::*;

/// Checkpoints 2, 4, 6 and so on, `n` of them, are snapshotted; the odd ones never came.
fn after_even_ones(n: usize) -> Alignment {
    let mut machine = exactly_once(1);
    let even = (1..=n as u64).map(|n| (0, from(A, 2 * n)));
    run(&mut machine, &even.collect::<Vec<_>>());
    machine
}

fn told(machine: &mut Alignment, event: AlignEvent) -> Vec<String> {
    let actions = run(machine, &[(1, event)]).into_iter();
    actions.filter(|a| !a.starts_with("log")).collect()
}

#[test]
fn a_late_barrier_is_answered_for_as_long_as_it_is_known_that_nobody_did() {
    // Between the 64 that are remembered: cancel markers overtook it, and it is declined.
    let declined = ["decline 3 Subsumed", "cancel 3", "unblock A"];
    let mut machine = after_even_ones(SETTLED_REMEMBERED);
    assert_eq!(told(&mut machine, from(A, 3)), declined);
    assert_eq!(told(&mut machine, from(A, 3)), ["unblock A"], "once");
    // Below all of them: whether it was answered is not known any more.
    assert_eq!(
        told(&mut after_even_ones(SETTLED_REMEMBERED), from(A, 1)),
        ["unblock A"]
    );
    let mut machine = after_even_ones(SETTLED_REMEMBERED + 1);
    assert_eq!(told(&mut machine, from(A, 3)), ["unblock A"]);
}

#[test]
fn the_last_64_aborted_checkpoints_are_not_snapshotted_when_their_barrier_comes() {
    let after = |n: usize| {
        let mut machine = exactly_once(1);
        let script: Vec<_> = (1..=n as u64).map(|n| (0, aborted(n))).collect();
        run(&mut machine, &script);
        machine
    };
    let mut machine = after(ABORTED_REMEMBERED);
    assert_eq!(told(&mut machine, from(A, 1)), ["cancel 1", "unblock A"]);
    let mut machine = after(ABORTED_REMEMBERED + 1);
    assert!(told(&mut machine, from(A, 1))[0].starts_with("snapshot 1"));
    assert_eq!(told(&mut machine, from(A, 2)), ["cancel 2", "unblock A"]);
}

#[test]
fn an_abort_of_a_checkpoint_that_never_comes_is_forgotten_with_the_next_one_that_does() {
    let mut machine = exactly_once(1);
    let script = [(0, aborted(3)), (1, from(A, 4)), (2, aborted(4))];
    assert_eq!(
        run(&mut machine, &script),
        ["snapshot 4 delay 6 align 0 bytes 0"]
    );
}

#[test]
fn a_source_is_not_triggered_for_what_is_older_than_its_newest() {
    let trigger = |n| AlignEvent::Trigger {
        barrier: barrier(n),
    };
    for mut source in [exactly_once(0), at_least_once(0)] {
        assert_eq!(run(&mut source, &[(0, trigger(5))]).len(), 1);
        for old in [4, 5] {
            let actions = run(&mut source, &[(1, trigger(old))]);
            assert_eq!(actions[0], format!("log obsolete {old} after 5"));
            assert!(!actions.iter().any(|a| a.starts_with("snapshot")));
        }
        assert_eq!(run(&mut source, &[(2, trigger(6))]).len(), 1);
    }
}

#[test]
fn at_least_once_counts_the_newest_of_fifty_one_and_not_the_oldest() {
    let script: Vec<_> = (2..=51).map(|n| (0, from(A, n))).collect();
    let mut machine = at_least_once(2);
    assert_eq!(run(&mut machine, &script), [""; 0]);
    // Older than the fifty that are counted.
    assert_eq!(
        run(&mut machine, &[(1, from(A, 1)), (2, from(B, 1))])[..2],
        ["decline 1 Subsumed", "cancel 1"]
    );
    let newest = run(&mut machine, &[(3, from(A, 52)), (4, from(B, 52))]);
    assert_eq!(newest[..2], ["decline 2 Subsumed", "cancel 2"]);
    let snapshot = "snapshot 52 delay 8 align 1 bytes 0";
    assert_eq!(newest.last().map(String::as_str), Some(snapshot));
    assert_eq!(machine.waiting_for(), None);
}

#[test]
fn at_least_once_says_what_the_oldest_checkpoint_waits_for() {
    let mut machine = at_least_once(3);
    run(&mut machine, &[(0, from(B, 7)), (0, from(A, 8))]);
    assert_eq!(machine.waiting_for(), Some((barrier(7), vec![A, C])));
    run(&mut machine, &[(1, end(A))]);
    assert_eq!(machine.waiting_for(), Some((barrier(7), vec![C])));
}

#[test]
fn at_least_once_forgets_a_checkpoint_that_the_jobmanager_aborted_and_no_other() {
    let mut machine = at_least_once(2);
    let script = [(0, from(A, 7)), (0, from(A, 8)), (1, aborted(8))];
    assert_eq!(run(&mut machine, &script), ["log aborting 8", "cancel 8"]);
    assert_eq!(
        run(&mut machine, &[(2, from(B, 8)), (3, from(B, 7))]),
        [
            "log obsolete 8 after 0",
            "snapshot 7 delay 5 align 3 bytes 0"
        ]
    );
    // Of what is settled or behind, nothing is left to do.
    let late = [(4, aborted(7)), (4, aborted(3)), (5, cancel(A, 3))];
    assert_eq!(run(&mut machine, &late), [""; 0]);
    assert_eq!(
        run(&mut machine, &[(6, from(A, 3))]),
        ["log obsolete 3 after 7"]
    );
}

#[test]
fn at_least_once_reports_barriers_that_came_before_or_from_no_open_channel() {
    let mut machine = at_least_once(2);
    let script = [
        (0, from(A, 1)),
        (1, from(A, 1)),
        (2, from(C, 1)),
        (3, cancel(C, 1)),
        (4, end(C)),
        (5, from(B, 1)),
    ];
    assert_eq!(
        run(&mut machine, &script),
        [
            "log unexpected 1 from 0",
            "log unexpected 1 from 2",
            "snapshot 1 delay 5 align 5 bytes 0"
        ]
    );
}
