//! Job processes: children of the taskmanager that run the tasks of one job each.
//!
//! Invariants: a child lives no longer than its taskmanager, however that ends; it is told and
//! tells over one inherited socket and nothing else; it is reported ended when it is reaped.
//!
//! Three things end a child whose taskmanager is gone: the death signal it asks the kernel for, the
//! watchdog that sees the end of the socket, and the end of its command stream.

mod bootstrap;
mod child;
mod exit_status;
mod output;
mod running;
mod starter;

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use millstream_coordination::protocol::{StartJobProcess, ToTaskmanager};
use millstream_env::Env;
use tokio::sync::mpsc;
use tracing::warn;

pub use bootstrap::FD_VARIABLE;
pub use child::{asked_for, main};
pub use starter::StarterError;

use crate::host::{COMMANDS_MAX, HostEvent, HostIdentity, JobHost};
use crate::supervisor::ProcessId;
use bootstrap::Bootstrap;
use running::{Life, Running};
use starter::Starter;

pub use millstream_launch::FAIL_POINTS_VARIABLE;

/// How job processes are started.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ProcessSettings {
    /// The program: the taskmanager itself.
    pub program: PathBuf,
    /// Its arguments; none usually.
    pub args: Vec<OsString>,
    /// The taskmanager's configuration, as [`millstream_config::Resolved::print_config`] prints it.
    pub config: String,
    /// Fail points of the children. They are armed until one of them killed its process: after
    /// that the job is to recover.
    pub fail_points: Option<String>,
    /// Where children keep local state: what one leaves is deleted when it has ended.
    pub state_dirs: Vec<PathBuf>,
}

/// Runs each job in a child process.
pub struct ProcessHost {
    env: Env,
    settings: ProcessSettings,
    starter: Starter,
    events: mpsc::Sender<HostEvent>,
    are_fail_points_armed: Arc<AtomicBool>,
    children: BTreeMap<ProcessId, Child>,
}

struct Child {
    commands: mpsc::Sender<ToTaskmanager>,
    life: Arc<Life>,
}

impl ProcessHost {
    /// Without children. What happens to them goes to `events`.
    pub fn new(
        env: &Env,
        settings: ProcessSettings,
        events: mpsc::Sender<HostEvent>,
    ) -> Result<Self, StarterError> {
        Ok(Self {
            env: env.component("job processes"),
            starter: Starter::new(env)?,
            are_fail_points_armed: Arc::new(AtomicBool::new(settings.fail_points.is_some())),
            settings,
            events,
            children: BTreeMap::new(),
        })
    }

    fn fail_points(&self) -> Option<&str> {
        let is_armed = self.are_fail_points_armed.load(Ordering::Relaxed);
        self.settings.fail_points.as_deref().filter(|_| is_armed)
    }
}

impl JobHost for ProcessHost {
    fn start(&mut self, process: ProcessId, identity: &HostIdentity, start: StartJobProcess) {
        self.children.retain(|_, child| !child.commands.is_closed());
        let (commands, receiver) = mpsc::channel(COMMANDS_MAX);
        let life = Arc::new(Life::default());
        let job = start.job;
        // The queue is new and has room.
        let _ = commands.try_send(ToTaskmanager::StartJobProcess(start));
        let running = Running {
            env: self.env.clone(),
            process,
            job,
            life: Arc::clone(&life),
            events: self.events.clone(),
            are_fail_points_armed: Arc::clone(&self.are_fail_points_armed),
            state_dirs: self.settings.state_dirs.clone(),
        };
        let bootstrap = Bootstrap {
            identity: identity.clone(),
            config: self.settings.config.clone(),
        };
        let started = self.starter.start(&self.settings, self.fail_points());
        let name = format!("job process {process}");
        self.env.spawner().supervise(name, async move {
            running.watch(started, bootstrap, receiver).await;
        });
        self.children.insert(process, Child { commands, life });
    }

    fn tell(&mut self, process: ProcessId, message: ToTaskmanager) {
        let Some(child) = self.children.get(&process) else {
            return;
        };
        if let Err(mpsc::error::TrySendError::Full(_)) = child.commands.try_send(message) {
            // It would miss a message: better it ends, and its job restarts.
            warn!(%process, "job process does not read what it is told and is killed");
            child.life.kill();
        }
    }

    fn kill(&mut self, process: ProcessId) {
        if let Some(child) = self.children.remove(&process) {
            child.life.kill_as_told();
        }
    }
}

impl Drop for ProcessHost {
    fn drop(&mut self) {
        for child in self.children.values() {
            child.life.kill_as_told();
        }
    }
}
