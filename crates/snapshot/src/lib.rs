//! Objects on storage: checkpoint metadata, chain entries, state, submitted jobs.
//!
//! One job: everything that outlives a process is written and read here, through [`Store`].
//!
//! Invariants: a name is written once; what is read is checked before it is believed; every write
//! ends as happened, not happened, or open; nothing is deleted that was not made here.
//!
//! Must never depend on: how a checkpoint is decided or state is kept in memory; nobody else names
//! the object store's library or the form of what is stored.

mod answer;
pub mod chain;
pub mod download;
mod envelope;
mod error;
pub mod files;
pub mod gc;
pub mod jobs;
mod local;
pub mod metadata;
pub mod names;
mod open;
pub mod probe;
mod store;
pub mod upload;

pub use answer::Answer;
pub use envelope::EnvelopeFault;
pub use error::{Mismatch, Operation, StoreError};
pub use local::DurableDirectory;
pub use open::{
    OpenError, S3Credentials, S3Options, Secret, StandIn, StandInFor, StorageConfig, look_at, open,
    open_with_connector,
};
pub use store::{
    Created, Listing, PageMark, Store, StoreCounters, StorePolicy, Upload, VerifiedReader,
};

#[cfg(test)]
mod s3_tests;
#[cfg(test)]
mod testing;

/// The messages of `proto/millstream/v1`, seen by the conversions of this crate only.
#[allow(clippy::all, missing_docs, unreachable_pub, unused_qualifications)]
mod pb {
    include!(concat!(env!("OUT_DIR"), "/millstream.v1.rs"));
}
