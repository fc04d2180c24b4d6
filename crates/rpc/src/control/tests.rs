use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use millstream_coordination::checkpoint::{CheckpointKind, DeclineReason};
use millstream_coordination::failure::{FailureInfo, FailureKind};
use millstream_coordination::job::{ExecutionState, ReportedTask};
use millstream_coordination::protocol::{
    ChannelEndpoint, ChannelPeer, ChannelToken, DataAddress, DeclineMessage, DeploySubtask,
    FromTaskmanager, JobTasks, OutputLines, Registered, Registration, SlotReport, SnapshotMessage,
    StartJobProcess, SubtaskMetrics, TaskAddress, TaskReport, TaskmanagerHeartbeat, ToTaskmanager,
};
use millstream_coordination::restore::RestoreSubtask;
use millstream_coordination::slots::RegistrationRefusal;
use millstream_coordination::snapshot_types::{
    CheckpointMetrics, KeyedHandle, OperatorSubtaskState, TaskSnapshot,
};
use millstream_graph::{ChannelId, EdgeId, JobGraph};
use millstream_types::{
    Attempt, CheckpointId, Checksum, Disposition, Epoch, EventTime, Incarnation, JobId, KeyGroup,
    KeyGroupRange, ObjectName, OperatorUid, SlotIndex, StateHandle, SubtaskId, TaskmanagerId,
    VertexId, WallTime,
};
use parking_lot::Mutex;
use prost::Message as _;
use tokio::sync::mpsc;

use super::*;
use crate::error::{DecodeError, EncodeError};
use crate::pb;

const JOB: JobId = JobId::from_bytes([7; 16]);
const EPOCH: Epoch = Epoch(3);
const TASK: TaskAddress = TaskAddress {
    subtask: SubtaskId::new(VertexId(1), 2),
    attempt: Attempt(4),
};

fn taskmanager() -> TaskmanagerId {
    TaskmanagerId::new("tm-1").unwrap()
}

fn states() -> BTreeMap<OperatorUid, OperatorSubtaskState> {
    let object = StateHandle::Object {
        name: ObjectName::new("shared/3-1-ab.sst").unwrap(),
        size: u64::MAX,
        checksum: Checksum(u128::MAX - 5),
    };
    let keyed = KeyedHandle {
        range: KeyGroupRange::new(KeyGroup(5), KeyGroup(32_767)).unwrap(),
        handle: object.clone(),
    };
    let inline = StateHandle::Inline(Arc::from(&b"inline"[..]));
    let state = OperatorSubtaskState {
        keyed: vec![keyed],
        operator: vec![inline, object],
        finished: true,
    };
    let uid = |uid: &str| OperatorUid::new(uid).unwrap();
    BTreeMap::from([
        (uid("counts"), state),
        (uid("out"), OperatorSubtaskState::default()),
    ])
}

fn metrics() -> CheckpointMetrics {
    CheckpointMetrics {
        start_delay: Duration::from_nanos(1),
        alignment: Duration::from_millis(2),
        pre_barrier: Duration::ZERO,
        synchronous: Duration::from_micros(3),
        asynchronous: Duration::from_secs(4),
        processed_in_flight_bytes: 5,
        persisted_in_flight_bytes: 6,
        is_unaligned: true,
    }
}

fn failure(message: &str) -> FailureInfo {
    let mut failure =
        FailureInfo::new(FailureKind::Connector, message).with_disposition(Disposition::FailJob);
    failure.operator = Some("out".into());
    failure.causes = vec!["disk full".into(), "no space".into()];
    failure.remedy = Some("free some".into());
    failure
}

fn acknowledgement(inline: usize) -> FromTaskmanager {
    let mut operators = states();
    let large = StateHandle::Inline(vec![0; inline].into());
    operators.values_mut().next().unwrap().operator.push(large);
    FromTaskmanager::Acknowledge(Box::new(SnapshotMessage {
        job: JOB,
        epoch: EPOCH,
        task: TASK,
        checkpoint: CheckpointId(9),
        snapshot: TaskSnapshot { operators },
        metrics: metrics(),
    }))
}

fn decline(reason: DeclineReason) -> FromTaskmanager {
    FromTaskmanager::Decline(Box::new(DeclineMessage {
        job: JOB,
        epoch: EPOCH,
        task: TASK,
        checkpoint: CheckpointId(9),
        reason,
        message: "because".into(),
    }))
}

fn heartbeat() -> FromTaskmanager {
    let report = TaskReport {
        task: ReportedTask {
            epoch: EPOCH,
            subtask: TASK.subtask,
            attempt: TASK.attempt,
            state: ExecutionState::Running,
        },
        activity: Some("in one user call for 57 s".into()),
    };
    FromTaskmanager::Heartbeat(TaskmanagerHeartbeat {
        slots: vec![SlotReport {
            slot: SlotIndex(1),
            job: JOB,
            epoch: EPOCH,
        }],
        jobs: vec![JobTasks {
            job: JOB,
            tasks: vec![report],
        }],
    })
}

fn subtask_metrics() -> SubtaskMetrics {
    SubtaskMetrics {
        job: JOB,
        epoch: EPOCH,
        task: TASK,
        records_in: 1,
        records_out: 2,
        bytes_in: 3,
        bytes_out: 4,
        bad_records: 8,
        busy: Duration::from_secs(5),
        idle: Duration::from_secs(6),
        backpressured: Duration::from_secs(7),
        watermark: Some(EventTime::MIN),
    }
}

fn output(lines: Vec<String>) -> FromTaskmanager {
    FromTaskmanager::Output(OutputLines {
        job: JOB,
        epoch: EPOCH,
        subtask: TASK.subtask,
        lines,
        dropped: 3,
    })
}

fn failed(failure: Option<FailureInfo>) -> FromTaskmanager {
    FromTaskmanager::SubtaskState {
        job: JOB,
        epoch: EPOCH,
        subtask: TASK.subtask,
        attempt: TASK.attempt,
        state: ExecutionState::Failed,
        failure,
    }
}

fn from_taskmanager() -> Vec<FromTaskmanager> {
    let (job, epoch, subtask) = (JOB, EPOCH, TASK.subtask);
    let address = DataAddress {
        host: "fd00::1".into(),
        port: 65_535,
    };
    vec![
        FromTaskmanager::Register(Registration {
            id: taskmanager(),
            incarnation: Incarnation(u64::MAX),
            slots: 4,
            advertised_host: "10.0.0.1".into(),
            host: "host-1".into(),
            pid: 77,
            version: "0.1.0".into(),
        }),
        heartbeat(),
        FromTaskmanager::JobProcessStarted {
            job,
            epoch,
            address,
        },
        FromTaskmanager::JobProcessFailed {
            job,
            epoch,
            failure: failure("gone"),
        },
        failed(Some(failure("no"))),
        failed(None),
        acknowledgement(10),
        decline(DeclineReason::Subsumed),
        FromTaskmanager::UploadStopped {
            job,
            epoch,
            subtask,
            checkpoint: CheckpointId(9),
            objects: vec![ObjectName::new("shared/3-1-ab.sst").unwrap()],
        },
        FromTaskmanager::EndOfData {
            job,
            epoch,
            subtask,
            attempt: Attempt(0),
        },
        FromTaskmanager::SlotFreed { slot: SlotIndex(0) },
        output(vec!["a".into(), String::new(), "ü".into()]),
        FromTaskmanager::Metrics(vec![
            subtask_metrics(),
            SubtaskMetrics {
                watermark: None,
                ..subtask_metrics()
            },
        ]),
        FromTaskmanager::Leaving,
    ]
}

fn endpoint(address: Option<DataAddress>) -> ChannelEndpoint {
    ChannelEndpoint {
        channel: ChannelId {
            edge: EdgeId(1),
            from: 2,
            to: 3,
        },
        peer: ChannelPeer {
            task: TASK,
            taskmanager: taskmanager(),
            incarnation: Incarnation(5),
            address,
        },
        token: ChannelToken(u128::MAX - 1),
    }
}

fn deploy(restored_bytes: usize) -> ToTaskmanager {
    let mut operators = states();
    let large = StateHandle::Inline(vec![0; restored_bytes].into());
    operators.values_mut().next().unwrap().operator.push(large);
    let address = DataAddress {
        host: "tm-1.example".into(),
        port: 1,
    };
    ToTaskmanager::Deploy(Box::new(DeploySubtask {
        job: JOB,
        epoch: EPOCH,
        subtask: TASK.subtask,
        attempt: TASK.attempt,
        vertex_name: "counts".into(),
        slot: SlotIndex(2),
        inputs: vec![endpoint(Some(address)), endpoint(None)],
        outputs: vec![endpoint(None)],
        restore: Some(RestoreSubtask {
            checkpoint: CheckpointId(8),
            operators,
        }),
    }))
}

fn start() -> ToTaskmanager {
    let graph = JobGraph {
        name: "empty".into(),
        operators: vec![],
        edges: vec![],
        settings: vec![],
    };
    let graph = Arc::new(graph);
    ToTaskmanager::StartJobProcess(StartJobProcess {
        job: JOB,
        epoch: EPOCH,
        graph,
        chaining: true,
    })
}

fn to_taskmanager() -> Vec<ToTaskmanager> {
    let (job, epoch, checkpoint) = (JOB, EPOCH, CheckpointId(9));
    let subtasks = vec![TASK, TASK];
    let refusals = [
        RegistrationRefusal::DuplicateIdentity {
            taskmanager: taskmanager(),
        },
        RegistrationRefusal::DeclaredDead {
            taskmanager: taskmanager(),
        },
        RegistrationRefusal::NoSlots {
            taskmanager: taskmanager(),
        },
    ];
    let kinds = [
        CheckpointKind::Periodic,
        CheckpointKind::Manual,
        CheckpointKind::Final,
    ];
    let trigger = |kind| ToTaskmanager::TriggerCheckpoint {
        job,
        epoch,
        subtasks: vec![TASK],
        checkpoint,
        triggered_at: WallTime(1_700_000_000_123),
        kind,
        completed: (kind != CheckpointKind::Manual).then_some(checkpoint),
    };
    let aborted = |latest_completed| ToTaskmanager::NotifyAborted {
        job,
        epoch,
        subtasks: vec![TASK],
        checkpoint,
        latest_completed,
    };
    let mut messages = vec![
        ToTaskmanager::Registered(Registered {
            jobmanager: Incarnation(1),
            heartbeat_interval: Duration::from_secs(2),
            heartbeat_timeout: Duration::from_secs(10),
        }),
        ToTaskmanager::Heartbeat,
        start(),
        deploy(0),
        ToTaskmanager::NotifyCompleted {
            job,
            epoch,
            subtasks: subtasks.clone(),
            checkpoint,
        },
        aborted(None),
        aborted(Some(CheckpointId(8))),
        ToTaskmanager::Cancel {
            job,
            epoch,
            subtasks,
        },
        ToTaskmanager::Abandon {
            job,
            epoch,
            slots: vec![SlotIndex(0), SlotIndex(3)],
        },
        ToTaskmanager::ReleaseJob { job, epoch },
    ];
    messages.extend(refusals.map(ToTaskmanager::RegistrationRefused));
    messages.extend(kinds.map(trigger));
    messages
}

#[test]
fn every_message_comes_back_as_it_was() {
    for message in from_taskmanager() {
        let bytes = message.to_bytes(MESSAGE_BYTES_MAX).unwrap();
        assert_eq!(FromTaskmanager::from_bytes(&bytes).unwrap(), message);
    }
    for message in to_taskmanager() {
        let bytes = message.to_bytes(MESSAGE_BYTES_MAX).unwrap();
        assert_eq!(ToTaskmanager::from_bytes(&bytes).unwrap(), message);
    }
}

#[test]
fn every_state_reason_kind_and_disposition_has_its_own_number() {
    use common::*;
    let mut seen = Vec::new();
    for number in 0..40 {
        let state = state_from_wire("M", "f", number).map(state_to_wire);
        let reason = reason_from_wire("M", "f", number).map(reason_to_wire);
        let kind = failure_kind_from_wire("M", "f", number).map(failure_kind_to_wire);
        let disposition = disposition_from_wire("M", "f", number).map(disposition_to_wire);
        for back in [state, reason, kind, disposition] {
            match back {
                Ok(back) => {
                    assert_eq!(back, number);
                    seen.push(back);
                }
                Err(error) => assert_eq!(
                    error.to_string(),
                    format!("M.f is {number}, which is unknown")
                ),
            }
        }
    }
    assert_eq!(seen.len(), 9 + 9 + 14 + 4);
}

#[test]
fn a_message_that_makes_no_sense_is_refused_by_name() {
    use pb::from_taskmanager::Message;
    let refused = |message| {
        let bytes = pb::FromTaskmanager { message }.encode_to_vec();
        FromTaskmanager::from_bytes(&bytes).unwrap_err().to_string()
    };
    assert_eq!(refused(None), "FromTaskmanager.message is missing");
    let job = || {
        Some(pb::JobEpoch {
            job_id: vec![7; 16].into(),
            epoch: 3,
        })
    };
    let stopped = pb::UploadStopped {
        job: job(),
        subtask: None,
        checkpoint_id: 1,
        objects: vec![],
    };
    assert_eq!(
        refused(Some(Message::UploadStopped(stopped))),
        "UploadStopped.subtask is missing"
    );
    let stopped = pb::UploadStopped {
        job: job(),
        subtask: Some(pb::SubtaskId {
            vertex: 0,
            index: 0,
        }),
        checkpoint_id: 0,
        objects: vec![],
    };
    let expected = "UploadStopped.checkpoint_id is 0, which no checkpoint is";
    assert_eq!(
        refused(Some(Message::UploadStopped(stopped.clone()))),
        expected
    );
    let stopped = pb::UploadStopped {
        checkpoint_id: 1,
        objects: vec!["../other/job".to_owned()],
        ..stopped
    };
    let error = refused(Some(Message::UploadStopped(stopped)));
    assert!(error.starts_with("UploadStopped.objects"), "{error}");
    let address = Some(pb::DataAddress {
        host: "h".into(),
        port: 70_000,
    });
    let started = pb::JobProcessStarted {
        job: job(),
        address,
    };
    let expected = "DataAddress.port is 70000, outside 1 to 65535";
    assert_eq!(refused(Some(Message::JobProcessStarted(started))), expected);
    let short = pb::JobEpoch {
        job_id: vec![7; 15].into(),
        epoch: 3,
    };
    let started = pb::JobProcessStarted {
        job: Some(short),
        address: None,
    };
    let expected = "JobEpoch.job_id has 15 bytes, not 16";
    assert_eq!(refused(Some(Message::JobProcessStarted(started))), expected);
}

// HND-073, second part: a snapshot too large for its message is a declined checkpoint with both
// sizes in words, not a silent one.
#[test]
fn an_acknowledgement_beyond_the_limit_becomes_a_decline_with_size_and_limit() {
    let large = acknowledgement(2_000_000);
    let error = bounded::from_to_wire(&large, 1_000_000).unwrap_err();
    let EncodeError::TooLarge {
        found,
        limit: 1_000_000,
        ..
    } = error
    else {
        panic!("{error}")
    };
    assert!(found > 2_000_000);
    let Some(FromTaskmanager::Decline(decline)) = bounded::instead(large, &error) else {
        panic!("no decline")
    };
    assert_eq!((decline.checkpoint, decline.task), (CheckpointId(9), TASK));
    let start = "the acknowledgement of checkpoint 9 by v1/2 of job 0707";
    assert!(decline.message.starts_with(start), "{}", decline.message);
    assert!(decline.message.contains("above the limit of 1000000"));
}

#[test]
fn a_deployment_beyond_the_limit_fails_as_if_the_taskmanager_had_said_so() {
    let large = deploy(2_000_000);
    let error = bounded::to_to_wire(&large, 1_000_000).unwrap_err();
    let Some(FromTaskmanager::SubtaskState {
        state,
        failure: Some(failure),
        subtask,
        ..
    }) = bounded::answer(&large, &error)
    else {
        panic!("no answer")
    };
    assert_eq!((state, subtask), (ExecutionState::Failed, TASK.subtask));
    assert_eq!(failure.disposition, Disposition::FailJob);
    assert!(
        failure.message.contains("the deployment of counts (v1/2)"),
        "{}",
        failure.message
    );
}

/// Counts what it is told, and takes its time.
struct Slow(Arc<Mutex<usize>>);

#[async_trait]
impl ControlSession for Slow {
    async fn receive(&mut self, _: FromTaskmanager) -> Result<(), ControlSessionError> {
        tokio::task::yield_now().await;
        *self.0.lock() += 1;
        Ok(())
    }
}

#[tokio::test]
async fn a_thousand_refused_deployments_are_answered_through_queues_of_one() {
    let (outgoing, to_send) = mpsc::channel(1);
    let (replies, _sent) = mpsc::channel(1);
    let (answers, to_answer) = mpsc::channel(1);
    let told = Arc::new(Mutex::new(0));
    let session = Box::new(Slow(Arc::clone(&told)));
    let receiving = server::receive(session, futures::stream::pending(), to_answer);
    let deploying = async move {
        for _ in 0..1_000 {
            outgoing.send(deploy(2_000)).await.unwrap();
        }
    };
    let saying = async {
        tokio::join!(deploying, server::send(to_send, replies, answers, 100));
        while *told.lock() < 1_000 {
            tokio::task::yield_now().await;
        }
    };
    tokio::select! {
        ended = receiving => panic!("the connection ended: {ended:?}"),
        () = saying => {}
    }
}

#[test]
fn texts_beyond_the_limit_are_left_out_and_lines_are_counted() {
    let error = EncodeError::TooLarge {
        what: "it".into(),
        found: 9,
        limit: 8,
    };
    let lines = output(vec!["x".into(); 5]);
    let Some(FromTaskmanager::Output(output)) = bounded::instead(lines, &error) else {
        panic!("no output")
    };
    assert_eq!((output.lines.len(), output.dropped), (0, 8));
    let message = failed(Some(failure(&"x".repeat(1000))));
    let Some(FromTaskmanager::SubtaskState {
        failure: Some(failure),
        ..
    }) = bounded::instead(message, &error)
    else {
        panic!("no state")
    };
    assert_eq!(failure.kind, FailureKind::Connector);
    assert_eq!(failure.disposition, Disposition::FailJob);
    assert!(failure.message.len() < 100);
}

#[tokio::test]
async fn messages_cross_a_socket_in_order_and_its_end_is_seen() {
    let (near, far) = tokio::io::duplex(64);
    let mut writer = MessageWriter::new(near, MESSAGE_BYTES_MAX);
    let mut reader = MessageReader::<_, FromTaskmanager>::new(far, MESSAGE_BYTES_MAX);
    let sending = async {
        for message in from_taskmanager() {
            writer.send(&message).await.unwrap();
        }
        drop(writer);
    };
    let receiving = async {
        let mut received = Vec::new();
        while let Some(message) = reader.next().await.unwrap() {
            received.push(message);
        }
        received
    };
    let ((), received) = tokio::join!(sending, receiving);
    assert_eq!(received, from_taskmanager());
}

#[tokio::test]
async fn a_socket_that_lies_about_a_length_or_ends_early_is_an_error() {
    let read = |bytes: &'static [u8]| async move {
        MessageReader::<_, ToTaskmanager>::new(bytes, 1_000)
            .next()
            .await
    };
    let Err(FrameIoError::Decode(error)) = read(&[0xff, 0xff, 0xff, 0xff, 1]).await else {
        panic!("four gigabytes were read")
    };
    assert_eq!(
        error.to_string(),
        "a message has 4294967295 bytes, above the limit of 1000"
    );
    assert!(matches!(
        read(&[0, 0, 0, 9, 1]).await,
        Err(FrameIoError::Io(_))
    ));
    assert!(matches!(read(&[0, 0]).await, Err(FrameIoError::Io(_))));
    let nothing = read(&[0, 0, 0, 0]).await;
    assert!(matches!(
        nothing,
        Err(FrameIoError::Decode(DecodeError::Missing { .. }))
    ));
    assert!(matches!(read(&[]).await, Ok(None)));

    let mut writer = MessageWriter::new(Vec::new(), 1_000);
    assert!(matches!(
        writer.send(&deploy(2_000)).await,
        Err(FrameIoError::Encode(_))
    ));
    writer
        .send(&ToTaskmanager::Heartbeat)
        .await
        .expect("the stream is as before");
}
