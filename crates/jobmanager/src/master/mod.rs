//! The master of one job: owns its machines and carries out what they decide.
//!
//! Everything that happens to the job comes through one loop: commands, messages of tasks, answers
//! of storage, deadlines. A machine's actions are carried out in their order; what they cause is
//! queued and handled before anything else is looked at.

mod checkpoint_actions;
mod deployment;
mod ending;
mod failure;
mod io;
mod job_actions;
mod log;
mod messages;
mod record;
mod telling;
mod view;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

use futures::StreamExt;
use futures::future::BoxFuture;
use futures::stream::FuturesUnordered;
use millstream_coordination::Moment;
use millstream_coordination::chain::RestorePoint;
use millstream_coordination::checkpoint::{self, Coordinator, RequestFailure, RequestId};
use millstream_coordination::failure::FailureInfo;
use millstream_coordination::job::{self, Job};
use millstream_coordination::protocol::{SubtaskMetrics, TaskReport};
use millstream_coordination::slots::SlotRef;
use millstream_env::Env;
use millstream_types::{CheckpointId, Epoch, JobId, MonoTime, SubtaskId, TaskmanagerId, WallTime};
use tokio::sync::{mpsc, oneshot, watch};

use crate::admission::Plan;
use crate::cluster::{ClusterHandle, Connections};
use crate::details::{CheckpointsDetails, JobDetails, JobOverview};
use crate::error::CancelError;
use crate::registry::{JobHandle, Loss, Outcome, Registry};
use crate::watch::JobWatch;
use deployment::Deployment;
pub(crate) use failure::removal;
use io::{Answer, Claim};
pub(crate) use io::{ID_BLOCK, JobFiles};
use record::Record;
use telling::Telling;

/// Messages of taskmanagers that wait for one job.
const MESSAGES_MAX: usize = 4_096;

/// Questions and words of the cluster that wait for one job.
const COMMANDS_MAX: usize = 1_024;

/// Checkpoints shown.
const CHECKPOINT_HISTORY: usize = 10;

/// What others ask of a master, or tell it.
#[derive(Debug)]
pub(crate) enum Command {
    SlotsAllocated {
        epoch: Epoch,
        slots: BTreeMap<SubtaskId, SlotRef>,
    },
    SlotsUnavailable {
        epoch: Epoch,
        failure: FailureInfo,
    },
    TaskmanagerLost(Loss),
    Cancel(oneshot::Sender<Result<(), CancelError>>),
    TriggerCheckpoint(oneshot::Sender<Result<CheckpointId, RequestFailure>>),
    Overview(oneshot::Sender<JobOverview>),
    Details(oneshot::Sender<Box<JobDetails>>),
    Checkpoints(oneshot::Sender<Box<CheckpointsDetails>>),
    Watch(oneshot::Sender<JobWatch>),
}

/// What comes from a taskmanager, in its order.
#[derive(Debug)]
pub(crate) enum TaskMessage {
    Sent(
        checkpoint::Origin,
        Box<millstream_coordination::protocol::FromTaskmanager>,
    ),
    /// All that a taskmanager has of this job.
    Reported {
        taskmanager: TaskmanagerId,
        tasks: Vec<TaskReport>,
    },
    Metrics(Box<SubtaskMetrics>),
}

/// What a master is made of.
pub(crate) struct MasterParts {
    pub(crate) env: Env,
    pub(crate) job: JobId,
    pub(crate) submitted_at: WallTime,
    pub(crate) plan: Plan,
    pub(crate) files: JobFiles,
    /// The claim that came before the job object, for a job that was just submitted.
    pub(crate) first_claim: Option<millstream_snapshot::chain::Claimed>,
    pub(crate) cluster: ClusterHandle,
    pub(crate) connections: Connections,
    pub(crate) registry: Arc<Registry>,
}

/// Something to be handled before the next thing is waited for.
enum Work {
    Job(job::Event),
    Checkpoint(checkpoint::Event),
    Answer(Answer),
}

pub(crate) struct Master {
    env: Env,
    id: JobId,
    plan: Plan,
    files: JobFiles,
    telling: Telling,
    connections: Connections,
    registry: Arc<Registry>,
    job: Job,
    coordinator: Coordinator,
    work: VecDeque<Work>,
    io: FuturesUnordered<BoxFuture<'static, Answer>>,
    first_claim: Option<millstream_snapshot::chain::Claimed>,
    /// The newest claim.
    claim: Option<Claim>,
    /// Tasks that are being sent out.
    deployment: Option<Deployment>,
    /// When what earlier epochs left in storage is deleted next.
    sweep_at: MonoTime,
    /// Taskmanagers that may have something of this job, each with the newest epoch it was told.
    involved: BTreeMap<TaskmanagerId, Epoch>,
    record: Record,
    requests: BTreeMap<RequestId, oneshot::Sender<Result<CheckpointId, RequestFailure>>>,
    next_request: u64,
    outcome: watch::Sender<Outcome>,
    /// TERMINAL is ours: nobody else will ever own the job. The checkpoints that the chain has then.
    completed_at_end: Option<Vec<RestorePoint>>,
    is_announced: bool,
}

/// The queues of a master that does not run yet.
pub(crate) struct Mailbox {
    commands: mpsc::Receiver<Command>,
    messages: mpsc::Receiver<TaskMessage>,
    outcome: watch::Sender<Outcome>,
}

/// The two ends of a master's queues. The handle has to be registered before the master starts:
/// the cluster answers to whom it finds there.
pub(crate) fn mailbox() -> (JobHandle, Mailbox) {
    let (commands, command_receiver) = mpsc::channel(COMMANDS_MAX);
    let (messages, message_receiver) = mpsc::channel(MESSAGES_MAX);
    let (outcome_sender, outcome) = watch::channel(Outcome::Open);
    let handle = JobHandle {
        commands,
        messages,
        outcome,
    };
    let mailbox = Mailbox {
        commands: command_receiver,
        messages: message_receiver,
        outcome: outcome_sender,
    };
    (handle, mailbox)
}

/// Starts the job.
pub(crate) fn start(parts: MasterParts, mailbox: Mailbox) {
    let Mailbox {
        commands,
        messages,
        outcome,
    } = mailbox;
    let env = parts.env.clone();
    let name = format!("job master {}", parts.job);
    let master = Master::new(parts, outcome);
    env.spawner()
        .supervise(name, master.run(commands, messages));
}

impl Master {
    fn new(parts: MasterParts, outcome: watch::Sender<Outcome>) -> Self {
        let MasterParts {
            env,
            job: id,
            submitted_at,
            plan,
            files,
            first_claim,
            cluster,
            connections,
            registry,
        } = parts;
        let mut coordinator = Coordinator::new(
            id,
            plan.checkpoints.clone(),
            plan.topology.clone(),
            CHECKPOINT_HISTORY,
        );
        coordinator.sabotage(env.sabotage());
        Self {
            job: Job::new(plan.machine.clone(), plan.topology.clone()),
            coordinator,
            record: Record::new(submitted_at),
            env,
            id,
            plan,
            files,
            telling: Telling::new(cluster),
            connections,
            registry,
            work: VecDeque::new(),
            io: FuturesUnordered::new(),
            first_claim,
            claim: None,
            deployment: None,
            sweep_at: MonoTime::NEVER,
            involved: BTreeMap::new(),
            requests: BTreeMap::new(),
            next_request: 0,
            outcome,
            completed_at_end: None,
            is_announced: false,
        }
    }

    async fn run(
        mut self,
        mut commands: mpsc::Receiver<Command>,
        mut messages: mpsc::Receiver<TaskMessage>,
    ) {
        let stop = self.env.spawner().stop_signal();
        self.log_start();
        self.work.push_back(Work::Job(job::Event::Start));
        self.drain();
        while !self.is_done() {
            let due = self.env.clock().sleep_until(self.deadline());
            // Nothing is lost when a branch is dropped: requests stay in `io`.
            tokio::select! {
                biased;
                () = stop.cancelled() => break,
                () = due => self.on_deadline(),
                Some(answer) = self.io.next(), if !self.io.is_empty() => {
                    self.work.push_back(Work::Answer(answer));
                }
                command = commands.recv(), if !commands.is_closed() => {
                    if let Some(command) = command {
                        self.on_command(command);
                    }
                }
                message = messages.recv(), if !messages.is_closed() => {
                    if let Some(message) = message {
                        self.on_message(message);
                    }
                }
            }
            self.drain();
        }
        self.record.close_watches();
    }

    /// The end is announced, and nothing is left to be cleaned up.
    fn is_done(&self) -> bool {
        self.is_announced && self.io.is_empty() && self.coordinator.deadline() == MonoTime::NEVER
    }

    fn deadline(&self) -> MonoTime {
        let deployment = self.deployment.as_ref().map(|d| d.deadline);
        self.job
            .deadline()
            .min(self.coordinator.deadline())
            .min(deployment.unwrap_or(MonoTime::NEVER))
            .min(self.sweep_at)
    }

    fn on_deadline(&mut self) {
        let now = self.env.clock().monotonic();
        if self.deployment.as_ref().is_some_and(|d| d.deadline <= now) {
            self.on_deployment_overdue();
        }
        if self.sweep_at <= now {
            self.sweep();
        }
        self.work.push_back(Work::Job(job::Event::Tick));
        self.work
            .push_back(Work::Checkpoint(checkpoint::Event::Tick));
    }

    /// Handles what is queued, and what comes of it.
    fn drain(&mut self) {
        while let Some(work) = self.work.pop_front() {
            match work {
                Work::Job(event) => self.step_job(event),
                Work::Checkpoint(event) => self.step_coordinator(event),
                Work::Answer(answer) => self.on_answer(answer),
            }
        }
    }

    fn step_job(&mut self, event: job::Event) {
        let mut actions = Vec::new();
        self.job.step(self.moment(), event, &mut actions);
        self.carry_out_job(actions);
    }

    fn step_coordinator(&mut self, event: checkpoint::Event) {
        let mut actions = Vec::new();
        self.coordinator.step(self.moment(), event, &mut actions);
        for action in actions {
            self.carry_out_checkpoint(action);
        }
    }

    fn moment(&self) -> Moment {
        Moment {
            now: self.env.clock().monotonic(),
            wall: self.env.clock().wall(),
            random: self.env.rng().u64(),
        }
    }

    fn on_command(&mut self, command: Command) {
        match command {
            Command::SlotsAllocated { epoch, slots } => {
                self.record.slot_wait = None;
                self.release_elsewhere(epoch, &slots);
                self.work
                    .push_back(Work::Job(job::Event::SlotsAllocated { epoch, slots }));
            }
            Command::SlotsUnavailable { epoch, failure } => {
                self.record.slot_wait = None;
                self.work
                    .push_back(Work::Job(job::Event::SlotsUnavailable { epoch, failure }));
            }
            Command::TaskmanagerLost(loss) => self.on_taskmanager_lost(loss),
            Command::Cancel(reply) => self.on_cancel(reply),
            Command::TriggerCheckpoint(reply) => {
                let request = RequestId(self.next_request);
                self.next_request += 1;
                self.requests.insert(request, reply);
                self.work
                    .push_back(Work::Checkpoint(checkpoint::Event::Request(request)));
            }
            // Whoever asked may have gone.
            Command::Overview(reply) => drop(reply.send(self.overview())),
            Command::Details(reply) => drop(reply.send(Box::new(self.details()))),
            Command::Checkpoints(reply) => drop(reply.send(Box::new(self.checkpoints()))),
            Command::Watch(reply) => {
                let status = self.job.status();
                let watch = self.record.watch(status);
                drop(reply.send(watch));
            }
        }
    }

    fn on_cancel(&mut self, reply: oneshot::Sender<Result<(), CancelError>>) {
        let status = self.job.status();
        let answer = match &*self.outcome.borrow() {
            Outcome::Suspended(why) => Err(CancelError::NotOwned {
                job: self.id,
                status,
                why: why.clone(),
            }),
            Outcome::Open | Outcome::Ended(_) => Ok(()),
        };
        if answer.is_ok() {
            self.work.push_back(Work::Job(job::Event::Cancel));
        }
        drop(reply.send(answer));
    }

    fn on_taskmanager_lost(&mut self, loss: Loss) {
        let Loss {
            taskmanager,
            failure,
        } = loss;
        if let Some(epoch) = self.involved.remove(&taskmanager) {
            // One that leaves is still there, and need not run what is replaced now.
            self.send_release(&taskmanager, epoch);
        }
        self.work.push_back(Work::Job(job::Event::TaskmanagerLost {
            taskmanager,
            failure,
        }));
    }

    /// Taskmanagers that have no task in the new epoch forget the job.
    fn release_elsewhere(&mut self, epoch: Epoch, slots: &BTreeMap<SubtaskId, SlotRef>) {
        let used: BTreeSet<&TaskmanagerId> = slots.values().map(|s| &s.taskmanager).collect();
        let elsewhere: Vec<_> = self
            .involved
            .iter()
            .filter(|(id, told)| **told < epoch && !used.contains(id))
            .map(|(id, told)| (id.clone(), *told))
            .collect();
        for (taskmanager, told) in elsewhere {
            self.involved.remove(&taskmanager);
            self.send_release(&taskmanager, told);
        }
    }
}
