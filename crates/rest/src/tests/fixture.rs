//! A cluster as it might be: one job whose source has finished, one that failed, two checkpoints.

use std::collections::BTreeMap;
use std::time::Duration;

use async_trait::async_trait;
use millstream_coordination::checkpoint::{
    AckRecord, CheckpointCounts, CheckpointFailure, CheckpointKind, CheckpointRecord,
    CheckpointStatus, FailureReason, RestoreRecord, SubtaskRecord,
};
use millstream_coordination::failure::{FailedTask, FailureInfo, FailureKind, FailureRecord};
use millstream_coordination::job::{ExecutionState, JobStatus};
use millstream_coordination::protocol::{SlotReport, SubtaskMetrics, TaskAddress};
use millstream_coordination::snapshot_types::CheckpointMetrics;
use millstream_types::{
    Attempt, CheckpointId, Epoch, Incarnation, JobId, MaxParallelism, ObjectName, SlotIndex,
    SubtaskId, TaskmanagerId, VertexId, WallTime,
};

use crate::{
    CheckpointsView, ClusterSummary, ClusterView, FailuresView, JobRow, JobView, SlotWaitView,
    SubtaskView, TaskmanagerView, VertexInputView, VertexView, ViewError,
};

pub(super) const NOW: WallTime = WallTime(1_700_000_100_000);
pub(super) const START: WallTime = WallTime(1_700_000_000_000);
pub(super) const RUNNING: JobId = JobId::from_bytes([0xab; 16]);

#[derive(Clone)]
pub(super) struct Fixture {
    pub name: String,
    pub is_down: bool,
    pub hangs: bool,
    pub slot_wait: Option<SlotWaitView>,
}

impl Default for Fixture {
    fn default() -> Self {
        Self {
            name: "word-count".to_owned(),
            is_down: false,
            hangs: false,
            slot_wait: None,
        }
    }
}

impl Fixture {
    fn answer<T>(&self, value: T) -> Result<T, ViewError> {
        if self.is_down {
            let reason = "it is stopping".to_owned();
            return Err(ViewError::Unavailable { reason });
        }
        Ok(value)
    }

    fn row(&self) -> JobRow {
        JobRow {
            id: RUNNING,
            name: self.name.clone(),
            status: JobStatus::Running,
            started_at: START,
            ended_at: None,
            last_modified_at: after(5),
            tasks: [(ExecutionState::Finished, 1), (ExecutionState::Running, 2)].into(),
            restarts: 1,
        }
    }
}

#[async_trait]
impl ClusterView for Fixture {
    async fn overview(&self) -> Result<ClusterSummary, ViewError> {
        if self.hangs {
            std::future::pending::<()>().await;
        }
        self.answer(ClusterSummary {
            taskmanagers: 1,
            slots_total: 4,
            slots_available: 2,
            jobs_running: 1,
            ..ClusterSummary::default()
        })
    }

    async fn jobs(&self) -> Result<Vec<JobRow>, ViewError> {
        self.answer(vec![self.row()])
    }

    async fn job(&self, id: JobId) -> Result<Option<JobView>, ViewError> {
        let job = JobView {
            row: self.row(),
            status_since: [(JobStatus::Created, START), (JobStatus::Running, after(5))].into(),
            slot_wait: self.slot_wait,
            vertices: vec![source(), counts()],
            failures: failures(),
            ended: None,
        };
        self.answer((id == RUNNING).then_some(job))
    }

    async fn checkpoints(&self, id: JobId) -> Result<Option<CheckpointsView>, ViewError> {
        self.answer((id == RUNNING).then(checkpoints))
    }

    async fn taskmanagers(&self) -> Result<Vec<TaskmanagerView>, ViewError> {
        self.answer(vec![TaskmanagerView {
            id: taskmanager(),
            incarnation: Incarnation(u64::MAX),
            host: "box".to_owned(),
            advertised_host: "10.0.0.7".to_owned(),
            pid: 42,
            version: "0.1.0".to_owned(),
            slots_total: 4,
            slots_available: 2,
            slots: vec![SlotReport {
                slot: SlotIndex(1),
                job: RUNNING,
                epoch: Epoch(2),
            }],
            is_connected: true,
            registered_at: START,
            heard_at: after(99),
        }])
    }
}

pub(super) fn after(seconds: i64) -> WallTime {
    WallTime(START.0 + seconds * 1_000)
}

fn taskmanager() -> TaskmanagerId {
    TaskmanagerId::new("tm-1").unwrap()
}

fn subtask(id: SubtaskId, state: ExecutionState, records: (u64, u64)) -> SubtaskView {
    let metrics = SubtaskMetrics {
        job: RUNNING,
        epoch: Epoch(2),
        task: TaskAddress::from((id, Attempt(1))),
        records_in: records.0,
        records_out: records.1,
        bytes_in: records.0 * 10,
        bytes_out: records.1 * 10,
        bad_records: 3,
        busy: Duration::from_millis(300),
        idle: Duration::from_millis(500),
        backpressured: Duration::from_millis(200),
        watermark: None,
    };
    SubtaskView {
        attempt: Attempt(1),
        state,
        state_since: [(ExecutionState::Deploying, after(3)), (state, after(8))].into(),
        slot: None,
        activity: None,
        metrics: Some(metrics),
    }
}

fn vertex(id: u32, name: &str, subtasks: Vec<SubtaskView>) -> VertexView {
    VertexView {
        id: VertexId(id),
        name: name.to_owned(),
        max_parallelism: MaxParallelism::new(128).unwrap(),
        slot_sharing_group: "default".to_owned(),
        inputs: Vec::new(),
        subtasks,
    }
}

fn source() -> VertexView {
    let finished = subtask(
        SubtaskId::new(VertexId(0), 0),
        ExecutionState::Finished,
        (0, 1_000),
    );
    vertex(0, "lines", vec![finished])
}

fn counts() -> VertexView {
    let subtasks = [400, 600].into_iter().zip(0..).map(|(records, index)| {
        let id = SubtaskId::new(VertexId(1), index);
        subtask(id, ExecutionState::Running, (records, 0))
    });
    VertexView {
        inputs: vec![VertexInputView {
            from: VertexId(0),
            ship_strategy: "HASH",
        }],
        ..vertex(1, "counts", subtasks.collect())
    }
}

fn failures() -> FailuresView {
    let record = |seconds, message: &str| FailureRecord {
        failed_at: after(seconds),
        task: Some(FailedTask {
            subtask: SubtaskId::new(VertexId(1), 0),
            name: "counts (1/2)".to_owned(),
            attempt: Attempt(0),
            taskmanager: Some(taskmanager()),
        }),
        failure: FailureInfo::new(FailureKind::User, message),
    };
    FailuresView {
        newest: Some(record(4, "division by zero in line 12")),
        n_concurrent: 2,
        first: Some(record(2, "division by zero in line 3")),
        repeated: 2,
    }
}

fn acknowledged(seconds: i64, state_bytes: u64) -> SubtaskRecord {
    SubtaskRecord {
        attempt: Attempt(1),
        acknowledged: Some(AckRecord {
            acknowledged_at: after(seconds),
            state_bytes,
            new_bytes: state_bytes / 4,
            metrics: CheckpointMetrics {
                start_delay: Duration::from_millis(11),
                alignment: Duration::from_millis(22),
                pre_barrier: Duration::from_millis(33),
                synchronous: Duration::from_millis(44),
                asynchronous: Duration::from_millis(55),
                processed_in_flight_bytes: 70,
                persisted_in_flight_bytes: 0,
                is_unaligned: false,
            },
            is_late: false,
        }),
        activity: None,
    }
}

fn checkpoint(id: u64, seconds: i64, rows: Vec<SubtaskRecord>) -> CheckpointRecord {
    let subtask = |index| SubtaskId::new(VertexId(1), index);
    let subtasks: BTreeMap<_, _> = (0..).map(subtask).zip(rows).collect();
    CheckpointRecord {
        id: Some(CheckpointId(id)),
        epoch: Some(Epoch(2)),
        kind: CheckpointKind::Periodic,
        status: CheckpointStatus::InProgress,
        triggered_at: after(seconds),
        duration: None,
        finalization: None,
        state_bytes: None,
        metadata: None,
        is_discarded: false,
        failure: None,
        subtasks,
    }
}

pub(super) fn checkpoints() -> CheckpointsView {
    let completed = CheckpointRecord {
        status: CheckpointStatus::Completed,
        duration: Some(Duration::from_millis(2_250)),
        finalization: Some(Duration::from_millis(250)),
        state_bytes: Some(3_000),
        metadata: Some(ObjectName::new("chk-5/2-f00d/_metadata").unwrap()),
        ..checkpoint(
            5,
            10,
            vec![acknowledged(11, 1_000), acknowledged(12, 2_000)],
        )
    };
    let silent = SubtaskRecord {
        attempt: Attempt(1),
        acknowledged: None,
        activity: Some("in `sum` since 9 s".to_owned()),
    };
    let failed = CheckpointRecord {
        status: CheckpointStatus::Failed,
        failure: Some(CheckpointFailure {
            failed_at: after(30),
            reason: FailureReason::Expired,
            message: "1 of 2 subtasks did not acknowledge".to_owned(),
        }),
        ..checkpoint(6, 20, vec![acknowledged(21, 1_000), silent])
    };
    let refused = CheckpointRecord {
        id: None,
        status: CheckpointStatus::Refused,
        ..checkpoint(0, 25, Vec::new())
    };
    CheckpointsView {
        records: vec![completed.clone(), failed.clone(), refused],
        latest_completed: Some(completed),
        latest_failed: Some(failed),
        latest_restored: Some(RestoreRecord {
            id: CheckpointId(5),
            restored_at: after(40),
        }),
        counts: CheckpointCounts {
            completed: 1,
            failed: 1,
            refused: 1,
        },
        n_in_progress: 0,
        restored: 1,
        consecutive_failures: 1,
        directory: "file:///var/checkpoints/abab/".to_owned(),
    }
}
