//! The supervisor itself.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use millstream_coordination::liveness::LostCause;
use millstream_coordination::protocol::{FromTaskmanager, TaskmanagerHeartbeat, ToTaskmanager};
use millstream_coordination::slots::RegistrationRefusal;
use millstream_types::sabotage::Sabotage;
use millstream_types::{Epoch, JobId, MonoTime, SlotIndex};

use super::connection::{Connection, Outcome};
use super::messages::{Action, Event, KillReason, Notice};
use super::process::{Phase, Process};

/// Time for tasks to stop before their process is killed, where the jobmanager does not say.
pub(super) const STOP_TIMEOUT: Duration = Duration::from_secs(30);
/// Time for tasks to stop in a shutdown: container engines kill after 10 s.
const LEAVE_TIMEOUT: Duration = Duration::from_secs(8);
/// A process without tasks for so long was forgotten by the jobmanager.
const IDLE_TIMEOUT: Duration = Duration::from_secs(300);

/// What the supervisor is given.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SupervisorConfig {
    /// Time to find and join a jobmanager (`taskmanager.registration.timeout`); none waits for
    /// ever.
    pub registration_timeout: Option<Duration>,
    /// Memory that a job process may hold per slot it uses; none does not look.
    pub memory_per_slot_bytes: Option<u64>,
}

/// Decides for one taskmanager.
#[derive(Clone, Debug)]
pub struct Supervisor {
    pub(super) config: SupervisorConfig,
    pub(super) sabotage: Sabotage,
    connection: Connection,
    pub(super) processes: BTreeMap<JobId, Process>,
    /// The lowest epoch of a job that is still listened to.
    pub(super) floors: BTreeMap<JobId, Epoch>,
    /// Slots reported free that were not used since: told again with each registration, since the
    /// first report may have been lost with its connection (HND-061).
    pub(super) freed: BTreeSet<SlotIndex>,
    pub(super) next_process: u64,
    is_declared_dead: bool,
    /// When a shutdown does not wait any longer.
    leave_by: Option<MonoTime>,
    has_drained: bool,
    has_given_up: bool,
}

impl Supervisor {
    /// A taskmanager that has not found its jobmanager yet.
    pub fn new(now: MonoTime, config: SupervisorConfig) -> Self {
        Self {
            config,
            sabotage: Sabotage::default(),
            connection: Connection::new(now),
            processes: BTreeMap::new(),
            floors: BTreeMap::new(),
            freed: BTreeSet::new(),
            next_process: 1,
            is_declared_dead: false,
            leave_by: None,
            has_drained: false,
            has_given_up: false,
        }
    }

    /// The same with rules taken away, for tests that show that they are needed.
    #[must_use]
    pub fn with_sabotage(self, sabotage: Sabotage) -> Self {
        Self { sabotage, ..self }
    }

    /// When [`Event::Tick`] is due.
    pub fn deadline(&self) -> MonoTime {
        if self.has_drained || self.has_given_up {
            return MonoTime::NEVER;
        }
        let processes = self.processes.values().map(|process| match process.phase {
            Phase::Stopping { by, .. } => by,
            Phase::Running { .. } => process
                .idle_since
                .map_or(MonoTime::NEVER, |since| since + IDLE_TIMEOUT),
            Phase::Starting | Phase::Killed { .. } => MonoTime::NEVER,
        });
        let alone = self
            .connection
            .alone()
            .zip(self.config.registration_timeout);
        let alone = alone.map(|((since, _), timeout)| since + timeout);
        let connection = self.connection.deadline(self.may_connect());
        [Some(connection), self.leave_by, alone]
            .into_iter()
            .flatten()
            .chain(processes)
            .min()
            .unwrap_or(MonoTime::NEVER)
    }

    /// Takes an event; appends what is to be done.
    pub fn step(&mut self, now: MonoTime, event: Event, actions: &mut Vec<Action>) {
        match event {
            Event::Tick => {}
            Event::Connected => self.connection.on_connected(now, actions),
            Event::ConnectFailed { reason } | Event::Disconnected { reason } => {
                let outcomes = self.connection.on_down(now, reason, actions);
                self.on_outcomes(now, outcomes, actions);
            }
            Event::StorageUnseen { reason } => {
                self.connection.on_storage_unseen(now, reason, actions);
            }
            Event::OtherStorage(other) if !self.is_going() && !self.has_given_up => {
                self.has_given_up = true;
                actions.push(Action::Refuse(other));
            }
            // It goes anyway.
            Event::OtherStorage(_) => {}
            Event::FromJobmanager(message) => {
                let outcomes = self.connection.on_heard(now, actions);
                self.on_outcomes(now, outcomes, actions);
                self.on_message(now, message, actions);
            }
            Event::Process { process, event } => self.on_process(now, process, event, actions),
            Event::Leave => self.on_leave(now, actions),
        }
        self.proceed(now, actions);
    }

    /// What a heartbeat says.
    pub fn heartbeat(&self) -> TaskmanagerHeartbeat {
        let mut heartbeat = TaskmanagerHeartbeat::default();
        for process in self.processes.values() {
            let (slots, tasks) = process.report();
            heartbeat.slots.extend(slots);
            if !tasks.tasks.is_empty() {
                heartbeat.jobs.push(tasks);
            }
        }
        heartbeat
    }

    fn on_message(&mut self, now: MonoTime, message: ToTaskmanager, actions: &mut Vec<Action>) {
        match message {
            ToTaskmanager::Registered(registered) => {
                let outcomes = self.connection.on_registered(now, &registered, actions);
                if self.connection.is_registered() {
                    self.on_outcomes(now, outcomes, actions);
                    self.announce(actions);
                }
            }
            ToTaskmanager::RegistrationRefused(refusal) => self.on_refused(now, refusal, actions),
            ToTaskmanager::Heartbeat => {}
            ToTaskmanager::StartJobProcess(start) => self.on_start(now, start, actions),
            ToTaskmanager::Deploy(deploy) => self.on_deploy(deploy, actions),
            ToTaskmanager::Cancel {
                job,
                epoch,
                subtasks,
            } => {
                self.on_cancel(job, epoch, subtasks, actions);
            }
            ToTaskmanager::TriggerCheckpoint { job, epoch, .. } => {
                self.pass(job, epoch, message, "checkpoint", actions);
            }
            ToTaskmanager::NotifyCompleted { job, epoch, .. } => {
                self.pass(job, epoch, message, "commit", actions);
            }
            ToTaskmanager::NotifyAborted { job, epoch, .. } => {
                self.pass(job, epoch, message, "abort", actions);
            }
            ToTaskmanager::Abandon { job, epoch, slots } => {
                self.on_abandon(job, epoch, slots, actions);
            }
            ToTaskmanager::ReleaseJob { job, epoch } => self.on_release(now, job, epoch, actions),
        }
    }

    /// What may have been lost with the last connection is said again.
    fn announce(&mut self, actions: &mut Vec<Action>) {
        for process in self.processes.values() {
            if let Phase::Running { address } = &process.phase {
                actions.push(Action::Send(FromTaskmanager::JobProcessStarted {
                    job: process.job,
                    epoch: process.epoch,
                    address: address.clone(),
                }));
            }
        }
        let freed = self.freed.iter().copied();
        actions.extend(freed.map(|slot| Action::Send(FromTaskmanager::SlotFreed { slot })));
    }

    fn on_refused(
        &mut self,
        now: MonoTime,
        refusal: RegistrationRefusal,
        actions: &mut Vec<Action>,
    ) {
        let reason = refusal.to_string();
        let is_dead = matches!(refusal, RegistrationRefusal::DeclaredDead { .. });
        actions.push(Action::Note(Notice::Refused(refusal)));
        let outcomes = self.connection.give_up(now, reason, actions);
        self.on_outcomes(now, outcomes, actions);
        if is_dead {
            // Our tasks run elsewhere by now: nothing of them may go on here (HND-060).
            self.is_declared_dead = true;
            self.freed.clear();
            for job in self.jobs() {
                self.kill(job, KillReason::DeclaredDead, None, actions);
            }
        }
    }

    fn on_leave(&mut self, now: MonoTime, actions: &mut Vec<Action>) {
        if self.leave_by.is_some() {
            return;
        }
        self.leave_by = Some(now + LEAVE_TIMEOUT);
        if self.connection.is_registered() {
            actions.push(Action::Send(FromTaskmanager::Leaving));
        }
        for job in self.jobs() {
            self.stop(now, job, LEAVE_TIMEOUT, actions);
        }
    }

    fn on_outcomes(&mut self, now: MonoTime, outcomes: Vec<Outcome>, actions: &mut Vec<Action>) {
        for outcome in outcomes {
            match outcome {
                Outcome::SendHeartbeat => {
                    let heartbeat = FromTaskmanager::Heartbeat(self.heartbeat());
                    actions.push(Action::Send(heartbeat));
                }
                Outcome::Lost(cause) => self.on_lost(now, cause, actions),
            }
        }
    }

    fn on_lost(&mut self, now: MonoTime, cause: LostCause, actions: &mut Vec<Action>) {
        actions.push(Action::Note(Notice::JobmanagerLost(cause)));
        let outcomes = self.connection.give_up(now, cause.to_string(), actions);
        self.on_outcomes(now, outcomes, actions);
        for job in self.jobs() {
            self.stop(now, job, STOP_TIMEOUT, actions);
        }
    }

    /// Whatever has become possible or due, whichever event it was.
    fn proceed(&mut self, now: MonoTime, actions: &mut Vec<Action>) {
        if self.has_drained || self.has_given_up {
            return;
        }
        let is_late = self.leave_by.is_some_and(|by| by <= now);
        for job in self.jobs() {
            let process = &self.processes[&job];
            let has_live_tasks = process.has_live_tasks();
            let why = match process.phase {
                Phase::Stopping { .. } if !has_live_tasks => KillReason::Idle,
                Phase::Stopping { by, after } if by <= now || is_late => {
                    KillReason::NotStopped { after }
                }
                Phase::Running { .. }
                    if process
                        .idle_since
                        .is_some_and(|since| now - since >= IDLE_TIMEOUT) =>
                {
                    KillReason::Idle
                }
                Phase::Starting
                | Phase::Running { .. }
                | Phase::Stopping { .. }
                | Phase::Killed { .. } => continue,
            };
            self.kill(job, why, None, actions);
        }
        if self.is_declared_dead && self.processes.is_empty() {
            self.is_declared_dead = false;
            actions.push(Action::RenewIncarnation);
        }
        let outcomes = self.connection.proceed(now, self.may_connect(), actions);
        self.on_outcomes(now, outcomes, actions);
        if self.leave_by.is_some() && (self.processes.is_empty() || is_late) {
            self.has_drained = true;
            actions.push(Action::Drained);
        } else if let Some(((since, reason), timeout)) = self
            .connection
            .alone()
            .zip(self.config.registration_timeout)
            && now - since >= timeout
        {
            self.has_given_up = true;
            actions.push(Action::GiveUp {
                reason: reason.to_owned(),
            });
        }
    }

    /// Not while tasks of a life that was declared dead still run, nor on the way out.
    fn may_connect(&self) -> bool {
        !self.is_declared_dead && !self.is_going()
    }

    pub(super) fn is_going(&self) -> bool {
        self.leave_by.is_some()
    }

    fn jobs(&self) -> Vec<JobId> {
        self.processes.keys().copied().collect()
    }
}
