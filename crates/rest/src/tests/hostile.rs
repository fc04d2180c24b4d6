//! What is not there, what is no id, what is no request.

use std::collections::BTreeMap;
use std::sync::Arc;

use axum::body::Body;
use axum::http::{Method, Request};
use millstream_telemetry::{LogConfig, LogFormat};

use super::fixture::{Fixture, NOW, RUNNING};
use super::{get, send};

#[tokio::test]
async fn what_is_not_known_is_not_found_in_one_line() {
    let unknown = "0".repeat(32);
    let paths = [
        format!("/jobs/{unknown}"),
        format!("/jobs/{unknown}/checkpoints"),
        format!("/?job={unknown}"),
        "/taskmanagers/tm-gone".to_owned(),
    ];
    for path in paths {
        let reply = get(Fixture::default(), &path).await;
        assert_eq!(reply.status, 404, "{path}");
        assert!(
            reply.error().contains("not found"),
            "{path}: {}",
            reply.body
        );
    }
}

#[tokio::test]
async fn an_error_has_the_code_of_the_catalogue_beside_the_text_that_flink_clients_read() {
    let unknown = format!("/jobs/{}", "0".repeat(32));
    for (path, code) in [
        (unknown.as_str(), Some("SUBM-0010")),
        ("/jobs/12", Some("SUBM-0001")),
        ("/jobs/%ff", Some("SUBM-0001")),
        ("/nowhere", Some("SUBM-0001")),
        ("/taskmanagers/tm-gone", None),
    ] {
        let reply = get(Fixture::default(), path).await;
        assert!(!reply.error().is_empty(), "{path}");
        assert_eq!(reply.code().as_deref(), code, "{path}");
        let n_fields = reply.json().as_object().unwrap().len();
        assert_eq!(n_fields, 1 + usize::from(code.is_some()), "{}", reply.body);
    }
    let request = Request::post("/jobs").body(Body::empty()).unwrap();
    let changing = send(Fixture::default(), request).await;
    assert_eq!(changing.code().as_deref(), Some("SUBM-0001"));
    let request = Request::get("/jobs").header("content-length", (1_u64 << 20) + 1);
    let long = send(Fixture::default(), request.body(Body::empty()).unwrap()).await;
    assert_eq!(long.code().as_deref(), Some("SUBM-0001"));
    let view = Fixture {
        is_down: true,
        ..Fixture::default()
    };
    assert_eq!(
        get(view, "/jobs").await.code().as_deref(),
        Some("CONN-0008")
    );
}

/// A page that was left open asks for a taskmanager that is gone: nobody has to act on that.
/// Proves F13.
#[tokio::test]
async fn a_taskmanager_that_is_gone_is_logged_at_debug_and_no_higher() {
    let logged = |filter: &str| {
        let config = LogConfig {
            format: LogFormat::Text,
            filter: filter.to_owned(),
            static_fields: BTreeMap::new(),
            now: Arc::new(|| NOW),
        };
        millstream_telemetry::subscriber(config, |_| {}).unwrap()
    };
    // Other tests run in this process and may be the first to come by the line, without a subscriber:
    // that it is of no interest is then remembered for all. So it is passed once before.
    get(Fixture::default(), "/taskmanagers/tm-gone").await;
    for (filter, n_lines) in [("debug", 1), ("info", 0)] {
        let (subscriber, handle) = logged(filter);
        let guard = tracing::subscriber::set_default(subscriber);
        tracing::callsite::rebuild_interest_cache();
        let reply = get(Fixture::default(), "/taskmanagers/tm-gone").await;
        drop(guard);
        assert_eq!(reply.status, 404);
        let lines = handle.ring().tail(10).lines;
        assert_eq!(lines.len(), n_lines, "{filter}: {lines:?}");
        assert!(
            lines.iter().all(|line| line.contains("tm-gone not found")),
            "{lines:?}"
        );
    }
}

#[tokio::test]
async fn what_is_no_id_is_refused_with_the_form_expected() {
    for path in ["/jobs/12", "/jobs/xyz/checkpoints", "/?job=%3Cscript%3E"] {
        let reply = get(Fixture::default(), path).await;
        assert_eq!(reply.status, 400, "{path}");
        assert!(reply.error().contains("32 hexadecimal digits"), "{path}");
    }
}

/// No path leads to a file, however it is written. Proves HND-076.
#[tokio::test]
async fn no_way_of_writing_a_path_reads_a_file() {
    let directory = tempfile_canary();
    let steps = "../".repeat(12);
    let file = directory.path().join("canary").display().to_string();
    let relative = file.trim_start_matches('/');
    let attacks = [
        format!("{steps}{relative}"),
        format!("{steps}{relative}").replace('/', "%2f"),
        format!("{steps}{relative}").replace('/', "%252f"),
        format!("{steps}{relative}").replace("..", "%2e%2e"),
        format!("{steps}{relative}").replace('/', "%5c"),
        format!("/{relative}"),
        file.replace('/', "%2F"),
        "%00".to_owned(),
        format!("x%00{relative}"),
        "%ff%fe".to_owned(),
        "..".to_owned(),
        "a".repeat(8_000),
    ];
    for route in ["/", "/jobs/", "/taskmanagers/", "/style.css/", "/logs/"] {
        for attack in &attacks {
            for suffix in ["", "/checkpoints"] {
                let path = format!("{route}{attack}{suffix}");
                let reply = get(Fixture::default(), &path).await;
                assert!(
                    matches!(reply.status.as_u16(), 400 | 404),
                    "{path}: {}",
                    reply.status
                );
                assert!(!reply.body.contains(CANARY), "{path}");
                assert!(reply.body.len() < 1_000, "{path}");
                reply.error();
            }
        }
    }
}

const CANARY: &str = "the canary sings";

fn tempfile_canary() -> tempfile::TempDir {
    let directory = tempfile::tempdir().unwrap();
    std::fs::write(directory.path().join("canary"), CANARY).unwrap();
    directory
}

#[tokio::test]
async fn nothing_can_be_changed() {
    for method in [Method::POST, Method::PUT, Method::PATCH, Method::DELETE] {
        for path in [
            "/",
            "/jobs",
            "/jobs/overview",
            &format!("/jobs/{RUNNING}"),
            "/taskmanagers",
        ] {
            let request = Request::builder().method(&method).uri(path);
            let reply = send(Fixture::default(), request.body(Body::empty()).unwrap()).await;
            assert_eq!(reply.status, 405, "{method} {path}");
            assert!(reply.error().contains("read-only"));
        }
    }
}

#[tokio::test]
async fn a_body_beyond_a_mebibyte_is_refused_before_it_is_read() {
    let request = Request::get("/jobs").header("content-length", (1_u64 << 20) + 1);
    let reply = send(Fixture::default(), request.body(Body::empty()).unwrap()).await;
    assert_eq!(reply.status, 413);
    assert!(reply.error().contains("1048576"));
}

#[tokio::test]
async fn every_answer_forbids_scripts_frames_and_guessing_and_sets_no_cookie() {
    for path in ["/", "/style.css", "/jobs", "/jobs/x", "/nowhere"] {
        let headers = get(Fixture::default(), path).await.headers;
        let policy = headers["content-security-policy"].to_str().unwrap();
        assert!(policy.starts_with("default-src 'self'"), "{path}: {policy}");
        assert!(!policy.contains("unsafe"), "{path}: {policy}");
        assert_eq!(headers["x-content-type-options"], "nosniff");
        assert_eq!(headers["x-frame-options"], "DENY");
        assert!(!headers.contains_key("set-cookie"));
    }
}

#[tokio::test]
async fn a_jobmanager_that_stops_says_so() {
    for path in ["/overview", "/jobs", "/taskmanagers", "/"] {
        let view = Fixture {
            is_down: true,
            ..Fixture::default()
        };
        let reply = get(view, path).await;
        assert_eq!(reply.status, 503, "{path}");
        assert!(reply.error().contains("it is stopping"));
    }
}
