//! The watermark valve: many channels' watermarks to the one of the subtask (SEMANTICS B4.1-B4.5).
//!
//! The output is the least watermark of the channels that are active, not behind the output, and not
//! finished; it never goes back. A channel that saw MAX is finished and excluded, so that it neither
//! holds the others back nor, when those go idle, pushes time to its end. MAX leaves only when every
//! channel brought it.

use millstream_types::EventTime;

use crate::element::{ChannelIndex, ChannelStatus};

/// What the valve learns.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ValveEvent {
    /// A watermark of a channel.
    Watermark(ChannelIndex, EventTime),
    /// A channel went idle or came back.
    Status(ChannelIndex, ChannelStatus),
    /// Nothing follows in the channel.
    EndOfPartition(ChannelIndex),
}

/// What the subtask does, in this order.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ValveAction {
    /// Time moved: fire timers, then hand the watermark on.
    Advance(EventTime),
    /// The subtask's own status changed: hand it on.
    Status(ChannelStatus),
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Input {
    Open {
        watermark: EventTime,
        status: ChannelStatus,
        aligned: bool,
    },
    /// `at_max`: it brought MAX, and did not just end.
    Finished { at_max: bool },
}

/// The valve of one subtask.
#[derive(Clone, Debug)]
pub struct WatermarkValve {
    inputs: Vec<Input>,
    output: EventTime,
    status: ChannelStatus,
}

impl WatermarkValve {
    /// A valve over this many channels, all active and without a watermark.
    pub fn new(n_channels: usize) -> Self {
        let input = Input::Open {
            watermark: EventTime::MIN,
            status: ChannelStatus::Active,
            aligned: true,
        };
        Self {
            inputs: vec![input; n_channels],
            output: EventTime::MIN,
            status: ChannelStatus::Active,
        }
    }

    /// The last watermark that left.
    pub fn output(&self) -> EventTime {
        self.output
    }

    /// The subtask's status.
    pub fn status(&self) -> ChannelStatus {
        self.status
    }

    /// The channel that holds the output back: the active one with the least watermark. None when
    /// no channel is active.
    pub fn holding(&self) -> Option<(ChannelIndex, EventTime)> {
        let watermarks = self
            .inputs
            .iter()
            .zip(0u32..)
            .filter_map(|(input, index)| match input {
                Input::Open {
                    watermark,
                    status: ChannelStatus::Active,
                    ..
                } => Some((ChannelIndex(index), *watermark)),
                Input::Open { .. } | Input::Finished { .. } => None,
            });
        watermarks.min_by_key(|(_, watermark)| *watermark)
    }

    /// Takes one event. Events of channels that do not exist or are finished change nothing.
    pub fn step(&mut self, event: ValveEvent, actions: &mut Vec<ValveAction>) {
        match event {
            ValveEvent::Watermark(channel, EventTime::MAX) => self.finish(channel, true, actions),
            ValveEvent::EndOfPartition(channel) => self.finish(channel, false, actions),
            ValveEvent::Watermark(channel, watermark) => {
                self.on_watermark(channel, watermark, actions);
            }
            ValveEvent::Status(channel, ChannelStatus::Idle) => self.on_idle(channel, actions),
            ValveEvent::Status(channel, ChannelStatus::Active) => self.on_active(channel, actions),
        }
    }

    fn on_watermark(
        &mut self,
        channel: ChannelIndex,
        new: EventTime,
        actions: &mut Vec<ValveAction>,
    ) {
        let output = self.output;
        let Some(Input::Open {
            watermark,
            status: ChannelStatus::Active,
            aligned,
        }) = self.inputs.get_mut(channel.0 as usize)
        else {
            return;
        };
        if new <= *watermark {
            return;
        }
        // A channel already ahead of the output is not the one that holds it.
        let held = *watermark <= output;
        *watermark = new;
        *aligned |= new >= output;
        if held {
            self.advance(actions);
        }
    }

    fn on_idle(&mut self, channel: ChannelIndex, actions: &mut Vec<ValveAction>) {
        let Some(Input::Open {
            watermark,
            status,
            aligned,
        }) = self.inputs.get_mut(channel.0 as usize)
        else {
            return;
        };
        if *status == ChannelStatus::Idle {
            return;
        }
        let held = *watermark == self.output;
        *status = ChannelStatus::Idle;
        *aligned = false;
        self.after_a_channel_left(held, actions);
    }

    fn on_active(&mut self, channel: ChannelIndex, actions: &mut Vec<ValveAction>) {
        let output = self.output;
        let Some(Input::Open {
            watermark,
            status,
            aligned,
        }) = self.inputs.get_mut(channel.0 as usize)
        else {
            return;
        };
        if *status == ChannelStatus::Active {
            return;
        }
        *status = ChannelStatus::Active;
        *aligned = *watermark >= output;
        if self.status == ChannelStatus::Idle {
            self.status = ChannelStatus::Active;
            actions.push(ValveAction::Status(ChannelStatus::Active));
        }
        self.advance(actions);
    }

    fn finish(&mut self, channel: ChannelIndex, at_max: bool, actions: &mut Vec<ValveAction>) {
        let Some(input) = self.inputs.get_mut(channel.0 as usize) else {
            return;
        };
        let Input::Open {
            watermark, status, ..
        } = *input
        else {
            return;
        };
        *input = Input::Finished { at_max };
        if self
            .inputs
            .iter()
            .all(|input| *input == Input::Finished { at_max: true })
        {
            // An idle subtask's watermark would be ignored downstream.
            if self.status == ChannelStatus::Idle {
                self.status = ChannelStatus::Active;
                actions.push(ValveAction::Status(ChannelStatus::Active));
            }
            self.output = EventTime::MAX;
            actions.push(ValveAction::Advance(EventTime::MAX));
        } else if status == ChannelStatus::Active {
            self.after_a_channel_left(watermark == self.output, actions);
        }
    }

    /// A channel no longer takes part; `held` says that it was the one at the output.
    fn after_a_channel_left(&mut self, held: bool, actions: &mut Vec<ValveAction>) {
        let open = || {
            self.inputs.iter().filter_map(|input| match input {
                Input::Open {
                    watermark, status, ..
                } => Some((*watermark, *status)),
                Input::Finished { .. } => None,
            })
        };
        if open().any(|(_, status)| status == ChannelStatus::Active) {
            self.advance(actions);
            return;
        }
        let Some(highest) = open().map(|(watermark, _)| watermark).max() else {
            return;
        };
        if held && highest > self.output {
            self.output = highest;
            actions.push(ValveAction::Advance(highest));
        }
        if self.status == ChannelStatus::Active {
            self.status = ChannelStatus::Idle;
            actions.push(ValveAction::Status(ChannelStatus::Idle));
        }
    }

    fn advance(&mut self, actions: &mut Vec<ValveAction>) {
        let aligned = self.inputs.iter().filter_map(|input| match input {
            Input::Open {
                watermark,
                aligned: true,
                ..
            } => Some(*watermark),
            Input::Open { .. } | Input::Finished { .. } => None,
        });
        if let Some(least) = aligned.min().filter(|least| *least > self.output) {
            self.output = least;
            actions.push(ValveAction::Advance(least));
        }
    }
}

#[cfg(test)]
mod tests {
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

    /// Proves F103, F104.
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
}
