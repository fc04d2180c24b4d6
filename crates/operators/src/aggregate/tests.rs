use std::sync::Arc;
use std::time::Duration;

use arrow::array::{
    Array, ArrayRef, Date32Array, Decimal128Array, Float64Array, Int32Array, Int64Array,
    StringArray, UInt64Array,
};
use arrow::datatypes::{DataType, Field, Schema};
use millstream_batch::Batch;
use millstream_graph::{AggregateColumn, AggregateFunction, Emit};
use millstream_operator::{Event, Expression};
use millstream_types::{CheckpointId, MonoTime};
use proptest::prelude::*;

use super::{Aggregate, AggregateSpec};
use crate::testing::{ColumnExpr, Harness, batch};

mod groups;

use AggregateFunction::{Avg, Count, LastValue, Max, Min, Sum};

/// An aggregate over (k, v): every function of `functions` on v, grouped by k.
fn aggregate(
    values: &ArrayRef,
    functions: &[(AggregateFunction, DataType)],
    emit: Emit,
) -> Harness<Aggregate> {
    let input = Arc::new(Schema::new(vec![
        Field::new("k", DataType::Utf8, true),
        Field::new("v", values.data_type().clone(), true),
    ]));
    let mut output = vec![Field::new("k", DataType::Utf8, true)];
    let mut aggregates = Vec::new();
    for (index, (function, output_type)) in functions.iter().enumerate() {
        let name = format!("a{index}");
        output.push(Field::new(&name, output_type.clone(), true));
        let input_type = values.data_type().clone();
        let argument: Arc<dyn Expression> = Arc::new(ColumnExpr(1, input_type.clone()));
        let column = AggregateColumn {
            name,
            function: *function,
            argument: Some("v".to_owned()),
            input_type: Some(input_type),
            output_type: output_type.clone(),
        };
        aggregates.push((column, Some(argument)));
    }
    let spec = AggregateSpec {
        input: Arc::clone(&input),
        keys: vec![0],
        aggregates,
        emit,
    };
    let output = Arc::new(Schema::new(output));
    Harness::new(Aggregate::new(spec).unwrap(), &input, &output)
}

fn rows(keys: &[Option<&str>], values: &ArrayRef) -> Batch {
    let keys: ArrayRef = Arc::new(StringArray::from(keys.to_vec()));
    batch(vec![("k", keys), ("v", Arc::clone(values))])
}

fn ints(values: &[Option<i64>]) -> ArrayRef {
    Arc::new(Int64Array::from(values.to_vec()))
}

#[test]
fn rows_of_one_key_in_a_slice_see_each_others_updates() {
    let values = ints(&[Some(1), Some(10), Some(2), None, Some(3)]);
    let functions = [
        (Count, DataType::Int64),
        (Sum, DataType::Int64),
        (Min, DataType::Int64),
        (Max, DataType::Int64),
        (Avg, DataType::Float64),
    ];
    let mut harness = aggregate(&values, &functions, Emit::Each);
    let keys = [Some("a"), Some("b"), Some("a"), Some("a"), Some("a")];
    harness.process(rows(&keys, &values)).unwrap();
    assert_eq!(
        harness.rows(),
        [
            "a|1|1|1|1|1.0",
            "b|1|10|10|10|10.0",
            "a|2|3|1|2|1.5",
            "a|2|3|1|2|1.5",
            "a|3|6|1|3|2.0"
        ]
    );
}

// HND-023: NULL is a group of its own, apart from the empty and the spelled-out one.
#[test]
fn null_is_a_key_like_any_other() {
    let values = ints(&[Some(1), Some(2), Some(4), Some(5), Some(3)]);
    let mut harness = aggregate(&values, &[(Sum, DataType::Int64)], Emit::End);
    harness
        .process(rows(
            &[None, None, Some(""), Some("null"), Some("a")],
            &values,
        ))
        .unwrap();
    harness.event(&Event::EndOfInput).unwrap();
    let mut rows = harness.rows();
    rows.sort();
    assert_eq!(rows, ["NULL|3", "a|3", "null|5", "|4"]);
}

// HND-026.
#[test]
fn an_overflow_names_type_and_aggregate_and_never_wraps() {
    let values = ints(&[Some(i64::MAX), Some(4)]);
    let mut harness = aggregate(&values, &[(Sum, DataType::Int64)], Emit::Each);
    let error = harness
        .process(rows(&[Some("a"), Some("a")], &values))
        .unwrap_err();
    assert!(
        error
            .to_string()
            .contains("BIGINT overflow in aggregate a0 (sum(v))"),
        "{error}"
    );

    let narrow: ArrayRef = Arc::new(Int32Array::from(vec![i32::MAX, 5, 6]));
    let mut harness = aggregate(&narrow, &[(Sum, DataType::Int64)], Emit::Batch);
    harness.process(rows(&[Some("a"); 3], &narrow)).unwrap();
    assert_eq!(harness.rows(), ["a|2147483658"]);
}

// 128 bits hold numbers of 39 digits, and no DECIMAL does.
#[test]
fn a_decimal_aggregate_of_39_digits_is_an_overflow() {
    let wide = |values: Vec<i128>| -> ArrayRef {
        let values = Decimal128Array::from(values);
        Arc::new(values.with_precision_and_scale(38, 0).unwrap())
    };
    let (sum, mean) = (DataType::Decimal128(38, 0), DataType::Decimal128(38, 4));
    let largest = 10i128.pow(38) - 1;
    let values = wide(vec![largest, 0]);
    let mut harness = aggregate(&values, &[(Sum, sum.clone())], Emit::Batch);
    harness.process(rows(&[Some("a"); 2], &values)).unwrap();
    assert_eq!(harness.rows(), [format!("a|{largest}")]);

    // With four more places behind the point it still fits the 128 bits.
    let large = 12 * 10i128.pow(33);
    for (function, keys, values) in [
        ((Sum, sum), ["a", "a"], wide(vec![largest, 1])),
        ((Avg, mean), ["a", "b"], wide(vec![large, large])),
    ] {
        let mut harness = aggregate(&values, &[function], Emit::Batch);
        let error = harness.process(rows(&keys.map(Some), &values)).unwrap_err();
        assert!(
            error.to_string().contains("overflow in aggregate a0"),
            "{error}"
        );
        assert!(error.remedy().unwrap().contains("to DOUBLE"), "{error}");
    }
}

// HND-027.
#[test]
fn decimal_fractions_keep_their_carry_and_sign() {
    let decimals = |values: Vec<i128>| -> ArrayRef {
        Arc::new(
            Decimal128Array::from(values)
                .with_precision_and_scale(18, 9)
                .unwrap(),
        )
    };
    let values = decimals(vec![
        99_999_999_999_999_999,
        99_999_999_999_999_999,
        99_999_999_999_999_999,
        -1,
    ]);
    let functions = [
        (Sum, DataType::Decimal128(38, 9)),
        (Avg, DataType::Decimal128(38, 13)),
    ];
    let mut harness = aggregate(&values, &functions, Emit::Batch);
    harness
        .process(rows(&[Some("a"), Some("a"), Some("a"), Some("b")], &values))
        .unwrap();
    assert_eq!(
        harness.rows(),
        [
            "a|299999999.999999997|99999999.9999999990000",
            "b|-0.000000001|-0.0000000010000"
        ]
    );
    // The same in one step a row, each of which finds the last one's sum in the state.
    let mut harness = aggregate(&values, &functions[..1], Emit::Batch);
    let mut last = Vec::new();
    for row in 0..3 {
        let row = values.slice(row, 1);
        harness.process(rows(&[Some("a")], &row)).unwrap();
        last = harness.rows();
    }
    assert_eq!(last, ["a|299999999.999999997"]);
}

#[test]
fn extremes_work_for_text_dates_unsigned_and_nan() {
    let cases: Vec<(ArrayRef, &str)> = vec![
        (
            Arc::new(StringArray::from(vec!["pear", "apple", "zoo"])),
            "a|apple|zoo",
        ),
        (
            Arc::new(Date32Array::from(vec![19_000, -5, 3])),
            "a|1969-12-27|2022-01-08",
        ),
        (
            Arc::new(UInt64Array::from(vec![u64::MAX, 0, 7])),
            "a|0|18446744073709551615",
        ),
        (
            Arc::new(Float64Array::from(vec![1.0, f64::NAN, -2.5])),
            "a|-2.5|NaN",
        ),
    ];
    for (values, expected) in cases {
        let data_type = values.data_type().clone();
        let functions = [(Min, data_type.clone()), (Max, data_type)];
        let mut harness = aggregate(&values, &functions, Emit::Batch);
        harness.process(rows(&[Some("a"); 3], &values)).unwrap();
        assert_eq!(harness.rows(), [expected]);
        harness.process(rows(&[Some("a"); 3], &values)).unwrap();
        assert_eq!(
            harness.rows(),
            [expected],
            "the same after a round trip through state"
        );
    }
}

#[test]
fn the_last_value_is_the_last_to_arrive_that_is_not_null() {
    let texts =
        |values: [Option<&str>; 4]| Arc::new(StringArray::from(values.to_vec())) as ArrayRef;
    let cases: [(ArrayRef, [&str; 4]); 4] = [
        (
            texts([Some("c"), Some("a"), Some("x"), Some("b")]),
            ["a|c", "a|a", "a|x", "a|b"],
        ),
        (
            ints(&[Some(3), Some(1), None, Some(2)]),
            ["a|3", "a|1", "a|1", "a|2"],
        ),
        (
            texts([Some("c"), Some("a"), None, Some("b")]),
            ["a|c", "a|a", "a|a", "a|b"],
        ),
        (
            Arc::new(Float64Array::from(vec![f64::NAN, 1.0, -0.5, 0.25])),
            ["a|NaN", "a|1.0", "a|-0.5", "a|0.25"],
        ),
    ];
    for (values, expected) in cases {
        let functions = [(LastValue, values.data_type().clone())];
        let mut harness = aggregate(&values, &functions, Emit::Each);
        harness.process(rows(&[Some("a"); 4], &values)).unwrap();
        assert_eq!(harness.rows(), expected);
        // After a round trip through state.
        let null = values.slice(2, 1);
        harness.process(rows(&[Some("a")], &null)).unwrap();
        let last = if null.is_null(0) {
            expected[3]
        } else {
            expected[2]
        };
        assert_eq!(harness.rows(), [last]);
    }
}

#[test]
fn changed_keys_leave_once_per_interval_and_in_front_of_a_barrier() {
    let values = ints(&[Some(1), Some(2), Some(3)]);
    let emit = Emit::Interval(Duration::from_secs(1));
    let mut harness = aggregate(&values, &[(Sum, DataType::Int64)], emit);
    harness
        .process(rows(&[Some("a"), Some("b"), Some("a")], &values))
        .unwrap();
    assert_eq!(harness.rows(), Vec::<String>::new());
    assert_eq!(harness.wake_at, MonoTime::from_millis(1_000));
    harness.event(&Event::Wake).unwrap();
    assert_eq!(harness.rows(), ["a|4", "b|2"]);
    assert_eq!(harness.wake_at, MonoTime::NEVER);

    harness
        .process(rows(&[Some("b"), Some("b"), Some("b")], &values))
        .unwrap();
    harness.event(&Event::PreBarrier(CheckpointId(1))).unwrap();
    assert_eq!(harness.rows(), ["b|8"]);
    harness.event(&Event::Wake).unwrap();
    assert_eq!(harness.rows(), Vec::<String>::new());
}

#[test]
fn final_results_come_page_by_page_and_once_per_key() {
    let keys: Vec<String> = (0..10_000).map(|key| format!("k{key}")).collect();
    let keys: Vec<_> = keys.iter().map(|key| Some(key.as_str())).collect();
    let values = ints(&vec![Some(1); keys.len()]);
    let mut harness = aggregate(&values, &[(Count, DataType::Int64)], Emit::End);
    harness.process(rows(&keys, &values)).unwrap();
    harness
        .process(rows(&keys[..500], &ints(&[Some(1); 500])))
        .unwrap();
    harness.event(&Event::EndOfInput).unwrap();
    let mut found = harness.rows();
    found.sort();
    let mut expected: Vec<_> = (0..10_000)
        .map(|key| format!("k{key}|{}", if key < 500 { 2 } else { 1 }))
        .collect();
    expected.sort();
    assert_eq!(found, expected);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn cutting_the_input_into_slices_changes_nothing(
        input in prop::collection::vec((0u8..5, prop::option::of(-1_000i64..1_000)), 1..200),
        cuts in prop::collection::vec(1usize..50, 1..20),
    ) {
        let keys: Vec<String> = input.iter().map(|(key, _)| key.to_string()).collect();
        let keys: Vec<_> = keys.iter().map(|key| Some(key.as_str())).collect();
        let values = ints(&input.iter().map(|(_, value)| *value).collect::<Vec<_>>());
        let functions = [(Count, DataType::Int64), (Sum, DataType::Int64), (Max, DataType::Int64), (Avg, DataType::Float64)];
        let all = rows(&keys, &values);
        let mut whole = aggregate(&values, &functions, Emit::Each);
        whole.process(all.clone()).unwrap();
        let mut sliced = aggregate(&values, &functions, Emit::Each);
        let (mut at, mut cut) = (0, cuts.iter().cycle());
        while at < all.num_rows() {
            let length = (*cut.next().unwrap()).min(all.num_rows() - at);
            sliced.process(all.slice(at, length)).unwrap();
            at += length;
        }
        prop_assert_eq!(whole.rows(), sliced.rows());
    }
}
