//! The durable things of a daemon.

use std::sync::Arc;

use async_trait::async_trait;
use millstream_config::{StorageConfig, StorageLocation};
use millstream_env::Env;
use millstream_launch::StorageAccess;
use millstream_snapshot::{OpenError, Store};

use super::DaemonError;
use crate::{Storage, StorageOpener};

/// Opens and tries what is configured. Without any place jobs are kept in memory, and the
/// jobmanager says what that means.
pub(super) async fn open(env: &Env, config: &StorageConfig) -> Result<Storage, DaemonError> {
    let access = StorageAccess::new(&config.s3, env)?;
    let opener = Opener {
        env: env.clone(),
        access,
    };
    let checkpoints = match &config.checkpoints {
        Some(location) => Some(opened(&opener, location).await?),
        None => None,
    };
    let (jobs, is_durable) = match &config.job_store {
        Some(location) => (opened(&opener, location).await?, true),
        None => (in_memory(env).await?, false),
    };
    Ok(Storage {
        jobs,
        is_durable,
        checkpoints,
        opener: Arc::new(opener),
    })
}

async fn opened(opener: &Opener, location: &StorageLocation) -> Result<Store, DaemonError> {
    let opened = opener.open(location).await;
    opened.map_err(|error| Box::new(error).into())
}

async fn in_memory(env: &Env) -> Result<Store, DaemonError> {
    let config = millstream_snapshot::StorageConfig::at("memory://");
    let opened = millstream_snapshot::open(&config, env).await;
    opened.map_err(|error| Box::new(error).into())
}

struct Opener {
    env: Env,
    access: StorageAccess,
}

#[async_trait]
impl StorageOpener for Opener {
    async fn open(&self, location: &StorageLocation) -> Result<Store, OpenError> {
        self.access.open(location, &self.env).await
    }
}

#[cfg(test)]
mod tests {
    use millstream_config::Resolved;

    use super::*;

    #[tokio::test]
    async fn without_any_place_jobs_are_kept_in_memory() {
        let env = Env::for_test(1).env;
        let config = StorageConfig::new(&Resolved::new([])).unwrap();
        let storage = open(&env, &config).await.unwrap();
        assert!(!storage.is_durable);
        assert!(storage.checkpoints.is_none());
    }
}
