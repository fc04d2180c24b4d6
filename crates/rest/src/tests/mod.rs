mod api;
mod fixture;
mod hostile;
mod page;
mod serving;

use std::sync::Arc;

use axum::body::{Body, to_bytes};
use axum::http::{HeaderMap, Request, StatusCode};
use millstream_env::ManualClock;
use serde_json::Value;
use tower::ServiceExt;

use fixture::{Fixture, NOW};

/// A whole answer.
struct Reply {
    status: StatusCode,
    headers: HeaderMap,
    body: String,
}

impl Reply {
    fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap()
    }

    /// The one line of Flink's error form.
    fn error(&self) -> String {
        let json = self.json();
        let errors = json["errors"].as_array().unwrap();
        assert_eq!(errors.len(), 1);
        let line = errors[0].as_str().unwrap().to_owned();
        assert!(!line.contains('\n'), "{line}");
        line
    }

    /// The code beside it.
    fn code(&self) -> Option<String> {
        let json = self.json();
        let code = json.get("code")?;
        Some(code.as_str().expect("a code is a text").to_owned())
    }
}

async fn send(view: Fixture, request: Request<Body>) -> Reply {
    let clock = ManualClock::new(NOW).clock();
    let response = crate::router(Arc::new(view), clock)
        .oneshot(request)
        .await
        .unwrap();
    let (head, body) = response.into_parts();
    let body = to_bytes(body, usize::MAX).await.unwrap();
    Reply {
        status: head.status,
        headers: head.headers,
        body: String::from_utf8(body.to_vec()).unwrap(),
    }
}

async fn get(view: Fixture, path: &str) -> Reply {
    send(view, Request::get(path).body(Body::empty()).unwrap()).await
}
