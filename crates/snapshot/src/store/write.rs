//! Creating and deleting objects.

use std::collections::BTreeSet;

use bytes::Bytes;
use futures::StreamExt;
use futures::stream;
use millstream_types::sabotage::Rule;
use millstream_types::{ObjectName, WriteOutcome};
use object_store::path::Path;
use object_store::{PutMode, PutPayload};
use parking_lot::Mutex;

use super::Store;
use crate::answer::Answer;
use crate::error::{Operation, StoreError};

/// Answer to a create.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Created {
    /// The object is ours.
    New,
    /// The name was taken when the store looked; or, on S3, another create of it was under way.
    /// Only reading the name tells.
    Exists,
}

/// What a name holds, compared with what we wanted to write.
enum ReadBack {
    Absent,
    Ours,
    Foreign,
}

/// A create that meets a rival's unfinished create is answered "exists" although nothing does
/// (409 on S3). More of these in a row than this are not a coincidence.
const CONFLICTS_MAX: u32 = 4;

/// Most names that one request deletes.
const DELETE_BATCH: usize = 1_000;

impl Store {
    /// Writes a new object and does not return before it is known to be there. Succeeds also if
    /// the name holds exactly these bytes already: an earlier attempt of ours wrote them.
    pub async fn create(&self, name: &ObjectName, bytes: Bytes) -> Result<(), StoreError> {
        let object = self.object(name);
        let started_at = self.clock().monotonic();
        for _ in 0..CONFLICTS_MAX {
            let attempt = || self.put(name, bytes.clone(), PutMode::Create);
            let lost = match self.run(Operation::Create, &object, attempt).await {
                Ok(Created::New) => return Ok(()),
                Ok(Created::Exists) => None,
                Err(error) if error.is_transient() => Some(error),
                Err(error) => return Err(error),
            };
            match (self.read_back(name, &bytes).await, lost) {
                (Ok(ReadBack::Ours), _) => return Ok(()),
                (Ok(ReadBack::Foreign), _) => return Err(StoreError::Taken { object }),
                (Ok(ReadBack::Absent), None) => {
                    let pause = self.rng().jitter(self.policy().backoff_initial, 0.5);
                    self.clock().sleep(pause).await;
                }
                // It may still land: absent now is not "did not happen".
                (Ok(ReadBack::Absent) | Err(_), Some(lost)) => return Err(lost),
                (Err(error), None) => return Err(undecided(error)),
            }
        }
        Err(StoreError::Unavailable {
            operation: Operation::Create,
            object,
            attempts: CONFLICTS_MAX,
            elapsed: self.clock().monotonic() - started_at,
            outcome: WriteOutcome::MayHaveHappened,
            source: None,
        })
    }

    /// One attempt at a create, for a caller that settles the outcome itself (the claim chain).
    pub async fn create_once(
        &self,
        name: &ObjectName,
        bytes: Bytes,
    ) -> Result<Created, StoreError> {
        self.put_once(name, bytes, PutMode::Create).await
    }

    /// The same for an entry of the claim chain (fence F2).
    pub(crate) async fn create_entry(
        &self,
        name: &ObjectName,
        bytes: Bytes,
    ) -> Result<Created, StoreError> {
        let mode = match self.shared.sabotage.removed(Rule::OverwriteEntry) {
            true => PutMode::Overwrite,
            false => PutMode::Create,
        };
        self.put_once(name, bytes, mode).await
    }

    async fn put_once(
        &self,
        name: &ObjectName,
        bytes: Bytes,
        mode: PutMode,
    ) -> Result<Created, StoreError> {
        let object = self.object(name);
        let started_at = self.clock().monotonic();
        let lost = |source: Option<object_store::Error>| StoreError::Unavailable {
            operation: Operation::Create,
            object: object.clone(),
            attempts: 1,
            elapsed: self.clock().monotonic() - started_at,
            outcome: super::outcome(Operation::Create, source.as_ref()),
            source: source.map(Answer::boxed),
        };
        let limit = self.policy().attempt_timeout;
        let put = self.put(name, bytes, mode);
        match self.clock().timeout(limit, put).await {
            Ok(Ok(created)) => Ok(created),
            Ok(Err(error)) => {
                let error = super::transient(Operation::Create, &object, 1, error)?;
                Err(lost(Some(error)))
            }
            Err(_elapsed) => Err(lost(None)),
        }
    }

    /// Deletes objects; those that do not exist count as deleted. On failure some may be left,
    /// and deleting the same names again is safe.
    pub async fn delete(&self, names: &[ObjectName]) -> Result<(), StoreError> {
        for batch in names.chunks(DELETE_BATCH) {
            let object = match batch {
                [one] => self.object(one),
                many => format!("{} objects in {}", many.len(), self.address()),
            };
            let left: Mutex<BTreeSet<Path>> =
                Mutex::new(batch.iter().map(|name| self.path(name)).collect());
            let left = &left;
            self.run(Operation::Delete, &object, || self.delete_round(left))
                .await?;
        }
        Ok(())
    }

    async fn put(
        &self,
        name: &ObjectName,
        bytes: Bytes,
        mode: PutMode,
    ) -> object_store::Result<Created> {
        let payload = PutPayload::from_bytes(bytes);
        let path = self.path(name);
        match self
            .shared
            .objects
            .put_opts(&path, payload, mode.into())
            .await
        {
            Ok(_) => Ok(Created::New),
            Err(
                object_store::Error::AlreadyExists { .. }
                | object_store::Error::Precondition { .. }
                | object_store::Error::NotModified { .. },
            ) => Ok(Created::Exists),
            Err(error) => Err(error),
        }
    }

    async fn read_back(&self, name: &ObjectName, ours: &Bytes) -> Result<ReadBack, StoreError> {
        let found = match self.head(name).await? {
            None => return Ok(ReadBack::Absent),
            Some(size) if size != ours.len() as u64 => return Ok(ReadBack::Foreign),
            Some(size) => self.get(name, size).await,
        };
        match found {
            Ok(bytes) if bytes == *ours => Ok(ReadBack::Ours),
            Ok(_) => Ok(ReadBack::Foreign),
            Err(StoreError::NotFound { .. }) => Ok(ReadBack::Absent),
            Err(error) => Err(error),
        }
    }

    /// Asks for everything that is left to be deleted and strikes off what is.
    async fn delete_round(&self, left: &Mutex<BTreeSet<Path>>) -> object_store::Result<()> {
        let paths: Vec<Path> = left.lock().iter().cloned().collect();
        let requests = stream::iter(paths.into_iter().map(Ok)).boxed();
        let mut answers = self.shared.objects.delete_stream(requests);
        let mut failure = None;
        let mut n_missing = 0;
        while let Some(answer) = answers.next().await {
            match answer {
                Ok(path) => {
                    left.lock().remove(&path);
                }
                Err(object_store::Error::NotFound { .. }) => n_missing += 1,
                Err(error) => failure = Some(error),
            }
        }
        match failure {
            Some(error) => Err(error),
            // Every answer was "deleted" or "not there".
            None if left.lock().len() <= n_missing => Ok(()),
            None => Err(object_store::Error::Generic {
                store: "deletion",
                source: "the store left requests without an answer".into(),
            }),
        }
    }
}

/// A failed read-back leaves open what became of the write.
fn undecided(error: StoreError) -> StoreError {
    match error {
        StoreError::Unavailable {
            object,
            attempts,
            elapsed,
            source,
            ..
        } => StoreError::Unavailable {
            operation: Operation::Create,
            object,
            attempts,
            elapsed,
            outcome: WriteOutcome::MayHaveHappened,
            source,
        },
        other => other,
    }
}
