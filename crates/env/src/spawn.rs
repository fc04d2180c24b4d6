//! Tasks and threads: named, counted, bounded, and awaited by somebody.

use std::borrow::Cow;
use std::fmt;
use std::future::Future;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::Duration;

use tokio::runtime::Handle;
use tokio::sync::{mpsc, oneshot};
use tokio_util::sync::CancellationToken;

use crate::registry::{Kind, Registration, Registry, Request};
use crate::{Clock, Task, TaskError};

/// Told to a group of tasks when they are to end: `stop.cancelled().await`.
pub type StopSignal = CancellationToken;

/// What a stopped task gets to reach its next await before it is called stuck.
const ABORT_TIMEOUT: Duration = Duration::from_secs(1);

/// How many of each kind a process runs at once. What exceeds them is refused, not queued.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SpawnLimits {
    /// Asynchronous tasks.
    pub tasks: usize,
    /// Pieces of blocking work, waiting ones included.
    pub blocking: usize,
    /// Own threads: each hosts a subtask, a snapshot or a watchdog.
    pub threads: usize,
}

/// Own threads of a process at most, where nothing else is said.
pub const THREADS_MAX: usize = 2_000;

impl Default for SpawnLimits {
    fn default() -> Self {
        Self {
            tasks: 100_000,
            blocking: 10_000,
            threads: THREADS_MAX,
        }
    }
}

/// Where blocking work and task hosts run.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Blocking {
    /// On threads.
    Threads,
    /// At once, in the caller's thread: a simulated host has a single one.
    Inline,
}

/// Starts the tasks of one group. Cloning shares the group; [`Spawner::group`] makes a part of it.
#[derive(Clone)]
pub struct Spawner {
    registry: Arc<Registry>,
    runtime: Handle,
    blocking: Blocking,
    /// Begins work within the `LocalSet` of the one thread, from wherever it is asked for. Bounded by
    /// what the registry lets run.
    local: Option<mpsc::UnboundedSender<Run>>,
    name: Arc<str>,
    /// The groups this one is in, its own number last.
    groups: Arc<[u64]>,
    stop: CancellationToken,
}

/// How a shutdown went.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct ShutdownReport {
    /// Tasks that did not end when told and were stopped at an await.
    pub aborted: Vec<String>,
    /// What could not be stopped at all and still runs.
    pub stuck: Vec<String>,
}

impl ShutdownReport {
    /// Everything ended by itself in time.
    pub fn is_clean(&self) -> bool {
        self.aborted.is_empty() && self.stuck.is_empty()
    }
}

impl Spawner {
    /// Runs tasks on the runtime this is called in.
    ///
    /// # Panics
    /// Outside a tokio runtime.
    pub fn current(name: &str, limits: SpawnLimits) -> Self {
        Self::on(Handle::current(), name, limits, Blocking::Threads)
    }

    /// Runs tasks on the given runtime.
    pub fn on(runtime: Handle, name: &str, limits: SpawnLimits, blocking: Blocking) -> Self {
        let registry = Registry::new(limits);
        let groups = Arc::from([registry.new_group()]);
        let stop = CancellationToken::new();
        Self {
            registry,
            runtime,
            blocking,
            local: None,
            name: name.into(),
            groups,
            stop,
        }
    }

    /// Runs everything on this one thread, blocking work and task hosts too: a simulated host.
    ///
    /// # Panics
    /// Outside a `LocalSet`, within which the hosted futures run.
    pub fn inline(name: &str, limits: SpawnLimits) -> Self {
        let (local, mut works) = mpsc::unbounded_channel::<Run>();
        // Ends with the last spawner, or with the thread.
        drop(tokio::task::spawn_local(async move {
            while let Some(begin) = works.recv().await {
                begin();
            }
        }));
        Self {
            local: Some(local),
            ..Self::on(Handle::current(), name, limits, Blocking::Inline)
        }
    }

    /// Whether blocking work and task hosts run on the caller's thread.
    pub fn is_inline(&self) -> bool {
        self.blocking == Blocking::Inline
    }

    /// A group within this one: it can be shut down alone, and is shut down with it.
    pub fn group(&self, name: &str) -> Self {
        let groups = self
            .groups
            .iter()
            .copied()
            .chain([self.registry.new_group()])
            .collect();
        let name = format!("{}/{name}", self.name).into();
        Self {
            name,
            groups,
            stop: self.stop.child_token(),
            ..self.clone()
        }
    }

    /// For tasks that no shutdown stops or awaits: they are in no group and end with the process.
    pub(crate) fn outliving(&self) -> Self {
        Self {
            groups: Arc::from([]),
            stop: CancellationToken::new(),
            ..self.clone()
        }
    }

    /// The group's name, with those it is in.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Fires when this group is to end.
    pub fn stop_signal(&self) -> StopSignal {
        self.stop.clone()
    }

    /// Starts a task. A panic in it becomes [`TaskError::Panicked`] at its owner.
    pub fn spawn<F>(&self, name: impl Into<Cow<'static, str>>, future: F) -> Task<F::Output>
    where
        F: Future + Send + 'static,
        F::Output: Send + 'static,
    {
        self.start(name.into(), false, future)
    }

    /// Starts a task that this spawner owns: it ends when done or at shutdown, and a panic in it is
    /// kept for [`Spawner::take_failures`].
    pub fn supervise<F>(&self, name: impl Into<Cow<'static, str>>, future: F)
    where
        F: Future<Output = ()> + Send + 'static,
    {
        self.start(name.into(), true, future).release();
    }

    /// Starts a task that stays on this thread: the caller runs within a `LocalSet`.
    ///
    /// # Panics
    /// Outside a `LocalSet`.
    pub fn spawn_local<F>(&self, name: impl Into<Cow<'static, str>>, future: F) -> Task<F::Output>
    where
        F: Future + 'static,
        F::Output: 'static,
    {
        let name = name.into();
        match self.register(name.clone(), Kind::Task, false) {
            Err(error) => Task::failed(name, error),
            Ok(registration) => {
                let (owner, result) = oneshot::channel();
                let id = registration.id;
                let work = registration.observe(future, owner);
                let abort = tokio::task::spawn_local(work).abort_handle();
                self.registry.set_abort(id, abort.clone());
                Task::new(name, result, Some(abort))
            }
        }
    }

    /// Runs blocking work on the pool, or inline under simulation.
    pub fn blocking<T, W>(&self, name: impl Into<Cow<'static, str>>, work: W) -> Task<T>
    where
        T: Send + 'static,
        W: FnOnce() -> T + Send + 'static,
    {
        self.start_blocking(name.into(), Kind::Blocking, work, |_, run| {
            match self.blocking {
                Blocking::Inline => run(),
                Blocking::Threads => spawn_blocking(&self.runtime, run),
            }
            Ok(())
        })
    }

    /// Runs `work` on an own thread of that name, also under simulation.
    pub fn thread<T, W>(&self, name: impl Into<Cow<'static, str>>, work: W) -> Task<T>
    where
        T: Send + 'static,
        W: FnOnce() -> T + Send + 'static,
    {
        self.start_blocking(name.into(), Kind::Thread, work, |name, run| {
            spawn_thread(name, run)
        })
    }

    /// Hosts a future that must stay on one thread: on an own thread with an own runtime, or, under
    /// simulation, on the caller's. The task loop of a subtask runs in here.
    pub fn host<F, M>(&self, name: impl Into<Cow<'static, str>>, make: M) -> Task<F::Output>
    where
        M: FnOnce() -> F + Send + 'static,
        F: Future + 'static,
        F::Output: Send + 'static,
    {
        match self.blocking {
            Blocking::Inline => match &self.local {
                Some(local) => self.host_inline(local, name.into(), make),
                None => self.spawn_local(name, async move { make().await }),
            },
            Blocking::Threads => self.thread(name, move || {
                let runtime = tokio::runtime::Builder::new_current_thread()
                    .enable_all()
                    .build();
                let runtime = runtime.expect("a runtime needs one epoll instance and one pipe");
                tokio::task::LocalSet::new().block_on(&runtime, async move { make().await })
            }),
        }
    }

    /// As [`Spawner::host`], on the one thread of a simulated host.
    fn host_inline<F, M>(
        &self,
        local: &mpsc::UnboundedSender<Run>,
        name: Cow<'static, str>,
        make: M,
    ) -> Task<F::Output>
    where
        M: FnOnce() -> F + Send + 'static,
        F: Future + 'static,
        F::Output: Send + 'static,
    {
        let registration = match self.register(name.clone(), Kind::Thread, false) {
            Ok(registration) => registration,
            Err(error) => return Task::failed(name, error),
        };
        let (owner, result) = oneshot::channel();
        let (registry, id) = (Arc::clone(&self.registry), registration.id);
        let begin = move || {
            let work = registration.observe(async move { make().await }, owner);
            registry.set_abort(id, tokio::task::spawn_local(work).abort_handle());
        };
        // Where the host is gone with its thread, the owner learns that the task was stopped.
        let _ = local.send(Box::new(begin));
        Task::new(name, result, None)
    }

    /// The names of what runs in this group and the groups within it, oldest first.
    pub fn running(&self) -> Vec<String> {
        self.registry.running(&self.groups)
    }

    /// The failures of supervised tasks since the last call, of all groups of this process.
    pub fn take_failures(&self) -> Vec<TaskError> {
        self.registry.take_failures()
    }

    /// Completes when there is a failure to take.
    pub async fn failed(&self) {
        self.registry.wait_until(Registry::has_failures).await;
    }

    /// Tells the group to stop, waits up to `grace` for it to end, then stops tasks at their next
    /// await. What still runs after that is named in the report: it sits in blocking code.
    pub async fn shutdown(&self, clock: &Clock, grace: Duration) -> ShutdownReport {
        self.stop.cancel();
        if clock.timeout(grace, self.until_empty()).await.is_ok() {
            return ShutdownReport::default();
        }
        let mut aborted = self.registry.abort(&self.groups);
        let ended = clock.timeout(ABORT_TIMEOUT, self.until_empty()).await;
        let stuck = if ended.is_ok() {
            Vec::new()
        } else {
            self.running()
        };
        aborted.retain(|name| !stuck.contains(name));
        ShutdownReport { aborted, stuck }
    }

    async fn until_empty(&self) {
        self.registry
            .wait_until(|registry| registry.running(&self.groups).is_empty())
            .await;
    }

    fn register(
        &self,
        name: Cow<'static, str>,
        kind: Kind,
        supervised: bool,
    ) -> Result<Registration, TaskError> {
        let groups = &self.groups;
        self.registry.register(Request {
            name,
            spawner: &self.name,
            groups,
            kind,
            supervised,
        })
    }

    fn start<F>(&self, name: Cow<'static, str>, supervised: bool, future: F) -> Task<F::Output>
    where
        F: Future + Send + 'static,
        F::Output: Send + 'static,
    {
        match self.register(name.clone(), Kind::Task, supervised) {
            Err(error) => Task::failed(name, error),
            Ok(registration) => {
                let (owner, result) = oneshot::channel();
                let id = registration.id;
                let abort = self
                    .runtime
                    .spawn(registration.observe(future, owner))
                    .abort_handle();
                self.registry.set_abort(id, abort.clone());
                Task::new(name, result, Some(abort))
            }
        }
    }

    fn start_blocking<T, W>(
        &self,
        name: Cow<'static, str>,
        kind: Kind,
        work: W,
        run: impl FnOnce(&str, Run) -> std::io::Result<()>,
    ) -> Task<T>
    where
        T: Send + 'static,
        W: FnOnce() -> T + Send + 'static,
    {
        let registration = match self.register(name.clone(), kind, false) {
            Ok(registration) => registration,
            Err(error) => return Task::failed(name, error),
        };
        let (owner, result) = oneshot::channel();
        let started = run(
            &name,
            Box::new(move || registration.finish(catch_unwind(AssertUnwindSafe(work)), owner)),
        );
        match started {
            Ok(()) => Task::new(name, result, None),
            Err(error) => {
                let error = TaskError::NoThread {
                    name: name.to_string(),
                    message: error.to_string(),
                };
                Task::failed(name, error)
            }
        }
    }
}

impl fmt::Debug for Spawner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Spawner").field(&self.name).finish()
    }
}

/// Blocking work with its registration and its owner's channel inside.
type Run = Box<dyn FnOnce() + Send>;

fn spawn_blocking(runtime: &Handle, run: Run) {
    // The handle says nothing that the owner's channel does not.
    drop(runtime.spawn_blocking(run));
}

fn spawn_thread(name: &str, run: Run) -> std::io::Result<()> {
    std::thread::Builder::new()
        .name(name.to_owned())
        .spawn(run)
        .map(drop)
}

#[cfg(test)]
mod tests;
