mod hostile;

use std::time::Duration;

use millstream_coordination::protocol::{CheckpointStorage, FromTaskmanager, ToTaskmanager};
use millstream_env::Env;
use millstream_types::SlotIndex;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::sync::mpsc;
use tokio_stream::StreamExt;
use tonic_health::pb::HealthCheckRequest;
use tonic_health::pb::health_check_response::ServingStatus;
use tonic_health::pb::health_client::HealthClient;
use tonic_reflection::pb::v1::ServerReflectionRequest;
use tonic_reflection::pb::v1::server_reflection_client::ServerReflectionClient;
use tonic_reflection::pb::v1::server_reflection_request::MessageRequest;
use tonic_reflection::pb::v1::server_reflection_response::MessageResponse;

use super::*;
use crate::testing::{ADDRESS, server};
use crate::{CallError, ConnectError, Connection, connect, connect_control, describe_storage};

const TIMEOUT: Duration = Duration::from_secs(5);

async fn connected(env: &Env) -> Connection {
    connect(env, ADDRESS, TIMEOUT).await.unwrap()
}

async fn ask_reflection(connection: &Connection, request: MessageRequest) -> MessageResponse {
    let request = ServerReflectionRequest {
        host: String::new(),
        message_request: Some(request),
    };
    let mut client = ServerReflectionClient::new(connection.channel());
    let requests = tokio_stream::iter([request]);
    let mut answers = client
        .server_reflection_info(requests)
        .await
        .unwrap()
        .into_inner();
    answers
        .next()
        .await
        .unwrap()
        .unwrap()
        .message_response
        .unwrap()
}

#[tokio::test]
async fn a_client_that_knows_nothing_finds_services_and_their_documentation() {
    let server = server(ServerLimits::default()).await;
    let connection = connected(&server.test.env).await;
    let list = MessageRequest::ListServices(String::new());
    let MessageResponse::ListServicesResponse(list) = ask_reflection(&connection, list).await
    else {
        panic!("no list")
    };
    let names: Vec<_> = list
        .service
        .into_iter()
        .map(|service| service.name)
        .collect();
    assert!(
        names.contains(&"millstream.v1.JobService".to_owned()),
        "{names:?}"
    );
    assert!(
        names.contains(&"grpc.health.v1.Health".to_owned()),
        "{names:?}"
    );
    let symbol = MessageRequest::FileContainingSymbol("millstream.v1.JobService".into());
    let MessageResponse::FileDescriptorResponse(files) = ask_reflection(&connection, symbol).await
    else {
        panic!("no file")
    };
    let has = |text: &str| {
        let mut files = files.file_descriptor_proto.iter();
        files.any(|file| {
            file.windows(text.len())
                .any(|window| window == text.as_bytes())
        })
    };
    assert!(has("SubmitJobRequest") && has("job_file"));
}

#[tokio::test]
async fn health_is_told_for_the_server_and_its_services() {
    let server = server(ServerLimits::default()).await;
    let mut health = HealthClient::new(connected(&server.test.env).await.channel());
    for service in [
        "",
        "millstream.v1.JobService",
        "millstream.v1.ControlService",
    ] {
        let request = HealthCheckRequest {
            service: service.to_owned(),
        };
        let answer = health.check(request).await.unwrap().into_inner();
        assert_eq!(answer.status, ServingStatus::Serving as i32, "{service}");
    }
}

#[tokio::test]
async fn a_connection_that_says_nothing_is_closed_in_time() {
    let server = server(ServerLimits::default()).await;
    let net = server.test.env.net();
    let mut silent = net.connect(ADDRESS.parse().unwrap()).await.unwrap();
    silent.write_all(b"PRI * HTTP").await.unwrap();
    let reading = async {
        let mut bytes = Vec::new();
        // An end or a reset: both are an end.
        let _ = silent.read_to_end(&mut bytes).await;
    };
    let passing = async {
        loop {
            server.test.clock.advance(Duration::from_secs(1));
            tokio::task::yield_now().await;
        }
    };
    tokio::select! {
        () = reading => {}
        () = passing => {}
    }
    assert!(server.test.env.clock().monotonic().as_millis() >= 5_000);
    // Others are served as before.
    let _ = connected(&server.test.env).await;
}

#[tokio::test]
async fn no_connection_says_where_to_and_why_in_words() {
    let test = Env::for_test(1);
    let failed = async |address: &str| connect(&test.env, address, TIMEOUT).await.unwrap_err();
    let refused = failed(ADDRESS).await;
    assert!(matches!(refused, ConnectError::Refused { .. }));
    assert_eq!(
        refused.to_string(),
        "cannot reach 127.0.0.1:6123: connection refused, nothing listens there"
    );
    let unknown = failed("nowhere.example:6123").await;
    assert!(matches!(unknown, ConnectError::Resolve { .. }));
    assert!(
        unknown
            .to_string()
            .starts_with("cannot reach nowhere.example:6123: the host name")
    );
    for text in ["localhost", "localhost:port", ":6123", "::1:6123"] {
        assert!(
            matches!(failed(text).await, ConnectError::Address { .. }),
            "{text}"
        );
    }
}

#[tokio::test]
async fn a_web_server_at_the_address_is_named_as_such_and_silence_has_a_limit() {
    let test = Env::for_test(1);
    let mut listener = test
        .env
        .net()
        .listen(ADDRESS.parse().unwrap())
        .await
        .unwrap();
    let web = async {
        let mut conn = listener.accept().await.unwrap();
        let mut request = [0; 24];
        conn.read_exact(&mut request).await.unwrap();
        conn.write_all(b"HTTP/1.1 400 Bad Request\r\n\r\n")
            .await
            .unwrap();
    };
    let (error, ()) = tokio::join!(connect(&test.env, ADDRESS, TIMEOUT), web);
    let error = error.unwrap_err();
    assert!(
        matches!(error, ConnectError::WrongProtocol { .. }),
        "{error:?}"
    );
    let text = error.to_string();
    let start = "127.0.0.1:6123 answers, but not as a Millstream jobmanager does: ";
    assert!(
        text.starts_with(start) && !text.contains("transport error"),
        "{text}"
    );

    let silent = async {
        let _conn = listener.accept().await.unwrap();
        std::future::pending::<()>().await;
    };
    let passing = async {
        loop {
            test.clock.advance(Duration::from_secs(1));
            tokio::task::yield_now().await;
        }
    };
    let error = tokio::select! {
        error = connect(&test.env, ADDRESS, TIMEOUT) => error.unwrap_err(),
        () = silent => unreachable!("it stays silent"),
        () = passing => unreachable!("time does not end"),
    };
    assert_eq!(
        error.to_string(),
        "cannot reach 127.0.0.1:6123: no answer within 5 s"
    );
}

fn freed(slot: u32) -> FromTaskmanager {
    FromTaskmanager::SlotFreed {
        slot: SlotIndex(slot),
    }
}

#[tokio::test]
async fn a_control_stream_carries_messages_both_ways_until_the_jobmanager_gives_it_up() {
    let server = server(ServerLimits::default()).await;
    let (outgoing, messages) = mpsc::channel(8);
    let connection = connected(&server.test.env).await;
    let mut incoming = connect_control(&connection, messages, 1 << 20)
        .await
        .unwrap();
    for slot in 0..3 {
        outgoing.send(freed(slot)).await.unwrap();
    }
    let way = loop {
        let arrived = server.control.received.lock().len();
        match server.control.outgoing.lock().clone() {
            Some(way) if arrived == 3 => break way,
            _ => {}
        }
        tokio::task::yield_now().await;
    };
    assert_eq!(
        *server.control.received.lock(),
        [freed(0), freed(1), freed(2)]
    );
    way.send(ToTaskmanager::Heartbeat).await.unwrap();
    assert_eq!(
        incoming.next().await.unwrap(),
        Some(ToTaskmanager::Heartbeat)
    );
    drop(way);
    *server.control.outgoing.lock() = None;
    assert_eq!(incoming.next().await.unwrap(), None);
    let spawner = server.test.env.spawner();
    while spawner
        .running()
        .iter()
        .any(|name| name.contains("control stream"))
    {
        tokio::task::yield_now().await;
    }
    assert_eq!(
        spawner.take_failures(),
        [],
        "the stream ended, it did not break"
    );
}

#[tokio::test]
async fn a_taskmanager_is_told_where_checkpoints_are_kept() {
    let server = server(ServerLimits::default()).await;
    let connection = connected(&server.test.env).await;
    assert_eq!(describe_storage(&connection).await.unwrap(), None);
    let storage = CheckpointStorage {
        location: "s3://bucket/prod".to_owned(),
        cluster_id: "prod".to_owned(),
        directory_id: "5eed".to_owned(),
    };
    *server.control.storage.lock() = Some(storage.clone());
    assert_eq!(describe_storage(&connection).await.unwrap(), Some(storage));
}

#[tokio::test]
async fn a_session_that_refuses_says_why_and_ends() {
    let server = server(ServerLimits::default()).await;
    let (outgoing, messages) = mpsc::channel(8);
    let connection = connected(&server.test.env).await;
    let mut incoming = connect_control(&connection, messages, 1 << 20)
        .await
        .unwrap();
    outgoing.send(FromTaskmanager::Leaving).await.unwrap();
    let error = incoming.next().await.unwrap_err();
    assert!(matches!(&error, CallError::Conflict { message, .. } if message == "left already"));
    assert!(
        server.control.outgoing.lock().is_none(),
        "the session is dropped"
    );
}

#[tokio::test]
async fn a_stopped_server_cuts_its_streams_and_the_client_is_told_in_words() {
    let server = server(ServerLimits::default()).await;
    let (_outgoing, messages) = mpsc::channel(8);
    let connection = connected(&server.test.env).await;
    let mut incoming = connect_control(&connection, messages, 1 << 20)
        .await
        .unwrap();
    server.stop.cancel();
    let passing = async {
        loop {
            server.test.clock.advance(Duration::from_millis(100));
            tokio::task::yield_now().await;
        }
    };
    let end = tokio::select! {
        end = incoming.next() => end,
        () = passing => unreachable!("time does not end"),
    };
    match end {
        Ok(None) => {}
        Ok(Some(message)) => panic!("{message:?}"),
        Err(error) => assert!(!error.to_string().contains("transport error"), "{error}"),
    }
}
