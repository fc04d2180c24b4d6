//! Is this a store that a claim chain can stand on? Asked once, at start, because the safety of
//! every job rests on the answer (DESIGN 7): two creates of one name must not
//! both succeed. Some S3 servers accept the condition and ignore it.

use bytes::Bytes;

use millstream_types::errors::{self, ErrorCode};

use crate::error::StoreError;
use crate::names;
use crate::store::{Created, Store};

/// What the trial of a store found.
#[derive(Debug, thiserror::Error)]
pub enum ProbeError {
    /// A second create of the same name succeeded.
    #[error(
        "it lies about conditional writes: it created {object} twice, so two jobmanagers could \
         both own a job"
    )]
    CreatesTwice {
        /// The object of the trial.
        object: String,
    },
    /// It says that a name exists which nobody can have written.
    #[error("it lies about conditional writes: it says that {object} exists, which nobody wrote")]
    ExistsUnwritten {
        /// The object of the trial.
        object: String,
    },
    /// It does not give back what was written first.
    #[error("it does not keep what was created first: {object} reads back differently")]
    ReadsOther {
        /// The object of the trial.
        object: String,
    },
    /// It did not serve the trial.
    #[error("it did not serve the trial at start")]
    NotServed(#[source] StoreError),
}

impl ProbeError {
    /// Its code.
    pub fn code(&self) -> ErrorCode {
        match self {
            Self::CreatesTwice { .. } | Self::ExistsUnwritten { .. } | Self::ReadsOther { .. } => {
                errors::STORE_LIES
            }
            Self::NotServed(error) => error.code(),
        }
    }

    /// What an operator can do about it.
    pub fn remedy(&self) -> String {
        match self {
            Self::CreatesTwice { .. } | Self::ExistsUnwritten { .. } | Self::ReadsOther { .. } => {
                "Use a store that honours \"If-None-Match: *\" on PUT (Amazon S3, Ceph, MinIO, \
                 SeaweedFS in a version of 2024 or later), reach it without a cache in between, or \
                 use a directory on a POSIX file system."
                    .into()
            }
            // Nobody tries again: the daemon does not start.
            Self::NotServed(StoreError::Unavailable { object, .. }) => format!(
                "Check the directory or server of {object}: whether it is there, answers and has \
                 room. Then start again."
            ),
            Self::NotServed(error) => error.remedy(),
        }
    }
}

/// How often an attempt whose outcome stays unknown is made again, under another name.
const ROUNDS_MAX: u32 = 5;

/// Creates a random name twice and reads it back. What it wrote it deletes.
pub async fn conditional_create(store: &Store) -> Result<(), ProbeError> {
    let mut rounds = 0;
    loop {
        rounds += 1;
        match round(store).await {
            Err(ProbeError::NotServed(error)) if error.is_transient() && rounds < ROUNDS_MAX => {
                let pause = store
                    .rng()
                    .jitter(store.policy().backoff_initial * rounds, 0.5);
                store.clock().sleep(pause).await;
            }
            found => return found,
        }
    }
}

async fn round(store: &Store) -> Result<(), ProbeError> {
    let name = names::probe(store.nonce());
    let object = store.object(&name);
    let first = Bytes::from(format!("first {}", store.nonce()));
    let second = Bytes::from(format!("other {}", store.nonce()));

    let created = store.create_once(&name, first.clone()).await;
    if created.map_err(ProbeError::NotServed)? == Created::Exists {
        return Err(ProbeError::ExistsUnwritten { object });
    }
    let again = store.create_once(&name, second).await;
    if again.map_err(ProbeError::NotServed)? == Created::New {
        // Left where it is, as evidence; its name shows what it was.
        return Err(ProbeError::CreatesTwice { object });
    }
    let size_max = 2 * first.len() as u64;
    let read = store
        .get(&name, size_max)
        .await
        .map_err(ProbeError::NotServed)?;
    if read != first {
        return Err(ProbeError::ReadsOther { object });
    }
    // A probe that cannot be deleted is a leak of a few bytes, not a reason to refuse.
    let _ = store.delete(&[name]).await;
    Ok(())
}
