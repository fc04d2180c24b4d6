//! Writing an object whose bytes come one after the other.

use std::collections::VecDeque;
use std::fmt;

use bytes::Bytes;
use futures::StreamExt;
use futures::stream::FuturesUnordered;
use millstream_env::{Clock, Spawner};
use millstream_types::{Checksum, MonoTime, ObjectName, StateHandle, WriteOutcome};
use object_store::{MultipartUpload, PutMultipartOptions, PutPayload, UploadPart};
use xxhash_rust::xxh3::Xxh3Default;

use super::{Store, StorePolicy};
use crate::answer::Answer;
use crate::error::{Operation, StoreError};

/// Parts under way at once; each holds its bytes in memory.
const PARTS_IN_FLIGHT: usize = 2;

/// How often an abort is tried. What is left then is swept by the store's own lifecycle rule.
const ABORTS_MAX: u32 = 3;

/// A new object being written. It appears only when [`Upload::finish`] succeeds; dropped before
/// that, what was sent is given up in the background. Small ones are written at once.
pub struct Upload {
    store: Store,
    name: ObjectName,
    buffered: VecDeque<Bytes>,
    buffered_bytes: usize,
    multipart: Multipart,
    parts: FuturesUnordered<UploadPart>,
    size: u64,
    hasher: Xxh3Default,
    started_at: MonoTime,
}

/// The parts sent so far. Dropping it aborts them.
struct Multipart {
    upload: Option<Box<dyn MultipartUpload>>,
    name: String,
    clock: Clock,
    policy: StorePolicy,
    spawner: Spawner,
}

impl Store {
    /// Begins a new object.
    pub fn upload(&self, name: &ObjectName) -> Upload {
        let shared = &self.shared;
        Upload {
            store: self.clone(),
            name: name.clone(),
            buffered: VecDeque::new(),
            buffered_bytes: 0,
            multipart: Multipart {
                upload: None,
                name: self.object(name),
                clock: shared.clock.clone(),
                policy: shared.policy,
                spawner: shared.spawner.clone(),
            },
            parts: FuturesUnordered::new(),
            size: 0,
            hasher: Xxh3Default::new(),
            started_at: shared.clock.monotonic(),
        }
    }
}

impl Upload {
    /// Adds bytes. Waits while too much is on its way.
    pub async fn write(&mut self, bytes: Bytes) -> Result<(), StoreError> {
        self.size += bytes.len() as u64;
        self.hasher.update(&bytes);
        self.buffered_bytes += bytes.len();
        self.buffered.push_back(bytes);
        let part_bytes = self.store.policy().part_bytes;
        // More than one part: exactly one part's worth is a small object still.
        while self.buffered_bytes > part_bytes {
            let part = self.take(part_bytes);
            self.send(part).await?;
        }
        Ok(())
    }

    /// Bytes added so far.
    pub fn size(&self) -> u64 {
        self.size
    }

    /// Checksum of the bytes added so far.
    pub fn checksum(&self) -> Checksum {
        Checksum(self.hasher.digest128())
    }

    /// Makes the object appear, whole, and returns its handle.
    pub async fn finish(mut self) -> Result<StateHandle, StoreError> {
        let last = self.take(self.buffered_bytes);
        if self.multipart.upload.is_none() {
            let bytes: Vec<u8> = last.into_iter().flatten().collect();
            self.store.create(&self.name, bytes.into()).await?;
            return Ok(self.handle());
        }
        self.send(last).await?;
        while !self.parts.is_empty() {
            self.await_part().await?;
        }
        self.complete().await?;
        Ok(self.handle())
    }

    /// Gives up what was sent and waits until that is done.
    pub async fn abort(mut self) {
        self.multipart.abort().await;
    }

    fn handle(&self) -> StateHandle {
        StateHandle::Object {
            name: self.name.clone(),
            size: self.size,
            checksum: self.checksum(),
        }
    }

    /// The first `n` buffered bytes.
    fn take(&mut self, n: usize) -> PutPayload {
        let mut taken = Vec::new();
        let mut missing = n;
        while missing > 0 {
            let Some(mut chunk) = self.buffered.pop_front() else {
                break;
            };
            if chunk.len() > missing {
                self.buffered.push_front(chunk.split_off(missing));
            }
            missing -= chunk.len();
            taken.push(chunk);
        }
        self.buffered_bytes -= n - missing;
        taken.into_iter().collect()
    }

    async fn send(&mut self, part: PutPayload) -> Result<(), StoreError> {
        if self.multipart.upload.is_none() {
            self.multipart.upload = Some(self.begin().await?);
        }
        if let Some(upload) = &mut self.multipart.upload {
            self.parts.push(upload.put_part(part));
        }
        while self.parts.len() >= PARTS_IN_FLIGHT {
            self.await_part().await?;
        }
        Ok(())
    }

    async fn begin(&mut self) -> Result<Box<dyn MultipartUpload>, StoreError> {
        let (shared, path) = (&self.store.shared, self.store.path(&self.name));
        let path = &path;
        let attempt = || async move {
            shared
                .uploads
                .put_multipart_opts(path, PutMultipartOptions::default())
                .await
        };
        self.store
            .run(Operation::Upload, &self.multipart.name, attempt)
            .await
    }

    /// Waits for any part under way. The store's client has retried a failed one already, and it
    /// cannot be sent again under its number: the upload fails.
    async fn await_part(&mut self) -> Result<(), StoreError> {
        let limit = self.store.policy().operation_timeout;
        match self.store.clock().timeout(limit, self.parts.next()).await {
            Ok(Some(Ok(())) | None) => Ok(()),
            Ok(Some(Err(error))) => Err(self.failed(WriteOutcome::DidNotHappen, Some(error))),
            Err(_elapsed) => Err(self.failed(WriteOutcome::DidNotHappen, None)),
        }
    }

    async fn complete(&mut self) -> Result<(), StoreError> {
        let Some(upload) = &mut self.multipart.upload else {
            return Ok(());
        };
        let limit = self.store.policy().operation_timeout;
        let lost = match self.store.clock().timeout(limit, upload.complete()).await {
            Ok(Ok(_)) => {
                self.multipart.upload = None;
                return Ok(());
            }
            Ok(Err(error)) => Some(error),
            Err(_elapsed) => None,
        };
        // The name has a nonce of ours: an object of this length under it is this upload's.
        if self.store.head(&self.name).await.ok().flatten() == Some(self.size) {
            self.multipart.upload = None;
            return Ok(());
        }
        Err(self.failed(WriteOutcome::MayHaveHappened, lost))
    }

    fn failed(&self, outcome: WriteOutcome, source: Option<object_store::Error>) -> StoreError {
        StoreError::Unavailable {
            operation: Operation::Upload,
            object: self.multipart.name.clone(),
            attempts: 1,
            elapsed: self.store.clock().monotonic() - self.started_at,
            outcome,
            source: source.map(Answer::boxed),
        }
    }
}

impl Multipart {
    async fn abort(&mut self) {
        if let Some(upload) = self.upload.take() {
            abort(upload, self.clock.clone(), self.policy).await;
        }
    }
}

impl Drop for Multipart {
    fn drop(&mut self) {
        if let Some(upload) = self.upload.take() {
            let abort = abort(upload, self.clock.clone(), self.policy);
            self.spawner
                .supervise(format!("abort upload of {}", self.name), abort);
        }
    }
}

async fn abort(mut upload: Box<dyn MultipartUpload>, clock: Clock, policy: StorePolicy) {
    for _ in 0..ABORTS_MAX {
        let aborted = clock.timeout(policy.attempt_timeout, upload.abort()).await;
        match aborted {
            Ok(Ok(()) | Err(object_store::Error::NotFound { .. })) => return,
            Ok(Err(_)) | Err(_) => clock.sleep(policy.backoff_initial).await,
        }
    }
}

impl fmt::Debug for Upload {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Upload")
            .field("name", &self.name)
            .field("size", &self.size)
            .finish()
    }
}
