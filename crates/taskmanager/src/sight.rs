//! Whether this machine sees the storage in which the jobmanager keeps checkpoints.
//!
//! Tasks would write their state into another directory of the same name, and nobody would notice
//! before the first restore does not find it.

use std::error::Error;
use std::time::Duration;

use millstream_config::StorageLocation;
use millstream_coordination::failure::{FailureInfo, FailureKind};
use millstream_coordination::protocol::CheckpointStorage;
use millstream_env::Env;
use millstream_launch::StorageAccess;
use millstream_snapshot::jobs::{DirectoryMark, gone, mark_of};
use millstream_snapshot::{Store, StoreError};
use millstream_telemetry::chain;
use parking_lot::Mutex;
use tracing::warn;

/// Time for one look; the next attempt to connect looks again.
const LOOK_TIMEOUT: Duration = Duration::from_secs(30);

/// What this machine has under the address of the cluster's storage is something else.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error(
    "the jobmanager at {jobmanager} keeps checkpoints in {location}, which is not {location} as \
     host {host} sees it{}: {found}",
    via(.endpoint.as_deref())
)]
pub struct OtherStorage {
    /// Where the jobmanager is.
    pub jobmanager: String,
    /// Where it keeps checkpoints.
    pub location: String,
    /// This machine.
    pub host: String,
    /// The S3 service that this taskmanager is configured for, where that counts.
    pub endpoint: Option<String>,
    /// What is there.
    pub found: Found,
}

fn via(endpoint: Option<&str>) -> String {
    endpoint.map_or_else(String::new, |endpoint| format!(" at {endpoint}"))
}

/// What is in the place of the cluster's storage.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum Found {
    /// No cluster took it, or it is not there.
    #[error("there is no object _cluster, which the jobmanager has there")]
    Nothing,
    /// Another cluster's storage.
    #[error("that belongs to cluster {0:?}")]
    OtherCluster(String),
    /// The same name, and yet another directory.
    #[error("its object _cluster has the id {found:?}, the jobmanager's has {expected:?}")]
    OtherDirectory {
        /// Of what is here.
        found: String,
        /// Of what should be.
        expected: String,
    },
}

impl OtherStorage {
    /// What to do about it.
    pub fn remedy(&self) -> String {
        match self.location.starts_with("s3://") {
            true => "set s3.endpoint of jobmanager and taskmanagers to the same service, then \
                     start this taskmanager again"
                .to_owned(),
            false => format!(
                "mount one shared directory at {} on the machines, or in the containers, of the \
                 jobmanager and of every taskmanager, or set checkpointing.dir to storage that \
                 all of them reach; then start this taskmanager again",
                self.location
            ),
        }
    }
}

/// How what is there differs from the jobmanager's storage, if it does.
fn difference(storage: &CheckpointStorage, found: Option<DirectoryMark>) -> Option<Found> {
    let Some(found) = found else {
        return Some(Found::Nothing);
    };
    if found.cluster_id != storage.cluster_id {
        return Some(Found::OtherCluster(found.cluster_id));
    }
    (found.directory_id != storage.directory_id).then(|| Found::OtherDirectory {
        found: found.directory_id,
        expected: storage.directory_id.clone(),
    })
}

/// Why the storage was not recognised.
#[derive(Debug)]
pub(crate) enum Unseen {
    /// It is another.
    Other(Box<OtherStorage>),
    /// It refuses this machine, for lack of rights for instance. The jobs that run into it say so.
    Refused {
        /// In words, with what to do.
        reason: String,
    },
    /// It could not be looked at; that may pass.
    Failed {
        /// In words, with what to do.
        reason: String,
    },
}

/// Why a look showed nothing.
struct Blind {
    cause: String,
    is_refused: bool,
}

impl Blind {
    fn by(error: &(dyn Error + 'static), remedy: &str) -> Self {
        let mut is_refused = false;
        let mut cause = Some(error);
        while let Some(error) = cause {
            let of_store = error.downcast_ref::<StoreError>();
            is_refused |= matches!(of_store, Some(StoreError::Refused { .. }));
            cause = error.source();
        }
        Self {
            cause: format!("{} ({remedy})", chain(error)),
            is_refused,
        }
    }

    fn passing(cause: String) -> Self {
        Self {
            cause,
            is_refused: false,
        }
    }
}

/// Looks for the cluster's storage, once for each.
pub(crate) struct Sight {
    env: Env,
    access: StorageAccess,
    host: String,
    /// `checkpointing.dir` of this taskmanager.
    own: Option<StorageLocation>,
    endpoint: Option<String>,
    /// The storage that was recognised last.
    seen: Mutex<Option<CheckpointStorage>>,
}

impl Sight {
    pub(crate) fn new(
        env: &Env,
        access: StorageAccess,
        host: String,
        config: &millstream_config::StorageConfig,
    ) -> Self {
        Self {
            env: env.clone(),
            access,
            host,
            own: config.checkpoints.clone(),
            endpoint: config.s3.endpoint.clone(),
            seen: Mutex::new(None),
        }
    }

    /// Whether what the jobmanager at this address says of its storage is true here.
    pub(crate) async fn check(
        &self,
        jobmanager: &str,
        storage: &CheckpointStorage,
    ) -> Result<(), Unseen> {
        if self.seen.lock().as_ref() == Some(storage) {
            return Ok(());
        }
        let look = self.look(&storage.location);
        let found = self.env.clock().timeout(LOOK_TIMEOUT, look).await;
        let found = found.unwrap_or_else(|elapsed| Err(Blind::passing(chain(&elapsed))));
        let found = found.map_err(|blind| {
            let cause = &blind.cause;
            let reason = format!("checkpoints are kept in {}: {cause}", storage.location);
            match blind.is_refused {
                true => Unseen::Refused { reason },
                false => Unseen::Failed { reason },
            }
        })?;
        if let Some(found) = difference(storage, found) {
            let is_s3 = storage.location.starts_with("s3://");
            return Err(Unseen::Other(Box::new(OtherStorage {
                jobmanager: jobmanager.to_owned(),
                location: storage.location.clone(),
                host: self.host.clone(),
                endpoint: self.endpoint.clone().filter(|_| is_s3),
                found,
            })));
        }
        self.warn_of_own(storage);
        *self.seen.lock() = Some(storage.clone());
        Ok(())
    }

    /// The mark of what is there; an error says what to do.
    async fn look(&self, location: &str) -> Result<Option<DirectoryMark>, Blind> {
        let location = StorageLocation::parse(location).map_err(|fault| {
            let message = fault.message("the location");
            Blind::passing(format!("{message} ({})", fault.remedy("the location")))
        })?;
        let store = self.access.look_at(&location, &self.env);
        let store = store.map_err(|error| Blind::by(&error, &error.remedy()))?;
        let mark = mark_of(&store).await;
        mark.map_err(|error| Blind::by(&error, &error.remedy()))
    }

    /// Jobs keep their checkpoints where the jobmanager says.
    fn warn_of_own(&self, storage: &CheckpointStorage) {
        if let Some(own) = &self.own
            && own.to_string() != storage.location
        {
            warn!(
                here = %own,
                jobmanager = storage.location,
                "checkpointing.dir of this taskmanager has no effect: the jobmanager's counts"
            );
        }
    }
}

/// Whether the job's directory as this machine sees it is the one in which the jobmanager keeps the
/// job: state that was written elsewhere is not found again. A store that does not answer is no
/// proof of another.
pub(crate) async fn sees_job(dir: &Store) -> Result<(), FailureInfo> {
    match gone(dir).await {
        Ok(None) | Err(_) => Ok(()),
        Ok(Some(object)) => {
            let text = format!(
                "{object} is not there as this taskmanager sees it: the job's checkpointing.dir is \
                 another place here than for the jobmanager"
            );
            let mut failure = FailureInfo::new(FailureKind::Deployment, text);
            failure.remedy = Some(format!(
                "make {} one place for jobmanager and taskmanagers: a shared directory, or a bucket \
                 under the same s3.endpoint",
                dir.address()
            ));
            Err(failure)
        }
    }
}

#[cfg(test)]
mod tests {
    use millstream_snapshot::StorageConfig;
    use millstream_snapshot::jobs::JobStore;

    use super::*;

    const JOBMANAGER: &str = "10.0.0.1:6123";

    /// The storage of a jobmanager at `/ckpt` of the machine of `env`.
    async fn storage(env: &Env) -> CheckpointStorage {
        let store = millstream_snapshot::open(&StorageConfig::at("/ckpt"), env)
            .await
            .unwrap();
        let jobs = JobStore::open(store.clone(), "prod").await.unwrap();
        CheckpointStorage {
            location: store.address(),
            cluster_id: jobs.mark().cluster_id.clone(),
            directory_id: jobs.mark().directory_id.clone(),
        }
    }

    fn sight(env: &Env) -> Sight {
        let table = millstream_config::Resolved::new([]);
        let config = millstream_config::StorageConfig::new(&table).unwrap();
        Sight::new(env, StorageAccess::default(), "tm-host".to_owned(), &config)
    }

    async fn refused(env: &Env, storage: &CheckpointStorage) -> OtherStorage {
        match sight(env).check(JOBMANAGER, storage).await {
            Err(Unseen::Other(other)) => *other,
            other => panic!("{other:?}"),
        }
    }

    #[tokio::test]
    async fn the_same_directory_is_recognised_and_not_looked_at_again() {
        let machine = Env::for_test(1);
        let storage = storage(&machine.env).await;
        let sight = sight(&machine.env);
        sight.check(JOBMANAGER, &storage).await.unwrap();
        // A storage that is away later is the business of those who use it.
        let lock = std::path::Path::new("/ckpt/_cluster");
        machine.env.fs().remove(lock).unwrap();
        sight.check(JOBMANAGER, &storage).await.unwrap();
    }

    #[tokio::test]
    async fn a_directory_of_the_same_name_on_another_machine_is_refused() {
        let theirs = storage(&Env::for_test(1).env).await;
        let other = Env::for_test(2);
        let nothing = refused(&other.env, &theirs).await;
        assert_eq!(nothing.found, Found::Nothing);
        let text = nothing.to_string();
        for part in [
            JOBMANAGER,
            "keeps checkpoints in /ckpt",
            "/ckpt as host tm-host sees it",
        ] {
            assert!(text.contains(part), "{text}");
        }
        assert!(nothing.remedy().contains("shared directory at /ckpt"));
        // It was looked at, not made.
        assert!(
            other
                .env
                .fs()
                .metadata(std::path::Path::new("/ckpt"))
                .is_err()
        );

        let ours = storage(&other.env).await;
        let two = refused(&other.env, &theirs).await;
        let expected = Found::OtherDirectory {
            found: ours.directory_id,
            expected: theirs.directory_id.clone(),
        };
        assert_eq!(two.found, expected);
        let stranger = CheckpointStorage {
            cluster_id: "staging".to_owned(),
            ..theirs
        };
        let found = refused(&other.env, &stranger).await.found;
        assert_eq!(found, Found::OtherCluster("prod".to_owned()));
    }

    #[tokio::test]
    async fn what_cannot_be_looked_at_is_no_verdict() {
        let machine = Env::for_test(1);
        let mut storage = storage(&machine.env).await;
        let lock = std::path::Path::new("/ckpt/_cluster");
        machine.env.fs().remove(lock).unwrap();
        machine.env.fs().write_new(lock, b"damaged").unwrap();
        let sight = sight(&machine.env);
        let Err(Unseen::Failed { reason }) = sight.check(JOBMANAGER, &storage).await else {
            panic!("it was read");
        };
        assert!(reason.contains("/ckpt/_cluster is refused"), "{reason}");
        storage.location = "ckpt".to_owned();
        let relative = sight.check(JOBMANAGER, &storage).await;
        assert!(
            matches!(relative, Err(Unseen::Failed { .. })),
            "{relative:?}"
        );
    }
}
