//! A channel between two tasks: a queue in order, with back-pressure in bytes, and a way back for
//! what the consumer tells the producer.
//!
//! Both ends of a local channel are tasks. Of a channel to another process one end is a task and
//! the other is the data connection, which moves elements under credit (DESIGN 3).

use std::sync::Arc;

use millstream_exchange::queue::{ChannelQueue, Popped};
use millstream_exchange::{Control, Element, Feedback};
use parking_lot::Mutex;

use crate::signal::Signal;

/// Told when bytes taken from a channel have been worked off, so that credit can be given back.
pub trait ReleaseCredit: Send + Sync {
    /// `bytes` of the channel's window are free again.
    fn release(&self, bytes: u64);
}

struct State {
    queue: ChannelQueue,
    feedback: Feedback,
    has_feedback: bool,
    /// The consumer is gone: what is sent is dropped.
    is_abandoned: bool,
}

struct Shared {
    state: Mutex<State>,
    consumer: Signal,
    producer: Signal,
}

/// A channel of this many bytes. `producer` and `consumer` are rung when there is something to do
/// for them.
pub fn channel(limit_bytes: u64, producer: Signal, consumer: Signal) -> (SenderEnd, ReceiverEnd) {
    let state = State {
        queue: ChannelQueue::new(limit_bytes),
        feedback: Feedback::default(),
        has_feedback: false,
        is_abandoned: false,
    };
    let shared = Arc::new(Shared {
        state: Mutex::new(state),
        consumer,
        producer,
    });
    let receiver = ReceiverEnd {
        shared: Arc::clone(&shared),
        credit: None,
    };
    (SenderEnd { shared }, receiver)
}

/// The producer's end.
pub struct SenderEnd {
    shared: Arc<Shared>,
}

impl SenderEnd {
    /// Whether the next element may be sent. One may always be, also beyond the limit: it goes
    /// into debt.
    pub fn has_room(&self) -> bool {
        let state = self.shared.state.lock();
        state.is_abandoned || state.queue.has_room()
    }

    /// Puts an element in line.
    pub fn push(&self, element: Element) {
        let mut state = self.shared.state.lock();
        if !state.is_abandoned {
            state.queue.push(element);
            drop(state);
            self.shared.consumer.ring();
        }
    }

    /// Sends something that overtakes the line.
    pub fn push_control(&self, control: Control) {
        let mut state = self.shared.state.lock();
        if !state.is_abandoned {
            state.queue.push_control(control);
            drop(state);
            self.shared.consumer.ring();
        }
    }

    /// Whether the consumer, or the connection to it, has taken everything that was put in line.
    pub fn is_taken(&self) -> bool {
        let state = self.shared.state.lock();
        state.is_abandoned || state.queue.peek().is_none()
    }

    /// What the consumer said since the last call.
    pub fn take_feedback(&self) -> Option<Feedback> {
        let mut state = self.shared.state.lock();
        std::mem::take(&mut state.has_feedback).then_some(state.feedback)
    }
}

/// The consumer's end.
pub struct ReceiverEnd {
    shared: Arc<Shared>,
    credit: Option<Box<dyn ReleaseCredit>>,
}

impl ReceiverEnd {
    /// The same channel; `credit` is told what was worked off.
    #[must_use]
    pub fn with_credit(mut self, credit: Box<dyn ReleaseCredit>) -> Self {
        self.credit = Some(credit);
        self
    }

    /// What overtook the line, if anything did.
    pub fn pop_control(&self) -> Option<Control> {
        self.shared.state.lock().queue.pop_control()
    }

    /// The next element, and what it costs: to be given to [`ReceiverEnd::release`] when it has
    /// been worked off.
    pub fn pop(&self) -> Option<Popped> {
        let mut state = self.shared.state.lock();
        let popped = state.queue.pop();
        let has_room = state.queue.has_room();
        drop(state);
        if popped.is_some() && has_room {
            self.shared.producer.ring();
        }
        popped
    }

    /// An element of this cost has been worked off.
    pub fn release(&self, cost: u64) {
        if let Some(credit) = &self.credit
            && cost > 0
        {
            credit.release(cost);
        }
    }

    /// Tells the producer something; what it has not seen yet is replaced.
    pub fn send_feedback(&self, feedback: Feedback) {
        let mut state = self.shared.state.lock();
        state.feedback = feedback;
        state.has_feedback = true;
        drop(state);
        self.shared.producer.ring();
    }

    /// Bytes in line.
    pub fn queued_bytes(&self) -> u64 {
        self.shared.state.lock().queue.queued_bytes()
    }
}

impl Drop for ReceiverEnd {
    fn drop(&mut self) {
        self.shared.state.lock().is_abandoned = true;
        self.shared.producer.ring();
    }
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;

    use super::*;

    fn splits(bytes: usize) -> Element {
        Element::Splits(Bytes::from(vec![0; bytes]))
    }

    #[test]
    fn a_full_channel_has_room_again_when_its_consumer_took_an_element() {
        let (sender, receiver) = channel(10, Signal::new(), Signal::new());
        sender.push(splits(100));
        assert!(
            !sender.has_room(),
            "one element goes into debt, a second has to wait"
        );
        assert!(matches!(
            receiver.pop(),
            Some(Popped::Element { cost: 100, .. })
        ));
        assert!(sender.has_room());
    }

    #[test]
    fn a_channel_without_a_consumer_never_blocks_its_producer() {
        let (sender, receiver) = channel(10, Signal::new(), Signal::new());
        sender.push(splits(100));
        drop(receiver);
        assert!(sender.has_room());
    }

    #[test]
    fn feedback_goes_back_once_and_only_the_newest() {
        let (sender, receiver) = channel(10, Signal::new(), Signal::new());
        assert_eq!(sender.take_feedback(), None);
        for finished in [1, 2] {
            receiver.send_feedback(Feedback {
                opened: Some((None, 0)),
                finished,
            });
        }
        assert_eq!(
            sender.take_feedback().map(|feedback| feedback.finished),
            Some(2)
        );
        assert_eq!(sender.take_feedback(), None);
    }
}
