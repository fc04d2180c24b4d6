//! Errors of submission: words, places, remedies.

use std::sync::Arc;

use arrow::datatypes::{DataType, Field, Schema};
use millstream_expr::{ErrorKind, compile, compile_predicate};

use crate::{compiled, refused, schema};

#[track_caller]
fn check(text: &str, expected: &str) {
    assert_eq!(refused(text).to_string(), expected);
}

/// Proves the expression part of HND-039: each mistake is found with its place, before anything
/// runs.
#[test]
fn unknown_names_suggest_the_near_ones() {
    check(
        "lower(lien)",
        "unknown column \"lien\", did you mean \"line\"? at line 1, column 7",
    );
    check(
        "n + userid",
        "unknown column \"userid\", did you mean \"userId\"? at line 1, column 5",
    );
    check(
        "lowr(line)",
        "unknown function \"lowr\", did you mean \"lower\"? at line 1, column 1",
    );
    check("word <> ''", "unknown column \"word\" at line 1, column 1");
    assert_eq!(
        refused("word <> ''").remedy(),
        "The columns are line, tiny, n, m, big, x, price, ok, at, list, userId; text is written in single quotes."
    );
}

#[test]
fn the_multi_line_form_points_at_the_place() {
    assert_eq!(
        refused("lower(line) <> ''\n  and lenght(line) > 3").render(),
        "unknown function \"lenght\", did you mean \"length\"? at line 2, column 7\n  \
           |\n\
         2 |   and lenght(line) > 3\n  \
           |       ^^^^^^\n  \
         help: The reference of expressions lists all functions."
    );
}

#[test]
fn type_errors_name_the_operator_and_the_types() {
    check(
        "n + line",
        "operator + does not take INT and VARCHAR at line 1, column 1",
    );
    check(
        "m > 0 and line = 5",
        "operator = does not take VARCHAR and BIGINT at line 1, column 11",
    );
    check(
        "n and ok",
        "operator AND does not take INT and BOOLEAN at line 1, column 1",
    );
    check(
        "ok + 1",
        "operator + does not take BOOLEAN and BIGINT at line 1, column 1",
    );
    check(
        "not n",
        "operator NOT does not take INT at line 1, column 5",
    );
    check(
        "- line",
        "operator - does not take VARCHAR at line 1, column 3",
    );
    check(
        "at > 5",
        "operator > does not take TIMESTAMP and BIGINT at line 1, column 1",
    );
    check(
        "list + 1",
        "operator + does not take ARRAY<BIGINT> and BIGINT at line 1, column 1",
    );
    check(
        "line in ('a', 7)",
        "these types do not go together: VARCHAR, BIGINT at line 1, column 1",
    );
    check(
        "coalesce(line, 0)",
        "function coalesce does not take (VARCHAR, BIGINT) at line 1, column 1",
    );
    check(
        "n like '1%'",
        "these types do not go together: INT, VARCHAR at line 1, column 1",
    );
    assert_eq!(
        refused("n + line").remedy(),
        "Cast one side, for example CAST(... AS INT)."
    );
}

#[test]
fn functions_say_how_they_are_called() {
    let error = refused("1 + char_length(line, 3)");
    assert_eq!(
        error.to_string(),
        "function char_length does not take (VARCHAR, BIGINT) at line 1, column 5"
    );
    assert!(
        error.remedy().starts_with("It is called "),
        "{}",
        error.remedy()
    );
    check(
        "cast(list as int)",
        "cannot cast ARRAY<BIGINT> to INT at line 1, column 6",
    );
}

#[test]
fn text_that_is_no_expression_is_placed() {
    check(
        "n +",
        "expected an expression, found the end of the expression at line 1, column 4",
    );
    check(
        "",
        "expected an expression, found the end of the expression at line 1, column 1",
    );
    check(
        "n m",
        "expected an operator or the end of the expression, found m at line 1, column 3",
    );
    check(
        "lower(line) as word",
        "an expression has no AS, its name is given beside it at line 1, column 13",
    );
    check("n # m", "there is no operator # at line 1, column 3");
    check(
        "f(n",
        "expected ), found the end of the expression at line 1, column 4",
    );
    let error = refused("'abc");
    assert!(matches!(error.kind(), ErrorKind::Syntax { .. }), "{error}");
    assert_eq!(error.position().column, 1);
}

#[test]
fn what_would_not_replay_is_refused_with_a_remedy() {
    for text in [
        "now()",
        "current_date",
        "current_timestamp",
        "CURRENT_TIME",
        "today()",
        "localtimestamp",
    ] {
        let error = refused(text);
        assert!(
            error
                .to_string()
                .contains("reads the clock, so a replay after a failure"),
            "{error}"
        );
        assert_eq!(error.remedy(), "Use a column with the time of the event.");
    }
    for text in ["random()", "uuid()", "line || uuid()", "gen_random_uuid()"] {
        let error = refused(text);
        assert!(
            error
                .to_string()
                .contains("gives another value each time it runs"),
            "{error}"
        );
    }
    assert!(
        refused("version()")
            .to_string()
            .contains("depends on where the job runs")
    );
    assert_eq!(refused("line || uuid()").position().column, 9);
}

#[test]
fn what_needs_other_rows_is_refused_with_a_remedy() {
    let cases = [
        ("(select 1)", "a subquery needs other rows"),
        ("n in (select 1)", "a subquery needs other rows"),
        ("exists (select 1)", "a subquery needs other rows"),
        ("1 + sum(n)", "the aggregate sum() needs many rows"),
        ("count(*)", "the aggregate count() needs many rows"),
        (
            "row_number() over (order by n)",
            "a window function needs other rows",
        ),
        ("lower(line) over ()", "a window function needs other rows"),
        ("$1 + n", "the placeholder $1 has no value"),
        ("concat(*)", "* stands for many columns"),
        ("unnest(list)", "unnest() makes many rows of one"),
        (
            "lower(distinct line)",
            "DISTINCT in a call would keep every value",
        ),
    ];
    for (text, expected) in cases {
        let error = refused(text);
        assert!(error.to_string().starts_with(expected), "{text}: {error}");
        assert!(!error.remedy().is_empty());
    }
}

#[test]
fn patterns_are_checked_when_compiled() {
    let error = refused("regexp_like(line, '(')");
    assert_eq!(
        error.to_string(),
        "the pattern '(' is not a regular expression: unclosed group at line 1, column 1"
    );
    assert!(
        refused("regexp_like(line, '(a)\\1')")
            .remedy()
            .contains("no back-references")
    );
    assert!(
        refused("line ~ '['")
            .to_string()
            .contains("is not a regular expression")
    );
    assert!(
        refused("regexp_split(line, userId)")
            .to_string()
            .starts_with("a regular expression must be a text literal")
    );
    assert!(
        refused("regexp_split(line, ' *')")
            .to_string()
            .contains("matches the empty text")
    );
    assert!(
        refused("regexp_count(line, '(a{1000}){1000}')")
            .to_string()
            .contains("too large when compiled")
    );
    assert!(
        refused("line similar to userId")
            .to_string()
            .starts_with("a regular expression must be")
    );
}

#[test]
fn conditions_and_schemas_are_checked() {
    let error = compile_predicate("  n + 1", &schema()).unwrap_err();
    assert_eq!(
        error.to_string(),
        "a condition must be BOOLEAN, this is BIGINT at line 1, column 3"
    );
    let twice = Schema::new(vec![
        Field::new("a", DataType::Int64, true),
        Field::new("a", DataType::Utf8, true),
    ]);
    let error = compile("a", &Arc::new(twice)).unwrap_err();
    assert_eq!(
        error.kind(),
        &ErrorKind::DuplicateColumn { name: "a".into() }
    );
}

#[test]
fn literals_that_cannot_be_read_are_found_when_compiled() {
    let error = refused("at > 'yesterday'");
    assert!(
        matches!(error.kind(), ErrorKind::AlwaysFails { .. }),
        "{error}"
    );
    assert!(error.to_string().contains("yesterday"), "{error}");
    assert_eq!(
        refused("cast('abc' as int)").to_string(),
        "this fails for every row: cannot cast 'abc' to INT at line 1, column 6"
    );
}

#[test]
fn no_message_names_the_library() {
    let texts = [
        "n + line",
        "lower(1, 2, 3)",
        "array_has(n, 1)",
        "date_trunc(5, at)",
        "n.field",
        "list['a']",
        "m[1:2]",
        "x is normalized",
        "line collate \"de\"",
        "extract(foo from at)",
        "struct(n).c9",
        "n -> 'a'",
        "interval 'x'",
        "cast(n as nosuchtype)",
        "line like 'a' escape '!'",
        "map(1)",
        "array_concat(1, 2)",
        "n at time zone 5",
        "@v",
        "any_value(n)",
        "ceil(n to day)",
    ];
    for text in texts {
        let error = refused(text);
        let shown = error.render();
        for word in [
            "DataFusion",
            "datafusion",
            "Arrow",
            "Int32",
            "Int64",
            "Utf8",
            "ScalarUDF",
            "ignature",
            "BinaryOp",
            "Some(",
            "panick",
        ] {
            assert!(!shown.contains(word), "{text}: {shown}");
        }
        assert!(
            !matches!(error.kind(), ErrorKind::Internal { .. }),
            "{text}: {shown}"
        );
        assert_eq!(error.to_string().lines().count(), 1, "{shown}");
    }
}

#[test]
fn what_is_accepted_next_to_what_is_refused() {
    for text in [
        "line || 1",
        "at > '2026-01-01'",
        "at + interval '1 day'",
        "n = 1.5",
        "null = n",
        "line ~ '^a'",
    ] {
        compiled(text);
    }
}
