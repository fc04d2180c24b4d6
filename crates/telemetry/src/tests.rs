use std::collections::BTreeMap;
use std::error::Error;
use std::sync::Arc;

use millstream_types::WallTime;
use parking_lot::Mutex;
use serde_json::Value;
use tracing::{debug, info, info_span, warn};

use super::*;

#[derive(Debug, thiserror::Error)]
#[error("checkpoint {0} not stored")]
struct NotStored(u64, #[source] std::io::Error);

#[derive(Debug, thiserror::Error)]
#[error("{0}, after 3 attempts")]
struct Told(#[source] std::io::Error);

fn not_stored() -> NotStored {
    NotStored(7, std::io::Error::other("disk full"))
}

/// Runs `story` under a log and returns its lines.
fn logged(format: LogFormat, filter: &str, story: impl FnOnce(&LogHandle)) -> Vec<String> {
    let lines = Arc::new(Mutex::new(Vec::new()));
    let config = LogConfig {
        format,
        filter: filter.to_owned(),
        static_fields: BTreeMap::from([("applicationVersionId".into(), "3".into())]),
        now: Arc::new(|| WallTime(1_700_000_000_000)),
    };
    let sink = lines.clone();
    let (subscriber, handle) =
        subscriber(config, move |line| sink.lock().push(line.to_owned())).unwrap();
    tracing::subscriber::with_default(subscriber, || story(&handle));
    std::mem::take(&mut *lines.lock())
}

#[test]
fn a_chain_names_every_cause_once() {
    assert_eq!(chain(&not_stored()), "checkpoint 7 not stored: disk full");
    let repeats = NotStored(7, std::io::Error::other(not_stored()));
    assert_eq!(chain(&repeats), "checkpoint 7 not stored: disk full");
    // As the object store's library does it: the cause in the middle of its error's text.
    let told = Told(std::io::Error::other("disk full"));
    assert_eq!(causes(&told), ["disk full, after 3 attempts"]);
}

// Proves F12.
#[test]
fn an_event_in_its_spans_becomes_one_json_line() {
    let lines = logged(LogFormat::Json, "info", |_| {
        let job = info_span!(
            "job",
            job_id = "00ff",
            thread_name = "Checkpoint Timer",
            attempt = 1
        );
        let _job = job.enter();
        let _subtask = info_span!("subtask", attempt = 2, subtask_index = 4).entered();
        let err = not_stored();
        warn!(
            checkpoint_id = 7,
            error = &err as &dyn Error,
            "metadata\nnot stored"
        );
    });
    let [line] = &lines[..] else {
        panic!("{lines:?}")
    };
    let json: Value = serde_json::from_str(line).unwrap();
    let expected = [
        ("applicationVersionId", "3"),
        ("logger", "millstream_telemetry::tests"),
        ("message", "metadata\nnot stored"),
        ("messageType", "WARN"),
        ("threadName", "Checkpoint Timer"),
        (
            "throwableInformation",
            "checkpoint 7 not stored\nCaused by: disk full",
        ),
        ("jobId", "00ff"),
    ];
    for (key, value) in expected {
        assert_eq!(json[key], value, "{key}");
    }
    assert_eq!(
        (&json["checkpointId"], &json["attempt"]),
        (&Value::from(7), &Value::from(2))
    );
    assert_eq!(json["fields"], serde_json::json!({"subtask_index": 4}));
    let location = json["locationInformation"].as_str().unwrap();
    assert!(
        location.starts_with("millstream_telemetry::tests(tests.rs:"),
        "{location}"
    );
}

#[test]
fn text_shows_context_message_and_fields() {
    let lines = logged(LogFormat::Text, "info", |_| {
        let span = info_span!("job", job_id = "00ff", state = tracing::field::Empty);
        let _entered = span.enter();
        span.record("state", "RUNNING");
        info!(n_tasks = 3, ratio = f64::NAN, "job started");
    });
    assert_eq!(
        lines,
        [
            "2023-11-14T22:13:20.000Z INFO  millstream_telemetry::tests job_id=00ff state=RUNNING: \
          job started n_tasks=3 ratio=NaN"
        ]
    );
}

#[test]
fn the_level_changes_while_the_process_runs() {
    let lines = logged(LogFormat::Text, "info", |handle| {
        debug!("hidden");
        handle
            .set_filter("warn,millstream_telemetry=debug")
            .unwrap();
        debug!("shown");
        handle.set_filter("off").unwrap();
        warn!("hidden again");
    });
    assert_eq!(lines.len(), 1);
    assert!(lines[0].ends_with(": shown"), "{lines:?}");
}

#[test]
fn a_filter_that_is_none_is_refused_with_both_forms() {
    let config = LogConfig {
        format: LogFormat::Text,
        filter: "millstream_rpc=loud".into(),
        static_fields: BTreeMap::new(),
        now: Arc::new(|| WallTime(0)),
    };
    let error = subscriber(config, |_| {}).map(|_| ()).unwrap_err();
    let text = error.to_string();
    assert!(
        text.contains("\"millstream_rpc=loud\"") && text.contains("=debug"),
        "{text}"
    );
}

#[test]
fn recent_lines_are_kept_for_the_page() {
    let mut tail = None;
    let lines = logged(LogFormat::Text, "info", |handle| {
        info!("one");
        info!("two");
        tail = Some(handle.ring().tail(1));
    });
    let tail = tail.unwrap();
    assert_eq!(tail.lines[0].as_ref(), lines[1]);
}

// Proves F12 for the lines that a parent passes on.
#[test]
fn a_record_of_a_child_is_passed_on_as_it_is_and_nothing_else_is_taken_for_one() {
    let record = r#"{"message":"of the child","messageType":"DEBUG"}"#;
    let lines = logged(LogFormat::Json, "error", |_| {
        assert!(pass_on(&format!("\u{1e}{record}")));
        assert!(
            !pass_on(record),
            "without its mark it is a line like others"
        );
        assert!(pass_on("\u{1e}no object \u{1b}[31m"));
    });
    assert_eq!(lines[0], record);
    let other: Value = serde_json::from_str(&lines[1]).unwrap();
    assert_eq!(other["message"], "no object \u{1b}[31m");
    assert_eq!(lines.len(), 2);
    let lines = logged(LogFormat::Text, "error", |_| {
        assert!(pass_on("\u{1e}2026 INFO child: text \u{1b}[31m"));
    });
    assert_eq!(lines, ["2026 INFO child: text \\u{1b}[31m"]);
}
