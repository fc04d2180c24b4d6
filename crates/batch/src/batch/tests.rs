//! Batches keep their parts together, and count what is theirs.

use std::sync::Arc;

use arrow::array::{Int32Array, StringArray};
use arrow::datatypes::{DataType, Field, Schema};

use super::*;

fn numbers(values: &[i32]) -> Batch {
    let schema = Schema::new(vec![Field::new("n", DataType::Int32, false)]);
    let column = Arc::new(Int32Array::from(values.to_vec()));
    Batch::new(RecordBatch::try_new(Arc::new(schema), vec![column]).unwrap())
}

fn values(batch: &Batch) -> Vec<i32> {
    let column = batch.records().column(0);
    column
        .as_any()
        .downcast_ref::<Int32Array>()
        .unwrap()
        .values()
        .to_vec()
}

#[test]
fn slices_takes_and_joins_keep_times_and_kinds_beside_their_rows() {
    let batch = numbers(&[1, 2, 3, 4])
        .with_event_times(vec![10, 20, 30, 40].into())
        .unwrap()
        .with_kinds(vec![0, 1, 2, 3].into())
        .unwrap();
    let taken = batch.slice(1, 3).take(&[2, 0]).unwrap();
    assert_eq!(values(&taken), [4, 2]);
    assert_eq!(taken.event_time(0), Some(EventTime(40)));
    assert_eq!(
        (taken.kind(0), taken.kind(1)),
        (RowKind::Delete, RowKind::UpdateBefore)
    );

    let plain = numbers(&[9]).with_event_times(vec![90].into()).unwrap();
    let joined = Batch::concat(&[taken, plain]).unwrap().unwrap();
    assert_eq!(values(&joined), [4, 2, 9]);
    assert_eq!(
        joined.event_times().unwrap().values().to_vec(),
        [40, 20, 90]
    );
    assert_eq!(joined.kind(2), RowKind::Insert);
}

#[test]
fn parts_that_do_not_fit_are_refused_with_the_row() {
    let refused = |result: Result<Batch, BatchError>| result.unwrap_err().to_string();
    assert_eq!(
        refused(numbers(&[1, 2]).with_event_times(vec![1].into())),
        "the event time column has 1 entries for 2 rows"
    );
    assert_eq!(
        refused(numbers(&[1, 2]).with_event_times(vec![Some(1), None].into())),
        "the event time column is NULL at row 1; every row needs one"
    );
    assert_eq!(
        refused(numbers(&[1, 2]).with_kinds(vec![0, 4].into())),
        "row 1 has kind 4, which is none of 0 to 3"
    );
    let timed = numbers(&[1]).with_event_times(vec![1].into()).unwrap();
    assert!(matches!(
        Batch::concat(&[timed, numbers(&[2])]),
        Err(BatchError::MixedEventTimes)
    ));
}

#[test]
fn an_updates_two_rows_are_never_cut_apart() {
    let batch = numbers(&[1, 2, 3, 4])
        .with_kinds(vec![0, 1, 2, 3].into())
        .unwrap();
    let cuts: Vec<usize> = (0..=4).map(|at| batch.pair_safe_cut(at)).collect();
    assert_eq!(cuts, [0, 1, 3, 3, 4]);
}

#[test]
fn a_batch_without_columns_still_has_rows() {
    let options = RecordBatchOptions::new().with_row_count(Some(3));
    let records =
        RecordBatch::try_new_with_options(Arc::new(Schema::empty()), vec![], &options).unwrap();
    assert_eq!(Batch::new(records).take(&[2, 1]).unwrap().num_rows(), 2);
}

#[test]
fn bytes_are_of_the_slice() {
    let schema = Schema::new(vec![Field::new("s", DataType::Utf8, false)]);
    let column = Arc::new(StringArray::from(vec![
        "a".repeat(1000),
        "bb".into(),
        "c".into(),
    ]));
    let batch = Batch::new(RecordBatch::try_new(Arc::new(schema), vec![column]).unwrap());
    assert_eq!(batch.slice(1, 2).encoded_bytes(), 3 * 4 + 3);
    assert_eq!(batch.encoded_bytes(), 4 * 4 + 1003);
}
