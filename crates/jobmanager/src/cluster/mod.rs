//! The cluster as one actor: who is registered, who is alive, which slot belongs to whom.
//!
//! Invariants: every queue is bounded, and no waiting goes round: connections and users wait for
//! room at the actor and at masters, the actor waits for room at masters, and a master waits for
//! nobody (what it has to say to a full actor it keeps, and goes on). A connection whose
//! taskmanager does not read is cut, and the taskmanager is then lost like any other that went
//! silent.

mod actor;
mod connections;
mod session;

use std::collections::BTreeMap;
use std::time::Duration;

use millstream_coordination::protocol::{Registration, SlotReport, ToTaskmanager};
use millstream_coordination::slots::{RegistrationRefusal, SlotDemand, SlotRef};
use millstream_types::{Epoch, Incarnation, JobId, SlotIndex, SubtaskId, TaskmanagerId};
use tokio::sync::mpsc::error::TrySendError;
use tokio::sync::{mpsc, oneshot};
use tokio_util::sync::CancellationToken;
use tracing::warn;

use crate::details::TaskmanagerDetails;

pub(crate) use actor::start;
pub(crate) use connections::Connections;
pub use session::TaskmanagerSession;

/// Tells connections of one taskmanager apart.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) struct SessionId(pub(crate) u64);

/// One life of a taskmanager on one connection.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Peer {
    pub(crate) taskmanager: TaskmanagerId,
    pub(crate) incarnation: Incarnation,
    pub(crate) session: SessionId,
}

/// A way to a taskmanager.
#[derive(Clone, Debug)]
pub(crate) struct Link {
    /// Full means that the other side does not read: the link is cut.
    pub(crate) queue: mpsc::Sender<ToTaskmanager>,
    /// Fires when either side gave the connection up.
    pub(crate) cut: CancellationToken,
}

impl Link {
    /// Whether the message is on its way.
    pub(crate) fn send(&self, message: ToTaskmanager) -> bool {
        if self.cut.is_cancelled() {
            return false;
        }
        let sent = self.queue.try_send(message);
        if let Err(error) = &sent {
            if matches!(error, TrySendError::Full(_)) {
                let waiting = self.queue.max_capacity();
                warn!(
                    waiting,
                    "a taskmanager does not read its control stream: connection cut"
                );
            }
            self.cut.cancel();
        }
        sent.is_ok()
    }
}

/// What the actor is told.
#[derive(Debug)]
pub(crate) enum ClusterEvent {
    Register {
        session: SessionId,
        registration: Registration,
        link: Link,
        reply: oneshot::Sender<Result<(), RegistrationRefusal>>,
    },
    Heard(Peer),
    SlotReports(Peer, Vec<SlotReport>),
    SlotFreed(Peer, SlotIndex),
    Leaving {
        peer: Peer,
        /// Dropped when all jobs were told.
        told: oneshot::Sender<()>,
    },
    Disconnected(Peer),
    RequestSlots {
        job: JobId,
        epoch: Epoch,
        demand: SlotDemand,
        previous: BTreeMap<SubtaskId, TaskmanagerId>,
    },
    ReleaseSlots {
        job: JobId,
        epoch: Epoch,
    },
    AbandonSlot(SlotRef),
    Describe(oneshot::Sender<Vec<TaskmanagerDetails>>),
}

/// Events that may wait for the actor, of all connections, jobs and users together.
const EVENTS_MAX: usize = 4_096;

/// Speaks to the actor.
#[derive(Clone, Debug)]
pub(crate) struct ClusterHandle {
    events: mpsc::Sender<ClusterEvent>,
}

impl ClusterHandle {
    /// The handle and the actor's end.
    fn new() -> (Self, mpsc::Receiver<ClusterEvent>) {
        Self::with_room(EVENTS_MAX)
    }

    pub(crate) fn with_room(events: usize) -> (Self, mpsc::Receiver<ClusterEvent>) {
        let (events, receiver) = mpsc::channel(events);
        (Self { events }, receiver)
    }

    /// Waits for room. A master must not, and has `Telling` for that.
    pub(crate) async fn send(&self, event: ClusterEvent) {
        // After a shutdown there is nobody to be told.
        let _ = self.events.send(event).await;
    }

    pub(crate) async fn describe(&self) -> Vec<TaskmanagerDetails> {
        let (reply, answer) = oneshot::channel();
        self.send(ClusterEvent::Describe(reply)).await;
        answer.await.unwrap_or_default()
    }
}

/// Settings of the actor.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ClusterSettings {
    pub(crate) heartbeat_interval: Duration,
    pub(crate) heartbeat_timeout: Duration,
    pub(crate) slot_request_timeout: Duration,
    pub(crate) incarnation: Incarnation,
}
