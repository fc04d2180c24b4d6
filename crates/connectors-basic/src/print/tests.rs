use std::sync::Mutex;

use arrow::array::{Int64Array, RecordBatch, StringArray, UInt8Array};

use crate::testing::{Harness, info};

use super::*;

#[derive(Default)]
struct Lines(Mutex<Vec<String>>);

impl RowOutput for Lines {
    fn lines(&self, lines: Vec<String>) {
        self.0.lock().unwrap().extend(lines);
    }
}

fn batch(rows: &[(&str, Option<i64>)]) -> Batch {
    let words = StringArray::from_iter_values(rows.iter().map(|row| row.0));
    let counts = Int64Array::from_iter(rows.iter().map(|row| row.1));
    let columns: [(&str, arrow::array::ArrayRef); 2] =
        [("word", Arc::new(words)), ("n", Arc::new(counts))];
    Batch::new(RecordBatch::try_from_iter(columns).unwrap())
}

fn printed(label: Option<&str>, subtask: u32, parallelism: u32, batch: Batch) -> Vec<String> {
    let output = Arc::new(Lines::default());
    let operator = PrintOperator::new(label.map(str::to_owned), output.clone());
    let mut harness = Harness::new(operator, info(subtask, parallelism, 0));
    harness.open(&Default::default());
    harness.process(batch).unwrap();
    let lines = output.0.lock().unwrap();
    lines.clone()
}

// Proves F15, and A4-11.
#[test]
fn the_subtask_is_shown_from_1_and_only_where_there_are_several() {
    let row = || batch(&[("a", Some(1))]);
    assert_eq!(printed(None, 0, 1, row()), ["a, 1"]);
    assert_eq!(printed(None, 2, 4, row()), ["3> a, 1"]);
    assert_eq!(printed(Some("out"), 0, 1, row()), ["out> a, 1"]);
    assert_eq!(printed(Some("out"), 1, 2, row()), ["out:2> a, 1"]);
}

#[test]
fn a_row_is_one_line_that_a_terminal_does_not_obey() {
    let rows = batch(&[
        ("two\nlines\r\u{1b}[2J", Some(-1)),
        ("größe \u{202e}desrever", None),
    ]);
    assert_eq!(
        printed(None, 0, 1, rows),
        [
            r"two\nlines\r\u{1b}[2J, -1",
            r"größe \u{202e}desrever, null"
        ]
    );
}

#[test]
fn a_row_that_changes_another_says_so() {
    let rows = batch(&[
        ("a", Some(1)),
        ("a", Some(1)),
        ("a", Some(2)),
        ("a", Some(2)),
    ]);
    let rows = rows.with_kinds(UInt8Array::from(vec![0, 1, 2, 3])).unwrap();
    assert_eq!(
        printed(None, 0, 1, rows),
        ["a, 1", "-U a, 1", "+U a, 2", "-D a, 2"]
    );
}

#[test]
fn a_blackhole_takes_everything_and_passes_nothing_on() {
    let mut harness = Harness::new(BlackholeOperator, info(0, 1, 0));
    let progress = harness.process(batch(&[("a", None)])).unwrap();
    assert_eq!((progress, harness.rows()), (Progress::Done, 0));
}
