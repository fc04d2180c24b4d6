//! Failures of rows: overflow, division by zero, casts.

use std::sync::Arc;

use arrow::array::{ArrayRef, Int64Array, StringArray};
use arrow::record_batch::RecordBatch;
use millstream_expr::{EvalFault, compile};

use crate::{batch, compiled, fails, refused, values};

#[track_caller]
fn overflows(text: &str, row_index: usize) {
    let error = fails(text);
    assert!(
        matches!(error.fault, EvalFault::Overflow { .. }),
        "{text}: {error}"
    );
    assert_eq!(error.row_index, Some(row_index), "{text}: {error}");
    assert_eq!(&*error.expression, text);
}

/// Proves the scalar part of HND-026: integer arithmetic fails and never wraps.
#[test]
fn integer_overflow_names_the_row() {
    overflows("n + m", 0);
    overflows("cast(-2 as int) - n", 0);
    overflows("n * n", 0);
    overflows("big - 1", 0);
    overflows("big * 2", 0);
    overflows("- big", 0);
    overflows("tiny + cast(1 as tinyint)", 0);
    overflows("tiny - cast(1 as tinyint)", 1);
    overflows("tiny * tiny", 0);
    overflows("- tiny", 1);
    overflows("big / -1", 0);
    overflows("abs(big)", 0);
}

#[test]
fn decimal_overflow_is_an_error_too() {
    let text = "cast(99999999999999999999999999999999999999 as decimal(38, 0)) * n";
    assert!(
        matches!(fails(text).fault, EvalFault::Overflow { .. }),
        "{}",
        fails(text)
    );
    assert!(fails(text).remedy().contains("to DOUBLE"));
}

/// 128 bits hold numbers of 39 digits, which no DECIMAL has: they were printed cut to 38.
#[test]
fn a_decimal_result_of_39_digits_is_an_overflow() {
    let largest = "cast(99999999999999999999999999999999999999 as decimal(38, 0))";
    for text in [
        format!("{largest} + n"),
        format!("cast(0 as decimal(38, 0)) - {largest} - n"),
        "cast(60000000000000000000000000000000000000 as decimal(38, 0)) * \
         cast(n - n + 2 as decimal(38, 0))"
            .to_owned(),
    ] {
        let error = fails(&text);
        assert!(
            matches!(error.fault, EvalFault::Overflow { .. }),
            "{text}: {error}"
        );
        assert_eq!(error.row_index, Some(0), "{text}: {error}");
    }
    let fits = format!("{largest} - n + n");
    let expected = ["99999999999999999999999999999999999999"; 2];
    assert_eq!(values(&fits)[..2], expected);
}

#[test]
fn constants_that_overflow_are_found_at_submission_and_not_folded_to_a_wrapped_value() {
    let error = refused("9223372036854775807 + 1");
    assert_eq!(
        error.to_string(),
        "this fails for every row: overflow: 9223372036854775807 + 1 at line 1, column 1"
    );
    let error = refused("line || (1 / 0)");
    assert_eq!(
        error.to_string(),
        "this fails for every row: division by zero at line 1, column 10"
    );
    let error = refused("n > 0 or date_trunc('fortnight', at) = at");
    assert!(
        error.to_string().starts_with("this fails for every row: "),
        "{error}"
    );
    assert!(
        error.to_string().ends_with("at line 1, column 10"),
        "{error}"
    );
    // Where no row needs the constant, it is no mistake that it cannot be computed.
    for text in ["case when ok then 1 / 0 else 1 end", "coalesce(m, 1 / 0)"] {
        compiled(text);
    }
}

#[test]
fn division_by_zero_names_the_row_and_doubles_follow_ieee_754() {
    for text in ["10 / m", "10 % m", "price / m"] {
        let error = fails(text);
        assert_eq!(
            (error.fault.clone(), error.row_index),
            (EvalFault::DivisionByZero, Some(1)),
            "{text}"
        );
    }
    let error = fails("10 / m");
    assert_eq!(
        error.to_string(),
        "division by zero in expression \"10 / m\", row 1 of the batch"
    );
    assert!(error.remedy().contains("NULLIF"));
    assert_eq!(values("1 / x"), ["2.0", "-inf", "NULL"]);
}

#[test]
fn casts_that_do_not_fit_name_the_value() {
    let error = fails("cast(n as smallint)");
    assert_eq!(
        error.fault,
        EvalFault::InvalidValue {
            detail: "cannot cast 2147483647 to SMALLINT".into()
        }
    );
    assert_eq!(error.row_index, Some(0));
    let error = fails("cast(line as bigint)");
    assert_eq!(
        error.fault.to_string(),
        "cannot cast 'Hello World' to BIGINT"
    );
    assert!(error.remedy().contains("TRY_CAST"));
    assert_eq!(values("try_cast(line as bigint)"), ["NULL", "NULL", "NULL"]);
}

#[test]
fn the_first_failing_row_of_a_large_batch_is_found() {
    let numbers: Vec<i64> = (0..10_000)
        .map(|row| if row >= 7_777 { 0 } else { row + 1 })
        .collect();
    let column: ArrayRef = Arc::new(Int64Array::from(numbers));
    let batch = RecordBatch::try_from_iter([("a", column)]).unwrap();
    let error = compile("1 / a", &batch.schema())
        .unwrap()
        .evaluate(&batch)
        .unwrap_err();
    assert_eq!(error.row_index, Some(7_777));
}

#[test]
fn a_batch_of_another_schema_is_refused_before_it_is_read() {
    let expression = compiled("lower(line) = 'x'");
    let column: ArrayRef = Arc::new(Int64Array::from(vec![1]));
    let other = RecordBatch::try_from_iter([("line", column)]).unwrap();
    let error = expression.evaluate(&other).unwrap_err();
    assert_eq!(
        error.to_string(),
        "column \"line\" is BIGINT, the expression was compiled for VARCHAR in expression \"lower(line) = 'x'\""
    );
}

#[test]
fn a_huge_value_does_not_make_a_huge_message() {
    let column: ArrayRef = Arc::new(StringArray::from(vec!["z".repeat(1_000_000)]));
    let batch = RecordBatch::try_from_iter([("s", column)]).unwrap();
    let error = compile("cast(s as int)", &batch.schema())
        .unwrap()
        .evaluate(&batch)
        .unwrap_err();
    assert!(
        error.to_string().len() < 400,
        "{} bytes",
        error.to_string().len()
    );
}

#[test]
fn messages_of_rows_carry_no_names_of_the_library() {
    for text in [
        "cast(line as date)",
        "cast(line as timestamp)",
        "cast(n as smallint)",
        "big - 1",
        "abs(big)",
    ] {
        let shown = fails(text).to_string();
        for word in ["DataFusion", "Arrow", "Int32", "Int64", "Utf8", "backtrace"] {
            assert!(!shown.contains(word), "{shown}");
        }
    }
    assert_eq!(batch().num_rows(), 3);
}
