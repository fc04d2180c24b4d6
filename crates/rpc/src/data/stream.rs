//! Data streams, called and taken.

use std::error::Error as _;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use futures::StreamExt;
use futures::stream::BoxStream;
use millstream_coordination::protocol::DataAddress;
use millstream_env::Env;
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use tonic::{Code, Request, Response, Status, Streaming};

use super::{DataMessage, convert};
use crate::connect::{ConnectError, Connection, open};
use crate::error::DecodeError;
use crate::pb;
use crate::pb::data_service_client::DataServiceClient;
use crate::pb::data_service_server::{DataService, DataServiceServer};
use crate::serve::Ends;
use crate::status::in_words;

/// The largest data message: a frame of 1 MiB and what stands around it.
pub const DATA_MESSAGE_BYTES_MAX: usize = (1 << 20) + 1024;

/// What a callee sends: messages, or the refusal that ends the stream.
pub type DataReply = Result<DataMessage, DataRefusal>;

/// Why a callee refuses a caller or what it sent.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("{message}")]
pub struct DataRefusal {
    /// Of which sort.
    pub kind: RefusalKind,
    /// In words.
    pub message: String,
}

/// Sorts of refusals.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum RefusalKind {
    /// The caller is of another epoch or incarnation.
    Stale,
    /// The caller does not know what tasks of this epoch know.
    Stranger,
    /// What was sent makes no sense.
    Malformed,
}

impl From<DataRefusal> for Status {
    fn from(refusal: DataRefusal) -> Self {
        let code = match refusal.kind {
            RefusalKind::Stale => Code::FailedPrecondition,
            RefusalKind::Stranger => Code::PermissionDenied,
            RefusalKind::Malformed => Code::InvalidArgument,
        };
        Self::new(code, refusal.message)
    }
}

/// Why a data stream is over.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum DataStreamError {
    /// The other side refused.
    #[error("the other side refused: {0}")]
    Refused(DataRefusal),
    /// The connection broke.
    #[error("the connection broke: {cause}")]
    Lost {
        /// In words.
        cause: String,
    },
    /// What arrived makes no sense.
    #[error("what arrived is no message of a data stream")]
    Decode(#[from] DecodeError),
}

impl DataStreamError {
    fn of_status(status: &Status) -> Self {
        if let Some(source) = status.source() {
            return Self::Lost {
                cause: in_words(source),
            };
        }
        let kind = match status.code() {
            Code::FailedPrecondition => RefusalKind::Stale,
            Code::PermissionDenied => RefusalKind::Stranger,
            Code::InvalidArgument | Code::OutOfRange => RefusalKind::Malformed,
            _ => {
                let cause = match status.message().is_empty() {
                    true => format!("{:?}", status.code()),
                    false => status.message().to_owned(),
                };
                return Self::Lost { cause };
            }
        };
        Self::Refused(DataRefusal {
            kind,
            message: status.message().to_owned(),
        })
    }
}

/// What arrives on a data stream.
#[derive(Debug)]
pub struct DataReceiver {
    stream: Streaming<pb::DataMessage>,
}

impl DataReceiver {
    /// The next message; none when the other side ended the stream. Dropping the future loses
    /// nothing.
    pub async fn next(&mut self) -> Result<Option<DataMessage>, DataStreamError> {
        let message = self.stream.message().await;
        let message = message.map_err(|status| DataStreamError::of_status(&status))?;
        Ok(message.map(convert::from_wire).transpose()?)
    }
}

/// Takes data streams; implemented by the data plane of a job process.
pub trait DataGateway: Send + Sync + 'static {
    /// A process calls from `peer` at `local`. Dropping `outgoing`, or a refusal, ends the stream.
    fn exchange(
        &self,
        local: SocketAddr,
        peer: SocketAddr,
        incoming: DataReceiver,
        outgoing: mpsc::Sender<DataReply>,
    );
}

/// Replies between the data plane and the socket: grants are small.
const REPLIES: usize = 64;

pub(crate) fn data_service(gateway: Arc<dyn DataGateway>) -> DataServiceServer<impl DataService> {
    DataServiceServer::new(Streams { gateway })
        .max_decoding_message_size(DATA_MESSAGE_BYTES_MAX)
        .max_encoding_message_size(DATA_MESSAGE_BYTES_MAX)
}

struct Streams {
    gateway: Arc<dyn DataGateway>,
}

#[async_trait]
impl DataService for Streams {
    type ExchangeStream = BoxStream<'static, Result<pb::DataMessage, Status>>;

    async fn exchange(
        &self,
        request: Request<Streaming<pb::DataMessage>>,
    ) -> Result<Response<Self::ExchangeStream>, Status> {
        let ends = request.extensions().get::<Ends>().copied();
        let ends = ends.ok_or_else(|| Status::internal("the connection has no addresses"))?;
        let (outgoing, replies) = mpsc::channel::<DataReply>(REPLIES);
        let incoming = DataReceiver {
            stream: request.into_inner(),
        };
        self.gateway
            .exchange(ends.local, ends.peer, incoming, outgoing);
        let replies = ReceiverStream::new(replies)
            .map(|reply| reply.map(convert::to_wire).map_err(Status::from));
        Ok(Response::new(replies.boxed()))
    }
}

/// Connects to the job process that listens at `address` within `timeout`.
pub async fn connect_data(
    env: &Env,
    address: &DataAddress,
    timeout: Duration,
) -> Result<Connection, ConnectError> {
    let text = address.to_string();
    let connecting = open(env, &text, &address.host, address.port, timeout);
    let result = env.clock().timeout(timeout, connecting).await;
    result.map_err(|_| ConnectError::Timeout {
        address: text.clone(),
        waited: timeout,
    })?
}

/// Opens a stream: what is put into the other end of `outgoing` goes to the callee.
pub async fn exchange_data(
    connection: &Connection,
    outgoing: mpsc::Receiver<DataMessage>,
) -> Result<DataReceiver, DataStreamError> {
    let mut client = DataServiceClient::new(connection.channel())
        .max_decoding_message_size(DATA_MESSAGE_BYTES_MAX)
        .max_encoding_message_size(DATA_MESSAGE_BYTES_MAX);
    let messages = ReceiverStream::new(outgoing).map(convert::to_wire);
    let stream = client.exchange(messages).await;
    let stream = stream.map_err(|status| DataStreamError::of_status(&status))?;
    Ok(DataReceiver {
        stream: stream.into_inner(),
    })
}
