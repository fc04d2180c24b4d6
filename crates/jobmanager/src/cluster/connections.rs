//! The ways to all taskmanagers, shared by the masters of the jobs.

use std::collections::BTreeMap;
use std::sync::Arc;

use millstream_coordination::protocol::ToTaskmanager;
use millstream_types::TaskmanagerId;
use parking_lot::RwLock;

use super::Link;

/// Each with what the taskmanager calls its host.
type Links = BTreeMap<TaskmanagerId, (Link, Arc<str>)>;

/// Written by the cluster's actor alone.
#[derive(Clone, Debug, Default)]
pub(crate) struct Connections {
    links: Arc<RwLock<Links>>,
}

impl Connections {
    pub(super) fn insert(&self, taskmanager: TaskmanagerId, link: Link, host: &str) {
        let mut links = self.links.write();
        links.insert(taskmanager, (link, host.into()));
    }

    pub(super) fn remove(&self, taskmanager: &TaskmanagerId) {
        self.links.write().remove(taskmanager);
    }

    /// Whether the message is on its way. Messages to one taskmanager keep their order.
    pub(crate) fn send(&self, taskmanager: &TaskmanagerId, message: ToTaskmanager) -> bool {
        let links = self.links.read();
        let link = links.get(taskmanager);
        link.is_some_and(|(link, _)| link.send(message))
    }

    /// What the taskmanager calls its host.
    pub(crate) fn host(&self, taskmanager: &TaskmanagerId) -> Option<Arc<str>> {
        let links = self.links.read();
        links.get(taskmanager).map(|(_, host)| host.clone())
    }
}
