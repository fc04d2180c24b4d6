//! Checkpoint directories, opened once and kept.

use std::collections::BTreeMap;

use async_trait::async_trait;
use millstream_config::StorageLocation;
use millstream_coordination::failure::{FailureInfo, FailureKind};
use millstream_env::Env;
use millstream_launch::StorageAccess;
use millstream_snapshot::Store;
use parking_lot::Mutex;

use crate::host::OpenStore;

/// Opens stores, each location once.
pub(crate) struct Stores {
    env: Env,
    /// `checkpointing.dir` of the cluster, for jobs that name none.
    default: Option<StorageLocation>,
    access: StorageAccess,
    opened: Mutex<BTreeMap<String, Store>>,
}

impl Stores {
    pub(crate) fn new(env: Env, default: Option<StorageLocation>, access: StorageAccess) -> Self {
        Self {
            env,
            default,
            access,
            opened: Mutex::new(BTreeMap::new()),
        }
    }
}

#[async_trait]
impl OpenStore for Stores {
    async fn open(&self, dir: Option<&StorageLocation>) -> Result<Option<Store>, FailureInfo> {
        let Some(location) = dir.or(self.default.as_ref()) else {
            return Ok(None);
        };
        let name = location.to_string();
        let opened = self.opened.lock().get(&name).cloned();
        if opened.is_some() {
            return Ok(opened);
        }
        let store = self
            .access
            .open(location, &self.env)
            .await
            .map_err(|error| {
                let text = millstream_telemetry::chain(&error);
                let mut failure = FailureInfo::new(FailureKind::Deployment, text);
                failure.remedy = Some(error.remedy());
                failure
            })?;
        // Two that opened it at once have two stores over the same place, which is harmless.
        self.opened.lock().insert(name, store.clone());
        Ok(Some(store))
    }
}
