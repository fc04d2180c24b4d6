//! What a task worked off, on its way back to the sender.
//!
//! A task counts an element by its size in memory, the wire by its encoded bytes. Both are kept
//! side by side, or the window would shrink by the difference with each element.

use std::collections::VecDeque;
use std::sync::Arc;

use parking_lot::Mutex;
use tokio::sync::Notify;

/// Told by a task what it worked off of one incoming channel. Cloning shares the channel.
#[derive(Clone, Debug)]
pub struct Credit {
    ledger: Arc<Mutex<Ledger>>,
    wake: Arc<Notify>,
}

#[derive(Debug)]
struct Ledger {
    /// Cost to the task and cost on the wire of each element not yet worked off.
    line: VecDeque<(u64, u64)>,
    /// Worked off of the first in line.
    released: u64,
    /// Wire bytes to be given back.
    due: u64,
    threshold: u64,
}

impl Credit {
    pub(crate) fn new(window: u64, wake: Arc<Notify>) -> Self {
        // Below a quarter of the window the sender cannot stand still for want of these bytes: it
        // was granted half a window or more when less was held.
        let threshold = (window / 4).max(1);
        let ledger = Ledger {
            line: VecDeque::new(),
            released: 0,
            due: 0,
            threshold,
        };
        Self {
            ledger: Arc::new(Mutex::new(ledger)),
            wake,
        }
    }

    /// `bytes`, as the task counts them, were worked off.
    pub fn release(&self, bytes: u64) {
        let mut ledger = self.ledger.lock();
        ledger.released += bytes;
        while let Some((cost, wire)) = ledger.line.front().copied()
            && cost <= ledger.released
        {
            ledger.line.pop_front();
            ledger.released -= cost;
            ledger.due += wire;
        }
        let is_due = ledger.due >= ledger.threshold;
        drop(ledger);
        if is_due {
            self.wake.notify_one();
        }
    }

    /// An element goes to the task.
    pub(crate) fn deliver(&self, cost: u64, wire: u64) {
        let mut ledger = self.ledger.lock();
        if cost == 0 {
            // The task will not say that it worked off nothing.
            ledger.due += wire;
        } else {
            ledger.line.push_back((cost, wire));
        }
    }

    pub(crate) fn take_due(&self) -> u64 {
        std::mem::take(&mut self.ledger.lock().due)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_task_counts_comes_back_as_what_the_wire_counts() {
        let credit = Credit::new(100, Arc::new(Notify::new()));
        credit.deliver(10, 17);
        credit.deliver(20, 31);
        credit.release(4);
        assert_eq!(credit.take_due(), 0, "the first element is not done");
        credit.release(6);
        assert_eq!(credit.take_due(), 17);
        credit.release(20);
        assert_eq!((credit.take_due(), credit.take_due()), (31, 0));
    }

    #[test]
    fn an_element_that_costs_the_task_nothing_is_given_back_at_once() {
        let credit = Credit::new(100, Arc::new(Notify::new()));
        credit.deliver(0, 40);
        assert_eq!(credit.take_due(), 40);
    }
}
