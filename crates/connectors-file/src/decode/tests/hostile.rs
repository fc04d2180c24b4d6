//! Records at the edges of what JSON and CSV say.

use super::*;

/// Columns, a number for the first of them, and the row or what the flaw says.
type Number<'a> = (&'a [(&'a str, DataType)], &'a str, Result<&'a str, &'a str>);

const ID: [(&str, DataType); 1] = [("id", DataType::Int64)];
const D: [(&str, DataType); 1] = [("d", DataType::Float64)];
const F: [(&str, DataType); 1] = [("f", DataType::Float32)];
const T: [(&str, DataType); 1] = [("t", DataType::Utf8)];

#[test]
fn a_number_that_is_none_or_fits_nowhere_is_a_bad_record_and_never_another_number() {
    let cases: [Number<'_>; 22] = [
        (&ID, "-9223372036854775808", Ok("-9223372036854775808")),
        (&ID, "-9223372036854775809", Err("is no BIGINT")),
        (&ID, "18446744073709551615", Err("is no BIGINT")),
        (&ID, "1e2", Err("is no BIGINT")),
        (&ID, "-0", Ok("0")),
        (&ID, "+1", Err("")),
        (&ID, "-", Err("")),
        (&ID, "0x10", Err("")),
        (&ID, "1.", Err("")),
        (&ID, ".5", Err("")),
        (&ID, "true", Err("")),
        (&D, "1e400", Err("\"1e400\" is no DOUBLE")),
        (&D, "-1e400", Err("\"-1e400\" is no DOUBLE")),
        (&D, "1e-400", Ok("0.0")),
        (&D, "-0", Ok("-0.0")),
        (&D, "-0.0", Ok("-0.0")),
        (&D, "9007199254740993", Ok("9007199254740992.0")),
        (&D, "NaN", Err("")),
        (&D, "Infinity", Err("")),
        (&D, "-Infinity", Err("")),
        (&F, "3.5e38", Err("is no FLOAT")),
        (&F, "16777217", Ok("16777216.0")),
    ];
    for (columns, number, expected) in cases {
        let name = columns[0].0;
        let found = json(columns, &format!("{{\"{name}\":{number}}}"));
        match expected {
            Ok(row) => assert_eq!(found.as_deref(), Ok(row), "{number}"),
            Err(why) => {
                let flaw = found.expect_err(number);
                assert!(flaw.contains(why), "{number}: {flaw}");
            }
        }
    }
}

#[test]
fn csv_has_words_for_what_is_no_number_and_none_for_what_is_too_large() {
    for (text, expected) in [
        ("NaN", Some("NaN")),
        ("inf", Some("inf")),
        ("-Infinity", Some("-inf")),
        ("-0.0", Some("-0.0")),
        ("1e400", None),
        ("0x1p3", None),
        ("1_000", None),
        ("1 000", None),
    ] {
        assert_eq!(csv(&D, "d", text).ok().as_deref(), expected, "{text}");
    }
    for text in ["9223372036854775808", "1.0", "1e2", "٣"] {
        assert!(csv(&ID, "id", text).is_err(), "{text}");
    }
}

#[test]
fn surrogates_come_in_pairs_or_not_at_all() {
    for (escape, expected) in [
        (r"\ud83d\ude00", Some("😀")),
        (r"\ud800", None),
        (r"\udc00", None),
        (r"\ude00\ud83d", None),
        (r"\ud83d\ud83d", None),
        (r"\ud83dx", None),
        (r"\ud83d\n", None),
        (r"\ud83d\u0041", None),
        (r"\u12", None),
        (r"\u00g0", None),
        (r"\ufeff\ufffe", Some("\u{feff}\u{fffe}")),
    ] {
        let found = json(&T, &format!("{{\"t\":\"{escape}\"}}"));
        assert_eq!(found.ok().as_deref(), expected, "{escape}");
    }
}

#[test]
fn a_zero_byte_is_text_where_the_format_has_a_form_for_it() {
    assert_eq!(json(&T, "{\"t\":\"a\\u0000b\"}").unwrap(), "a\0b");
    let raw = json(&T, "{\"t\":\"a\0b\"}").unwrap_err();
    assert!(
        raw.contains("control character 0x00 within a text"),
        "{raw}"
    );
    assert!(json(&T, "{\"t\":\"a\"}\0").is_err());
    assert_eq!(csv(&T, "t", "a\0b").unwrap(), "a\0b");
    let text = decoder(&FileFormat::Text, &T);
    assert_eq!(one(text, b"a\0b").unwrap(), "a\0b");
}

#[test]
fn objects_may_be_nested_as_deep_as_lists() {
    let deep = |levels: usize| {
        let (open, close) = ("{\"a\":".repeat(levels), "}".repeat(levels));
        json(&ID, &format!("{{\"x\":{open}1{close},\"id\":1}}"))
    };
    assert_eq!(deep(63).unwrap(), "1");
    assert!(deep(64).unwrap_err().contains("nested deeper than 64"));
    assert!(deep(50_000).is_err());
}

#[test]
fn what_is_not_quite_json_is_a_bad_record() {
    for record in [
        "[{\"id\":1}]",
        "{\"id\":1}]",
        "{\"id\":1},",
        "{'id':1}",
        "{\"id\":1 // one\n}",
        "{\"id\":1;}",
        "{,\"id\":1}",
        "{\"id\":1,,\"x\":2}",
        "{\"id\":}",
        "{\"id\"}",
        "{\"id\":1",
        "\u{feff}{\"id\":1}",
        "{\"id\":\u{a0}1}",
        "\"id\"",
        "null",
    ] {
        assert!(json(&ID, record).is_err(), "{record}");
    }
    // Of a key that comes twice the last counts, whatever it is, and however it is written.
    assert_eq!(json(&ID, "{\"id\":1,\"\\u0069d\":2}").unwrap(), "2");
    assert_eq!(json(&ID, "{\"id\":1,\"id\":null}").unwrap(), "-");
    assert!(json(&ID, "{\"id\":\"x\",\"id\":1}").is_err());
    // A carriage return is space between values, as RFC 8259 has it.
    assert_eq!(json(&ID, "{\"id\":\r1\r}").unwrap(), "1");
}
