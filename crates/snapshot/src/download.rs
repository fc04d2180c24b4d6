//! State on its way from storage to a subtask that restores.
//!
//! Nothing is handed out before its length and checksum were compared with its handle.

use std::io::{ErrorKind, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

use bytes::{Bytes, BytesMut};
use millstream_env::fs::{File, FsError, OpenMode};
use millstream_env::{Env, StopSignal, TaskError};
use millstream_state::SnapshotSource;
use millstream_types::{Disposition, StateHandle};

use crate::error::{Operation, StoreError};
use crate::store::Store;

/// State that could not be fetched.
#[derive(Debug, thiserror::Error)]
pub enum DownloadError {
    /// The store did not give it, or gave something else.
    #[error("state is out of reach")]
    Store(#[from] StoreError),
    /// It could not be kept here.
    #[error("state cannot be kept in a local file")]
    Local(#[from] FsError),
    /// The work ended before it was done.
    #[error("the download ended early")]
    Task(#[from] TaskError),
}

impl DownloadError {
    /// What the scheduler does about it.
    pub fn disposition(&self) -> Disposition {
        match self {
            Self::Store(error) => error.disposition(),
            Self::Local(_) | Self::Task(_) => Disposition::FailTask,
        }
    }

    /// What an operator can do about it.
    pub fn remedy(&self) -> String {
        match self {
            Self::Store(error) => error.remedy(),
            Self::Local(error) => format!(
                "Check space and rights of the state directory: {:?}.",
                error.path
            ),
            Self::Task(_) => "None: the task is restarted.".into(),
        }
    }
}

/// Fetches state into memory.
pub async fn to_memory(
    store: &Store,
    handle: &StateHandle,
    cancel: &StopSignal,
) -> Result<BytesSource, StoreError> {
    let fetch = async {
        match handle {
            StateHandle::Inline(bytes) => Ok(Bytes::copy_from_slice(bytes)),
            StateHandle::Object {
                name,
                size,
                checksum,
            } => {
                let mut reader = store.reader(name, *size, *checksum);
                // The size was looked up and agrees with the handle once there is a first part.
                let mut all = BytesMut::new();
                while let Some(part) = reader.next().await? {
                    all.extend_from_slice(&part);
                }
                Ok(all.freeze())
            }
        }
    };
    cancellable(store, handle, cancel, fetch)
        .await
        .map(BytesSource)
}

/// Fetches state into a local file in `dir` without a name: it goes with what is returned, or with the
/// process.
pub async fn to_file(
    store: &Store,
    handle: &StateHandle,
    dir: &Path,
    env: &Env,
    cancel: &StopSignal,
) -> Result<FileSource, DownloadError> {
    cancellable(store, handle, cancel, fetch_into(store, handle, dir, env)).await
}

async fn fetch_into(
    store: &Store,
    handle: &StateHandle,
    dir: &Path,
    env: &Env,
) -> Result<FileSource, DownloadError> {
    let mut target = LocalFile::create(env, dir).await?;
    match handle {
        StateHandle::Inline(bytes) => {
            target = target.append(env, Bytes::copy_from_slice(bytes)).await?;
        }
        StateHandle::Object {
            name,
            size,
            checksum,
        } => {
            let mut reader = store.reader(name, *size, *checksum);
            while let Some(part) = reader.next().await? {
                target = target.append(env, part).await?;
            }
        }
    }
    let bytes = handle.size();
    let check = env
        .spawner()
        .blocking("check download", move || target.into_source(bytes));
    Ok(check.await??)
}

async fn cancellable<T, E: From<StoreError>>(
    store: &Store,
    handle: &StateHandle,
    cancel: &StopSignal,
    work: impl Future<Output = Result<T, E>>,
) -> Result<T, E> {
    tokio::select! {
        biased;
        () = cancel.cancelled() => {
            let object = handle.object().map_or_else(|| "inline state".into(), |n| store.object(n));
            Err(StoreError::Cancelled { operation: Operation::Read, object }.into())
        }
        done = work => done,
    }
}

/// A file being written by blocking work.
struct LocalFile {
    /// The directory that it is in.
    dir: PathBuf,
    file: Box<dyn File>,
}

impl LocalFile {
    async fn create(env: &Env, dir: &Path) -> Result<Self, DownloadError> {
        let (fs, dir) = (env.fs().clone(), dir.to_owned());
        let create = env.spawner().blocking("create download", move || {
            fs.create_dir_all(&dir)?;
            let file = fs.open(&dir, OpenMode::Unnamed)?;
            Ok::<_, FsError>(Self { dir, file })
        });
        Ok(create.await??)
    }

    async fn append(mut self, env: &Env, part: Bytes) -> Result<Self, DownloadError> {
        let append =
            env.spawner()
                .blocking("write download", move || match self.file.write_all(&part) {
                    Ok(()) => Ok(self),
                    Err(source) => Err(self.failed("write a download in", source)),
                });
        Ok(append.await??)
    }

    fn into_source(mut self, bytes: u64) -> Result<FileSource, FsError> {
        let action = "read a download back in";
        match self.file.seek(SeekFrom::End(0)) {
            Ok(found) if found == bytes => Ok(FileSource {
                file: self.file,
                bytes,
            }),
            Ok(found) => {
                let message = format!("the file has {found} bytes, {bytes} were written");
                Err(self.failed(action, std::io::Error::new(ErrorKind::InvalidData, message)))
            }
            Err(source) => Err(self.failed(action, source)),
        }
    }

    fn failed(self, action: &'static str, source: std::io::Error) -> FsError {
        FsError {
            action,
            path: self.dir,
            source,
        }
    }
}

/// A snapshot file in memory.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct BytesSource(pub Bytes);

impl SnapshotSource for BytesSource {
    fn byte_len(&self) -> u64 {
        self.0.len() as u64
    }

    fn read_at(
        &mut self,
        offset: u64,
        buffer: &mut [u8],
    ) -> Result<(), Box<dyn std::error::Error + Send + Sync>> {
        (&self.0[..]).read_at(offset, buffer)
    }
}

/// A snapshot file on the local disk.
pub struct FileSource {
    file: Box<dyn File>,
    bytes: u64,
}

impl SnapshotSource for FileSource {
    fn byte_len(&self) -> u64 {
        self.bytes
    }

    fn read_at(
        &mut self,
        offset: u64,
        buffer: &mut [u8],
    ) -> Result<(), Box<dyn std::error::Error + Send + Sync>> {
        self.file.seek(SeekFrom::Start(offset))?;
        self.file.read_exact(buffer)?;
        Ok(())
    }
}

impl std::fmt::Debug for FileSource {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("FileSource")
            .field("bytes", &self.bytes)
            .finish_non_exhaustive()
    }
}
