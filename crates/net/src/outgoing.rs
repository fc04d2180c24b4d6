//! The connection to another process: made with its first channel, kept as long as the data plane.

use std::sync::Arc;

use millstream_coordination::protocol::{ChannelToken, DataAddress};
use millstream_rpc::data::{DataMessage, DataReceiver, Hello, connect_data, exchange_data};
use millstream_types::SubtaskId;
use tokio::sync::mpsc;

use crate::failure::{End, LinkError, of_encode};
use crate::outputs::Outputs;
use crate::peer::{Command, Peer};
use crate::plane::Shared;

/// Messages between a connection and its socket. Each may be a frame of 1 MiB; a barrier waits
/// behind no more than these.
const QUEUE: usize = 4;

pub(crate) struct Outgoing {
    pub(crate) shared: Arc<Shared>,
    pub(crate) peer: Arc<Peer>,
    pub(crate) address: DataAddress,
    pub(crate) token: ChannelToken,
    pub(crate) commands: mpsc::UnboundedReceiver<Command>,
}

impl Outgoing {
    /// Until the data plane ends. After a failure every task that comes late is told as well.
    pub(crate) async fn run(mut self) {
        let mut outputs = Outputs::new(self.shared.identity.epoch);
        let stop = self.shared.stop.clone();
        let error = tokio::select! {
            () = stop.cancelled() => return,
            error = self.serve(&mut outputs) => error,
        };
        let own = End::new(&self.shared.identity.own, self.shared.identity.address());
        let peer = End::new(&self.peer.identity, &self.address);
        let failure = error.of_caller(&own, &peer);
        // Opened since, and not seen by the connection.
        while let Ok(command) = self.commands.try_recv() {
            apply(&mut outputs, command);
        }
        self.shared.fail(outputs.tasks(), failure.clone());
        // The channels stay: a task whose rows nobody takes must not end as if they had been.
        loop {
            let command = tokio::select! {
                () = stop.cancelled() => return,
                command = self.commands.recv() => command,
            };
            let late = match &command {
                Some(Command::Open(new)) => Some(new.own),
                Some(Command::Close(_)) => None,
                None => return,
            };
            command
                .into_iter()
                .for_each(|command| apply(&mut outputs, command));
            if let Some(own) = late {
                self.shared.fail(vec![own], failure.clone());
            }
        }
    }

    async fn serve(&mut self, outputs: &mut Outputs) -> LinkError {
        let (outgoing, incoming) = match self.call().await {
            Ok(streams) => streams,
            Err(error) => return error,
        };
        match self.exchange(outputs, &outgoing, incoming).await {
            Ok(never) => match never {},
            Err(error) => error,
        }
    }

    async fn call(&self) -> Result<(mpsc::Sender<DataMessage>, DataReceiver), LinkError> {
        let shared = &self.shared;
        let timeout = shared.settings.connect_timeout;
        let connection = connect_data(&shared.env, &self.address, timeout).await;
        let connection = connection.map_err(LinkError::Connect)?;
        let (outgoing, to_send) = mpsc::channel(QUEUE);
        let hello = Hello {
            job: shared.identity.job,
            epoch: shared.identity.epoch,
            from: shared.identity.own.clone(),
            to: self.peer.identity.clone(),
            token: self.token,
        };
        let calling = async {
            // There is room: nothing else was sent.
            let _ = outgoing.send(DataMessage::Hello(hello)).await;
            let mut incoming = exchange_data(&connection, to_send).await?;
            match incoming.next().await? {
                Some(DataMessage::Welcome) => Ok(incoming),
                Some(_) => Err(LinkError::Protocol(
                    "the call was not answered with a welcome".into(),
                )),
                None => Err(LinkError::Ended),
            }
        };
        // Its tasks may be deployed a little later than ours: only then can it answer.
        let patience = timeout + shared.settings.deployment_grace;
        match shared.env.clock().timeout(patience, calling).await {
            Ok(incoming) => Ok((outgoing, incoming?)),
            Err(_) => Err(LinkError::Silent(patience)),
        }
    }

    async fn exchange(
        &mut self,
        outputs: &mut Outputs,
        outgoing: &mpsc::Sender<DataMessage>,
        mut incoming: DataReceiver,
    ) -> Result<Never, LinkError> {
        let mut may_have_more = true;
        loop {
            tokio::select! {
                message = incoming.next() => {
                    outputs.receive(message?.ok_or(LinkError::Ended)?)?;
                    may_have_more = true;
                }
                Some(command) = self.commands.recv() => {
                    apply(outputs, command);
                    may_have_more = true;
                }
                () = self.peer.wake_outgoing.notified() => may_have_more = true,
                permit = outgoing.reserve(), if may_have_more => {
                    let permit = permit.map_err(|_| LinkError::Ended)?;
                    match outputs.next(self.shared.env.clock().monotonic()) {
                        Some(message) => permit.send(message),
                        None => may_have_more = false,
                    }
                    self.report(outputs);
                }
            }
        }
    }

    /// An element that cannot be sent is its task's failure and nobody else's.
    fn report(&self, outputs: &mut Outputs) {
        for (own, error) in outputs.take_failed() {
            let failure = of_encode(&error, &self.peer.identity, &self.address);
            self.shared.fail(vec![own], failure);
        }
    }
}

enum Never {}

fn apply(outputs: &mut Outputs, command: Command) {
    match command {
        Command::Open(new) => outputs.open(new),
        Command::Close(own) => outputs.close(own),
    }
}

/// Tells a connection something; it is gone only with the data plane.
pub(crate) fn tell(peer: &Peer, command: Command) {
    if let Some(commands) = &*peer.outgoing.lock() {
        let _ = commands.send(command);
    }
}

/// Tells every connection that a task ended.
pub(crate) fn close(peer: &Peer, own: SubtaskId) {
    tell(peer, Command::Close(own));
}
