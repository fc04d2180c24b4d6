//! The watermark valve: many channels' watermarks to the one of the subtask (B4.1-B4.5).
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
mod tests;
