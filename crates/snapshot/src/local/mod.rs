//! Objects in a local or shared directory, durable before they are confirmed.
//!
//! `object_store`'s own local store does not sync what it writes, so after a power cut a completed
//! checkpoint could be gone (DESIGN 7). Here an object is written to a temporary file, synced,
//! linked to its name, and the directory is synced. The link fails if the name is taken: that is
//! the compare-and-swap of the claim chain. Names that begin with a dot are temporary files; a walk
//! lists them, so that those that a crash left can be deleted.

mod answer;
mod upload;

use std::collections::BTreeSet;
use std::fmt;
use std::io::{ErrorKind, Read, Seek, SeekFrom};
use std::ops::Range;
use std::path::{Path as FsPath, PathBuf};
use std::sync::Arc;

use async_trait::async_trait;
use bytes::Bytes;
use futures::stream::{self, BoxStream};
use futures::{StreamExt, TryStreamExt};
use millstream_env::fs::{FileKind, Fs, FsError, OpenMode, Published};
use millstream_env::{Env, Rng, Spawner};
use object_store::path::Path;
use object_store::{
    CopyOptions, Error, GetOptions, GetResult, GetResultPayload, ListResult, MultipartUpload,
    ObjectMeta, ObjectStore, PutMode, PutMultipartOptions, PutOptions, PutPayload, PutResult,
    Result,
};
use parking_lot::Mutex;

use answer::{CreateError, already_exists, answer, not_implemented};
use upload::FileUpload;

/// How often a directory that another process just removed, being empty, is made again.
const DIR_TRIES_MAX: u32 = 3;

/// Directories remembered as durable; beyond that they are all forgotten and synced once more.
const DURABLE_DIRS_MAX: usize = 1_024;

/// A directory as an object store with creates only.
#[derive(Clone)]
pub struct DurableDirectory {
    shared: Arc<Shared>,
}

struct Shared {
    root: PathBuf,
    fs: Arc<dyn Fs>,
    spawner: Spawner,
    rng: Rng,
    /// Directories whose own names this process synced.
    durable_dirs: Mutex<BTreeSet<PathBuf>>,
}

impl DurableDirectory {
    /// The objects below `root`, which is made when the first is written.
    pub fn new(root: PathBuf, env: &Env) -> Self {
        let shared = Shared {
            root,
            fs: env.fs().clone(),
            spawner: env.spawner().clone(),
            rng: env.rng().fork("files"),
            durable_dirs: Mutex::default(),
        };
        Self {
            shared: Arc::new(shared),
        }
    }

    /// Runs blocking work on the pool.
    async fn blocking<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Shared) -> Result<T> + Send + 'static,
    ) -> Result<T> {
        let shared = self.shared.clone();
        let task = self
            .shared
            .spawner
            .blocking("object file", move || work(&shared));
        task.await.map_err(|error| Error::Generic {
            store: STORE,
            source: Box::new(error),
        })?
    }
}

const STORE: &str = "directory";

impl Shared {
    fn path(&self, location: &Path) -> PathBuf {
        // No segment of a location is empty, "." or "..": see `object_store::path`.
        location
            .parts()
            .fold(self.root.clone(), |path, part| path.join(part.as_ref()))
    }

    fn location(&self, path: &FsPath) -> Option<Path> {
        let below = path.strip_prefix(&self.root).ok()?.to_str()?;
        Path::parse(below).ok()
    }

    /// Makes a directory and each new name on the way to it durable.
    fn ensure_dir(&self, dir: &FsPath) -> std::result::Result<(), FsError> {
        if self.durable_dirs.lock().contains(dir) {
            return Ok(());
        }
        let is_new = |path| {
            let found = self.fs.metadata(path);
            matches!(found, Err(error) if error.kind() == ErrorKind::NotFound)
        };
        // Below the root another process may have made a directory without having synced it yet.
        let to_sync: Vec<(&FsPath, bool)> = dir
            .ancestors()
            .map(|above| (above, is_new(above)))
            .filter(|(above, is_new)| *is_new || above.starts_with(&self.root))
            .collect();
        self.fs.create_dir_all(dir)?;
        for (above, is_new) in to_sync {
            match above.parent() {
                // What was above the root before is the operator's; we may not read it.
                Some(parent) if above == self.root && !is_new => drop(self.fs.sync_dir(parent)),
                Some(parent) => self.fs.sync_dir(parent)?,
                None => {}
            }
        }
        let mut durable_dirs = self.durable_dirs.lock();
        if durable_dirs.len() >= DURABLE_DIRS_MAX {
            durable_dirs.clear();
        }
        durable_dirs.insert(dir.to_owned());
        Ok(())
    }

    /// Does `work` in the directory of `path`; again if the directory was removed meanwhile.
    fn in_dir<T, E>(
        &self,
        path: &FsPath,
        kind: impl Fn(&E) -> ErrorKind,
        work: impl Fn() -> std::result::Result<T, E>,
    ) -> std::result::Result<T, E>
    where
        E: From<FsError>,
    {
        let dir = path.parent().unwrap_or(&self.root);
        let mut tries = 0;
        loop {
            tries += 1;
            self.ensure_dir(dir)?;
            match work() {
                Err(error) if kind(&error) == ErrorKind::NotFound && tries < DIR_TRIES_MAX => {
                    self.durable_dirs.lock().remove(dir);
                }
                done => return done,
            }
        }
    }

    fn create(&self, path: &FsPath, payload: &PutPayload) -> Result<Published> {
        let contents: Bytes = payload.clone().into();
        let publish = || {
            let nonce = self.rng.nonce();
            self.fs
                .publish(path, &contents, nonce)
                .map_err(CreateError::Publish)
        };
        let created = self.in_dir(path, CreateError::kind, publish);
        created.map_err(|error| error.answer(path))
    }

    fn meta(&self, location: &Path) -> Result<ObjectMeta> {
        let path = self.path(location);
        let found = self
            .fs
            .metadata(&path)
            .map_err(|error| answer(&path, error))?;
        if found.kind != FileKind::File {
            let source = "it is no file".into();
            return Err(Error::NotFound {
                path: path.display().to_string(),
                source,
            });
        }
        Ok(meta(location.clone(), found.bytes))
    }

    fn read(&self, location: &Path, range: Range<u64>) -> Result<Bytes> {
        let path = self.path(location);
        let mut file = self
            .fs
            .open(&path, OpenMode::Read)
            .map_err(|error| answer(&path, error))?;
        let length = usize::try_from(range.end - range.start).unwrap_or(usize::MAX);
        let mut bytes = Vec::with_capacity(length);
        let read = file
            .seek(SeekFrom::Start(range.start))
            .and_then(|_| file.take(length as u64).read_to_end(&mut bytes));
        read.map_err(|source| Error::Generic {
            store: STORE,
            source: Box::new(source),
        })?;
        Ok(bytes.into())
    }

    /// All objects below a directory, in the order of their names. Links are not followed.
    fn walk(&self, prefix: Option<&Path>) -> Result<Vec<ObjectMeta>> {
        let start = prefix.map_or_else(|| self.root.clone(), |prefix| self.path(prefix));
        let mut pending = vec![start];
        let mut metas = Vec::new();
        while let Some(dir) = pending.pop() {
            let (dirs, files) = self.entries(&dir)?;
            pending.extend(dirs);
            for path in files {
                let Some(location) = self.location(&path) else {
                    continue;
                };
                match self.fs.metadata(&path) {
                    Ok(found) => metas.push(meta(location, found.bytes)),
                    // Deleted since.
                    Err(error) if error.kind() == ErrorKind::NotFound => {}
                    Err(error) => return Err(answer(&path, error)),
                }
            }
        }
        metas.sort_unstable_by(|a, b| a.location.cmp(&b.location));
        Ok(metas)
    }

    /// The directories and files in a directory; a missing one is empty.
    fn entries(&self, dir: &FsPath) -> Result<(Vec<PathBuf>, Vec<PathBuf>)> {
        let entries = match self.fs.list(dir) {
            Ok(entries) => entries,
            Err(error) if error.kind() == ErrorKind::NotFound => Vec::new(),
            Err(error) => return Err(answer(dir, error)),
        };
        let (mut dirs, mut files) = (Vec::new(), Vec::new());
        for entry in entries {
            let (name, is_file) = (entry.name.as_encoded_bytes(), entry.kind == FileKind::File);
            if name.starts_with(b".") && !(is_file && name.ends_with(b".tmp")) {
                continue;
            }
            let path = dir.join(&entry.name);
            match entry.kind {
                FileKind::Directory => dirs.push(path),
                FileKind::File => files.push(path),
                FileKind::Symlink | FileKind::Other => {}
            }
        }
        Ok((dirs, files))
    }

    /// Removes an object, and the directories above it that are empty then (HND-070).
    fn delete(&self, location: &Path) -> Result<()> {
        let path = self.path(location);
        match self.fs.remove(&path) {
            Ok(()) => {}
            Err(error) if error.kind() == ErrorKind::NotFound => {}
            Err(error) => return Err(answer(&path, error)),
        }
        for dir in path.ancestors().skip(1) {
            // Not empty, or not ours to remove: what is left is an empty directory at most.
            if dir == self.root || self.fs.remove(dir).is_err() {
                break;
            }
            self.durable_dirs.lock().remove(dir);
        }
        Ok(())
    }
}

#[async_trait]
impl ObjectStore for DurableDirectory {
    async fn put_opts(
        &self,
        location: &Path,
        payload: PutPayload,
        options: PutOptions,
    ) -> Result<PutResult> {
        if options.mode != PutMode::Create {
            return Err(not_implemented("put that may overwrite"));
        }
        let location = location.clone();
        let create = move |shared: &Shared| {
            let path = shared.path(&location);
            match shared.create(&path, &payload)? {
                Published::Created => Ok(PutResult {
                    e_tag: None,
                    version: None,
                }),
                Published::AlreadyExists => Err(already_exists(&path)),
            }
        };
        self.blocking(create).await
    }

    async fn put_multipart_opts(
        &self,
        location: &Path,
        _options: PutMultipartOptions,
    ) -> Result<Box<dyn MultipartUpload>> {
        let path = self.shared.path(location);
        Ok(Box::new(FileUpload::begin(self.clone(), path).await?))
    }

    async fn get_opts(&self, location: &Path, options: GetOptions) -> Result<GetResult> {
        let wanted = location.clone();
        let meta = self.blocking(move |shared| shared.meta(&wanted)).await?;
        options.check_preconditions(&meta)?;
        let range = match &options.range {
            Some(range) => range.as_range(meta.size).map_err(|error| Error::Generic {
                store: STORE,
                source: Box::new(error),
            })?,
            None => 0..meta.size,
        };
        let payload = if options.head {
            stream::empty().boxed()
        } else {
            let (this, location, range) = (self.clone(), location.clone(), range.clone());
            // Not read before it is asked for: a caller may turn away at the size.
            stream::once(async move {
                this.blocking(move |shared| shared.read(&location, range))
                    .await
            })
            .boxed()
        };
        let payload = GetResultPayload::Stream(payload);
        Ok(GetResult {
            payload,
            meta,
            range,
            attributes: Default::default(),
        })
    }

    fn delete_stream(
        &self,
        locations: BoxStream<'static, Result<Path>>,
    ) -> BoxStream<'static, Result<Path>> {
        let this = self.clone();
        locations
            .and_then(move |location| {
                let this = this.clone();
                async move {
                    let gone = location.clone();
                    this.blocking(move |shared| shared.delete(&location))
                        .await
                        .map(|()| gone)
                }
            })
            .boxed()
    }

    fn list(&self, prefix: Option<&Path>) -> BoxStream<'static, Result<ObjectMeta>> {
        let (this, prefix) = (self.clone(), prefix.cloned());
        let walk = async move {
            this.blocking(move |shared| shared.walk(prefix.as_ref()))
                .await
        };
        stream::once(walk)
            .map_ok(|metas| stream::iter(metas.into_iter().map(Ok)))
            .try_flatten()
            .boxed()
    }

    async fn list_with_delimiter(&self, prefix: Option<&Path>) -> Result<ListResult> {
        let prefix = prefix.cloned();
        let list = move |shared: &Shared| {
            let dir = prefix.map_or_else(|| shared.root.clone(), |prefix| shared.path(&prefix));
            let (dirs, files) = shared.entries(&dir)?;
            let locations = |paths: Vec<PathBuf>| {
                paths
                    .into_iter()
                    .filter_map(|path| shared.location(&path))
                    .collect::<Vec<_>>()
            };
            let objects = locations(files)
                .iter()
                .filter(|at| at.filename().is_some_and(|name| !name.starts_with('.')))
                .map(|at| shared.meta(at))
                .collect::<Result<_>>();
            Ok(ListResult {
                common_prefixes: locations(dirs),
                objects: objects?,
            })
        };
        self.blocking(list).await
    }

    async fn copy_opts(&self, _from: &Path, _to: &Path, _options: CopyOptions) -> Result<()> {
        Err(not_implemented("copy"))
    }
}

impl fmt::Display for DurableDirectory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "DurableDirectory({})", self.shared.root.display())
    }
}

impl fmt::Debug for DurableDirectory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// `last_modified` stays at 1970: nothing may be decided by it.
fn meta(location: Path, size: u64) -> ObjectMeta {
    ObjectMeta {
        location,
        last_modified: Default::default(),
        size,
        e_tag: None,
        version: None,
    }
}

#[cfg(test)]
mod tests;
