use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use arrow::array::{Int64Array, RecordBatch};
use millstream_operator::OperatorInfo;

use crate::testing::{Harness, info};

use super::*;

fn rows(count: i64) -> Batch {
    let column = Int64Array::from_iter_values(0..count);
    let column: arrow::array::ArrayRef = Arc::new(column);
    Batch::new(RecordBatch::try_from_iter([("n", column)]).unwrap())
}

fn inject(fault: Fault, at_row: u64) -> Inject {
    Inject {
        fault,
        at_row,
        subtask: None,
        times: None,
    }
}

fn fail(at_row: u64) -> Inject {
    let message = "told to".to_owned();
    inject(Fault::Fail { message }, at_row)
}

fn start(
    config: &Inject,
    info: OperatorInfo,
    restored: &OperatorSnapshot,
) -> Harness<InjectOperator> {
    let mut harness = Harness::new(InjectOperator::new(config.clone()), info);
    harness.open(restored);
    harness
}

fn fresh() -> OperatorSnapshot {
    OperatorSnapshot::default()
}

#[test]
fn fails_before_the_nth_row_counted_over_restores() {
    let config = fail(10);
    let mut first = start(&config, info(0, 1, 0), &fresh());
    first.process(rows(4)).unwrap();
    let at_4 = first.snapshot().unwrap();
    first.process(rows(5)).unwrap();
    assert_eq!(first.rows(), 9);
    let error = first.process(rows(1)).unwrap_err();
    assert_eq!(
        (error.kind(), error.to_string().as_str()),
        (ErrorKind::UserCode, "told to")
    );
    assert_eq!(first.rows(), 0);

    let mut second = start(&config, info(0, 1, 1), &at_4);
    second.process(rows(5)).unwrap();
    assert!(second.process(rows(1)).is_err(), "row 10 of both attempts");
}

#[test]
fn a_row_that_passed_before_the_checkpoint_strikes_no_more() {
    let config = Inject {
        times: Some(1),
        ..fail(3)
    };
    let mut later = start(&config, info(0, 1, 1), &fresh());
    later.process(rows(5)).unwrap();
    let after = later.snapshot().unwrap();
    let mut again = start(&fail(3), info(0, 1, 2), &after);
    again.process(rows(100)).unwrap();
    assert_eq!(again.rows(), 100);
}

#[test]
fn strikes_only_in_the_named_subtask_and_as_often_as_told() {
    let config = Inject {
        subtask: Some(1),
        times: Some(2),
        ..fail(1)
    };
    let fails = |subtask, attempt| {
        let mut harness = start(&config, info(subtask, 2, attempt), &fresh());
        harness.process(rows(1)).is_err()
    };
    assert_eq!(
        [fails(0, 0), fails(1, 0), fails(1, 1), fails(1, 2)],
        [false, true, true, false]
    );
}

#[test]
fn panics_with_the_message() {
    let message = "boom".to_owned();
    let mut harness = start(
        &inject(Fault::Panic { message }, 2),
        info(0, 1, 0),
        &fresh(),
    );
    harness.process(rows(1)).unwrap();
    let panic = catch_unwind(AssertUnwindSafe(|| harness.process(rows(1)))).unwrap_err();
    assert_eq!(
        panic.downcast_ref::<String>().map(String::as_str),
        Some("boom")
    );
}

#[test]
fn refuses_one_snapshot_and_hands_out_the_next() {
    let message = "not now".to_owned();
    let config = inject(Fault::RefuseSnapshot { message }, 2);
    let mut harness = start(&config, info(0, 1, 0), &fresh());
    harness.process(rows(1)).unwrap();
    assert!(harness.snapshot().is_ok(), "row 2 did not come yet");
    harness.process(rows(1)).unwrap();
    assert_eq!(harness.snapshot().unwrap_err().to_string(), "not now");
    assert!(harness.snapshot().is_ok());
    assert_eq!(harness.rows(), 2, "rows pass all the same");
}

#[test]
fn delays_row_by_row_so_that_control_is_looked_at_between() {
    let per_row = Duration::from_millis(11);
    let mut harness = start(
        &inject(Fault::Delay { per_row }, 3),
        info(0, 1, 0),
        &fresh(),
    );
    assert_eq!(harness.process(rows(5)).unwrap(), Progress::More);
    assert_eq!(harness.rows(), 3, "two at once, one after a delay");
    assert_eq!(harness.resume().unwrap(), Progress::More);
    assert_eq!(harness.resume().unwrap(), Progress::Done);
    assert_eq!(harness.rows(), 2);
    assert_eq!(harness.resume().unwrap(), Progress::Done);
}

#[test]
fn a_blocked_call_is_the_one_that_was_named_and_stays_blocked() {
    use OperatorCall::{Close, Open, Process, Snapshot};
    for during in [Open, Process, Snapshot, Close] {
        let (done, came_back) = std::sync::mpsc::channel();
        // It never comes back, so nobody can wait for it.
        #[expect(
            clippy::disallowed_methods,
            reason = "a thread that is left behind for good"
        )]
        thread::spawn(move || {
            let config = inject(Fault::BlockInSocketRead { during }, 2);
            let mut harness = start(&config, info(0, 1, 0), &fresh());
            let _ = done.send(Open);
            let _ = harness.process(rows(1));
            let _ = harness.snapshot();
            let _ = harness.process(rows(1));
            let _ = done.send(Process);
            let _ = harness.snapshot();
            let _ = done.send(Snapshot);
            harness.operator.close();
            let _ = done.send(Close);
        });
        let next = || came_back.recv_timeout(Duration::from_millis(200)).ok();
        let returned: Vec<_> = std::iter::from_fn(next).collect();
        let calls = [Open, Process, Snapshot, Close];
        let expected = calls.into_iter().take_while(|call| *call != during);
        assert_eq!(returned, expected.collect::<Vec<_>>(), "{during:?}");
    }
}

#[test]
fn state_of_an_unknown_version_is_refused() {
    let snapshot = RestoredState {
        is_restored: true,
        elements: vec![Bytes::from_static(&[9; 9])],
    };
    assert!(decode(&snapshot.elements[0]).is_err());
    assert!(matches!(decode(&encode(7)), Ok(7)));
}
