//! The actor: slot pool and liveness behind one queue of events.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use millstream_coordination::failure::{FailureInfo, FailureKind};
use millstream_coordination::liveness::{self, Liveness, LivenessConfig};
use millstream_coordination::protocol::{Registered, Registration, SlotReport, ToTaskmanager};
use millstream_coordination::slots::{self, RegistrationRefusal, SlotPool, SlotRef};
use millstream_env::Env;
use millstream_types::{Epoch, Incarnation, JobId, TaskmanagerId, WallTime, rounded};
use tokio::sync::{mpsc, oneshot};
use tracing::{info, warn};

use super::{ClusterEvent, ClusterHandle, ClusterSettings, Connections, Link, Peer, SessionId};
use crate::details::TaskmanagerDetails;
use crate::master::Command;
use crate::registry::{JobHandle, Loss, Registry};

/// A registered taskmanager.
struct Member {
    registration: Registration,
    session: SessionId,
    link: Link,
    is_connected: bool,
    registered_at: WallTime,
    heard_at: WallTime,
    reported: Vec<SlotReport>,
}

struct Cluster {
    env: Env,
    settings: ClusterSettings,
    registry: Arc<Registry>,
    connections: Connections,
    pool: SlotPool,
    liveness: Liveness<TaskmanagerId>,
    members: BTreeMap<TaskmanagerId, Member>,
    /// What the pool gave to whom, to be shown.
    allocated: BTreeMap<JobId, (Epoch, BTreeSet<SlotRef>)>,
    abandoned: BTreeSet<SlotRef>,
    /// What masters are told when the event under way is dealt with.
    to_tell: Vec<(JobHandle, Command)>,
    /// Who waits until they were told.
    telling: Vec<oneshot::Sender<()>>,
}

/// Starts the actor; it ends with its spawner.
pub(crate) fn start(
    env: &Env,
    settings: ClusterSettings,
    registry: Arc<Registry>,
    connections: Connections,
) -> ClusterHandle {
    let (handle, receiver) = ClusterHandle::new();
    let config = LivenessConfig {
        interval: settings.heartbeat_interval,
        timeout: settings.heartbeat_timeout,
        ..LivenessConfig::default()
    };
    let cluster = Cluster {
        env: env.clone(),
        settings,
        registry,
        connections,
        pool: SlotPool::new(settings.slot_request_timeout),
        liveness: Liveness::new(config),
        members: BTreeMap::new(),
        allocated: BTreeMap::new(),
        abandoned: BTreeSet::new(),
        to_tell: Vec::new(),
        telling: Vec::new(),
    };
    env.spawner().supervise("cluster", cluster.run(receiver));
    handle
}

impl Cluster {
    async fn run(mut self, mut events: mpsc::Receiver<ClusterEvent>) {
        let stop = self.env.spawner().stop_signal();
        loop {
            let deadline = self.pool.deadline().min(self.liveness.deadline());
            let due = self.env.clock().sleep_until(deadline);
            tokio::select! {
                biased;
                () = stop.cancelled() => break,
                () = due => {
                    self.step_pool(slots::Event::Tick);
                    self.step_liveness(liveness::Event::Tick);
                }
                event = events.recv() => match event {
                    Some(event) => self.on_event(event),
                    None => break,
                },
            }
            self.tell_masters().await;
        }
        for member in self.members.values() {
            member.link.cut.cancel();
        }
    }

    /// Waits where a master has much to read: it waits for nobody, so it comes to that.
    async fn tell_masters(&mut self) {
        for (master, command) in self.to_tell.drain(..) {
            // One that just ended has no use for it: it released its slots as its last word.
            let _ = master.commands.send(command).await;
        }
        self.telling.clear();
    }

    fn on_event(&mut self, event: ClusterEvent) {
        match event {
            ClusterEvent::Register {
                session,
                registration,
                link,
                reply,
            } => self.on_register(session, registration, link, reply),
            ClusterEvent::Heard(peer) => self.on_heard(peer),
            ClusterEvent::SlotReports(peer, reported) => {
                if let Some(member) = self.member(&peer) {
                    member.reported = reported;
                }
            }
            ClusterEvent::SlotFreed(peer, index) => {
                let slot = SlotRef {
                    taskmanager: peer.taskmanager,
                    incarnation: peer.incarnation,
                    index,
                };
                self.abandoned.remove(&slot);
                self.step_pool(slots::Event::Freed { slot });
            }
            ClusterEvent::Leaving { peer, told } => {
                self.telling.push(told);
                self.on_leaving(&peer);
            }
            ClusterEvent::Disconnected(peer) => self.on_disconnected(peer),
            ClusterEvent::RequestSlots {
                job,
                epoch,
                demand,
                previous,
            } => {
                let needed = demand.count();
                self.forget_allocation(job, epoch);
                self.step_pool(slots::Event::Request {
                    job,
                    epoch,
                    demand,
                    previous,
                });
                self.say_if_waiting(job, needed);
            }
            ClusterEvent::ReleaseSlots { job, epoch } => {
                self.forget_allocation(job, epoch);
                self.step_pool(slots::Event::Release { job, epoch });
            }
            ClusterEvent::AbandonSlot(slot) => {
                self.abandoned.insert(slot.clone());
                self.step_pool(slots::Event::Abandon { slot });
            }
            ClusterEvent::Describe(reply) => {
                // Whoever asked may have gone.
                let _ = reply.send(self.describe());
            }
        }
    }

    fn on_register(
        &mut self,
        session: SessionId,
        registration: Registration,
        link: Link,
        reply: oneshot::Sender<Result<(), RegistrationRefusal>>,
    ) {
        let (id, incarnation) = (registration.id.clone(), registration.incarnation);
        // Another life of a taskmanager whose connection is down already: the old one is gone, and
        // nobody has to wait for the grace to end.
        let replaced = self.members.get(&id).filter(|member| {
            member.registration.incarnation != incarnation && !member.is_connected
        });
        if let Some(old) = replaced.map(|member| member.registration.incarnation) {
            self.lose(
                &id,
                old,
                "its process was replaced by another one".to_owned(),
            );
        }
        let mut actions = Vec::new();
        let event = slots::Event::Register {
            taskmanager: id,
            incarnation,
            slots: registration.slots,
        };
        self.pool
            .step(self.env.clock().monotonic(), event, &mut actions);
        let refusal = actions.iter().find_map(|action| match action {
            slots::Action::Refused { reason, .. } => Some(reason.clone()),
            slots::Action::Registered { .. }
            | slots::Action::Allocated { .. }
            | slots::Action::Unavailable { .. } => None,
        });
        match refusal {
            Some(reason) => {
                warn!(
                    taskmanager_id = %registration.id,
                    error = %reason,
                    "taskmanager refused"
                );
                link.send(ToTaskmanager::RegistrationRefused(reason.clone()));
                let _ = reply.send(Err(reason));
            }
            None => {
                self.join(session, registration, link);
                let _ = reply.send(Ok(()));
            }
        }
        // The new slots may serve whoever waits for some.
        self.carry_out(actions);
    }

    fn join(&mut self, session: SessionId, registration: Registration, link: Link) {
        let id = registration.id.clone();
        info!(
            taskmanager_id = %id,
            host = registration.host,
            slots = registration.slots,
            "taskmanager registered"
        );
        link.send(ToTaskmanager::Registered(Registered {
            jobmanager: self.settings.incarnation,
            heartbeat_interval: self.settings.heartbeat_interval,
            heartbeat_timeout: self.settings.heartbeat_timeout,
        }));
        self.connections
            .insert(id.clone(), link.clone(), &registration.host);
        let incarnation = registration.incarnation;
        let wall = self.env.clock().wall();
        let member = Member {
            registration,
            session,
            link,
            is_connected: true,
            registered_at: wall,
            heard_at: wall,
            reported: Vec::new(),
        };
        if let Some(old) = self.members.insert(id.clone(), member) {
            // The same process over a new connection.
            old.link.cut.cancel();
        }
        self.step_liveness(liveness::Event::Connected {
            peer: id,
            incarnation,
        });
    }

    /// The member that this peer still is.
    fn member(&mut self, peer: &Peer) -> Option<&mut Member> {
        let member = self.members.get_mut(&peer.taskmanager)?;
        (member.session == peer.session).then_some(member)
    }

    fn on_heard(&mut self, peer: Peer) {
        let wall = self.env.clock().wall();
        let Some(member) = self.member(&peer) else {
            return;
        };
        member.heard_at = wall;
        self.step_liveness(liveness::Event::Heard {
            peer: peer.taskmanager,
            incarnation: peer.incarnation,
        });
    }

    fn on_disconnected(&mut self, peer: Peer) {
        let Some(member) = self.member(&peer) else {
            return;
        };
        member.is_connected = false;
        self.step_liveness(liveness::Event::Disconnected {
            peer: peer.taskmanager,
            incarnation: peer.incarnation,
        });
    }

    fn on_leaving(&mut self, peer: &Peer) {
        if self.member(peer).is_none() {
            return;
        }
        let taskmanager = peer.taskmanager.clone();
        info!(taskmanager_id = %taskmanager, "taskmanager is leaving");
        self.step_pool(slots::Event::Draining {
            taskmanager: taskmanager.clone(),
        });
        let failure = FailureInfo::new(
            FailureKind::TaskmanagerLeaving,
            format!("taskmanager {taskmanager} is shutting down"),
        );
        self.tell_lost(taskmanager, failure);
    }

    fn lose(&mut self, id: &TaskmanagerId, incarnation: Incarnation, cause: String) {
        let is_known = |member: &Member| member.registration.incarnation == incarnation;
        if !self.members.get(id).is_some_and(is_known) {
            return;
        }
        let Some(member) = self.members.remove(id) else {
            return;
        };
        warn!(taskmanager_id = %id, cause, "taskmanager lost");
        member.link.cut.cancel();
        self.connections.remove(id);
        let is_its = |slot: &SlotRef| slot.taskmanager == *id && slot.incarnation == incarnation;
        self.abandoned.retain(|slot| !is_its(slot));
        for (_, slots) in self.allocated.values_mut() {
            slots.retain(|slot| !is_its(slot));
        }
        self.step_liveness(liveness::Event::Forget {
            peer: id.clone(),
            incarnation,
        });
        self.step_pool(slots::Event::Lost {
            taskmanager: id.clone(),
            incarnation,
        });
        let host = &member.registration.host;
        let mut failure = FailureInfo::new(
            FailureKind::TaskmanagerLost,
            format!("taskmanager {id} @ {host} is lost: {cause}"),
        );
        failure.remedy = Some(format!(
            "look at the log of taskmanager {id} and at the memory and network of {host}"
        ));
        self.tell_lost(id.clone(), failure);
    }

    /// Every job hears of it.
    fn tell_lost(&mut self, taskmanager: TaskmanagerId, failure: FailureInfo) {
        let loss = Loss {
            taskmanager,
            failure,
        };
        for (_, master) in self.registry.running() {
            let command = Command::TaskmanagerLost(loss.clone());
            self.to_tell.push((master, command));
        }
    }

    fn step_liveness(&mut self, event: liveness::Event<TaskmanagerId>) {
        let mut actions = Vec::new();
        self.liveness
            .step(self.env.clock().monotonic(), event, &mut actions);
        for action in actions {
            match action {
                liveness::Action::SendHeartbeat { peer } => {
                    self.connections.send(&peer, ToTaskmanager::Heartbeat);
                }
                liveness::Action::Lost {
                    peer,
                    incarnation,
                    cause,
                } => self.lose(&peer, incarnation, cause.to_string()),
                liveness::Action::Paused { lasted } => {
                    // Every effect outside is behind the claim chain, which tells a jobmanager
                    // that was replaced meanwhile.
                    warn!(
                        lasted = rounded(lasted),
                        "this process did not run for a while"
                    );
                }
            }
        }
    }

    fn step_pool(&mut self, event: slots::Event) {
        let mut actions = Vec::new();
        self.pool
            .step(self.env.clock().monotonic(), event, &mut actions);
        self.carry_out(actions);
    }

    /// A job that waits shows nothing else until it gets its slots or gives up.
    fn say_if_waiting(&self, job: JobId, needed: usize) {
        if !self.allocated.contains_key(&job) {
            let (registered, free) = self.pool.slots();
            info!(job_id = %job, needed, free, registered, "job waits for slots");
        }
    }

    fn carry_out(&mut self, actions: Vec<slots::Action>) {
        for action in actions {
            match action {
                // Answered where the registration is handled.
                slots::Action::Registered { .. } | slots::Action::Refused { .. } => {}
                slots::Action::Allocated { job, epoch, slots } => {
                    let held = slots.values().cloned().collect();
                    self.allocated.insert(job, (epoch, held));
                    self.tell(job, Command::SlotsAllocated { epoch, slots });
                }
                slots::Action::Unavailable {
                    job,
                    epoch,
                    failure,
                } => self.tell(job, Command::SlotsUnavailable { epoch, failure }),
            }
        }
    }

    fn tell(&mut self, job: JobId, command: Command) {
        if let Some(master) = self.registry.handle(job) {
            self.to_tell.push((master, command));
        }
    }

    fn forget_allocation(&mut self, job: JobId, epoch: Epoch) {
        if self
            .allocated
            .get(&job)
            .is_some_and(|(held, _)| *held <= epoch)
        {
            self.allocated.remove(&job);
        }
    }

    fn describe(&self) -> Vec<TaskmanagerDetails> {
        let held: BTreeSet<&SlotRef> = self
            .allocated
            .values()
            .flat_map(|(_, slots)| slots)
            .chain(&self.abandoned)
            .collect();
        let members = self.members.iter().map(|(id, member)| {
            let registration = &member.registration;
            let total = registration.slots as usize;
            let is_its = |slot: &&&SlotRef| {
                slot.taskmanager == *id && slot.incarnation == registration.incarnation
            };
            let used = held.iter().filter(is_its).count();
            TaskmanagerDetails {
                id: id.clone(),
                incarnation: registration.incarnation,
                host: registration.host.clone(),
                advertised_host: registration.advertised_host.clone(),
                pid: registration.pid,
                version: registration.version.clone(),
                slots_total: total,
                slots_available: total.saturating_sub(used),
                slots: member.reported.clone(),
                is_connected: member.is_connected,
                registered_at: member.registered_at,
                heard_at: member.heard_at,
            }
        });
        members.collect()
    }
}
