//! What crosses a connection arrives once, whole and unchanged, or is refused by name.

mod hostile;
mod layout;

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use arrow::array::{
    ArrayRef, BinaryArray, BooleanArray, Decimal128Array, FixedSizeBinaryArray, Int64Array,
    ListArray, NullArray, RecordBatch, RecordBatchOptions, StringArray, StringViewArray,
    StructArray,
};
use arrow::datatypes::{DataType, Field, Int32Type, Schema, SchemaRef};
use millstream_batch::Batch;
use millstream_types::{CheckpointId, EventTime, MonoTime};

use super::*;
use crate::element::{
    Barrier, BarrierAnnouncement, BarrierKind, CancelMarker, ChannelStatus, Control, Element,
};
use crate::queue::{ChannelQueue, Popped};

const CHANNEL: ChannelId = ChannelId(7);
const EPOCH: Epoch = Epoch(3);
const WINDOW: u64 = 256 * 1024;
const NOW: MonoTime = MonoTime::from_millis(1_000);

/// Rows of every layout that is sent, with NULLs.
fn mixed() -> Batch {
    let names = StringArray::from(vec![Some("a"), None, Some("ü"), Some("")]);
    let lists = ListArray::from_iter_primitive::<Int32Type, _, _>([
        Some(vec![Some(1), None]),
        None,
        Some(vec![]),
        Some(vec![Some(2)]),
    ]);
    let inner: ArrayRef = Arc::new(Int64Array::from(vec![Some(1), None, Some(3), Some(4)]));
    let structs = StructArray::from(vec![(
        Arc::new(Field::new("x", DataType::Int64, true)),
        inner,
    )]);
    let views = StringViewArray::from(vec![
        "short",
        "longer than twelve bytes",
        "",
        "another long one",
    ]);
    let fixed = FixedSizeBinaryArray::try_from_iter([b"ab", b"cd", b"ef", b"gh"].into_iter());
    let columns: [(&str, ArrayRef); 9] = [
        ("name", Arc::new(names)),
        ("list", Arc::new(lists)),
        ("struct", Arc::new(structs)),
        ("view", Arc::new(views)),
        ("fixed", Arc::new(fixed.unwrap())),
        (
            "flag",
            Arc::new(BooleanArray::from(vec![
                Some(true),
                None,
                Some(false),
                Some(true),
            ])),
        ),
        (
            "money",
            Arc::new(Decimal128Array::from(vec![1, -2, 3, i128::MAX / 1000])),
        ),
        (
            "bytes",
            Arc::new(BinaryArray::from(vec![b"\xff".as_ref(), b"", b"x", b"yz"])),
        ),
        ("nothing", Arc::new(NullArray::new(4))),
    ];
    let columns = columns.map(|(name, column)| (name, column, true));
    Batch::new(RecordBatch::try_from_iter_with_nullable(columns).unwrap())
}

fn changes() -> Batch {
    let times = Int64Array::from(vec![1, 2, i64::MIN, i64::MAX]);
    mixed()
        .with_event_times(times)
        .unwrap()
        .with_kinds(vec![0, 1, 2, 3].into())
        .unwrap()
}

/// A record of so many bytes.
fn large(bytes: usize) -> Batch {
    let column: ArrayRef = Arc::new(BinaryArray::from(vec![vec![b'x'; bytes].as_slice()]));
    Batch::new(RecordBatch::try_from_iter([("b", column)]).unwrap())
}

fn barrier() -> Barrier {
    Barrier {
        id: CheckpointId(9),
        epoch: EPOCH,
        kind: BarrierKind::StopWithSavepoint { drain: true },
        age: Duration::from_millis(40),
        learnt_at: NOW,
        completed: Some(CheckpointId(8)),
    }
}

fn pair(schema: &SchemaRef) -> (FrameSender, FrameReceiver) {
    let codec = ElementCodec::new(schema, ELEMENT_BYTES_MAX).unwrap();
    let mut sender = FrameSender::new(CHANNEL, EPOCH, codec.clone());
    let mut receiver = FrameReceiver::new(CHANNEL, EPOCH, codec, WINDOW, ELEMENT_BYTES_MAX);
    let opening = receiver.open().unwrap();
    assert!(sender.on_grant(&Frame::parse(opening).unwrap()).unwrap());
    (sender, receiver)
}

fn frames_of(sender: &mut FrameSender, element: &Element) -> Vec<Bytes> {
    let mut frames = Vec::new();
    sender.send(NOW, element, &mut frames).unwrap();
    frames
}

fn accept(receiver: &mut FrameReceiver, frame: Bytes) -> Result<Arrived, FrameError> {
    receiver.accept(NOW, Frame::parse(frame)?)
}

/// The same frame with bytes changed and a checksum that fits: what a hostile peer would send.
fn forged(frame: &[u8], change: impl FnOnce(&mut Vec<u8>)) -> Bytes {
    let mut bytes = frame.to_vec();
    change(&mut bytes);
    let length = (bytes.len() as u32).to_le_bytes();
    bytes[..4].copy_from_slice(&length);
    let sum = checksum(&bytes).to_le_bytes();
    bytes[4..8].copy_from_slice(&sum);
    bytes.into()
}

#[test]
fn every_element_arrives_as_it_was_sent() {
    let schema = mixed().schema();
    let (mut sender, mut receiver) = pair(&schema);
    let elements = [
        Element::Batch(mixed()),
        Element::Batch(mixed().with_event_times(vec![1, 2, 3, 4].into()).unwrap()),
        Element::Batch(mixed().with_kinds(vec![0, 0, 1, 2].into()).unwrap()),
        Element::Batch(changes()),
        Element::Batch(changes().slice(1, 2)),
        Element::Batch(Batch::empty(schema)),
        Element::Watermark(EventTime::MAX),
        Element::Status(ChannelStatus::Idle),
        Element::Status(ChannelStatus::Active),
        Element::Barrier(barrier()),
        Element::EndOfData { drain: true },
        Element::EndOfData { drain: false },
        Element::Splits(Bytes::from_static(b"splits")),
        Element::EndOfPartition,
    ];
    for sent in elements {
        let frames = frames_of(&mut sender, &sent);
        assert_eq!(frames.len(), 1);
        let arrived = accept(&mut receiver, frames[0].clone()).unwrap();
        let Arrived::Element { element, cost } = arrived else {
            panic!("{arrived:?}")
        };
        assert_eq!(element, sent);
        assert_eq!(
            cost > 0,
            matches!(sent, Element::Batch(_) | Element::Splits(_))
        );
    }
}

#[test]
fn control_arrives_as_it_was_sent() {
    let (mut sender, mut receiver) = pair(&mixed().schema());
    let cancel = Control::Cancel(CancelMarker {
        id: CheckpointId(4),
    });
    let announcement = Control::Announce(BarrierAnnouncement { barrier: barrier() });
    for control in [cancel, announcement] {
        let mut frames = Vec::new();
        sender.send_control(NOW, control, &mut frames);
        assert_eq!(
            accept(&mut receiver, frames.remove(0)).unwrap(),
            Arrived::Control(control)
        );
    }
}

#[test]
fn a_barrier_grows_older_in_the_senders_line() {
    let (mut sender, mut receiver) = pair(&mixed().schema());
    let mut frames = Vec::new();
    let later = NOW + Duration::from_millis(60);
    sender
        .send(later, &Element::Barrier(barrier()), &mut frames)
        .unwrap();
    let arrived = accept(&mut receiver, frames.remove(0)).unwrap();
    let Arrived::Element {
        element: Element::Barrier(barrier),
        ..
    } = arrived
    else {
        panic!("{arrived:?}")
    };
    assert_eq!(
        (barrier.age, barrier.learnt_at),
        (Duration::from_millis(100), NOW)
    );
}

#[test]
fn rows_without_columns_are_counted() {
    let schema = Arc::new(Schema::empty());
    let options = RecordBatchOptions::new().with_row_count(Some(5));
    let records = RecordBatch::try_new_with_options(schema.clone(), vec![], &options).unwrap();
    let (mut sender, mut receiver) = pair(&schema);
    let sent = Element::Batch(Batch::new(records));
    let arrived = accept(&mut receiver, frames_of(&mut sender, &sent).remove(0)).unwrap();
    assert!(matches!(arrived, Arrived::Element { element, .. } if element == sent));
}

/// Proves HND-073 for frames and credit together.
#[test]
fn a_record_of_ten_megabytes_passes_in_frames_of_one_mebibyte() {
    let record = Element::Batch(large(10_000_000));
    let (mut sender, mut receiver) = pair(&large(0).schema());
    for _ in 0..3 {
        assert!(sender.can_send());
        let frames = frames_of(&mut sender, &record);
        assert_eq!(frames.len(), 10);
        assert!(frames.iter().all(|frame| frame.len() <= FRAME_BYTES_MAX));
        assert!(!sender.can_send());
        let mut arrived: Vec<Arrived> = frames
            .into_iter()
            .map(|frame| accept(&mut receiver, frame).unwrap())
            .collect();
        let Some(Arrived::Element { element, cost }) = arrived.pop() else {
            panic!("whole")
        };
        assert_eq!(element, record);
        assert!(arrived.iter().all(|part| *part == Arrived::Part));
        let grant = receiver.consumed(cost).unwrap();
        sender.on_grant(&Frame::parse(grant).unwrap()).unwrap();
    }
}

/// F97 without a network: the connection is drained always, a blocked channel costs its window and
/// nothing else.
#[test]
fn a_blocked_channel_with_ten_windows_of_data_does_not_stop_anothers_barrier() {
    let schema = large(0).schema();
    let codec = ElementCodec::new(&schema, ELEMENT_BYTES_MAX).unwrap();
    let mut senders = [0, 1].map(|id| FrameSender::new(ChannelId(id), EPOCH, codec.clone()));
    let mut receivers = [0, 1].map(|id| {
        FrameReceiver::new(
            ChannelId(id),
            EPOCH,
            codec.clone(),
            WINDOW,
            ELEMENT_BYTES_MAX,
        )
    });
    for (sender, receiver) in senders.iter_mut().zip(&mut receivers) {
        let opening = receiver.open().unwrap();
        sender.on_grant(&Frame::parse(opening).unwrap()).unwrap();
    }
    let mut lines = [ChannelQueue::new(u64::MAX), ChannelQueue::new(u64::MAX)];
    let piece = WINDOW as usize / 8;
    (0..80).for_each(|_| lines[0].push(Element::Batch(large(piece))));
    lines[1].push(Element::Batch(large(piece)));
    lines[1].push(Element::Barrier(barrier()));

    let mut connection: VecDeque<Bytes> = VecDeque::new();
    for (line, sender) in lines.iter_mut().zip(&mut senders) {
        while line.has_control() || line.head_is_free() || (sender.can_send() && !line.is_empty()) {
            let mut frames = Vec::new();
            match line.pop() {
                Some(Popped::Element { element, .. }) => {
                    sender.send(NOW, &element, &mut frames).unwrap();
                }
                Some(Popped::Control(control)) => sender.send_control(NOW, control, &mut frames),
                None => {}
            }
            connection.extend(frames);
        }
    }
    let mut arrived = [Vec::new(), Vec::new()];
    for frame in connection {
        let frame = Frame::parse(frame).unwrap();
        let channel = frame.channel.0 as usize;
        arrived[channel].push(receivers[channel].accept(NOW, frame).unwrap());
    }
    // Nobody takes from channel 0: it holds its window and one element, the rest is still in line.
    assert!(receivers[0].held_bytes() < WINDOW + 2 * piece as u64);
    assert!(lines[0].len() > 70);
    let barrier = Arrived::Element {
        element: Element::Barrier(barrier()),
        cost: 0,
    };
    assert_eq!(arrived[1].last(), Some(&barrier));
    assert!(matches!(
        arrived[1][0],
        Arrived::Control(Control::Announce(_))
    ));
}
