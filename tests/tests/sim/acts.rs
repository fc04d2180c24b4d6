//! What is done to the machines of a run, and who looks after them.

use std::time::Duration;

use futures::FutureExt;
use millstream_env::Signal;
use millstream_testkit::Faults;

use crate::chain::ChainWatch;
use crate::disk::DiskFaults;
use crate::faults::Act;
use crate::run::{JOBMANAGERS, Simulation, THE_JOBMANAGER, USER};

impl Simulation {
    fn name(&self, host: &str) -> String {
        match host {
            THE_JOBMANAGER => JOBMANAGERS[self.current].to_owned(),
            other => other.to_owned(),
        }
    }

    pub(super) fn apply(&mut self, act: &Act) {
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
            Act::Wander(host) => self.wander(host),
            Act::Settle(host) => {
                for jobmanager in JOBMANAGERS {
                    self.sim.repair(host.as_str(), jobmanager);
                }
            }
            Act::Depose => {
                self.hold(JOBMANAGERS[self.current], true);
                self.find_other();
            }
            Act::Awake => self.hold(JOBMANAGERS[1 - self.current], false),
            Act::EndOther => self.crash(JOBMANAGERS[1 - self.current]),
        }
    }

    fn crash(&mut self, host: &str) {
        let control = &self.controls[host];
        if control.is_on() {
            control.set_on(false);
            control.disk().crash();
            self.journal.forget(host);
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
        self.output.power_cut();
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
        if !self.controls[JOBMANAGERS[1 - self.current]].is_on() {
            self.find_other();
        }
    }

    /// The other jobmanager runs, and is found under the name.
    fn find_other(&mut self) {
        let other = 1 - self.current;
        self.find_jobmanager(other);
        self.start(JOBMANAGERS[other]);
        self.had_two = true;
    }

    /// A machine loses the jobmanager that it has, and finds the other one under the name.
    fn wander(&mut self, host: &str) {
        self.sim.partition(host, JOBMANAGERS[self.current]);
        self.find_other();
    }

    /// All faults end; everything is on.
    pub(super) fn heal(&mut self) {
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
        // somebody starts this one again.
        if self.had_two {
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
    pub(super) fn restart_ended(&mut self) {
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
}
