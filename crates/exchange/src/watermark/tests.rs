//! The valve: what holds time back, what lets it go.

use proptest::prelude::*;

use super::ValveAction::{Advance, Status};
use super::*;

const A: ChannelIndex = ChannelIndex(0);
const B: ChannelIndex = ChannelIndex(1);
const C: ChannelIndex = ChannelIndex(2);
const IDLE: ValveAction = Status(ChannelStatus::Idle);
const ACTIVE: ValveAction = Status(ChannelStatus::Active);

fn at(channel: ChannelIndex, time: i64) -> ValveEvent {
    ValveEvent::Watermark(channel, EventTime(time))
}

fn idle(channel: ChannelIndex) -> ValveEvent {
    ValveEvent::Status(channel, ChannelStatus::Idle)
}

fn active(channel: ChannelIndex) -> ValveEvent {
    ValveEvent::Status(channel, ChannelStatus::Active)
}

fn advance(time: i64) -> ValveAction {
    Advance(EventTime(time))
}

fn run(valve: &mut WatermarkValve, events: &[ValveEvent]) -> Vec<ValveAction> {
    let mut actions = Vec::new();
    events
        .iter()
        .for_each(|event| valve.step(*event, &mut actions));
    actions
}

/// Proves F103, F104; nothing shows who holds the watermark so far.
#[test]
fn a_channel_without_a_watermark_holds_all_until_it_is_idle() {
    let mut valve = WatermarkValve::new(2);
    assert_eq!(run(&mut valve, &[at(A, 100)]), []);
    assert_eq!(valve.holding(), Some((B, EventTime::MIN)));
    assert_eq!(run(&mut valve, &[idle(B)]), [advance(100)]);
    // Back with what it had: the output stays, and others go on without it until it caught up.
    assert_eq!(run(&mut valve, &[active(B), at(B, 50)]), []);
    assert_eq!(run(&mut valve, &[at(A, 120)]), [advance(120)]);
    assert_eq!(run(&mut valve, &[at(B, 121), at(A, 150)]), [advance(121)]);
}

/// Proves F105.
#[test]
fn when_all_are_idle_the_highest_is_flushed_once_and_idle_sent() {
    let mut valve = WatermarkValve::new(2);
    run(&mut valve, &[at(A, 10), at(B, 20)]);
    assert_eq!(
        run(&mut valve, &[idle(B), idle(A), idle(A)]),
        [advance(20), IDLE]
    );
    assert_eq!(
        run(&mut valve, &[at(A, 30)]),
        [],
        "a watermark of an idle channel"
    );
    assert_eq!(
        run(&mut valve, &[active(A), at(A, 30)]),
        [ACTIVE, advance(30)]
    );
}

/// Proves F108.
#[test]
fn a_finished_channel_neither_holds_nor_pushes() {
    let mut valve = WatermarkValve::new(3);
    run(&mut valve, &[at(A, 5), at(B, 10), at(C, 20)]);
    let max = ValveEvent::Watermark(A, EventTime::MAX);
    assert_eq!(
        run(&mut valve, &[max, ValveEvent::EndOfPartition(A)]),
        [advance(10)]
    );
    assert_eq!(run(&mut valve, &[idle(C), idle(B)]), [advance(20), IDLE]);
    assert_eq!(valve.output(), EventTime(20), "idle, not MAX");
    assert_eq!(
        run(&mut valve, &[active(B), at(B, 25)]),
        [ACTIVE, advance(25)]
    );
}

#[test]
fn the_end_of_the_last_active_channel_flushes_what_it_held_back() {
    let mut valve = WatermarkValve::new(2);
    run(&mut valve, &[at(A, 10), at(B, 20), idle(B)]);
    assert_eq!(valve.output(), EventTime(10));
    assert_eq!(
        run(&mut valve, &[ValveEvent::EndOfPartition(A)]),
        [advance(20), IDLE]
    );
}

#[test]
fn max_leaves_when_every_channel_brought_it_and_not_when_one_just_stopped() {
    let max = |channel| ValveEvent::Watermark(channel, EventTime::MAX);
    let mut valve = WatermarkValve::new(2);
    assert_eq!(run(&mut valve, &[max(A), idle(B)]), [IDLE]);
    assert_eq!(
        run(&mut valve, &[max(B)]),
        [ACTIVE, Advance(EventTime::MAX)]
    );

    let mut stopped = WatermarkValve::new(2);
    run(&mut stopped, &[at(A, 1), at(B, 1)]);
    let events = [max(A), ValveEvent::EndOfPartition(B)];
    assert_eq!(run(&mut stopped, &events), []);
}

#[test]
fn the_output_never_goes_back() {
    let mut valve = WatermarkValve::new(1);
    assert_eq!(
        run(&mut valve, &[at(A, 7), at(A, 3), at(A, 7), at(A, 8)]),
        [advance(7), advance(8)]
    );
}

#[test]
fn an_event_of_an_unknown_channel_changes_nothing() {
    let mut valve = WatermarkValve::new(1);
    let events = [at(C, 7), idle(C), active(C), ValveEvent::EndOfPartition(C)];
    assert_eq!(run(&mut valve, &events), []);
}

fn event() -> impl Strategy<Value = ValveEvent> {
    let channel = || (0u32..4).prop_map(ChannelIndex);
    let time = prop_oneof![20 => -5i64..30, 1 => Just(i64::MAX)];
    prop_oneof![
        8 => (channel(), time).prop_map(|(channel, time)| at(channel, time)),
        2 => channel().prop_map(idle),
        2 => channel().prop_map(active),
        1 => channel().prop_map(ValveEvent::EndOfPartition),
    ]
}

proptest! {
    /// Nothing goes back, nothing is missed, and MAX leaves only when every channel brought it.
    #[test]
    fn whatever_comes_the_output_is_the_least_of_those_that_take_part(
        events in prop::collection::vec(event(), 0..80),
    ) {
        let mut valve = WatermarkValve::new(4);
        let mut at_max = std::collections::BTreeSet::new();
        let mut ended = std::collections::BTreeSet::new();
        for event in events {
            match event {
                ValveEvent::Watermark(channel, EventTime::MAX) if !ended.contains(&channel) => {
                    at_max.insert(channel);
                    ended.insert(channel);
                }
                ValveEvent::EndOfPartition(channel) => {
                    ended.insert(channel);
                },
                ValveEvent::Watermark(..) | ValveEvent::Status(..) => {}
            }
            let (before, status) = (valve.output(), valve.status());
            let actions = run(&mut valve, &[event]);
            let mut last = before;
            for action in &actions {
                if let Advance(time) = action {
                    prop_assert!(*time > last);
                    last = *time;
                }
            }
            prop_assert_eq!(last, valve.output());
            prop_assert_eq!(valve.output() == EventTime::MAX, at_max.len() == 4);
            let told = actions.iter().any(|action| matches!(action, Status(_)));
            prop_assert!(told || status == valve.status());
            let least = valve.inputs.iter().filter_map(|input| match input {
                Input::Open { watermark, aligned: true, .. } => Some(*watermark),
                Input::Open { .. } | Input::Finished { .. } => None,
            });
            prop_assert!(least.min().is_none_or(|least| least <= valve.output()));
        }
    }
}
