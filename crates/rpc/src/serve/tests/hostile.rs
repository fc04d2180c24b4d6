//! HTTP/2 as an attacker speaks it: frames by hand, and what the server makes of them.

use millstream_env::net::Conn;
use tonic::Request;

use super::*;

const DATA_OF_A_CALL_TO_COME: u8 = 0x4;
const HEADERS: u8 = 1;
const RST_STREAM: u8 = 3;
const SETTINGS: u8 = 4;
const GOAWAY: u8 = 7;
const REFUSED_STREAM: u32 = 7;
const CANCEL: u32 = 8;
const ENHANCE_YOUR_CALM: u32 = 11;

fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let length = (payload.len() as u32).to_be_bytes();
    let mut bytes = length[1..].to_vec();
    bytes.extend([kind, flags]);
    bytes.extend(stream.to_be_bytes());
    bytes.extend(payload);
    bytes
}

/// The beginning of a call whose request does not come.
fn call(stream: u32) -> Vec<u8> {
    let literal = |text: &str| [&[text.len() as u8], text.as_bytes()].concat();
    let block = [
        // POST, http, :path, content-type, te: by the numbers of HPACK's static table.
        vec![0x83, 0x86, 0x04],
        literal("/grpc.health.v1.Health/Check"),
        vec![0x0f, 0x10],
        literal("application/grpc"),
        vec![0x00],
        literal("te"),
        literal("trailers"),
    ];
    frame(HEADERS, DATA_OF_A_CALL_TO_COME, stream, &block.concat())
}

async fn greeted(env: &Env) -> Conn {
    let mut conn = env.net().connect(ADDRESS.parse().unwrap()).await.unwrap();
    conn.write_all(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n")
        .await
        .unwrap();
    conn.write_all(&frame(SETTINGS, 0, 0, &[])).await.unwrap();
    conn
}

/// The next frame of this kind: its stream and its payload.
async fn next(conn: &mut Conn, wanted: u8) -> (u32, Vec<u8>) {
    loop {
        let mut head = [0; 9];
        conn.read_exact(&mut head).await.unwrap();
        let length = u32::from_be_bytes([0, head[0], head[1], head[2]]);
        let mut payload = vec![0; length as usize];
        conn.read_exact(&mut payload).await.unwrap();
        if head[3] == wanted {
            let stream = u32::from_be_bytes([head[5], head[6], head[7], head[8]]);
            return (stream, payload);
        }
    }
}

fn code(bytes: &[u8]) -> u32 {
    u32::from_be_bytes(bytes.try_into().unwrap())
}

async fn is_served(env: &Env) {
    let mut health = HealthClient::new(connected(env).await.channel());
    let request = HealthCheckRequest::default();
    health.check(request).await.unwrap();
}

#[tokio::test]
async fn calls_beyond_200_on_one_connection_are_refused_and_others_are_served() {
    let server = server(ServerLimits::default()).await;
    let mut conn = greeted(&server.test.env).await;
    for n in 0..300 {
        conn.write_all(&call(2 * n + 1)).await.unwrap();
    }
    for n in 200..300 {
        let (stream, payload) = next(&mut conn, RST_STREAM).await;
        assert_eq!((stream, code(&payload)), (2 * n + 1, REFUSED_STREAM));
    }
    is_served(&server.test.env).await;
}

// Rapid reset: calls that are begun and taken back cost the attacker nothing.
#[tokio::test]
async fn whoever_resets_calls_rapidly_loses_the_connection() {
    let server = server(ServerLimits::default()).await;
    let mut conn = greeted(&server.test.env).await;
    let mut flood = Vec::new();
    for stream in (1..400).step_by(2) {
        flood.extend(call(stream));
        flood.extend(frame(RST_STREAM, 0, stream, &CANCEL.to_be_bytes()));
    }
    conn.write_all(&flood).await.unwrap();
    let (_, payload) = next(&mut conn, GOAWAY).await;
    assert_eq!(code(&payload[4..8]), ENHANCE_YOUR_CALM);
    is_served(&server.test.env).await;
}

#[tokio::test]
async fn headers_beyond_16_kib_are_refused_and_the_connection_stays() {
    let server = server(ServerLimits::default()).await;
    let mut health = HealthClient::new(connected(&server.test.env).await.channel());
    let mut request = Request::new(HealthCheckRequest::default());
    let large = "x".repeat(100_000).parse().unwrap();
    request.metadata_mut().insert("bomb", large);
    assert!(health.check(request).await.is_err());
    health.check(HealthCheckRequest::default()).await.unwrap();
}

// A job that is no UTF-8, a frame that is cut, a compressed message nobody agreed on.
#[tokio::test]
async fn bytes_that_are_no_request_end_a_call_and_nothing_else() {
    let server = server(ServerLimits::default()).await;
    let mut conn = greeted(&server.test.env).await;
    let bodies: [&[u8]; 4] = [
        b"\0\0\0\0\x04\x12\x02\xff\xfe",
        b"\0\xff\xff\xff\xff",
        b"\x01\0\0\0\x02ab",
        b"\0\0",
    ];
    const END_STREAM: u8 = 1;
    for (n, body) in bodies.iter().enumerate() {
        let stream = 2 * n as u32 + 1;
        conn.write_all(&call(stream)).await.unwrap();
        conn.write_all(&frame(0, END_STREAM, stream, body))
            .await
            .unwrap();
        // An answer, perhaps behind the end of the one before.
        while next(&mut conn, HEADERS).await.0 != stream {}
    }
    is_served(&server.test.env).await;
}
