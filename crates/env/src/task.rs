//! The owner's end of a task.

use std::borrow::Cow;
use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};

use futures::FutureExt;
use tokio::sync::oneshot;
use tokio::task::AbortHandle;

/// A running task, seen by its owner. Awaiting it gives its result; dropping it stops the task at
/// its next await, for a task without an owner has nobody to report to.
#[must_use = "dropping a task stops it: await it, or give it to its spawner with `supervised`"]
pub struct Task<T> {
    name: Cow<'static, str>,
    result: oneshot::Receiver<Result<T, TaskError>>,
    /// `None` for what cannot be stopped from outside: blocking work and threads.
    abort: Option<AbortHandle>,
    /// Set once the owner gave it away or has its result.
    released: bool,
}

/// Why a task has no result.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum TaskError {
    /// The task's code panicked.
    #[error("task {name:?} panicked: {message}")]
    Panicked {
        /// The task.
        name: String,
        /// What the panic said.
        message: String,
    },
    /// The task was stopped before it was done.
    #[error("task {name:?} was stopped")]
    Stopped {
        /// The task.
        name: String,
    },
    /// The task was not started: too many run already.
    #[error("task {name:?} not started: {limit} of its kind run already in {spawner:?}")]
    Refused {
        /// The task.
        name: String,
        /// Whose limit it is.
        spawner: String,
        /// How many may run.
        limit: usize,
    },
    /// The operating system gave no thread.
    #[error("no thread for task {name:?}: {message}")]
    NoThread {
        /// The task.
        name: String,
        /// What the operating system said.
        message: String,
    },
}

impl<T> Task<T> {
    pub(crate) fn new(
        name: Cow<'static, str>,
        result: oneshot::Receiver<Result<T, TaskError>>,
        abort: Option<AbortHandle>,
    ) -> Self {
        Self {
            name,
            result,
            abort,
            released: false,
        }
    }

    /// A task that never ran.
    pub(crate) fn failed(name: Cow<'static, str>, error: TaskError) -> Self {
        let (sender, result) = oneshot::channel();
        // The receiver is in hand.
        let _ = sender.send(Err(error));
        Self {
            name,
            result,
            abort: None,
            released: false,
        }
    }

    /// The name it was started under.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Stops the task at its next await. Blocking work and threads end by themselves only.
    pub fn stop(&self) {
        if let Some(abort) = &self.abort {
            abort.abort();
        }
    }

    /// Whether the task has ended, in whatever way.
    pub fn is_finished(&self) -> bool {
        !self.result.is_empty() || self.result.is_terminated()
    }

    /// Lets the task go on without this handle. Its spawner still counts it and awaits it at
    /// shutdown; its result is lost, so this is for tasks that have none.
    pub(crate) fn release(mut self) {
        self.released = true;
    }
}

impl<T> Future for Task<T> {
    type Output = Result<T, TaskError>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let Poll::Ready(result) = self.result.poll_unpin(context) else {
            return Poll::Pending;
        };
        self.released = true;
        Poll::Ready(match result {
            Ok(result) => result,
            // The task was dropped with the sender in it.
            Err(_) => Err(TaskError::Stopped {
                name: self.name.to_string(),
            }),
        })
    }
}

impl<T> Drop for Task<T> {
    fn drop(&mut self) {
        if !self.released {
            self.stop();
        }
    }
}

impl<T> fmt::Debug for Task<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Task").field(&self.name).finish()
    }
}
