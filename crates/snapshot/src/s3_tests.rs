//! The S3 client against a server in memory: what conditional creates, conflicts, outages and
//! retries look like through the real signing and parsing code.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use async_trait::async_trait;
use bytes::Bytes;
use millstream_types::{WallTime, WriteOutcome};
use object_store::ClientOptions;
use object_store::client::{
    HttpClient, HttpConnector, HttpError, HttpRequest, HttpResponse, HttpResponseBody, HttpService,
};
use parking_lot::Mutex;

use crate::error::StoreError;
use crate::names;
use crate::open::{
    self, OpenError, S3Credentials, S3Options, Secret, StorageConfig, open_with_connector,
};
use crate::probe::ProbeError;
use crate::store::{Created, Store, StorePolicy};
use crate::testing::{POLICY, env};

const POLICY_S3: StorePolicy = StorePolicy {
    part_bytes: 5 << 20,
    ..POLICY
};

/// A bucket in memory, reached as a server.
#[derive(Clone, Default)]
struct FakeS3 {
    state: Arc<Mutex<State>>,
}

#[derive(Default)]
struct State {
    objects: BTreeMap<String, Bytes>,
    /// Accepts "If-None-Match: *" and ignores it, as older servers do.
    ignores_conditions: bool,
    /// Statuses to answer the next requests with, before anything is done.
    scripted: Vec<u16>,
    requests: Vec<String>,
}

impl fmt::Debug for FakeS3 {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("FakeS3")
    }
}

impl HttpConnector for FakeS3 {
    fn connect(&self, _: &ClientOptions) -> object_store::Result<HttpClient> {
        Ok(HttpClient::new(self.clone()))
    }
}

#[async_trait]
impl HttpService for FakeS3 {
    async fn call(&self, request: HttpRequest) -> Result<HttpResponse, HttpError> {
        let (parts, body) = request.into_parts();
        let body = HttpResponseBody::new(body).bytes().await?;
        let mut state = self.state.lock();
        let key = parts.uri.path().to_owned();
        state.requests.push(format!("{} {key}", parts.method));
        if !state.scripted.is_empty() {
            let status = state.scripted.remove(0);
            return Ok(response(status, Bytes::from_static(b"<Error/>")));
        }
        let found = state.objects.get(&key).cloned();
        let conditional = parts.headers.contains_key("if-none-match") && !state.ignores_conditions;
        Ok(match (parts.method.as_str(), found) {
            ("PUT", Some(_)) if conditional => response(412, Bytes::new()),
            ("PUT", _) => {
                state.objects.insert(key, body);
                response(200, Bytes::new())
            }
            ("GET" | "HEAD", None) => response(404, Bytes::new()),
            ("GET" | "HEAD", Some(object)) => response(200, object),
            _ => response(501, Bytes::new()),
        })
    }
}

fn response(status: u16, body: Bytes) -> HttpResponse {
    let length = body.len();
    let mut response = HttpResponse::new(body.into());
    *response.status_mut() = status.try_into().unwrap();
    let headers = response.headers_mut();
    headers.insert("etag", "\"1\"".parse().unwrap());
    headers.insert("content-length", length.to_string().parse().unwrap());
    headers.insert(
        "last-modified",
        "Mon, 02 Jan 2023 00:00:00 GMT".parse().unwrap(),
    );
    response
}

async fn connect(server: &FakeS3) -> Result<Store, OpenError> {
    let env = env(1);
    let credentials = S3Credentials {
        access_key_id: "a".into(),
        secret_access_key: Secret::new("s"),
        session_token: None,
    };
    let s3 = S3Options {
        endpoint: Some("http://127.0.0.1:1".into()),
        credentials: Some(credentials),
        path_style: true,
        allow_http: true,
        ..S3Options::default()
    };
    let config = StorageConfig {
        location: "s3://bucket/ckpt".into(),
        s3,
        policy: POLICY_S3,
    };
    open_with_connector(&config, &env, server.clone()).await
}

#[tokio::test(start_paused = true)]
async fn a_server_that_honours_conditions_is_accepted_and_creates_only() {
    let server = FakeS3::default();
    let store = connect(&server).await.unwrap();
    store.create(&names::chain(1), "ours".into()).await.unwrap();
    assert!(
        server
            .state
            .lock()
            .objects
            .contains_key("/bucket/ckpt/chain/00000000000000000001")
    );
    let taken = store
        .create(&names::chain(1), "other".into())
        .await
        .unwrap_err();
    assert!(matches!(taken, StoreError::Taken { .. }), "{taken}");
    assert_eq!(
        store.get(&names::chain(1), 10).await.unwrap().as_ref(),
        b"ours"
    );
}

// The chain stands on create-only writes alone.
#[tokio::test(start_paused = true)]
async fn a_server_that_ignores_conditions_is_refused_by_name_with_a_remedy() {
    let server = FakeS3::default();
    server.state.lock().ignores_conditions = true;
    let refused = connect(&server).await.unwrap_err();
    let OpenError::Probe {
        location,
        source: ProbeError::CreatesTwice { object },
    } = &refused
    else {
        panic!("{refused}");
    };
    assert_eq!(location, "s3://bucket/ckpt");
    assert!(object.starts_with("s3://bucket/ckpt/_probe-"), "{object}");
    assert!(
        refused.remedy().contains("If-None-Match"),
        "{}",
        refused.remedy()
    );
}

#[tokio::test(start_paused = true)]
async fn a_server_that_is_down_at_start_is_named() {
    let server = FakeS3::default();
    server.state.lock().scripted = vec![503; 100];
    let refused = connect(&server).await.unwrap_err();
    assert!(
        matches!(
            &refused,
            OpenError::Probe {
                source: ProbeError::NotServed(_),
                ..
            }
        ),
        "{refused}"
    );
    assert!(refused.to_string().contains("s3://bucket/ckpt"));
}

// S3 answers 409 while another create of the name is under way; that is not "exists".
#[tokio::test(start_paused = true)]
async fn a_conflict_with_a_create_under_way_is_tried_again() {
    let server = FakeS3::default();
    let store = connect(&server).await.unwrap();
    server.state.lock().scripted = vec![409];
    store.create(&names::chain(1), "ours".into()).await.unwrap();
    assert_eq!(
        store.get(&names::chain(1), 10).await.unwrap().as_ref(),
        b"ours"
    );
}

// The chain's machine must see the outcome of each create: nothing is repeated behind its back.
#[tokio::test(start_paused = true)]
async fn one_create_is_one_request_and_an_error_leaves_its_outcome_open() {
    let server = FakeS3::default();
    let store = connect(&server).await.unwrap();
    for status in [500, 503] {
        server.state.lock().scripted = vec![status];
        server.state.lock().requests.clear();
        let open = store
            .create_once(&names::chain(1), "ours".into())
            .await
            .unwrap_err();
        assert_eq!(open.outcome(), WriteOutcome::MayHaveHappened, "{open}");
        assert_eq!(server.state.lock().requests.len(), 1);
    }
    let created = store
        .create_once(&names::chain(1), "ours".into())
        .await
        .unwrap();
    assert_eq!(created, Created::New);
}

#[tokio::test(start_paused = true)]
async fn missing_rights_are_an_answer_and_not_tried_again() {
    let server = FakeS3::default();
    let store = connect(&server).await.unwrap();
    server.state.lock().scripted = vec![403; 10];
    server.state.lock().requests.clear();
    let refused = store
        .create(&names::chain(1), "ours".into())
        .await
        .unwrap_err();
    assert!(matches!(refused, StoreError::Refused { .. }), "{refused}");
    assert_eq!(refused.outcome(), WriteOutcome::DidNotHappen);
    assert_eq!(server.state.lock().requests.len(), 1);
    assert!(refused.remedy().contains("credentials"));
}

// Credentials that expire between two attempts do not tell what became of the first.
#[tokio::test(start_paused = true)]
async fn a_refusal_after_an_open_attempt_leaves_the_outcome_open() {
    let server = FakeS3::default();
    let store = connect(&server).await.unwrap();
    server.state.lock().scripted = vec![500, 403];
    let refused = store
        .create(&names::chain(1), "ours".into())
        .await
        .unwrap_err();
    assert!(matches!(refused, StoreError::Refused { .. }), "{refused}");
    assert_eq!(refused.outcome(), WriteOutcome::MayHaveHappened);
}

#[tokio::test(start_paused = true)]
async fn parts_that_s3_would_not_take_are_refused_at_start() {
    let mut config = StorageConfig::at("s3://bucket");
    config.policy.part_bytes = 1_000;
    let refused = open::open(&config, &env(1)).await.unwrap_err();
    assert!(
        matches!(refused, OpenError::PartSize { found: 1_000, .. }),
        "{refused}"
    );
}

#[tokio::test(start_paused = true)]
async fn memory_and_local_directories_are_opened_by_their_location() {
    let env = env(1);
    let memory = open::open(&StorageConfig::at("memory://"), &env)
        .await
        .unwrap();
    assert_eq!(memory.address(), "memory://store");
    let local = open::open(&StorageConfig::at("file:///ckpt"), &env)
        .await
        .unwrap();
    assert_eq!(local.address(), "/ckpt");
    assert_eq!(
        local.list("", None, 10).await.unwrap().names,
        [],
        "the probe left nothing"
    );
    assert_eq!(env.clock().wall(), WallTime(1_700_000_000_000));
}
