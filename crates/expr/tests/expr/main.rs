//! What users of expressions see: values, types, messages, bounds.

#![allow(clippy::unwrap_used, reason = "helpers of tests")]

mod aggregates;
mod evaluation;
mod functions;
mod limits;
mod messages;
mod overflow;
mod words;

use std::sync::Arc;

use arrow::array::{
    ArrayRef, BooleanArray, Decimal128Array, Float64Array, Int8Array, Int32Array, Int64Array,
    ListArray, StringArray, TimestampMillisecondArray,
};
use arrow::datatypes::{Int64Type, SchemaRef};
use arrow::record_batch::RecordBatch;
use arrow::util::display::array_value_to_string;
use millstream_expr::{Compiled, EvalError, ExprError, compile};

/// Three rows with a column of each common type; the third row is NULL where it may be.
pub fn batch() -> RecordBatch {
    let columns: Vec<(&str, ArrayRef)> = vec![
        (
            "line",
            Arc::new(StringArray::from(vec![Some("Hello World"), Some(""), None])),
        ),
        ("tiny", Arc::new(Int8Array::from(vec![127, -128, 1]))),
        (
            "n",
            Arc::new(Int32Array::from(vec![Some(i32::MAX), Some(2), None])),
        ),
        (
            "m",
            Arc::new(Int32Array::from(vec![Some(1), Some(0), None])),
        ),
        (
            "big",
            Arc::new(Int64Array::from(vec![Some(i64::MIN), Some(5), None])),
        ),
        (
            "x",
            Arc::new(Float64Array::from(vec![Some(0.5), Some(-0.0), None])),
        ),
        (
            "price",
            Arc::new(
                Decimal128Array::from(vec![Some(1250), Some(-1), None])
                    .with_precision_and_scale(10, 2)
                    .unwrap(),
            ),
        ),
        (
            "ok",
            Arc::new(BooleanArray::from(vec![Some(true), Some(false), None])),
        ),
        (
            "at",
            Arc::new(TimestampMillisecondArray::from(vec![
                Some(0),
                Some(1_700_000_000_000),
                None,
            ])),
        ),
        (
            "list",
            Arc::new(ListArray::from_iter_primitive::<Int64Type, _, _>([
                Some(vec![Some(1), Some(2)]),
                Some(vec![]),
                None,
            ])),
        ),
        ("userId", Arc::new(StringArray::from(vec!["a", "b", "c"]))),
    ];
    RecordBatch::try_from_iter_with_nullable(
        columns
            .into_iter()
            .map(|(name, column)| (name, column, true)),
    )
    .unwrap()
}

/// The schema of [`batch`].
pub fn schema() -> SchemaRef {
    batch().schema()
}

/// Compiles over the common schema.
pub fn compiled(text: &str) -> Compiled {
    compile(text, &schema()).unwrap_or_else(|error| panic!("{}", error.render()))
}

/// The error of a text that must not compile.
pub fn refused(text: &str) -> ExprError {
    match compile(text, &schema()) {
        Ok(compiled) => panic!("{text} was accepted as {compiled:?}"),
        Err(error) => error,
    }
}

/// All values of an expression over the common batch, as text, NULL as "NULL".
pub fn values(text: &str) -> Vec<String> {
    shown(
        &compiled(text)
            .evaluate(&batch())
            .unwrap_or_else(|error| panic!("{error}")),
    )
}

/// The error of an expression that fails on a row of the common batch.
pub fn fails(text: &str) -> EvalError {
    match compiled(text).evaluate(&batch()) {
        Ok(array) => panic!("{text} gave {:?}", shown(&array)),
        Err(error) => error,
    }
}

/// An array as text.
pub fn shown(array: &ArrayRef) -> Vec<String> {
    let value = |row| {
        if array.is_null(row) {
            "NULL".to_owned()
        } else {
            array_value_to_string(array, row).unwrap()
        }
    };
    (0..array.len()).map(value).collect()
}
