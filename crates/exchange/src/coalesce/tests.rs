//! What is joined, what is cut, when it is sent, and that nothing changes places.

use std::sync::Arc;

use arrow::array::{ArrayRef, AsArray, Int64Array, RecordBatch};
use arrow::datatypes::Int64Type;
use proptest::prelude::*;

use super::*;

const A: DestinationIndex = DestinationIndex(0);
const B: DestinationIndex = DestinationIndex(1);

fn rows(values: std::ops::Range<i64>) -> Batch {
    let column: ArrayRef = Arc::new(Int64Array::from_iter_values(values));
    Batch::new(RecordBatch::try_from_iter([("n", column)]).unwrap())
}

fn at(millis: u64) -> MonoTime {
    MonoTime::from_millis(millis)
}

fn coalescer(rows: usize) -> Coalescer {
    Coalescer::new(
        2,
        CoalesceLimits {
            rows,
            ..CoalesceLimits::default()
        },
    )
}

/// What was sent, with rows as their numbers.
fn show(sent: &[(DestinationIndex, Element)]) -> Vec<String> {
    let text = |(to, element): &(DestinationIndex, Element)| match element {
        Element::Batch(batch) => {
            let numbers = batch.records().column(0).as_primitive::<Int64Type>();
            format!("{to}: rows {:?}", numbers.values().to_vec())
        }
        Element::Watermark(time) => format!("{to}: watermark {}", time.0),
        other => format!("{to}: {other:?}"),
    };
    sent.iter().map(text).collect()
}

#[test]
fn parts_for_one_destination_become_one_batch_when_enough_rows_came() {
    let (mut buffers, mut out) = (coalescer(10), Vec::new());
    buffers.push_batch(at(0), A, rows(0..4), &mut out).unwrap();
    buffers.push_batch(at(1), B, rows(4..6), &mut out).unwrap();
    buffers.push_batch(at(1), A, rows(6..8), &mut out).unwrap();
    assert_eq!(show(&out), [""; 0]);
    buffers.push_batch(at(2), A, rows(8..12), &mut out).unwrap();
    assert_eq!(show(&out), ["0: rows [0, 1, 2, 3, 6, 7, 8, 9, 10, 11]"]);
    assert_eq!(buffers.deadline(), at(6), "B's line goes on waiting");
}

#[test]
fn the_linger_time_counts_from_the_oldest_element_of_a_line() {
    let (mut buffers, mut out) = (coalescer(10), Vec::new());
    assert_eq!(buffers.deadline(), MonoTime::NEVER);
    buffers.push_batch(at(10), A, rows(0..1), &mut out).unwrap();
    buffers.push_batch(at(13), A, rows(1..2), &mut out).unwrap();
    assert_eq!(buffers.deadline(), at(15));
    buffers.on_time(at(14), &mut out).unwrap();
    assert_eq!(show(&out), [""; 0]);
    buffers.on_time(at(15), &mut out).unwrap();
    assert_eq!(show(&out), ["0: rows [0, 1]"]);
    assert_eq!(
        (buffers.deadline(), buffers.buffered_bytes()),
        (MonoTime::NEVER, 0)
    );
}

#[test]
fn a_watermark_waits_in_line_and_keeps_its_place_between_rows() {
    let (mut buffers, mut out) = (coalescer(10), Vec::new());
    buffers.push_batch(at(0), A, rows(0..1), &mut out).unwrap();
    buffers.push_watermark(at(0), EventTime(5));
    buffers.push_watermark(at(0), EventTime(7));
    buffers.push_batch(at(1), A, rows(1..2), &mut out).unwrap();
    buffers.push_watermark(at(1), EventTime(9));
    assert_eq!(show(&out), [""; 0]);
    buffers.on_time(at(5), &mut out).unwrap();
    let expected = [
        "0: rows [0]",
        "0: watermark 7",
        "0: rows [1]",
        "0: watermark 9",
        "1: watermark 9",
    ];
    assert_eq!(show(&out), expected);
}

#[test]
fn a_mark_sends_every_line_and_itself_behind_it() {
    let (mut buffers, mut out) = (coalescer(10), Vec::new());
    buffers.push_batch(at(0), B, rows(0..1), &mut out).unwrap();
    buffers
        .push_mark(&Element::EndOfPartition, &mut out)
        .unwrap();
    let expected = ["1: rows [0]", "0: EndOfPartition", "1: EndOfPartition"];
    assert_eq!(show(&out), expected);
}

#[test]
fn a_large_batch_is_not_copied_and_a_huge_one_is_cut() {
    let limits = CoalesceLimits {
        rows: 8,
        bytes: 80,
        linger: Duration::ZERO,
    };
    let (mut buffers, mut out) = (Coalescer::new(1, limits), Vec::new());
    buffers.push_batch(at(0), A, rows(0..1), &mut out).unwrap();
    let large = rows(1..8);
    let address = |batch: &Batch| {
        batch
            .records()
            .column(0)
            .as_primitive::<Int64Type>()
            .values()
            .inner()
            .as_ptr()
    };
    buffers
        .push_batch(at(0), A, large.clone(), &mut out)
        .unwrap();
    assert_eq!(show(&out), ["0: rows [0]", "0: rows [1, 2, 3, 4, 5, 6, 7]"]);
    let Element::Batch(sent) = &out[1].1 else {
        panic!("rows")
    };
    assert_eq!(address(sent), address(&large));

    out.clear();
    buffers.push_batch(at(0), A, rows(0..64), &mut out).unwrap();
    assert_eq!(out.len(), 4);
    assert!(out.iter().all(|(_, element)| element.cost() <= 2 * 80));
}

/// How many rows each element has that was sent while these were pushed, and that a flush sent.
fn sizes(limits: (usize, usize), pushes: &[usize]) -> (Vec<usize>, Vec<usize>) {
    let limits = CoalesceLimits {
        rows: limits.0,
        bytes: limits.1,
        linger: Duration::ZERO,
    };
    let (mut buffers, mut out, mut waiting) = (Coalescer::new(1, limits), Vec::new(), Vec::new());
    for n in pushes {
        let batch = rows(0..*n as i64);
        assert_eq!(batch.encoded_bytes(), 8 * n);
        buffers.push_batch(at(0), A, batch, &mut out).unwrap();
    }
    let bytes = buffers.buffered_bytes();
    buffers.flush(&mut waiting).unwrap();
    let sizes = |sent: &[(DestinationIndex, Element)]| -> Vec<usize> {
        let rows_of = |(_, element): &(DestinationIndex, Element)| match element {
            Element::Batch(batch) => batch.num_rows(),
            other => panic!("{other:?}"),
        };
        sent.iter().map(rows_of).collect()
    };
    assert_eq!(bytes, 8 * sizes(&waiting).iter().sum::<usize>());
    (sizes(&out), sizes(&waiting))
}

#[test]
fn the_limits_say_when_a_line_is_sent_and_which_parts_are_joined() {
    let many = usize::MAX / 2;
    type Sizes<'a> = &'a [usize];
    let cases: [((usize, usize), Sizes, Sizes, Sizes); 12] = [
        // Sent by rows, by bytes.
        ((10, many), &[3, 4, 2], &[], &[9]),
        ((10, many), &[3, 4, 3], &[10], &[]),
        ((many, 80), &[3, 4, 2], &[], &[9]),
        ((many, 80), &[3, 4, 3], &[10], &[]),
        // What has half the limit is not copied, by rows, by bytes.
        ((10, many), &[4, 4], &[], &[8]),
        ((10, many), &[5, 4], &[], &[5, 4]),
        ((10, many), &[4, 5], &[], &[4, 5]),
        ((many, 80), &[4, 4], &[], &[8]),
        ((many, 80), &[5, 4], &[], &[5, 4]),
        ((many, 80), &[4, 5], &[], &[4, 5]),
        // What has more than twice the limit is cut.
        ((many, 80), &[20], &[20], &[]),
        ((many, 80), &[22], &[11, 11], &[]),
    ];
    for (limits, pushes, sent, waiting) in cases {
        assert_eq!(
            sizes(limits, pushes),
            (sent.to_vec(), waiting.to_vec()),
            "{pushes:?} within {limits:?}"
        );
    }
}

#[test]
fn a_single_row_and_the_two_rows_of_an_update_are_never_cut() {
    let update = rows(0..2).with_kinds(vec![1, 2].into()).unwrap();
    for batch in [rows(0..1), update] {
        let limits = CoalesceLimits {
            rows: 8,
            bytes: 1,
            linger: Duration::ZERO,
        };
        let (mut buffers, mut out) = (Coalescer::new(1, limits), Vec::new());
        buffers
            .push_batch(at(0), A, batch.clone(), &mut out)
            .unwrap();
        assert_eq!(out, [(A, Element::Batch(batch))]);
    }
}

#[derive(Clone, Debug)]
enum Push {
    Rows(usize),
    Watermark,
    Mark,
    Wait(u64),
}

proptest! {
    /// Rows, watermarks and marks keep their order, whatever is joined, cut and replaced: each
    /// row is behind the same watermark as without buffers.
    #[test]
    fn buffers_change_no_order(pushes in prop::collection::vec(prop_oneof![
        4 => (0usize..30).prop_map(Push::Rows),
        2 => Just(Push::Watermark),
        1 => Just(Push::Mark),
        2 => (0u64..7).prop_map(Push::Wait),
    ], 0..60)) {
        let limits = CoalesceLimits { rows: 16, bytes: 100, ..CoalesceLimits::default() };
        let (mut buffers, mut out) = (Coalescer::new(1, limits), Vec::new());
        let (mut now, mut row, mut watermark) = (0, 0i64, 0);
        let mut expected: Vec<(i64, i64)> = Vec::new();
        for push in pushes {
            match push {
                Push::Rows(n) => {
                    let next = row + n as i64;
                    buffers.push_batch(at(now), A, rows(row..next), &mut out).unwrap();
                    expected.extend((row..next).map(|row| (row, watermark)));
                    row = next;
                }
                Push::Watermark => {
                    watermark += 1;
                    buffers.push_watermark(at(now), EventTime(watermark));
                }
                Push::Mark => {
                    buffers.push_status(ChannelStatus::Active, &mut out).unwrap();
                    prop_assert_eq!(buffers.buffered_bytes(), 0);
                    prop_assert!(matches!(out.last(), Some((A, Element::Status(_)))));
                }
                Push::Wait(millis) => {
                    now += millis;
                    buffers.on_time(at(now), &mut out).unwrap();
                    prop_assert!(buffers.deadline() > at(now));
                }
            }
            prop_assert!(buffers.buffered_bytes() < 100);
        }
        buffers.flush(&mut out).unwrap();
        let (mut sent, mut behind) = (Vec::new(), 0);
        for (_, element) in &out {
            match element {
                Element::Batch(batch) => {
                    let numbers = batch.records().column(0).as_primitive::<Int64Type>();
                    sent.extend(numbers.values().iter().map(|row| (*row, behind)));
                }
                Element::Watermark(time) => behind = time.0,
                other => prop_assert!(matches!(other, Element::Status(_))),
            }
        }
        prop_assert_eq!(sent, expected);
        prop_assert_eq!(behind, watermark);
    }
}
