use std::sync::Arc;
use std::time::Duration;

use arrow::array::{AsArray, RecordBatch};
use arrow::compute::concat_batches;
use arrow::datatypes::{DataType, Field, Float64Type, Int64Type, Schema};
use millstream_graph::{GeneratorColumn, GeneratorValue};
use proptest::prelude::*;

use crate::testing::waker;

use super::*;

fn config(columns: &[(&str, GeneratorValue)]) -> GeneratorSource {
    GeneratorSource {
        rows: None,
        rate: None,
        seed: 7,
        columns: columns
            .iter()
            .map(|(name, value)| GeneratorColumn {
                name: (*name).to_owned(),
                value: value.clone(),
            })
            .collect(),
    }
}

fn every_value() -> GeneratorSource {
    let values = vec!["red".to_owned(), "green".to_owned(), "blue".to_owned()];
    config(&[
        ("n", GeneratorValue::Sequence { start: -5 }),
        ("k", GeneratorValue::RoundRobinKey { keys: 3 }),
        ("s", GeneratorValue::RoundRobinSequence { keys: 3 }),
        ("i", GeneratorValue::RandomInt { min: -2, max: 2 }),
        ("d", GeneratorValue::RandomDouble { min: 1.0, max: 2.0 }),
        ("t", GeneratorValue::RandomText { length: 23 }),
        ("o", GeneratorValue::OneOf { values }),
        (
            "c",
            GeneratorValue::Constant {
                value: "x".to_owned(),
            },
        ),
    ])
}

fn schema(config: &GeneratorSource) -> SchemaRef {
    let field = |column: &GeneratorColumn| {
        let data_type = match column.value {
            GeneratorValue::RandomDouble { .. } => DataType::Float64,
            GeneratorValue::RandomText { .. }
            | GeneratorValue::OneOf { .. }
            | GeneratorValue::Constant { .. } => DataType::Utf8,
            _ => DataType::Int64,
        };
        Field::new(&column.name, data_type, true)
    };
    Arc::new(Schema::new(
        config.columns.iter().map(field).collect::<Vec<_>>(),
    ))
}

fn reader(config: &GeneratorSource, splits: Vec<Split>) -> GeneratorReader {
    let mut reader = GeneratorReader::new(config, schema(config)).unwrap();
    reader.add_splits(splits).unwrap();
    reader.no_more_splits();
    reader
}

fn poll(reader: &mut GeneratorReader, rows: usize, now: MonoTime) -> ReaderOutput {
    let budget = Budget {
        rows,
        bytes: 1 << 20,
    };
    match reader.poll_batch(budget, now, waker()) {
        Poll::Ready(output) => output.unwrap(),
        Poll::Pending => panic!("a generator is never pending"),
    }
}

/// All rows of these splits with batches of these sizes in turn, and what finished.
fn read(
    config: &GeneratorSource,
    splits: Vec<Split>,
    sizes: &[usize],
) -> (RecordBatch, Vec<String>) {
    let mut reader = reader(config, splits);
    let mut batches = Vec::new();
    let mut finished = Vec::new();
    for size in sizes.iter().cycle() {
        match poll(&mut reader, *size, MonoTime::ZERO) {
            ReaderOutput::Batch(batch) => batches.push(batch.records().clone()),
            ReaderOutput::SplitFinished(id) => finished.push(id),
            ReaderOutput::Finished => break,
            other => panic!("{other:?}"),
        }
    }
    (concat_batches(&schema(config), &batches).unwrap(), finished)
}

fn column(records: &RecordBatch, index: usize) -> Vec<i64> {
    records
        .column(index)
        .as_primitive::<Int64Type>()
        .values()
        .to_vec()
}

#[test]
fn values_are_what_the_configuration_says() {
    let config = GeneratorSource {
        rows: Some(1000),
        ..every_value()
    };
    let (rows, finished) = read(&config, vec![generator_split(0, 1)], &[64]);
    assert_eq!(finished, ["rows 0 of 1"]);
    assert_eq!(column(&rows, 0), (-5..995).collect::<Vec<_>>());
    assert_eq!(column(&rows, 1)[..7], [0, 1, 2, 0, 1, 2, 0]);
    assert_eq!(column(&rows, 2)[..7], [1, 1, 1, 2, 2, 2, 3]);
    let mut ints = column(&rows, 3);
    ints.sort_unstable();
    assert!(ints.chunk_by(|a, b| a == b).all(|same| same.len() > 150));
    ints.dedup();
    assert_eq!(ints, [-2, -1, 0, 1, 2]);
    let doubles = rows.column(4).as_primitive::<Float64Type>();
    assert!(doubles.values().iter().all(|d| (1.0..2.0).contains(d)));
    let texts = rows.column(5).as_string::<i32>();
    let mut distinct: Vec<&str> = texts.iter().flatten().collect();
    assert!(
        distinct
            .iter()
            .all(|t| t.len() == 23 && t.bytes().all(|b| b.is_ascii_alphanumeric()))
    );
    distinct.sort_unstable();
    distinct.dedup();
    assert_eq!(distinct.len(), 1000);
    let colours = rows.column(6).as_string::<i32>();
    for colour in ["red", "green", "blue"] {
        assert!(colours.iter().flatten().filter(|c| *c == colour).count() > 250);
    }
    assert!(
        rows.column(7)
            .as_string::<i32>()
            .iter()
            .all(|c| c == Some("x"))
    );
}

/// A restored job goes on with the same rows: what a seed gives never changes.
#[test]
fn the_rows_of_a_seed_are_the_same_in_every_version() {
    let config = GeneratorSource {
        rows: Some(2),
        ..every_value()
    };
    let (rows, _) = read(&config, vec![generator_split(0, 1)], &[64]);
    assert_eq!(column(&rows, 3), [1, 1]);
    let texts = rows.column(5).as_string::<i32>();
    assert_eq!(texts.value(0), "igrmDlWbme8d0HhqVjhoOvZ");
    assert_eq!(texts.value(1), "8H0f9aTfRDjkOSkVEgNzOxO");
}

#[test]
fn another_seed_gives_other_values_and_the_same_numbers() {
    let one = GeneratorSource {
        rows: Some(50),
        ..every_value()
    };
    let two = GeneratorSource {
        seed: 8,
        ..one.clone()
    };
    let split = || vec![generator_split(0, 1)];
    let (a, b) = (read(&one, split(), &[50]).0, read(&two, split(), &[50]).0);
    assert_eq!(a.column(0), b.column(0));
    for random in 3..7 {
        assert_ne!(a.column(random), b.column(random), "column {random}");
    }
}

proptest! {
    /// Neither the cut of batches nor a restore at any row, also with another parallelism, changes
    /// a value, loses a row or makes one twice.
    #[test]
    fn batches_restores_and_rescales_change_nothing(
        rows in 0u64..200,
        sizes in prop::collection::vec(1usize..40, 1..5),
        (before, after) in (1u32..5, 1u32..5),
        polls in 0usize..12,
    ) {
        let config = GeneratorSource { rows: Some(rows), ..every_value() };
        let (expected, _) = read(&config, vec![generator_split(0, 1)], &[200]);

        let mut pieces = Vec::new();
        let mut splits = Vec::new();
        for index in 0..before {
            let mut reader = reader(&config, vec![generator_split(index, before)]);
            for i in 0..polls {
                if let ReaderOutput::Batch(batch) = poll(&mut reader, sizes[i % sizes.len()], MonoTime::ZERO) {
                    pieces.push(batch.records().clone());
                }
            }
            splits.extend(reader.snapshot().unwrap());
        }
        for index in 0..after as usize {
            let share = splits.iter().skip(index).step_by(after as usize).cloned().collect();
            pieces.push(read(&config, share, &sizes).0);
        }
        let all = concat_batches(&schema(&config), &pieces).unwrap();
        let order = arrow::compute::sort_to_indices(all.column(0), None, None).unwrap();
        let sorted = arrow::compute::take_record_batch(&all, &order).unwrap();
        prop_assert_eq!(sorted, expected);
    }
}

/// Lets the reader run until `end`, as the runtime would; returns rows and wake-ups.
fn run(reader: &mut GeneratorReader, mut now: MonoTime, end: MonoTime) -> (usize, usize) {
    let (mut rows, mut waits) = (0, 0);
    loop {
        match poll(reader, 1000, now) {
            ReaderOutput::Batch(batch) => rows += batch.num_rows(),
            ReaderOutput::WaitUntil(at) => {
                assert!(at > now, "no busy loop");
                waits += 1;
                if at > end {
                    return (rows, waits);
                }
                now = at;
            }
            other => panic!("{other:?}"),
        }
    }
}

#[test]
fn a_rate_holds_over_all_subtasks_and_does_not_drift() {
    for (rate, seconds) in [(50_000.0, 60), (3.7, 1000), (0.25, 400)] {
        let config = GeneratorSource {
            rate: Some(rate),
            ..every_value()
        };
        let start = MonoTime::from_millis(12_345);
        let end = start + Duration::from_secs(seconds);
        let mut total = 0;
        for index in 0..2 {
            let mut reader = reader(&config, vec![generator_split(index, 2)]);
            let (rows, waits) = run(&mut reader, start, end);
            assert!(waits as u64 <= 501 * seconds, "wakes {waits} times");
            total += rows;
        }
        let expected = rate * seconds as f64;
        let slack = rate * 0.004 + 2.0;
        assert!(
            (total as f64 - expected).abs() <= slack,
            "{total} of {expected}"
        );
    }
}

#[test]
fn a_restored_or_held_up_reader_makes_good_one_second_at_most() {
    let config = GeneratorSource {
        rate: Some(1000.0),
        ..every_value()
    };
    let mut first = reader(&config, vec![generator_split(0, 1)]);
    let hour = MonoTime::from_millis(3_600_000);
    run(&mut first, MonoTime::ZERO, MonoTime::from_millis(2_000));

    // Restored after an hour: the schedule starts anew.
    let mut restored = reader(&config, first.snapshot().unwrap());
    let (rows, _) = run(&mut restored, hour, hour + Duration::from_millis(10));
    assert!((8..=12).contains(&rows), "{rows}");

    // Held up for an hour: a second is made good, and then the rate holds again.
    let (rows, _) = run(&mut first, hour, hour + Duration::from_secs(1));
    assert!((1998..=2003).contains(&rows), "{rows}");
}

#[test]
fn a_sequence_that_leaves_bigint_is_an_error_not_a_wrap() {
    let config = config(&[(
        "n",
        GeneratorValue::Sequence {
            start: i64::MAX - 1,
        },
    )]);
    let mut reader = reader(&config, vec![generator_split(0, 1)]);
    assert!(matches!(
        poll(&mut reader, 2, MonoTime::ZERO),
        ReaderOutput::Batch(_)
    ));
    let budget = Budget {
        rows: 2,
        bytes: 100,
    };
    let Poll::Ready(Err(error)) = reader.poll_batch(budget, MonoTime::ZERO, waker()) else {
        panic!("wrapped");
    };
    assert!(
        error.to_string().contains("leaves BIGINT at row 2"),
        "{error}"
    );
}

#[test]
fn the_extremes_of_ranges_are_reached_and_not_passed() {
    let config = config(&[
        (
            "i",
            GeneratorValue::RandomInt {
                min: i64::MIN,
                max: i64::MAX,
            },
        ),
        ("j", GeneratorValue::RandomInt { min: 3, max: 3 }),
        (
            "d",
            GeneratorValue::RandomDouble {
                min: -f64::MAX,
                max: f64::MAX,
            },
        ),
        (
            "e",
            GeneratorValue::RandomDouble {
                min: 1.0,
                max: 1.0f64.next_up(),
            },
        ),
    ]);
    let config = GeneratorSource {
        rows: Some(500),
        ..config
    };
    let (rows, _) = read(&config, vec![generator_split(0, 1)], &[500]);
    assert!(column(&rows, 0).iter().any(|i| *i < i64::MIN / 2));
    assert!(column(&rows, 0).iter().any(|i| *i > i64::MAX / 2));
    assert!(column(&rows, 1).iter().all(|i| *i == 3));
    let wide = rows.column(2).as_primitive::<Float64Type>();
    assert!(wide.values().iter().all(|d| d.is_finite()));
    let narrow = rows.column(3).as_primitive::<Float64Type>();
    assert!(narrow.values().iter().all(|d| *d == 1.0));
}

#[test]
fn what_cannot_make_values_is_refused_at_the_start() {
    let cases = [
        GeneratorValue::RoundRobinKey { keys: 0 },
        GeneratorValue::RandomInt { min: 2, max: 1 },
        GeneratorValue::OneOf { values: Vec::new() },
        GeneratorValue::RandomDouble {
            min: 0.0,
            max: f64::NAN,
        },
    ];
    for value in cases {
        let config = config(&[("bad", value)]);
        let error = GeneratorReader::new(&config, schema(&config))
            .err()
            .unwrap();
        assert!(error.to_string().contains("\"bad\""), "{error}");
    }
    let config = GeneratorSource {
        rate: Some(0.0),
        ..every_value()
    };
    assert!(GeneratorReader::new(&config, schema(&config)).is_err());
}

#[test]
fn damaged_or_newer_state_is_refused_by_name() {
    let good = generator_split(1, 4);
    let mut newer = good.state.to_vec();
    newer[0] = 2;
    let mut elsewhere = good.state.to_vec();
    elsewhere[24] = 2;
    for (state, why) in [
        (newer, "version 2"),
        (elsewhere, "row 2 is not in"),
        (good.state[..24].to_vec(), "24 bytes"),
        (Vec::new(), "empty"),
    ] {
        let split = Split {
            id: good.id.clone(),
            state: state.into(),
        };
        let config = every_value();
        let mut reader = GeneratorReader::new(&config, schema(&config)).unwrap();
        let error = reader.add_splits(vec![split]).unwrap_err().to_string();
        assert!(
            error.contains(why) && error.contains("rows 1 of 4"),
            "{error}"
        );
    }
}

#[test]
fn without_splits_it_waits_and_then_ends() {
    let config = every_value();
    let mut reader = GeneratorReader::new(&config, schema(&config)).unwrap();
    assert!(matches!(
        poll(&mut reader, 1, MonoTime::ZERO),
        ReaderOutput::WaitForSplits
    ));
    reader.no_more_splits();
    assert!(matches!(
        poll(&mut reader, 1, MonoTime::ZERO),
        ReaderOutput::Finished
    ));
}
