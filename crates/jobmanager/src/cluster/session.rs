//! One connection of one taskmanager.

use std::sync::Arc;

use millstream_coordination::checkpoint::Origin;
use millstream_coordination::protocol::{
    FromTaskmanager, JobTasks, Registration, TaskmanagerHeartbeat, ToTaskmanager,
};
use millstream_env::Spawner;
use millstream_types::{Epoch, JobId};
use tokio::sync::{mpsc, oneshot};
use tokio_util::sync::CancellationToken;

use super::{ClusterEvent, ClusterHandle, Link, Peer, SessionId};
use crate::error::SessionError;
use crate::master::TaskMessage;
use crate::registry::Registry;

/// Messages that may wait for a taskmanager. A deployment of the largest job is a few times 10,000.
const QUEUE_MAX: usize = 65_536;

/// The jobmanager's end of a taskmanager's control stream, embedded or over the network. Dropping
/// it is the end of the connection.
#[derive(Debug)]
pub struct TaskmanagerSession {
    cluster: ClusterHandle,
    registry: Arc<Registry>,
    id: SessionId,
    link: Link,
    registered: Option<(Peer, Origin)>,
    /// Who this was, said when it is dropped.
    farewell: Option<oneshot::Sender<Peer>>,
}

impl TaskmanagerSession {
    pub(crate) fn open(
        cluster: ClusterHandle,
        registry: Arc<Registry>,
        id: SessionId,
        spawner: &Spawner,
        outgoing: mpsc::Sender<ToTaskmanager>,
    ) -> Self {
        let (queue, waiting) = mpsc::channel(QUEUE_MAX);
        let cut = CancellationToken::new();
        let (farewell, left) = oneshot::channel();
        let (forwarding, stop) = (
            forward(waiting, outgoing, cut.clone()),
            spawner.stop_signal(),
        );
        let told = cluster.clone();
        spawner.supervise(format!("control stream {}", id.0), async move {
            forwarding.await;
            // Dropping the session cannot wait for room at the actor; this can.
            tokio::select! {
                () = stop.cancelled() => {}
                left = left => if let Ok(peer) = left {
                    told.send(ClusterEvent::Disconnected(peer)).await;
                }
            }
        });
        Self {
            cluster,
            registry,
            id,
            link: Link { queue, cut },
            registered: None,
            farewell: Some(farewell),
        }
    }

    /// Takes a message of the taskmanager. Waits while the cluster's actor or the job it is for has
    /// many others to read.
    /// After an error the connection has to end.
    pub async fn receive(&mut self, message: FromTaskmanager) -> Result<(), SessionError> {
        if self.link.cut.is_cancelled() {
            return Err(SessionError::Closed);
        }
        if let FromTaskmanager::Register(registration) = message {
            return self.register(registration).await;
        }
        let Some((peer, from)) = self.registered.clone() else {
            return Err(SessionError::NotRegistered);
        };
        self.cluster.send(ClusterEvent::Heard(peer.clone())).await;
        match message {
            FromTaskmanager::Register(_) => {}
            FromTaskmanager::Heartbeat(heartbeat) => self.on_heartbeat(peer, from, heartbeat).await,
            FromTaskmanager::SlotFreed { slot } => {
                self.cluster.send(ClusterEvent::SlotFreed(peer, slot)).await;
            }
            FromTaskmanager::Leaving => self.on_leaving(peer).await,
            FromTaskmanager::Metrics(metrics) => {
                for metrics in metrics {
                    let job = metrics.job;
                    self.deliver(job, TaskMessage::Metrics(Box::new(metrics)))
                        .await;
                }
            }
            message @ (FromTaskmanager::JobProcessStarted { .. }
            | FromTaskmanager::JobProcessFailed { .. }
            | FromTaskmanager::SubtaskState { .. }
            | FromTaskmanager::Acknowledge(_)
            | FromTaskmanager::Decline(_)
            | FromTaskmanager::UploadStopped { .. }
            | FromTaskmanager::EndOfData { .. }
            | FromTaskmanager::Output(_)) => {
                if let Some(job) = job_of(&message) {
                    let message = TaskMessage::Sent(from, Box::new(message));
                    self.deliver(job, message).await;
                }
            }
        }
        Ok(())
    }

    /// The connection is over.
    pub fn closed(self) {
        drop(self);
    }

    /// Completes when the jobmanager gave this connection up.
    pub async fn given_up(&self) {
        self.link.cut.cancelled().await;
    }

    async fn register(&mut self, registration: Registration) -> Result<(), SessionError> {
        if self.registered.is_some() {
            return Err(SessionError::RegisteredTwice);
        }
        let peer = Peer {
            taskmanager: registration.id.clone(),
            incarnation: registration.incarnation,
            session: self.id,
        };
        let from = Origin {
            taskmanager: registration.id.clone(),
            host: registration.host.clone(),
        };
        let (reply, answer) = oneshot::channel();
        let event = ClusterEvent::Register {
            session: self.id,
            registration,
            link: self.link.clone(),
            reply,
        };
        // From here on the end of this session has to be told.
        self.registered = Some((peer, from));
        self.cluster.send(event).await;
        match answer.await {
            Ok(Ok(())) => Ok(()),
            Ok(Err(refusal)) => {
                self.registered = None;
                Err(SessionError::Refused(refusal))
            }
            Err(_) => Err(SessionError::Closed),
        }
    }

    /// Every job hears of it, in order with the other messages of this taskmanager: a task that is
    /// not listed is one that the taskmanager does not have.
    async fn on_heartbeat(&self, peer: Peer, from: Origin, heartbeat: TaskmanagerHeartbeat) {
        let TaskmanagerHeartbeat { slots, jobs } = heartbeat;
        for JobTasks { job, tasks } in &jobs {
            if self.registry.handle(*job).is_none() {
                let newest = tasks.iter().map(|task| task.task.epoch).max();
                self.release(*job, newest.unwrap_or_default());
            }
        }
        self.cluster
            .send(ClusterEvent::SlotReports(peer, slots))
            .await;
        for (job, handle) in self.registry.running() {
            let tasks = jobs.iter().find(|listed| listed.job == job);
            let message = TaskMessage::Reported {
                taskmanager: from.taskmanager.clone(),
                tasks: tasks.map(|listed| listed.tasks.clone()).unwrap_or_default(),
            };
            // A master that just ended has no use for it.
            let _ = handle.messages.send(message).await;
        }
    }

    /// Jobs are told before they read what their tasks there say next: those end because it leaves,
    /// which is no failure. What tasks elsewhere say of it may still come first.
    async fn on_leaving(&self, peer: Peer) {
        let (told, all_told) = oneshot::channel();
        self.cluster
            .send(ClusterEvent::Leaving { peer, told })
            .await;
        // Its end is the answer.
        let _ = all_told.await;
    }

    /// A job that ended, or that nobody here knows: what runs of it must stop.
    fn release(&self, job: JobId, epoch: Epoch) {
        self.link.send(ToTaskmanager::ReleaseJob { job, epoch });
    }

    async fn deliver(&self, job: JobId, message: TaskMessage) {
        if let Some(handle) = self.registry.handle(job) {
            let _ = handle.messages.send(message).await;
        }
    }
}

impl Drop for TaskmanagerSession {
    fn drop(&mut self) {
        self.link.cut.cancel();
        if let (Some((peer, _)), Some(farewell)) = (self.registered.take(), self.farewell.take()) {
            // Nobody listens after a shutdown.
            let _ = farewell.send(peer);
        }
    }
}

fn job_of(message: &FromTaskmanager) -> Option<JobId> {
    match message {
        FromTaskmanager::JobProcessStarted { job, .. }
        | FromTaskmanager::JobProcessFailed { job, .. }
        | FromTaskmanager::SubtaskState { job, .. }
        | FromTaskmanager::UploadStopped { job, .. }
        | FromTaskmanager::EndOfData { job, .. } => Some(*job),
        FromTaskmanager::Acknowledge(message) => Some(message.job),
        FromTaskmanager::Decline(message) => Some(message.job),
        FromTaskmanager::Output(lines) => Some(lines.job),
        FromTaskmanager::Register(_)
        | FromTaskmanager::Heartbeat(_)
        | FromTaskmanager::SlotFreed { .. }
        | FromTaskmanager::Metrics(_)
        | FromTaskmanager::Leaving => None,
    }
}

/// Hands messages on at the pace of the other side. Its end closes `outgoing`, which is how the
/// transport learns that the connection was given up.
async fn forward(
    mut waiting: mpsc::Receiver<ToTaskmanager>,
    outgoing: mpsc::Sender<ToTaskmanager>,
    cut: CancellationToken,
) {
    loop {
        // Nothing is lost that matters: a message that was taken when the link is cut has no
        // reader any more.
        tokio::select! {
            () = cut.cancelled() => break,
            message = waiting.recv() => {
                let Some(message) = message else { break };
                tokio::select! {
                    () = cut.cancelled() => break,
                    sent = outgoing.send(message) => if sent.is_err() { break },
                }
            }
        }
    }
    // What was said before the cut, such as a refusal, still goes out if there is room.
    while let Ok(message) = waiting.try_recv() {
        if outgoing.try_send(message).is_err() {
            break;
        }
    }
    cut.cancel();
}
