//! What changed since a checkpoint, in files of the attempt's directory: what reaches the database
//! is noted here on its way, until a completed checkpoint holds it.

use std::collections::VecDeque;
use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use bytes::{Bytes, BytesMut};
use millstream_state::format::{Contents, SnapshotHeader, SnapshotWriter};
use millstream_state::{
    Sharing, SinkError, SnapshotFiles, SnapshotSink, SnapshotSummary, StateError,
};
use millstream_types::{CheckpointId, KeyGroup, StateHandle};
use parking_lot::Mutex;

use crate::error;
use crate::ledger::{Ledger, Pending, Plan};

/// Bytes of a file that are read at once.
const CHUNK_BYTES: usize = 1 << 20;

/// The changes of one backend, shared by its task and the thread of a snapshot.
#[derive(Debug)]
pub(crate) struct Journal {
    directory: PathBuf,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    header: SnapshotHeader,
    ledger: Ledger,
    /// Changes that are complete, the oldest first.
    files: VecDeque<Arc<ChangeFile>>,
    /// The place behind the last file.
    end: u64,
    open: Option<OpenFile>,
    /// The number of the next file.
    next_name: u64,
}

/// A local file, which goes with its last use.
#[derive(Debug)]
struct LocalFile(PathBuf);

impl Drop for LocalFile {
    fn drop(&mut self) {
        // What is left goes with the directory.
        let _ = fs::remove_file(&self.0);
    }
}

/// A file that is being written.
struct OpenFile {
    writer: SnapshotWriter<LocalSink>,
    file: LocalFile,
    /// The highest key group in it.
    last: KeyGroup,
}

impl std::fmt::Debug for OpenFile {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("OpenFile").field(&self.file).finish()
    }
}

/// Changes in key order.
#[derive(Debug)]
pub(crate) struct ChangeFile {
    file: LocalFile,
    summary: SnapshotSummary,
}

/// What a snapshot is made of.
pub(crate) enum Cut {
    /// Everything.
    All(Sharing),
    /// Files in storage, and then local ones.
    Changes {
        behind: Vec<StateHandle>,
        files: Vec<Arc<ChangeFile>>,
    },
}

impl Journal {
    /// Nothing is noted until the first snapshot.
    pub(crate) fn new(directory: PathBuf, header: SnapshotHeader, small_bytes: u64) -> Self {
        let header = SnapshotHeader {
            contents: Contents::Changes,
            ..header
        };
        Self {
            directory,
            state: Mutex::new(State {
                header,
                ledger: Ledger::new(small_bytes),
                files: VecDeque::new(),
                end: 0,
                open: None,
                next_name: 0,
            }),
        }
    }

    /// Changes from here on stand behind these files of a completed checkpoint.
    pub(crate) fn adopt(&self, header: SnapshotHeader, files: &[StateHandle]) {
        let state = &mut *self.state.lock();
        state.ledger.adopt(header.checkpoint, files);
        state.begin(header);
    }

    /// A snapshot begins: what is noted from here on is first part of it, or of a later one.
    pub(crate) fn begin(&self, header: SnapshotHeader) {
        self.state.lock().begin(header);
    }

    /// Notes what is about to reach the database: entries in key order, of one key group or of all.
    /// `each` hands out every entry; it is not called, and false returned, where nothing needs to be
    /// noted. What comes next waits for what came before: one thread at a time drains.
    pub(crate) fn note(
        &self,
        group: Option<KeyGroup>,
        each: impl FnOnce(&mut Note<'_>) -> Result<(), StateError>,
    ) -> Result<bool, StateError> {
        let noted = self.try_note(group, each);
        if noted.is_err() {
            self.reset();
        }
        noted
    }

    fn try_note(
        &self,
        group: Option<KeyGroup>,
        each: impl FnOnce(&mut Note<'_>) -> Result<(), StateError>,
    ) -> Result<bool, StateError> {
        let Some(mut open) = self.state.lock().writable(&self.directory, group)? else {
            return Ok(false);
        };
        // Not under the lock: a whole map takes a while, and the task has other things to say.
        each(&mut Note(&mut open.writer))?;
        let state = &mut *self.state.lock();
        state.open = Some(open);
        if group.is_none() {
            state.close()?;
        }
        Ok(true)
    }

    /// Some change may be missing from here on, or cannot be read: the next snapshot is of
    /// everything.
    pub(crate) fn reset(&self) {
        self.state.lock().reset();
    }

    /// Decides what the snapshot for a checkpoint is made of; all in front of it has been noted.
    pub(crate) fn cut(&self, checkpoint: CheckpointId, live_bytes: u64) -> Result<Cut, StateError> {
        let state = &mut *self.state.lock();
        if let Err(error) = state.close() {
            state.reset();
            return Err(error);
        }
        let (end, pending) = (state.end, state.pending());
        let plan = state.ledger.plan(checkpoint, end, pending, live_bytes);
        // One that was awaited may have been given up for it.
        state.forget();
        Ok(match plan {
            Plan::Alone => Cut::All(Sharing::Private),
            Plan::All => Cut::All(Sharing::Shared),
            Plan::Changes { behind, from } => Cut::Changes {
                behind,
                files: state.from(from),
            },
        })
    }

    /// All files of a snapshot are stored.
    pub(crate) fn stored(&self, checkpoint: CheckpointId, files: &[StateHandle]) {
        self.state.lock().ledger.stored(checkpoint, files);
    }

    /// A checkpoint is complete: changes that are in it are not needed any more.
    pub(crate) fn completed(&self, checkpoint: CheckpointId) {
        let state = &mut *self.state.lock();
        state.ledger.completed(checkpoint);
        state.forget();
    }
}

impl State {
    fn begin(&mut self, header: SnapshotHeader) {
        self.header = SnapshotHeader {
            contents: Contents::Changes,
            ..header
        };
    }

    /// The file for entries of a key group, or of all; none if nothing needs to be noted.
    fn writable(
        &mut self,
        directory: &Path,
        group: Option<KeyGroup>,
    ) -> Result<Option<OpenFile>, StateError> {
        if self.ledger.needs_from().is_none() {
            return Ok(None);
        }
        // A file holds groups in order; a whole map is a file of its own.
        let follows = |open: &mut OpenFile| group.is_some_and(|group| group > open.last);
        let mut open = match self.open.take_if(follows) {
            Some(open) => open,
            None => {
                self.close()?;
                self.new_file(directory)?
            }
        };
        if let Some(group) = group {
            open.last = group;
        }
        Ok(Some(open))
    }

    fn new_file(&mut self, directory: &Path) -> Result<OpenFile, StateError> {
        fs::create_dir_all(directory).map_err(|e| error::file("create", directory, e))?;
        let path = directory.join(format!("{:06}.changes", self.next_name));
        self.next_name += 1;
        let opened = File::create_new(&path).map_err(|e| error::file("create", &path, e))?;
        let file = LocalFile(path);
        Ok(OpenFile {
            writer: SnapshotWriter::new(&self.header, LocalSink(opened))?,
            file,
            last: KeyGroup(0),
        })
    }

    fn close(&mut self) -> Result<(), StateError> {
        if let Some(open) = self.open.take() {
            let summary = open.writer.finish()?;
            let file = open.file;
            self.files.push_back(Arc::new(ChangeFile { file, summary }));
            self.end += 1;
            if self.ledger.is_too_much(self.pending().bytes) {
                self.reset();
            }
        }
        Ok(())
    }

    fn pending(&self) -> Pending {
        Pending {
            files: self.files.len(),
            bytes: self.files.iter().map(|file| file.summary.bytes).sum(),
        }
    }

    fn reset(&mut self) {
        self.open = None;
        self.ledger.reset();
        self.forget();
    }

    /// The files from a place on.
    fn from(&self, place: u64) -> Vec<Arc<ChangeFile>> {
        let first = self.end - self.files.len() as u64;
        let skipped = place.saturating_sub(first) as usize;
        self.files.iter().skip(skipped).cloned().collect()
    }

    fn forget(&mut self) {
        let needed = self.ledger.needs_from().unwrap_or(self.end);
        while self.end - (self.files.len() as u64) < needed {
            self.files.pop_front();
        }
    }
}

/// Where noted entries go.
pub(crate) struct Note<'a>(&'a mut SnapshotWriter<LocalSink>);

impl Note<'_> {
    /// A value, or a deletion. Keys ascend.
    pub(crate) fn entry(&mut self, key: &[u8], stored: Option<&[u8]>) -> Result<(), StateError> {
        match stored {
            Some(stored) => self.0.entry(key, stored),
            None => self.0.deletion(key),
        }
    }
}

impl ChangeFile {
    /// Hands the file on as the next one of a snapshot.
    pub(crate) fn upload(
        &self,
        files: &mut dyn SnapshotFiles,
    ) -> Result<SnapshotSummary, StateError> {
        let bad = |e| error::file("read", &self.file.0, e);
        let mut file = File::open(&self.file.0).map_err(bad)?;
        let sink = files.begin(Sharing::Shared);
        let mut sent = 0;
        while sent < self.summary.bytes {
            let left = self.summary.bytes - sent;
            let mut chunk = BytesMut::zeroed(left.min(CHUNK_BYTES as u64) as usize);
            file.read_exact(&mut chunk).map_err(bad)?;
            let bytes = chunk.len() as u64;
            sink.write(chunk.freeze())
                .map_err(|e| StateError::of_sink(e, sent))?;
            sent += bytes;
        }
        files
            .finish(&self.summary)
            .map_err(|e| StateError::of_sink(e, sent))?;
        Ok(self.summary.clone())
    }
}

/// A local file as a sink.
struct LocalSink(File);

impl SnapshotSink for LocalSink {
    fn write(&mut self, chunk: Bytes) -> Result<(), SinkError> {
        let written: io::Result<()> = self.0.write_all(&chunk);
        written.map_err(|error| SinkError::Failed(Box::new(error)))
    }
}
