//! A large object written to a temporary file part by part and linked to its name at the end.

use std::collections::BTreeMap;
use std::fmt;
use std::io::ErrorKind;
use std::path::{Path as FsPath, PathBuf};
use std::sync::Arc;

use async_trait::async_trait;
use futures::FutureExt;
use millstream_env::fs::{File, OpenMode};
use object_store::{Error, MultipartUpload, PutPayload, PutResult, Result, UploadPart};
use parking_lot::Mutex;

use super::{DurableDirectory, STORE, Shared, already_exists, answer};

pub(super) struct FileUpload {
    directory: DurableDirectory,
    target: Arc<Target>,
    n_parts: u64,
}

struct Target {
    path: PathBuf,
    temporary: PathBuf,
    parts: Mutex<Parts>,
}

/// Parts may be sent at once; they are written in their order.
struct Parts {
    file: Option<Box<dyn File>>,
    n_written: u64,
    early: BTreeMap<u64, PutPayload>,
}

impl FileUpload {
    pub(super) async fn begin(directory: DurableDirectory, path: PathBuf) -> Result<Self> {
        let open = move |shared: &Shared| {
            let name = path.file_name().unwrap_or_default().to_string_lossy();
            let nonce = shared.rng.nonce();
            let temporary = path.with_file_name(format!(".{name}.{nonce:016x}.tmp"));
            let file = shared
                .in_dir(&path, millstream_env::fs::FsError::kind, || {
                    shared.fs.open(&temporary, OpenMode::CreateNew)
                })
                .map_err(|error| answer(&path, error))?;
            let parts = Parts {
                file: Some(file),
                n_written: 0,
                early: BTreeMap::new(),
            };
            Ok(Target {
                path,
                temporary,
                parts: Mutex::new(parts),
            })
        };
        let target = Arc::new(directory.blocking(open).await?);
        Ok(Self {
            directory,
            target,
            n_parts: 0,
        })
    }
}

impl Target {
    fn write(&self, index: u64, payload: PutPayload) -> Result<()> {
        let mut parts = self.parts.lock();
        parts.early.insert(index, payload);
        loop {
            let next = parts.n_written;
            let Some(payload) = parts.early.remove(&next) else {
                return Ok(());
            };
            let Some(file) = &mut parts.file else {
                return Err(closed(&self.path));
            };
            for chunk in payload.iter() {
                file.write_all(chunk).map_err(generic)?;
            }
            parts.n_written += 1;
        }
    }

    fn complete(&self, n_parts: u64, shared: &Shared) -> Result<()> {
        let mut parts = self.parts.lock();
        // A part that failed leaves a gap, and what lies behind a gap was not written.
        if parts.n_written != n_parts {
            return Err(closed(&self.path));
        }
        let mut file = parts.file.take().ok_or_else(|| closed(&self.path))?;
        file.sync().map_err(generic)?;
        match shared.fs.hard_link(&self.temporary, &self.path) {
            Ok(()) => {}
            Err(error) if error.kind() == ErrorKind::AlreadyExists => {
                return Err(already_exists(&self.path));
            }
            Err(error) => return Err(answer(&self.path, error)),
        }
        let dir = self.path.parent().unwrap_or(&shared.root);
        shared
            .fs
            .sync_dir(dir)
            .map_err(|error| answer(dir, error))?;
        self.remove_temporary(shared)
    }

    fn remove_temporary(&self, shared: &Shared) -> Result<()> {
        match shared.fs.remove(&self.temporary) {
            Err(error) if error.kind() != ErrorKind::NotFound => {
                Err(answer(&self.temporary, error))
            }
            Ok(()) | Err(_) => Ok(()),
        }
    }
}

#[async_trait]
impl MultipartUpload for FileUpload {
    fn put_part(&mut self, payload: PutPayload) -> UploadPart {
        let (directory, target, index) =
            (self.directory.clone(), self.target.clone(), self.n_parts);
        self.n_parts += 1;
        async move {
            directory
                .blocking(move |_| target.write(index, payload))
                .await
        }
        .boxed()
    }

    async fn complete(&mut self) -> Result<PutResult> {
        let (target, n_parts) = (self.target.clone(), self.n_parts);
        self.directory
            .blocking(move |shared| target.complete(n_parts, shared))
            .await?;
        Ok(PutResult {
            e_tag: None,
            version: None,
        })
    }

    async fn abort(&mut self) -> Result<()> {
        let target = self.target.clone();
        let abort = move |shared: &Shared| {
            target.parts.lock().file = None;
            target.remove_temporary(shared)
        };
        self.directory.blocking(abort).await
    }
}

impl fmt::Debug for FileUpload {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FileUpload")
            .field("path", &self.target.path)
            .finish_non_exhaustive()
    }
}

fn closed(path: &FsPath) -> Error {
    let source = format!("the upload of {} is incomplete or ended", path.display()).into();
    Error::Generic {
        store: STORE,
        source,
    }
}

fn generic(source: std::io::Error) -> Error {
    Error::Generic {
        store: STORE,
        source: Box::new(source),
    }
}
