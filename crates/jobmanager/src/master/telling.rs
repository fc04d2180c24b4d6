//! What a master says to the cluster's actor.

use std::collections::VecDeque;

use futures::future::BoxFuture;

use super::io::{self, Answer};
use crate::cluster::{ClusterEvent, ClusterHandle};

/// Says it in order, and without waiting: what finds no room at the actor waits among the master's
/// other requests.
///
/// Bounded by protocol: in one epoch a job asks for slots once, and again for each taskmanager that is
/// lost before it used them, gives them back, and abandons each at most once; for the next epoch it needs slots of the actor, who has read all before by then.
pub(super) struct Telling {
    cluster: ClusterHandle,
    waiting: VecDeque<ClusterEvent>,
    /// An event waits for room; the others wait for it.
    is_telling: bool,
}

impl Telling {
    pub(super) fn new(cluster: ClusterHandle) -> Self {
        Self {
            cluster,
            waiting: VecDeque::new(),
            is_telling: false,
        }
    }

    /// Says this. What is returned has to be awaited, and [`Telling::told`] called then.
    pub(super) fn tell(&mut self, event: ClusterEvent) -> Option<BoxFuture<'static, Answer>> {
        self.waiting.push_back(event);
        if self.is_telling { None } else { self.told() }
    }

    /// There was room: goes on with what waits.
    pub(super) fn told(&mut self) -> Option<BoxFuture<'static, Answer>> {
        self.is_telling = false;
        while let Some(event) = self.waiting.pop_front() {
            let cluster = self.cluster.clone();
            let telling = async move {
                cluster.send(event).await;
                Answer::Told
            };
            if let Err(waiting) = io::ordered(telling) {
                self.is_telling = true;
                return Some(waiting);
            }
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use millstream_types::{Epoch, JobId};

    use super::*;

    fn release(epoch: u64) -> ClusterEvent {
        ClusterEvent::ReleaseSlots {
            job: JobId::from_bytes([1; 16]),
            epoch: Epoch(epoch),
        }
    }

    fn epoch(event: Option<ClusterEvent>) -> u64 {
        match event {
            Some(ClusterEvent::ReleaseSlots { epoch, .. }) => epoch.0,
            other => panic!("not what was said: {other:?}"),
        }
    }

    #[tokio::test]
    async fn what_finds_no_room_is_said_later_and_in_its_order() {
        let (cluster, mut heard) = ClusterHandle::with_room(1);
        let mut telling = Telling::new(cluster);
        assert!(telling.tell(release(1)).is_none());
        let mut waiting = telling.tell(release(2)).expect("the queue is full");
        // The order is kept also by what would find room.
        assert_eq!(epoch(heard.recv().await), 1);
        assert!(telling.tell(release(3)).is_none());
        assert!(telling.tell(release(4)).is_none());
        for said in 2..=4 {
            assert!(matches!(waiting.await, Answer::Told));
            let next = telling.told();
            assert_eq!(epoch(heard.recv().await), said);
            match next {
                Some(next) => waiting = next,
                None => {
                    assert_eq!(said, 4);
                    return;
                }
            }
        }
        panic!("more was said than there was");
    }

    #[tokio::test]
    async fn nobody_waits_for_an_actor_that_is_gone() {
        let (cluster, heard) = ClusterHandle::with_room(1);
        drop(heard);
        let mut telling = Telling::new(cluster);
        assert!(telling.tell(release(1)).is_none());
        assert!(telling.tell(release(2)).is_none());
    }
}
