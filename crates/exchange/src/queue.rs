//! The line of one channel: elements in order, with what overtakes beside it.
//!
//! Used whole as a local channel, and as the send and the receive side of a remote one. It never
//! refuses an element: the sender asks [`ChannelQueue::has_room`] first, and may push one element of
//! any size while there is room. Marks cost nothing and are always admitted, so a full channel does
//! not stop a barrier from standing in line.

use std::collections::VecDeque;

use millstream_types::CheckpointId;

use crate::element::{BarrierAnnouncement, Control, Element};

/// What comes out of a channel.
#[derive(Clone, Debug, PartialEq)]
pub enum Popped {
    /// Something that overtook.
    Control(Control),
    /// The head of the line, and what it costs: to be released when it was worked off.
    Element {
        /// The element.
        element: Element,
        /// Bytes that it counted for.
        cost: u64,
    },
}

/// One channel's line.
#[derive(Debug)]
pub struct ChannelQueue {
    line: VecDeque<(Element, u64)>,
    overtaking: VecDeque<Control>,
    limit: u64,
    queued: u64,
    announced: CheckpointId,
}

impl ChannelQueue {
    /// A line in which the sender feels back-pressure from `limit` bytes on.
    pub fn new(limit: u64) -> Self {
        Self {
            line: VecDeque::new(),
            overtaking: VecDeque::new(),
            limit,
            queued: 0,
            announced: CheckpointId(0),
        }
    }

    /// Whether the sender may push another element with a cost.
    pub fn has_room(&self) -> bool {
        self.queued < self.limit
    }

    /// Bytes in line: of slices, not of shared buffers.
    pub fn queued_bytes(&self) -> u64 {
        self.queued
    }

    /// Elements in line.
    pub fn len(&self) -> usize {
        self.line.len()
    }

    /// Whether nothing stands in line and nothing overtook.
    pub fn is_empty(&self) -> bool {
        self.line.is_empty() && self.overtaking.is_empty()
    }

    /// Whether something overtook: it is handled even while the channel is blocked.
    pub fn has_control(&self) -> bool {
        !self.overtaking.is_empty()
    }

    /// Puts an element at the end of the line, with its cost as computed from its slice.
    pub fn push(&mut self, element: Element) {
        let cost = element.cost();
        self.push_with_cost(element, cost);
    }

    /// Puts an element at the end of the line with the cost that its sender paid.
    pub fn push_with_cost(&mut self, element: Element, cost: u64) {
        if let Element::Watermark(newer) = element
            && let Some((Element::Watermark(older), _)) = self.line.back_mut()
        {
            *older = newer.max(*older);
            return;
        }
        if let Element::Barrier(barrier) = element
            && self.queued > 0
        {
            self.push_control(Control::Announce(BarrierAnnouncement { barrier }));
        }
        self.queued += cost;
        self.line.push_back((element, cost));
    }

    /// Lets this overtake the line. A barrier is announced once.
    pub fn push_control(&mut self, control: Control) {
        if let Control::Announce(BarrierAnnouncement { barrier }) = control {
            if barrier.id <= self.announced {
                return;
            }
            self.announced = barrier.id;
        }
        self.overtaking.push_back(control);
    }

    /// The next thing to handle: what overtook first, then the line.
    pub fn pop(&mut self) -> Option<Popped> {
        self.pop_control().map(Popped::Control).or_else(|| {
            let (element, cost) = self.line.pop_front()?;
            self.queued -= cost;
            Some(Popped::Element { element, cost })
        })
    }

    /// Only what overtook: all that is taken from a blocked channel.
    pub fn pop_control(&mut self) -> Option<Control> {
        self.overtaking.pop_front()
    }

    /// The head of the line.
    pub fn peek(&self) -> Option<&Element> {
        self.line.front().map(|(element, _)| element)
    }

    /// Whether the sender can hand over the head of the line now: marks always, others with credit.
    pub fn head_is_free(&self) -> bool {
        self.line.front().is_some_and(|(_, cost)| *cost == 0)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use bytes::Bytes;
    use millstream_types::{Epoch, EventTime, MonoTime};

    use super::*;
    use crate::element::{Barrier, BarrierKind, CancelMarker, ChannelStatus};

    fn data(bytes: usize) -> Element {
        Element::Splits(Bytes::from(vec![0; bytes]))
    }

    fn barrier(id: u64) -> Barrier {
        Barrier {
            id: CheckpointId(id),
            epoch: Epoch(1),
            kind: BarrierKind::Checkpoint,
            age: Duration::ZERO,
            learnt_at: MonoTime::ZERO,
            completed: None,
        }
    }

    fn watermark(time: i64) -> Element {
        Element::Watermark(EventTime(time))
    }

    fn drain(queue: &mut ChannelQueue) -> Vec<Popped> {
        std::iter::from_fn(|| queue.pop()).collect()
    }

    fn free(element: Element) -> Popped {
        Popped::Element { element, cost: 0 }
    }

    #[test]
    fn a_full_line_takes_marks_and_one_element_too_many() {
        let mut queue = ChannelQueue::new(100);
        queue.push(data(99));
        assert!(queue.has_room());
        queue.push(data(1));
        assert!(!queue.has_room(), "full to the byte");
        queue.pop();
        assert!(queue.has_room() && !queue.head_is_free());
        queue.push(data(98));
        queue.push(data(1000));
        assert!(!queue.has_room());
        queue.push(Element::Barrier(barrier(1)));
        queue.push(Element::EndOfPartition);
        assert_eq!((queue.queued_bytes(), queue.len()), (1099, 5));
        queue.pop_control();
        queue.pop();
        queue.pop();
        assert_eq!(queue.peek(), Some(&data(1000)));
        queue.pop();
        assert!(queue.has_room() && queue.head_is_free());
        assert_eq!(queue.peek(), Some(&Element::Barrier(barrier(1))));
    }

    #[test]
    fn a_watermark_replaces_the_one_before_it_and_none_further_ahead() {
        let mut queue = ChannelQueue::new(100);
        for element in [watermark(1), watermark(3), data(1), watermark(4)] {
            queue.push(element);
        }
        queue.push(Element::Status(ChannelStatus::Idle));
        queue.push(watermark(5));
        let expected = [
            free(watermark(3)),
            Popped::Element {
                element: data(1),
                cost: 1,
            },
            free(watermark(4)),
            free(Element::Status(ChannelStatus::Idle)),
            free(watermark(5)),
        ];
        assert_eq!(drain(&mut queue), expected);
    }

    #[test]
    fn cancel_markers_and_announcements_overtake_and_barriers_do_not() {
        let mut queue = ChannelQueue::new(100);
        queue.push(data(1));
        queue.push(Element::Barrier(barrier(7)));
        queue.push_control(Control::Announce(BarrierAnnouncement {
            barrier: barrier(7),
        }));
        let cancel = Control::Cancel(CancelMarker {
            id: CheckpointId(7),
        });
        queue.push_control(cancel);
        let expected = [
            Popped::Control(Control::Announce(BarrierAnnouncement {
                barrier: barrier(7),
            })),
            Popped::Control(cancel),
            Popped::Element {
                element: data(1),
                cost: 1,
            },
            free(Element::Barrier(barrier(7))),
        ];
        assert_eq!(drain(&mut queue), expected);
    }

    #[test]
    fn a_barrier_at_the_head_of_the_line_is_not_announced() {
        let mut queue = ChannelQueue::new(100);
        queue.push(Element::Barrier(barrier(1)));
        assert_eq!(drain(&mut queue), [free(Element::Barrier(barrier(1)))]);
    }
    #[test]
    fn an_announcement_is_made_once_and_never_after_a_newer_one() {
        let mut queue = ChannelQueue::new(100);
        let announce = |id| {
            let barrier = barrier(id);
            Control::Announce(BarrierAnnouncement { barrier })
        };
        for id in [2, 1, 2, 3] {
            queue.push_control(announce(id));
        }
        assert!(queue.has_control() && !queue.is_empty());
        let told: Vec<_> = std::iter::from_fn(|| queue.pop_control()).collect();
        assert_eq!(told, [announce(2), announce(3)]);
        assert!(!queue.has_control() && queue.is_empty());
        queue.push(data(0));
        assert!(!queue.has_control() && !queue.is_empty());
    }
}
