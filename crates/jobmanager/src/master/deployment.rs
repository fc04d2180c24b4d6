//! From slots to running tasks: job processes first, then every task with both ends of its
//! channels.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use millstream_coordination::failure::{FailureInfo, FailureKind};
use millstream_coordination::job::{self, ExecutionState};
use millstream_coordination::protocol::{
    ChannelEndpoint, ChannelPeer, ChannelToken, DataAddress, DeploySubtask, StartJobProcess,
    TaskAddress, ToTaskmanager,
};
use millstream_coordination::slots::SlotRef;
use millstream_env::fail_points;
use millstream_graph::ChannelId;
use millstream_types::{Attempt, Epoch, MonoTime, SubtaskId, TaskmanagerId, rounded};

use super::{Master, Work};

/// From the first message of a deployment until every task has said something. Restoring state
/// comes after that and may take longer.
const DEPLOYMENT_TIMEOUT: Duration = Duration::from_secs(60);

/// Tasks of one epoch that are being sent out.
pub(super) struct Deployment {
    epoch: Epoch,
    tasks: BTreeMap<SubtaskId, (Attempt, SlotRef)>,
    /// Shown by both ends of every channel.
    token: ChannelToken,
    addresses: BTreeMap<TaskmanagerId, DataAddress>,
    stage: Stage,
    pub(super) deadline: MonoTime,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Stage {
    /// More tasks may come.
    Collecting,
    /// Job processes are starting.
    Starting,
    /// Every task is on its way.
    Sent,
}

impl Master {
    pub(super) fn collect_deployment(
        &mut self,
        epoch: Epoch,
        subtask: SubtaskId,
        attempt: Attempt,
        slot: SlotRef,
    ) {
        if self.deployment.as_ref().is_none_or(|d| d.epoch != epoch) {
            let token = ChannelToken(u128::from_be_bytes(self.env.rng().bytes16()));
            self.deployment = Some(Deployment {
                epoch,
                tasks: BTreeMap::new(),
                token,
                addresses: BTreeMap::new(),
                stage: Stage::Collecting,
                deadline: self.env.clock().monotonic() + DEPLOYMENT_TIMEOUT,
            });
        }
        if let Some(deployment) = &mut self.deployment {
            let host = self.connections.host(&slot.taskmanager);
            let record = self.record.tasks.entry(subtask).or_default();
            record.host = host.as_deref().map(str::to_owned);
            deployment.tasks.insert(subtask, (attempt, slot));
        }
    }

    /// Asks for the job processes, once all tasks of the step are known.
    pub(super) fn start_deployment(&mut self) {
        let Some(deployment) = &mut self.deployment else {
            return;
        };
        if deployment.stage != Stage::Collecting {
            return;
        }
        deployment.stage = Stage::Starting;
        let epoch = deployment.epoch;
        for taskmanager in deployment.taskmanagers() {
            self.involved.insert(taskmanager.clone(), epoch);
            let message = ToTaskmanager::StartJobProcess(StartJobProcess {
                job: self.id,
                epoch,
                graph: self.plan.graph.clone(),
                chaining: self.plan.config.chaining,
            });
            // One that is not reached is lost soon, or the deployment is overdue.
            self.connections.send(&taskmanager, message);
        }
    }

    pub(super) fn on_process_started(
        &mut self,
        taskmanager: TaskmanagerId,
        epoch: Epoch,
        address: DataAddress,
    ) {
        let Some(deployment) = &mut self.deployment else {
            return;
        };
        if deployment.epoch != epoch || deployment.stage != Stage::Starting {
            return;
        }
        deployment.addresses.insert(taskmanager, address);
        let awaited = deployment.taskmanagers();
        if awaited
            .iter()
            .all(|id| deployment.addresses.contains_key(id))
        {
            deployment.stage = Stage::Sent;
            self.env.fail_points().hit(fail_points::DEPLOY);
            self.send_tasks();
        }
    }

    pub(super) fn on_process_failed(
        &mut self,
        taskmanager: TaskmanagerId,
        epoch: Epoch,
        failure: FailureInfo,
    ) {
        // Its tasks are gone together, as with a taskmanager: one failure.
        if self.job.epoch() == Some(epoch) {
            self.work.push_back(Work::Job(job::Event::TaskmanagerLost {
                taskmanager,
                failure,
            }));
        }
    }

    /// Consumers before producers, so that who opens a channel is expected already.
    fn send_tasks(&mut self) {
        let Some(deployment) = &self.deployment else {
            return;
        };
        for (subtask, (attempt, slot)) in deployment.tasks.iter().rev() {
            let execution = self.job.executions().get(subtask);
            let is_wanted = execution.is_some_and(|execution| {
                execution.attempt == *attempt && execution.state == ExecutionState::Deploying
            });
            if !is_wanted {
                continue;
            }
            let task = self.task(deployment, *subtask, *attempt, slot);
            self.log_deploying(&task, slot);
            let message = ToTaskmanager::Deploy(Box::new(task));
            self.connections.send(&slot.taskmanager, message);
        }
    }

    fn task(
        &self,
        deployment: &Deployment,
        subtask: SubtaskId,
        attempt: Attempt,
        slot: &SlotRef,
    ) -> DeploySubtask {
        let plan = &self.plan.plan;
        let inputs = plan.input_channels(subtask).into_iter().map(|channel| {
            let producer = plan.edges[channel.edge.0 as usize].from;
            deployment.endpoint(channel, SubtaskId::new(producer, channel.from), slot)
        });
        let outputs = plan
            .outputs_of(subtask.vertex)
            .flat_map(|edge| plan.output_channels(edge, subtask.index))
            .map(|channel| {
                let consumer = plan.edges[channel.edge.0 as usize].to;
                deployment.endpoint(channel, SubtaskId::new(consumer, channel.to), slot)
            });
        let restore = self.claim.as_ref().and_then(|claim| {
            let plan = &claim.restore_plan;
            plan.get(&subtask).cloned()
        });
        let vertex = plan.vertex(subtask.vertex);
        DeploySubtask {
            job: self.id,
            epoch: deployment.epoch,
            subtask,
            attempt,
            vertex_name: vertex.map(|vertex| vertex.name.clone()).unwrap_or_default(),
            slot: slot.index,
            inputs: inputs.flatten().collect(),
            outputs: outputs.flatten().collect(),
            restore,
        }
    }

    /// A task that was never sent is stopped by not sending it. Whether that was so.
    pub(super) fn withdraw(&mut self, epoch: Epoch, subtask: SubtaskId, attempt: Attempt) -> bool {
        let is_unsent = self.deployment.as_ref().is_some_and(|deployment| {
            deployment.epoch == epoch
                && deployment.stage != Stage::Sent
                && deployment
                    .tasks
                    .get(&subtask)
                    .is_some_and(|(unsent, _)| *unsent == attempt)
        });
        if is_unsent {
            self.work.push_back(Work::Job(job::Event::TaskState {
                epoch,
                subtask,
                attempt,
                state: ExecutionState::Canceled,
                failure: None,
            }));
        }
        is_unsent
    }

    /// Some tasks have not said anything yet.
    pub(super) fn on_deployment_overdue(&mut self) {
        let Some(deployment) = &mut self.deployment else {
            return;
        };
        deployment.deadline = MonoTime::NEVER;
        let is_silent = |subtask: &SubtaskId, attempt: Attempt| {
            let execution = self.job.executions().get(subtask);
            execution.is_some_and(|execution| {
                execution.attempt == attempt && execution.state == ExecutionState::Deploying
            })
        };
        let silent: Vec<_> = deployment
            .tasks
            .iter()
            .filter(|(subtask, (attempt, _))| is_silent(subtask, *attempt))
            .collect();
        let is_current = self.job.epoch() == Some(deployment.epoch);
        let Some((subtask, (attempt, slot))) = silent.first().filter(|_| is_current) else {
            return;
        };
        let mut failure = FailureInfo::new(
            FailureKind::Deployment,
            format!(
                "{} tasks were not started within {}, among them {} on taskmanager {}",
                silent.len(),
                rounded(DEPLOYMENT_TIMEOUT),
                self.plan.topology.name_of(**subtask),
                slot.taskmanager
            ),
        );
        failure.remedy = Some(format!(
            "look at the log of taskmanager {}",
            slot.taskmanager
        ));
        self.work.push_back(Work::Job(job::Event::Failed {
            failure,
            attributed_to: Some((**subtask, *attempt)),
        }));
    }
}

impl Deployment {
    fn taskmanagers(&self) -> BTreeSet<TaskmanagerId> {
        let slots = self.tasks.values();
        slots.map(|(_, slot)| slot.taskmanager.clone()).collect()
    }

    fn endpoint(
        &self,
        channel: ChannelId,
        peer: SubtaskId,
        here: &SlotRef,
    ) -> Option<ChannelEndpoint> {
        let (attempt, slot) = self.tasks.get(&peer)?;
        let is_same_process = slot.taskmanager == here.taskmanager;
        let address = self.addresses.get(&slot.taskmanager);
        Some(ChannelEndpoint {
            channel,
            peer: ChannelPeer {
                task: TaskAddress {
                    subtask: peer,
                    attempt: *attempt,
                },
                taskmanager: slot.taskmanager.clone(),
                incarnation: slot.incarnation,
                address: address.filter(|_| !is_same_process).cloned(),
            },
            token: self.token,
        })
    }
}
