//! One run: the world is built, faults happen, then they end, and all must come to rest.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use millstream_env::Rng;
use millstream_testkit::ChaosStore;
use turmoil::Sim;

use crate::chain::ChainWatch;
use crate::clock;
use crate::disk::SharedDisk;
use crate::faults::Timeline;
use crate::host::Control;
use crate::journal::Journal;
use crate::net::Names;
use crate::options::Options;
use crate::output::OutputWatch;
use crate::panics;
use crate::recorder::Recorder;
use crate::user::{Observed, user};
use crate::world::{JOBMANAGER, World, jobmanager, taskmanager};

/// The two machines for jobmanagers, the second one usually off.
pub(crate) const JOBMANAGERS: [&str; 2] = ["jm1", "jm2"];
pub(crate) const USER: &str = "user";
/// Stands for the jobmanager that is found under the name.
pub(crate) const THE_JOBMANAGER: &str = "jm";

/// Time between two looks at output and chain.
const LOOK: Duration = Duration::from_millis(500);

/// What came of a run.
pub struct Report {
    pub hash: u64,
    /// How long it lasted, in its own time.
    pub elapsed: Duration,
    pub n_rows: u64,
    pub violations: Vec<String>,
    pub paths: BTreeMap<String, u64>,
    pub journal: Journal,
}

/// Runs the options with these faults. In a thread of its own whose randomness is seeded.
pub fn run(options: Options, timeline: Timeline) -> Report {
    panics::record();
    let journal = Journal::default();
    let _logging = tracing::subscriber::set_default(journal.subscriber());
    let mut simulation = Simulation::new(options, timeline, journal.clone());
    let violations = simulation.run();
    simulation.report(violations)
}

/// A run in the making.
pub(crate) struct Simulation {
    pub(crate) sim: Sim<'static>,
    pub(crate) world: Arc<World>,
    pub(crate) controls: BTreeMap<String, Control>,
    pub(crate) addresses: BTreeMap<String, IpAddr>,
    /// The jobmanager that is found under the name.
    pub(crate) current: usize,
    pub(crate) timeline: Timeline,
    pub(crate) journal: Journal,
    pub(crate) output: OutputWatch,
    pub(crate) chain: Option<ChainWatch>,
    pub(crate) rng: Rng,
    /// When the faults ended, and how many checkpoints had completed by then.
    pub(crate) healed: Option<(Duration, usize)>,
    /// Whether the job was seen running since.
    pub(crate) has_run: bool,
    /// Whether there were two jobmanagers at once.
    pub(crate) had_two: bool,
    /// When the job was seen to be done and its output to be right.
    pub(crate) done: Option<Duration>,
}

impl Simulation {
    fn new(options: Options, timeline: Timeline, journal: Journal) -> Self {
        let rng = Rng::from_seed(options.seed);
        let disk = SharedDisk::new(rng.fork("disk"));
        disk.set_faults(options.disk);
        let objects = ChaosStore::new(
            Recorder::default(),
            options.store.clone(),
            clock::of_simulation(),
            rng.fork("store"),
        );
        let output = OutputWatch::new(&options, disk.files().clone());
        let world = Arc::new(World {
            names: Names::default(),
            objects,
            disk,
            observed: Observed::default(),
            options,
        });
        let mut simulation = Self {
            sim: network(&world.options),
            world,
            controls: BTreeMap::new(),
            addresses: BTreeMap::new(),
            current: 0,
            timeline,
            journal,
            output,
            chain: None,
            rng: rng.fork("simulation"),
            healed: None,
            has_run: false,
            had_two: false,
            done: None,
        };
        simulation.add_hosts();
        simulation
    }

    fn add_hosts(&mut self) {
        for (index, name) in JOBMANAGERS.into_iter().enumerate() {
            let control = Control::new(name, index == 0);
            let world = Arc::clone(&self.world);
            self.add(control, move |control| jobmanager(world.clone(), control));
        }
        for name in self.world.options.taskmanager_names() {
            let world = Arc::clone(&self.world);
            self.add(Control::new(&name, true), move |control| {
                taskmanager(world.clone(), control)
            });
        }
        let world = Arc::clone(&self.world);
        self.add(Control::new(USER, true), move |control| {
            user(world.clone(), control)
        });
        self.find_jobmanager(0);
    }

    fn add<F, R>(&mut self, control: Control, software: F)
    where
        F: Fn(Control) -> R + 'static,
        R: Future<Output = turmoil::Result> + 'static,
    {
        let name = control.name().to_owned();
        let given = control.clone();
        self.sim
            .host(name.as_str(), move || software(given.clone()));
        let ip = self.sim.lookup(name.as_str());
        self.world.names.set(&name, ip);
        self.addresses.insert(name.clone(), ip);
        self.controls.insert(name, control);
    }

    /// From now on this jobmanager is found under the name.
    pub(crate) fn find_jobmanager(&mut self, index: usize) {
        self.current = index;
        let ip = self.addresses[JOBMANAGERS[index]];
        self.world.names.set(JOBMANAGER, ip);
    }

    fn run(&mut self) -> Vec<String> {
        let mut next_look = LOOK;
        loop {
            let now = self.sim.elapsed();
            clock::set_elapsed(now);
            while let Some(act) = self.timeline.due(now) {
                self.apply(&act);
            }
            if now >= self.world.options.chaos && self.healed.is_none() {
                self.heal();
            }
            if let Err(error) = self.sim.step() {
                return vec![format!("a machine broke: {error}")];
            }
            clock::set_elapsed(self.sim.elapsed());
            if let Some(panic) = panics::take() {
                return vec![format!("a panic: {panic}")];
            }
            self.restart_ended();
            if now >= next_look {
                next_look = now + LOOK;
                match self.judge(now) {
                    Err(violations) => return violations,
                    Ok(true) => return Vec::new(),
                    Ok(false) => {}
                }
            }
        }
    }

    /// Whether all has come to rest; or what is wrong.
    fn judge(&mut self, now: Duration) -> Result<bool, Vec<String>> {
        // Also of a job that is done: nobody may write to its chain or change its output any more.
        let is_done = self.look(now)?;
        if let Some(done) = self.done {
            return self.is_clean(now.saturating_sub(done));
        }
        if is_done {
            let violations = self.conclude();
            if !violations.is_empty() {
                return Err(violations);
            }
            self.done = Some(now);
            // Whoever cleans up may do so in peace.
            if self.healed.is_none() {
                self.heal();
            }
        }
        Ok(false)
    }

    fn report(self, violations: Vec<String>) -> Report {
        for violation in &violations {
            self.journal.note(self.sim.elapsed(), violation);
        }
        for (fault, times) in self.world.objects.hits() {
            self.journal.count(&format!("store: {fault:?}"), times);
        }
        if let Some(chain) = &self.chain {
            self.journal.count("epochs", chain.n_epochs() as u64);
            self.journal
                .count("checkpoints", chain.n_completed() as u64);
        }
        Report {
            hash: self.journal.hash(),
            elapsed: self.sim.elapsed(),
            n_rows: self.output.n_rows(),
            violations,
            paths: self.journal.paths(),
            journal: self.journal,
        }
    }
}

fn network(options: &Options) -> Sim<'static> {
    turmoil::Builder::new()
        .rng_seed(options.seed)
        .epoch(SystemTime::UNIX_EPOCH + Duration::from_millis(clock::wall(Duration::ZERO).0 as u64))
        .simulation_duration(Duration::from_secs(1_000_000))
        .tick_duration(options.tick)
        .min_message_latency(options.latency.start)
        .max_message_latency(options.latency.end)
        .tcp_capacity(4_096)
        .enable_random_order()
        .build()
}
