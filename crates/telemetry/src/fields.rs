//! The names of fields in spans and events. One thing has one name everywhere.

/// The job, 32 hexadecimal digits.
pub const JOB_ID: &str = "job_id";
/// The job's name, as its author wrote it.
pub const JOB_NAME: &str = "job_name";
/// The operator's stable identity, chosen by the job's author.
pub const OPERATOR_UID: &str = "operator_uid";
/// How often the subtask was started before.
pub const ATTEMPT: &str = "attempt";
/// The checkpoint or savepoint.
pub const CHECKPOINT_ID: &str = "checkpoint_id";
/// The taskmanager.
pub const TASKMANAGER_ID: &str = "taskmanager_id";
/// What went wrong: `error = &err as &dyn Error`, which keeps the causes.
pub const ERROR: &str = "error";
/// Which text of the [catalogue](crate::catalog) a message is.
pub const EVENT_ID: &str = "event_id";
/// The logical thread, where it is not the operating system's: "Checkpoint Timer".
pub const THREAD_NAME: &str = "thread_name";

/// Fields that have a key of their own in JSON, with that key.
pub(crate) const JSON_KEYS: [(&str, &str); 6] = [
    (JOB_ID, "jobId"),
    (JOB_NAME, "jobName"),
    (CHECKPOINT_ID, "checkpointId"),
    (ATTEMPT, "attempt"),
    (OPERATOR_UID, "operatorUid"),
    (TASKMANAGER_ID, "tmId"),
];
