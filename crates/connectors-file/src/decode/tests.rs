use std::sync::Arc;

use arrow::datatypes::{DataType, Field, Schema, TimeUnit};
use proptest::prelude::*;

use crate::testing::{rows, schema};

use super::*;

mod hostile;

const TS: DataType = DataType::Timestamp(TimeUnit::Microsecond, None);

fn decoder(format: &FileFormat, columns: &[(&str, DataType)]) -> Decoder {
    Decoder::new(format, &schema(columns)).unwrap()
}

/// The row of one JSON record, or what is wrong with it, with the column from 1.
fn json(columns: &[(&str, DataType)], record: &str) -> Result<String, String> {
    one(decoder(&FileFormat::JsonLines, columns), record.as_bytes())
}

fn csv(columns: &[(&str, DataType)], header: &str, record: &str) -> Result<String, String> {
    let mut decoder = decoder(&FileFormat::Csv { delimiter: b',' }, columns);
    decoder.header(header.as_bytes()).map_err(shown)?;
    one(decoder, record.as_bytes())
}

fn one(mut decoder: Decoder, record: &[u8]) -> Result<String, String> {
    match decoder.record(record).map_err(shown)? {
        Decoded::Row => Ok(rows(&decoder.take().unwrap()).remove(0)),
        Decoded::Nothing => Ok("nothing".to_owned()),
    }
}

fn shown(flaw: Flaw) -> String {
    format!("{}: {}", flaw.at + 1, flaw.what)
}

fn id_and_name() -> [(&'static str, DataType); 2] {
    [("id", DataType::Int64), ("name", DataType::Utf8)]
}

// Proves HND-038.
#[test]
fn dirty_json_is_a_row_or_an_error_with_its_place_and_never_a_row_of_nulls() {
    let cases = [
        (r#"{"id":1,"name":"a"}"#, Ok("1|a")),
        (r#"{"id":2}"#, Ok("2|-")),
        (r#"{"id":3,"name":null}"#, Ok("3|-")),
        (r#"{"id":4,"name":"x","name":"y"}"#, Ok("4|y")),
        (
            r#"{"id":5,"name":"z",}"#,
            Err("19: nothing follows this comma but '}'"),
        ),
        ("[]", Err("1: a JSON object is expected, not a list")),
        ("", Ok("nothing")),
        (" \t", Ok("nothing")),
        ("17", Err("1: a JSON object is expected, not a number")),
        (
            r#"{"id":1} {"id":2}"#,
            Err("10: something follows the object; a line holds one"),
        ),
        (r#"{"id":1"#, Err("8: the record ends before its '}'")),
        (
            r#"{"id" 1}"#,
            Err("7: a colon is expected after the key \"id\""),
        ),
        (r#"{id:1}"#, Err("2: a key in quotes is expected here")),
        (r#"{"id":"1"}"#, Err("7: a text where BIGINT is declared")),
        (r#"{"id":1.0}"#, Err("7: \"1.0\" is no BIGINT")),
        (
            r#"{"id":1,"name":{"x":[1]}}"#,
            Err("16: an object where VARCHAR is declared"),
        ),
        (
            r#"{"id":1,"name":{"x":[1,]}}"#,
            Err("23: nothing follows this comma but ']'"),
        ),
        (
            r#"{"name":"tab	inside"}"#,
            Err("13: control character 0x09 within a text"),
        ),
        (r#"{"name":"open}"#, Err("15: a text is not closed")),
        (
            r#"{"other":[{"deep":[1,2,"]"]},null,true],"id":9}"#,
            Ok("9|-"),
        ),
        (
            r#" { "name" : "\u00e4\ud83d\ude00\n\"" , "id" : -0 } "#,
            Ok("0|ä😀\n\""),
        ),
        (
            r#"{"n\u0061me":"key with an escape"}"#,
            Ok("-|key with an escape"),
        ),
        (
            r#"{"name":"\ud800"}"#,
            Err("10: this escape is no character"),
        ),
        (r#"{"name":"\x"}"#, Err("10: this escape is none of JSON's")),
        (r#"{"id":01}"#, Err("8: a number does not start with 0")),
        (r#"{"id":tru}"#, Err("7: true is expected here")),
    ];
    for (record, expected) in cases {
        let expected = expected.map(str::to_owned).map_err(str::to_owned);
        assert_eq!(json(&id_and_name(), record), expected, "{record}");
    }
}

// Proves HND-038.
#[test]
fn a_field_that_must_be_there_may_be_null_but_not_missing() {
    let strict = |record: &str| {
        let decoder = decoder(&FileFormat::JsonLines, &id_and_name());
        one(decoder.failing_on_missing_fields(true), record.as_bytes())
    };
    assert_eq!(strict(r#"{"id":3,"name":null}"#).unwrap(), "3|-");
    assert_eq!(strict(r#"{"name":"a","id":1,"x":2}"#).unwrap(), "1|a");
    assert_eq!(
        strict(r#"{"id":2} "#).unwrap_err(),
        "8: the object ends without the field \"name\""
    );
    assert_eq!(
        strict("{}").unwrap_err(),
        "2: the object ends without the field \"id\""
    );
    // An empty line is no object.
    assert_eq!(strict("").unwrap(), "nothing");
    assert!(
        strict(r#"{"id":2} x"#)
            .unwrap_err()
            .contains("something follows")
    );
}

// Proves HND-037.
#[test]
fn numbers_keep_their_digits_or_are_refused() {
    let big = [
        ("id", DataType::Int64),
        ("amount", DataType::Decimal128(20, 0)),
    ];
    let record = r#"{"id":9007199254740993,"amount":12345678901234567890}"#;
    assert_eq!(
        json(&big, record).unwrap(),
        "9007199254740993|12345678901234567890"
    );
    assert_eq!(
        json(&big, r#"{"id":9223372036854775807}"#).unwrap(),
        "9223372036854775807|-"
    );
    assert_eq!(
        json(&big, r#"{"id":9223372036854775808}"#).unwrap_err(),
        "7: \"9223372036854775808\" is no BIGINT"
    );
    let money = [("d", DataType::Decimal128(6, 2))];
    let cases = [
        ("1234.56", Some("1234.56")),
        ("-0.5", Some("-0.50")),
        ("\"9999.99\"", Some("9999.99")),
        ("1.5e3", Some("1500.00")),
        ("12e-2", Some("0.12")),
        ("1.500", Some("1.50")),
        ("0e999999", Some("0.00")),
        ("1.505", None),
        ("10000", None),
        ("1e99999999999", None),
        ("1e-2000000000", None),
        ("\"\"", None),
        ("\"1_0\"", None),
    ];
    for (number, expected) in cases {
        let found = json(&money, &format!("{{\"d\":{number}}}"));
        assert_eq!(found.ok().as_deref(), expected, "{number}");
    }
}

#[test]
fn every_type_is_read_from_json_and_from_csv() {
    let columns = [
        ("a", DataType::Int32),
        ("b", DataType::Float64),
        ("c", DataType::Boolean),
        ("d", TS),
        ("e", DataType::Date32),
        ("f", DataType::Int16),
        ("g", DataType::Int8),
        ("h", DataType::Float32),
    ];
    let expected = "-7|0.25|true|2024-02-29T12:30:00.250678|0001-01-01|-32768|127|0.1";
    let record = r#"{"a":-7,"b":2.5e-1,"c":true,"d":"2024-02-29T13:30:00.2506789+01:00","e":"0001-01-01",
        "f":-32768,"g":127,"h":0.1}"#;
    assert_eq!(json(&columns, record).unwrap(), expected);
    let record = "-7, 0.25,TRUE,2024-02-29 12:30:00.250678Z,0001-01-01,-32768,127,0.1";
    assert_eq!(csv(&columns, "a,b,c,d,e,f,g,h", record).unwrap(), expected);
    for (of, text) in [
        (DataType::Int16, "32768"),
        (DataType::Int8, "-129"),
        (DataType::Float32, "1e39"),
    ] {
        let flaw = json(&[("x", of.clone())], &format!("{{\"x\":{text}}}"));
        assert!(flaw.is_err_and(|e| e.contains("is no")), "{of} {text}");
    }

    for (column, text) in [
        ("a", "2147483648"),
        ("a", "1.5"),
        ("b", "1e999"),
        ("b", "1,5"),
        ("c", "yes"),
        ("d", "2024-02-30"),
        ("d", "2023-02-29T00:00"),
        ("d", "2024-01-01T24:00:00"),
        ("d", "2024-01-01T00:00:00."),
        ("d", "2024-01-01T00:00:00+0"),
        ("d", "1714566600000"),
        ("e", "2024-1-1"),
        ("e", "2024-13-01"),
        ("e", "2024-01-01T00:00"),
        ("e", "20é4-01-01"),
    ] {
        let flaw = csv(
            &columns[..5],
            "a,b,c,d,e",
            &match column {
                "a" => format!("\"{text}\",,,,"),
                "b" => format!(",\"{text}\",,,"),
                "c" => format!(",,\"{text}\",,"),
                "d" => format!(",,,\"{text}\","),
                _ => format!(",,,,\"{text}\""),
            },
        );
        assert!(
            flaw.as_ref()
                .is_err_and(|e| e.contains(&format!("{text:?} is no"))),
            "{flaw:?}"
        );
    }
}

#[test]
fn dates_agree_with_an_independent_calendar() {
    let columns = [("d", DataType::Date32)];
    let mut expected = 0;
    for year in 1970..2405 {
        let is_leap = (year % 4 == 0 && year % 100 != 0) || year % 400 == 0;
        let february = if is_leap { 29 } else { 28 };
        for (month, days) in [31, february, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31]
            .iter()
            .enumerate()
        {
            for day in [1, *days] {
                let text = format!("{year:04}-{:02}-{day:02}", month + 1);
                assert_eq!(
                    temporal::date_days(&text),
                    Some(expected + day - 1),
                    "{text}"
                );
            }
            expected += days;
        }
    }
    assert_eq!(csv(&columns, "d", "1969-12-31").unwrap(), "1969-12-31");
}

// Proves HND-041.
#[test]
fn csv_quotes_mean_what_the_rule_says() {
    let columns = [("id", DataType::Int32), ("t", DataType::Utf8)];
    let cases = [
        ("1,\"he said \"\"hi\"\"\"", Ok("1|he said \"hi\"")),
        ("2,\"\"", Ok("2|")),
        ("3,", Ok("3|-")),
        ("4,\"a,b\"", Ok("4|a,b")),
        (
            "5,x,extra",
            Err("5: the record has more than the 2 fields of the header"),
        ),
        ("6,\"tail", Err("3: a quote is not closed")),
        ("7", Err("2: the record has 1 fields, the header has 2")),
        (
            "8,\"a\"b",
            Err("6: text follows a closing quote; a quote within quotes is written twice"),
        ),
        ("9,a\"b\"", Ok("9|a\"b\"")),
        ("10, \"a\"", Ok("10| \"a\"")),
        (",", Ok("-|-")),
        ("", Ok("nothing")),
        ("\"\",x", Err("1: \"\" is no INT")),
        ("11,\"two\nlines\"", Ok("11|two\nlines")),
    ];
    for (record, expected) in cases {
        let expected = expected.map(str::to_owned).map_err(str::to_owned);
        assert_eq!(csv(&columns, "id,t", record), expected, "{record}");
    }
}

#[test]
fn csv_columns_are_found_by_name() {
    let columns = id_and_name();
    assert_eq!(csv(&columns, "name,x,\"id\"", "a,b,1").unwrap(), "1|a");
    let missing = csv(&columns, "id,Name", "1,a").unwrap_err();
    assert!(
        missing.contains("no field \"name\", only [\"id\", \"Name\"]"),
        "{missing}"
    );
    assert!(
        csv(&columns, "id,name,id", "1,a,2")
            .unwrap_err()
            .contains("two fields \"id\"")
    );
    let one = [("t", DataType::Utf8)];
    assert_eq!(csv(&one, "t", "").unwrap(), "-", "the only field is empty");
}

#[test]
fn bytes_that_are_not_utf8_are_named() {
    for format in [FileFormat::Text, FileFormat::JsonLines] {
        let decoder = decoder(&format, &[("line", DataType::Utf8)]);
        assert_eq!(
            one(decoder, b"ab\xffc").unwrap_err(),
            "3: the bytes here are not UTF-8"
        );
    }
}

#[test]
fn a_record_without_a_value_that_must_be_there_is_bad() {
    let field = Field::new("id", DataType::Int64, false);
    let schema: SchemaRef = Arc::new(Schema::new(vec![field]));
    let mut decoder = Decoder::new(&FileFormat::JsonLines, &schema).unwrap();
    for record in [&b"{}"[..], b"{\"id\":null}"] {
        let flaw = decoder.record(record).unwrap_err();
        assert_eq!(
            flaw.what,
            "column \"id\" is missing or NULL and must not be"
        );
    }
    assert_eq!(decoder.len(), 0, "a bad record leaves nothing behind");
}

#[test]
fn nesting_is_limited_however_deep_it_is() {
    let deep = |levels: usize| {
        let (open, close) = ("[".repeat(levels), "]".repeat(levels));
        json(&id_and_name(), &format!("{{\"id\":1,\"x\":{open}{close}}}"))
    };
    assert_eq!(deep(63).unwrap(), "1|-");
    assert!(deep(64).unwrap_err().contains("nested deeper than 64"));
    assert!(deep(100_000).is_err());
}

// Proves HND-041: delimiters.
#[test]
fn a_delimiter_is_one_ascii_character() {
    let columns = schema(&id_and_name());
    for delimiter in *b";\t|" {
        let mut decoder = Decoder::new(&FileFormat::Csv { delimiter }, &columns).unwrap();
        let record = |text: &str| text.replace(',', char::from(delimiter).encode_utf8(&mut [0]));
        assert_eq!(decoder.header(record("id,name").as_bytes()), Ok(true));
        assert_eq!(
            one(decoder, record("1,\"é,\"").as_bytes()).unwrap(),
            record("1|é,")
        );
    }
    for delimiter in [b'"', b'\n', b'\r', 0xc2] {
        let format = FileFormat::Csv { delimiter };
        assert!(Decoder::new(&format, &columns).is_err());
    }
}

#[test]
fn types_without_a_form_are_refused_at_the_start() {
    let odd = schema(&[("x", DataType::Binary)]);
    let error = Decoder::new(&FileFormat::JsonLines, &odd).err().unwrap();
    assert!(
        error.to_string().contains("\"x\" of type Binary"),
        "{error}"
    );
    let two = schema(&id_and_name());
    assert!(Decoder::new(&FileFormat::Text, &two).is_err());
}

fn json_text() -> impl Strategy<Value = String> {
    let scalar = prop_oneof![
        Just("null".to_owned()),
        Just("true".to_owned()),
        any::<i64>().prop_map(|n| n.to_string()),
        "-?[0-9]{1,3}(\\.[0-9]{0,2})?([eE][+-]?[0-9]?)?",
        "\"[a-zé\\\\\"u0-9]{0,6}\"",
    ];
    let value = scalar.prop_recursive(3, 12, 3, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..3).prop_map(|v| format!("[{}]", v.join(","))),
            prop::collection::vec(("\"[ab]\"", inner), 0..3).prop_map(|v| {
                let pairs = v.iter().map(|(key, value)| format!("{key}:{value}"));
                format!("{{{}}}", pairs.collect::<Vec<_>>().join(", "))
            }),
        ]
    });
    let object = prop::collection::vec(("\"[abc]\"", value), 0..4).prop_map(|pairs| {
        let pairs = pairs.iter().map(|(key, value)| format!("{key}: {value}"));
        format!("{{{}}}", pairs.collect::<Vec<_>>().join(","))
    });
    // Sometimes one character is lost or doubled.
    (object, any::<prop::sample::Index>(), 0..4u8).prop_map(|(text, index, change)| {
        let mut chars: Vec<char> = text.chars().collect();
        let at = index.index(chars.len());
        match change {
            0 => drop(chars.remove(at)),
            1 => chars.insert(at, chars[at]),
            _ => {}
        }
        chars.into_iter().collect()
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    /// Ours accepts exactly the objects that serde_json accepts, and finds the same text in them.
    #[test]
    fn json_agrees_with_another_reader(text in json_text()) {
        let ours = json(&[("z", DataType::Utf8)], &text);
        let theirs = serde_json::from_str::<serde_json::Map<String, serde_json::Value>>(&text);
        // It reads numbers into doubles, and refuses those that are too large.
        prop_assume!(!theirs.as_ref().is_err_and(|e| e.to_string().contains("out of range")));
        if text.is_empty() {
            return Ok(());
        }
        prop_assert_eq!(ours.is_ok(), theirs.is_ok(), "{} {:?} {:?}", text, ours, theirs);
    }

    /// Texts and numbers come back as they were written by another writer.
    #[test]
    fn json_values_come_back(id in any::<i64>(), name in ".{0,20}", d in any::<f64>()) {
        prop_assume!(d.is_finite());
        let record = serde_json::json!({ "id": id, "name": name, "d": d }).to_string();
        let columns = [("id", DataType::Int64), ("name", DataType::Utf8)];
        prop_assert_eq!(json(&columns, &record).unwrap(), format!("{id}|{name}"));
        let mut double = decoder(&FileFormat::JsonLines, &[("d", DataType::Float64)]);
        double.record(record.as_bytes()).unwrap();
        let batch = double.take().unwrap();
        let found = arrow::array::AsArray::as_primitive::<arrow::datatypes::Float64Type>(batch.column(0));
        prop_assert_eq!(found.value(0).to_bits(), d.to_bits());
    }
}
