//! Where durable things are, and how an S3 service is reached.

use crate::error::{ConfigError, ConfigErrors};
use crate::resolved::Resolved;
use crate::secret::SecretRef;
use crate::value::{StorageLocation, Value};

/// How an S3 service is reached.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct S3Options {
    /// Its address; `None` is AWS.
    pub endpoint: Option<String>,
    /// The region of the buckets.
    pub region: String,
    /// Id of the access key and where its secret is; `None` lets the environment decide.
    pub credentials: Option<(String, SecretRef)>,
    /// Whether the bucket is in the path.
    pub path_style: bool,
}

impl S3Options {
    /// Whether the connection is not encrypted.
    #[must_use]
    pub fn is_plain_http(&self) -> bool {
        self.endpoint
            .as_deref()
            .is_some_and(|endpoint| endpoint.starts_with("http://"))
    }
}

/// Where durable things are.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StorageConfig {
    /// Default place of the jobs' checkpoints.
    pub checkpoints: Option<StorageLocation>,
    /// Where jobs and results are kept: `high-availability.storageDir`, else the checkpoints' place.
    pub job_store: Option<StorageLocation>,
    /// The S3 service.
    pub s3: S3Options,
}

impl StorageConfig {
    /// Checks what the table says about storage.
    ///
    /// # Errors
    /// Half of a pair of credentials.
    pub fn new(table: &Resolved) -> Result<Self, ConfigErrors> {
        let checkpoints = table.location("checkpointing.dir");
        Ok(Self {
            job_store: table
                .location("high-availability.storageDir")
                .or_else(|| checkpoints.clone()),
            checkpoints,
            s3: S3Options {
                endpoint: table.text("s3.endpoint").map(str::to_owned),
                region: table.text("s3.region").unwrap_or_default().to_owned(),
                credentials: credentials(table)?,
                path_style: table.bool("s3.path.style.access"),
            },
        })
    }
}

fn credentials(table: &Resolved) -> Result<Option<(String, SecretRef)>, ConfigErrors> {
    let secret = match table.value("s3.secret-key") {
        Some(Value::Secret(reference)) => Some(reference.clone()),
        _ => None,
    };
    match (table.text("s3.access-key"), secret) {
        (Some(id), Some(secret)) => Ok(Some((id.to_owned(), secret))),
        (None, None) => Ok(None),
        (Some(_), None) => Err(ConfigError::Missing {
            key: "s3.secret-key",
            because: "s3.access-key is set, and one is nothing without the other",
        }
        .into()),
        (None, Some(_)) => Err(ConfigError::Missing {
            key: "s3.access-key",
            because: "s3.secret-key is set, and one is nothing without the other",
        }
        .into()),
    }
}
