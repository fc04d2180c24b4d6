//! How stores are reached, apart from where they are.

use std::path::Path;

use millstream_config::{S3Options, SecretError, SecretReader, StorageLocation};
use millstream_env::Env;
use millstream_env::fs::Fs;
use millstream_snapshot::{
    OpenError, S3Credentials, Secret, StorageConfig, Store, StorePolicy, open,
};

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

    /// Opens and tries the store at a location. A relative path is refused: jobmanager and
    /// taskmanagers would look for one another's files each in its own directory.
    pub async fn open(&self, location: &StorageLocation, env: &Env) -> Result<Store, OpenError> {
        open(&self.config(location), env).await
    }

    /// The store at a location, to read what is there. Writes and makes nothing.
    pub fn look_at(&self, location: &StorageLocation, env: &Env) -> Result<Store, OpenError> {
        millstream_snapshot::look_at(&self.config(location), env)
    }

    fn config(&self, location: &StorageLocation) -> StorageConfig {
        StorageConfig {
            location: location.to_string(),
            s3: self.s3.clone(),
            policy: self.policy,
        }
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
            .map_err(|error| error.source)?;
        String::from_utf8(bytes).map_err(std::io::Error::other)
    }

    fn variable(&self, name: &str) -> Option<String> {
        std::env::var(name).ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // What one process stored in its own directory, no other would find at a restore.
    #[tokio::test]
    async fn a_relative_directory_is_refused_and_not_looked_for_in_the_own_one() {
        let env = Env::for_test(1).env;
        let location = StorageLocation::parse("checkpoints").unwrap();
        let error = StorageAccess::default()
            .open(&location, &env)
            .await
            .unwrap_err();
        assert!(
            error.to_string().contains("the path is relative"),
            "{error}"
        );
        assert!(
            error.remedy().contains("all jobmanagers"),
            "{}",
            error.remedy()
        );
    }
}
