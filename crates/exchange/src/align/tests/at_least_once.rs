//! At least once: nothing is blocked.

use super::*;

/// Proves F96.
#[test]
fn at_least_once_blocks_nothing_and_counts_every_checkpoint_on_its_own() {
    let mut machine = at_least_once(2);
    machine.count_consumed(500);
    let script = [
        (0, from(A, 1)),
        (1, from(A, 2)),
        (2, from(B, 1)),
        (3, from(B, 2)),
    ];
    assert_eq!(
        run(&mut machine, &script),
        [
            "snapshot 1 delay 5 align 2 bytes 0",
            "snapshot 2 delay 6 align 2 bytes 0"
        ]
    );
}

#[test]
fn at_least_once_gives_up_what_a_newer_complete_checkpoint_left_behind() {
    let script = [
        (0, from(A, 1)),
        (1, from(A, 2)),
        (2, from(B, 2)),
        (3, from(B, 1)),
    ];
    assert_eq!(
        run(&mut at_least_once(2), &script)[..3],
        [
            "decline 1 Subsumed",
            "cancel 1",
            "snapshot 2 delay 6 align 1 bytes 0"
        ]
    );
}

#[test]
fn at_least_once_cancel_ends_the_older_ones_too() {
    let script = [
        (0, from(A, 1)),
        (1, cancel(B, 2)),
        (2, from(A, 2)),
        (3, from(B, 3)),
        (4, from(A, 3)),
    ];
    let actions = run(&mut at_least_once(2), &script);
    let told: Vec<_> = actions
        .iter()
        .filter(|action| !action.starts_with("log"))
        .collect();
    assert_eq!(
        told,
        [
            "decline 1 Subsumed",
            "cancel 1",
            "decline 2 OnCancellationBarrier",
            "cancel 2",
            "snapshot 3 delay 8 align 1 bytes 0",
        ]
    );
}

#[test]
fn at_least_once_counts_an_ended_channel_and_snapshots_the_newest_that_completes() {
    let script = [(0, from(A, 1)), (1, from(A, 2)), (2, end(B))];
    assert_eq!(
        run(&mut at_least_once(2), &script),
        [
            "decline 1 Subsumed",
            "cancel 1",
            "snapshot 2 delay 6 align 1 bytes 0"
        ]
    );
    let mut off = Alignment::new(AlignMode::AtLeastOnce, 2, false);
    assert_eq!(
        run(&mut off, &script)[..2],
        ["decline 1 InputEndOfStream", "cancel 1"]
    );
}

#[test]
fn at_least_once_tracks_fifty_checkpoints_and_gives_up_the_oldest() {
    let script: Vec<_> = (1..=51).map(|n| (0, from(A, n))).collect();
    let mut machine = at_least_once(2);
    assert_eq!(
        run(&mut machine, &script),
        ["decline 1 Subsumed", "cancel 1"]
    );
    let completed = run(&mut machine, &[(1, from(B, 1)), (2, from(B, 2))]);
    assert!(completed[1].starts_with("snapshot 2"), "{completed:?}");
}

#[test]
fn at_least_once_cancels_a_checkpoint_once_and_by_its_own_reason() {
    let script = [
        (0, from(A, 1)),
        (1, cancel(B, 1)),
        (2, cancel(A, 1)),
        (3, cancel(A, 2)),
        (3, cancel(B, 2)),
    ];
    assert_eq!(
        run(&mut at_least_once(2), &script),
        [
            "log aborting 1",
            "decline 1 OnCancellationBarrier",
            "cancel 1",
            "log skipping 2",
            "decline 2 OnCancellationBarrier",
            "cancel 2",
        ]
    );
}

#[test]
fn at_least_once_triggered_waits_for_the_ends_and_is_not_triggered_twice() {
    let trigger = |n| AlignEvent::Trigger {
        barrier: barrier(n),
    };
    let script = [
        (0, trigger(4)),
        (1, trigger(4)),
        (2, end(A)),
        (3, end(B)),
        (4, trigger(4)),
    ];
    assert_eq!(
        run(&mut at_least_once(2), &script),
        [
            "log obsolete 4 after 0",
            "snapshot 4 delay 5 align 3 bytes 0",
            "log obsolete 4 after 4"
        ]
    );
    // What was cancelled already is not triggered either.
    let script = [(0, cancel(A, 5)), (1, trigger(5)), (2, from(A, 6))];
    assert_eq!(
        run(&mut at_least_once(1), &script)[3..],
        [
            "log obsolete 5 after 0",
            "snapshot 6 delay 7 align 0 bytes 0"
        ]
    );
}
