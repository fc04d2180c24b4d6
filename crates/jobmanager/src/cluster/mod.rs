//! The cluster as one actor: who is registered, who is alive, which slot belongs to whom.
//!
//! Invariants: the actor waits for nobody; a connection that does not keep up is cut, and its
//! taskmanager is then lost like any other that went silent.

mod actor;
mod connections;
mod session;

use std::collections::BTreeMap;
use std::time::Duration;

use millstream_coordination::protocol::{Registration, SlotReport, ToTaskmanager};
use millstream_coordination::slots::{RegistrationRefusal, SlotDemand, SlotRef};
use millstream_types::{Epoch, Incarnation, JobId, SlotIndex, SubtaskId, TaskmanagerId};
use tokio::sync::{mpsc, oneshot};
use tokio_util::sync::CancellationToken;

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
        let is_sent = !self.cut.is_cancelled() && self.queue.try_send(message).is_ok();
        if !is_sent {
            self.cut.cancel();
        }
        is_sent
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
    Leaving(Peer),
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

/// Speaks to the actor.
#[derive(Clone, Debug)]
pub(crate) struct ClusterHandle {
    /// Unbounded, since the actor never waits and what is sent is a few words per heartbeat,
    /// connection or deployment.
    events: mpsc::UnboundedSender<ClusterEvent>,
}

impl ClusterHandle {
    pub(crate) fn send(&self, event: ClusterEvent) {
        // After a shutdown there is nobody to be told.
        let _ = self.events.send(event);
    }

    pub(crate) async fn describe(&self) -> Vec<TaskmanagerDetails> {
        let (reply, answer) = oneshot::channel();
        self.send(ClusterEvent::Describe(reply));
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
