//! The asynchronous part of a snapshot: state frozen by a task is streamed to storage beside
//! further processing, and acknowledged when all of it is durable.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use millstream_coordination::checkpoint::DeclineReason;
use millstream_coordination::protocol::{
    DeclineMessage, FromTaskmanager, SnapshotMessage, TaskAddress,
};
use millstream_coordination::snapshot_types::{
    CheckpointMetrics, KeyedHandle, OperatorSubtaskState, TaskSnapshot,
};
use millstream_env::{Env, StopSignal, fail_points};
use millstream_snapshot::files::SnapshotUploads;
use millstream_snapshot::names::{CheckpointDir, Nonce};
use millstream_snapshot::upload::{Pace, Placement, SnapshotUploader};
use millstream_state::SnapshotWork;
use millstream_telemetry::catalog;
use millstream_types::sabotage::Rule;
use millstream_types::{
    CheckpointId, Epoch, JobId, KeyGroupRange, MonoTime, ObjectName, OperatorUid, StateHandle,
};

use crate::activity::Activity;
use crate::failure;
use crate::job_process::Uplink;
use crate::log;

/// What the synchronous part took of one operator.
pub(crate) struct OperatorWork {
    pub(crate) uid: OperatorUid,
    /// The operator's name, for log lines.
    pub(crate) name: Arc<str>,
    /// How long its synchronous part took.
    pub(crate) synchronous: Duration,
    /// Frozen keyed state.
    pub(crate) keyed: Option<Box<dyn SnapshotWork>>,
    /// Operator state.
    pub(crate) elements: Vec<Bytes>,
}

impl OperatorWork {
    pub(crate) fn new(uid: &OperatorUid, name: &Arc<str>) -> Self {
        Self {
            uid: uid.clone(),
            name: Arc::clone(name),
            synchronous: Duration::ZERO,
            keyed: None,
            elements: Vec::new(),
        }
    }
}

/// Whose snapshots these are, and where they go.
#[derive(Clone)]
pub(crate) struct SnapshotTarget {
    pub(crate) env: Env,
    pub(crate) job: JobId,
    pub(crate) epoch: Epoch,
    pub(crate) task: TaskAddress,
    pub(crate) range: KeyGroupRange,
    /// None where the job has no checkpoint directory.
    pub(crate) uploader: Option<SnapshotUploader>,
    /// Where uploads that take long are seen.
    pub(crate) activity: Activity,
    pub(crate) uplink: Arc<dyn Uplink>,
}

impl SnapshotTarget {
    /// Where snapshots go, for log lines.
    pub(crate) fn location(&self) -> String {
        let uploader = self.uploader.as_ref();
        uploader.map_or_else(|| "no directory".to_owned(), SnapshotUploader::address)
    }
}

/// A snapshot whose synchronous part is done.
pub(crate) struct TakenSnapshot {
    pub(crate) checkpoint: CheckpointId,
    pub(crate) parts: Vec<OperatorWork>,
    pub(crate) metrics: CheckpointMetrics,
    pub(crate) frozen_at: MonoTime,
}

/// Uploads that are under way, by checkpoint.
#[derive(Default)]
pub(crate) struct Uploads {
    running: BTreeMap<CheckpointId, StopSignal>,
}

impl Uploads {
    /// Begins the asynchronous part.
    pub(crate) fn begin(&mut self, target: &SnapshotTarget, taken: TakenSnapshot) {
        self.running.retain(|_, stop| !stop.is_cancelled());
        let stop = StopSignal::new();
        self.running.insert(taken.checkpoint, stop.clone());
        while self.running.len() > 64 {
            self.running.pop_first();
        }
        let target = target.clone();
        let env = target.env.clone();
        env.spawner().supervise("snapshot", async move {
            finish(target, taken, stop).await;
        });
    }

    /// Gives up the upload for a checkpoint that will not be.
    pub(crate) fn abort(&mut self, checkpoint: CheckpointId) {
        if let Some(stop) = self.running.remove(&checkpoint) {
            stop.cancel();
        }
    }

    /// Gives up all uploads.
    pub(crate) fn abort_all(&mut self) {
        for stop in std::mem::take(&mut self.running).into_values() {
            stop.cancel();
        }
    }
}

async fn finish(target: SnapshotTarget, taken: TakenSnapshot, stop: StopSignal) {
    let checkpoint = taken.checkpoint;
    let (job, epoch, task) = (target.job, target.epoch, target.task);
    let (mut metrics, frozen_at) = (taken.metrics, taken.frozen_at);
    let mut stored = Vec::new();
    let uploaded = upload(&target, taken.parts, checkpoint, &stop, &mut stored).await;
    let was_stopped = stop.is_cancelled();
    let message = match uploaded {
        Ok(snapshot) => {
            stored.clear();
            metrics.asynchronous = target.env.clock().monotonic().saturating_since(frozen_at);
            FromTaskmanager::Acknowledge(Box::new(SnapshotMessage {
                job,
                epoch,
                task,
                checkpoint,
                snapshot,
                metrics,
            }))
        }
        Err(message) if !was_stopped => FromTaskmanager::Decline(Box::new(DeclineMessage {
            job,
            epoch,
            task,
            checkpoint,
            reason: DeclineReason::AsyncException,
            message: failure::clipped(&message),
        })),
        Err(_) => stopped(&target, checkpoint, std::mem::take(&mut stored)),
    };
    target.uplink.send(message);
    if !stored.is_empty() {
        // Of what was declined: nobody else knows their names.
        target.uplink.send(stopped(&target, checkpoint, stored));
    }
}

/// Nothing more is uploaded. What is private to the checkpoint is found by its directory.
fn stopped(
    target: &SnapshotTarget,
    checkpoint: CheckpointId,
    stored: Vec<ObjectName>,
) -> FromTaskmanager {
    FromTaskmanager::UploadStopped {
        job: target.job,
        epoch: target.epoch,
        subtask: target.task.subtask,
        checkpoint,
        objects: stored.into_iter().filter(ObjectName::is_shared).collect(),
    }
}

async fn upload(
    target: &SnapshotTarget,
    parts: Vec<OperatorWork>,
    checkpoint: CheckpointId,
    stop: &StopSignal,
    stored: &mut Vec<ObjectName>,
) -> Result<TaskSnapshot, String> {
    let nonce = match target.env.sabotage().removed(Rule::NameWithoutNonce) {
        true => Nonce(0),
        false => Nonce(target.env.rng().nonce()),
    };
    let dir = CheckpointDir {
        checkpoint,
        epoch: target.epoch,
        nonce,
    };
    let placement = Placement::Private(dir, target.task.subtask);
    let uploader = target
        .uploader
        .as_ref()
        .ok_or("the job has no checkpoint directory")?;
    let _uploading = target.activity.upload(checkpoint, uploader.address());
    let mut snapshot = TaskSnapshot::default();
    for work in parts {
        let begun_at = target.env.clock().monotonic();
        let mut state = OperatorSubtaskState::default();
        if let Some(keyed) = work.keyed {
            let receipt = keyed.receipt();
            let handles = upload_keyed(target, uploader, dir, keyed, stop, stored).await?;
            if let Some(receipt) = receipt {
                receipt(&handles);
            }
            let range = target.range;
            let keyed = handles.into_iter();
            state
                .keyed
                .extend(keyed.map(|handle| KeyedHandle { range, handle }));
        }
        if !work.elements.is_empty() {
            let bytes = encode_elements(&work.elements);
            let upload = uploader.upload(placement, bytes, stop.clone()).await;
            state
                .operator
                .push(upload.map_err(|error| millstream_telemetry::chain(&error))?);
        }
        target.env.fail_points().hit(fail_points::UPLOAD);
        let took = target.env.clock().monotonic().saturating_since(begun_at);
        log::detail(checkpoint, || {
            catalog::snapshot_asynchronous_part(
                &work.name,
                uploader.address(),
                log::thread(),
                took.as_millis(),
            )
        });
        snapshot.operators.insert(work.uid, state);
    }
    Ok(snapshot)
}

async fn upload_keyed(
    target: &SnapshotTarget,
    uploader: &SnapshotUploader,
    dir: CheckpointDir,
    work: Box<dyn SnapshotWork>,
    stop: &StopSignal,
    stored: &mut Vec<ObjectName>,
) -> Result<Vec<StateHandle>, String> {
    let spawner = target.env.spawner();
    let pace = match spawner.is_inline() {
        true => Pace::Inline,
        false => Pace::Thread,
    };
    let subtask = target.task.subtask;
    let (mut files, coming) = SnapshotUploads::begin(uploader, dir, subtask, pace, stop.clone());
    let write = move || {
        let written = work.run(&mut files);
        written.map_err(|error| millstream_telemetry::chain(&error))
    };
    let writing = match pace {
        Pace::Inline => spawner.blocking("snapshot-writer", write),
        Pace::Thread => spawner.thread("snapshot-writer", write),
    };
    let handles = coming.run(stored).await;
    let handles = handles.map_err(|error| millstream_telemetry::chain(&error));
    // The writer's own error says more than that its upload was dropped.
    match writing.await {
        Ok(Ok(_)) => handles,
        Ok(Err(error)) => Err(error),
        Err(error) => Err(millstream_telemetry::chain(&error)),
    }
}

/// Format version of operator state.
const VERSION: u8 = 1;

/// version | number of elements (u32 LE) | each: length (u32 LE), bytes
pub(crate) fn encode_elements(elements: &[Bytes]) -> Bytes {
    let length: usize = elements.iter().map(|element| element.len() + 4).sum();
    let mut bytes = Vec::with_capacity(length + 5);
    bytes.push(VERSION);
    bytes.extend_from_slice(&(elements.len() as u32).to_le_bytes());
    for element in elements {
        bytes.extend_from_slice(&(element.len() as u32).to_le_bytes());
        bytes.extend_from_slice(element);
    }
    bytes.into()
}

/// The elements; `None` if these bytes are no operator state of this version.
pub(crate) fn decode_elements(bytes: &Bytes) -> Option<Vec<Bytes>> {
    let mut at = 1;
    let number = |at: &mut usize| {
        let bytes = bytes.get(*at..)?.first_chunk::<4>()?;
        *at += 4;
        Some(u32::from_le_bytes(*bytes) as usize)
    };
    if *bytes.first()? != VERSION {
        return None;
    }
    let count = number(&mut at)?;
    let mut elements = Vec::new();
    for _ in 0..count {
        let length = number(&mut at)?;
        let end = at.checked_add(length).filter(|end| *end <= bytes.len())?;
        elements.push(bytes.slice(at..end));
        at = end;
    }
    (at == bytes.len()).then_some(elements)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn operator_state_comes_back_element_by_element() {
        for elements in [
            vec![],
            vec![Bytes::new()],
            vec![Bytes::from("a"), Bytes::from("bc")],
        ] {
            let encoded = encode_elements(&elements);
            assert_eq!(decode_elements(&encoded), Some(elements));
        }
    }

    #[test]
    fn anything_cut_or_lengthened_is_refused() {
        let encoded = encode_elements(&[Bytes::from("abc"), Bytes::from("d")]);
        for length in 0..encoded.len() {
            assert_eq!(decode_elements(&encoded.slice(..length)), None, "{length}");
        }
        let mut longer = encoded.to_vec();
        longer.push(0);
        assert_eq!(decode_elements(&longer.into()), None);
        let lie = [
            &[VERSION][..],
            &u32::MAX.to_le_bytes(),
            &u32::MAX.to_le_bytes(),
        ]
        .concat();
        assert_eq!(decode_elements(&lie.into()), None);
    }
}
