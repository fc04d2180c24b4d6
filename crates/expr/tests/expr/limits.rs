//! Bounds: docs/spec/bad-input.md, row "SQL / expressions".

use millstream_expr::{ErrorKind, MAX_DEPTH, MAX_LENGTH_BYTES, compile};

use crate::{batch, compiled, refused, schema, shown};

fn nested(depth: usize) -> String {
    format!("{}m{}", "(".repeat(depth), ")".repeat(depth))
}

#[test]
fn text_of_more_than_256_kib_is_refused_unread() {
    let error = refused(&format!("'{}'", "a".repeat(1024 * 1024)));
    assert_eq!(
        error.to_string(),
        "the expression has 1048578 bytes, more than 262144 at line 1, column 1"
    );
    let long = format!("line = '{}'", "a".repeat(MAX_LENGTH_BYTES - 20));
    compiled(&long);
}

#[test]
fn nesting_of_128_is_evaluated_and_more_is_refused_however_deep() {
    for text in [
        nested(MAX_DEPTH),
        format!("m{}", " + 0".repeat(MAX_DEPTH)),
        format!("{}m", "0 + (".repeat(MAX_DEPTH / 2)) + &")".repeat(MAX_DEPTH / 2),
    ] {
        assert_eq!(
            shown(&compiled(&text).evaluate(&batch()).unwrap()),
            ["1", "0", "NULL"],
            "{text}"
        );
    }
    let calls = format!(
        "{}line{}",
        "lower(".repeat(MAX_DEPTH),
        ")".repeat(MAX_DEPTH)
    );
    assert_eq!(
        shown(&compiled(&calls).evaluate(&batch()).unwrap()),
        ["hello world", "", "NULL"]
    );
    let cases = format!(
        "{}m{}",
        "case when ok then ".repeat(MAX_DEPTH),
        " end".repeat(MAX_DEPTH)
    );
    assert_eq!(
        shown(&compiled(&cases).evaluate(&batch()).unwrap()),
        ["1", "NULL", "NULL"]
    );

    for text in [
        nested(MAX_DEPTH + 1),
        nested(100_000),
        "(".repeat(200_000),
        "[".repeat(200_000),
        format!("m{}", "+m".repeat(100_000)),
        format!("{}ok", "not ".repeat(60_000)),
        format!("{}1", "case when ".repeat(20_000)),
        format!("m{}", "::int".repeat(50_000)),
        format!("m{}", " is null".repeat(30_000)),
        format!("m{}", "[1]".repeat(80_000)),
        format!(
            "cast(m as {}int{})",
            "array<".repeat(20_000),
            ">".repeat(20_000)
        ),
        "- ".repeat(100_000),
        "interval ".repeat(20_000),
        format!("a{}", ".b".repeat(100_000)),
        "end(".repeat(60_000),
        format!("m{}", " + then".repeat(30_000)),
        format!("case when m{}", " + end".repeat(30_000)),
        format!("m{}", " operator(+) m".repeat(15_000)),
    ] {
        let error = refused(&text);
        let expected = matches!(error.kind(), ErrorKind::TooDeep { max: MAX_DEPTH });
        assert!(expected, "{}: {error}", &text[..40]);
    }
}

#[test]
fn breadth_is_not_depth() {
    let items: Vec<String> = (0..20_000).map(|item| item.to_string()).collect();
    let wide = compiled(&format!("m in ({})", items.join(", ")));
    assert_eq!(
        shown(&wide.evaluate(&batch()).unwrap()),
        ["true", "true", "NULL"]
    );
}

#[test]
fn results_that_grow_without_bound_are_refused() {
    for text in [
        "repeat(line, 1000000000)",
        "repeat(line, n)",
        "lpad(line, 1000000000)",
        "range(0, 1000000000)",
        "range(0, n)",
        "range(-9223372036854775807, 9223372036854775807)",
        "generate_series(1, 1000000000)",
        "array_repeat(1, 1000000000)",
        "repeat(repeat('x', 60000), 60000)",
    ] {
        let error = refused(text);
        assert!(
            error
                .to_string()
                .contains("has no small fixed bound of its result"),
            "{text}: {error}"
        );
    }
    assert_eq!(
        shown(&compiled("repeat('ab', 2)").evaluate(&batch()).unwrap()),
        ["abab"; 3]
    );
    assert_eq!(
        shown(&compiled("range(0, 3)").evaluate(&batch()).unwrap()),
        ["[0, 1, 2]"; 3]
    );
}

/// A back-tracking engine would take years for this one.
#[test]
fn regular_expressions_run_in_linear_time() {
    let evil = compiled("regexp_like(repeat('a', 60000) || '!', '^(a+)+$')");
    assert_eq!(shown(&evil.evaluate(&batch()).unwrap()), ["false"; 3]);
}

#[test]
fn strange_characters_are_data_or_an_error_and_never_a_panic() {
    assert_eq!(
        shown(&compiled("char_length('a\0b')").evaluate(&batch()).unwrap()),
        ["3"; 3]
    );
    assert_eq!(
        shown(&compiled("'𝒳' || '\u{202e}'").evaluate(&batch()).unwrap()),
        ["𝒳\u{202e}"; 3]
    );
    for text in [
        "\0",
        "n \u{1} m",
        "\"",
        "n; drop table x",
        "n -- comment",
        "/* open",
        "\u{feff}n",
        "'; --",
        "\\",
        "n\u{a0}+ 1",
    ] {
        // Either is fine, as long as it is an answer.
        if let Err(error) = compile(text, &schema()) {
            assert!(
                !matches!(error.kind(), ErrorKind::Internal { .. }),
                "{error}"
            );
            assert!(!error.render().is_empty());
        }
    }
}

/// Forms that would double with each level, or be tried again and again to find the mistake in them.
#[test]
fn deep_nesting_takes_no_exponential_time() {
    let nested = |open: &str, inner: &str, close: &str, depth: usize| {
        format!("{}{inner}{}", open.repeat(depth), close.repeat(depth))
    };
    let deep = compiled(&nested("coalesce(", "m", ", m)", 100));
    assert_eq!(shown(&deep.evaluate(&batch()).unwrap()), ["1", "0", "NULL"]);
    let deep = compiled(&nested("nvl(", "m", ", 7)", 100));
    assert_eq!(shown(&deep.evaluate(&batch()).unwrap()), ["1", "0", "7"]);
    let error = refused(&nested("(", "ok", " between false and true)", 30));
    assert!(
        error
            .to_string()
            .starts_with("a BETWEEN on the left of BETWEEN"),
        "{error}"
    );
    let error = refused(&nested("true = all([", "ok", "])", 25));
    assert!(
        error
            .to_string()
            .starts_with("a comparison with ANY or ALL"),
        "{error}"
    );
    let error = refused(&nested("coalesce(m, ", "line", ", m)", 60));
    assert_eq!(
        error.to_string(),
        "function coalesce does not take (INT, VARCHAR, INT) at line 1, column 709"
    );
}
