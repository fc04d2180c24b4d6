//! The objects themselves, and a record of every write that was made: what is deleted between two
//! looks is judged too.

use std::fmt;
use std::sync::Arc;

use async_trait::async_trait;
use bytes::Bytes;
use futures::stream::BoxStream;
use object_store::memory::InMemory;
use object_store::path::Path;
use object_store::{
    CopyOptions, GetOptions, GetResult, ListResult, MultipartUpload, ObjectMeta, ObjectStore,
    PutMultipartOptions, PutOptions, PutPayload, PutResult, Result,
};
use parking_lot::Mutex;

/// A write that was made.
#[derive(Clone, Debug)]
pub struct Written {
    pub name: String,
    pub bytes: Bytes,
}

/// Objects in memory. Cloning shares them.
#[derive(Clone, Debug, Default)]
pub struct Recorder {
    objects: Arc<InMemory>,
    written: Arc<Mutex<Vec<Written>>>,
}

impl Recorder {
    /// The objects, as they are.
    pub fn objects(&self) -> &InMemory {
        &self.objects
    }

    /// What was written since the last call, in its order.
    pub fn take_written(&self) -> Vec<Written> {
        std::mem::take(&mut *self.written.lock())
    }
}

#[async_trait]
impl ObjectStore for Recorder {
    async fn put_opts(
        &self,
        location: &Path,
        payload: PutPayload,
        options: PutOptions,
    ) -> Result<PutResult> {
        let bytes = Bytes::from(payload.clone());
        let result = self.objects.put_opts(location, payload, options).await?;
        let name = location.to_string();
        self.written.lock().push(Written { name, bytes });
        Ok(result)
    }

    async fn put_multipart_opts(
        &self,
        location: &Path,
        options: PutMultipartOptions,
    ) -> Result<Box<dyn MultipartUpload>> {
        self.objects.put_multipart_opts(location, options).await
    }

    async fn get_opts(&self, location: &Path, options: GetOptions) -> Result<GetResult> {
        self.objects.get_opts(location, options).await
    }

    fn delete_stream(
        &self,
        locations: BoxStream<'static, Result<Path>>,
    ) -> BoxStream<'static, Result<Path>> {
        self.objects.delete_stream(locations)
    }

    fn list(&self, prefix: Option<&Path>) -> BoxStream<'static, Result<ObjectMeta>> {
        self.objects.list(prefix)
    }

    async fn list_with_delimiter(&self, prefix: Option<&Path>) -> Result<ListResult> {
        self.objects.list_with_delimiter(prefix).await
    }

    async fn copy_opts(&self, from: &Path, to: &Path, options: CopyOptions) -> Result<()> {
        self.objects.copy_opts(from, to, options).await
    }
}

impl fmt::Display for Recorder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Recorder")
    }
}
