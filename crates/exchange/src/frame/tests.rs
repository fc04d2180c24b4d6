//! What crosses a connection arrives once, whole and unchanged, or is refused by name.

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
use proptest::prelude::*;

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

/// Proves F97 for queues, credit and frames: the connection is drained always, a blocked channel
/// costs its window and nothing else.
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

#[test]
fn every_flipped_bit_is_detected() {
    let (mut sender, _) = pair(&mixed().schema());
    let frame = frames_of(&mut sender, &Element::Batch(changes())).remove(0);
    for bit in 0..frame.len() * 8 {
        let mut bytes = frame.to_vec();
        bytes[bit / 8] ^= 1 << (bit % 8);
        assert!(Frame::parse(bytes.into()).is_err(), "bit {bit}");
    }
    for length in 0..frame.len() {
        assert!(
            Frame::parse(frame.slice(..length)).is_err(),
            "cut at {length}"
        );
    }
}

#[test]
fn a_frame_of_another_epoch_is_dropped_unread() {
    let (mut sender, mut receiver) = pair(&mixed().schema());
    let frame = frames_of(&mut sender, &Element::Batch(mixed())).remove(0);
    let old = forged(&frame, |bytes| {
        bytes[16] = 2;
        bytes.truncate(HEADER_BYTES + 3);
    });
    assert_eq!(
        accept(&mut receiver, old).unwrap(),
        Arrived::OtherEpoch(Epoch(2))
    );
    assert!(matches!(
        accept(&mut receiver, frame).unwrap(),
        Arrived::Element { .. }
    ));
    let foreign = forged(&receiver.resize(2 * WINDOW).unwrap(), |bytes| bytes[16] = 2);
    assert!(!sender.on_grant(&Frame::parse(foreign).unwrap()).unwrap());
}

/// The faults of a frame and where each is found.
#[test]
fn what_is_not_as_it_should_be_is_refused_by_name_and_place() {
    let refused = |change: &dyn Fn(&mut Vec<u8>)| -> FrameError {
        let (mut sender, mut receiver) = pair(&mixed().schema());
        let frame = frames_of(&mut sender, &Element::Batch(mixed())).remove(0);
        accept(&mut receiver, forged(&frame, change)).unwrap_err()
    };
    type Change = fn(&mut Vec<u8>);
    let cases: [(Change, u64, &str); 11] = [
        (|b| b[8] = 2, 8, "its version is 2, this process speaks 1"),
        (|b| b[9] = 99, 9, "kind 99 is not known here"),
        (|b| b[9] = 18, 9, "kind 18 is not known here"),
        (
            |b| b[10] |= 4,
            10,
            "its header has bits set that mean nothing, or names another channel",
        ),
        (
            |b| b[12] = 8,
            12,
            "its header has bits set that mean nothing, or names another channel",
        ),
        (|b| b[24] = 1, 24, "frame 0 was expected: a gap or a repeat"),
        (
            |b| b[10] = 2,
            10,
            "it does not continue its element: it has no first fragment",
        ),
        (
            |b| b[32] ^= 1,
            32,
            "it does not continue its element: a single frame that is not the whole element",
        ),
        (
            |b| b[41] = 1,
            1,
            "its element cannot be read: a prefix with unknown bits",
        ),
        (
            |b| b[40] = 4,
            0,
            "its element cannot be read: a prefix with unknown flags",
        ),
        (
            |b| b[47] = 1,
            4,
            "its element cannot be read: metadata longer than the element",
        ),
    ];
    for (change, offset, fault) in cases {
        let error = refused(&change);
        assert_eq!(error.fault.to_string(), fault);
        assert_eq!(error.offset, offset, "{fault}");
        assert!(!error.remedy().is_empty());
    }
    let error = refused(&|b| b[36] = 1);
    assert!(matches!(
        error.fault,
        FrameFault::ElementTooLarge {
            limit: ELEMENT_BYTES_MAX,
            ..
        }
    ));
    let error = refused(&|b| b[24] = 1);
    assert_eq!(
        error.to_string(),
        "frame 1 of channel 7 is refused at byte 24"
    );
}

#[test]
fn a_lie_about_the_length_is_refused_before_anything_is_read() {
    let (mut sender, _) = pair(&mixed().schema());
    let frame = frames_of(&mut sender, &Element::Batch(mixed())).remove(0);
    for declared in [0, 39, frame.len() as u32 + 1, u32::MAX] {
        let mut bytes = frame.to_vec();
        bytes[..4].copy_from_slice(&declared.to_le_bytes());
        let error = Frame::parse(bytes.into()).unwrap_err();
        assert!(
            matches!(error.fault, FrameFault::Length { .. }),
            "{error:?}"
        );
    }
    let huge = forged(&frame, |bytes| bytes.resize(FRAME_BYTES_MAX + 1, 0));
    assert!(matches!(
        Frame::parse(huge).unwrap_err().fault,
        FrameFault::Length { .. }
    ));
}

#[test]
fn a_frame_lost_or_sent_twice_is_found() {
    let (mut sender, mut receiver) = pair(&mixed().schema());
    let watermark = |time| Element::Watermark(EventTime(time));
    let [first, _lost, third] = [1, 2, 3].map(|t| frames_of(&mut sender, &watermark(t)).remove(0));
    accept(&mut receiver, first.clone()).unwrap();
    for wrong in [third, first] {
        let fault = accept(&mut receiver, wrong).unwrap_err().fault;
        assert!(
            matches!(fault, FrameFault::Sequence { expected: 1 }),
            "{fault:?}"
        );
    }
}

#[test]
fn fragments_that_do_not_make_up_an_element_are_refused() {
    let cut = |which: usize, change: &dyn Fn(&mut Vec<u8>)| {
        let (mut sender, mut receiver) = pair(&large(0).schema());
        let mut frames = frames_of(&mut sender, &Element::Batch(large(2_500_000)));
        frames[which] = forged(&frames[which], change);
        let results = frames.into_iter().map(|frame| accept(&mut receiver, frame));
        results
            .filter_map(Result::err)
            .next()
            .expect("refused")
            .fault
            .to_string()
    };
    assert!(cut(1, &|b| b[9] = FrameKind::Splits as u8).contains("another kind or size"));
    assert!(cut(1, &|b| b[32] ^= 1).contains("another kind or size"));
    assert!(cut(1, &|b| b[10] = FLAG_FIRST).contains("the element before it is not whole"));
    assert!(cut(1, &|b| b[10] = FLAG_LAST).contains("not the bytes that were left"));
    assert!(cut(2, &|b| b[10] = 0).contains("not the bytes that were left"));
    assert!(cut(2, &|b| b.push(0)).contains("not the bytes that were left"));
    assert!(cut(1, &|b| b.truncate(HEADER_BYTES)).contains("not the bytes that were left"));
    assert!(cut(1, &|b| b[9] = FrameKind::Cancel as u8).contains("control stands in one frame"));
}

#[test]
fn a_sender_without_credit_is_refused() {
    let (mut sender, mut receiver) = pair(&large(0).schema());
    let element = Element::Batch(large(WINDOW as usize));
    accept(&mut receiver, frames_of(&mut sender, &element).remove(0)).unwrap();
    // A sender that grants itself what it lacks.
    let own = forged_grant(1 << 30);
    sender.on_grant(&Frame::parse(own).unwrap()).unwrap();
    let error = accept(&mut receiver, frames_of(&mut sender, &element).remove(0)).unwrap_err();
    assert!(matches!(
        error.fault,
        FrameFault::Credit(CreditViolation::Overrun { .. })
    ));
}

/// The second grant of the channel, as large as its sender likes.
fn forged_grant(bytes: u64) -> Bytes {
    let codec = ElementCodec::new(&large(0).schema(), ELEMENT_BYTES_MAX).unwrap();
    let mut forger = FrameReceiver::new(CHANNEL, EPOCH, codec, 1, ELEMENT_BYTES_MAX);
    let _first = forger.open();
    forger.resize(bytes).unwrap()
}

#[test]
fn what_cannot_be_sent_is_refused_by_the_sender() {
    let dictionary = DataType::Dictionary(Box::new(DataType::Int32), Box::new(DataType::Utf8));
    let nested = DataType::new_list(dictionary, true);
    let schema = Arc::new(Schema::new(vec![Field::new("tags", nested, true)]));
    let error = ElementCodec::new(&schema, ELEMENT_BYTES_MAX)
        .unwrap_err()
        .to_string();
    assert!(
        error.starts_with("column \"tags\" is Dictionary(Int32, Utf8)"),
        "{error}"
    );

    let codec = ElementCodec::new(&large(0).schema(), 1_000).unwrap();
    let mut sender = FrameSender::new(CHANNEL, EPOCH, codec);
    let mut frames = Vec::new();
    let error = sender
        .send(NOW, &Element::Batch(large(5_000)), &mut frames)
        .unwrap_err();
    assert!(matches!(error, EncodeError::TooLarge { limit: 1_000, .. }));
    let error = sender
        .send(NOW, &Element::Batch(mixed()), &mut frames)
        .unwrap_err();
    assert!(matches!(error, EncodeError::OtherSchema));
    assert!(frames.is_empty());
}

proptest! {
    #[test]
    fn random_bytes_never_panic(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        prop_assert!(Frame::parse(bytes.into()).is_err());
    }

    /// Bytes changed by a peer that computes the right checksum: an error or other rows, no panic.
    #[test]
    fn hostile_elements_never_panic(
        changes_at in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..6),
        kind in 1u8..20,
        keep_kind in any::<bool>(),
        cut in prop::option::of(any::<prop::sample::Index>()),
    ) {
        let (mut sender, mut receiver) = pair(&mixed().schema());
        let frame = frames_of(&mut sender, &Element::Batch(changes())).remove(0);
        let forged = forged(&frame, |bytes| {
            if let Some(cut) = cut {
                bytes.truncate(HEADER_BYTES + cut.index(bytes.len() - HEADER_BYTES));
            }
            for (at, value) in &changes_at {
                let length = bytes.len() - HEADER_BYTES;
                if length > 0 {
                    bytes[HEADER_BYTES + at.index(length)] = *value;
                }
            }
            if !keep_kind {
                bytes[9] = kind;
            }
            let total = (bytes.len() - HEADER_BYTES) as u64;
            bytes[32..40].copy_from_slice(&total.to_le_bytes());
        });
        let _ = accept(&mut receiver, forged);
    }
}
