//! Configuration: texts in, checked policies out.
//!
//! One table ([`keys`]) knows every key. A [`Layer`] is one checked source (file, job, environment,
//! flags); [`Resolved`] lays layers over the defaults and knows for each value where it comes from;
//! policies such as [`CheckpointPolicy`] are what the rest of the product sees.
//!
//! Invariants: a key is accepted only if it has its effect; nothing unknown, ambiguous or without
//! unit gets through; a fault names key, value (never a secret's) and place; what is printed is read
//! back as the same configuration.
//!
//! Must never depend on: an executor, a clock, the file system, the environment. Callers read files
//! and variables and pass texts.

mod error;
mod layer;
mod origin;
mod policy;
mod registry;
mod resolved;
mod secret;
mod suggest;
mod value;
pub mod yaml;

#[cfg(test)]
mod tests;

pub use error::{ConfigError, ConfigErrors, Warning};
pub use layer::{Layer, OTHER_VARIABLES, Target};
pub use origin::{Origin, Place};
pub use policy::{
    CheckpointMode, CheckpointPolicy, ExponentialDelay, FailureRate, FixedDelay, HeartbeatConfig,
    Isolation, JobConfig, JobmanagerConfig, LogConfig, LogFormat, RestartPolicy, Retention,
    S3Options, StateBackendKind, StorageConfig, TaskmanagerConfig,
};
pub use registry::{
    Key, Only, Scope, Spelling, Status, VARIABLE_PREFIX, find, keys, reference_markdown,
    suggest_key, variable_of,
};
pub use resolved::{Resolved, Row};
pub use secret::{Secret, SecretError, SecretReader, SecretRef};
pub use suggest::suggest;
pub use value::{
    Choice, Host, Kind, MAX_DURATION, PortRange, StorageLocation, Value, ValueFault, human_bytes,
    human_duration, parse_bytes, parse_duration,
};
