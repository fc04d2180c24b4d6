//! The sending ends of all channels of one connection, taken in turn.

use std::collections::{BTreeMap, VecDeque};
use std::ops::Bound;

use bytes::Bytes;
use millstream_exchange::frame::{ChannelId as FrameChannel, EncodeError, Frame, FrameSender};
use millstream_exchange::queue::Popped;
use millstream_exchange::{Element, Feedback};
use millstream_rpc::data::{DataMessage, OpenChannel};
use millstream_types::{Epoch, MonoTime, SubtaskId};

use crate::channel::Outlet;
use crate::failure::LinkError;
use crate::peer::NewOutput;

struct Output {
    own: SubtaskId,
    elements: Box<dyn Outlet>,
    sender: FrameSender,
    /// The receiver is there: its first grant came.
    is_open: bool,
    /// Taken from the line, and waiting for credit.
    held: Option<Popped>,
    /// Frames of an element that is being sent.
    frames: VecDeque<Bytes>,
    /// Its task ended: what is in line is still sent.
    is_closing: bool,
    /// The last mark is sent or among the frames.
    is_ended: bool,
}

impl Output {
    /// The next frame, if one may go.
    fn next(&mut self, now: MonoTime) -> Result<Option<Bytes>, EncodeError> {
        if let Some(frame) = self.frames.pop_front() {
            return Ok(Some(frame));
        }
        if !self.is_open {
            return Ok(None);
        }
        let mut frames = Vec::new();
        match self.take() {
            Some(Popped::Control(control)) => self.sender.send_control(now, control, &mut frames),
            Some(Popped::Element { element, .. }) => {
                self.is_ended = matches!(element, Element::EndOfPartition);
                self.sender.send(now, &element, &mut frames)?;
            }
            None => {}
        }
        self.frames.extend(frames);
        Ok(self.frames.pop_front())
    }

    /// What may go now: what overtook, or the head of the line. A head that waits for credit is
    /// kept here, for what stands behind it has to wait as well.
    fn take(&mut self) -> Option<Popped> {
        if let Some(control) = self.elements.pop_control() {
            return Some(Popped::Control(control));
        }
        let popped = match self.held.take() {
            Some(held) => held,
            None => self.elements.pop()?,
        };
        let costs = match &popped {
            Popped::Element { element, .. } => {
                matches!(element, Element::Batch(_) | Element::Splits(_))
            }
            // It came after the look above.
            Popped::Control(_) => false,
        };
        if costs && !self.sender.can_send() {
            self.held = Some(popped);
            return None;
        }
        Some(popped)
    }

    /// Whether nothing is left to be sent, after there was nothing next. As long as the receiver is
    /// not there, what its task left in line waits for it.
    fn is_done(&self) -> bool {
        let is_empty = self.is_open && self.held.is_none();
        self.frames.is_empty() && (self.is_ended || (self.is_closing && is_empty))
    }
}

/// All outgoing channels of a connection.
pub(crate) struct Outputs {
    epoch: Epoch,
    channels: BTreeMap<u32, Output>,
    messages: VecDeque<DataMessage>,
    next_number: u32,
    last_sent: u32,
    /// Tasks whose elements cannot be sent.
    failed: Vec<(SubtaskId, EncodeError)>,
}

impl Outputs {
    pub(crate) fn new(epoch: Epoch) -> Self {
        Self {
            epoch,
            channels: BTreeMap::new(),
            messages: VecDeque::new(),
            next_number: 0,
            last_sent: 0,
            failed: Vec::new(),
        }
    }

    pub(crate) fn open(&mut self, new: NewOutput) {
        let number = self.next_number;
        self.next_number += 1;
        let output = Output {
            own: new.own,
            elements: new.elements,
            sender: FrameSender::new(FrameChannel(number), self.epoch, new.codec),
            is_open: false,
            held: None,
            frames: VecDeque::new(),
            is_closing: false,
            is_ended: false,
        };
        self.channels.insert(number, output);
        let channel = new.channel;
        self.messages
            .push_back(DataMessage::Open(OpenChannel { number, channel }));
    }

    /// The task ended. What it left in line is sent as far as there is credit.
    pub(crate) fn close(&mut self, own: SubtaskId) {
        for output in self
            .channels
            .values_mut()
            .filter(|output| output.own == own)
        {
            output.is_closing = true;
        }
    }

    /// Takes a message of the receiver.
    pub(crate) fn receive(&mut self, message: DataMessage) -> Result<(), LinkError> {
        match message {
            DataMessage::Frame(bytes) => {
                let frame = Frame::parse(bytes).map_err(LinkError::Frame)?;
                let Some(output) = self.channels.get_mut(&frame.channel.0) else {
                    // It crossed the end of its channel.
                    return Ok(());
                };
                let is_ours = output.sender.on_grant(&frame).map_err(LinkError::Frame)?;
                output.is_open |= is_ours;
            }
            DataMessage::Feedback(feedback) => {
                if let Some(output) = self.channels.get(&feedback.number) {
                    let (opened, finished) = (feedback.opened, feedback.finished);
                    output.elements.send_feedback(Feedback { opened, finished });
                }
            }
            // Dropping the end of a task's channel lets the task go on without it.
            DataMessage::Close { number } => drop(self.channels.remove(&number)),
            DataMessage::Welcome | DataMessage::Hello(_) | DataMessage::Open(_) => {
                let text = "a message that only a caller sends, or only once".to_owned();
                return Err(LinkError::Protocol(text));
            }
        }
        Ok(())
    }

    /// The next message to be sent: one frame of each channel in turn, so that none waits for the
    /// large elements of another.
    pub(crate) fn next(&mut self, now: MonoTime) -> Option<DataMessage> {
        if let Some(message) = self.messages.pop_front() {
            return Some(message);
        }
        let mut number = self.last_sent;
        for _ in 0..self.channels.len() {
            number = self.after(number)?;
            let output = self.channels.get_mut(&number)?;
            match output.next(now) {
                Ok(Some(frame)) => {
                    self.last_sent = number;
                    return Some(DataMessage::Frame(frame));
                }
                Ok(None) if !output.is_done() => continue,
                Ok(None) => {}
                Err(error) => self.failed.push((output.own, error)),
            }
            self.channels.remove(&number);
            return Some(DataMessage::Close { number });
        }
        None
    }

    /// The channel whose turn is after this one's.
    fn after(&self, number: u32) -> Option<u32> {
        let behind = (Bound::Excluded(number), Bound::Unbounded);
        let next = self
            .channels
            .range(behind)
            .chain(self.channels.iter())
            .next();
        next.map(|(number, _)| *number)
    }

    pub(crate) fn take_failed(&mut self) -> Vec<(SubtaskId, EncodeError)> {
        std::mem::take(&mut self.failed)
    }

    /// Tasks that still need the connection.
    pub(crate) fn tasks(&self) -> Vec<SubtaskId> {
        let needed = self.channels.values().filter(|output| !output.is_closing);
        let mut tasks: Vec<_> = needed.map(|output| output.own).collect();
        tasks.sort_unstable();
        tasks.dedup();
        tasks
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow::datatypes::Schema;
    use millstream_exchange::frame::{Arrived, ElementCodec, FrameReceiver};
    use millstream_exchange::{CancelMarker, Control};
    use millstream_graph::{ChannelId, EdgeId};
    use millstream_types::{CheckpointId, VertexId};
    use parking_lot::Mutex;

    use super::*;

    const EPOCH: Epoch = Epoch(1);
    const NOW: MonoTime = MonoTime::ZERO;

    /// Into whose line control comes just after the look for it.
    struct Late(Mutex<Vec<Popped>>);

    impl Outlet for Late {
        fn pop_control(&self) -> Option<Control> {
            None
        }

        fn pop(&self) -> Option<Popped> {
            self.0.lock().pop()
        }

        fn send_feedback(&self, _: Feedback) {}
    }

    fn codec() -> ElementCodec {
        ElementCodec::new(&Arc::new(Schema::empty()), 1 << 20).unwrap()
    }

    fn output(index: u32, popped: Vec<Popped>) -> NewOutput {
        NewOutput {
            own: SubtaskId::new(VertexId(0), index),
            channel: ChannelId {
                edge: EdgeId(0),
                from: index,
                to: 0,
            },
            codec: codec(),
            elements: Box::new(Late(Mutex::new(popped))),
        }
    }

    fn receiver(number: u32) -> FrameReceiver {
        FrameReceiver::new(FrameChannel(number), EPOCH, codec(), 1 << 10, 1 << 20)
    }

    fn frame(message: Option<DataMessage>) -> Frame {
        let Some(DataMessage::Frame(bytes)) = message else {
            panic!("{message:?}")
        };
        Frame::parse(bytes).unwrap()
    }

    fn splits(bytes: usize) -> Popped {
        let element = Element::Splits(Bytes::from(vec![0; bytes]));
        let cost = element.cost();
        Popped::Element { element, cost }
    }

    #[test]
    fn nothing_is_sent_before_the_receiver_is_there_and_late_control_is_not_lost() {
        let cancel = Control::Cancel(CancelMarker {
            id: CheckpointId(4),
        });
        let mut outputs = Outputs::new(EPOCH);
        outputs.open(output(0, vec![Popped::Control(cancel)]));
        assert!(matches!(outputs.next(NOW), Some(DataMessage::Open(_))));
        assert_eq!(outputs.next(NOW), None);
        let mut receiver = receiver(0);
        let grant = receiver.open().unwrap();
        outputs.receive(DataMessage::Frame(grant)).unwrap();
        let arrived = receiver.accept(NOW, frame(outputs.next(NOW))).unwrap();
        assert_eq!(arrived, Arrived::Control(cancel));
    }

    #[test]
    fn channels_take_turns_frame_by_frame() {
        let mut outputs = Outputs::new(EPOCH);
        outputs.open(output(0, vec![splits(10), splits(10)]));
        outputs.open(output(1, vec![splits(10), splits(10)]));
        for number in 0..2 {
            let grant = receiver(number).open().unwrap();
            outputs.receive(DataMessage::Frame(grant)).unwrap();
        }
        let opened = [outputs.next(NOW), outputs.next(NOW)];
        assert!(
            opened
                .iter()
                .all(|m| matches!(m, Some(DataMessage::Open(_))))
        );
        let order: Vec<u32> = (0..4).map(|_| frame(outputs.next(NOW)).channel.0).collect();
        assert_eq!(order, [1, 0, 1, 0]);
    }
}
