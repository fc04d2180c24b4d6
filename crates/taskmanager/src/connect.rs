//! The way to the jobmanager, embedded or over the network.

use std::net::IpAddr;

use async_trait::async_trait;
use millstream_coordination::protocol::{FromTaskmanager, ToTaskmanager};
use tokio::sync::mpsc;

use crate::sight::OtherStorage;

/// Finds the jobmanager.
#[async_trait]
pub trait Connect: Send + Sync {
    /// A new connection, or why there is none. Bounds its own time.
    async fn connect(&self) -> Result<ControlConnection, ConnectError>;
}

/// A connection to the jobmanager. The end of either queue is its end.
#[derive(Debug)]
pub struct ControlConnection {
    /// To the jobmanager.
    pub outgoing: mpsc::Sender<FromTaskmanager>,
    /// From the jobmanager.
    pub incoming: mpsc::Receiver<ToTaskmanager>,
    /// This machine's address, as the connection has it; none where there is no network.
    pub local_ip: Option<IpAddr>,
}

/// Why there is no connection.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum ConnectError {
    /// The jobmanager was not reached.
    #[error("no connection to the jobmanager: {reason}")]
    Unreachable {
        /// In words, with all causes.
        reason: String,
    },
    /// It was, and its storage could not be looked at from here.
    #[error("the storage of the jobmanager was not seen: {reason}")]
    StorageUnseen {
        /// In words, with all causes and what to do.
        reason: String,
    },
    /// It was, and what is here in the place of its storage is something else.
    #[error(transparent)]
    OtherStorage(Box<OtherStorage>),
}

/// Connects within one process.
pub(crate) struct InProcess<F>(pub(crate) F);

#[async_trait]
impl<F> Connect for InProcess<F>
where
    F: Fn() -> (mpsc::Sender<FromTaskmanager>, mpsc::Receiver<ToTaskmanager>) + Send + Sync,
{
    async fn connect(&self) -> Result<ControlConnection, ConnectError> {
        let (outgoing, incoming) = (self.0)();
        Ok(ControlConnection {
            outgoing,
            incoming,
            local_ip: None,
        })
    }
}
