//! What the tests of this crate share.

use std::sync::Arc;
use std::time::Duration;

use millstream_env::{Clock, Env, EnvParts};
use millstream_testkit::{ChaosStore, Faults};
use millstream_types::{JobId, WallTime};
use object_store::memory::InMemory;
use object_store::path::Path;

use crate::store::{Store, StorePolicy};

pub(crate) const JOB: JobId = JobId::from_bytes(*b"0123456789abcdef");

/// Small parts, so that a few bytes are a large object.
pub(crate) const POLICY: StorePolicy = StorePolicy {
    attempt_timeout: Duration::from_secs(10),
    operation_timeout: Duration::from_secs(60),
    attempts_max: 8,
    backoff_initial: Duration::from_millis(100),
    backoff_max: Duration::from_secs(5),
    retry_budget: 1_000,
    part_bytes: 1_000,
    concurrency: 4,
};

/// An environment whose time goes with the runtime's, which a test may have paused.
pub(crate) fn env(seed: u64) -> Env {
    let test = Env::for_test(seed).env;
    Env::from_parts(EnvParts {
        clock: Clock::simulated(WallTime(1_700_000_000_000)),
        rng: test.rng().clone(),
        net: test.net().clone(),
        fs: test.fs().clone(),
        spawner: test.spawner().clone(),
        exit: test.exit().clone(),
    })
}

/// A store in memory that misbehaves as told, and the directory of a cluster on it.
pub(crate) fn chaos(env: &Env, faults: Faults) -> (ChaosStore<InMemory>, Store) {
    let rng = env.rng().fork("chaos");
    let objects = ChaosStore::new(InMemory::new(), faults, env.clock().clone(), rng);
    let store = over(env, objects.clone());
    (objects, store)
}

/// Another view of the same objects, as another process has it.
pub(crate) fn over(env: &Env, objects: ChaosStore<InMemory>) -> Store {
    Store::new(
        Arc::new(objects),
        "memory://test",
        Path::from("cluster"),
        env,
        POLICY,
    )
}
