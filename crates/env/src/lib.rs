//! Time, randomness, network, local files, tasks and the end of the process: everything that makes
//! a program differ from one run to the next, behind handles that are passed in.
//!
//! Invariants: no other crate touches the raw thing but for the places that `xtask/src/tidy/hooks.txt` lists with
//! reasons (lints and `cargo xtask tidy` check it); there
//! is no global, so that several daemons live in one process; each handle has an implementation for
//! tests that is deterministic, so that a run is replayed from its seed.
//!
//! Must never depend on: any crate of ours but `types`; an RPC or storage library.

mod clock;
mod exit;
pub mod fail_points;
pub mod fs;
mod manual_clock;
pub mod net;
mod registry;
pub mod resources;
mod rng;
mod signals;
mod spawn;
mod task;

use std::any::{Any, TypeId};
use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use millstream_types::WallTime;
use millstream_types::sabotage::Sabotage;

pub use clock::{Clock, Elapsed, Interval, TimeSource};
pub use exit::{Exit, ExitLog, ExitRecord};
pub use fail_points::FailPoints;
pub use manual_clock::ManualClock;
pub use rng::Rng;
pub use signals::{Signal, SignalSender, Signals};
pub use spawn::{Blocking, ShutdownReport, SpawnLimits, Spawner, StopSignal, THREADS_MAX};
pub use task::{Task, TaskError};

/// All handles of one daemon or component. Cloning is cheap and shares them.
#[derive(Clone)]
pub struct Env {
    clock: Clock,
    rng: Rng,
    net: Arc<dyn net::Net>,
    fs: Arc<dyn fs::Fs>,
    spawner: Spawner,
    exit: Exit,
    fail_points: FailPoints,
    doubles: Doubles,
    sabotage: Sabotage,
}

/// Doubles by their type.
type Doubles = Arc<BTreeMap<TypeId, Arc<dyn Any + Send + Sync>>>;

/// The handles an [`Env`] is put together from, where [`Env::real`] does not fit: the simulator
/// gives its own network and a clock that stands still until it is told to go on.
pub struct EnvParts {
    /// Reads and waits for time.
    pub clock: Clock,
    /// The root of all randomness.
    pub rng: Rng,
    /// Listens and connects.
    pub net: Arc<dyn net::Net>,
    /// Local files.
    pub fs: Arc<dyn fs::Fs>,
    /// Runs tasks.
    pub spawner: Spawner,
    /// Ends the process.
    pub exit: Exit,
}

/// An [`Env`] of a unit test with the controls of what it stands on.
pub struct TestEnv {
    /// Give this to the code under test.
    pub env: Env,
    /// Moves time.
    pub clock: ManualClock,
    /// The network in memory; other test environments may share it.
    pub net: net::MemoryNet,
    /// The files in memory; can lose what was not synced.
    pub fs: fs::MemoryFs,
    /// How the code under test ended "the process".
    pub exits: ExitLog,
}

impl Env {
    /// The real machine. Must be called within a tokio runtime: tasks run on that one.
    pub fn real(name: &str) -> Self {
        Self::from_parts(EnvParts {
            clock: Clock::real(),
            rng: Rng::from_os(),
            net: Arc::new(net::TcpNet::default()),
            fs: Arc::new(fs::RealFs),
            spawner: Spawner::current(name, SpawnLimits::default()),
            exit: Exit::process(),
        })
    }

    /// Puts given handles together.
    pub fn from_parts(parts: EnvParts) -> Self {
        let EnvParts {
            clock,
            rng,
            net,
            fs,
            spawner,
            exit,
        } = parts;
        Self {
            clock,
            rng,
            net,
            fs,
            spawner,
            exit,
            fail_points: FailPoints::default(),
            doubles: Doubles::default(),
            sabotage: Sabotage::default(),
        }
    }

    /// Manual time, randomness from `seed`, network and files in memory. Must be called within a
    /// tokio runtime.
    pub fn for_test(seed: u64) -> TestEnv {
        let clock = ManualClock::new(WallTime(1_700_000_000_000));
        let memory_net = net::MemoryNet::default();
        let memory_fs = fs::MemoryFs::default();
        let (exit, exits) = Exit::recording();
        let spawner = Spawner::current("test", SpawnLimits::default());
        let env = Self::from_parts(EnvParts {
            clock: clock.clock(),
            rng: Rng::from_seed(seed),
            net: Arc::new(memory_net.clone()),
            fs: Arc::new(memory_fs.clone()),
            spawner,
            exit,
        });
        TestEnv {
            env,
            clock,
            net: memory_net,
            fs: memory_fs,
            exits,
        }
    }

    /// The handles of a part of this daemon: own random stream, own group of tasks, same machine.
    pub fn component(&self, name: &str) -> Self {
        Self {
            rng: self.rng.fork(name),
            spawner: self.spawner.group(name),
            ..self.clone()
        }
    }

    /// This environment with another network: an embedded cluster speaks through memory.
    pub fn with_net(&self, net: Arc<dyn net::Net>) -> Self {
        Self {
            net,
            ..self.clone()
        }
    }

    /// This environment with tasks run elsewhere, say on a separate I/O runtime.
    pub fn with_spawner(&self, spawner: Spawner) -> Self {
        Self {
            spawner,
            ..self.clone()
        }
    }

    /// This environment with armed fail points; without them there are none.
    pub fn with_fail_points(&self, fail_points: FailPoints) -> Self {
        Self {
            fail_points,
            ..self.clone()
        }
    }

    /// This environment with a double of an outside thing that it has no handle for, such as an
    /// object store; whoever reaches that thing asks for the double first. None in production.
    pub fn with_double<T: Any + Send + Sync>(&self, double: T) -> Self {
        let mut doubles = BTreeMap::clone(&self.doubles);
        doubles.insert(TypeId::of::<T>(), Arc::new(double));
        Self {
            doubles: Arc::new(doubles),
            ..self.clone()
        }
    }

    /// The double of this type, where there is one.
    pub fn double<T: Any + Send + Sync>(&self) -> Option<Arc<T>> {
        let double = self.doubles.get(&TypeId::of::<T>())?;
        Arc::clone(double).downcast().ok()
    }

    /// This environment with rules taken away, for tests that show that they are needed.
    pub fn with_sabotage(&self, sabotage: Sabotage) -> Self {
        Self {
            sabotage,
            ..self.clone()
        }
    }

    /// The clock.
    pub fn clock(&self) -> &Clock {
        &self.clock
    }

    /// The random stream of this component.
    pub fn rng(&self) -> &Rng {
        &self.rng
    }

    /// The network.
    pub fn net(&self) -> &Arc<dyn net::Net> {
        &self.net
    }

    /// Local files.
    pub fn fs(&self) -> &Arc<dyn fs::Fs> {
        &self.fs
    }

    /// Runs tasks of this component.
    pub fn spawner(&self) -> &Spawner {
        &self.spawner
    }

    /// Ends the process.
    pub fn exit(&self) -> &Exit {
        &self.exit
    }

    /// Places where a test may end this process.
    pub fn fail_points(&self) -> &FailPoints {
        &self.fail_points
    }

    /// The rules that do not hold here: none, outside of tests.
    pub fn sabotage(&self) -> Sabotage {
        self.sabotage
    }

    /// Stops this component's tasks; see [`Spawner::shutdown`].
    pub async fn shutdown(&self, grace: Duration) -> ShutdownReport {
        self.spawner.shutdown(&self.clock, grace).await
    }
}

impl fmt::Debug for Env {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Env")
            .field("spawner", &self.spawner)
            .finish_non_exhaustive()
    }
}
