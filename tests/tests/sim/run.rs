//! One run: the world is built, faults happen, then they end, and all must come to rest.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use futures::FutureExt;
use millstream_coordination::chain::TerminalState;
use millstream_coordination::job::JobStatus;
use millstream_env::{Rng, Signal};
use millstream_testkit::{ChaosStore, Faults};
use turmoil::Sim;

use crate::chain::ChainWatch;
use crate::clock;
use crate::disk::{DiskFaults, SharedDisk};
use crate::faults::{Act, Timeline};
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
const JOBMANAGERS: [&str; 2] = ["jm1", "jm2"];
const USER: &str = "user";
/// Stands for the jobmanager that is found under the name.
const THE_JOBMANAGER: &str = "jm";

/// Time between two looks at output and chain.
const LOOK: Duration = Duration::from_millis(500);
/// After the last fault: until the job runs, until a checkpoint completed, and until the output is
/// whole, beyond what its rows take.
const RUNNING_WITHIN: Duration = Duration::from_secs(60);
const CHECKPOINT_WITHIN: Duration = Duration::from_secs(90);
const DONE_WITHIN: Duration = Duration::from_secs(150);

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

struct Simulation {
    sim: Sim<'static>,
    world: Arc<World>,
    controls: BTreeMap<String, Control>,
    addresses: BTreeMap<String, IpAddr>,
    /// The jobmanager that is found under the name.
    current: usize,
    timeline: Timeline,
    journal: Journal,
    output: OutputWatch,
    chain: Option<ChainWatch>,
    rng: Rng,
    /// When the faults ended, and how many checkpoints had completed by then.
    healed: Option<(Duration, usize)>,
    /// Whether the job was seen running since.
    has_run: bool,
    /// Whether there were two jobmanagers at once.
    had_two: bool,
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
    fn find_jobmanager(&mut self, index: usize) {
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
                match self.look(now) {
                    Err(violations) => return violations,
                    Ok(true) => return self.conclude(),
                    Ok(false) => {}
                }
            }
        }
    }

    fn name(&self, host: &str) -> String {
        match host {
            THE_JOBMANAGER => JOBMANAGERS[self.current].to_owned(),
            other => other.to_owned(),
        }
    }

    fn apply(&mut self, act: &Act) {
        self.journal.note(self.sim.elapsed(), &act.to_string());
        let kind = act.to_string();
        let kind = kind.split(' ').next().unwrap_or_default();
        self.journal.count(&format!("act: {kind}"), 1);
        match act {
            Act::Crash(host) => self.crash(&self.name(host)),
            Act::Start(host) => self.start(&self.name(host)),
            Act::PowerCut => self.cut_power(),
            Act::Terminate(host) => self.terminate(&self.name(host)),
            Act::Partition(a, b) => {
                let (a, b) = (self.name(a), self.name(b));
                self.sim.partition(a.as_str(), b.as_str());
            }
            Act::OneWay(from, to) => {
                let (from, to) = (self.name(from), self.name(to));
                self.sim.partition_oneway(from.as_str(), to.as_str());
            }
            Act::Repair(a, b) => {
                let (a, b) = (self.name(a), self.name(b));
                self.sim.repair(a.as_str(), b.as_str());
            }
            Act::Hold(host) => self.hold(&self.name(host), true),
            Act::Release(host) => self.hold(&self.name(host), false),
            Act::CloseStore(host) => self.controls[&self.name(host)].set_store_closed(true),
            Act::OpenStore(host) => self.controls[&self.name(host)].set_store_closed(false),
            Act::Arm(host, point) => {
                let host = self.name(host);
                self.controls[&host].arm(point);
                self.crash(&host);
                self.start(&host);
            }
            Act::Takeover => self.take_over(),
            Act::EndOther => self.crash(JOBMANAGERS[1 - self.current]),
        }
    }

    fn crash(&mut self, host: &str) {
        let control = &self.controls[host];
        if control.is_on() {
            control.set_on(false);
            control.disk().crash();
            self.sim.crash(host);
        }
    }

    fn start(&mut self, host: &str) {
        let control = &self.controls[host];
        if !control.is_on() {
            control.set_on(true);
            self.sim.bounce(host);
        }
    }

    fn cut_power(&mut self) {
        let hosts: Vec<String> = self.running().collect();
        for host in &hosts {
            self.crash(host);
        }
        self.world.disk.files().crash();
        for host in hosts {
            self.start_later(host, 500..5_000);
        }
    }

    /// Machines whose daemon runs.
    fn running(&self) -> impl Iterator<Item = String> + use<> {
        let on = self.controls.values().filter(|control| control.is_on());
        let names: Vec<String> = on.map(|control| control.name().to_owned()).collect();
        names.into_iter().filter(|name| name != USER)
    }

    fn start_later(&mut self, host: String, millis: std::ops::Range<u64>) {
        let pause = Duration::from_millis(self.rng.range(millis));
        let at = self.sim.elapsed() + pause;
        self.timeline.at(at, Act::Start(host));
    }

    fn terminate(&self, host: &str) {
        if let Some(signals) = self.controls[host].signals() {
            // There is room for the first one; who gets a second one has enough of them.
            let _ = signals.send(Signal::Terminate).now_or_never();
        }
    }

    fn hold(&mut self, host: &str, is_held: bool) {
        for other in self.controls.keys().filter(|name| *name != host) {
            match is_held {
                true => self.sim.hold(host, other.as_str()),
                false => self.sim.release(host, other.as_str()),
            }
        }
        self.controls[host].set_store_closed(is_held);
    }

    fn take_over(&mut self) {
        let other = 1 - self.current;
        if !self.controls[JOBMANAGERS[other]].is_on() {
            self.find_jobmanager(other);
            self.start(JOBMANAGERS[other]);
            self.had_two = true;
        }
    }

    /// All faults end; everything is on.
    fn heal(&mut self) {
        self.journal.note(self.sim.elapsed(), "heal");
        self.timeline.clear();
        let latency = self.world.options.store.latency.clone();
        self.world.objects.set_faults(Faults {
            latency,
            ..Faults::NONE
        });
        self.world.disk.set_faults(DiskFaults::default());
        let hosts: Vec<String> = self.controls.keys().cloned().collect();
        for (index, a) in hosts.iter().enumerate() {
            self.controls[a].set_store_closed(false);
            for b in &hosts[index + 1..] {
                self.sim.release(a.as_str(), b.as_str());
                self.sim.repair(a.as_str(), b.as_str());
            }
        }
        self.crash(JOBMANAGERS[1 - self.current]);
        // Nobody elects jobmanagers: a job that the other one claimed last stays suspended here until
        // somebody starts this one again. So does one whose chain a stale listing did not show: it
        // never starts empty.
        let is_stale = self.world.options.store.stale_list > 0.0;
        if self.had_two || is_stale {
            self.crash(JOBMANAGERS[self.current]);
        }
        for host in hosts {
            if host != JOBMANAGERS[1 - self.current] {
                self.start(&host);
            }
        }
        let completed = self.chain.as_ref().map_or(0, ChainWatch::n_completed);
        self.healed = Some((self.sim.elapsed(), completed));
    }

    /// Whoever ended is started again after a while, as operators have it done.
    fn restart_ended(&mut self) {
        let running: Vec<String> = self.running().collect();
        for host in running {
            let control = &self.controls[&host];
            let exits = control.exits();
            let end = match exits.first() {
                Some(exit) => format!("{exit:?}"),
                None => match control.take_end() {
                    Some(end) => end,
                    None => continue,
                },
            };
            let line = format!("{host}: process ended: {end}");
            self.journal.note(self.sim.elapsed(), &line);
            self.crash(&host);
            if host != JOBMANAGERS[1 - self.current] {
                self.start_later(host, 100..2_000);
            }
        }
    }

    /// Whether the job is done; or what is wrong.
    fn look(&mut self, now: Duration) -> Result<bool, Vec<String>> {
        let findings = self.output.look();
        if !findings.is_empty() {
            return Err(findings);
        }
        let seen = self.world.observed.get();
        if let (None, Some(job)) = (&self.chain, seen.job) {
            let parallelism = self.world.options.parallelism;
            self.chain = Some(ChainWatch::new(job, parallelism));
        }
        if let Some(chain) = &mut self.chain {
            let store = self.world.objects.inner();
            let judged = chain.look(store).and_then(|()| {
                let restores = self.journal.take_restores();
                restores
                    .into_iter()
                    .try_for_each(|restored| chain.check_restore(restored))
            });
            judged.map_err(|violation| vec![violation])?;
        }
        self.check_promises()?;
        match seen.status {
            Some(JobStatus::Finished) => Ok(true),
            Some(JobStatus::Failed | JobStatus::Canceled) => {
                Err(vec![format!("the job ended: {:?}", seen.end)])
            }
            Some(_) | None => {
                let is_new = self.healed.is_some_and(|(at, _)| seen.at > at);
                self.has_run |= is_new && seen.status == Some(JobStatus::Running);
                self.check_liveness(now, seen.status).map(|()| false)
            }
        }
    }

    /// I5: no file is visible whose checkpoint, or a later one, is not durably complete.
    fn check_promises(&self) -> Result<(), Vec<String>> {
        let Some(chain) = &self.chain else {
            return Ok(());
        };
        let newest = chain.newest_completed();
        match self.output.promised_by().find(|(_, id)| Some(*id) > newest) {
            None => Ok(()),
            Some((name, _)) => Err(vec![format!(
                "I5: {name:?} is visible, and the newest completed checkpoint is {newest:?}"
            )]),
        }
    }

    /// I16: once the faults ended, the job runs, takes checkpoints and comes to its end.
    fn check_liveness(&self, now: Duration, status: Option<JobStatus>) -> Result<(), Vec<String>> {
        let Some((healed_at, completed_then)) = self.healed else {
            return Ok(());
        };
        let late = |what: &str, limit: Duration| {
            Err(vec![format!(
                "I16: {what} within {limit:?} after the last fault; the job is {status:?}"
            )])
        };
        let options = &self.world.options;
        let since = now.saturating_sub(healed_at);
        let completed = self.chain.as_ref().map_or(0, ChainWatch::n_completed);
        let rows_take = Duration::from_secs(options.rows / options.rate);
        if since > RUNNING_WITHIN && !self.has_run {
            return late("not RUNNING", RUNNING_WITHIN);
        }
        if since > CHECKPOINT_WITHIN && completed == completed_then {
            return late("no checkpoint", CHECKPOINT_WITHIN);
        }
        if since > rows_take + DONE_WITHIN {
            return late("not done", rows_take + DONE_WITHIN);
        }
        Ok(())
    }

    /// The job is done: all must be there, and nothing more.
    fn conclude(&mut self) -> Vec<String> {
        let mut violations = self.output.conclude();
        let end = self.chain.as_ref().and_then(ChainWatch::end);
        if !matches!(end, Some(TerminalState::Finished)) {
            violations.push(format!("I18: the job is done and its chain says {end:?}"));
        }
        violations
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
