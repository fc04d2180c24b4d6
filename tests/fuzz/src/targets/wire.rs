//! What comes over connections: graphs and frames.

use std::sync::Arc;
use std::time::Duration;

use arrow::array::{ArrayRef, Int64Array, ListArray, RecordBatch, StringArray, StringViewArray};
use arrow::datatypes::Int32Type;
use bytes::{Bytes, BytesMut};
use millstream_batch::Batch;
use millstream_exchange::frame::{
    Arrived, ChannelId, ElementCodec, Frame, FrameReceiver, FrameSender,
};
use millstream_exchange::{Barrier, BarrierKind, ChannelStatus, Element};
use millstream_rpc::{decode_graph, encode_graph};
use millstream_types::{CheckpointId, Epoch, EventTime, MonoTime};

const CHANNEL: ChannelId = ChannelId(7);
const EPOCH: Epoch = Epoch(3);
const NOW: MonoTime = MonoTime::from_millis(1_000);
const WINDOW: u64 = 64 << 10;
const ELEMENT_BYTES_MAX: u64 = 1 << 20;
/// Length and checksum come first, the checksum being that of all but itself.
const CHECKSUM_AT: usize = 4;
const HEADER_BYTES: usize = 40;

pub(super) fn graph(data: &[u8]) {
    match decode_graph(data) {
        Ok(graph) => {
            let _ = graph.validate();
            // Two spellings of one graph may come in; one goes out.
            if let Ok(bytes) = encode_graph(&graph) {
                let again = decode_graph(&bytes).expect("what was written is read");
                assert_eq!(encode_graph(&again).expect("as before"), bytes);
            }
        }
        Err(error) => assert!(!error.to_string().is_empty()),
    }
}

fn rows() -> Batch {
    let lists = ListArray::from_iter_primitive::<Int32Type, _, _>([
        Some(vec![Some(1), None]),
        None,
        Some(vec![]),
    ]);
    let columns: [(&str, ArrayRef); 4] = [
        (
            "n",
            Arc::new(Int64Array::from(vec![Some(1), None, Some(i64::MIN)])),
        ),
        (
            "s",
            Arc::new(StringArray::from(vec![Some("a"), None, Some("ü")])),
        ),
        (
            "v",
            Arc::new(StringViewArray::from(vec![
                "short",
                "longer than twelve",
                "",
            ])),
        ),
        ("l", Arc::new(lists)),
    ];
    let records =
        RecordBatch::try_from_iter_with_nullable(columns.map(|(name, array)| (name, array, true)));
    Batch::new(records.expect("columns of three rows"))
}

fn codec() -> ElementCodec {
    ElementCodec::new(&rows().records().schema(), ELEMENT_BYTES_MAX).expect("plain columns")
}

fn receiver() -> FrameReceiver {
    let mut receiver = FrameReceiver::new(CHANNEL, EPOCH, codec(), WINDOW, ELEMENT_BYTES_MAX);
    receiver.open();
    receiver
}

/// Whether the receiver goes on. What arrived is looked at as a task would.
fn deliver(receiver: &mut FrameReceiver, bytes: Bytes) -> Result<Option<Element>, String> {
    let frame = Frame::parse(bytes).map_err(|error| error.to_string())?;
    match receiver.accept(NOW, frame) {
        Ok(Arrived::Element { element, cost }) => {
            if let Element::Batch(batch) = &element {
                // Every value can be read: offsets and lengths are within their buffers.
                let _ = format!("{:?}", batch.records());
            }
            receiver.consumed(cost);
            Ok(Some(element))
        }
        Ok(Arrived::Control(_) | Arrived::Part | Arrived::OtherEpoch(_)) => Ok(None),
        Err(error) => Err(error.to_string()),
    }
}

/// The data is cut into frames; each gets the header that it must have to be looked into.
pub(super) fn frames(data: &[u8]) {
    let mut receiver = receiver();
    let mut rest = data;
    let mut sequence = 0_u64;
    while let Some((&[kind, flags, low, high], body)) = rest.split_first_chunk::<4>() {
        let len = usize::from(u16::from_le_bytes([low, high])).min(body.len());
        let (fragment, behind) = body.split_at(len);
        rest = behind;
        let bytes = framed(kind, flags, sequence, fragment);
        sequence += 1;
        if deliver(&mut receiver, bytes).is_err() {
            return;
        }
    }
}

fn framed(kind: u8, flags: u8, sequence: u64, fragment: &[u8]) -> Bytes {
    let mut bytes = BytesMut::zeroed(HEADER_BYTES);
    bytes[8] = 1;
    bytes[9] = kind;
    bytes[10] = flags & 3;
    bytes[12..16].copy_from_slice(&CHANNEL.0.to_le_bytes());
    bytes[16..24].copy_from_slice(&EPOCH.0.to_le_bytes());
    bytes[24..32].copy_from_slice(&sequence.to_le_bytes());
    // The other bits of the flags say how long the whole element claims to be.
    let claimed = fragment.len() as u64 + u64::from(flags >> 2);
    bytes[32..40].copy_from_slice(&claimed.to_le_bytes());
    bytes.extend_from_slice(fragment);
    let length = (bytes.len() as u32).to_le_bytes();
    bytes[..4].copy_from_slice(&length);
    seal(&mut bytes);
    bytes.freeze()
}

fn seal(bytes: &mut BytesMut) {
    let sum = crc32c::crc32c_append(
        crc32c::crc32c(&bytes[..CHECKSUM_AT]),
        &bytes[CHECKSUM_AT + 4..],
    );
    bytes[CHECKSUM_AT..CHECKSUM_AT + 4].copy_from_slice(&sum.to_le_bytes());
}

/// What is sent in [`damaged_frames`].
fn elements() -> [Element; 5] {
    let barrier = Barrier {
        id: CheckpointId(4),
        epoch: EPOCH,
        kind: BarrierKind::Checkpoint,
        age: Duration::from_millis(3),
        learnt_at: NOW,
        completed: None,
    };
    [
        Element::Batch(rows()),
        Element::Watermark(EventTime(9)),
        Element::Status(ChannelStatus::Idle),
        Element::Barrier(barrier),
        Element::EndOfData { drain: true },
    ]
}

/// Each three bytes of the data change one byte of what is sent: where, and by what.
pub(super) fn damaged_frames(data: &[u8]) {
    let mut sender = FrameSender::new(CHANNEL, EPOCH, codec());
    let mut receiver = receiver();
    let grant = FrameReceiver::new(CHANNEL, EPOCH, codec(), WINDOW, ELEMENT_BYTES_MAX).open();
    let grant = Frame::parse(grant.expect("a window opens with a grant")).expect("our own");
    sender.on_grant(&grant).expect("our own");
    let sent = elements();
    let mut frames = Vec::new();
    for element in &sent {
        sender
            .send(NOW, element, &mut frames)
            .expect("small enough");
    }
    let mut changes = data.chunks_exact(3);
    let mut arrived = Vec::new();
    for frame in frames {
        let mut bytes = BytesMut::from(&frame[..]);
        let mut is_changed = false;
        if let Some(&[low, high, by]) = changes.next().and_then(|change| change.first_chunk()) {
            let at = usize::from(u16::from_le_bytes([low, high])) % bytes.len();
            bytes[at] ^= by;
            is_changed = by != 0;
        }
        match deliver(&mut receiver, bytes.freeze()) {
            Ok(element) => {
                assert!(!is_changed, "a changed byte went unnoticed");
                arrived.extend(element);
            }
            Err(why) => {
                assert!(is_changed, "what was sent is refused: {why}");
                break;
            }
        }
    }
    assert_eq!(arrived[..], sent[..arrived.len()], "what arrives was sent");
}
