//! Scripts of barriers, cancel markers and ends, and what the subtask does about them.

mod at_least_once;
mod bounds;
mod consistent_cut;

use std::time::Duration;

use millstream_types::{CheckpointId, Epoch, MonoTime};

use super::*;
use crate::element::BarrierKind;

const A: ChannelIndex = ChannelIndex(0);
const B: ChannelIndex = ChannelIndex(1);
const C: ChannelIndex = ChannelIndex(2);

fn id(n: u64) -> CheckpointId {
    CheckpointId(n)
}

/// A barrier that was 5 ms old when this process learnt of it, at its time zero.
fn barrier(n: u64) -> Barrier {
    Barrier {
        id: id(n),
        epoch: Epoch(1),
        kind: BarrierKind::Checkpoint,
        age: Duration::from_millis(5),
        learnt_at: MonoTime::ZERO,
        completed: None,
    }
}

fn from(channel: ChannelIndex, n: u64) -> AlignEvent {
    AlignEvent::Barrier {
        channel,
        barrier: barrier(n),
    }
}

fn cancel(channel: ChannelIndex, n: u64) -> AlignEvent {
    AlignEvent::Cancel { channel, id: id(n) }
}

fn end(channel: ChannelIndex) -> AlignEvent {
    AlignEvent::EndOfPartition { channel }
}

fn aborted(n: u64) -> AlignEvent {
    AlignEvent::AbortedByJobmanager { id: id(n) }
}

fn exactly_once(n_channels: u32) -> Alignment {
    Alignment::new(AlignMode::ExactlyOnce, n_channels, true)
}

fn at_least_once(n_channels: u32) -> Alignment {
    Alignment::new(AlignMode::AtLeastOnce, n_channels, true)
}

/// Runs a script of (millisecond, event) and shows the actions in short.
fn run(machine: &mut Alignment, script: &[(u64, AlignEvent)]) -> Vec<String> {
    let mut actions = Vec::new();
    for (millis, event) in script {
        machine.step(MonoTime::from_millis(*millis), *event, &mut actions);
    }
    actions.iter().map(show).collect()
}

fn show(action: &AlignAction) -> String {
    let list = |channels: &[ChannelIndex]| -> String {
        channels
            .iter()
            .map(|c| ["A", "B", "C"][c.0 as usize])
            .collect()
    };
    match action {
        AlignAction::Block(channel) => format!("block {}", list(&[*channel])),
        AlignAction::Unblock(channels) => format!("unblock {}", list(channels)),
        AlignAction::Snapshot { barrier, metrics } => format!(
            "snapshot {} delay {} align {} bytes {}",
            barrier.id,
            metrics.start_delay.as_millis(),
            metrics.alignment.as_millis(),
            metrics.bytes_processed
        ),
        AlignAction::Decline { id, reason } => format!("decline {id} {reason:?}"),
        AlignAction::ForwardCancel { id } => format!("cancel {id}"),
        AlignAction::Log(line) => format!("log {}", show_log(line)),
    }
}

fn show_log(log: &AlignLog) -> String {
    match log {
        AlignLog::NewerBarrier { newer, current } => {
            format!("barrier {newer} before all of {current}")
        }
        AlignLog::NewerCancelled { newer, current } => {
            format!("cancel {newer} before all of {current}")
        }
        AlignLog::AbortingAlignment { id } => format!("aborting {id}"),
        AlignLog::SkippingAlignment { id } => format!("skipping {id}"),
        AlignLog::AbortedBefore { id } => format!("aborted before {id}"),
        AlignLog::ObsoleteBarrier { id, current } => format!("obsolete {id} after {current}"),
        AlignLog::UnexpectedBarrier { id, channel } => format!("unexpected {id} from {channel}"),
    }
}

const SKIPPED_19: &str = "log barrier 20 before all of 19";
const OBSOLETE_19: &str = "log obsolete 19 after 20";

/// Proves F88.
#[test]
fn a_channel_waits_behind_its_barrier_while_the_other_is_worked_off() {
    let mut machine = exactly_once(2);
    machine.count_consumed(1_000);
    assert_eq!(run(&mut machine, &[(10, from(A, 1))]), ["block A"]);
    machine.count_consumed(30);
    machine.count_consumed(12);
    assert_eq!(machine.waiting_for(), Some((barrier(1), vec![B])));
    let actions = run(&mut machine, &[(17, from(B, 1))]);
    assert_eq!(
        actions,
        ["snapshot 1 delay 15 align 7 bytes 42", "unblock A"]
    );
    assert_eq!(machine.waiting_for(), None);
}

/// Proves F95.
#[test]
fn a_single_input_snapshots_at_once_and_still_measures_the_start_delay() {
    let actions = run(&mut exactly_once(1), &[(10, from(A, 1))]);
    assert_eq!(actions, ["snapshot 1 delay 15 align 0 bytes 0"]);
}

/// Proves F90.
#[test]
fn a_newer_barrier_takes_the_place_of_the_checkpoint_being_aligned() {
    let script = [(0, from(A, 19)), (9, from(B, 20)), (12, from(A, 20))];
    assert_eq!(
        run(&mut exactly_once(2), &script),
        [
            "block A",
            SKIPPED_19,
            "decline 19 Subsumed",
            "cancel 19",
            "unblock A",
            "block B",
            "snapshot 20 delay 14 align 3 bytes 0",
            "unblock B",
        ]
    );
}

/// Proves F91 and F93.
#[test]
fn a_cancel_marker_ends_the_alignment_and_late_barriers_start_none() {
    let script = [
        (0, from(A, 19)),
        (1, cancel(B, 19)),
        (2, from(B, 19)),
        (3, cancel(A, 19)),
    ];
    assert_eq!(
        run(&mut exactly_once(2), &script),
        [
            "block A",
            "log aborting 19",
            "decline 19 OnCancellationBarrier",
            "cancel 19",
            "unblock A",
            "log obsolete 19 after 19",
            "unblock B",
        ]
    );
}

/// Proves F92.
#[test]
fn a_cancel_marker_for_a_newer_checkpoint_ends_the_older_and_prevents_the_newer() {
    let mut machine = exactly_once(2);
    let actions = run(&mut machine, &[(0, from(A, 19)), (1, cancel(B, 20))]);
    assert_eq!(
        actions,
        [
            "block A",
            "log cancel 20 before all of 19",
            "decline 19 Subsumed",
            "cancel 19",
            "decline 20 OnCancellationBarrier",
            "cancel 20",
            "unblock A",
        ]
    );
    let late = run(
        &mut machine,
        &[(2, from(A, 20)), (3, from(B, 19)), (4, from(B, 20))],
    );
    assert!(
        late.iter()
            .all(|action| action.starts_with("log") || action.starts_with("unblock"))
    );
    assert_eq!(run(&mut machine, &[(5, from(A, 21))]), ["block A"]);
}

/// As F93, of a checkpoint that has its snapshot.
#[test]
fn a_late_barrier_only_frees_its_channel() {
    let script = [
        (0, from(A, 20)),
        (0, from(B, 20)),
        (1, from(A, 20)),
        (2, from(A, 21)),
    ];
    assert_eq!(
        run(&mut exactly_once(2), &script)[3..],
        ["log obsolete 20 after 20", "unblock A", "block A",]
    );
}

#[test]
fn a_cancel_marker_that_overtook_an_older_barrier_does_not_leave_that_unanswered() {
    let mut machine = exactly_once(2);
    run(
        &mut machine,
        &[(0, from(A, 18)), (0, from(B, 18)), (1, cancel(A, 20))],
    );
    assert_eq!(
        run(&mut machine, &[(2, from(A, 19)), (3, from(B, 19))]),
        [
            OBSOLETE_19,
            "decline 19 Subsumed",
            "cancel 19",
            "unblock A",
            OBSOLETE_19,
            "unblock B"
        ]
    );
}

#[test]
fn a_cancel_marker_before_the_first_barrier_skips_the_alignment() {
    let script = [(0, cancel(A, 5)), (0, cancel(B, 5)), (1, from(A, 5))];
    assert_eq!(
        run(&mut exactly_once(2), &script)[..3],
        [
            "log skipping 5",
            "decline 5 OnCancellationBarrier",
            "cancel 5",
        ]
    );
}

/// Proves F94.
#[test]
fn an_input_that_ends_counts_as_aligned_unless_that_is_switched_off() {
    let script = [(0, from(A, 1)), (8, end(B))];
    assert_eq!(
        run(&mut exactly_once(2), &script),
        ["block A", "snapshot 1 delay 5 align 8 bytes 0", "unblock A"]
    );
    let mut off = Alignment::new(AlignMode::ExactlyOnce, 2, false);
    assert_eq!(
        run(&mut off, &script),
        [
            "block A",
            "decline 1 InputEndOfStream",
            "cancel 1",
            "unblock A"
        ]
    );
}

#[test]
fn the_target_is_what_was_open_when_the_first_barrier_came() {
    let script = [
        (0, end(C)),
        (1, from(A, 1)),
        (2, from(B, 1)),
        (3, end(B)),
        (4, from(A, 2)),
    ];
    assert_eq!(
        run(&mut exactly_once(3), &script),
        [
            "block A",
            "snapshot 1 delay 6 align 1 bytes 0",
            "unblock A",
            "snapshot 2 delay 9 align 0 bytes 0",
        ]
    );
}

/// Proves F67 for the alignment.
#[test]
fn a_checkpoint_aborted_before_its_barrier_came_is_not_snapshotted() {
    for mut machine in [exactly_once(2), at_least_once(2)] {
        let script = [(0, aborted(7)), (1, from(A, 7)), (2, from(B, 7))];
        let actions = run(&mut machine, &script);
        let told: Vec<_> = actions.iter().filter(|a| !a.starts_with("log")).collect();
        let told: Vec<_> = told
            .into_iter()
            .filter(|a| !a.starts_with("unblock"))
            .collect();
        assert_eq!(told, ["cancel 7"]);
        assert_eq!(actions[0], "log aborted before 7");
        let next = run(&mut machine, &[(3, from(A, 8)), (4, from(B, 8))]);
        assert!(
            next.iter().any(|action| action.starts_with("snapshot 8")),
            "{next:?}"
        );
    }
}

#[test]
fn a_checkpoint_aborted_while_it_is_aligned_frees_its_channels() {
    let script = [
        (0, from(A, 7)),
        (1, aborted(7)),
        (2, aborted(7)),
        (3, from(B, 7)),
    ];
    assert_eq!(
        run(&mut exactly_once(2), &script)[..4],
        ["block A", "log aborting 7", "cancel 7", "unblock A",]
    );
}

#[test]
fn aborted_ids_are_remembered_within_bounds() {
    let mut machine = exactly_once(1);
    let many = 3 * ABORTED_REMEMBERED as u64;
    let script: Vec<_> = (1..=many).map(|n| (0, aborted(n))).collect();
    run(&mut machine, &script);
    // The lowest are forgotten: their snapshots are taken in vain and discarded.
    assert!(run(&mut machine, &[(1, from(A, 1))])[0].starts_with("snapshot 1"));
    assert_eq!(
        run(&mut machine, &[(2, from(A, many))])[..2],
        [
            format!("log aborted before {many}"),
            format!("cancel {many}")
        ]
    );
}

#[test]
fn a_source_snapshots_when_triggered_and_ignores_what_is_old_or_aborted() {
    let trigger = |n| AlignEvent::Trigger {
        barrier: barrier(n),
    };
    for mut source in [exactly_once(0), at_least_once(0)] {
        let script = [
            (3, trigger(1)),
            (4, trigger(1)),
            (5, aborted(2)),
            (6, trigger(2)),
            (7, trigger(3)),
        ];
        let actions = run(&mut source, &script);
        let told: Vec<_> = actions.iter().filter(|a| !a.starts_with("log")).collect();
        let expected = [
            "snapshot 1 delay 8 align 0 bytes 0",
            "cancel 2",
            "snapshot 3 delay 12 align 0 bytes 0",
        ];
        assert_eq!(told, expected);
    }
}

#[test]
fn a_triggered_subtask_below_finished_ones_waits_for_their_ends() {
    let script = [
        (
            0,
            AlignEvent::Trigger {
                barrier: barrier(4),
            },
        ),
        (1, end(A)),
        (2, end(B)),
    ];
    assert_eq!(
        run(&mut exactly_once(2), &script),
        ["snapshot 4 delay 5 align 2 bytes 0"]
    );
}

#[test]
fn a_refused_snapshot_is_declined_and_cancelled_downstream() {
    let refused = AlignEvent::SnapshotRefused {
        id: id(1),
        reason: DeclineReason::TaskClosing,
    };
    assert_eq!(
        run(&mut exactly_once(1), &[(0, from(A, 1)), (1, refused)])[1..],
        ["decline 1 TaskClosing", "cancel 1"]
    );
}

#[test]
fn barriers_of_unknown_ended_or_blocked_channels_are_reported_and_change_nothing() {
    let script = [
        (0, end(B)),
        (1, from(B, 1)),
        (2, from(C, 1)),
        (3, from(A, 1)),
    ];
    let mut machine = exactly_once(2);
    assert_eq!(
        run(&mut machine, &script),
        [
            "log unexpected 1 from 1",
            "log unexpected 1 from 2",
            "snapshot 1 delay 8 align 0 bytes 0",
        ]
    );
    let twice = run(&mut exactly_once(2), &[(0, from(A, 1)), (1, from(A, 1))]);
    assert_eq!(twice[1], "log unexpected 1 from 0");
}
