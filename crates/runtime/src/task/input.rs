//! What comes out of a task's input channels.

use millstream_coordination::failure::{FailureInfo, FailureKind};
use millstream_exchange::align::AlignEvent;
use millstream_exchange::watermark::{ValveAction, ValveEvent};
use millstream_exchange::{ChannelIndex, Control, Element};
use millstream_operator::Event;
use millstream_telemetry::catalog;
use millstream_types::MonoTime;

use super::{Current, From, Head, Task};
use crate::gate::Incoming;
use crate::log;

impl Task {
    pub(super) fn on_incoming(
        &mut self,
        now: MonoTime,
        channel: ChannelIndex,
        incoming: Incoming,
    ) -> Result<(), FailureInfo> {
        match incoming {
            Incoming::Control(Control::Cancel(marker)) => {
                self.align(
                    now,
                    AlignEvent::Cancel {
                        channel,
                        id: marker.id,
                    },
                );
                Ok(())
            }
            // Aligned checkpoints wait for the barrier itself.
            Incoming::Control(Control::Announce(_)) => Ok(()),
            Incoming::Element { element, cost } => self.on_element(now, channel, element, cost),
        }
    }

    fn on_element(
        &mut self,
        now: MonoTime,
        channel: ChannelIndex,
        element: Element,
        cost: u64,
    ) -> Result<(), FailureInfo> {
        match element {
            Element::Batch(batch) => {
                self.alignment.count_consumed(cost);
                self.counters.took_in(batch.num_rows(), cost);
                let input = self.gate.input_of(channel);
                let from = From::Channel {
                    channel,
                    input,
                    cost,
                };
                self.current = Some(Current {
                    batch,
                    offset: 0,
                    from,
                });
                Ok(())
            }
            Element::Watermark(watermark) => {
                self.on_valve(now, ValveEvent::Watermark(channel, watermark))
            }
            Element::Status(status) => self.on_valve(now, ValveEvent::Status(channel, status)),
            Element::Barrier(barrier) => {
                log::detail(barrier.id, || {
                    catalog::barrier_received(barrier.id, channel)
                });
                self.align(now, AlignEvent::Barrier { channel, barrier });
                Ok(())
            }
            Element::EndOfData { drain } => {
                self.ended[channel.0 as usize] = Some(drain);
                self.on_end_of_data();
                Ok(())
            }
            Element::EndOfPartition => {
                self.gate.end(channel);
                self.align(now, AlignEvent::EndOfPartition { channel });
                self.on_valve(now, ValveEvent::EndOfPartition(channel))
            }
            Element::Splits(splits) => {
                self.gate.release(channel, cost);
                self.on_splits(&splits)
            }
        }
    }

    fn on_valve(&mut self, now: MonoTime, event: ValveEvent) -> Result<(), FailureInfo> {
        let mut actions = Vec::new();
        self.valve.step(event, &mut actions);
        for action in actions {
            match action {
                ValveAction::Advance(watermark) => {
                    self.counters.set_watermark(watermark);
                    self.chain.push_event(Event::Watermark(watermark));
                    self.chain.run(now, &mut self.outputs, false)?;
                }
                ValveAction::Status(status) => self.outputs.status(status)?,
            }
        }
        Ok(())
    }

    /// All inputs are at the end of their data: so is this task.
    fn on_end_of_data(&mut self) {
        if self.ended.iter().any(Option::is_none) {
            return;
        }
        let drain = self.ended.iter().all(|drain| *drain == Some(true));
        match &mut self.head {
            Head::Operator => self.begin_finish(drain),
            // A reader goes on until its splits are read.
            Head::Reader(reader) => reader.no_more_splits(),
            Head::Enumerator(_) => {}
        }
    }

    fn on_splits(&mut self, splits: &bytes::Bytes) -> Result<(), FailureInfo> {
        match &mut self.head {
            Head::Reader(reader) => reader.add(splits),
            Head::Operator | Head::Enumerator(_) => Err(FailureInfo::new(
                FailureKind::Internal,
                "splits came to a task that reads none",
            )),
        }
    }
}
