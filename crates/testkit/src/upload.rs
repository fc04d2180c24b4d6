//! The faulty multipart upload.

use std::fmt;
use std::sync::Arc;

use async_trait::async_trait;
use futures::FutureExt;
use object_store::path::Path;
use object_store::{MultipartUpload, ObjectStore, PutPayload, PutResult, Result, UploadPart};

use crate::chaos::{Shared, WriteFate};
use crate::faults::{Fault, InjectedFault};

pub(crate) struct ChaosUpload<T> {
    inner: Box<dyn MultipartUpload>,
    location: Path,
    shared: Arc<Shared<T>>,
    is_open: bool,
}

impl<T> ChaosUpload<T> {
    pub(crate) fn new(
        inner: Box<dyn MultipartUpload>,
        location: Path,
        shared: Arc<Shared<T>>,
    ) -> Self {
        Self {
            inner,
            location,
            shared,
            is_open: true,
        }
    }

    fn close(&mut self) {
        if std::mem::take(&mut self.is_open) {
            self.shared.count(|uploads| uploads.n_open -= 1);
        }
    }
}

#[async_trait]
impl<T: ObjectStore> MultipartUpload for ChaosUpload<T> {
    fn put_part(&mut self, data: PutPayload) -> UploadPart {
        let shared = self.shared.clone();
        let part = self.inner.put_part(data);
        async move {
            shared.delay().await;
            shared.burst()?;
            if shared.part_fails() {
                return Err(InjectedFault::error(Fault::PartError));
            }
            part.await?;
            shared.count(|uploads| uploads.n_parts += 1);
            Ok(())
        }
        .boxed()
    }

    async fn complete(&mut self) -> Result<PutResult> {
        self.shared.delay().await;
        self.shared.burst()?;
        match self.shared.write_fate() {
            WriteFate::Fails(fault) => Err(InjectedFault::error(fault)),
            // An upload cannot be completed by anyone but its owner, so "late" is "now" here.
            WriteFate::Late(_) | WriteFate::FailsAfter => {
                self.inner.complete().await?;
                self.close();
                self.shared.note_written(&self.location);
                Err(InjectedFault::error(Fault::ErrorAfter))
            }
            WriteFate::Works => {
                let result = self.inner.complete().await?;
                self.close();
                self.shared.note_written(&self.location);
                Ok(result)
            }
        }
    }

    async fn abort(&mut self) -> Result<()> {
        self.shared.delay().await;
        self.shared.burst()?;
        self.inner.abort().await?;
        self.close();
        Ok(())
    }
}

impl<T> fmt::Debug for ChaosUpload<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ChaosUpload")
            .field("location", &self.location)
            .finish_non_exhaustive()
    }
}
