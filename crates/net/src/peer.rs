//! What is known of one other process.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use millstream_coordination::failure::FailureInfo;
use millstream_exchange::frame::ElementCodec;
use millstream_graph::ChannelId;
use millstream_rpc::data::ProcessIdentity;
use millstream_types::SubtaskId;
use parking_lot::Mutex;
use tokio::sync::{Notify, mpsc};

use crate::channel::{Inlet, Outlet};
use crate::credit::Credit;

/// An outgoing channel that a task opens.
pub(crate) struct NewOutput {
    pub(crate) own: SubtaskId,
    pub(crate) channel: ChannelId,
    pub(crate) codec: ElementCodec,
    pub(crate) elements: Box<dyn Outlet>,
}

/// What the outgoing connection is told.
pub(crate) enum Command {
    Open(NewOutput),
    Close(SubtaskId),
}

/// An incoming channel that a task waits for.
pub(crate) struct Offered {
    pub(crate) own: SubtaskId,
    pub(crate) codec: ElementCodec,
    pub(crate) elements: Box<dyn Inlet>,
    pub(crate) credit: Credit,
}

/// What the incoming connection finds.
#[derive(Default)]
pub(crate) struct Inputs {
    /// Not yet bound to a number of the connection.
    pub(crate) offered: BTreeMap<ChannelId, Offered>,
    /// Offered by tasks that ended before a sender came: it is let go when it does.
    pub(crate) gone: BTreeSet<ChannelId>,
    /// Tasks that ended.
    pub(crate) closing: BTreeSet<SubtaskId>,
    pub(crate) is_connected: bool,
    /// Why there is no connection any more.
    pub(crate) failure: Option<FailureInfo>,
}

/// Another process.
pub(crate) struct Peer {
    pub(crate) identity: ProcessIdentity,
    pub(crate) inputs: Mutex<Inputs>,
    pub(crate) wake_incoming: Arc<Notify>,
    pub(crate) wake_outgoing: Arc<Notify>,
    /// What the outgoing connection is told, by those who deploy tasks and must not wait.
    ///
    /// Bounded by protocol: a data plane lives for one epoch, in which each subtask is deployed once,
    /// so there is at most one `Open` for each channel of the plan that leads to this peer, and one
    /// `Close` for each own task.
    pub(crate) outgoing: Mutex<Option<mpsc::UnboundedSender<Command>>>,
}

impl Peer {
    pub(crate) fn new(identity: ProcessIdentity) -> Self {
        Self {
            identity,
            inputs: Mutex::default(),
            wake_incoming: Arc::default(),
            wake_outgoing: Arc::default(),
            outgoing: Mutex::default(),
        }
    }

    pub(crate) fn wake(&self) {
        self.wake_incoming.notify_one();
        self.wake_outgoing.notify_one();
    }
}
