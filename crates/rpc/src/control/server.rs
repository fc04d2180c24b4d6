//! The jobmanager's side of the control streams.

use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use futures::{Stream, StreamExt};
use millstream_coordination::protocol::{CheckpointStorage, FromTaskmanager, ToTaskmanager};
use millstream_env::{Clock, Env};
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use tonic::{Request, Response, Status, Streaming};

use super::bounded;
use super::common::storage_to_wire;
use super::from_taskmanager;
use crate::pb;
use crate::pb::control_service_server::{ControlService, ControlServiceServer};

/// Messages between the conversion and the socket, and between the two halves of a connection. Who
/// does not read his stream fills it; what the session does then is its own policy, and its end is
/// the stream's.
const QUEUE: usize = 64;
/// How long what was said before an end may take to leave.
const LAST_WORDS: Duration = Duration::from_secs(5);

/// A session that has to end.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("{message}")]
pub struct ControlSessionError {
    /// Why, for the taskmanager's log.
    pub message: String,
}

/// Takes the connections of taskmanagers; implemented by whoever runs the jobmanager.
pub trait ControlGateway: Send + Sync + 'static {
    /// A taskmanager connected. Messages put into `outgoing` go to it; that nobody puts any more
    /// ends the connection. The session is dropped when the connection ended.
    fn connect(&self, outgoing: mpsc::Sender<ToTaskmanager>) -> Box<dyn ControlSession>;

    /// Where the cluster keeps checkpoints, if it has a place for them.
    fn storage(&self) -> Option<CheckpointStorage>;
}

/// One connection of one taskmanager.
#[async_trait]
pub trait ControlSession: Send {
    /// Takes a message. After an error the connection ends. It may wait, but not for room in
    /// `outgoing`: what is sent there may have to wait for this.
    async fn receive(&mut self, message: FromTaskmanager) -> Result<(), ControlSessionError>;
}

pub(crate) fn control_service(
    env: &Env,
    gateway: Arc<dyn ControlGateway>,
    limit: usize,
) -> ControlServiceServer<impl ControlService> {
    let connections = Connections {
        env: env.component("control streams"),
        gateway,
        limit,
    };
    ControlServiceServer::new(connections)
        .max_decoding_message_size(limit)
        .max_encoding_message_size(limit)
}

struct Connections {
    env: Env,
    gateway: Arc<dyn ControlGateway>,
    limit: usize,
}

type Reply = Result<pb::ToTaskmanager, Status>;

#[async_trait]
impl ControlService for Connections {
    type ConnectStream = ReceiverStream<Reply>;

    async fn connect(
        &self,
        request: Request<Streaming<pb::FromTaskmanager>>,
    ) -> Result<Response<Self::ConnectStream>, Status> {
        let (replies, sent) = mpsc::channel(QUEUE);
        let connection = Connection {
            clock: self.env.clock().clone(),
            gateway: Arc::clone(&self.gateway),
            limit: self.limit,
            replies,
        };
        self.env
            .spawner()
            .supervise("control stream", connection.run(request.into_inner()));
        Ok(Response::new(ReceiverStream::new(sent)))
    }

    async fn describe_storage(
        &self,
        _: Request<pb::DescribeStorageRequest>,
    ) -> Result<Response<pb::DescribeStorageResponse>, Status> {
        let checkpoints = self.gateway.storage().map(storage_to_wire);
        Ok(Response::new(pb::DescribeStorageResponse { checkpoints }))
    }
}

struct Connection {
    clock: Clock,
    gateway: Arc<dyn ControlGateway>,
    limit: usize,
    replies: mpsc::Sender<Reply>,
}

impl Connection {
    async fn run(self, incoming: Streaming<pb::FromTaskmanager>) {
        let (outgoing, to_send) = mpsc::channel(QUEUE);
        let (answers, to_answer) = mpsc::channel(QUEUE);
        let session = self.gateway.connect(outgoing);
        let mut sending = pin!(send(to_send, self.replies.clone(), answers, self.limit));
        let receiving = receive(session, incoming, to_answer);
        let (end, has_sent_all) = tokio::select! {
            end = receiving => (end, false),
            () = self.replies.closed() => return,
            () = &mut sending => (Ok(()), true),
        };
        // The session is gone, so nothing new is said; a refusal must still reach its reader.
        if !has_sent_all {
            let _ = self.clock.timeout(LAST_WORDS, sending).await;
        }
        if let Err(status) = end {
            let _ = self.replies.try_send(Err(status));
        }
    }
}

/// Converts and sends until nobody says anything any more or nobody listens. It waits for the
/// reader, and with answers for `receive`, which waits for the session and never for this.
pub(super) async fn send(
    mut messages: mpsc::Receiver<ToTaskmanager>,
    replies: mpsc::Sender<Reply>,
    answers: mpsc::Sender<FromTaskmanager>,
    limit: usize,
) {
    while let Some(message) = messages.recv().await {
        let reply = match bounded::to_to_wire(&message, limit) {
            Ok(reply) => Ok(reply),
            Err(error) => match bounded::answer(&message, &error) {
                Some(answer) => {
                    // Nobody takes answers for a session that is gone.
                    let _ = answers.send(answer).await;
                    continue;
                }
                None => Err(Status::resource_exhausted(error.to_string())),
            },
        };
        if replies.send(reply).await.is_err() {
            return;
        }
    }
}

/// Hands what arrives to the session until one of both ends.
pub(super) async fn receive(
    mut session: Box<dyn ControlSession>,
    incoming: impl Stream<Item = Result<pb::FromTaskmanager, Status>>,
    mut answers: mpsc::Receiver<FromTaskmanager>,
) -> Result<(), Status> {
    let mut incoming = pin!(incoming);
    loop {
        let message = tokio::select! {
            Some(answer) = answers.recv() => answer,
            message = incoming.next() => match message {
                None => return Ok(()),
                Some(message) => from_taskmanager::from_wire(message?)
                    .map_err(|error| Status::invalid_argument(error.to_string()))?,
            },
        };
        let taken = session.receive(message).await;
        taken.map_err(|error| Status::failed_precondition(error.message))?;
    }
}
