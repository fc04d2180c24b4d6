//! State on its way from a subtask to storage.
//!
//! A snapshot thread writes chunks into a [`ChunkSink`]; a task of the I/O runtime drives the
//! [`SnapshotUpload`] at the other end. Little state becomes part of the acknowledgement, more an
//! object with a name of its own. Giving up at either end gives up the upload.

use bytes::Bytes;
use millstream_env::StopSignal;
use millstream_state::{SinkError, SnapshotSink, SnapshotSummary};
use millstream_types::{Checksum, Epoch, ObjectName, StateHandle, SubtaskId};
use tokio::sync::mpsc;

use crate::error::{Mismatch, Operation, StoreError};
use crate::names::{self, CheckpointDir};
use crate::store::{Store, Upload};

/// State of at most this many bytes is inlined unless configured otherwise (B10.11).
pub const INLINE_BYTES_DEFAULT: usize = 20 * 1024;

/// Chunks between the snapshot thread and the upload; a full channel slows the thread down.
const CHUNKS_IN_FLIGHT: usize = 16;

/// Whose state it is, and so how it is named.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Placement {
    /// Belongs to this checkpoint alone and is deleted with it.
    Private(CheckpointDir, SubtaskId),
    /// Later checkpoints may refer to it too.
    Shared(Epoch, SubtaskId),
}

/// Where the snapshot work runs.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Pace {
    /// On a thread of its own, which waits while the upload is behind.
    Thread,
    /// On the thread that also drives the upload (a simulated host has one only): chunks pile up
    /// in memory instead.
    Inline,
}

/// Uploads the state of the subtasks of one job.
#[derive(Clone, Debug)]
pub struct SnapshotUploader {
    store: Store,
    inline_bytes: usize,
}

impl SnapshotUploader {
    /// Uploads into the directory of a job. State of at most `inline_bytes` is kept in its handle.
    pub fn new(job_store: Store, inline_bytes: usize) -> Self {
        Self {
            store: job_store,
            inline_bytes,
        }
    }

    /// Where the directory of the job lies, for people.
    pub fn address(&self) -> String {
        self.store.address()
    }

    /// Both ends of an upload whose bytes are yet to be produced. `cancel` gives it up.
    pub fn begin(
        &self,
        placement: Placement,
        pace: Pace,
        cancel: StopSignal,
    ) -> (ChunkSink, SnapshotUpload) {
        let nonce = self.store.nonce();
        let name = match placement {
            Placement::Private(dir, subtask) => dir.private(subtask, nonce),
            Placement::Shared(epoch, subtask) => names::shared(epoch, subtask, nonce),
        };
        let (sender, receiver) = match pace {
            Pace::Thread => {
                let (sender, receiver) = mpsc::channel(CHUNKS_IN_FLIGHT);
                (Sender::Bounded(sender), Receiver::Bounded(receiver))
            }
            Pace::Inline => {
                let (sender, receiver) = mpsc::unbounded_channel();
                (Sender::Unbounded(sender), Receiver::Unbounded(receiver))
            }
        };
        let upload = SnapshotUpload {
            store: self.store.clone(),
            name,
            inline_bytes: match placement {
                Placement::Private(..) => self.inline_bytes,
                // Each checkpoint that refers to it would repeat it.
                Placement::Shared(..) => 0,
            },
            receiver,
            cancel,
        };
        (ChunkSink { sender }, upload)
    }

    /// Uploads bytes that are there already.
    pub async fn upload(
        &self,
        placement: Placement,
        bytes: Bytes,
        cancel: StopSignal,
    ) -> Result<StateHandle, StoreError> {
        let (sink, upload) = self.begin(placement, Pace::Inline, cancel);
        let end = End {
            bytes: bytes.len() as u64,
            checksum: Checksum::of(&bytes),
        };
        // The upload holds the other end, so both are taken.
        let _ = sink.sender.send(Message::Chunk(bytes));
        let _ = sink.sender.send(Message::End(end));
        upload.run().await
    }
}

enum Message {
    Chunk(Bytes),
    End(End),
}

#[derive(Clone, Copy)]
struct End {
    bytes: u64,
    checksum: Checksum,
}

enum Sender {
    Bounded(mpsc::Sender<Message>),
    Unbounded(mpsc::UnboundedSender<Message>),
}

enum Receiver {
    Bounded(mpsc::Receiver<Message>),
    Unbounded(mpsc::UnboundedReceiver<Message>),
}

impl Sender {
    fn send(&self, message: Message) -> Result<(), SinkError> {
        let gone = match self {
            Self::Bounded(sender) => sender.blocking_send(message).is_err(),
            Self::Unbounded(sender) => sender.send(message).is_err(),
        };
        if gone {
            Err(SinkError::Cancelled)
        } else {
            Ok(())
        }
    }
}

impl Receiver {
    async fn next(&mut self) -> Option<Message> {
        match self {
            Self::Bounded(receiver) => receiver.recv().await,
            Self::Unbounded(receiver) => receiver.recv().await,
        }
    }
}

/// Takes the bytes of a snapshot. Dropped before [`ChunkSink::finish`], the upload is given up.
pub struct ChunkSink {
    sender: Sender,
}

impl ChunkSink {
    /// Everything was written; the upload may complete if it received exactly that.
    pub fn finish(self, summary: &SnapshotSummary) -> Result<(), SinkError> {
        let end = End {
            bytes: summary.bytes,
            checksum: summary.checksum,
        };
        self.sender.send(Message::End(end))
    }
}

impl SnapshotSink for ChunkSink {
    fn write(&mut self, chunk: Bytes) -> Result<(), SinkError> {
        self.sender.send(Message::Chunk(chunk))
    }
}

impl std::fmt::Debug for ChunkSink {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("ChunkSink")
    }
}

/// The end of an upload that speaks to storage.
pub struct SnapshotUpload {
    store: Store,
    name: ObjectName,
    inline_bytes: usize,
    receiver: Receiver,
    cancel: StopSignal,
}

impl SnapshotUpload {
    /// Receives all bytes and returns their handle once they are durable. When cancelled, or when
    /// the sink is dropped unfinished, nothing appears and what was sent is removed.
    pub async fn run(self) -> Result<StateHandle, StoreError> {
        let (object, cancel) = (self.store.object(&self.name), self.cancel.clone());
        // Dropping the receiving future drops the upload, which aborts what it sent.
        tokio::select! {
            biased;
            () = cancel.cancelled() => {
                Err(StoreError::Cancelled { operation: Operation::Upload, object })
            }
            received = self.receive() => received,
        }
    }

    async fn receive(mut self) -> Result<StateHandle, StoreError> {
        let mut small: Vec<u8> = Vec::new();
        let mut large: Option<Upload> = None;
        loop {
            match self.receiver.next().await {
                Some(Message::Chunk(chunk)) => match &mut large {
                    Some(upload) => upload.write(chunk).await?,
                    None if small.len() + chunk.len() <= self.inline_bytes => small.extend(chunk),
                    None => {
                        let upload = large.insert(self.store.upload(&self.name));
                        upload.write(std::mem::take(&mut small).into()).await?;
                        upload.write(chunk).await?;
                    }
                },
                Some(Message::End(end)) => return self.finish(small, large, end).await,
                None => {
                    let object = self.store.object(&self.name);
                    return Err(StoreError::Cancelled {
                        operation: Operation::Upload,
                        object,
                    });
                }
            }
        }
    }

    /// What arrived must be what was produced: memory and channel are checked as the store is.
    async fn finish(
        &self,
        small: Vec<u8>,
        large: Option<Upload>,
        end: End,
    ) -> Result<StateHandle, StoreError> {
        let (bytes, checksum) = match &large {
            Some(upload) => (upload.size(), upload.checksum()),
            None => (small.len() as u64, Checksum::of(&small)),
        };
        if let Some(mismatch) = Mismatch::between(end.bytes, end.checksum, bytes, checksum) {
            return Err(StoreError::Corrupt {
                object: self.store.object(&self.name),
                mismatch,
            });
        }
        match large {
            Some(upload) => upload.finish().await,
            None => Ok(StateHandle::Inline(small.into())),
        }
    }
}

impl std::fmt::Debug for SnapshotUpload {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("SnapshotUpload")
            .field("name", &self.name)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;
