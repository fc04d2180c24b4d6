//! Checkpoint directories, opened once and kept.

use std::collections::BTreeMap;
use std::error::Error;
use std::path::Path;

use async_trait::async_trait;
use millstream_config::{S3Options, SecretError, SecretReader, StorageLocation};
use millstream_coordination::failure::{FailureInfo, FailureKind};
use millstream_env::Env;
use millstream_env::fs::Fs;
use millstream_snapshot::{
    S3Credentials, Secret, StorageConfig, Store, StorePolicy, open as open_store,
};
use parking_lot::Mutex;

use crate::host::OpenStore;

/// A secret longer than this is none.
const SECRET_BYTES_MAX: u64 = 64 * 1024;

/// How stores are reached, apart from where they are.
#[derive(Clone, Debug, Default)]
pub struct StorageAccess {
    /// The S3 service.
    pub s3: millstream_snapshot::S3Options,
    /// Deadlines, retries, sizes.
    pub policy: StorePolicy,
}

impl StorageAccess {
    /// As configured; secrets are looked up now.
    pub fn new(config: &S3Options, env: &Env) -> Result<Self, SecretError> {
        let reader = Machine {
            fs: env.fs().as_ref(),
        };
        let credentials = config.credentials.as_ref().map(|(id, secret)| {
            let secret = secret.resolve("s3.secret-key", &reader)?;
            Ok(S3Credentials {
                access_key_id: id.clone(),
                secret_access_key: Secret::new(secret.expose()),
                session_token: None,
            })
        });
        let s3 = millstream_snapshot::S3Options {
            endpoint: config.endpoint.clone(),
            region: config.region.clone(),
            credentials: credentials.transpose()?,
            path_style: config.path_style,
            allow_http: config.is_plain_http(),
        };
        Ok(Self {
            s3,
            policy: StorePolicy::default(),
        })
    }
}

/// Secrets of this machine.
struct Machine<'a> {
    fs: &'a dyn Fs,
}

impl SecretReader for Machine<'_> {
    fn file(&self, path: &Path) -> std::io::Result<String> {
        let bytes = self
            .fs
            .read(path, SECRET_BYTES_MAX)
            .map_err(std::io::Error::other)?;
        String::from_utf8(bytes).map_err(std::io::Error::other)
    }

    fn variable(&self, name: &str) -> Option<String> {
        std::env::var(name).ok()
    }
}

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
        let location = absolute(location)?;
        let opened = self.opened.lock().get(&location).cloned();
        if opened.is_some() {
            return Ok(opened);
        }
        let config = StorageConfig {
            location: location.clone(),
            s3: self.access.s3.clone(),
            policy: self.access.policy,
        };
        let store = open_store(&config, &self.env).await.map_err(|error| {
            let mut failure = failure(&error);
            failure.remedy = Some(error.remedy());
            failure
        })?;
        // Two that opened it at once have two stores over the same place, which is harmless.
        self.opened.lock().insert(location, store.clone());
        Ok(Some(store))
    }
}

fn absolute(location: &StorageLocation) -> Result<String, FailureInfo> {
    match location {
        StorageLocation::S3 { .. } => Ok(location.to_string()),
        StorageLocation::Local(path) => {
            let path = std::path::absolute(path).map_err(|error| failure(&error))?;
            Ok(path.display().to_string())
        }
    }
}

fn failure(error: &dyn Error) -> FailureInfo {
    FailureInfo::new(FailureKind::Deployment, millstream_telemetry::chain(error))
}
