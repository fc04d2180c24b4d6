//! Values and types of expressions that are accepted.

use std::sync::Arc;

use arrow::array::{ArrayRef, Decimal128Array, Float32Array, Float64Array, Int64Array};
use arrow::datatypes::{DataType, Field, Schema};
use arrow::record_batch::RecordBatch;
use millstream_expr::{compile, compile_predicate, sql_name};

use crate::{batch, compiled, schema, shown, values};

#[track_caller]
fn check(text: &str, data_type: &str, expected: [&str; 3]) {
    assert_eq!(
        sql_name(compiled(text).data_type()),
        data_type,
        "type of {text}"
    );
    assert_eq!(values(text), expected, "values of {text}");
}

#[test]
fn numbers_widen_to_the_common_type_and_null_stays_null() {
    check("m + 1", "BIGINT", ["2", "1", "NULL"]);
    check("m + tiny", "INT", ["128", "-128", "NULL"]);
    check("m * 2.50", "DECIMAL(14, 2)", ["2.50", "0.00", "NULL"]);
    check("x + 1", "DOUBLE", ["1.5", "1.0", "NULL"]);
    check("price * 2", "DECIMAL(31, 2)", ["25.00", "-0.02", "NULL"]);
    check("- m", "INT", ["-1", "0", "NULL"]);
    check("7 / 2", "BIGINT", ["3", "3", "3"]);
    check("7.0 / 2 > 3.4", "BOOLEAN", ["true", "true", "true"]);
}

// A DOUBLE keeps its digits beside an exact literal, however small or large it is.
#[test]
fn decimals_that_meet_a_double_become_doubles_wherever_they_meet() {
    let schema: arrow::datatypes::SchemaRef = Arc::new(Schema::new(vec![
        Field::new("x", DataType::Float64, true),
        Field::new("f", DataType::Float32, true),
        Field::new("d", DataType::Decimal128(4, 1), true),
    ]));
    let columns: Vec<ArrayRef> = vec![
        Arc::new(Float64Array::from(vec![1e-20, 1e30, 0.1])),
        Arc::new(Float32Array::from(vec![1e-20, 1e30, 0.5])),
        Arc::new(
            Decimal128Array::from(vec![0, 5, 1])
                .with_precision_and_scale(4, 1)
                .unwrap(),
        ),
    ];
    let rows = RecordBatch::try_new(Arc::clone(&schema), columns).unwrap();
    let whole = ["1e-20", "1e30", "0.1"];
    let yes = ["true", "true", "true"];
    for (text, expected) in [
        ("x > 0.0", yes),
        ("0.0 < f", yes),
        ("x = 0.1", ["false", "false", "true"]),
        ("x > d", ["true", "true", "false"]),
        ("x in (0.0, 0.1)", ["false", "false", "true"]),
        ("x between 0.0 and 1.0", ["true", "false", "true"]),
        ("x is distinct from 0.0", yes),
        ("case when x > 0 then x else 0.5 end", whole),
        ("case when x < 0 then d when x > 0 then x end", whole),
        ("case x when 0.1 then 1 else 0 end", ["0", "0", "1"]),
        // The inner CASE is DECIMAL only once its own branches are brought together.
        ("x > case when d > 100 then 7 else 0.0 end", yes),
        ("coalesce(x, 0.0)", whole),
        ("nvl(x, 0.0)", whole),
        ("nullif(x, 0.0)", whole),
        ("greatest(x, 0.0)", whole),
        ("least(x, 1e31)", whole),
        ("make_array(0.5, x)[2]", whole),
        ("x + 0.0", whole),
        ("x * 1.0", whole),
        ("x * 0.3", ["3e-21", "3e29", "0.03"]),
    ] {
        let values = shown(
            &compile(text, &schema)
                .unwrap_or_else(|error| panic!("{}", error.render()))
                .evaluate(&rows)
                .unwrap_or_else(|error| panic!("{text}: {error}")),
        );
        assert_eq!(values, expected, "{text}");
    }
}

#[test]
fn comparisons_and_logic_follow_sql() {
    check("m = 0", "BOOLEAN", ["false", "true", "NULL"]);
    check("m is null or m > 0", "BOOLEAN", ["true", "false", "true"]);
    check("ok and null", "BOOLEAN", ["NULL", "false", "NULL"]);
    check("not ok", "BOOLEAN", ["false", "true", "NULL"]);
    check("n in (2, 3)", "BOOLEAN", ["false", "true", "NULL"]);
    check("n between 1 and 5", "BOOLEAN", ["false", "true", "NULL"]);
    check("big < 0.5", "BOOLEAN", ["true", "false", "NULL"]);
    check("ok is not true", "BOOLEAN", ["false", "true", "true"]);
    check(
        "m is distinct from null",
        "BOOLEAN",
        ["true", "true", "false"],
    );
}

#[test]
fn text_functions_work_on_characters() {
    check("lower(line)", "VARCHAR", ["hello world", "", "NULL"]);
    check("substr(line, 1, 5)", "VARCHAR", ["Hello", "", "NULL"]);
    check(
        "line || '!' || m",
        "VARCHAR",
        ["Hello World!1", "!0", "NULL"],
    );
    check("char_length('straße')", "INT", ["6", "6", "6"]);
    check("line like 'Hello%'", "BOOLEAN", ["true", "false", "NULL"]);
    check(
        "regexp_like(line, '^h', 'i')",
        "BOOLEAN",
        ["true", "false", "NULL"],
    );
    check(
        "trim(both 'H' from line)",
        "VARCHAR",
        ["ello World", "", "NULL"],
    );
    check(
        "coalesce(line, 'none')",
        "VARCHAR",
        ["Hello World", "", "none"],
    );
    check(
        "nullif(line, '')",
        "VARCHAR",
        ["Hello World", "NULL", "NULL"],
    );
    check("position('W' in line)", "INT", ["7", "0", "NULL"]);
}

#[test]
fn case_casts_and_dates_give_plain_types() {
    check(
        "case when m > 0 then 'some' when m = 0 then 'none' end",
        "VARCHAR",
        ["some", "none", "NULL"],
    );
    check(
        "case m when 1 then 10 else 20 end",
        "BIGINT",
        ["10", "20", "20"],
    );
    check("cast(m as varchar)", "VARCHAR", ["1", "0", "NULL"]);
    check("try_cast('x' as int)", "INT", ["NULL", "NULL", "NULL"]);
    check(
        "cast('12.5' as decimal(6, 2))",
        "DECIMAL(6, 2)",
        ["12.50", "12.50", "12.50"],
    );
    check("at >= '2023-01-01'", "BOOLEAN", ["false", "true", "NULL"]);
    check("extract(year from at)", "INT", ["1970", "2023", "NULL"]);
    check(
        "date_trunc('year', at) = timestamp '1970-01-01 00:00:00'",
        "BOOLEAN",
        ["true", "false", "NULL"],
    );
}

#[test]
fn arrays_are_made_read_and_measured() {
    check("list[1]", "BIGINT", ["1", "NULL", "NULL"]);
    check("array_length(list)", "BIGINT UNSIGNED", ["2", "0", "NULL"]);
    check(
        "make_array(m, 7)",
        "ARRAY<BIGINT>",
        ["[1, 7]", "[0, 7]", "[, 7]"],
    );
    check("array_has(list, 2)", "BOOLEAN", ["true", "false", "NULL"]);
}

/// Proves the expression part of HND-027: a decimal keeps its digits and its sign as text.
#[test]
fn a_decimal_is_written_with_all_its_digits() {
    for (value, of) in [
        ("299999999.999999997", "decimal(38, 9)"),
        ("-0.000000001", "decimal(18, 9)"),
        ("0.000000000", "decimal(18, 9)"),
    ] {
        let text = format!("cast(cast('{value}' as {of}) as varchar)");
        check(&text, "VARCHAR", [value; 3]);
    }
}

/// Proves the expression part of HND-037: integers above 2^53 keep their digits.
#[test]
fn large_integers_never_pass_through_a_double() {
    check("9007199254740993", "BIGINT", ["9007199254740993"; 3]);
    check(
        "-9223372036854775808",
        "BIGINT",
        ["-9223372036854775808"; 3],
    );
    check(
        "9223372036854775808",
        "BIGINT UNSIGNED",
        ["9223372036854775808"; 3],
    );
    check(
        "cast('12345678901234567890' as decimal(20, 0)) + 1",
        "DECIMAL(21, 0)",
        ["12345678901234567891"; 3],
    );
    check(
        "123456789012345678901234567890",
        "DECIMAL(30, 0)",
        ["123456789012345678901234567890"; 3],
    );
    check(
        "big = -9223372036854775807",
        "BOOLEAN",
        ["false", "false", "NULL"],
    );
}

#[test]
fn names_are_matched_as_written_and_functions_in_any_case() {
    check("userId", "VARCHAR", ["a", "b", "c"]);
    check("UPPER(\"userId\")", "VARCHAR", ["A", "B", "C"]);
}

#[test]
fn only_the_columns_that_are_read_are_reported() {
    let index = |name: &str| schema().index_of(name).unwrap();
    assert_eq!(compiled("n + m + n").columns(), [index("n"), index("m")]);
    assert_eq!(compiled("1 + 1").columns(), [] as [usize; 0]);
    assert!(!compiled("1 + 1").nullable());
    assert!(compiled("n + 1").nullable());
}

#[test]
fn constants_are_folded_when_compiled() {
    // A division that could fail is gone: what is left is one literal, equal to the value written
    // out.
    let folded = compiled("10 / 5 + char_length('abc')");
    assert!(!folded.nullable());
    assert_eq!(shown(&folded.evaluate(&batch()).unwrap()), ["5"; 3]);
    assert_eq!(folded.columns(), [] as [usize; 0]);
}

#[test]
fn a_predicate_selects_only_what_is_true() {
    let predicate = compile_predicate("m = 1", &schema()).unwrap();
    let mask = predicate.select(&batch()).unwrap();
    assert_eq!(
        mask.iter().collect::<Vec<_>>(),
        [Some(true), Some(false), Some(false)]
    );
    assert_eq!(
        mask.values().count_set_bits(),
        1,
        "NULL must not count as selected"
    );
    let never = compile_predicate("null", &schema()).unwrap();
    assert_eq!(never.select(&batch()).unwrap().true_count(), 0);
}

#[test]
fn an_empty_batch_gives_an_empty_array_of_the_type() {
    let empty = batch().slice(0, 0);
    let array = compiled("lower(line)").evaluate(&empty).unwrap();
    assert_eq!(
        (array.len(), array.data_type().to_string().as_str()),
        (0, "Utf8")
    );
}

/// Splits a batch in every way into two and evaluates both parts.
fn cut_everywhere(text: &str, numbers: Vec<Option<i64>>) -> Vec<Vec<String>> {
    let column: ArrayRef = Arc::new(Int64Array::from(numbers));
    let batch = RecordBatch::try_from_iter([("a", column)]).unwrap();
    let expression = compile(text, &batch.schema()).unwrap();
    let evaluate = |from: usize, to: usize| match expression.evaluate(&batch.slice(from, to - from))
    {
        Ok(array) => shown(&array),
        Err(error) => vec![format!(
            "row {}: {}",
            from + error.row_index.unwrap(),
            error.fault
        )],
    };
    let rows = batch.num_rows();
    (0..=rows)
        .map(|cut| [evaluate(0, cut), evaluate(cut, rows)].concat())
        .collect()
}

/// DESIGN 3: batching never changes results, nor whether there is a failure.
#[test]
fn the_guarded_side_counts_only_for_rows_that_need_it_however_batches_are_cut() {
    let numbers = vec![Some(5), Some(0), Some(4), None, Some(2), Some(0), Some(1)];
    let cases = [
        (
            "a <> 0 and 10 / a > 2",
            ["false", "false", "false", "NULL", "true", "false", "true"],
        ),
        (
            "a = 0 or 10 / a > 2",
            ["false", "true", "false", "NULL", "true", "true", "true"],
        ),
        (
            "a is not null and not (a = 0 or 10 / a > 2)",
            ["true", "false", "true", "false", "false", "false", "false"],
        ),
    ];
    for (text, expected) in cases {
        for cut in cut_everywhere(text, numbers.clone()) {
            assert_eq!(cut, expected, "{text}");
        }
    }
    let guarded = ["2", "NULL", "2", "NULL", "5", "NULL", "10"];
    for text in ["case when a <> 0 then 10 / a end", "10 / nullif(a, 0)"] {
        for cut in cut_everywhere(text, numbers.clone()) {
            assert_eq!(cut, guarded, "{text}");
        }
    }
    // COALESCE stops at the first value as well.
    assert!(
        cut_everywhere("coalesce(nullif(a, 0), 1 / a)", vec![Some(3), Some(0)])[0][0]
            .contains("row 1: division")
    );
}

#[test]
fn compiled_expressions_are_shared_between_threads() {
    let expression = compiled("lower(line)");
    let other = expression.clone();
    let handle = std::thread::scope(|scope| {
        scope
            .spawn(move || shown(&other.evaluate(&batch()).unwrap()))
            .join()
    });
    assert_eq!(
        handle.unwrap(),
        shown(&expression.evaluate(&batch()).unwrap())
    );
}
