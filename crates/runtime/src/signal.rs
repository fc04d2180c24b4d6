//! What wakes a task: one cell that everything a task waits for rings.

use std::sync::Arc;
use std::task::{Wake, Waker};

use tokio::sync::Notify;

/// Wakes one waiter. A ring before the wait is not lost; several rings are one.
#[derive(Clone, Default)]
pub struct Signal {
    bell: Arc<Bell>,
}

#[derive(Default)]
struct Bell(Notify);

impl Wake for Bell {
    fn wake(self: Arc<Self>) {
        self.0.notify_one();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        self.0.notify_one();
    }
}

impl Signal {
    /// A signal that nobody has rung.
    pub fn new() -> Self {
        Self::default()
    }

    /// Wakes the waiter, now or when it waits next.
    pub fn ring(&self) {
        self.bell.0.notify_one();
    }

    /// Waits until it is rung.
    pub async fn rung(&self) {
        self.bell.0.notified().await;
    }

    /// For code that knows wakers only.
    pub fn waker(&self) -> Waker {
        Waker::from(Arc::clone(&self.bell))
    }
}
