//! A machine of the simulation: what it gives the one process that runs on it, and what the
//! simulation does to it.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use millstream_env::EnvParts;
use millstream_env::fs::MemoryFs;
use millstream_env::{
    Env, Exit, ExitLog, ExitRecord, FailPoints, Rng, SignalSender, Signals, SpawnLimits, Spawner,
};
use millstream_snapshot::StandIn;
use parking_lot::Mutex;

use crate::clock;
use crate::disk::HostFs;
use crate::net::SimNet;
use crate::store::Reached;
use crate::world::{STORE, World};

/// How often a request looks whether the way to the store is open again.
const STORE_POLL: Duration = Duration::from_millis(10);

/// What the simulation does to a machine. Cloning shares it.
#[derive(Clone)]
pub struct Control {
    state: Arc<State>,
}

struct State {
    name: String,
    is_on: AtomicBool,
    is_store_closed: AtomicBool,
    lives: AtomicU64,
    exits: Mutex<ExitLog>,
    /// How the process ended by itself.
    end: Mutex<Option<String>>,
    signals: Mutex<Option<SignalSender>>,
    fail_points: Mutex<String>,
    disk: MemoryFs,
    /// The epoch in which each subtask of the sink began a file last, in this life.
    staged: Mutex<BTreeMap<String, u64>>,
    accused: Mutex<Option<String>>,
}

impl Control {
    /// A machine of this name.
    pub fn new(name: &str, is_on: bool) -> Self {
        Self {
            state: Arc::new(State {
                name: name.to_owned(),
                is_on: AtomicBool::new(is_on),
                is_store_closed: AtomicBool::new(false),
                lives: AtomicU64::new(0),
                exits: Mutex::default(),
                end: Mutex::default(),
                signals: Mutex::default(),
                fail_points: Mutex::default(),
                disk: MemoryFs::default(),
                staged: Mutex::default(),
                accused: Mutex::default(),
            }),
        }
    }

    pub fn name(&self) -> &str {
        &self.state.name
    }

    /// Its own disk.
    pub fn disk(&self) -> &MemoryFs {
        &self.state.disk
    }

    /// Whether its process is to run.
    pub fn is_on(&self) -> bool {
        self.state.is_on.load(Ordering::Relaxed)
    }

    pub fn set_on(&self, is_on: bool) {
        self.state.is_on.store(is_on, Ordering::Relaxed);
    }

    /// Closes or opens the way to the object store.
    pub fn set_store_closed(&self, is_closed: bool) {
        self.state
            .is_store_closed
            .store(is_closed, Ordering::Relaxed);
    }

    /// Arms fail points of the next life.
    pub fn arm(&self, fail_points: &str) {
        fail_points.clone_into(&mut self.state.fail_points.lock());
    }

    /// Whether the process was ended in the midst of its turn: nothing it does counts any more.
    pub fn is_dead(&self) -> bool {
        !self.state.exits.lock().records().is_empty()
    }

    /// How it was ended.
    pub fn exits(&self) -> Vec<ExitRecord> {
        self.state.exits.lock().records()
    }

    /// How the process ended by itself, said once.
    pub fn take_end(&self) -> Option<String> {
        self.state.end.lock().take()
    }

    /// The process ended by itself.
    pub fn set_end(&self, end: String) {
        *self.state.end.lock() = Some(end);
    }

    /// Sends SIGTERM to the process, if it runs.
    pub fn signals(&self) -> Option<SignalSender> {
        self.state.signals.lock().clone()
    }

    /// Never, for a process that was ended.
    pub async fn alive(&self) {
        if self.is_dead() {
            std::future::pending().await
        }
    }

    /// A sink's subtask begins a file in this epoch. In one life of a process no older one may
    /// follow (fence F7).
    pub fn stages(&self, subtask: &str, epoch: u64) {
        let mut staged = self.state.staged.lock();
        let newest = staged.values().max().copied().unwrap_or_default();
        if epoch < newest {
            let name = self.name();
            let text = format!("F7: {name} runs tasks of epoch {epoch} beside those of {newest}");
            *self.state.accused.lock() = Some(text);
        }
        staged.insert(subtask.to_owned(), epoch);
    }

    /// What the subtask began in this epoch gets its name. What an older epoch promised comes
    /// before what a newer one begins (fence F13).
    pub fn commits(&self, subtask: &str, epoch: u64) {
        let newest = self.state.staged.lock().get(subtask).copied();
        if let Some(newest) = newest.filter(|newest| *newest > epoch) {
            let name = self.name();
            let text = format!(
                "F13: {subtask} on {name} wrote in epoch {newest} and then commits what epoch \
                 {epoch} promised"
            );
            *self.state.accused.lock() = Some(text);
        }
    }

    /// What tasks on it did that they must not.
    pub fn accused(&self) -> Option<String> {
        self.state.accused.lock().clone()
    }

    /// Waits until the way to the store is open.
    pub async fn store_open(&self) {
        loop {
            self.alive().await;
            if !self.state.is_store_closed.load(Ordering::Relaxed) {
                return;
            }
            tokio::time::sleep(STORE_POLL).await;
        }
    }

    /// What a process that starts now is given.
    pub fn begin(&self, world: &World) -> (Env, Signals) {
        let (exit, exits) = Exit::recording();
        *self.state.exits.lock() = exits;
        *self.state.end.lock() = None;
        self.state.staged.lock().clear();
        let life = self.state.lives.fetch_add(1, Ordering::Relaxed);
        let rng = Rng::from_seed(world.options.seed).fork(&format!("{} {life}", self.name()));
        let spawner = Spawner::inline(self.name(), SpawnLimits::default());
        let (sender, signals) = Signals::by_hand(&spawner, &exit);
        *self.state.signals.lock() = Some(sender);
        let fail_points = std::mem::take(&mut *self.state.fail_points.lock());
        let fail_points = FailPoints::parse(&fail_points, &exit).unwrap();
        let env = Env::from_parts(EnvParts {
            clock: clock::of_process(),
            rng,
            net: Arc::new(SimNet::new(world.names.clone(), self.clone())),
            fs: Arc::new(HostFs::new(
                self.state.disk.clone(),
                world.disk.clone(),
                self.clone(),
            )),
            spawner,
            exit,
        });
        let objects = Reached::new(Arc::new(world.objects.clone()), self.clone());
        let stand_in = move |location: &str| {
            let objects: Arc<dyn object_store::ObjectStore> = Arc::new(objects.clone());
            location.starts_with(STORE).then_some(objects)
        };
        let env = env.with_fail_points(fail_points);
        let env = env.with_sabotage(world.options.sabotage);
        (env.with_double(StandIn(Box::new(stand_in))), signals)
    }
}
