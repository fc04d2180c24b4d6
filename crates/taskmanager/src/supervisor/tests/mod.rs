//! Scripts of messages in, actions out. Times are in seconds.

mod connection;
mod processes;
mod random;

use std::time::Duration;

use millstream_coordination::failure::{FailureInfo, FailureKind};
use millstream_coordination::protocol::{DataAddress, FromTaskmanager, Registered, ToTaskmanager};
use millstream_types::{Epoch, Incarnation, MonoTime};

use super::*;
use crate::testing::{JOB, graph, start};

/// A supervisor and what it asked for since it was last looked at.
struct Bench {
    now: MonoTime,
    supervisor: Supervisor,
    actions: Vec<Action>,
}

impl Bench {
    fn new() -> Self {
        let now = MonoTime::from_millis(1_000);
        let config = SupervisorConfig {
            registration_timeout: Some(Duration::from_secs(60)),
            memory_per_slot_bytes: Some(1_000),
        };
        let supervisor = Supervisor::new(now, config);
        Self {
            now,
            supervisor,
            actions: Vec::new(),
        }
    }

    /// Connected and registered, nothing to do.
    fn registered() -> Self {
        let mut bench = Self::new();
        bench.register();
        bench.take();
        bench
    }

    fn register(&mut self) {
        self.event(Event::Tick);
        self.event(Event::Connected);
        self.hear(registered());
    }

    /// Registered, with a process in epoch 1 that takes deployments.
    fn running() -> Self {
        let mut bench = Self::registered();
        bench.hear(start(1, &graph(None, 2)));
        bench.say(1, started(1));
        bench.take();
        bench
    }

    fn event(&mut self, event: Event) {
        self.supervisor.step(self.now, event, &mut self.actions);
    }

    fn hear(&mut self, message: ToTaskmanager) {
        self.event(Event::FromJobmanager(message));
    }

    fn say(&mut self, process: u64, message: FromTaskmanager) {
        self.process(process, ProcessEvent::Said(message));
    }

    fn process(&mut self, process: u64, event: ProcessEvent) {
        let process = ProcessId(process);
        self.event(Event::Process { process, event });
    }

    fn ended(&mut self, process: u64) {
        self.process(process, ProcessEvent::Ended(failure("killed by signal 9")));
    }

    /// Lets time pass as the shell does: a tick whenever one is due.
    fn pass(&mut self, seconds: u64) {
        let until = self.now + Duration::from_secs(seconds);
        while self.supervisor.deadline() <= until {
            self.now = self.supervisor.deadline().max(self.now);
            self.event(Event::Tick);
        }
        self.now = until;
    }

    /// As [`Self::pass`], hearing a heartbeat each second.
    fn pass_heard(&mut self, seconds: u64) {
        for _ in 0..seconds {
            self.pass(1);
            self.hear(ToTaskmanager::Heartbeat);
        }
    }

    /// What was asked for since the last call, without log lines and heartbeats.
    fn take(&mut self) -> Vec<Action> {
        let mut actions = std::mem::take(&mut self.actions);
        actions.retain(|action| {
            !matches!(
                action,
                Action::Note(_) | Action::Send(FromTaskmanager::Heartbeat(_))
            )
        });
        actions
    }
}

fn registered() -> ToTaskmanager {
    ToTaskmanager::Registered(Registered {
        jobmanager: Incarnation(9),
        heartbeat_interval: Duration::from_secs(2),
        heartbeat_timeout: Duration::from_secs(10),
    })
}

fn started(epoch: u64) -> FromTaskmanager {
    let (host, port) = ("10.0.0.7".to_owned(), 7_000);
    FromTaskmanager::JobProcessStarted {
        job: JOB,
        epoch: Epoch(epoch),
        address: DataAddress { host, port },
    }
}

fn failure(message: &str) -> FailureInfo {
    FailureInfo::new(FailureKind::JobProcess, message)
}

fn tell(process: u64, message: ToTaskmanager) -> Action {
    let process = ProcessId(process);
    Action::Tell { process, message }
}

fn kill(process: u64) -> Action {
    Action::KillProcess {
        process: ProcessId(process),
    }
}

fn start_process(process: u64, epoch: u64) -> Action {
    let ToTaskmanager::StartJobProcess(start) = start(epoch, &graph(None, 2)) else {
        unreachable!("it is what was asked for");
    };
    Action::StartProcess {
        process: ProcessId(process),
        start,
    }
}
