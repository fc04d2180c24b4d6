//! Calls of the aggregate step.

use arrow::datatypes::DataType;
use millstream_expr::{AggregateFunction, parse_aggregate, sql_name};

use crate::{batch, schema, shown};

#[track_caller]
fn check(text: &str, function: AggregateFunction, input: &str, output: &str) {
    let call =
        parse_aggregate(text, &schema()).unwrap_or_else(|error| panic!("{}", error.render()));
    let found = call
        .input
        .as_ref()
        .map_or("-".to_owned(), |input| sql_name(input.data_type()));
    assert_eq!(
        (
            call.function,
            found.as_str(),
            sql_name(&call.output).as_str()
        ),
        (function, input, output),
        "{text}"
    );
    let is_count = matches!(
        function,
        AggregateFunction::Count | AggregateFunction::CountStar
    );
    assert_eq!(call.nullable, !is_count, "{text}");
}

#[track_caller]
fn refused(text: &str, expected: &str) {
    match parse_aggregate(text, &schema()) {
        Ok(call) => panic!("{text} was accepted: {call:?}"),
        Err(error) => {
            assert_eq!(error.to_string(), expected);
            assert!(!error.remedy().is_empty());
        }
    }
}

#[test]
fn inputs_are_cast_so_that_few_accumulators_suffice() {
    use AggregateFunction::*;
    check("count(*)", CountStar, "-", "BIGINT");
    check("count(1)", CountStar, "-", "BIGINT");
    check("count(n)", Count, "INT", "BIGINT");
    check("COUNT(lower(line))", Count, "VARCHAR", "BIGINT");
    check("sum(tiny)", Sum, "BIGINT", "BIGINT");
    check("sum(n * 2)", Sum, "BIGINT", "BIGINT");
    check("sum(x)", Sum, "DOUBLE", "DOUBLE");
    check("sum(price)", Sum, "DECIMAL(10, 2)", "DECIMAL(38, 2)");
    check("avg(n)", Avg, "BIGINT", "DOUBLE");
    check("avg(x)", Avg, "DOUBLE", "DOUBLE");
    check("avg(price)", Avg, "DECIMAL(10, 2)", "DECIMAL(38, 6)");
    check(
        "sum(9223372036854775808)",
        Sum,
        "DECIMAL(20, 0)",
        "DECIMAL(38, 0)",
    );
    check("min(line)", Min, "VARCHAR", "VARCHAR");
    check("max(at)", Max, "TIMESTAMP", "TIMESTAMP");
    check("(max(n))", Max, "INT", "INT");
    check("last_value(line)", LastValue, "VARCHAR", "VARCHAR");
}

#[test]
fn the_input_is_evaluated_in_the_accumulators_type() {
    let call = parse_aggregate("sum(n + m)", &schema()).unwrap();
    let input = call.input.unwrap();
    assert_eq!(input.data_type(), &DataType::Int64);
    assert_eq!(
        shown(&input.evaluate(&batch().slice(1, 2)).unwrap()),
        ["2", "NULL"]
    );
}

#[test]
fn what_there_is_not_is_said_with_what_there_is() {
    refused(
        "median(n)",
        "the aggregate median() does not exist here at line 1, column 1",
    );
    refused("lower(line)", "lower() is no aggregate at line 1, column 1");
    refused("summ(n)", "unknown aggregate \"summ\" at line 1, column 1");
    refused(
        "n + 1",
        "an aggregate step selects aggregate calls, this is none at line 1, column 1",
    );
    refused(
        "sum(n) + 1",
        "an aggregate step selects aggregate calls, this is none at line 1, column 1",
    );
    refused("sum(line)", "sum does not take VARCHAR at line 1, column 1");
    refused("avg(ok)", "avg does not take BOOLEAN at line 1, column 1");
    refused(
        "max(list)",
        "max does not take ARRAY<BIGINT> at line 1, column 1",
    );
    refused("sum(null)", "sum does not take NULL at line 1, column 1");
    refused("sum(*)", "sum takes one argument at line 1, column 1");
    refused("sum(n, m)", "sum takes one argument at line 1, column 1");
    refused("count()", "count takes one argument at line 1, column 1");
    refused(
        "sum(sum(n))",
        "the aggregate sum() needs many rows, an expression sees one row at line 1, column 5",
    );
    refused(
        "sum(amuont)",
        "unknown column \"amuont\" at line 1, column 5",
    );
    refused(
        "count(distinct n)",
        "DISTINCT in a call would keep every value ever seen in state at line 1, column 1",
    );
    refused(
        "sum(n) over ()",
        "a window function needs other rows, an expression sees one row at line 1, column 1",
    );
    let clause = "a clause inside a call (FILTER, ORDER BY, WITHIN GROUP, IGNORE NULLS) has no effect in a stream's \
                  expression at line 1, column 1";
    refused("sum(n) filter (where ok)", clause);
    let error = parse_aggregate("median(n)", &schema()).unwrap_err();
    assert_eq!(
        error.remedy(),
        "The aggregates are count(*), count(x), sum(x), min(x), max(x), avg(x) and last_value(x)."
    );
}
