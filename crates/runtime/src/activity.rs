//! The activity cell: what a task's thread is doing right now, readable from outside while the
//! thread is stuck in it; and what is uploaded for the task beside it.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use millstream_env::Clock;
use millstream_types::{CheckpointId, MonoTime};
use parking_lot::Mutex;

/// What a task is doing; shared between its thread and those who ask.
#[derive(Clone)]
pub struct Activity {
    clock: Clock,
    cell: Arc<Mutex<Option<Current>>>,
    uploads: Arc<Mutex<BTreeMap<CheckpointId, (String, MonoTime)>>>,
}

#[derive(Clone)]
struct Current {
    operator: Arc<str>,
    function: &'static str,
    since: MonoTime,
}

/// A call that is going on.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ActivityReport {
    /// The operator's name.
    pub operator: String,
    /// What the operator was called for.
    pub function: &'static str,
    /// For how long.
    pub elapsed: Duration,
}

impl Activity {
    pub(crate) fn new(clock: Clock) -> Self {
        Self {
            clock,
            cell: Arc::default(),
            uploads: Arc::default(),
        }
    }

    pub(crate) fn enter(&self, operator: &Arc<str>, function: &'static str, since: MonoTime) {
        *self.cell.lock() = Some(Current {
            operator: Arc::clone(operator),
            function,
            since,
        });
    }

    pub(crate) fn leave(&self) {
        *self.cell.lock() = None;
    }

    /// State is being uploaded to this place until what is returned is dropped.
    pub(crate) fn upload(&self, checkpoint: CheckpointId, to: String) -> Uploading {
        let since = self.clock.monotonic();
        self.uploads.lock().insert(checkpoint, (to, since));
        Uploading {
            checkpoint,
            uploads: Arc::clone(&self.uploads),
        }
    }

    /// The oldest upload that is going on, if one is.
    pub fn uploading(&self) -> Option<UploadReport> {
        let uploads = self.uploads.lock();
        let (checkpoint, (to, since)) = uploads.first_key_value()?;
        Some(UploadReport {
            checkpoint: *checkpoint,
            to: to.clone(),
            elapsed: self.clock.monotonic().saturating_since(*since),
        })
    }

    /// What has been going on for this long, in words.
    pub(crate) fn lasting(&self, at_least: Duration) -> Option<String> {
        let call = self.report().filter(|call| call.elapsed >= at_least);
        let upload = self.uploading().filter(|upload| upload.elapsed >= at_least);
        match (call, upload) {
            (Some(call), _) => Some(call.to_string()),
            (None, Some(upload)) => Some(upload.to_string()),
            (None, None) => None,
        }
    }

    /// The call that is going on, if one is.
    pub fn report(&self) -> Option<ActivityReport> {
        let current = self.cell.lock().clone()?;
        Some(ActivityReport {
            operator: current.operator.to_string(),
            function: current.function,
            elapsed: self.clock.monotonic().saturating_since(current.since),
        })
    }
}

impl fmt::Display for ActivityReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let seconds = self.elapsed.as_secs();
        write!(
            f,
            "in {} of {} for {seconds} s",
            self.function, self.operator
        )
    }
}

/// An upload that is going on.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct UploadReport {
    /// For which checkpoint.
    pub checkpoint: CheckpointId,
    /// Where to.
    pub to: String,
    /// For how long.
    pub elapsed: Duration,
}

impl fmt::Display for UploadReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            checkpoint,
            to,
            elapsed,
        } = self;
        let seconds = elapsed.as_secs();
        write!(
            f,
            "uploading state of checkpoint {checkpoint} to {to} for {seconds} s"
        )
    }
}

/// An upload goes on as long as this is kept.
pub(crate) struct Uploading {
    checkpoint: CheckpointId,
    uploads: Arc<Mutex<BTreeMap<CheckpointId, (String, MonoTime)>>>,
}

impl Drop for Uploading {
    fn drop(&mut self) {
        self.uploads.lock().remove(&self.checkpoint);
    }
}

#[cfg(test)]
mod tests {
    use millstream_env::Env;

    use super::*;

    #[tokio::test]
    async fn what_lasts_is_told_and_a_call_before_an_upload() {
        let test = Env::for_test(1);
        let env = &test.env;
        let activity = Activity::new(env.clock().clone());
        let lasting = || activity.lasting(Duration::from_secs(1));
        let upload = activity.upload(CheckpointId(7), "s3://b/job".to_owned());
        assert_eq!(lasting(), None);
        test.clock.advance(Duration::from_secs(2));
        let text = "uploading state of checkpoint 7 to s3://b/job for 2 s";
        assert_eq!(lasting().as_deref(), Some(text));
        activity.enter(&Arc::from("counts"), "process", env.clock().monotonic());
        test.clock.advance(Duration::from_secs(3));
        assert_eq!(lasting().as_deref(), Some("in process of counts for 3 s"));
        activity.leave();
        drop(upload);
        assert_eq!(lasting(), None);
    }
}
