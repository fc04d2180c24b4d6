use std::collections::BTreeMap;
use std::time::Duration;

use millstream_coordination::checkpoint::{CheckpointKind, CheckpointStatus};
use millstream_coordination::job::{ExecutionState, JobStatus};
use millstream_coordination::protocol::TaskAddress;
use millstream_coordination::snapshot_types::CheckpointMetrics;
use millstream_graph::JobGraph;
use millstream_types::errors;
use millstream_types::{
    Attempt, CheckpointId, Epoch, JobId, SubtaskId, TaskmanagerId, VertexId, WallTime,
};

use super::*;
use crate::testing::{ADDRESS, JOB, TestServer, server};
use crate::{CallError, ServerLimits, connect};

async fn client() -> (TestServer, JobClient) {
    let server = server(ServerLimits::default()).await;
    let connection = connect(&server.test.env, ADDRESS, Duration::from_secs(5))
        .await
        .unwrap();
    (server, JobClient::new(&connection))
}

fn failure() -> JobFailure {
    JobFailure {
        failed_at: WallTime(-1),
        task: Some("counts (1/2)".into()),
        taskmanager: Some("tm-1".into()),
        kind: "USER".into(),
        operator: None,
        message: "division by zero".into(),
        causes: vec!["line 7".into()],
        remedy: Some("divide by another number".into()),
    }
}

fn end(status: JobStatus) -> JobEndInfo {
    JobEndInfo {
        status,
        headline: "Recovery is suppressed".into(),
        failure: Some(failure()),
    }
}

fn job_info(status: JobStatus) -> JobInfo {
    let subtask = |index, taskmanager| SubtaskInfo {
        index,
        attempt: Attempt(2),
        state: ExecutionState::Running,
        taskmanager,
        host: Some("host".into()),
        activity: None,
        records_in: 1,
        records_out: 2,
        bytes_in: 3,
        bytes_out: u64::MAX,
        bad_records: 5,
    };
    let setting = |value| SettingInfo {
        key: "k".into(),
        value,
        origin: "default".into(),
    };
    JobInfo {
        summary: JobSummary {
            id: JOB,
            name: "word-count".into(),
            status,
            started_at: WallTime(1_700_000_000_001),
            ended_at: None,
            last_modified_at: WallTime(1_700_000_000_999),
            tasks: BTreeMap::from([(ExecutionState::Running, 3), (ExecutionState::Failed, 1)]),
            restarts: 9,
        },
        epoch: Some(Epoch(4)),
        slot_wait: Some(SlotWaitInfo {
            needed: 4,
            free: 1,
            since: WallTime(1_700_000_000_500),
        }),
        vertices: vec![VertexInfo {
            id: VertexId(0),
            name: "Source: lines".into(),
            operators: vec!["lines".into()],
            parallelism: 2,
            max_parallelism: 32_768,
            inputs: vec![VertexInputInfo {
                from: VertexId(7),
                ship_strategy: "HASH".into(),
            }],
            subtasks: vec![
                subtask(0, Some(TaskmanagerId::new("tm-1").unwrap())),
                subtask(1, None),
            ],
        }],
        settings: vec![setting(None), setting(Some("v".into()))],
        warnings: vec!["w".into()],
        failures: vec![failure()],
        end: Some(end(JobStatus::Failed)),
    }
}

fn checkpoint(status: CheckpointStatus) -> CheckpointInfo {
    let is_refused = status == CheckpointStatus::Refused;
    let subtask = |acknowledged_at| CheckpointSubtaskInfo {
        task: TaskAddress {
            subtask: SubtaskId::new(VertexId(1), 0),
            attempt: Attempt(2),
        },
        acknowledged_at,
        is_late: true,
        state_bytes: 7,
        metrics: CheckpointMetrics {
            alignment: Duration::from_millis(3),
            ..Default::default()
        },
        activity: Some("in one user call for 57 s".into()),
    };
    CheckpointInfo {
        id: (!is_refused).then_some(CheckpointId(5)),
        epoch: Some(Epoch(4)),
        kind: CheckpointKind::Periodic,
        status,
        triggered_at: WallTime(5),
        duration: Some(Duration::from_millis(12)),
        finalization: None,
        state_bytes: Some(0),
        metadata: Some("chk-5/4-ab/_metadata".into()),
        is_discarded: true,
        failure: is_refused.then(|| CheckpointFailureInfo {
            failed_at: WallTime(6),
            reason: "Not all required tasks are currently running.".into(),
            message: String::new(),
        }),
        subtasks: vec![subtask(None), subtask(Some(WallTime(9)))],
    }
}

#[tokio::test]
async fn a_job_in_every_state_is_told_as_it_is() {
    let (server, client) = client().await;
    use JobStatus as S;
    let all = [
        S::Initializing,
        S::Created,
        S::Running,
        S::Failing,
        S::Failed,
        S::Cancelling,
        S::Canceled,
        S::Finished,
        S::Restarting,
        S::Suspended,
    ];
    for status in all {
        let info = job_info(status);
        *server.jobs.info.lock() = Some(info.clone());
        assert_eq!(
            client.list().await.unwrap(),
            std::slice::from_ref(&info.summary)
        );
        assert_eq!(client.get(JOB).await.unwrap(), info);
    }
}

#[tokio::test]
async fn checkpoints_in_every_state_are_told_as_they_are() {
    let (server, client) = client().await;
    use CheckpointStatus as S;
    let rows = [S::InProgress, S::Completed, S::Failed, S::Refused].map(checkpoint);
    let info = CheckpointsInfo {
        directory: "s3://bucket/checkpoints".into(),
        completed: 1,
        failed: 2,
        refused: 3,
        restored: 4,
        latest_restored: Some(CheckpointId(3)),
        checkpoints: rows.into(),
    };
    *server.jobs.checkpoints.lock() = Some(info.clone());
    assert_eq!(client.checkpoints(JOB).await.unwrap(), info);
}

#[tokio::test]
async fn a_watched_job_is_told_until_its_end() {
    let (server, client) = client().await;
    let events = [
        JobEvent::Status {
            status: JobStatus::Running,
            at: WallTime(1),
            failure: None,
        },
        JobEvent::Output {
            subtask: SubtaskId::new(VertexId(2), 1),
            lines: vec!["2> a,1".into(), String::new()],
        },
        JobEvent::OutputDropped { lines: 8 },
        JobEvent::Ended(end(JobStatus::Finished)),
    ];
    *server.jobs.events.lock() = events.to_vec();
    let mut watch = client.watch(JOB).await.unwrap();
    let mut seen = Vec::new();
    while let Some(event) = watch.next().await.unwrap() {
        seen.push(event);
    }
    assert_eq!(seen, events);
}

#[tokio::test]
async fn a_file_and_a_graph_are_submitted_with_id_and_overrides() {
    let (server, client) = client().await;
    let overrides = vec![("checkpointing.interval".to_owned(), "5s".to_owned())];
    let file = client
        .submit_file("me-1", "name: x".into(), overrides.clone())
        .await
        .unwrap();
    assert_eq!(
        file,
        Submitted {
            job: JOB,
            warnings: vec!["uid missing".into()]
        }
    );
    let client_id = Some("me-1".to_owned());
    let text = "name: x".to_owned();
    let expected = SubmitFile {
        client_id,
        text,
        overrides: overrides.clone(),
    };
    assert_eq!(*server.jobs.files.lock(), [expected]);

    let graph = JobGraph {
        name: "g".into(),
        operators: vec![],
        edges: vec![],
        settings: vec![],
    };
    client
        .submit_graph("", &graph, overrides.clone())
        .await
        .unwrap();
    let expected = SubmitGraph {
        client_id: None,
        graph,
        overrides,
    };
    assert_eq!(*server.jobs.graphs.lock(), [expected]);
}

#[tokio::test]
async fn refusals_keep_their_kind_their_code_and_their_words() {
    let (server, client) = client().await;
    type Test = fn(&CallError) -> bool;
    let kinds: [(GatewayError, Test); 4] = [
        (
            GatewayError::Refused {
                code: errors::STORE_LOCATION,
                message: "m".into(),
            },
            |e| matches!(e, CallError::Refused { .. }),
        ),
        (
            GatewayError::Conflict {
                code: errors::SUBM_NOT_OWNED,
                message: "m".into(),
            },
            |e| matches!(e, CallError::Conflict { .. }),
        ),
        (
            GatewayError::Unavailable {
                code: errors::STORE_FULL,
                message: "m".into(),
            },
            |e| matches!(e, CallError::Unavailable { .. }),
        ),
        (
            GatewayError::Internal {
                message: "m".into(),
            },
            |e| matches!(e, CallError::Server { .. }),
        ),
    ];
    for (error, is_expected) in kinds {
        let code = error.code();
        *server.jobs.error.lock() = Some(error);
        let error = client
            .submit_file("c", "name: x".into(), [])
            .await
            .unwrap_err();
        assert!(
            is_expected(&error) && error.to_string().ends_with('m'),
            "{error:?}"
        );
        assert_eq!(error.code(), code);
    }
    let error = client.cancel(JobId::from_bytes([1; 16])).await.unwrap_err();
    assert!(matches!(error, CallError::NotFound { .. }));
    assert_eq!(error.code(), errors::SUBM_UNKNOWN_JOB);
    assert_eq!(
        error.to_string(),
        format!("job {} is not known here", "01".repeat(16))
    );
}

// HND-073, third and fourth part: too much is refused with both sizes, and a huge text is cut.
#[tokio::test]
async fn what_is_too_large_is_refused_with_size_and_limit() {
    let (server, client) = client().await;
    let error = client
        .submit_file("c", "x".repeat(2_000_000), [])
        .await
        .unwrap_err();
    assert_eq!(
        error.to_string(),
        "the job file has 2000000 bytes, above the limit of 1048576"
    );
    let error = client
        .submit_file("c", "x".repeat(8_000_000), [])
        .await
        .unwrap_err();
    assert!(matches!(error, CallError::Refused { .. }), "{error:?}");
    // The transport refuses this one, and knows no code.
    assert_eq!(error.code(), errors::SUBM_REFUSED);
    assert!(error.to_string().contains("80000"), "{error}");
    assert!(server.jobs.files.lock().is_empty());

    let message = "ü".repeat(5_000_000);
    *server.jobs.error.lock() = Some(GatewayError::Refused {
        code: errors::JOB_YAML,
        message,
    });
    let error = client
        .submit_file("c", "name: x".into(), [])
        .await
        .unwrap_err();
    assert!(error.to_string().ends_with("(10000000 bytes in all)"));
    assert!(error.to_string().len() < 5_000);
}
