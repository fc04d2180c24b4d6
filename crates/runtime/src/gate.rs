//! The inputs of a task: channels in turn, those behind their barrier left alone.

use millstream_exchange::queue::Popped;
use millstream_exchange::{ChannelIndex, Control, Element, Feedback};

use crate::channel::ReceiverEnd;

/// What comes out of a gate.
pub(crate) enum Incoming {
    /// Something that overtook, of any channel, blocked ones included.
    Control(Control),
    /// The next element of a channel that is not blocked.
    Element {
        /// What.
        element: Element,
        /// What it costs.
        cost: u64,
    },
}

struct Input {
    channel: ReceiverEnd,
    /// Which input of the head operator it belongs to.
    input: u32,
    is_blocked: bool,
    has_ended: bool,
}

/// All input channels of a task.
pub(crate) struct Gate {
    inputs: Vec<Input>,
    next: usize,
}

impl Gate {
    /// Channels with the operator input each belongs to, in order of the plan.
    pub(crate) fn new(channels: Vec<(ReceiverEnd, u32)>) -> Self {
        let inputs = channels
            .into_iter()
            .map(|(channel, input)| Input {
                channel,
                input,
                is_blocked: false,
                has_ended: false,
            })
            .collect();
        Self { inputs, next: 0 }
    }

    /// The next thing to deal with, channel after channel.
    pub(crate) fn take(&mut self) -> Option<(ChannelIndex, Incoming)> {
        for (index, input) in self.inputs.iter().enumerate() {
            if let Some(control) = input.channel.pop_control() {
                return Some((ChannelIndex(index as u32), Incoming::Control(control)));
            }
        }
        for step in 0..self.inputs.len() {
            let index = (self.next + step) % self.inputs.len();
            let input = &self.inputs[index];
            if input.is_blocked || input.has_ended {
                continue;
            }
            let incoming = match input.channel.pop() {
                None => continue,
                Some(Popped::Control(control)) => Incoming::Control(control),
                Some(Popped::Element { element, cost }) => Incoming::Element { element, cost },
            };
            self.next = index + 1;
            return Some((ChannelIndex(index as u32), incoming));
        }
        None
    }

    /// Which input of the head operator a channel belongs to.
    pub(crate) fn input_of(&self, channel: ChannelIndex) -> u32 {
        self.inputs[channel.0 as usize].input
    }

    /// Gives the window of a channel back.
    pub(crate) fn release(&self, channel: ChannelIndex, cost: u64) {
        self.inputs[channel.0 as usize].channel.release(cost);
    }

    /// Takes no more from this channel.
    pub(crate) fn block(&mut self, channel: ChannelIndex) {
        self.inputs[channel.0 as usize].is_blocked = true;
    }

    /// Takes from these channels again.
    pub(crate) fn unblock(&mut self, channels: &[ChannelIndex]) {
        for channel in channels {
            self.inputs[channel.0 as usize].is_blocked = false;
        }
    }

    /// Nothing follows in this channel.
    pub(crate) fn end(&mut self, channel: ChannelIndex) {
        self.inputs[channel.0 as usize].has_ended = true;
    }

    /// Tells the producers of all channels something.
    pub(crate) fn send_feedback(&self, feedback: Feedback) {
        for input in &self.inputs {
            input.channel.send_feedback(feedback);
        }
    }
}
