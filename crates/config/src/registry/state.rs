//! Keys of state and of the object store it is kept in.

use super::{Key, key, later, no_effect};
use crate::value::{Choice, Kind};

const BACKENDS: &[Choice] = &[
    Choice::new("hashmap", &["memory", "filesystem", "jobmanager"]),
    Choice::new("rocksdb", &[]),
];

pub(super) const KEYS: &[Key] = &[
    key("state.backend.type", Kind::Choice(BACKENDS))
        .old(&["state.backend"])
        .default("hashmap")
        .means(
            "Where keyed state is while the job runs.",
            "`hashmap` is in memory; `rocksdb` may be larger than memory.",
        ),
    key("state.backend.rocksdb.localdir", Kind::List)
        .cluster()
        .means(
            "Working directories of RocksDB, on the taskmanager.",
            "Several are used in turn; unset, the temporary directory is used.",
        ),
    no_effect(
        "state.backend.async",
        "snapshots of state in memory are always asynchronous",
    ),
    later(
        "state.backend.rocksdb.memory.*",
        "an explicit memory budget of RocksDB; it follows taskmanager.memory.managed.fraction",
    ),
    later(
        "state.backend.rocksdb.timer-service.factory",
        "choosing where timers are kept",
    ),
    later(
        "state.backend.rocksdb.checkpoint.transfer.thread.num",
        "choosing the number of uploads at a time",
    ),
    later(
        "state.backend.rocksdb.predefined-options",
        "profiles of RocksDB",
    ),
    later(
        "state.backend.rocksdb.use-ingest-db-restore-mode",
        "choosing how state is rescaled",
    ),
    later(
        "state.backend.rocksdb.metrics.*",
        "metrics of RocksDB itself",
    ),
    later(
        "state.backend.latency-track.*",
        "histograms of state access",
    ),
    later("state.changelog.*", "the changelog backend"),
    later(
        "execution.state-recovery.*",
        "starting from a savepoint or with local state",
    )
    .old(&["state.backend.local-recovery"]),
];

pub(super) const S3_KEYS: &[Key] = &[
    key("s3.endpoint", Kind::Url).cluster().means(
        "Address of an S3 service.",
        "Unset, AWS is used in the region given.",
    ),
    key("s3.region", Kind::Text).cluster().default("us-east-1").means(
        "Region of the buckets.",
        "Part of every signature, also with another service.",
    ),
    key("s3.access-key", Kind::Text).cluster().means(
        "Id of the access key.",
        "Unset, the environment of the daemon decides (instance role, AWS variables).",
    ),
    key("s3.secret-key", Kind::Secret).cluster().means(
        "Secret of the access key, by reference: `{ file: … }`, `{ env: … }`, or `s3.secret-key-file`.",
        "Given together with `s3.access-key`.",
    ),
    key("s3.path.style.access", Kind::Bool)
        .cluster()
        .also(&["s3.path-style-access"])
        .default("false")
        .means(
            "Whether the bucket is in the path and not in the host name.",
            "Most services other than AWS need `true`.",
        ),
    later("s3.session-token", "temporary credentials"),
];
