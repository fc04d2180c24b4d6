//! Keys of checkpoints. `execution.checkpointing.X` is the long form of each `checkpointing.X`.

use super::{Key, key, later};
use crate::value::{Choice, Kind};

const MODES: &[Choice] = &[
    Choice::new("exactly-once", &[]),
    Choice::new("at-least-once", &[]),
];

const RETENTIONS: &[Choice] = &[
    Choice::new("no-externalized-checkpoints", &["no-externalized"]),
    Choice::new("delete-on-cancellation", &[]),
    Choice::new("retain-on-cancellation", &[]),
];

const STORAGES: &[Choice] = &[
    Choice::new("filesystem", &[]),
    Choice::not_built("jobmanager", "checkpoints are kept below checkpointing.dir"),
];

pub(super) const KEYS: &[Key] = &[
    key("checkpointing.interval", Kind::duration_from_millis(10)).means(
        "Time from one periodic checkpoint to the next.",
        "Unset, no checkpoint is taken and a failure without a restart strategy is final.",
    ),
    key("checkpointing.mode", Kind::Choice(MODES)).default("exactly-once").means(
        "What a restart guarantees for state.",
        "At-least-once does not hold back the channels whose barrier came first.",
    ),
    key("checkpointing.timeout", Kind::duration_from_millis(10)).default("10 min").means(
        "Time a checkpoint may take from its trigger on.",
        "An expired checkpoint is discarded and counts as failed.",
    ),
    key("checkpointing.min-pause", Kind::DURATION).default("0 s").means(
        "Time from a completed checkpoint to the next periodic one.",
        "A failed checkpoint does not begin a pause; savepoints do not wait for it.",
    ),
    key("checkpointing.max-concurrent-checkpoints", Kind::int(1, 64)).default("1").means(
        "Checkpoints under way at one time.",
        "More than one is not possible together with a pause.",
    ),
    key("checkpointing.tolerable-failed-checkpoints", Kind::int(0, 1_000_000)).default("0").means(
        "Failed checkpoints in a row that are tolerated.",
        "The next one fails the job.",
    ),
    key("checkpointing.externalized-checkpoint-retention", Kind::Choice(RETENTIONS))
        .default("delete-on-cancellation")
        .means(
            "Which checkpoints stay when a job ends.",
            "A finished job keeps none; a cancelled one keeps them with `retain-on-cancellation`, a \
             failed one except with `no-externalized-checkpoints`.",
        ),
    key("checkpointing.checkpoints-after-tasks-finish", Kind::Bool)
        .old(&["execution.checkpointing.checkpoints-after-tasks-finish.enabled"])
        .default("true")
        .only("true", "refusing checkpoints once a task finished, as Flink did before 1.14")
        .means(
            "Whether checkpoints go on when some tasks have finished.",
            "A bounded source beside unbounded ones does not end the fault tolerance of the job.",
        ),
    key("checkpointing.num-retained", Kind::int(1, 1_000))
        .old(&["state.checkpoints.num-retained"])
        .default("2")
        .means("Completed checkpoints that are kept.", "Older ones are deleted."),
    key("checkpointing.incremental", Kind::Bool)
        .old(&["state.backend.incremental"])
        .default("true")
        .means(
            "Whether a checkpoint of RocksDB state uploads only what changed since the last complete \
             one, and refers to its files for the rest.",
            "Everything is uploaded again when the changes have become as much as what they change, \
             or are in 128 files; if that comes to nothing, when they have become twice as much. \
             State below 1 MiB and state in memory is uploaded whole each time.",
        ),
    key("checkpointing.dir", Kind::Location).old(&["state.checkpoints.dir"]).means(
        "Directory or object store prefix of all checkpoints.",
        "Every jobmanager and taskmanager must reach it; needed as soon as there is an interval.",
    ),
    key("checkpointing.storage", Kind::Choice(STORAGES))
        .old(&["state.checkpoint-storage"])
        .default("filesystem")
        .means("What keeps checkpoints.", "They are files below `checkpointing.dir`."),
    key("checkpointing.data-inline-threshold", Kind::Bytes { min: 0, max: 1 << 20 })
        .old(&["state.storage.fs.memory-threshold"])
        .default("20 kb")
        .means(
            "State up to this size travels in the acknowledgement.",
            "Small state needs no object of its own.",
        ),
    key("checkpointing.create-subdir", Kind::Bool)
        .default("true")
        .only("true", "checkpoints of several jobs side by side in one directory")
        .means(
            "Whether each job has a directory of its own below `checkpointing.dir`.",
            "Its name is the job id.",
        ),
    key("checkpointing.unaligned.enabled", Kind::Bool)
        .also(&["execution.checkpointing.unaligned", "checkpointing.unaligned"])
        .default("false")
        .only("false", "barriers that overtake data; checkpoints are aligned")
        .means(
            "Whether barriers overtake data in flight.",
            "Checkpoints are aligned: back-pressure makes them slower.",
        ),
    later("checkpointing.aligned-checkpoint-timeout", "going over to unaligned barriers after a time"),
    later("checkpointing.unaligned.*", "unaligned checkpoints"),
    later("checkpointing.interval-during-backlog", "another interval while a source catches up"),
    later("checkpointing.savepoint-dir", "savepoints").old(&["state.savepoints.dir"]),
    later("checkpointing.write-buffer-size", "the size of upload parts; it is fixed"),
    later("checkpointing.file-merging.*", "merging small state files"),
    later("checkpointing.recover-without-channel-state.*", "dropping data in flight at a restore"),
    later("checkpointing.cleaner.*", "choosing how deletions run; they run in parallel, bounded"),
    later("checkpointing.local-backup.*", "a local copy of state for faster recovery")
        .old(&["taskmanager.state.local.root-dirs"]),
    later("checkpointing.trigger-when", "triggering before all tasks run, as old Flink did"),
    later("savepoint.timeout", "savepoints"),
    later("web.checkpoints.history", "choosing how many checkpoints the history shows"),
];
