//! Every path with the whole of its answer.

use serde_json::{Value, json};

use super::fixture::{Fixture, RUNNING};
use super::get;

async fn read(path: &str) -> Value {
    let reply = get(Fixture::default(), path).await;
    assert_eq!(reply.status, 200, "{}", reply.body);
    assert_eq!(reply.headers["content-type"], "application/json");
    reply.json()
}

#[tokio::test]
async fn the_overview_counts_taskmanagers_slots_and_jobs() {
    let expected = json!({
        "taskmanagers": 1, "slots-total": 4, "slots-available": 2, "jobs-running": 1,
        "jobs-finished": 0, "jobs-cancelled": 0, "jobs-failed": 0, "jobs-suspended": 0,
        "version": env!("CARGO_PKG_VERSION"), "recovering": false,
    });
    assert_eq!(read("/overview").await, expected);
}

#[tokio::test]
async fn the_list_of_jobs_has_ids_and_states() {
    let expected = json!({"jobs": [{"id": "ab".repeat(16), "status": "RUNNING"}]});
    assert_eq!(read("/jobs").await, expected);
}

#[tokio::test]
async fn a_running_job_has_no_end_and_its_duration_grows() {
    let expected = json!({"jobs": [{
        "jid": "ab".repeat(16), "name": "word-count", "state": "RUNNING",
        "start-time": 1_700_000_000_000_i64, "end-time": -1, "duration": 100_000,
        "last-modification": 1_700_000_005_000_i64, "restarts": 1,
        "tasks": {
            "total": 3, "created": 0, "scheduled": 0, "deploying": 0, "initializing": 0,
            "running": 2, "canceling": 0, "canceled": 0, "finished": 1, "failed": 0,
        },
    }]});
    assert_eq!(read("/jobs/overview").await, expected);
}

fn states(running: u32, finished: u32) -> Value {
    json!({
        "CREATED": 0, "SCHEDULED": 0, "DEPLOYING": 0, "INITIALIZING": 0, "RUNNING": running,
        "CANCELING": 0, "CANCELED": 0, "FINISHED": finished, "FAILED": 0,
    })
}

fn io(read: u64, write: u64, n_subtasks: u64) -> Value {
    json!({
        "read-bytes": read * 10, "read-bytes-complete": true,
        "write-bytes": write * 10, "write-bytes-complete": true,
        "read-records": read, "read-records-complete": true,
        "write-records": write, "write-records-complete": true,
        "bad-records": 3 * n_subtasks,
        "accumulated-backpressured-time": 200 * n_subtasks,
        "accumulated-idle-time": 500 * n_subtasks,
        "accumulated-busy-time": 300 * n_subtasks,
    })
}

/// What a source gave out is what the next vertex took in, and both stay when the source has
/// finished. Proves HND-075 for what is shown; A0-1.
#[tokio::test]
async fn a_finished_vertex_keeps_its_status_and_its_counts() {
    let job = read(&format!("/jobs/{RUNNING}")).await;
    let source = json!({
        "id": "0", "name": "lines", "slotSharingGroupId": "default", "maxParallelism": 128,
        "parallelism": 1, "status": "FINISHED", "start-time": 1_700_000_003_000_i64,
        "end-time": 1_700_000_008_000_i64, "duration": 5_000, "tasks": states(0, 1),
        "metrics": io(0, 1_000, 1),
    });
    let counts = json!({
        "id": "1", "name": "counts", "slotSharingGroupId": "default", "maxParallelism": 128,
        "parallelism": 2, "status": "RUNNING", "start-time": 1_700_000_003_000_i64,
        "end-time": -1, "duration": 97_000, "tasks": states(2, 0), "metrics": io(1_000, 0, 2),
    });
    assert_eq!(job["vertices"], json!([source, counts]));
    assert_eq!(job["status-counts"], states(1, 1));
}

#[tokio::test]
async fn a_job_has_a_time_for_every_state_and_a_plan() {
    let mut job = read(&format!("/jobs/{RUNNING}")).await;
    let fields = job.as_object_mut().unwrap();
    fields.remove("vertices");
    fields.remove("status-counts");
    let expected = json!({
        "jid": "ab".repeat(16), "name": "word-count", "state": "RUNNING",
        "start-time": 1_700_000_000_000_i64, "end-time": -1, "duration": 100_000,
        "maxParallelism": 128, "now": 1_700_000_100_000_i64,
        "timestamps": {
            "INITIALIZING": 0, "CREATED": 1_700_000_000_000_i64,
            "RUNNING": 1_700_000_005_000_i64, "FAILING": 0, "FAILED": 0, "CANCELLING": 0,
            "CANCELED": 0, "FINISHED": 0, "RESTARTING": 0, "SUSPENDED": 0,
        },
        "slot-wait": null,
        "plan": {
            "jid": "ab".repeat(16), "name": "word-count", "type": "STREAMING",
            "nodes": [
                {"id": "0", "parallelism": 1, "description": "lines", "inputs": []},
                {"id": "1", "parallelism": 2, "description": "counts",
                 "inputs": [{"num": 0, "id": "0", "ship_strategy": "HASH"}]},
            ],
        },
    });
    assert_eq!(job, expected);
}

fn one_value(value: i64) -> Value {
    let p = value as f64;
    json!({
        "min": value, "max": value, "avg": value, "p50": p, "p90": p, "p95": p, "p99": p,
        "p999": p,
    })
}

/// End is not before start, the duration is their difference, the size the sum over subtasks, the
/// failed one says when and why. Proves HND-081 for what is shown.
#[tokio::test]
async fn checkpoints_have_an_end_and_numbers_that_fit_together() {
    let checkpoints = read(&format!("/jobs/{RUNNING}/checkpoints")).await;
    let numbers = |duration: i64, bytes: u64, processed: u64, acknowledged: u32, ack_at: i64| {
        json!({
            "latest_ack_timestamp": ack_at, "checkpointed_size": bytes / 4, "state_size": bytes,
            "end_to_end_duration": duration, "alignment_buffered": 0,
            "processed_data": processed, "persisted_data": 0, "num_subtasks": 2,
            "num_acknowledged_subtasks": acknowledged,
        })
    };
    let with = |parts: &[&Value]| {
        let fields = parts
            .iter()
            .flat_map(|part| part.as_object().unwrap().clone());
        Value::Object(fields.collect())
    };
    let ok = numbers(2_000, 3_000, 140, 2, 1_700_000_012_000);
    let completed = with(&[
        &ok,
        &json!({
            "className": "completed", "id": 5, "status": "COMPLETED", "is_savepoint": false,
            "savepointFormat": null, "trigger_timestamp": 1_700_000_010_000_i64,
            "checkpoint_type": "CHECKPOINT",
            "tasks": {"1": with(&[&ok, &json!({"id": 5, "status": "COMPLETED"})])},
            "external_path": "file:///var/checkpoints/abab/chk-5/2-f00d", "discarded": false,
            "finalization_duration": 250,
        }),
    ]);
    let part = numbers(1_000, 1_000, 70, 1, 1_700_000_021_000);
    let failed = with(&[
        &numbers(10_000, 1_000, 70, 1, 1_700_000_021_000),
        &json!({
            "className": "failed", "id": 6, "status": "FAILED", "is_savepoint": false,
            "savepointFormat": null, "trigger_timestamp": 1_700_000_020_000_i64,
            "checkpoint_type": "CHECKPOINT",
            "tasks": {"1": with(&[&part, &json!({"id": 6, "status": "FAILED"})])},
            "failure_timestamp": 1_700_000_030_000_i64,
            "failure_message":
                "Checkpoint expired before completing. 1 of 2 subtasks did not acknowledge",
        }),
    ]);
    let expected = json!({
        "counts": {"restored": 1, "total": 2, "in_progress": 0, "completed": 1, "failed": 1,
                   "refused": 1},
        "summary": {
            "checkpointed_size": one_value(750), "state_size": one_value(3_000),
            "end_to_end_duration": one_value(2_000), "alignment_buffered": one_value(0),
            "processed_data": one_value(140), "persisted_data": one_value(0),
        },
        "latest": {
            "completed": completed, "savepoint": null, "failed": failed,
            "restored": {
                "id": 5, "restore_timestamp": 1_700_000_040_000_i64, "is_savepoint": false,
                "external_path": "file:///var/checkpoints/abab/chk-5/2-f00d",
            },
        },
        "history": [failed, completed],
    });
    assert_eq!(checkpoints, expected);
}

/// Proves HND-081 a subtask at a time: where each one's time went, and who is missing.
#[tokio::test]
async fn a_checkpoint_is_shown_subtask_by_subtask() {
    let all = read(&format!("/jobs/{RUNNING}/checkpoints")).await;
    let details = format!("/jobs/{RUNNING}/checkpoints/details");
    assert_eq!(read(&format!("{details}/5")).await, all["history"][1]);

    let completed = read(&format!("{details}/5/subtasks/1")).await;
    for (name, value) in all["history"][1]["tasks"]["1"].as_object().unwrap() {
        assert_eq!(&completed[name], value, "{name}");
    }
    let subtasks = completed["subtasks"].as_array().unwrap();
    assert_eq!(subtasks.len(), 2);
    for (index, subtask) in subtasks.iter().enumerate() {
        assert_eq!(subtask["index"], index);
        assert_eq!(subtask["status"], "completed");
    }
    let sum = |field: &str| {
        subtasks
            .iter()
            .map(|subtask| subtask[field].as_i64().unwrap())
            .sum::<i64>()
    };
    assert_eq!(sum("state_size"), completed["state_size"].as_i64().unwrap());
    let longest = subtasks
        .iter()
        .map(|subtask| subtask["checkpoint"]["sync"].as_i64())
        .max();
    let summary = &completed["summary"]["checkpoint_duration"]["sync"];
    assert_eq!(summary["max"].as_i64(), longest.unwrap());

    let failed = read(&format!("{details}/6/subtasks/1")).await;
    assert_eq!(
        (
            &failed["num_subtasks"],
            &failed["num_acknowledged_subtasks"]
        ),
        (&json!(2), &json!(1))
    );
    let missing = failed["subtasks"].as_array().unwrap();
    let missing = missing
        .iter()
        .filter(|subtask| subtask["status"] == "pending_or_failed");
    assert_eq!(missing.count(), 1);
}

#[tokio::test]
async fn checkpoints_and_vertices_that_are_not_there_are_not_found() {
    let details = format!("/jobs/{RUNNING}/checkpoints/details");
    let cases = [
        (format!("{details}/99"), 404, "checkpoint not found"),
        (format!("{details}/five"), 400, "checkpoint ids are numbers"),
        (format!("{details}/5/subtasks/9"), 404, "vertex not found"),
        (
            format!("/jobs/{}/checkpoints/details/5", "0".repeat(32)),
            404,
            "not found",
        ),
    ];
    for (path, status, text) in cases {
        let reply = get(Fixture::default(), &path).await;
        assert_eq!(reply.status, status, "{path}");
        assert!(reply.error().contains(text), "{path}: {}", reply.body);
    }
}

fn taskmanager() -> Value {
    json!({
        "id": "tm-1", "path": "10.0.0.7", "dataPort": -1,
        "timeSinceLastHeartbeat": 1_700_000_099_000_i64, "slotsNumber": 4, "freeSlots": 2,
        "host": "box", "pid": 42, "version": "0.1.0", "incarnation": u64::MAX.to_string(),
        "connected": true, "registeredAt": 1_700_000_000_000_i64,
    })
}

#[tokio::test]
async fn taskmanagers_have_slots_and_a_last_heartbeat() {
    assert_eq!(
        read("/taskmanagers").await,
        json!({"taskmanagers": [taskmanager()]})
    );
}

#[tokio::test]
async fn a_taskmanager_says_which_job_has_its_slots() {
    let mut expected = taskmanager();
    expected["allocatedSlots"] = json!([{"index": 1, "jobId": "ab".repeat(16)}]);
    assert_eq!(read("/taskmanagers/tm-1").await, expected);
}
