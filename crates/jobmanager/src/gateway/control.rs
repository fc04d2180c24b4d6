//! Control streams of taskmanagers.

use async_trait::async_trait;
use millstream_coordination::protocol::{CheckpointStorage, FromTaskmanager, ToTaskmanager};
use millstream_rpc::{ControlGateway, ControlSession, ControlSessionError};
use tokio::sync::mpsc;

use crate::{Jobmanager, TaskmanagerSession};

/// Takes the connections of taskmanagers.
pub struct ControlStreams(pub Jobmanager);

impl ControlGateway for ControlStreams {
    fn connect(&self, outgoing: mpsc::Sender<ToTaskmanager>) -> Box<dyn ControlSession> {
        Box::new(Session(self.0.connect_taskmanager(outgoing)))
    }

    fn storage(&self) -> Option<CheckpointStorage> {
        self.0.checkpoint_storage()
    }
}

struct Session(TaskmanagerSession);

#[async_trait]
impl ControlSession for Session {
    async fn receive(&mut self, message: FromTaskmanager) -> Result<(), ControlSessionError> {
        let taken = self.0.receive(message).await;
        taken.map_err(|error| ControlSessionError {
            message: millstream_telemetry::chain(&error),
        })
    }
}
