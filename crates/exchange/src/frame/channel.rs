//! The two ends of a remote channel: elements to frames and back, with sequence and credit.

use bytes::{BufMut, Bytes, BytesMut};
use millstream_types::{Epoch, MonoTime};

use super::payload::{ElementCodec, EncodeError, Encoded};
use super::{
    ChannelId, FLAG_FIRST, FLAG_LAST, FRAME_BYTES_MAX, Frame, FrameError, FrameFault, FrameKind,
    HEADER_BYTES, VERSION, checksum,
};
use crate::credit::{CreditViolation, ReceiverCredit, SenderCredit};
use crate::element::{Control, Element};

/// Numbers the frames of one direction of a channel.
#[derive(Debug)]
struct Numbering {
    channel: ChannelId,
    epoch: Epoch,
    next: u64,
}

impl Numbering {
    /// Cuts an element into frames.
    fn write(&mut self, encoded: &Encoded, frames: &mut Vec<Bytes>) {
        let (head, body) = (encoded.head.as_slice(), encoded.body.as_slice());
        let total = encoded.len();
        let mut from = 0;
        loop {
            let to = total.min(from + (FRAME_BYTES_MAX - HEADER_BYTES));
            let mut flags = if from == 0 { FLAG_FIRST } else { 0 };
            flags |= if to == total { FLAG_LAST } else { 0 };
            let mut frame = BytesMut::with_capacity(HEADER_BYTES + to - from);
            frame.put_u32_le((HEADER_BYTES + to - from) as u32);
            frame.put_u32_le(0);
            frame.put_slice(&[VERSION, encoded.kind as u8, flags, 0]);
            frame.put_u32_le(self.channel.0);
            frame.put_u64_le(self.epoch.0);
            frame.put_u64_le(self.next);
            frame.put_u64_le(total as u64);
            frame.put_slice(&head[from.min(head.len())..to.min(head.len())]);
            let in_body = |at: usize| at.saturating_sub(head.len());
            frame.put_slice(&body[in_body(from)..in_body(to)]);
            let sum = checksum(&frame);
            frame[4..8].copy_from_slice(&sum.to_le_bytes());
            frames.push(frame.freeze());
            self.next += 1;
            if to == total {
                return;
            }
            from = to;
        }
    }
}

/// The sending end.
#[derive(Debug)]
pub struct FrameSender {
    codec: ElementCodec,
    numbering: Numbering,
    grants_expected: u64,
    credit: SenderCredit,
}

impl FrameSender {
    /// The sending end of a channel just connected: without credit.
    pub fn new(channel: ChannelId, epoch: Epoch, codec: ElementCodec) -> Self {
        let numbering = Numbering {
            channel,
            epoch,
            next: 0,
        };
        Self {
            codec,
            numbering,
            grants_expected: 0,
            credit: SenderCredit::new(),
        }
    }

    /// Whether an element with a cost may go now; marks and control always may.
    pub fn can_send(&self) -> bool {
        self.credit.can_send()
    }

    /// Adds the element's frames to `frames` and pays for it.
    ///
    /// # Panics
    /// If it has a cost and there is no credit: the caller asks [`Self::can_send`] first.
    pub fn send(
        &mut self,
        now: MonoTime,
        element: &Element,
        frames: &mut Vec<Bytes>,
    ) -> Result<(), EncodeError> {
        let encoded = self.codec.encode(now, element)?;
        if encoded.kind.costs_credit() {
            self.credit.spend(encoded.len() as u64);
        }
        self.numbering.write(&encoded, frames);
        Ok(())
    }

    /// Adds the frame of something that overtakes.
    pub fn send_control(&mut self, now: MonoTime, control: Control, frames: &mut Vec<Bytes>) {
        self.numbering
            .write(&ElementCodec::encode_control(now, control), frames);
    }

    /// Takes the receiver's grant. False if the frame belongs to another epoch and was dropped.
    pub fn on_grant(&mut self, frame: &Frame) -> Result<bool, FrameError> {
        if frame.epoch != self.numbering.epoch {
            return Ok(false);
        }
        check_place(frame, self.numbering.channel, &mut self.grants_expected)?;
        if frame.kind != FrameKind::Credit {
            return Err(frame.error(
                9,
                FrameFault::UnknownKind {
                    found: frame.kind as u8,
                },
            ));
        }
        let bytes: [u8; 8] = (*frame.fragment)
            .try_into()
            .map_err(|_| frame.error(0, FrameFault::Content("a grant has eight bytes")))?;
        let granted = self.credit.on_grant(u64::from_le_bytes(bytes));
        granted.map_err(|violation| frame.error(0, FrameFault::Credit(violation)))?;
        Ok(true)
    }
}

/// What a frame brought.
#[derive(Clone, Debug, PartialEq)]
pub enum Arrived {
    /// The last fragment of an element: it goes to the end of the line.
    Element {
        /// The element.
        element: Element,
        /// Bytes to give back with [`FrameReceiver::consumed`] when it was worked off.
        cost: u64,
    },
    /// Something that overtakes the line.
    Control(Control),
    /// A fragment that is not the last.
    Part,
    /// A frame of another epoch, dropped unread.
    OtherEpoch(Epoch),
}

/// The receiving end.
#[derive(Debug)]
pub struct FrameReceiver {
    codec: ElementCodec,
    channel: ChannelId,
    epoch: Epoch,
    expected: u64,
    element_bytes_max: u64,
    credit: ReceiverCredit,
    grants: Numbering,
    partial: Option<Partial>,
}

/// An element of which fragments are still to come.
#[derive(Debug)]
struct Partial {
    kind: FrameKind,
    total: u64,
    bytes: BytesMut,
}

impl FrameReceiver {
    /// The receiving end of a channel just connected, which will hold `window` bytes and one element
    /// of at most `element_bytes_max`.
    pub fn new(
        channel: ChannelId,
        epoch: Epoch,
        codec: ElementCodec,
        window: u64,
        element_bytes_max: u64,
    ) -> Self {
        Self {
            codec,
            channel,
            epoch,
            expected: 0,
            element_bytes_max,
            credit: ReceiverCredit::new(window),
            grants: Numbering {
                channel,
                epoch,
                next: 0,
            },
            partial: None,
        }
    }

    /// The grant that opens the channel, to be sent back.
    pub fn open(&mut self) -> Option<Bytes> {
        let granted = self.credit.open();
        self.grant(granted)
    }

    /// The subtask worked this many bytes off. Returns the grant to be sent back, if one is due.
    pub fn consumed(&mut self, bytes: u64) -> Option<Bytes> {
        let granted = self.credit.on_consume(bytes);
        self.grant(granted)
    }

    /// Another window. Returns the grant to be sent back, if one is due.
    pub fn resize(&mut self, window: u64) -> Option<Bytes> {
        let granted = self.credit.resize(window);
        self.grant(granted)
    }

    /// Bytes received and not yet consumed.
    pub fn held_bytes(&self) -> u64 {
        self.credit.held()
    }

    /// Takes the next frame of the channel.
    pub fn accept(&mut self, now: MonoTime, frame: Frame) -> Result<Arrived, FrameError> {
        if frame.epoch != self.epoch {
            return Ok(Arrived::OtherEpoch(frame.epoch));
        }
        check_place(&frame, self.channel, &mut self.expected)?;
        match (frame.kind, frame.first && frame.last) {
            (FrameKind::Credit, _) => Err(frame.error(
                9,
                FrameFault::UnknownKind {
                    found: frame.kind as u8,
                },
            )),
            (FrameKind::Cancel | FrameKind::Announce, true) => {
                self.check_total(&frame, frame.fragment.len())?;
                let control = ElementCodec::decode_control(now, frame.kind, &frame.fragment);
                control
                    .map(Arrived::Control)
                    .map_err(|(at, fault)| frame.error(at, fault))
            }
            (FrameKind::Cancel | FrameKind::Announce, false) => {
                Err(frame.error(10, FrameFault::Fragment("control stands in one frame")))
            }
            (_, whole) => self.accept_fragment(now, frame, whole),
        }
    }

    fn accept_fragment(
        &mut self,
        now: MonoTime,
        frame: Frame,
        whole: bool,
    ) -> Result<Arrived, FrameError> {
        if frame.first {
            self.begin(&frame)?;
            if whole {
                self.check_total(&frame, frame.fragment.len())?;
                return self.decode(now, &frame, frame.fragment.clone());
            }
            let bytes = BytesMut::with_capacity(frame.element_bytes as usize);
            self.partial = Some(Partial {
                kind: frame.kind,
                total: frame.element_bytes,
                bytes,
            });
        }
        let Some(partial) = &mut self.partial else {
            return Err(frame.error(10, FrameFault::Fragment("it has no first fragment")));
        };
        if partial.kind != frame.kind || partial.total != frame.element_bytes {
            return Err(frame.error(
                9,
                FrameFault::Fragment("another kind or size than the first"),
            ));
        }
        let left = partial.total - partial.bytes.len() as u64;
        let length = frame.fragment.len() as u64;
        if length > left || (length == left) != frame.last || length == 0 {
            let offset = partial.bytes.len() as u64;
            return Err(frame.error(offset, FrameFault::Fragment("not the bytes that were left")));
        }
        partial.bytes.put_slice(&frame.fragment);
        if !frame.last {
            return Ok(Arrived::Part);
        }
        let bytes = self
            .partial
            .take()
            .map(|partial| partial.bytes.freeze())
            .unwrap_or_default();
        self.decode(now, &frame, bytes)
    }

    /// Checks what the first fragment declares, before anything is allocated.
    fn begin(&mut self, frame: &Frame) -> Result<(), FrameError> {
        if self.partial.is_some() {
            return Err(frame.error(
                10,
                FrameFault::Fragment("the element before it is not whole"),
            ));
        }
        let (declared, limit) = (frame.element_bytes, self.element_bytes_max);
        if declared > limit {
            return Err(frame.error(32, FrameFault::ElementTooLarge { declared, limit }));
        }
        if frame.kind.costs_credit() {
            let paid: Result<(), CreditViolation> = self.credit.on_receive(declared);
            paid.map_err(|violation| frame.error(32, FrameFault::Credit(violation)))?;
        }
        Ok(())
    }

    fn check_total(&self, frame: &Frame, found: usize) -> Result<(), FrameError> {
        if frame.element_bytes == found as u64 {
            return Ok(());
        }
        Err(frame.error(
            32,
            FrameFault::Fragment("a single frame that is not the whole element"),
        ))
    }

    fn decode(&self, now: MonoTime, frame: &Frame, bytes: Bytes) -> Result<Arrived, FrameError> {
        let cost = if frame.kind.costs_credit() {
            bytes.len() as u64
        } else {
            0
        };
        let element = self.codec.decode(now, frame.kind, bytes);
        let element = element.map_err(|(at, fault)| frame.error(at, fault))?;
        Ok(Arrived::Element { element, cost })
    }

    fn grant(&mut self, bytes: u64) -> Option<Bytes> {
        let mut frames = Vec::new();
        if bytes > 0 {
            self.grants
                .write(&ElementCodec::encode_grant(bytes), &mut frames);
        }
        frames.pop()
    }
}

fn check_place(frame: &Frame, channel: ChannelId, expected: &mut u64) -> Result<(), FrameError> {
    if frame.channel != channel {
        return Err(frame.error(12, FrameFault::Header));
    }
    if frame.sequence != *expected {
        return Err(frame.error(
            24,
            FrameFault::Sequence {
                expected: *expected,
            },
        ));
    }
    *expected += 1;
    Ok(())
}
