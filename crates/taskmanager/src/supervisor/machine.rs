//! The supervisor itself.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use millstream_coordination::failure::{FailureInfo, FailureKind};
use millstream_coordination::job::ExecutionState;
use millstream_coordination::liveness::LostCause;
use millstream_coordination::protocol::{
    DeploySubtask, FromTaskmanager, StartJobProcess, TaskAddress, TaskmanagerHeartbeat,
    ToTaskmanager,
};
use millstream_coordination::slots::RegistrationRefusal;
use millstream_types::{Epoch, JobId, MonoTime, SlotIndex};

use super::connection::{Connection, Outcome};
use super::messages::{Action, Event, KillReason, Notice, ProcessEvent, ProcessId};
use super::process::{Phase, Process};

/// Time for tasks to stop before their process is killed, where the jobmanager does not say.
const STOP_TIMEOUT: Duration = Duration::from_secs(30);
/// Time for tasks to stop in a shutdown: container engines kill after 10 s.
const LEAVE_TIMEOUT: Duration = Duration::from_secs(8);
/// A process without tasks for so long was forgotten by the jobmanager.
const IDLE_TIMEOUT: Duration = Duration::from_secs(300);
/// Jobs whose last epoch is remembered after their process is gone.
const FLOORS_MAX: usize = 10_000;

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
    config: SupervisorConfig,
    connection: Connection,
    processes: BTreeMap<JobId, Process>,
    /// The lowest epoch of a job that is still listened to.
    floors: BTreeMap<JobId, Epoch>,
    /// Slots reported free that were not used since: told again with each registration, since the
    /// first report may have been lost with its connection (HND-061).
    freed: BTreeSet<SlotIndex>,
    next_process: u64,
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
        let alone = self.connection.alone().zip(self.config.registration_timeout);
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
            ToTaskmanager::Cancel { job, epoch, subtasks } => {
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

    fn on_start(&mut self, now: MonoTime, start: StartJobProcess, actions: &mut Vec<Action>) {
        let (job, epoch) = (start.job, start.epoch);
        if self.is_stale(job, epoch) {
            return self.note_stale(job, epoch, "start of a job process", actions);
        }
        self.set_floor(job, epoch);
        let Some(process) = self.processes.get_mut(&job) else {
            return self.start(now, start, actions);
        };
        if process.serves(epoch) {
            if let Phase::Running { address } = &process.phase {
                let address = address.clone();
                actions.push(Action::Send(FromTaskmanager::JobProcessStarted {
                    job,
                    epoch,
                    address,
                }));
            }
            return;
        }
        let is_free = matches!(process.phase, Phase::Running { .. }) && !process.has_live_tasks();
        if is_free && epoch > process.epoch {
            process.reuse(epoch, now);
            let (process, message) = (process.id, ToTaskmanager::StartJobProcess(start));
            actions.push(Action::Tell { process, message });
        } else {
            process.next = Some(start);
            self.kill(job, KillReason::Replaced, None, actions);
        }
    }

    fn start(&mut self, now: MonoTime, start: StartJobProcess, actions: &mut Vec<Action>) {
        let id = ProcessId(self.next_process);
        self.next_process += 1;
        let process = Process::new(id, start.job, start.epoch, now);
        self.processes.insert(start.job, process);
        actions.push(Action::StartProcess { process: id, start });
    }

    fn on_deploy(&mut self, deploy: Box<DeploySubtask>, actions: &mut Vec<Action>) {
        let (job, epoch) = (deploy.job, deploy.epoch);
        if self.is_stale(job, epoch) {
            return self.note_stale(job, epoch, "deployment", actions);
        }
        self.freed.remove(&deploy.slot);
        match self.processes.get_mut(&job).filter(|process| process.serves(epoch)) {
            Some(process) => {
                process.deploy(&deploy);
                let (process, message) = (process.id, ToTaskmanager::Deploy(deploy));
                actions.push(Action::Tell { process, message });
            }
            None => {
                let text = format!("no process of job {job} runs here in epoch {epoch}");
                actions.push(Action::Send(FromTaskmanager::SubtaskState {
                    job,
                    epoch,
                    subtask: deploy.subtask,
                    attempt: deploy.attempt,
                    state: ExecutionState::Failed,
                    failure: Some(FailureInfo::new(FailureKind::Deployment, text)),
                }));
            }
        }
    }

    fn on_cancel(
        &mut self,
        job: JobId,
        epoch: Epoch,
        subtasks: Vec<TaskAddress>,
        actions: &mut Vec<Action>,
    ) {
        if self.is_stale(job, epoch) {
            return self.note_stale(job, epoch, "cancellation", actions);
        }
        match self.processes.get_mut(&job).filter(|process| process.serves(epoch)) {
            Some(process) => {
                process.cancel(&subtasks);
                let message = ToTaskmanager::Cancel { job, epoch, subtasks };
                actions.push(Action::Tell { process: process.id, message });
            }
            // What does not run here has ended; whoever waits for its end is told.
            None => actions.extend(subtasks.iter().map(|address| {
                Action::Send(FromTaskmanager::SubtaskState {
                    job,
                    epoch,
                    subtask: address.subtask,
                    attempt: address.attempt,
                    state: ExecutionState::Canceled,
                    failure: None,
                })
            })),
        }
    }

    /// Passes a message on to the process of exactly this epoch.
    fn pass(
        &mut self,
        job: JobId,
        epoch: Epoch,
        message: ToTaskmanager,
        what: &'static str,
        actions: &mut Vec<Action>,
    ) {
        match self.processes.get(&job).filter(|process| process.serves(epoch)) {
            Some(process) => actions.push(Action::Tell { process: process.id, message }),
            None => self.note_stale(job, epoch, what, actions),
        }
    }

    fn on_abandon(
        &mut self,
        job: JobId,
        epoch: Epoch,
        slots: Vec<SlotIndex>,
        actions: &mut Vec<Action>,
    ) {
        let Some(process) = self.processes.get_mut(&job) else {
            return self.free(slots, actions);
        };
        let used = process.slots();
        let holds = process.epoch <= epoch && slots.iter().any(|slot| used.contains(slot));
        if !holds {
            // The tasks ended after all; a newer epoch began only after they had.
            return self.free(slots, actions);
        }
        process.abandoned.extend(slots);
        self.kill(job, KillReason::Abandoned, None, actions);
    }

    fn free(&mut self, slots: impl IntoIterator<Item = SlotIndex>, actions: &mut Vec<Action>) {
        for slot in slots {
            self.freed.insert(slot);
            actions.push(Action::Send(FromTaskmanager::SlotFreed { slot }));
        }
    }

    fn on_release(&mut self, now: MonoTime, job: JobId, epoch: Epoch, actions: &mut Vec<Action>) {
        if self.is_stale(job, epoch) {
            return self.note_stale(job, epoch, "release", actions);
        }
        self.set_floor(job, epoch.next());
        if let Some(process) = self.processes.get_mut(&job) {
            process.next.take_if(|next| next.epoch <= epoch);
            if process.epoch <= epoch {
                self.stop(now, job, STOP_TIMEOUT, actions);
            }
        }
    }

    fn on_process(
        &mut self,
        now: MonoTime,
        id: ProcessId,
        event: ProcessEvent,
        actions: &mut Vec<Action>,
    ) {
        let found = self.processes.values().find(|process| process.id == id);
        let Some(job) = found.map(|process| process.job) else {
            return;
        };
        match event {
            ProcessEvent::Said(message) => self.on_said(now, job, message, actions),
            ProcessEvent::Resident { bytes } => self.on_resident(job, bytes, actions),
            ProcessEvent::Ended(failure) => self.on_ended(now, job, failure, actions),
        }
    }

    fn on_said(
        &mut self,
        now: MonoTime,
        job: JobId,
        message: FromTaskmanager,
        actions: &mut Vec<Action>,
    ) {
        let Some(process) = self.processes.get_mut(&job) else {
            return;
        };
        if !process.is_current(&message) {
            return;
        }
        match &message {
            FromTaskmanager::Heartbeat(heartbeat) => {
                let jobs = heartbeat.jobs.iter().filter(|tasks| tasks.job == job);
                process.on_reports(jobs.flat_map(|tasks| tasks.tasks.clone()).collect());
                return;
            }
            FromTaskmanager::JobProcessStarted { address, .. } => {
                if process.phase == Phase::Starting {
                    process.phase = Phase::Running { address: address.clone() };
                }
            }
            FromTaskmanager::JobProcessFailed { failure, .. } => {
                let failure = Some(failure.clone());
                return self.kill(job, KillReason::NotStarted, failure, actions);
            }
            FromTaskmanager::SubtaskState { subtask, attempt, state, .. } => {
                process.on_state(now, TaskAddress::from((*subtask, *attempt)), *state);
            }
            FromTaskmanager::Acknowledge(_)
            | FromTaskmanager::Decline(_)
            | FromTaskmanager::UploadStopped { .. }
            | FromTaskmanager::EndOfData { .. }
            | FromTaskmanager::Output(_)
            | FromTaskmanager::Metrics(_) => {}
            FromTaskmanager::Register(_)
            | FromTaskmanager::SlotFreed { .. }
            | FromTaskmanager::Leaving => return,
        }
        actions.push(Action::Send(message));
    }

    fn on_resident(&mut self, job: JobId, bytes: u64, actions: &mut Vec<Action>) {
        let Some((process, per_slot)) =
            self.processes.get(&job).zip(self.config.memory_per_slot_bytes)
        else {
            return;
        };
        let budget_bytes = per_slot.saturating_mul(process.slots().len().max(1) as u64);
        if bytes <= budget_bytes.saturating_add(budget_bytes / 10) || process.is_killed() {
            return;
        }
        let why = KillReason::OverBudget { resident_bytes: bytes, budget_bytes };
        let mut failure = FailureInfo::new(FailureKind::MemoryBudget, why.to_string());
        failure.remedy = Some(
            "raise taskmanager.memory.process.size, lower taskmanager.memory.managed.fraction, or \
             give the job more slots"
                .to_owned(),
        );
        self.kill(job, why, Some(failure), actions);
    }

    fn on_ended(
        &mut self,
        now: MonoTime,
        job: JobId,
        failure: FailureInfo,
        actions: &mut Vec<Action>,
    ) {
        let Some(process) = self.processes.remove(&job) else {
            return;
        };
        let epoch = process.epoch;
        let told = match &process.phase {
            Phase::Killed { failure: Some(cause) } => Some(cause.clone()),
            Phase::Killed { failure: None } => None,
            Phase::Starting | Phase::Running { .. } | Phase::Stopping { .. } => {
                let notice = Notice::ProcessFailed { job, epoch, failure: failure.clone() };
                actions.push(Action::Note(notice));
                Some(failure)
            }
        };
        match told {
            Some(failure) => {
                actions.push(Action::Send(FromTaskmanager::JobProcessFailed {
                    job,
                    epoch,
                    failure,
                }));
            }
            None => actions.extend(process.canceled_tasks().map(Action::Send)),
        }
        self.free(process.abandoned, actions);
        if let Some(next) = process.next
            && !self.is_stale(job, next.epoch)
            && !self.is_going()
        {
            self.start(now, next, actions);
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

    /// Tells all tasks of a process to stop, and kills it once they did, or after `patience`.
    fn stop(
        &mut self,
        now: MonoTime,
        job: JobId,
        patience: Duration,
        actions: &mut Vec<Action>,
    ) {
        let Some(process) = self.processes.get_mut(&job) else {
            return;
        };
        let by = now + patience;
        match &mut process.phase {
            Phase::Killed { .. } => return,
            Phase::Stopping { by: earlier, .. } if *earlier <= by => return,
            Phase::Starting | Phase::Running { .. } | Phase::Stopping { .. } => {}
        }
        let subtasks: Vec<_> = process.live().collect();
        process.phase = Phase::Stopping { by, after: patience };
        if !subtasks.is_empty() {
            process.cancel(&subtasks);
            let message = ToTaskmanager::Cancel { job, epoch: process.epoch, subtasks };
            actions.push(Action::Tell { process: process.id, message });
        }
    }

    fn kill(
        &mut self,
        job: JobId,
        why: KillReason,
        failure: Option<FailureInfo>,
        actions: &mut Vec<Action>,
    ) {
        let Some(process) = self.processes.get_mut(&job).filter(|process| !process.is_killed())
        else {
            return;
        };
        process.phase = Phase::Killed { failure };
        let (id, epoch) = (process.id, process.epoch);
        actions.push(Action::Note(Notice::Killing { job, epoch, why }));
        actions.push(Action::KillProcess { process: id });
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
                    if process.idle_since.is_some_and(|since| now - since >= IDLE_TIMEOUT) =>
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
        } else if let Some(((since, reason), timeout)) =
            self.connection.alone().zip(self.config.registration_timeout)
            && now - since >= timeout
        {
            self.has_given_up = true;
            actions.push(Action::GiveUp { reason: reason.to_owned() });
        }
    }

    /// Not while tasks of a life that was declared dead still run, nor on the way out.
    fn may_connect(&self) -> bool {
        !self.is_declared_dead && !self.is_going()
    }

    fn is_going(&self) -> bool {
        self.leave_by.is_some()
    }

    fn jobs(&self) -> Vec<JobId> {
        self.processes.keys().copied().collect()
    }

    fn is_stale(&self, job: JobId, epoch: Epoch) -> bool {
        self.floors.get(&job).is_some_and(|floor| epoch < *floor)
    }

    fn set_floor(&mut self, job: JobId, floor: Epoch) {
        self.floors.insert(job, floor);
        if self.floors.len() > FLOORS_MAX {
            let gone = self.floors.keys().find(|other| !self.processes.contains_key(other));
            if let Some(gone) = gone.copied().filter(|gone| *gone != job) {
                self.floors.remove(&gone);
            }
        }
    }

    fn note_stale(
        &self,
        job: JobId,
        epoch: Epoch,
        what: &'static str,
        actions: &mut Vec<Action>,
    ) {
        actions.push(Action::Note(Notice::Stale { job, epoch, what }));
    }
}
