//! Requests for checkpoints and the order in which they are served (B1.1).

use std::collections::BTreeMap;

use super::CheckpointKind;

/// How many requests may wait.
pub(super) const CAPACITY: usize = 1000;

/// A user's request, to be answered exactly once.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Hash)]
pub struct RequestId(pub u64);

/// A request in the queue.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Request {
    pub(super) kind: CheckpointKind,
    /// Who waits for the answer, if a user does.
    pub(super) id: Option<RequestId>,
}

impl Request {
    /// Nobody waits for it.
    pub(super) const fn of(kind: CheckpointKind) -> Self {
        Self { kind, id: None }
    }

    pub(super) const fn by_user(id: RequestId) -> Self {
        Self {
            kind: CheckpointKind::Manual,
            id: Some(id),
        }
    }
}

/// Non-periodic before periodic, then older before newer.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(super) struct Queue {
    requests: BTreeMap<(bool, u64), Request>,
    next_seq: u64,
}

impl Queue {
    /// Adds a request. Gives back what finds no place: a waiting periodic one if there is any, the
    /// new one otherwise. A second periodic request joins the one that waits already.
    pub(super) fn push(&mut self, request: Request) -> Option<Request> {
        let is_periodic = request.kind == CheckpointKind::Periodic;
        if is_periodic && self.contains(CheckpointKind::Periodic) {
            return None;
        }
        let mut evicted = None;
        if self.requests.len() >= CAPACITY {
            let last = self.requests.keys().next_back().copied();
            match last {
                Some(key @ (true, _)) => evicted = self.requests.remove(&key),
                Some((false, _)) | None => return Some(request),
            }
        }
        self.requests.insert((is_periodic, self.next_seq), request);
        self.next_seq += 1;
        evicted
    }

    pub(super) fn contains(&self, kind: CheckpointKind) -> bool {
        self.requests.values().any(|request| request.kind == kind)
    }

    pub(super) fn head(&self) -> Option<Request> {
        self.requests.values().next().copied()
    }

    pub(super) fn pop(&mut self) -> Option<Request> {
        self.requests.pop_first().map(|(_, request)| request)
    }

    pub(super) fn drain(&mut self) -> Vec<Request> {
        std::mem::take(&mut self.requests).into_values().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn manual(id: u64) -> Request {
        Request::by_user(RequestId(id))
    }

    const PERIODIC: Request = Request::of(CheckpointKind::Periodic);

    #[test]
    fn a_user_goes_before_the_timer_and_the_older_before_the_newer() {
        let mut queue = Queue::default();
        for request in [PERIODIC, manual(1), manual(2)] {
            assert_eq!(queue.push(request), None);
        }
        assert_eq!(queue.drain(), [manual(1), manual(2), PERIODIC]);
    }

    // Proves F46, that one request waits.
    #[test]
    fn there_is_one_periodic_request_at_most() {
        let mut queue = Queue::default();
        queue.push(PERIODIC);
        queue.push(PERIODIC);
        assert_eq!(queue.drain(), [PERIODIC]);
    }

    // Proves F57.
    #[test]
    fn a_full_queue_gives_up_the_periodic_request_first_then_refuses_the_newest() {
        let mut queue = Queue::default();
        queue.push(PERIODIC);
        for id in 1..1000 {
            assert_eq!(queue.push(manual(id)), None);
        }
        assert_eq!(queue.push(manual(1000)), Some(PERIODIC));
        assert_eq!(queue.push(manual(1001)), Some(manual(1001)));
        assert_eq!(queue.push(PERIODIC), Some(PERIODIC));
    }
}
