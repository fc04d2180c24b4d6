//! Random scripts: whatever comes in whichever order, the invariants hold.

use std::collections::BTreeMap;

use millstream_coordination::job::ExecutionState;
use millstream_coordination::protocol::TaskAddress;
use millstream_coordination::slots::RegistrationRefusal;
use millstream_env::Rng;
use millstream_types::{Attempt, SlotIndex, TaskmanagerId};

use super::*;
use crate::testing::{deploy, state, subtask};

/// A process as an outside observer knows it.
#[derive(Default)]
struct Observed {
    epoch: u64,
    is_killed: bool,
    /// Slots of tasks that were deployed into it and did not say that they ended.
    slots: BTreeMap<u32, u64>,
}

#[derive(Default)]
struct Observer {
    alive: BTreeMap<u64, Observed>,
    is_over: bool,
}

impl Observer {
    fn check(&mut self, action: &Action, seed: u64) {
        assert!(!self.is_over, "seed {seed}: {action:?} after the end");
        match action {
            Action::StartProcess { process, start } => {
                assert!(
                    self.alive.is_empty(),
                    "seed {seed}: a second process of the job"
                );
                let epoch = start.epoch.0;
                self.alive.insert(
                    process.0,
                    Observed {
                        epoch,
                        ..Observed::default()
                    },
                );
            }
            Action::Tell { process, message } => self.told(process.0, message, seed),
            Action::KillProcess { process } => {
                let observed = self.alive.get_mut(&process.0);
                let observed = observed.unwrap_or_else(|| panic!("seed {seed}: killed twice"));
                assert!(!observed.is_killed, "seed {seed}: killed twice");
                observed.is_killed = true;
            }
            Action::Send(FromTaskmanager::SlotFreed { slot }) => {
                let is_used = self.alive.values().any(|p| p.slots.contains_key(&slot.0));
                assert!(!is_used, "seed {seed}: slot {slot} is freed in use");
            }
            Action::RenewIncarnation => {
                assert!(self.alive.is_empty(), "seed {seed}: renewed with old tasks");
            }
            Action::Drained | Action::GiveUp { .. } | Action::Refuse(_) => self.is_over = true,
            Action::Register
            | Action::Connect
            | Action::Disconnect
            | Action::Send(_)
            | Action::Note(_) => {}
        }
    }

    fn told(&mut self, process: u64, message: &ToTaskmanager, seed: u64) {
        let observed = self.alive.get_mut(&process);
        let observed = observed.unwrap_or_else(|| panic!("seed {seed}: told a dead process"));
        assert!(!observed.is_killed, "seed {seed}: told a killed process");
        match message {
            ToTaskmanager::StartJobProcess(start) => {
                assert!(
                    observed.slots.is_empty(),
                    "seed {seed}: reused with old tasks"
                );
                assert!(
                    start.epoch.0 > observed.epoch,
                    "seed {seed}: reused for an old epoch"
                );
                observed.epoch = start.epoch.0;
            }
            ToTaskmanager::Deploy(deploy) => {
                assert_eq!(deploy.epoch.0, observed.epoch, "seed {seed}: another epoch");
                observed
                    .slots
                    .entry(deploy.slot.0)
                    .or_insert(deploy.epoch.0);
            }
            ToTaskmanager::Registered(_)
            | ToTaskmanager::RegistrationRefused(_)
            | ToTaskmanager::Heartbeat
            | ToTaskmanager::TriggerCheckpoint { .. }
            | ToTaskmanager::NotifyCompleted { .. }
            | ToTaskmanager::NotifyAborted { .. }
            | ToTaskmanager::Cancel { .. }
            | ToTaskmanager::Abandon { .. }
            | ToTaskmanager::ReleaseJob { .. } => {}
        }
    }
}

fn random_event(rng: &Rng, observer: &mut Observer, known: u64) -> Event {
    let epoch = rng.range(1..known + 2);
    let index = rng.range(0..2) as u32;
    let process = observer.alive.keys().next().copied().unwrap_or(known);
    let said = |message| Event::Process {
        process: ProcessId(process),
        event: ProcessEvent::Said(message),
    };
    let (job, id) = (JOB, TaskmanagerId::new("tm-1").unwrap());
    let heard = Event::FromJobmanager;
    match rng.range(0..15) {
        0 => Event::Connected,
        1 => Event::Disconnected {
            reason: "reset".to_owned(),
        },
        2 => heard(registered()),
        3 => heard(ToTaskmanager::RegistrationRefused(
            RegistrationRefusal::DeclaredDead { taskmanager: id },
        )),
        4 | 5 => heard(start(epoch, &graph(None, 2))),
        6 | 7 => heard(deploy(epoch, index)),
        8 => heard(ToTaskmanager::Cancel {
            job,
            epoch: Epoch(epoch),
            subtasks: vec![TaskAddress::from((subtask(index), Attempt(0)))],
        }),
        9 => heard(ToTaskmanager::Abandon {
            job,
            epoch: Epoch(epoch),
            slots: vec![SlotIndex(index)],
        }),
        10 => heard(ToTaskmanager::ReleaseJob {
            job,
            epoch: Epoch(epoch),
        }),
        11 => said(started(epoch)),
        12 => {
            // Only a task that runs can say that it ended, and a killed process says nothing.
            let alive = observer.alive.get_mut(&process).filter(|p| !p.is_killed);
            match alive.and_then(|p| p.slots.remove(&index)) {
                Some(epoch) => said(state(epoch, index, ExecutionState::Canceled)),
                None => Event::Tick,
            }
        }
        13 if observer.alive.contains_key(&process) => {
            observer.alive.remove(&process);
            let event = ProcessEvent::Ended(failure("gone"));
            Event::Process {
                process: ProcessId(process),
                event,
            }
        }
        13 | 14 => Event::FromJobmanager(ToTaskmanager::Heartbeat),
        _ => unreachable!("the range ends at 15"),
    }
}

// Proves fence F7 and the slots of HND-061 beyond the scripts.
#[test]
fn no_order_of_messages_runs_two_epochs_at_once_or_frees_a_slot_in_use() {
    for seed in 0..400 {
        let rng = Rng::from_seed(seed);
        let mut bench = Bench::new();
        let mut observer = Observer::default();
        bench.register();
        for step in 0..300 {
            let event = random_event(&rng, &mut observer, 1 + step / 40);
            bench.now += Duration::from_millis(rng.range(0..1_500));
            bench.event(event);
            for action in std::mem::take(&mut bench.actions) {
                observer.check(&action, seed);
            }
            if observer.is_over {
                break;
            }
        }
    }
}
