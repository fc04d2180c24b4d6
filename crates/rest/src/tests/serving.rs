//! A running server on a network in memory, under a clock that the test moves.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use millstream_env::net::Conn;
use millstream_env::{Env, StopSignal, Task, TestEnv};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use super::fixture::Fixture;
use crate::ServeError;

struct Running {
    test: TestEnv,
    addr: SocketAddr,
    stop: StopSignal,
    server: Task<Result<(), ServeError>>,
}

async fn start(view: Fixture) -> Running {
    let test = Env::for_test(1);
    let listener = test
        .env
        .net()
        .listen("127.0.0.1:0".parse().unwrap())
        .await
        .unwrap();
    let addr = listener.local_addr();
    let stop = StopSignal::new();
    let serve = crate::serve(
        listener,
        Arc::new(view),
        test.env.clock().clone(),
        stop.clone(),
    );
    let server = test.env.spawner().spawn("rest", serve);
    Running {
        test,
        addr,
        stop,
        server,
    }
}

impl Running {
    async fn connect(&self) -> Conn {
        self.test.env.net().connect(self.addr).await.unwrap()
    }

    /// Sends this, and returns all that comes until the server closes.
    async fn exchange(&self, request: &str) -> String {
        let mut conn = self.connect().await;
        conn.write_all(request.as_bytes()).await.unwrap();
        rest_of(&mut conn).await
    }
}

async fn rest_of(conn: &mut Conn) -> String {
    let mut bytes = Vec::new();
    // A server that refuses may close before it read all: what it said still counts.
    let _ = conn.read_to_end(&mut bytes).await;
    String::from_utf8_lossy(&bytes).into_owned()
}

/// Lets every task run until it waits for something.
async fn settle() {
    for _ in 0..50 {
        tokio::task::yield_now().await;
    }
}

fn get(path: &str, headers: &str) -> String {
    format!("GET {path} HTTP/1.1\r\nhost: here\r\n{headers}connection: close\r\n\r\n")
}

#[tokio::test]
async fn answers_over_a_connection_and_ends_when_told_to() {
    let running = start(Fixture::default()).await;
    let reply = running.exchange(&get("/jobs", "")).await;
    assert!(reply.starts_with("HTTP/1.1 200 OK\r\n"), "{reply}");
    assert!(reply.ends_with("\"status\":\"RUNNING\"}]}"), "{reply}");
    running.stop.cancel();
    running.server.await.unwrap().unwrap();
    assert!(running.test.env.net().connect(running.addr).await.is_err());
}

#[tokio::test]
async fn dots_on_the_wire_lead_nowhere() {
    let running = start(Fixture::default()).await;
    for path in [
        "/../../../etc/passwd",
        "/jobs/../../etc/passwd",
        "//etc/passwd",
    ] {
        let reply = running.exchange(&get(path, "")).await;
        assert!(reply.starts_with("HTTP/1.1 404 "), "{path}: {reply}");
    }
}

#[tokio::test]
async fn what_is_no_http_is_answered_and_the_server_lives() {
    let running = start(Fixture::default()).await;
    for garbage in ["GET /\0 HTTP/1.1\r\n\r\n", "\u{16}\u{3}\u{1}\u{2}\r\n\r\n"] {
        let reply = running.exchange(garbage).await;
        assert!(reply.starts_with("HTTP/1.1 400 "), "{garbage:?}: {reply}");
    }
    assert!(
        running
            .exchange(&get("/jobs", ""))
            .await
            .starts_with("HTTP/1.1 200 ")
    );
}

#[tokio::test]
async fn too_many_headers_or_too_long_ones_are_refused() {
    let running = start(Fixture::default()).await;
    let many: String = (0..100).map(|i| format!("x-{i}: y\r\n")).collect();
    let long = format!("x: {}\r\n", "y".repeat(64 * 1024));
    for headers in [many, long] {
        let reply = running.exchange(&get("/jobs", &headers)).await;
        assert!(reply.starts_with("HTTP/1.1 431 "), "{reply}");
    }
}

#[tokio::test]
async fn a_client_that_sends_half_a_request_is_cut_off() {
    let running = start(Fixture::default()).await;
    let mut slow = running.connect().await;
    slow.write_all(b"GET /jobs HTTP/1.1\r\nhost: he")
        .await
        .unwrap();
    settle().await;
    running.test.clock.advance(Duration::from_secs(30));
    settle().await;
    running.test.clock.advance(Duration::from_secs(5));
    assert_eq!(rest_of(&mut slow).await, "");
}

#[tokio::test]
async fn a_view_that_does_not_answer_costs_ten_seconds_and_no_more() {
    let running = start(Fixture {
        hangs: true,
        ..Fixture::default()
    })
    .await;
    let mut conn = running.connect().await;
    conn.write_all(get("/overview", "").as_bytes())
        .await
        .unwrap();
    settle().await;
    running.test.clock.advance(Duration::from_secs(10));
    let reply = rest_of(&mut conn).await;
    assert!(reply.starts_with("HTTP/1.1 503 "), "{reply}");
    assert!(reply.contains("no answer within 10 s"), "{reply}");
}

#[tokio::test]
async fn stopping_waits_for_the_answer_under_way_but_not_for_idle_clients() {
    let running = start(Fixture::default()).await;
    let mut idle = running.connect().await;
    settle().await;
    running.stop.cancel();
    settle().await;
    running.test.clock.advance(Duration::from_secs(5));
    running.server.await.unwrap().unwrap();
    assert_eq!(rest_of(&mut idle).await, "");
}

/// One more than fit waits in the listener's queue, and is served when another has closed.
#[tokio::test]
async fn connections_beyond_the_limit_wait_for_a_free_place() {
    let running = start(Fixture::default()).await;
    let mut held = Vec::new();
    for _ in 0..128 {
        held.push(running.connect().await);
    }
    settle().await;
    let mut waiting = running.connect().await;
    waiting
        .write_all(get("/jobs", "").as_bytes())
        .await
        .unwrap();
    settle().await;
    let mut first = [0];
    let early = futures::FutureExt::now_or_never(waiting.read(&mut first));
    assert!(early.is_none(), "served beyond the limit");
    held.pop();
    assert!(rest_of(&mut waiting).await.starts_with("HTTP/1.1 200 "));
}
