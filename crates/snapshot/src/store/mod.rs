//! The façade over an object store: typed names, deadlines, retries, and an answer of *yes*, *no* or
//! *unknown* for every write.
//!
//! Invariants: no name is written twice; a write whose answer was lost is settled by reading back,
//! or reported as [`WriteOutcome::MayHaveHappened`]; bytes are handed out only
//! after their length was checked, and their checksum where a handle names one.

mod read;
mod retry;
mod upload;
mod write;

use std::fmt;
use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use millstream_env::fs::PublishError;
use millstream_env::{Clock, Env, Rng, Spawner};
use millstream_types::sabotage::{Rule, Sabotage};
use millstream_types::{CheckpointId, Epoch, JobId, ObjectName, WriteOutcome};
use object_store::ObjectStore;
use object_store::path::Path;
use parking_lot::Mutex;

pub use read::{Listing, PageMark, VerifiedReader};
pub use retry::StorePolicy;
pub use upload::Upload;
pub use write::Created;

use crate::answer::Answer;
use crate::error::{Operation, StoreError};
use crate::names::{CheckpointDir, Nonce};
use retry::{Attempts, RetryBudget};

/// A directory of objects. Cloning is cheap and shares the retry budget.
#[derive(Clone)]
pub struct Store {
    shared: Arc<Shared>,
    dir: Path,
}

struct Shared {
    objects: Arc<dyn ObjectStore>,
    /// The same objects through the client that sends the parts of uploads.
    uploads: Arc<dyn ObjectStore>,
    /// Where the root of `objects` lies, for messages: `s3://bucket`, `file:///data`, `memory://x`.
    address: String,
    clock: Clock,
    rng: Rng,
    sabotage: Sabotage,
    spawner: Spawner,
    policy: StorePolicy,
    budget: Mutex<RetryBudget>,
    counters: Counters,
}

#[derive(Default)]
struct Counters {
    attempts: AtomicU64,
    retries: AtomicU64,
    foreign_names: AtomicU64,
}

/// What a store and its directories did so far.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct StoreCounters {
    /// Requests made.
    pub attempts: u64,
    /// Of those, made again after a failure.
    pub retries: u64,
    /// Names seen in listings that we did not make. They are left alone.
    pub foreign_names: u64,
}

impl Store {
    /// A store over any object store. `address` is where its root lies, for messages.
    pub fn new(
        objects: Arc<dyn ObjectStore>,
        address: impl Into<String>,
        dir: Path,
        env: &Env,
        policy: StorePolicy,
    ) -> Self {
        let shared = Shared {
            uploads: objects.clone(),
            objects,
            address: address.into(),
            clock: env.clock().clone(),
            rng: env.rng().fork("store"),
            sabotage: env.sabotage(),
            spawner: env.spawner().clone(),
            budget: Mutex::new(RetryBudget::new(policy.retry_budget)),
            policy,
            counters: Counters::default(),
        };
        Self {
            shared: Arc::new(shared),
            dir,
        }
    }

    /// Sends the parts of uploads through another client of the same objects: one that repeats
    /// them, which is safe for parts alone.
    pub(crate) fn with_uploads(self, uploads: Arc<dyn ObjectStore>) -> Self {
        let Self { shared, dir } = self;
        let mut shared = Arc::into_inner(shared).expect("a new store has one owner");
        shared.uploads = uploads;
        Self {
            shared: Arc::new(shared),
            dir,
        }
    }

    /// The directory of one job.
    pub fn job(&self, job: JobId) -> Self {
        let dir = self.dir.clone().join(job.to_string());
        Self {
            shared: self.shared.clone(),
            dir,
        }
    }

    /// Where the directory lies, for people.
    pub fn address(&self) -> String {
        self.describe(&self.dir)
    }

    /// The whole address of an object, for people and messages.
    pub fn object(&self, name: &ObjectName) -> String {
        self.describe(&self.path(name))
    }

    /// A random number for a name that no other writer has.
    pub fn nonce(&self) -> Nonce {
        match self.shared.sabotage.removed(Rule::NameWithoutNonce) {
            true => Nonce(0),
            false => Nonce(self.shared.rng.nonce()),
        }
    }

    /// The directory of a new try at a checkpoint, which no other try has.
    pub fn new_checkpoint_dir(&self, checkpoint: CheckpointId, epoch: Epoch) -> CheckpointDir {
        CheckpointDir {
            checkpoint,
            epoch,
            nonce: self.nonce(),
        }
    }

    /// The clock that deadlines are measured by.
    pub fn clock(&self) -> &Clock {
        &self.shared.clock
    }

    /// The limits in force.
    pub fn policy(&self) -> &StorePolicy {
        &self.shared.policy
    }

    /// What was done so far, over all directories of this store.
    pub fn counters(&self) -> StoreCounters {
        let counters = &self.shared.counters;
        StoreCounters {
            attempts: counters.attempts.load(Ordering::Relaxed),
            retries: counters.retries.load(Ordering::Relaxed),
            foreign_names: counters.foreign_names.load(Ordering::Relaxed),
        }
    }

    pub(crate) fn rng(&self) -> &Rng {
        &self.shared.rng
    }

    fn path(&self, name: &ObjectName) -> Path {
        // An object name has no character that a path would have to escape.
        name.as_str()
            .split('/')
            .fold(self.dir.clone(), |path, segment| path.join(segment))
    }

    fn describe(&self, path: &Path) -> String {
        let address = self.shared.address.trim_end_matches('/');
        match path.as_ref() {
            "" => address.to_owned(),
            path => format!("{address}/{path}"),
        }
    }

    /// The name below this directory; none for what we did not make.
    fn name_of(&self, path: &Path) -> Option<ObjectName> {
        let below = match self.dir.as_ref() {
            "" => path.as_ref(),
            dir => path.as_ref().strip_prefix(dir)?.strip_prefix('/')?,
        };
        ObjectName::new(below).ok()
    }

    /// Makes attempts until one succeeds, says no for good, or attempts, time or budget are used up.
    async fn run<T, Fut>(
        &self,
        operation: Operation,
        object: &str,
        attempt: impl Fn() -> Fut,
    ) -> Result<T, StoreError>
    where
        Fut: Future<Output = object_store::Result<T>>,
    {
        let Shared {
            clock,
            policy,
            budget,
            counters,
            rng,
            ..
        } = &*self.shared;
        let mut attempts = Attempts::new(clock.monotonic(), policy);
        loop {
            let until = attempts.begin(clock.monotonic(), policy);
            counters.attempts.fetch_add(1, Ordering::Relaxed);
            let failure = match clock.timeout(until - clock.monotonic(), attempt()).await {
                Ok(Ok(value)) => {
                    budget.lock().on_success();
                    return Ok(value);
                }
                Ok(Err(error)) => Some(transient(operation, object, attempts.made(), error)?),
                Err(_elapsed) => None,
            };
            let now = clock.monotonic();
            let retry_at = attempts.retry_at(now, policy, &mut budget.lock(), rng.u64());
            let Some(retry_at) = retry_at else {
                // An earlier attempt's write may have happened, whatever became of the last.
                let certain = attempts.made() == 1;
                return Err(StoreError::Unavailable {
                    operation,
                    object: object.to_owned(),
                    attempts: attempts.made(),
                    elapsed: attempts.elapsed(now),
                    outcome: outcome(operation, failure.as_ref().filter(|_| certain)),
                    source: failure.map(Answer::boxed),
                });
            };
            counters.retries.fetch_add(1, Ordering::Relaxed);
            clock.sleep_until(retry_at).await;
        }
    }
}

impl fmt::Debug for Store {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Store").field(&self.address()).finish()
    }
}

/// Hands back what may pass by itself; the rest is an answer.
fn transient(
    operation: Operation,
    object: &str,
    attempts: u32,
    error: object_store::Error,
) -> Result<object_store::Error, StoreError> {
    use object_store::Error;
    let object = object.to_owned();
    match error {
        // A create or an upload that "finds nothing" lacks its bucket.
        Error::NotFound { .. } if matches!(operation, Operation::Read | Operation::Head) => {
            Err(StoreError::NotFound { object })
        }
        Error::NotFound { .. }
        | Error::InvalidPath { .. }
        | Error::NotSupported { .. }
        | Error::NotImplemented { .. }
        | Error::PermissionDenied { .. }
        | Error::Unauthenticated { .. }
        | Error::UnknownConfigurationKey { .. } => Err(StoreError::Refused {
            operation,
            object,
            outcome: match attempts {
                0 | 1 => WriteOutcome::DidNotHappen,
                _ => operation.outcome_without_answer(),
            },
            source: Answer::boxed(error),
        }),
        other => Ok(other),
    }
}

/// What is known of a write after this failure: a local directory tells which step failed.
fn outcome(operation: Operation, failure: Option<&object_store::Error>) -> WriteOutcome {
    match failure {
        Some(object_store::Error::Generic { source, .. }) => source
            .downcast_ref::<PublishError>()
            .map_or(operation.outcome_without_answer(), |error| error.outcome),
        Some(_) | None => operation.outcome_without_answer(),
    }
}

#[cfg(test)]
mod tests;
