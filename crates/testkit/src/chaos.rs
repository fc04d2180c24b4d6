//! The faulty object store.

use std::collections::BTreeMap;
use std::fmt;
use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use futures::stream::{self, BoxStream, StreamExt, TryStreamExt};
use millstream_env::{Clock, Rng};
use millstream_types::MonoTime;
use object_store::path::Path;
use object_store::{
    CopyOptions, GetOptions, GetResult, GetResultPayload, ListResult, MultipartUpload, ObjectMeta,
    ObjectStore, PutMultipartOptions, PutOptions, PutPayload, PutResult, Result,
};
use parking_lot::Mutex;

use crate::faults::{Fault, Faults, InjectedFault};
use crate::upload::ChaosUpload;

/// An object store that misbehaves as told. Cloning shares everything.
///
/// A late write lands before the first request at or after its time, so it needs no task of its
/// own: nobody can look at the store but through it.
pub struct ChaosStore<T> {
    shared: Arc<Shared<T>>,
}

pub(crate) struct Shared<T> {
    inner: T,
    clock: Clock,
    rng: Rng,
    state: Mutex<State>,
}

struct State {
    faults: Faults,
    hits: BTreeMap<Fault, u64>,
    burst_until: MonoTime,
    late: Vec<LateWrite>,
    written_at: BTreeMap<Path, MonoTime>,
    uploads: Uploads,
}

/// Uploads in parts, as a store counts them: one that nobody completes or aborts stays, with its
/// parts, and costs money.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Uploads {
    /// Begun, so far.
    pub n_begun: u64,
    /// Parts that arrived, so far.
    pub n_parts: u64,
    /// Begun and neither completed nor aborted.
    pub n_open: u64,
}

struct LateWrite {
    at: MonoTime,
    location: Path,
    payload: PutPayload,
    options: PutOptions,
}

/// What becomes of one write.
#[derive(Clone, Copy)]
pub(crate) enum WriteFate {
    Works,
    Fails(Fault),
    Late(MonoTime),
    FailsAfter,
}

impl<T: ObjectStore> ChaosStore<T> {
    /// Wraps a store. What it does follows from the stream of `rng`.
    pub fn new(inner: T, faults: Faults, clock: Clock, rng: Rng) -> Self {
        let state = State {
            faults,
            hits: BTreeMap::new(),
            burst_until: MonoTime::ZERO,
            late: Vec::new(),
            written_at: BTreeMap::new(),
            uploads: Uploads::default(),
        };
        Self {
            shared: Arc::new(Shared {
                inner,
                clock,
                rng,
                state: Mutex::new(state),
            }),
        }
    }

    /// From now on, these faults. A running burst ends.
    pub fn set_faults(&self, faults: Faults) {
        let mut state = self.shared.state.lock();
        state.faults = faults;
        state.burst_until = MonoTime::ZERO;
    }

    /// From now on, no faults. Late writes still land.
    pub fn heal(&self) {
        self.set_faults(Faults::NONE);
    }

    /// How often each fault happened so far: a test whose fault never happened proved nothing.
    pub fn hits(&self) -> BTreeMap<Fault, u64> {
        self.shared.state.lock().hits.clone()
    }

    /// Uploads in parts.
    pub fn uploads(&self) -> Uploads {
        self.shared.state.lock().uploads
    }

    /// The store behind, without faults.
    pub fn inner(&self) -> &T {
        &self.shared.inner
    }
}

impl<T> Shared<T> {
    fn roll(&self, fault: Fault, probability: impl Fn(&Faults) -> f64) -> bool {
        let mut state = self.state.lock();
        let hit = self.rng.chance(probability(&state.faults));
        if hit {
            *state.hits.entry(fault).or_insert(0) += 1;
        }
        hit
    }

    fn between(&self, range: Range<Duration>) -> Duration {
        let nanos = |duration: Duration| u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX);
        let (start, end) = (nanos(range.start), nanos(range.end));
        Duration::from_nanos(self.rng.range(start..end.max(start + 1)))
    }

    /// A failure of every request during a burst, which may begin now.
    pub(crate) fn burst(&self) -> Result<()> {
        let now = self.clock.monotonic();
        if self.roll(Fault::Burst, |faults| faults.burst) {
            let range = self.state.lock().faults.burst_range.clone();
            let until = now + self.between(range);
            self.state.lock().burst_until = until;
        }
        if now < self.state.lock().burst_until {
            return Err(InjectedFault::error(Fault::Burst));
        }
        Ok(())
    }

    pub(crate) async fn delay(&self) {
        let latency = self.state.lock().faults.latency.clone();
        if !latency.is_empty() {
            self.clock.sleep(self.between(latency)).await;
        }
        self.stall(Fault::Stall, |faults| faults.stall).await;
        if self.roll(Fault::Delay, |faults| faults.delay) {
            let range = self.state.lock().faults.delay_range.clone();
            self.clock.sleep(self.between(range)).await;
        }
    }

    /// Lies about, if it comes to that. Nothing is drawn where it never does, so that a seed of a
    /// run without stalls stays what it was.
    pub(crate) async fn stall(&self, fault: Fault, probability: fn(&Faults) -> f64) {
        let (probability, range) = {
            let faults = &self.state.lock().faults;
            (probability(faults), faults.stall_range.clone())
        };
        if probability > 0.0 && self.roll(fault, |_| probability) {
            self.clock.sleep(self.between(range)).await;
        }
    }

    /// The answer to a write that was made.
    async fn answer(&self) {
        let probability = |faults: &Faults| faults.answer_stall;
        self.stall(Fault::AnswerStall, probability).await;
    }

    pub(crate) fn part_fails(&self) -> bool {
        self.roll(Fault::PartError, |faults| faults.part_error)
    }

    /// Decides before the effect, so that a dropped request has one fate too.
    pub(crate) fn write_fate(&self) -> WriteFate {
        if self.roll(Fault::ErrorBefore, |faults| faults.error_before) {
            WriteFate::Fails(Fault::ErrorBefore)
        } else if self.roll(Fault::LandsLate, |faults| faults.lands_late) {
            let range = self.state.lock().faults.late_range.clone();
            WriteFate::Late(self.clock.monotonic() + self.between(range))
        } else if self.roll(Fault::ErrorAfter, |faults| faults.error_after) {
            WriteFate::FailsAfter
        } else {
            WriteFate::Works
        }
    }

    pub(crate) fn count(&self, change: impl FnOnce(&mut Uploads)) {
        change(&mut self.state.lock().uploads);
    }

    pub(crate) fn note_written(&self, location: &Path) {
        let now = self.clock.monotonic();
        self.state.lock().written_at.insert(location.clone(), now);
    }
}

impl<T: ObjectStore> Shared<T> {
    /// Lets what is due land, in the order of its times.
    async fn land_late_writes(&self) {
        let now = self.clock.monotonic();
        let mut due = {
            let mut state = self.state.lock();
            let (due, later): (Vec<_>, Vec<_>) = std::mem::take(&mut state.late)
                .into_iter()
                .partition(|write| write.at <= now);
            state.late = later;
            due
        };
        due.sort_by_key(|write| write.at);
        for write in due {
            // Nobody waits for the answer any more, as on a real network.
            let landed = self
                .inner
                .put_opts(&write.location, write.payload, write.options)
                .await;
            if landed.is_ok() {
                self.note_written(&write.location);
            }
        }
    }

    async fn begin(&self) -> Result<()> {
        self.delay().await;
        self.land_late_writes().await;
        self.burst()
    }

    async fn begin_read(&self) -> Result<()> {
        self.begin().await?;
        if self.roll(Fault::ReadError, |faults| faults.read_error) {
            return Err(InjectedFault::error(Fault::ReadError));
        }
        Ok(())
    }

    /// Leaves out what was written lately, if the listing is stale.
    fn listing_filter(&self) -> impl Fn(&ObjectMeta) -> bool + Send + 'static + use<T> {
        let stale = self.roll(Fault::StaleList, |faults| faults.stale_list);
        let now = self.clock.monotonic();
        let state = self.state.lock();
        let stale_by = state.faults.stale_by;
        let recent: Vec<Path> = state
            .written_at
            .iter()
            .filter(|(_, at)| stale && now.saturating_since(**at) < stale_by)
            .map(|(path, _)| path.clone())
            .collect();
        move |meta| !recent.contains(&meta.location)
    }

    async fn list_all(self: Arc<Self>, prefix: Option<Path>) -> Result<Vec<ObjectMeta>> {
        self.begin_read().await?;
        let keep = self.listing_filter();
        let mut all: Vec<ObjectMeta> = self.inner.list(prefix.as_ref()).try_collect().await?;
        all.retain(|meta| keep(meta));
        Ok(all)
    }

    async fn delete_one(self: Arc<Self>, location: Path) -> Result<Path> {
        self.begin().await?;
        if self.roll(Fault::DeleteError, |faults| faults.delete_error) {
            return Err(InjectedFault::error(Fault::DeleteError));
        }
        let one = stream::iter([Ok(location.clone())]).boxed();
        let mut deleted: Vec<Path> = self.inner.delete_stream(one).try_collect().await?;
        self.answer().await;
        Ok(deleted.pop().unwrap_or(location))
    }

    async fn damage(&self, mut result: GetResult) -> Result<GetResult> {
        let short = self.roll(Fault::ShortRead, |faults| faults.short_read);
        let flip = self.roll(Fault::BitFlip, |faults| faults.bit_flip);
        if !short && !flip {
            return Ok(result);
        }
        let (meta, range, attributes) = (
            result.meta.clone(),
            result.range.clone(),
            std::mem::take(&mut result.attributes),
        );
        let mut bytes = result.bytes().await?.to_vec();
        let length = bytes.len() as u64;
        if flip && length > 0 {
            let bit = self.rng.range(0..length * 8);
            bytes[(bit / 8) as usize] ^= 1 << (bit % 8);
        }
        if short && length > 0 {
            bytes.truncate(self.rng.range(0..length) as usize);
        }
        let payload = GetResultPayload::Stream(stream::iter([Ok(Bytes::from(bytes))]).boxed());
        Ok(GetResult {
            payload,
            meta,
            range,
            attributes,
        })
    }
}

#[async_trait]
impl<T: ObjectStore> ObjectStore for ChaosStore<T> {
    async fn put_opts(
        &self,
        location: &Path,
        payload: PutPayload,
        options: PutOptions,
    ) -> Result<PutResult> {
        self.shared.begin().await?;
        match self.shared.write_fate() {
            WriteFate::Fails(fault) => Err(InjectedFault::error(fault)),
            WriteFate::Late(at) => {
                let location = location.clone();
                let late = LateWrite {
                    at,
                    location,
                    payload,
                    options,
                };
                self.shared.state.lock().late.push(late);
                Err(InjectedFault::error(Fault::LandsLate))
            }
            WriteFate::FailsAfter => {
                // Only a write that was made can be reported as failed after it was made.
                self.shared
                    .inner
                    .put_opts(location, payload, options)
                    .await?;
                self.shared.note_written(location);
                Err(InjectedFault::error(Fault::ErrorAfter))
            }
            WriteFate::Works => {
                let result = self
                    .shared
                    .inner
                    .put_opts(location, payload, options)
                    .await?;
                self.shared.note_written(location);
                self.shared.answer().await;
                Ok(result)
            }
        }
    }

    async fn put_multipart_opts(
        &self,
        location: &Path,
        options: PutMultipartOptions,
    ) -> Result<Box<dyn MultipartUpload>> {
        self.shared.begin().await?;
        let inner = self
            .shared
            .inner
            .put_multipart_opts(location, options)
            .await?;
        self.shared.count(|uploads| {
            uploads.n_begun += 1;
            uploads.n_open += 1;
        });
        Ok(Box::new(ChaosUpload::new(
            inner,
            location.clone(),
            self.shared.clone(),
        )))
    }

    async fn get_opts(&self, location: &Path, options: GetOptions) -> Result<GetResult> {
        self.shared.begin_read().await?;
        let head = options.head;
        let result = self.shared.inner.get_opts(location, options).await?;
        if head {
            Ok(result)
        } else {
            self.shared.damage(result).await
        }
    }

    fn delete_stream(
        &self,
        locations: BoxStream<'static, Result<Path>>,
    ) -> BoxStream<'static, Result<Path>> {
        let shared = self.shared.clone();
        locations
            .then(move |location| {
                let shared = shared.clone();
                async move { shared.delete_one(location?).await }
            })
            .boxed()
    }

    fn list(&self, prefix: Option<&Path>) -> BoxStream<'static, Result<ObjectMeta>> {
        let listing = self.shared.clone().list_all(prefix.cloned());
        stream::once(listing)
            .map_ok(|all| stream::iter(all.into_iter().map(Ok)))
            .try_flatten()
            .boxed()
    }

    async fn list_with_delimiter(&self, prefix: Option<&Path>) -> Result<ListResult> {
        self.shared.begin_read().await?;
        let keep = self.shared.listing_filter();
        let mut result = self.shared.inner.list_with_delimiter(prefix).await?;
        result.objects.retain(|meta| keep(meta));
        Ok(result)
    }

    async fn copy_opts(&self, from: &Path, to: &Path, options: CopyOptions) -> Result<()> {
        self.shared.begin().await?;
        self.shared.inner.copy_opts(from, to, options).await
    }
}

impl<T> Clone for ChaosStore<T> {
    fn clone(&self) -> Self {
        Self {
            shared: self.shared.clone(),
        }
    }
}

impl<T: fmt::Display> fmt::Display for ChaosStore<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ChaosStore({})", self.shared.inner)
    }
}

impl<T> fmt::Debug for ChaosStore<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let state = self.shared.state.lock();
        f.debug_struct("ChaosStore")
            .field("faults", &state.faults)
            .field("hits", &state.hits)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;
