//! Starting a task: its channels joined to those of its neighbours, its thread begun.

use std::sync::Arc;

use millstream_coordination::failure::{FailureInfo, FailureKind};
use millstream_coordination::job::ExecutionState;
use millstream_coordination::protocol::{ChannelEndpoint, DeploySubtask, TaskAddress};
use millstream_env::StopSignal;
use millstream_exchange::coalesce::CoalesceLimits;
use millstream_graph::{OperatorKind, Vertex, VertexEdge};
use millstream_snapshot::upload::SnapshotUploader;
use millstream_types::{KeyGroupRange, SlotIndex, SubtaskId};
use parking_lot::Mutex;

use super::backend::Backends;
use super::rows::UplinkRows;
use super::supervise::{Supervised, supervise};
use super::{Hosted, JobProcess, Parked, TASKS_MAX};
use crate::activity::Activity;
use crate::channel::{ReceiverEnd, SenderEnd, channel};
use crate::counters::TaskCounters;
use crate::signal::Signal;
use crate::snapshot::SnapshotTarget;
use crate::task::{Mailbox, TaskSetup};

/// Rows of a coalesced batch.
const BATCH_ROWS: usize = 8_192;
/// Encoded bytes of a coalesced batch: a part of a channel's window.
const BATCH_BYTES: usize = 64 * 1024;

impl JobProcess {
    pub(super) fn deploy(&mut self, deploy: DeploySubtask) -> Result<(), FailureInfo> {
        let subtask = deploy.subtask;
        let unknown = || {
            let text = format!("the job's plan has no subtask {subtask:?}");
            FailureInfo::new(FailureKind::Deployment, text)
        };
        let vertex = self
            .plan
            .vertex(subtask.vertex)
            .ok_or_else(unknown)?
            .clone();
        if subtask.index >= vertex.parallelism {
            return Err(unknown());
        }
        if self
            .tasks
            .get(&subtask)
            .is_some_and(|hosted| !hosted.state.lock().is_terminal())
        {
            let text = format!("{} runs already", vertex.name);
            return Err(FailureInfo::new(FailureKind::Deployment, text));
        }
        self.has_room()?;
        let signal = self.signal(subtask);
        let inputs = self.inputs(&deploy)?;
        let outputs = self.outputs(&deploy)?;
        let backends = self.backends(deploy.slot)?;
        let setup = self.setup(&deploy, &vertex, signal, inputs, outputs, backends);
        let state = Arc::new(Mutex::new(ExecutionState::Initializing));
        self.tasks.insert(
            subtask,
            Hosted {
                address: TaskAddress::from((subtask, deploy.attempt)),
                slot: deploy.slot,
                state: Arc::clone(&state),
                mailbox: setup.mailbox.clone(),
                stop: setup.stop.clone(),
                counters: Arc::clone(&setup.counters),
                activity: setup.activity.clone(),
            },
        );
        let supervised = Supervised {
            vertex_name: vertex.name.clone(),
            parallelism: vertex.parallelism,
            state,
            cancellation_interval: self.config.cancellation_interval,
            remote: self.remote.clone(),
        };
        supervise(supervised, setup);
        Ok(())
    }

    fn has_room(&self) -> Result<(), FailureInfo> {
        if self.tasks.len() < TASKS_MAX {
            return Ok(());
        }
        let is_live = |hosted: &&Hosted| !hosted.state.lock().is_terminal();
        room_for_one(self.tasks.values().filter(is_live).count())
    }

    fn setup(
        &self,
        deploy: &DeploySubtask,
        vertex: &Vertex,
        signal: Signal,
        inputs: Vec<(ReceiverEnd, u32)>,
        outputs: Vec<(VertexEdge, Vec<SenderEnd>)>,
        backends: Backends,
    ) -> TaskSetup {
        let subtask = deploy.subtask;
        let name = format!(
            "{} ({}/{})#{}",
            vertex.name,
            subtask.index + 1,
            vertex.parallelism,
            deploy.attempt
        );
        let policy = &self.config.checkpoints;
        let inline_bytes = usize::try_from(policy.inline_threshold_bytes).unwrap_or(usize::MAX);
        let store = self.store.clone();
        let activity = Activity::new(self.env.clock().clone());
        let target = SnapshotTarget {
            env: self.env.component(&name),
            job: self.job,
            epoch: self.epoch,
            task: TaskAddress::from((subtask, deploy.attempt)),
            range: KeyGroupRange::of_subtask(
                subtask.index,
                vertex.parallelism,
                vertex.max_parallelism,
            ),
            uploader: store
                .clone()
                .map(|store| SnapshotUploader::new(store, inline_bytes)),
            activity: activity.clone(),
            uplink: Arc::clone(&self.uplink),
        };
        let (job, epoch, uplink) = (self.job, self.epoch, Arc::clone(&self.uplink));
        TaskSetup {
            activity,
            counters: Arc::new(TaskCounters::new()),
            mailbox: Mailbox::new(signal.clone()),
            stop: StopSignal::new(),
            name,
            target,
            graph: Arc::clone(&self.graph),
            plan: Arc::clone(&self.plan),
            vertex: vertex.clone(),
            mode: policy.mode,
            is_checkpointing: policy.interval.is_some(),
            limits: CoalesceLimits {
                rows: BATCH_ROWS,
                bytes: BATCH_BYTES,
                linger: self.config.linger,
            },
            inputs,
            outputs,
            restore: deploy.restore.clone(),
            store,
            backends,
            state_dir: self.settings.state_dir.clone(),
            row_output: Arc::new(UplinkRows {
                uplink,
                job,
                epoch,
                subtask,
            }),
            signal,
        }
    }

    fn backends(&mut self, slot: SlotIndex) -> Result<Backends, FailureInfo> {
        if let Some(backends) = self.backends.get(&slot) {
            return Ok(backends.clone());
        }
        let is_keyed = |kind: &OperatorKind| matches!(kind, OperatorKind::Aggregate { .. });
        let n_keyed = self
            .graph
            .operators
            .iter()
            .filter(|node| is_keyed(&node.kind))
            .count();
        let (root, bytes) = (
            self.settings.state_dir.clone(),
            self.settings.managed_bytes_per_slot,
        );
        let incremental = self.config.checkpoints.incremental;
        let backends = Backends::new(self.config.state_backend, incremental, root, bytes, n_keyed)?;
        self.backends.insert(slot, backends.clone());
        Ok(backends)
    }

    /// What wakes this task; the same before and after it is deployed.
    fn signal(&mut self, subtask: SubtaskId) -> Signal {
        self.signals.entry(subtask).or_default().clone()
    }

    fn edge(&self, endpoint: &ChannelEndpoint) -> Result<VertexEdge, FailureInfo> {
        let edge = self
            .plan
            .edges
            .get(endpoint.channel.edge.0 as usize)
            .cloned();
        edge.ok_or_else(|| {
            let text = format!("the job's plan has no channel {:?}", endpoint.channel);
            FailureInfo::new(FailureKind::Deployment, text)
        })
    }

    fn inputs(&mut self, deploy: &DeploySubtask) -> Result<Vec<(ReceiverEnd, u32)>, FailureInfo> {
        let mut inputs = Vec::new();
        for endpoint in &deploy.inputs {
            let edge = self.edge(endpoint)?;
            let receiver = if endpoint.peer.address.is_none() {
                let producer = SubtaskId::new(edge.from, endpoint.channel.from);
                self.local(endpoint, producer, deploy.subtask)
                    .receiver
                    .take()
                    .ok_or_else(|| taken(endpoint))?
            } else {
                let remote = self.remote(endpoint)?;
                let (sender, receiver) = channel(
                    self.settings.channel_window_bytes,
                    remote.signal(endpoint),
                    self.signal(deploy.subtask),
                );
                let schema = Arc::clone(&edge.schema);
                let credit = remote.open_input(deploy.subtask, endpoint, schema, sender);
                receiver.with_credit(credit)
            };
            inputs.push((receiver, edge.input));
        }
        Ok(inputs)
    }

    /// Senders grouped by edge, in the order of the deployment.
    fn outputs(
        &mut self,
        deploy: &DeploySubtask,
    ) -> Result<Vec<(VertexEdge, Vec<SenderEnd>)>, FailureInfo> {
        let mut outputs: Vec<(VertexEdge, Vec<SenderEnd>)> = Vec::new();
        for endpoint in &deploy.outputs {
            let edge = self.edge(endpoint)?;
            let sender = if endpoint.peer.address.is_none() {
                let consumer = SubtaskId::new(edge.to, endpoint.channel.to);
                self.local(endpoint, deploy.subtask, consumer)
                    .sender
                    .take()
                    .ok_or_else(|| taken(endpoint))?
            } else {
                let remote = self.remote(endpoint)?;
                let (sender, receiver) = channel(
                    self.settings.channel_window_bytes,
                    self.signal(deploy.subtask),
                    remote.signal(endpoint),
                );
                let schema = Arc::clone(&edge.schema);
                remote.open_output(deploy.subtask, endpoint, schema, receiver);
                sender
            };
            match outputs.last_mut() {
                Some((last, senders)) if last.id == edge.id => senders.push(sender),
                _ => outputs.push((edge, vec![sender])),
            }
        }
        Ok(outputs)
    }

    fn remote(
        &self,
        endpoint: &ChannelEndpoint,
    ) -> Result<Arc<dyn super::RemoteChannels>, FailureInfo> {
        self.remote.clone().ok_or_else(|| {
            let text = format!(
                "channel {:?} leads to another process, but this one has no data plane",
                endpoint.channel
            );
            FailureInfo::new(FailureKind::Deployment, text)
        })
    }

    /// The ends of a channel within this process that nobody took yet.
    fn local(
        &mut self,
        endpoint: &ChannelEndpoint,
        producer: SubtaskId,
        consumer: SubtaskId,
    ) -> &mut Parked {
        let (producer, consumer) = (self.signal(producer), self.signal(consumer));
        let window = self.settings.channel_window_bytes;
        let parked = self.parked.entry(endpoint.channel).or_default();
        if parked.sender.is_none() && parked.receiver.is_none() {
            let (sender, receiver) = channel(window, producer, consumer);
            *parked = Parked {
                sender: Some(sender),
                receiver: Some(receiver),
            };
        }
        parked
    }
}

fn taken(endpoint: &ChannelEndpoint) -> FailureInfo {
    let text = format!(
        "channel {:?} is in use by another attempt",
        endpoint.channel
    );
    FailureInfo::new(FailureKind::Deployment, text)
}

fn room_for_one(n_live: usize) -> Result<(), FailureInfo> {
    if n_live < TASKS_MAX {
        return Ok(());
    }
    let text = format!("this process has {n_live} tasks of the job, and {TASKS_MAX} are the most");
    let mut failure = FailureInfo::new(FailureKind::Deployment, text);
    failure.remedy = Some(
        "lower the parallelism, or spread the job over more taskmanagers with fewer \
         taskmanager.numberOfTaskSlots each"
            .to_owned(),
    );
    Err(failure)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_task_beyond_what_a_process_runs_is_refused_with_the_limit() {
        assert_eq!(room_for_one(TASKS_MAX - 1), Ok(()));
        let failure = room_for_one(TASKS_MAX).unwrap_err();
        assert!(failure.message.contains("1000 are the most"), "{failure:?}");
        assert!(failure.remedy.unwrap().contains("numberOfTaskSlots"));
    }
}
