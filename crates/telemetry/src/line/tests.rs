use super::*;
use proptest::prelude::*;

fn line() -> Line {
    Line {
        at: WallTime(1_700_000_000_123),
        level: "INFO",
        logger: "millstream_jobmanager::checkpoints".into(),
        module: "millstream_jobmanager::checkpoints".into(),
        file: "checkpoints.rs".into(),
        line: 42,
        thread: "Checkpoint Timer".into(),
        message: "Triggering checkpoint 7".into(),
        context: vec![
            ("job_id".into(), json!("00ff")),
            ("vertex_id".into(), json!(3)),
        ],
        fields: vec![
            ("checkpoint_id".into(), json!(7)),
            ("path".into(), json!("/a b")),
        ],
        error_chain: Vec::new(),
    }
}

fn json_of(line: &Line) -> Value {
    let statics = BTreeMap::from([("applicationARN".to_owned(), "arn:app".to_owned())]);
    serde_json::from_str(&line.format(LogFormat::Json, &statics)).unwrap()
}

fn text_of(line: &Line) -> String {
    line.format(LogFormat::Text, &BTreeMap::new())
}

// Proves F12.
#[test]
fn json_has_the_keys_collectors_were_told_of() {
    assert_eq!(
        json_of(&line()),
        json!({
            "applicationARN": "arn:app",
            "applicationVersionId": "",
            "locationInformation": "millstream_jobmanager::checkpoints(checkpoints.rs:42)",
            "logger": "millstream_jobmanager::checkpoints",
            "message": "Triggering checkpoint 7",
            "messageSchemaVersion": "1",
            "messageType": "INFO",
            "threadName": "Checkpoint Timer",
            "timestamp": "2023-11-14T22:13:20.123Z",
            "jobId": "00ff",
            "checkpointId": 7,
            "fields": {"vertex_id": 3, "path": "/a b"},
        })
    );
}

// Proves F12.
#[test]
fn an_error_chain_is_one_escaped_string_in_json() {
    let mut line = line();
    line.error_chain = vec!["checkpoint not stored".into(), "disk full\nsda1".into()];
    let formatted = line.format(LogFormat::Json, &BTreeMap::new());
    assert!(!formatted.contains('\n'));
    assert_eq!(
        json_of(&line)["throwableInformation"],
        "checkpoint not stored\nCaused by: disk full\nsda1"
    );
}

#[test]
fn text_reads_from_left_to_right() {
    let mut line = line();
    line.error_chain = vec!["not stored".into(), "disk full".into()];
    assert_eq!(
        text_of(&line),
        "2023-11-14T22:13:20.123Z INFO  millstream_jobmanager::checkpoints job_id=00ff vertex_id=3: \
         Triggering checkpoint 7 checkpoint_id=7 path=\"/a b\" error=\"not stored: disk full\""
    );
}

#[test]
fn a_record_cannot_forge_another_one() {
    let mut line = line();
    line.message = "x\n2023-11-14T22:13:20.123Z ERROR forged".into();
    line.fields = vec![("name".into(), json!("\u{1b}[31mred\u{202e}"))];
    let text = text_of(&line);
    assert!(
        text.contains("x\\n2023") && text.contains("\\u{1b}[31mred\\u{202e}"),
        "{text}"
    );
}

#[test]
fn a_static_field_cannot_hide_what_happened() {
    let statics = BTreeMap::from([("message".to_owned(), "all is well".to_owned())]);
    let parsed: Value = serde_json::from_str(&line().format(LogFormat::Json, &statics)).unwrap();
    assert_eq!(parsed["message"], "Triggering checkpoint 7");
}

#[test]
fn an_events_own_field_wins_over_its_contexts() {
    let mut line = line();
    line.context.push(("attempt".into(), json!(1)));
    line.fields.push(("attempt".into(), json!(2)));
    assert_eq!(json_of(&line)["attempt"], 2);
}

#[test]
fn a_flood_is_cut_and_says_so() {
    let mut line = line();
    line.message = "é".repeat(1_000_000);
    for format in [LogFormat::Text, LogFormat::Json] {
        let formatted = line.format(format, &BTreeMap::new());
        assert!(formatted.len() < 2 * TEXT_BYTES_MAX, "{}", formatted.len());
        assert!(formatted.contains("[cut, 2000000 bytes]"));
    }
}

#[test]
fn times_are_written_in_utc() {
    let cases = [
        (0, "1970-01-01T00:00:00.000Z"),
        (-1, "1969-12-31T23:59:59.999Z"),
        (951_782_399_999, "2000-02-28T23:59:59.999Z"),
        (951_782_400_000, "2000-02-29T00:00:00.000Z"),
        (4_107_542_400_000, "2100-03-01T00:00:00.000Z"),
        (1_798_761_599_000, "2026-12-31T23:59:59.000Z"),
    ];
    for (millis, expected) in cases {
        assert_eq!(rfc3339(WallTime(millis)), expected);
    }
}

/// Control characters and line ends too.
const ANY_TEXT: &str = "(?s:.){0,60}";

proptest! {
    // Proves F12.
    #[test]
    fn whatever_is_logged_is_one_printable_line_and_parses(
        message in ANY_TEXT,
        name in "[a-z_]{1,10}",
        value in ANY_TEXT,
        cause in ANY_TEXT,
    ) {
        let mut line = line();
        line.message = message.clone();
        line.fields = vec![(name, json!(value))];
        line.error_chain = vec!["outer".into(), cause];
        for format in [LogFormat::Text, LogFormat::Json] {
            let formatted = line.format(format, &BTreeMap::new());
            prop_assert!(!formatted.chars().any(is_unsafe), "{formatted:?}");
        }
        prop_assert_eq!(&json_of(&line)["message"], &json!(message));
    }
}
