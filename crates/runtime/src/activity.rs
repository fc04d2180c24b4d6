//! The activity cell: what a task's thread is doing right now, readable from outside while the
//! thread is stuck in it.

use std::sync::Arc;
use std::time::Duration;

use millstream_env::Clock;
use millstream_types::MonoTime;
use parking_lot::Mutex;

/// What a task is doing; shared between its thread and those who ask.
#[derive(Clone)]
pub struct Activity {
    clock: Clock,
    cell: Arc<Mutex<Option<Current>>>,
}

#[derive(Clone)]
struct Current {
    operator: Arc<str>,
    function: &'static str,
    since: MonoTime,
}

/// A call that is going on.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ActivityReport {
    /// The operator's name.
    pub operator: String,
    /// What the operator was called for.
    pub function: &'static str,
    /// For how long.
    pub elapsed: Duration,
}

impl Activity {
    pub(crate) fn new(clock: Clock) -> Self {
        Self {
            clock,
            cell: Arc::default(),
        }
    }

    pub(crate) fn enter(&self, operator: &Arc<str>, function: &'static str, since: MonoTime) {
        *self.cell.lock() = Some(Current {
            operator: Arc::clone(operator),
            function,
            since,
        });
    }

    pub(crate) fn leave(&self) {
        *self.cell.lock() = None;
    }

    /// The call that is going on, if one is.
    pub fn report(&self) -> Option<ActivityReport> {
        let current = self.cell.lock().clone()?;
        Some(ActivityReport {
            operator: current.operator.to_string(),
            function: current.function,
            elapsed: self.clock.monotonic().saturating_since(current.since),
        })
    }
}
