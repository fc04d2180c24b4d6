//! Carries out what the supervisor decides.

use std::net::IpAddr;
use std::sync::Arc;

use millstream_coordination::protocol::{FromTaskmanager, Registration, ToTaskmanager};
use millstream_env::{Env, StopSignal, Task};
use millstream_types::{Incarnation, TaskmanagerId, rounded};
use tokio::sync::mpsc;
use tracing::{error, info, warn};

use crate::advertise::Advertise;
use crate::connect::{Connect, ConnectError, ControlConnection};
use crate::host::{HostEvent, HostIdentity, JobHost, last_count};
use crate::sight::OtherStorage;
use crate::supervisor::{Action, Event, Notice, Supervisor, SupervisorConfig};

/// Events of job processes that may wait; further ones wait in the processes' own queues.
pub(crate) const EVENTS_MAX: usize = 4_096;

/// Who this taskmanager is, apart from its incarnation and address.
#[derive(Clone, Debug)]
pub(crate) struct Member {
    pub(crate) id: TaskmanagerId,
    pub(crate) slots: u32,
    pub(crate) advertise: Advertise,
    /// What it calls its host.
    pub(crate) host: String,
}

/// How a taskmanager ended.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Ending {
    /// It was told to, and everything in it ended.
    Drained,
    /// Nobody took it in.
    GaveUp { reason: String },
    /// It does not see the storage of the cluster.
    OtherStorage(Box<OtherStorage>),
}

/// One taskmanager at work.
pub(crate) struct Shell {
    env: Env,
    member: Member,
    supervisor: Supervisor,
    connect: Arc<dyn Connect>,
    host: Box<dyn JobHost>,
    events: mpsc::Receiver<HostEvent>,
    identity: HostIdentity,
    connecting: Option<Task<Result<ControlConnection, ConnectError>>>,
    outgoing: Option<mpsc::Sender<FromTaskmanager>>,
    incoming: Option<mpsc::Receiver<ToTaskmanager>>,
    dropped_lines: u64,
    ending: Option<Ending>,
}

impl Shell {
    pub(crate) fn new(
        env: Env,
        member: Member,
        config: SupervisorConfig,
        connect: Arc<dyn Connect>,
        host: Box<dyn JobHost>,
        events: mpsc::Receiver<HostEvent>,
    ) -> Self {
        let identity = HostIdentity {
            taskmanager: member.id.clone(),
            incarnation: env.rng().incarnation(),
            advertised_host: member.advertise.host(None),
        };
        let supervisor = Supervisor::new(env.clock().monotonic(), config);
        let supervisor = supervisor.with_sabotage(env.sabotage());
        Self {
            env,
            member,
            supervisor,
            connect,
            host,
            events,
            identity,
            connecting: None,
            outgoing: None,
            incoming: None,
            dropped_lines: 0,
            ending: None,
        }
    }

    /// Works until `leave` fired and everything ended, or until it gives up.
    pub(crate) async fn run(mut self, leave: StopSignal) -> Ending {
        let mut is_leaving = false;
        self.step(Event::Tick);
        loop {
            if let Some(ending) = self.ending.take() {
                return ending;
            }
            let due = self.env.clock().sleep_until(self.supervisor.deadline());
            let event = tokio::select! {
                () = leave.cancelled(), if !is_leaving => {
                    is_leaving = true;
                    Event::Leave
                }
                () = due => Event::Tick,
                found = connected(&mut self.connecting) => self.on_found(found),
                message = received(&mut self.incoming) => match message {
                    Some(message) => Event::FromJobmanager(message),
                    None => self.on_closed("the jobmanager closed the connection"),
                },
                // The host in this very struct holds the other end.
                Some(event) = self.events.recv() => Event::Process {
                    process: event.process,
                    event: event.event,
                },
            };
            self.step(event);
        }
    }

    fn step(&mut self, event: Event) {
        let mut actions = Vec::new();
        self.supervisor
            .step(self.env.clock().monotonic(), event, &mut actions);
        for action in actions {
            self.carry_out(action);
        }
    }

    fn carry_out(&mut self, action: Action) {
        match action {
            Action::Connect => {
                let connect = Arc::clone(&self.connect);
                let attempt = async move { connect.connect().await };
                self.connecting = Some(self.env.spawner().spawn("connect", attempt));
            }
            Action::Disconnect => self.disconnect(),
            Action::Register => {
                let registration = self.registration();
                self.send(FromTaskmanager::Register(registration));
            }
            Action::RenewIncarnation => self.identity.incarnation = self.env.rng().incarnation(),
            Action::Send(message) => self.send(message),
            Action::StartProcess { process, start } => {
                self.host.start(process, &self.identity, start);
            }
            Action::Tell { process, message } => self.host.tell(process, message),
            Action::KillProcess { process } => self.host.kill(process),
            Action::Note(notice) => note(&self.member, self.identity.incarnation, notice),
            Action::Drained => self.ending = Some(Ending::Drained),
            Action::GiveUp { reason } => self.ending = Some(Ending::GaveUp { reason }),
            Action::Refuse(other) => self.ending = Some(Ending::OtherStorage(other)),
        }
    }

    fn registration(&self) -> Registration {
        Registration {
            id: self.member.id.clone(),
            incarnation: self.identity.incarnation,
            slots: self.member.slots,
            advertised_host: self.identity.advertised_host.clone(),
            host: self.member.host.clone(),
            pid: std::process::id(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
        }
    }

    fn on_found(&mut self, found: Result<ControlConnection, ConnectError>) -> Event {
        match found {
            Ok(connection) => {
                self.adopt_address(connection.local_ip);
                self.outgoing = Some(connection.outgoing);
                self.incoming = Some(connection.incoming);
                Event::Connected
            }
            Err(ConnectError::Unreachable { reason }) => Event::ConnectFailed { reason },
            Err(ConnectError::StorageUnseen { reason }) => Event::StorageUnseen { reason },
            Err(ConnectError::OtherStorage(other)) => Event::OtherStorage(other),
        }
    }

    /// Processes that run keep the address they were started with.
    fn adopt_address(&mut self, local_ip: Option<IpAddr>) {
        let host = self.member.advertise.host(local_ip);
        if self.identity.advertised_host != host {
            info!(advertised_host = %host, "job processes are reached at this address");
            self.identity.advertised_host = host;
        }
    }

    fn on_closed(&mut self, reason: &str) -> Event {
        self.disconnect();
        Event::Disconnected {
            reason: reason.to_owned(),
        }
    }

    fn disconnect(&mut self) {
        self.connecting = None;
        self.outgoing = None;
        self.incoming = None;
    }

    /// Never waits. What finds no connection is lost: the next registration says what counts of it
    /// again, and heartbeats do.
    fn send(&mut self, mut message: FromTaskmanager) {
        let Some(outgoing) = &self.outgoing else {
            return;
        };
        if let FromTaskmanager::Output(output) = &mut message {
            if outgoing.capacity() * 2 <= outgoing.max_capacity() {
                self.dropped_lines += output.lines.len() as u64 + output.dropped;
                return;
            }
            output.dropped += std::mem::take(&mut self.dropped_lines);
        } else if let Some(last) = last_count(&message, || std::mem::take(&mut self.dropped_lines))
        {
            // Should it not fit, the message behind it does not either.
            let _ = outgoing.try_send(last);
        }
        if let Err(mpsc::error::TrySendError::Full(_)) = outgoing.try_send(message) {
            warn!("the jobmanager does not take what it is told: the connection is given up");
            // Closing the queue is seen as the end of the connection in the next turn.
            self.outgoing = None;
            if let Some(incoming) = &mut self.incoming {
                incoming.close();
            }
        }
    }
}

/// The end of an attempt to connect; none while there is no attempt.
async fn connected(
    connecting: &mut Option<Task<Result<ControlConnection, ConnectError>>>,
) -> Result<ControlConnection, ConnectError> {
    let Some(attempt) = connecting.as_mut() else {
        return std::future::pending().await;
    };
    let found = attempt.await;
    *connecting = None;
    match found {
        Ok(found) => found,
        Err(error) => Err(ConnectError::Unreachable {
            reason: error.to_string(),
        }),
    }
}

async fn received(incoming: &mut Option<mpsc::Receiver<ToTaskmanager>>) -> Option<ToTaskmanager> {
    match incoming {
        Some(incoming) => incoming.recv().await,
        None => std::future::pending().await,
    }
}

fn note(member: &Member, incarnation: Incarnation, notice: Notice) {
    let id = &member.id;
    match notice {
        Notice::Registered => {
            info!(taskmanager_id = %id, slots = member.slots, %incarnation, "registered");
        }
        Notice::Refused(refusal) => {
            error!(taskmanager_id = %id, error = %refusal, "the jobmanager refuses this taskmanager");
        }
        Notice::Unconnected { reason, retry_in } => {
            warn!(
                reason,
                retry_in = rounded(retry_in),
                "no connection to the jobmanager; tasks go on without checkpoints"
            );
        }
        Notice::StorageUnseen { reason, retry_in } => {
            warn!(
                reason,
                retry_in = rounded(retry_in),
                "storage of the jobmanager not seen: not registered; tried again"
            );
        }
        Notice::JobmanagerLost(cause) => {
            warn!(%cause, "jobmanager lost: all tasks are canceled");
        }
        Notice::Paused { lasted } => warn!(
            lasted = rounded(lasted),
            "this process did not run for a while"
        ),
        Notice::Killing { job, epoch, why } if why.is_orderly() => {
            info!(job_id = %job, leader_epoch = epoch.0, "job process ended: {why}");
        }
        Notice::Killing { job, epoch, why } => {
            warn!(job_id = %job, leader_epoch = epoch.0, "job process is killed: {why}");
        }
        Notice::ProcessFailed {
            job,
            epoch,
            failure,
        } => {
            warn!(job_id = %job, leader_epoch = epoch.0, error = %failure, "job process ended by itself");
        }
        Notice::Stale { job, epoch, what } => {
            info!(job_id = %job, leader_epoch = epoch.0, "{what} of another epoch is ignored");
        }
    }
}
