//! A taskmanager's side of its control stream.

use futures::{Stream, StreamExt};
use millstream_coordination::protocol::{CheckpointStorage, FromTaskmanager, ToTaskmanager};
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use tonic::Streaming;

use super::common::storage_from_wire;
use super::{bounded, to_taskmanager};
use crate::connect::Connection;
use crate::pb;
use crate::pb::control_service_client::ControlServiceClient;
use crate::status::CallError;

/// Messages from the jobmanager.
#[derive(Debug)]
pub struct ControlReceiver {
    address: String,
    stream: Streaming<pb::ToTaskmanager>,
}

impl ControlReceiver {
    /// The next message; none when the jobmanager ended the connection. Dropping the future loses
    /// nothing.
    pub async fn next(&mut self) -> Result<Option<ToTaskmanager>, CallError> {
        let message = self.stream.message().await;
        let message = message.map_err(|status| CallError::of_status(&self.address, &status))?;
        let message = message.map(to_taskmanager::from_wire).transpose();
        message.map_err(|error| CallError::Answer {
            address: self.address.clone(),
            error,
        })
    }
}

/// Where the jobmanager keeps checkpoints, if it has a place for them.
pub async fn describe_storage(
    connection: &Connection,
) -> Result<Option<CheckpointStorage>, CallError> {
    let mut client = ControlServiceClient::new(connection.channel());
    let answer = client.describe_storage(pb::DescribeStorageRequest {}).await;
    let answer = answer.map_err(|status| CallError::of_status(connection.address(), &status))?;
    Ok(answer.into_inner().checkpoints.map(storage_from_wire))
}

/// Opens the control stream. What is put into `outgoing`'s other end goes to the jobmanager; a
/// message above `limit` is replaced by one that says so, where somebody waits for it.
pub async fn connect_control(
    connection: &Connection,
    outgoing: mpsc::Receiver<FromTaskmanager>,
    limit: usize,
) -> Result<ControlReceiver, CallError> {
    let mut client = ControlServiceClient::new(connection.channel())
        .max_decoding_message_size(limit)
        .max_encoding_message_size(limit);
    let messages = to_wire(ReceiverStream::new(outgoing), limit);
    let stream = client.connect(messages).await;
    let stream = stream.map_err(|status| CallError::of_status(connection.address(), &status))?;
    Ok(ControlReceiver {
        address: connection.address().to_owned(),
        stream: stream.into_inner(),
    })
}

fn to_wire(
    messages: impl Stream<Item = FromTaskmanager> + Send + 'static,
    limit: usize,
) -> impl Stream<Item = pb::FromTaskmanager> + Send + 'static {
    messages.filter_map(move |message| {
        std::future::ready(match bounded::from_to_wire(&message, limit) {
            Ok(wire) => Some(wire),
            Err(error) => bounded::instead(message, &error)
                .and_then(|instead| bounded::from_to_wire(&instead, limit).ok()),
        })
    })
}
