use std::collections::BTreeMap;
use std::time::Duration;

use millstream_types::{
    Attempt, CheckpointId, Checksum, Epoch, JobId, MonoTime, ObjectName, OperatorUid, StateHandle,
    SubtaskId, TaskmanagerId, VertexId, WriteOutcome,
};

use super::*;
use crate::chain::CheckpointIds;
use crate::failure::FailureKind;
use crate::job::ExecutionState;
use crate::moment::Moment;
use crate::snapshot_types::{
    CheckpointMetrics, OperatorSubtaskState, StoredMetadata, TaskSnapshot,
};
use crate::topology::testing::source_and_sink;

mod completion;
mod failure;
mod finishing;
mod random;
mod restart;
#[cfg(feature = "sabotage")]
mod sabotage;
mod schedule;
mod sharing;

pub(super) const JOB: JobId = JobId::from_bytes([7; 16]);

/// A coordinator of `source` -> `sink` with a shell that answers storage at once, unless told
/// otherwise, and ticks when asked to.
pub(super) struct Script {
    pub(super) coordinator: Coordinator,
    pub(super) epoch: u64,
    pub(super) stores_metadata: bool,
    pub(super) appends: bool,
    pub(super) deletes: bool,
    /// Everything, with the millisecond.
    pub(super) log: Vec<(u64, Action)>,
    now: u64,
    parallelism: u32,
}

pub(super) fn policy(interval_s: u64) -> CheckpointPolicy {
    CheckpointPolicy {
        interval: Some(Duration::from_secs(interval_s)),
        timeout: Duration::from_secs(60),
        tolerable_failed: 100,
        ..CheckpointPolicy::default()
    }
}

pub(super) fn subtask(vertex: u32, index: u32) -> SubtaskId {
    SubtaskId::new(VertexId(vertex), index)
}

pub(super) const SOURCE: SubtaskId = SubtaskId::new(VertexId(0), 0);
pub(super) const SINK: SubtaskId = SubtaskId::new(VertexId(1), 0);

pub(super) fn object(name: &str) -> ObjectName {
    ObjectName::new(name).unwrap()
}

/// The private object of this subtask in that checkpoint.
pub(super) fn private(checkpoint: u64, epoch: u64, subtask: SubtaskId) -> ObjectName {
    let (vertex, index) = (subtask.vertex, subtask.index);
    object(&format!("chk-{checkpoint}/{epoch}-n/{vertex}-{index}"))
}

pub(super) fn metadata_name(checkpoint: u64) -> ObjectName {
    object(&format!("chk-{checkpoint}/m/_metadata"))
}

impl Script {
    /// Not started.
    pub(super) fn new(policy: CheckpointPolicy, parallelism: u32) -> Self {
        Self {
            coordinator: Coordinator::new(JOB, policy, source_and_sink(parallelism), 50),
            epoch: 0,
            stores_metadata: true,
            appends: true,
            deletes: true,
            log: Vec::new(),
            now: 0,
            parallelism,
        }
    }

    /// Started and running from second 0; `random` places the first trigger.
    pub(super) fn running(policy: CheckpointPolicy, random: u64) -> Self {
        let mut script = Self::new(policy, 1);
        script.start(0, random, None);
        script.all(0, ExecutionState::Running);
        script
    }

    pub(super) fn start(&mut self, millis: u64, random: u64, restored: Option<u64>) {
        self.epoch += 1;
        let attempt = Attempt(self.epoch as u32 - 1);
        let subtasks = self.subtasks();
        let started = Event::Started {
            epoch: Epoch(self.epoch),
            attempts: subtasks.into_iter().map(|s| (s, attempt)).collect(),
            ids: CheckpointIds::block(CheckpointId((self.epoch - 1) * 1000 + 1), 1000),
            restored: restored.map(CheckpointId),
            retained: Vec::new(),
        };
        self.step(millis, random, started);
    }

    fn subtasks(&self) -> Vec<SubtaskId> {
        source_and_sink(self.parallelism).subtasks().collect()
    }

    pub(super) fn all(&mut self, millis: u64, state: ExecutionState) {
        for subtask in self.subtasks() {
            self.state(millis, subtask, state);
        }
    }

    pub(super) fn state(&mut self, millis: u64, subtask: SubtaskId, state: ExecutionState) {
        let (epoch, attempt) = self.current();
        let event = Event::TaskState {
            epoch,
            subtask,
            attempt,
            state,
        };
        self.at(millis, event);
    }

    pub(super) fn current(&self) -> (Epoch, Attempt) {
        (Epoch(self.epoch), Attempt(self.epoch as u32 - 1))
    }

    /// Takes an event at this millisecond, after all that is due before.
    pub(super) fn at(&mut self, millis: u64, event: Event) -> Vec<Action> {
        self.run_until(millis);
        self.step(millis, 0, event)
    }

    pub(super) fn run_until(&mut self, millis: u64) {
        while self.coordinator.deadline() <= MonoTime::from_millis(millis) {
            let due = self.coordinator.deadline().as_nanos().div_ceil(1_000_000);
            self.step(due.max(self.now), 0, Event::Tick);
        }
    }

    fn step(&mut self, millis: u64, random: u64, event: Event) -> Vec<Action> {
        self.now = millis;
        let mut all = Vec::new();
        let mut events = vec![event];
        while !events.is_empty() {
            let mut actions = Vec::new();
            let mut at = Moment::test(millis);
            at.random = random;
            self.coordinator.step(at, events.remove(0), &mut actions);
            for action in &actions {
                events.extend(self.answer(action));
            }
            all.extend(actions);
        }
        let deadline = self.coordinator.deadline();
        assert!(
            deadline > MonoTime::from_millis(millis),
            "due at {deadline:?}"
        );
        self.log
            .extend(all.iter().cloned().map(|action| (millis, action)));
        all
    }

    fn answer(&self, action: &Action) -> Option<Event> {
        match action {
            Action::StoreMetadata(checkpoint) if self.stores_metadata => {
                Some(metadata_stored(checkpoint.id.0))
            }
            Action::AppendCompleted { checkpoint, .. } if self.appends => Some(Event::Appended {
                checkpoint: *checkpoint,
            }),
            Action::Delete(deletion) if self.deletes => Some(Event::Deleted {
                ticket: deletion.ticket,
            }),
            _ => None,
        }
    }

    pub(super) fn ack_of(&self, subtask: SubtaskId, checkpoint: u64) -> Acknowledgement {
        self.ack_of_epoch(self.epoch, subtask, checkpoint)
    }

    /// Of a task of that epoch; its objects carry the epoch in their names (fence F9).
    pub(super) fn ack_of_epoch(
        &self,
        epoch: u64,
        subtask: SubtaskId,
        checkpoint: u64,
    ) -> Acknowledgement {
        let (epoch, attempt) = (Epoch(epoch), Attempt(self.epoch as u32 - 1));
        let state = OperatorSubtaskState {
            operator: vec![StateHandle::Object {
                name: private(checkpoint, epoch.0, subtask),
                size: 10,
                checksum: Checksum::of(b""),
            }],
            ..OperatorSubtaskState::default()
        };
        let uid = ["source", "sink"][subtask.vertex.0 as usize];
        Acknowledgement {
            job: JOB,
            epoch,
            subtask,
            attempt,
            checkpoint: CheckpointId(checkpoint),
            snapshot: TaskSnapshot {
                operators: BTreeMap::from([(OperatorUid::new(uid).unwrap(), state)]),
            },
            metrics: CheckpointMetrics::default(),
            from: origin(),
        }
    }

    pub(super) fn ack(&mut self, millis: u64, subtask: SubtaskId, checkpoint: u64) -> Vec<Action> {
        let ack = self.ack_of(subtask, checkpoint);
        self.at(millis, Event::Acknowledge(Box::new(ack)))
    }

    pub(super) fn ack_all(&mut self, millis: u64, checkpoint: u64) -> Vec<Action> {
        self.ack(millis, SOURCE, checkpoint);
        self.ack(millis, SINK, checkpoint)
    }

    pub(super) fn decline(
        &mut self,
        millis: u64,
        subtask: SubtaskId,
        checkpoint: u64,
        reason: DeclineReason,
    ) -> Vec<Action> {
        let (epoch, attempt) = self.current();
        let decline = Decline {
            job: JOB,
            epoch,
            subtask,
            attempt,
            checkpoint: CheckpointId(checkpoint),
            reason,
            message: String::new(),
            from: origin(),
        };
        self.at(millis, Event::Decline(Box::new(decline)))
    }

    /// (second, id) of every trigger so far.
    pub(super) fn triggers(&self) -> Vec<(f64, u64)> {
        let of = |(millis, action): &(u64, Action)| match action {
            Action::Trigger { checkpoint, .. } => Some((*millis as f64 / 1000.0, checkpoint.0)),
            _ => None,
        };
        self.log.iter().filter_map(of).collect()
    }

    /// Completes every checkpoint this long after its trigger, until that second.
    pub(super) fn completing_after(&mut self, seconds: u64, until: u64) {
        loop {
            let pending = self.coordinator.pending().next();
            match pending {
                Some(id) => {
                    let begun = self.triggers().iter().find(|(_, t)| *t == id.0).unwrap().0;
                    let done = (begun * 1000.0) as u64 + seconds * 1000;
                    if done > until * 1000 {
                        return self.run_until(until * 1000);
                    }
                    self.ack_all(done, id.0);
                }
                None => {
                    let due = self.coordinator.deadline();
                    if due > MonoTime::from_millis(until * 1000) {
                        return;
                    }
                    self.run_until(due.as_nanos().div_ceil(1_000_000));
                }
            }
        }
    }

    pub(super) fn record(&self, id: u64) -> &CheckpointRecord {
        self.coordinator.history().record(CheckpointId(id)).unwrap()
    }

    pub(super) fn reason(&self, id: u64) -> FailureReason {
        self.record(id).failure.as_ref().unwrap().reason
    }

    pub(super) fn lines(&self) -> Vec<String> {
        let of = |(_, action): &(u64, Action)| match action {
            Action::Log(notice) => Some(notice.to_string()),
            _ => None,
        };
        self.log.iter().filter_map(of).collect()
    }

    pub(super) fn deleted(&self) -> Vec<ObjectName> {
        let of = |(_, action): &(u64, Action)| match action {
            Action::Delete(deletion) => Some(deletion.objects.clone()),
            _ => None,
        };
        self.log.iter().filter_map(of).flatten().collect()
    }

    /// (second, failure) of every time the job was failed.
    pub(super) fn job_failures(&self) -> Vec<(u64, crate::failure::FailureInfo)> {
        let of = |(millis, action): &(u64, Action)| match action {
            Action::FailJob { failure, .. } => Some((millis / 1000, (**failure).clone())),
            _ => None,
        };
        self.log.iter().filter_map(of).collect()
    }
}

pub(super) fn origin() -> Origin {
    Origin {
        taskmanager: TaskmanagerId::new("tm-1").unwrap(),
        host: "host-1".to_owned(),
    }
}

pub(super) fn metadata_stored(checkpoint: u64) -> Event {
    Event::MetadataStored {
        checkpoint: CheckpointId(checkpoint),
        metadata: StoredMetadata {
            name: metadata_name(checkpoint),
            size: 1,
            checksum: Checksum::of(b"m"),
        },
    }
}

/// What an action is, in a word; log lines are left out.
pub(super) fn kinds(actions: &[Action]) -> Vec<&'static str> {
    let of = |action: &Action| match action {
        Action::ReserveIds => Some("reserve"),
        Action::Trigger { .. } => Some("trigger"),
        Action::StoreMetadata(_) => Some("store"),
        Action::AppendCompleted { .. } => Some("append"),
        Action::NotifyCompleted { .. } => Some("completed"),
        Action::NotifyAborted { .. } => Some("aborted"),
        Action::Delete(_) => Some("delete"),
        Action::Answer { result: Ok(_), .. } => Some("answer"),
        Action::Answer { result: Err(_), .. } => Some("refuse"),
        Action::FailJob { .. } => Some("fail job"),
        Action::Log(_) => None,
    };
    actions.iter().filter_map(of).collect()
}
