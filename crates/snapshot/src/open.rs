//! From a configured location to a store that was tried.

use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;

use millstream_env::Env;
use millstream_types::errors::{self, ErrorCode};
use object_store::aws::{AmazonS3Builder, S3ConditionalPut};
use object_store::client::{HttpClient, HttpConnector, ReqwestConnector};
use object_store::memory::InMemory;
use object_store::path::Path;
use object_store::{BackoffConfig, ClientOptions, ObjectStore, RetryConfig};

use crate::answer::Answer;
use crate::local::DurableDirectory;
use crate::probe::{self, ProbeError};
use crate::store::{Store, StorePolicy};

/// Where checkpoints, chains and jobs are kept.
#[derive(Clone, Debug)]
pub struct StorageConfig {
    /// An absolute path, `file:///path`, `s3://bucket/prefix`, or `memory://` for tests: each
    /// store in memory is its own.
    pub location: String,
    /// How to reach S3; not looked at for other locations.
    pub s3: S3Options,
    /// Deadlines, retries, sizes.
    pub policy: StorePolicy,
}

impl StorageConfig {
    /// Everything but the location as usual.
    pub fn at(location: impl Into<String>) -> Self {
        Self {
            location: location.into(),
            s3: S3Options::default(),
            policy: StorePolicy::default(),
        }
    }
}

/// How to reach a store that speaks S3.
#[derive(Clone, Debug)]
pub struct S3Options {
    /// `http(s)://host:port` of a server that is not Amazon's.
    pub endpoint: Option<String>,
    /// The region; servers that have none accept any.
    pub region: String,
    /// Without keys, the machine's own identity is asked for (container, instance, web identity).
    pub credentials: Option<S3Credentials>,
    /// The bucket in the path (most servers) instead of in the host name (Amazon).
    pub path_style: bool,
    /// Allows `http://`, which sends state and signatures in the clear.
    pub allow_http: bool,
}

impl Default for S3Options {
    fn default() -> Self {
        Self {
            endpoint: None,
            region: "us-east-1".into(),
            credentials: None,
            path_style: false,
            allow_http: false,
        }
    }
}

/// Keys of an S3 account.
#[derive(Clone, Debug)]
pub struct S3Credentials {
    /// The public half.
    pub access_key_id: String,
    /// The secret half.
    pub secret_access_key: Secret,
    /// Of temporary credentials.
    pub session_token: Option<Secret>,
}

/// A text that is never printed.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(String);

impl Secret {
    /// Hides the text.
    pub fn new(text: impl Into<String>) -> Self {
        Self(text.into())
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("***")
    }
}

/// Why a location cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// The text does not say where.
    #[error(
        "storage location {found:?} is not one: {reason}; expected an absolute path, file:///path \
         or s3://bucket/prefix"
    )]
    Location {
        /// The text as given.
        found: String,
        /// What is wrong with it.
        reason: &'static str,
    },
    /// S3 takes no parts of this size, but for the last.
    #[error("storage {location}: parts of {found} bytes are below S3's minimum of {min}")]
    PartSize {
        /// The location.
        location: String,
        /// What was configured.
        found: usize,
        /// What is the least.
        min: usize,
    },
    /// The client does not accept the options.
    #[error("storage {location}: its options do not fit together")]
    Options {
        /// The location.
        location: String,
        /// What does not fit.
        #[source]
        source: Box<Answer>,
    },
    /// It was tried and cannot be used.
    #[error("storage {location} cannot be used")]
    Probe {
        /// The location.
        location: String,
        /// What the trial found.
        #[source]
        source: ProbeError,
    },
}

impl OpenError {
    /// Whether trying again may help, without anybody changing anything.
    pub fn is_transient(&self) -> bool {
        match self {
            Self::Probe {
                source: ProbeError::NotServed(error),
                ..
            } => error.is_transient(),
            Self::Probe { .. }
            | Self::Location { .. }
            | Self::PartSize { .. }
            | Self::Options { .. } => false,
        }
    }

    /// Its code.
    pub fn code(&self) -> ErrorCode {
        match self {
            Self::Location { .. } => errors::STORE_LOCATION,
            Self::PartSize { .. } | Self::Options { .. } => errors::STORE_OPTIONS,
            Self::Probe { source, .. } => source.code(),
        }
    }

    /// What an operator can do about it.
    pub fn remedy(&self) -> String {
        match self {
            Self::Location { .. } => {
                "Set the storage location to a directory that all jobmanagers and taskmanagers see."
                    .into()
            }
            Self::PartSize { min, .. } => format!("Set the part size to {min} bytes or more."),
            Self::Options { .. } => {
                "Check endpoint, region and keys; an endpoint that starts with http:// must be \
                 allowed explicitly."
                    .into()
            }
            Self::Probe { source, .. } => source.remedy(),
        }
    }
}

/// What objects stand in for those at a location, if any do: the simulated store of
/// [`Env::with_double`].
pub struct StandIn(pub StandInFor);

/// From a location as configured to the objects that stand in for it.
pub type StandInFor = Box<dyn Fn(&str) -> Option<Arc<dyn ObjectStore>> + Send + Sync>;

impl fmt::Debug for StandIn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("StandIn")
    }
}

/// The least size of the parts of an upload to S3.
const S3_PART_BYTES_MIN: usize = 5 << 20;

/// Retries by the client itself, of the parts of uploads only: a part cannot be sent again from
/// outside. Nothing else is repeated behind our back, least of all a create.
const PART_RETRIES: usize = 2;

/// Opens a location and tries it: a store that overwrites what was to be created only once is
/// refused (see [`crate::probe`]).
pub async fn open(config: &StorageConfig, env: &Env) -> Result<Store, OpenError> {
    open_with_connector(config, env, ReqwestConnector::default()).await
}

/// Opens a location to read from it. Nothing is tried, written or made: what is there may be
/// somebody else's.
pub fn look_at(config: &StorageConfig, env: &Env) -> Result<Store, OpenError> {
    build(config, env, ReqwestConnector::default())
}

/// As [`open`], with another way to send HTTP requests: a simulated network, a faulty proxy.
pub async fn open_with_connector(
    config: &StorageConfig,
    env: &Env,
    connector: impl HttpConnector,
) -> Result<Store, OpenError> {
    let store = build(config, env, connector)?;
    probe::conditional_create(&store)
        .await
        .map_err(|source| OpenError::Probe {
            location: store.address(),
            source,
        })?;
    Ok(store)
}

fn build(
    config: &StorageConfig,
    env: &Env,
    connector: impl HttpConnector,
) -> Result<Store, OpenError> {
    let new = |objects: Arc<dyn ObjectStore>, address: String, dir: Path| {
        Store::new(objects, address, dir, env, config.policy)
    };
    let location = config.location.as_str();
    if let Some(objects) = env
        .double::<StandIn>()
        .and_then(|double| (double.0)(location))
    {
        return Ok(new(objects, location.to_owned(), Path::default()));
    }
    match Location::parse(location)? {
        Location::Memory => Ok(new(
            Arc::new(InMemory::new()),
            "memory://store".into(),
            Path::default(),
        )),
        Location::Directory(root) => {
            let address = root.display().to_string();
            let objects = DurableDirectory::new(root, env);
            Ok(new(Arc::new(objects), address, Path::default()))
        }
        Location::S3 { .. } if config.policy.part_bytes < S3_PART_BYTES_MIN => {
            Err(OpenError::PartSize {
                location: config.location.clone(),
                found: config.policy.part_bytes,
                min: S3_PART_BYTES_MIN,
            })
        }
        Location::S3 { bucket, prefix } => {
            let connector = Arc::new(connector);
            let objects = s3(config, &bucket, Shared(connector.clone()), 0)?;
            let uploads = s3(config, &bucket, Shared(connector), PART_RETRIES)?;
            Ok(new(objects, format!("s3://{bucket}"), prefix).with_uploads(uploads))
        }
    }
}

fn s3(
    config: &StorageConfig,
    bucket: &str,
    connector: impl HttpConnector,
    max_retries: usize,
) -> Result<Arc<dyn ObjectStore>, OpenError> {
    let (options, policy) = (&config.s3, &config.policy);
    let retry = RetryConfig {
        backoff: BackoffConfig {
            init_backoff: policy.backoff_initial,
            max_backoff: policy.backoff_max,
            base: 2.0,
        },
        max_retries,
        retry_timeout: policy.attempt_timeout,
    };
    let client = ClientOptions::new()
        .with_timeout(policy.attempt_timeout)
        .with_connect_timeout(policy.attempt_timeout / 2)
        .with_allow_http(options.allow_http);
    let mut builder = AmazonS3Builder::new()
        .with_client_options(client)
        .with_bucket_name(bucket)
        .with_region(&options.region)
        .with_virtual_hosted_style_request(!options.path_style)
        .with_conditional_put(S3ConditionalPut::ETagMatch)
        .with_retry(retry)
        .with_http_connector(connector);
    if let Some(endpoint) = &options.endpoint {
        builder = builder.with_endpoint(endpoint);
    }
    if let Some(keys) = &options.credentials {
        builder = builder
            .with_access_key_id(&keys.access_key_id)
            .with_secret_access_key(&keys.secret_access_key.0);
        if let Some(token) = &keys.session_token {
            builder = builder.with_token(&token.0);
        }
    }
    match builder.build() {
        Ok(s3) => Ok(Arc::new(s3)),
        Err(source) => Err(OpenError::Options {
            location: config.location.clone(),
            source: Answer::boxed(source),
        }),
    }
}

/// One connector for two clients.
#[derive(Debug)]
struct Shared<C>(Arc<C>);

impl<C: HttpConnector> HttpConnector for Shared<C> {
    fn connect(&self, options: &ClientOptions) -> object_store::Result<HttpClient> {
        self.0.connect(options)
    }
}

/// A location, understood.
#[derive(PartialEq, Eq, Debug)]
enum Location {
    Memory,
    Directory(PathBuf),
    S3 { bucket: String, prefix: Path },
}

impl Location {
    fn parse(text: &str) -> Result<Self, OpenError> {
        let error = |reason| OpenError::Location {
            found: text.to_owned(),
            reason,
        };
        if let Some(rest) = text.strip_prefix("s3://") {
            let (bucket, prefix) = rest.split_once('/').unwrap_or((rest, ""));
            if bucket.is_empty() {
                return Err(error("it names no bucket"));
            }
            let prefix = Path::parse(prefix.trim_end_matches('/')).map_err(|_| {
                error("the prefix after the bucket has an empty or special segment")
            })?;
            return Ok(Self::S3 {
                bucket: bucket.to_owned(),
                prefix,
            });
        }
        if text == "memory://" {
            return Ok(Self::Memory);
        }
        let path = match text.split_once("://") {
            Some(("file", path)) => path,
            Some(_) => return Err(error("the scheme before :// is unknown")),
            None => text,
        };
        if !path.starts_with('/') {
            return Err(error(
                "the path is relative, and each process has its own directory",
            ));
        }
        Ok(Self::Directory(PathBuf::from(path)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Result<Location, String> {
        Location::parse(text).map_err(|error| error.to_string())
    }

    #[test]
    fn locations_are_paths_files_and_buckets() {
        let directory = |path: &str| Ok(Location::Directory(PathBuf::from(path)));
        assert_eq!(parse("/data/ckpt"), directory("/data/ckpt"));
        assert_eq!(parse("file:///data/ckpt"), directory("/data/ckpt"));
        let s3 = |prefix: &str| {
            Ok(Location::S3 {
                bucket: "b-1".into(),
                prefix: Path::parse(prefix).unwrap(),
            })
        };
        assert_eq!(parse("s3://b-1"), s3(""));
        assert_eq!(parse("s3://b-1/"), s3(""));
        assert_eq!(parse("s3://b-1/a/b/"), s3("a/b"));
    }

    #[test]
    fn what_is_no_location_is_refused_with_the_forms_that_are() {
        for (text, reason) in [
            ("", "relative"),
            ("data/ckpt", "relative"),
            ("file://data", "relative"),
            ("s3://", "no bucket"),
            ("s3:///a", "no bucket"),
            ("s3://b/a//b", "special segment"),
            ("s3://b/../c", "special segment"),
            ("hdfs://namenode/x", "unknown"),
            ("memory://x", "unknown"),
        ] {
            let error = parse(text).unwrap_err();
            assert!(
                error.contains(reason) && error.contains("s3://bucket/prefix"),
                "{error}"
            );
        }
    }

    #[test]
    fn keys_are_never_printed() {
        let credentials = S3Credentials {
            access_key_id: "AKIA".into(),
            secret_access_key: Secret::new("canary-1"),
            session_token: Some(Secret::new("canary-2")),
        };
        let mut config = StorageConfig::at("s3://b");
        config.s3.credentials = Some(credentials);
        assert!(!format!("{config:?}").contains("canary"));
    }
}
