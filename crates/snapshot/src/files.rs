//! The files of one snapshot on their way to storage: what was there already, and what is new.
//!
//! The thread of the snapshot writes into [`SnapshotUploads`], which takes one file after the other;
//! a task of the I/O runtime drives the [`ComingFiles`] at the other end, in the same order.

use millstream_env::StopSignal;
use millstream_state::{Sharing, SinkError, SnapshotFiles, SnapshotSink, SnapshotSummary};
use millstream_types::{ObjectName, StateHandle, SubtaskId};
use tokio::sync::mpsc;

use crate::error::StoreError;
use crate::names::CheckpointDir;
use crate::upload::{ChunkSink, Pace, Placement, SnapshotUpload, SnapshotUploader};

/// Takes the files of a snapshot. Dropped within a file, that file's upload is given up.
pub struct SnapshotUploads {
    uploader: SnapshotUploader,
    dir: CheckpointDir,
    subtask: SubtaskId,
    pace: Pace,
    cancel: StopSignal,
    coming: mpsc::UnboundedSender<Coming>,
    open: Option<ChunkSink>,
}

/// The next file.
enum Coming {
    Stored(StateHandle),
    Upload(SnapshotUpload),
}

/// The files of a snapshot, as they come.
pub struct ComingFiles(mpsc::UnboundedReceiver<Coming>);

impl SnapshotUploads {
    /// Both ends. Files of this checkpoint alone go into `dir`; `cancel` gives all of it up.
    pub fn begin(
        uploader: &SnapshotUploader,
        dir: CheckpointDir,
        subtask: SubtaskId,
        pace: Pace,
        cancel: StopSignal,
    ) -> (Self, ComingFiles) {
        let (coming, receiver) = mpsc::unbounded_channel();
        let uploads = Self {
            uploader: uploader.clone(),
            dir,
            subtask,
            pace,
            cancel,
            coming,
            open: None,
        };
        (uploads, ComingFiles(receiver))
    }

    fn send(&self, coming: Coming) -> Result<(), SinkError> {
        self.coming.send(coming).map_err(|_| SinkError::Cancelled)
    }
}

impl SnapshotFiles for SnapshotUploads {
    fn reuse(&mut self, file: &StateHandle) -> Result<(), SinkError> {
        self.send(Coming::Stored(file.clone()))
    }

    fn begin(&mut self, sharing: Sharing) -> &mut dyn SnapshotSink {
        let placement = match sharing {
            Sharing::Private => Placement::Private(self.dir, self.subtask),
            Sharing::Shared => Placement::Shared(self.dir.epoch, self.subtask),
        };
        let cancel = self.cancel.clone();
        let (sink, upload) = self.uploader.begin(placement, self.pace, cancel);
        // Where nobody takes it any more, the sink says so.
        let _ = self.send(Coming::Upload(upload));
        self.open.insert(sink)
    }

    fn finish(&mut self, summary: &SnapshotSummary) -> Result<(), SinkError> {
        match self.open.take() {
            Some(sink) => sink.finish(summary),
            None => Err(SinkError::Failed("no file was begun".into())),
        }
    }
}

impl ComingFiles {
    /// Stores what comes until the other end is dropped; the handles of all files in their order.
    /// `stored` gets the names of the objects that are new, also of those in front of an error.
    pub async fn run(
        mut self,
        stored: &mut Vec<ObjectName>,
    ) -> Result<Vec<StateHandle>, StoreError> {
        let mut handles = Vec::new();
        while let Some(coming) = self.0.recv().await {
            handles.push(match coming {
                Coming::Stored(handle) => handle,
                Coming::Upload(upload) => {
                    let handle = upload.run().await?;
                    stored.extend(handle.object().cloned());
                    handle
                }
            });
        }
        Ok(handles)
    }
}

impl std::fmt::Debug for SnapshotUploads {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("SnapshotUploads")
            .field("dir", &self.dir)
            .finish_non_exhaustive()
    }
}
