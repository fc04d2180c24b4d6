//! Reading, looking up and listing objects.

use std::fmt;
use std::ops::Range;

use bytes::Bytes;
use futures::stream::{self, BoxStream};
use futures::{StreamExt, TryStreamExt};
use millstream_types::{Checksum, JobId, ObjectName};
use object_store::path::Path;
use object_store::{GetOptions, GetRange, GetResult};
use xxhash_rust::xxh3::Xxh3Default;

use super::Store;
use crate::error::{Mismatch, Operation, StoreError};
use crate::names;

/// A page of a listing, in the order of names.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Listing {
    /// Names below the directory that was listed.
    pub names: Vec<ObjectName>,
    /// Where the next page begins, if there may be one.
    pub next: Option<PageMark>,
}

/// A place in a listing.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PageMark(Path);

/// How often bytes with a wrong checksum are read before the object counts as corrupt: the first
/// time the link may have been at fault.
const READS_MAX: u32 = 2;

/// How many parts a reader fetches ahead.
const READ_AHEAD: usize = 2;

impl Store {
    /// The bytes of an object of at most `size_max` bytes.
    pub async fn get(&self, name: &ObjectName, size_max: u64) -> Result<Bytes, StoreError> {
        let object = self.object(name);
        let read = self.run(Operation::Read, &object, || async {
            let result = self.get_opts(name, GetOptions::default()).await?;
            let size = result.meta.size;
            if size > size_max {
                return Ok(Err(size));
            }
            whole_body(result, 0..size).await.map(Ok)
        });
        read.await?.map_err(|size| StoreError::Corrupt {
            object: object.clone(),
            mismatch: Mismatch::Form {
                offset: size_max,
                what: format!("expected its end, but it has {size} bytes"),
            },
        })
    }

    /// The bytes of a small object, checked against its handle. Large ones are read by
    /// [`Store::reader`].
    pub async fn get_verified(
        &self,
        name: &ObjectName,
        size: u64,
        checksum: Checksum,
    ) -> Result<Bytes, StoreError> {
        let object = self.object(name);
        let mut reads = 0;
        loop {
            reads += 1;
            let bytes = self.get(name, u64::MAX).await?;
            let found = (bytes.len() as u64, Checksum::of(&bytes));
            match Mismatch::between(size, checksum, found.0, found.1) {
                None => return Ok(bytes),
                Some(Mismatch::Checksum { .. }) if reads < READS_MAX => {}
                Some(mismatch) => return Err(StoreError::Corrupt { object, mismatch }),
            }
        }
    }

    /// Some bytes of an object, all of the range.
    pub async fn get_range(
        &self,
        name: &ObjectName,
        range: Range<u64>,
    ) -> Result<Bytes, StoreError> {
        if range.is_empty() {
            return Ok(Bytes::new());
        }
        let object = self.object(name);
        let options = GetOptions {
            range: Some(GetRange::Bounded(range.clone())),
            ..Default::default()
        };
        let attempt = || async {
            let result = self.get_opts(name, options.clone()).await?;
            whole_body(result, range.clone()).await
        };
        self.run(Operation::Read, &object, attempt).await
    }

    /// Reads a large object part by part, checked against its handle.
    pub fn reader(&self, name: &ObjectName, size: u64, checksum: Checksum) -> VerifiedReader {
        VerifiedReader::new(self.clone(), name.clone(), size, checksum)
    }

    /// The length of an object; none if there is no such object.
    pub async fn head(&self, name: &ObjectName) -> Result<Option<u64>, StoreError> {
        let object = self.object(name);
        let options = GetOptions {
            head: true,
            ..Default::default()
        };
        let attempt = || async { Ok(self.get_opts(name, options.clone()).await?.meta.size) };
        match self.run(Operation::Head, &object, attempt).await {
            Ok(size) => Ok(Some(size)),
            Err(StoreError::NotFound { .. }) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// The place after a name, to begin a listing there.
    pub fn mark(&self, name: &ObjectName) -> PageMark {
        PageMark(self.path(name))
    }

    /// Up to `limit` names in a folder ("" for all), beginning after a place. A listing may lag
    /// behind what was written; names that cannot be ours are counted and left out.
    pub async fn list(
        &self,
        folder: &str,
        after: Option<&PageMark>,
        limit: usize,
    ) -> Result<Listing, StoreError> {
        let prefix = folder
            .split('/')
            .filter(|segment| !segment.is_empty())
            .fold(self.dir.clone(), |path, segment| path.join(segment));
        let object = self.describe(&prefix);
        let attempt = || async {
            let objects = &self.shared.objects;
            let found = match after {
                Some(PageMark(after)) => objects.list_with_offset(Some(&prefix), after),
                None => objects.list(Some(&prefix)),
            };
            found
                .map_ok(|meta| meta.location)
                .take(limit + 1)
                .try_collect::<Vec<_>>()
                .await
        };
        let mut paths = self.run(Operation::List, &object, attempt).await?;
        let more = paths.len() > limit;
        paths.truncate(limit);
        let next = paths.last().filter(|_| more).cloned().map(PageMark);
        let n_found = paths.len();
        let mut names: Vec<_> = paths.iter().filter_map(|path| self.name_of(path)).collect();
        names.sort_unstable();
        self.count_foreign(n_found - names.len());
        Ok(Listing { names, next })
    }

    /// The jobs that have a directory here.
    pub async fn list_jobs(&self) -> Result<Vec<JobId>, StoreError> {
        let prefix = (!self.dir.as_ref().is_empty()).then_some(&self.dir);
        let attempt = || self.shared.objects.list_with_delimiter(prefix);
        let found = self.run(Operation::List, &self.address(), attempt).await?;
        let is_of_a_job = |path: &&Path| path.filename() != Some(names::UNCLEANED_FOLDER);
        let n_found = found.common_prefixes.iter().filter(is_of_a_job).count();
        let mut jobs: Vec<JobId> = found
            .common_prefixes
            .iter()
            .filter_map(|path| {
                let text = path.filename()?;
                text.parse()
                    .ok()
                    .filter(|job: &JobId| job.to_string() == text)
            })
            .collect();
        jobs.sort_unstable();
        self.count_foreign(n_found - jobs.len());
        Ok(jobs)
    }

    async fn get_opts(
        &self,
        name: &ObjectName,
        options: GetOptions,
    ) -> object_store::Result<GetResult> {
        self.shared
            .objects
            .get_opts(&self.path(name), options)
            .await
    }

    fn count_foreign(&self, n: usize) {
        let counter = &self.shared.counters.foreign_names;
        counter.fetch_add(n as u64, std::sync::atomic::Ordering::Relaxed);
    }
}

/// The body, if the store sent the range that was asked for and all of it. Anything else is a
/// transport that failed without saying so, and is tried again.
async fn whole_body(result: GetResult, range: Range<u64>) -> object_store::Result<Bytes> {
    let answered = result.range.clone();
    let bytes = result.bytes().await?;
    let expected = range.end - range.start;
    if answered != range || bytes.len() as u64 != expected {
        return Err(object_store::Error::Generic {
            store: "read",
            source: format!(
                "asked for bytes {range:?}, was answered {} bytes of {answered:?}",
                bytes.len()
            )
            .into(),
        });
    }
    Ok(bytes)
}

/// Reads an object part by part. The bytes count only once [`VerifiedReader::next`] has returned
/// `None`: that is when their checksum was compared.
pub struct VerifiedReader {
    store: Store,
    name: ObjectName,
    size: u64,
    checksum: Checksum,
    hasher: Xxh3Default,
    state: ReaderState,
}

enum ReaderState {
    New,
    Reading(BoxStream<'static, Result<Bytes, StoreError>>),
    Verified,
}

impl VerifiedReader {
    fn new(store: Store, name: ObjectName, size: u64, checksum: Checksum) -> Self {
        let hasher = Xxh3Default::new();
        Self {
            store,
            name,
            size,
            checksum,
            hasher,
            state: ReaderState::New,
        }
    }

    /// The next bytes; `None` after the last, once length and checksum are known to be right.
    /// Dropping the future loses nothing but what was being fetched.
    pub async fn next(&mut self) -> Result<Option<Bytes>, StoreError> {
        loop {
            match &mut self.state {
                ReaderState::New => {
                    self.check_size().await?;
                    self.state = ReaderState::Reading(self.parts());
                }
                ReaderState::Reading(parts) => match parts.next().await {
                    Some(part) => {
                        let part = part?;
                        self.hasher.update(&part);
                        return Ok(Some(part));
                    }
                    None => {
                        self.check_checksum()?;
                        self.state = ReaderState::Verified;
                    }
                },
                ReaderState::Verified => return Ok(None),
            }
        }
    }

    async fn check_size(&self) -> Result<(), StoreError> {
        match self.store.head(&self.name).await? {
            None => Err(StoreError::NotFound {
                object: self.store.object(&self.name),
            }),
            Some(found) if found != self.size => Err(self.corrupt(Mismatch::Length {
                expected: self.size,
                found,
            })),
            Some(_) => Ok(()),
        }
    }

    fn check_checksum(&self) -> Result<(), StoreError> {
        let found = Checksum(self.hasher.digest128());
        if found != self.checksum {
            return Err(self.corrupt(Mismatch::Checksum {
                expected: self.checksum,
                found,
            }));
        }
        Ok(())
    }

    fn corrupt(&self, mismatch: Mismatch) -> StoreError {
        StoreError::Corrupt {
            object: self.store.object(&self.name),
            mismatch,
        }
    }

    fn parts(&self) -> BoxStream<'static, Result<Bytes, StoreError>> {
        let (store, name, size) = (self.store.clone(), self.name.clone(), self.size);
        let part = store.policy().part_bytes as u64;
        stream::iter(0..size.div_ceil(part))
            .map(move |index| {
                let (store, name) = (store.clone(), name.clone());
                let range = index * part..((index + 1) * part).min(size);
                async move { store.get_range(&name, range).await }
            })
            .buffered(READ_AHEAD)
            .boxed()
    }
}

impl fmt::Debug for VerifiedReader {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("VerifiedReader")
            .field("name", &self.name)
            .finish_non_exhaustive()
    }
}
