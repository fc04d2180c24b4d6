//! Damage, loss and lies are refused by name and place, and never panic.

use proptest::prelude::*;

use super::*;

#[test]
fn every_flipped_bit_is_detected() {
    let (mut sender, _) = pair(&mixed().schema());
    let frame = frames_of(&mut sender, &Element::Batch(changes())).remove(0);
    for bit in 0..frame.len() * 8 {
        let mut bytes = frame.to_vec();
        bytes[bit / 8] ^= 1 << (bit % 8);
        let error = Frame::parse(bytes.into()).expect_err("a flipped bit");
        // A flip in the version is indistinguishable from another version.
        assert!(
            error.is_link_fault() || bit / 8 == 8,
            "bit {bit}: {error:?}"
        );
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
        // A gap is the network's, all else is what the peer meant to send.
        assert_eq!(error.is_link_fault(), offset == 24, "{fault}");
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
    #![proptest_config(ProptestConfig::with_cases(1_000))]

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
