//! What runs in a process: the table behind all spawners of one root.

use std::any::Any;
use std::borrow::Cow;
use std::collections::BTreeMap;
use std::future::Future;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;

use futures::FutureExt;
use parking_lot::Mutex;
use tokio::sync::{oneshot, watch};
use tokio::task::AbortHandle;

use crate::{SpawnLimits, TaskError};

/// How many failures of supervised tasks are kept until somebody asks; of a flood the first ones
/// tell the cause.
const FAILURES_MAX: usize = 64;

/// Which limit something running counts against.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Kind {
    Task = 0,
    Blocking = 1,
    Thread = 2,
}

/// Counts and names what runs.
pub(crate) struct Registry {
    limits: SpawnLimits,
    table: Mutex<Table>,
    /// Counts ends and failures; whoever waits for either subscribes.
    changes: watch::Sender<u64>,
}

#[derive(Default)]
struct Table {
    running: BTreeMap<u64, Entry>,
    counts: [usize; 3],
    next_id: u64,
    next_group: u64,
    failures: Vec<TaskError>,
}

struct Entry {
    name: Cow<'static, str>,
    /// The groups it is in, outermost first.
    groups: Arc<[u64]>,
    abort: Option<AbortHandle>,
}

/// Who starts something, and how it is accounted for.
pub(crate) struct Request<'a> {
    pub name: Cow<'static, str>,
    pub spawner: &'a str,
    pub groups: &'a Arc<[u64]>,
    pub kind: Kind,
    pub supervised: bool,
}

impl Registry {
    pub fn new(limits: SpawnLimits) -> Arc<Self> {
        let changes = watch::channel(0).0;
        Arc::new(Self {
            limits,
            table: Mutex::new(Table::default()),
            changes,
        })
    }

    /// A number for a new group.
    pub fn new_group(&self) -> u64 {
        let mut table = self.table.lock();
        table.next_group += 1;
        table.next_group
    }

    /// Counts something in, if there is room for it.
    pub fn register(self: &Arc<Self>, request: Request<'_>) -> Result<Registration, TaskError> {
        let mut table = self.table.lock();
        let limit = match request.kind {
            Kind::Task => self.limits.tasks,
            Kind::Blocking => self.limits.blocking,
            Kind::Thread => self.limits.threads,
        };
        if table.counts[request.kind as usize] >= limit {
            let error = TaskError::Refused {
                name: request.name.into_owned(),
                spawner: request.spawner.to_owned(),
                limit,
            };
            drop(table);
            if request.supervised {
                self.fail(error.clone());
            }
            return Err(error);
        }
        table.counts[request.kind as usize] += 1;
        table.next_id += 1;
        let id = table.next_id;
        let entry = Entry {
            name: request.name.clone(),
            groups: request.groups.clone(),
            abort: None,
        };
        table.running.insert(id, entry);
        Ok(Registration {
            registry: self.clone(),
            id,
            kind: request.kind,
            name: request.name,
            supervised: request.supervised,
        })
    }

    /// Remembers how to stop a task; nothing if it has ended meanwhile.
    pub fn set_abort(&self, id: u64, abort: AbortHandle) {
        if let Some(entry) = self.table.lock().running.get_mut(&id) {
            entry.abort = Some(abort);
        }
    }

    /// The names of what runs in the group, oldest first.
    pub fn running(&self, groups: &[u64]) -> Vec<String> {
        let table = self.table.lock();
        table
            .of(groups)
            .map(|entry| entry.name.to_string())
            .collect()
    }

    /// Stops every task of the group at its next await and names them.
    pub fn abort(&self, groups: &[u64]) -> Vec<String> {
        let stoppable: Vec<(String, AbortHandle)> = {
            let table = self.table.lock();
            let named = |entry: &Entry| Some((entry.name.to_string(), entry.abort.clone()?));
            table.of(groups).filter_map(named).collect()
        };
        // Outside the lock: aborting may drop the task here, which counts it out.
        stoppable.iter().for_each(|(_, abort)| abort.abort());
        stoppable.into_iter().map(|(name, _)| name).collect()
    }

    pub fn take_failures(&self) -> Vec<TaskError> {
        std::mem::take(&mut self.table.lock().failures)
    }

    /// Completes once `done` holds, asked again after each change.
    pub async fn wait_until(&self, done: impl Fn(&Self) -> bool) {
        // Subscribed before the first look, or a change between the two would be missed.
        let mut changes = self.changes.subscribe();
        while !done(self) {
            if changes.changed().await.is_err() {
                return;
            }
        }
    }

    pub fn has_failures(&self) -> bool {
        !self.table.lock().failures.is_empty()
    }

    fn fail(&self, error: TaskError) {
        {
            let mut table = self.table.lock();
            if table.failures.len() < FAILURES_MAX {
                table.failures.push(error);
            }
        }
        self.changes.send_modify(|n| *n = n.wrapping_add(1));
    }
}

impl Table {
    /// What runs in the group and the groups within it.
    fn of(&self, groups: &[u64]) -> impl Iterator<Item = &Entry> {
        self.running
            .values()
            .filter(move |entry| entry.groups.starts_with(groups))
    }
}

/// Counts what it stands for out again when dropped, however that ended.
pub(crate) struct Registration {
    registry: Arc<Registry>,
    pub id: u64,
    kind: Kind,
    name: Cow<'static, str>,
    supervised: bool,
}

impl Registration {
    /// Ends the registration, then tells the owner: who has the result no longer sees it running.
    pub fn finish<T>(
        self,
        result: Result<T, Box<dyn Any + Send>>,
        owner: oneshot::Sender<Result<T, TaskError>>,
    ) {
        let result = result.map_err(|payload| panicked(&self.name, payload.as_ref()));
        if let (Err(error), true) = (&result, self.supervised) {
            self.registry.fail(error.clone());
        }
        drop(self);
        // The owner may be gone.
        let _ = owner.send(result);
    }

    /// Runs `future` to its end under this registration.
    pub async fn observe<F: Future>(
        self,
        future: F,
        owner: oneshot::Sender<Result<F::Output, TaskError>>,
    ) {
        let result = AssertUnwindSafe(future).catch_unwind().await;
        self.finish(result, owner);
    }
}

impl Drop for Registration {
    fn drop(&mut self) {
        {
            let mut table = self.registry.table.lock();
            table.running.remove(&self.id);
            table.counts[self.kind as usize] -= 1;
        }
        self.registry
            .changes
            .send_modify(|n| *n = n.wrapping_add(1));
    }
}

/// The error for a panic caught in `name`.
fn panicked(name: &str, payload: &(dyn Any + Send)) -> TaskError {
    let message = match (
        payload.downcast_ref::<&str>(),
        payload.downcast_ref::<String>(),
    ) {
        (Some(text), _) => (*text).to_owned(),
        (None, Some(text)) => text.clone(),
        (None, None) => "a value that is not text".to_owned(),
    };
    TaskError::Panicked {
        name: name.to_owned(),
        message,
    }
}
