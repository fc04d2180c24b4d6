//! The object store as one host reaches it: not at all for a while, if it comes to that.

use std::fmt;
use std::sync::Arc;

use async_trait::async_trait;
use futures::stream::{self, BoxStream, StreamExt, TryStreamExt};
use object_store::path::Path;
use object_store::{
    CopyOptions, GetOptions, GetResult, ListResult, MultipartUpload, ObjectMeta, ObjectStore,
    PutMultipartOptions, PutOptions, PutPayload, PutResult, Result,
};

use crate::host::Control;

/// The store behind the host's own way to it. Requests and answers wait while the way is closed.
#[derive(Clone)]
pub struct Reached {
    objects: Arc<dyn ObjectStore>,
    control: Control,
}

impl Reached {
    pub fn new(objects: Arc<dyn ObjectStore>, control: Control) -> Self {
        Self { objects, control }
    }

    async fn ask<T>(&self, request: impl Future<Output = T>) -> T {
        self.control.store_open().await;
        let answer = request.await;
        self.control.store_open().await;
        answer
    }
}

#[async_trait]
impl ObjectStore for Reached {
    async fn put_opts(
        &self,
        location: &Path,
        payload: PutPayload,
        options: PutOptions,
    ) -> Result<PutResult> {
        self.ask(self.objects.put_opts(location, payload, options))
            .await
    }

    async fn put_multipart_opts(
        &self,
        location: &Path,
        options: PutMultipartOptions,
    ) -> Result<Box<dyn MultipartUpload>> {
        self.ask(self.objects.put_multipart_opts(location, options))
            .await
    }

    async fn get_opts(&self, location: &Path, options: GetOptions) -> Result<GetResult> {
        self.ask(self.objects.get_opts(location, options)).await
    }

    fn delete_stream(
        &self,
        locations: BoxStream<'static, Result<Path>>,
    ) -> BoxStream<'static, Result<Path>> {
        let reached = self.clone();
        locations
            .then(move |location| {
                let reached = reached.clone();
                async move {
                    let one = stream::iter([location]).boxed();
                    let deleted = reached.objects.delete_stream(one).try_collect();
                    let mut deleted: Vec<Path> = reached.ask(deleted).await?;
                    deleted.pop().ok_or_else(|| object_store::Error::Generic {
                        store: "simulated",
                        source: "a deletion had no answer".into(),
                    })
                }
            })
            .boxed()
    }

    fn list(&self, prefix: Option<&Path>) -> BoxStream<'static, Result<ObjectMeta>> {
        let (reached, prefix) = (self.clone(), prefix.cloned());
        let listing = async move {
            let all = reached.objects.list(prefix.as_ref()).try_collect();
            reached.ask::<Result<Vec<ObjectMeta>>>(all).await
        };
        stream::once(listing)
            .map_ok(|all| stream::iter(all.into_iter().map(Ok)))
            .try_flatten()
            .boxed()
    }

    async fn list_with_delimiter(&self, prefix: Option<&Path>) -> Result<ListResult> {
        self.ask(self.objects.list_with_delimiter(prefix)).await
    }

    async fn copy_opts(&self, from: &Path, to: &Path, options: CopyOptions) -> Result<()> {
        self.ask(self.objects.copy_opts(from, to, options)).await
    }
}

impl fmt::Display for Reached {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Reached({})", self.objects)
    }
}

impl fmt::Debug for Reached {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Reached")
    }
}
