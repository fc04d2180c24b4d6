//! What is one group, and what aggregates make of NULL, of what is no number, and of the extremes.

use arrow::array::{Float32Array, Int16Array};

use super::*;

/// Rows per key of any type, with the key as it comes out.
fn counted(keys: &ArrayRef) -> Vec<String> {
    let field = Field::new("k", keys.data_type().clone(), true);
    let input = Arc::new(Schema::new(vec![field.clone()]));
    let count = AggregateColumn {
        name: "n".to_owned(),
        function: Count,
        argument: None,
        input_type: None,
        output_type: DataType::Int64,
    };
    let spec = AggregateSpec {
        input: Arc::clone(&input),
        keys: vec![0],
        aggregates: vec![(count, None)],
        emit: Emit::End,
    };
    let output = Arc::new(Schema::new(vec![
        field,
        Field::new("n", DataType::Int64, true),
    ]));
    let mut harness = Harness::new(Aggregate::new(spec).unwrap(), &input, &output);
    // In two batches: the second finds the groups in the state.
    harness
        .process(batch(vec![("k", Arc::clone(keys))]))
        .unwrap();
    harness
        .process(batch(vec![("k", Arc::clone(keys))]))
        .unwrap();
    harness.event(&Event::EndOfInput).unwrap();
    let mut rows = harness.rows();
    rows.sort();
    rows
}

// HND-025: two zeros are one group, and so are all NaNs, whatever their bits; NULL is another.
#[test]
fn zeros_nans_and_nulls_are_one_group_each() {
    let nans = [
        0x7ff8_0000_0000_0001,
        0xfff8_0000_0000_0000,
        0x7ff0_0000_0000_0001,
    ];
    let mut doubles: Vec<Option<f64>> = nans.map(|bits| Some(f64::from_bits(bits))).to_vec();
    doubles.extend([
        Some(0.0),
        None,
        Some(-0.0),
        Some(1.0),
        None,
        Some(f64::MIN_POSITIVE),
    ]);
    let found = counted(&(Arc::new(Float64Array::from(doubles)) as ArrayRef));
    let smallest = "2.2250738585072014e-308|2";
    assert_eq!(found, ["0.0|4", "1.0|2", smallest, "NULL|4", "NaN|6"]);
    let floats = vec![
        Some(-0.0),
        Some(f32::from_bits(0xffc0_0001)),
        Some(f32::NAN),
        Some(0.0),
        None,
    ];
    let found = counted(&(Arc::new(Float32Array::from(floats)) as ArrayRef));
    assert_eq!(found, ["0.0|4", "NULL|2", "NaN|4"]);
}

// HND-023: COUNT(v) is 0 and the others are NULL for a group whose values are all NULL.
#[test]
fn a_group_of_nulls_has_no_sum_no_mean_and_no_extreme() {
    let values = ints(&[None, None]);
    let functions = [
        (Count, DataType::Int64),
        (Sum, DataType::Int64),
        (Min, DataType::Int64),
        (Max, DataType::Int64),
        (Avg, DataType::Float64),
        (LastValue, DataType::Int64),
    ];
    let mut harness = aggregate(&values, &functions, Emit::Batch);
    harness.process(rows(&[Some("a"); 2], &values)).unwrap();
    assert_eq!(harness.rows(), ["a|0|NULL|NULL|NULL|NULL|NULL"]);
}

// HND-026: a mean has no overflow of its own, and a sum fits as long as its result does.
#[test]
fn a_mean_of_the_largest_numbers_is_no_overflow() {
    let values = ints(&[Some(i64::MAX), Some(4), Some(i64::MAX)]);
    let mut harness = aggregate(&values, &[(Avg, DataType::Float64)], Emit::Batch);
    harness.process(rows(&[Some("a"); 3], &values)).unwrap();
    // Two thirds of 2^63 and a little, to the digits that a double has.
    assert_eq!(harness.rows(), ["a|6.148914691236517e18"]);

    let values = ints(&[Some(i64::MIN), Some(i64::MAX)]);
    let mut harness = aggregate(&values, &[(Sum, DataType::Int64)], Emit::Batch);
    harness.process(rows(&[Some("a"); 2], &values)).unwrap();
    assert_eq!(harness.rows(), ["a|-1"]);
    let error = harness.process(rows(
        &[Some("a"), Some("a")],
        &ints(&[Some(i64::MIN), None]),
    ));
    let error = error.unwrap_err();
    assert!(error.to_string().contains("BIGINT overflow"), "{error}");
    assert!(error.remedy().is_some(), "{error}");

    let small: ArrayRef = Arc::new(Int16Array::from(vec![i16::MIN, -1]));
    let mut harness = aggregate(&small, &[(Sum, DataType::Int64)], Emit::Batch);
    harness.process(rows(&[Some("a"); 2], &small)).unwrap();
    assert_eq!(harness.rows(), ["a|-32769"]);
}

#[test]
fn doubles_are_added_as_ieee_754_has_it() {
    let sum = |values: Vec<f64>| {
        let values: ArrayRef = Arc::new(Float64Array::from(values));
        let functions = [(Sum, DataType::Float64), (Avg, DataType::Float64)];
        let mut harness = aggregate(&values, &functions, Emit::Batch);
        let keys = vec![Some("a"); values.len()];
        harness.process(rows(&keys, &values)).unwrap();
        harness.rows().remove(0)
    };
    assert_eq!(sum(vec![1.0, f64::NAN, 2.0]), "a|NaN|NaN");
    assert_eq!(sum(vec![f64::INFINITY, 1.0]), "a|inf|inf");
    assert_eq!(sum(vec![f64::INFINITY, f64::NEG_INFINITY]), "a|NaN|NaN");
    assert_eq!(sum(vec![f64::MAX, f64::MAX]), "a|inf|inf");
    assert_eq!(sum(vec![0.5, -0.5]), "a|0.0|0.0");
}
