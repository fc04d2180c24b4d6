//! Keys of restarts, scheduling and the shape of a job.

use super::{Key, key, later, no_effect};
use crate::value::{Choice, Kind};

const STRATEGIES: &[Choice] = &[
    Choice::new("none", &["off", "disable"]),
    Choice::new("fixed-delay", &["fixeddelay"]),
    Choice::new("failure-rate", &["failurerate"]),
    Choice::new("exponential-delay", &["exponentialdelay"]),
    Choice::new("fallback", &["cluster", "default"]),
];

const ATTEMPTS: Kind = Kind::Int {
    min: 0,
    max: 2_147_483_647,
    or_unlimited: true,
};
const BACKOFF: Kind = Kind::duration_from_millis(1);
const CHANGES_RESTARTS: &str = "Used with the strategy of this name only.";

pub(super) const KEYS: &[Key] = &[
    key("restart-strategy.type", Kind::Choice(STRATEGIES))
        .old(&["restart-strategy"])
        .means(
            "What follows a failure.",
            "`fallback` and unset mean the cluster's strategy; where the cluster has none, \
         `exponential-delay` with checkpoints and `none` without.",
        ),
    key("restart-strategy.fixed-delay.attempts", ATTEMPTS)
        .default("1")
        .means(
            "Restarts in the life of the job; the counter never falls back.",
            CHANGES_RESTARTS,
        ),
    key("restart-strategy.fixed-delay.delay", Kind::DURATION)
        .default("1 s")
        .means("Time from the failure to the restart.", CHANGES_RESTARTS),
    key(
        "restart-strategy.failure-rate.max-failures-per-interval",
        Kind::int(1, 1_000_000),
    )
    .default("1")
    .means(
        "Failures per window that are answered by a restart.",
        CHANGES_RESTARTS,
    ),
    key(
        "restart-strategy.failure-rate.failure-rate-interval",
        BACKOFF,
    )
    .default("1 min")
    .means(
        "The sliding window over the times of failures.",
        CHANGES_RESTARTS,
    ),
    key("restart-strategy.failure-rate.delay", Kind::DURATION)
        .default("1 s")
        .means("Time from the failure to the restart.", CHANGES_RESTARTS),
    key(
        "restart-strategy.exponential-delay.initial-backoff",
        BACKOFF,
    )
    .default("1 s")
    .means("The first delay, and the least of all.", CHANGES_RESTARTS),
    key("restart-strategy.exponential-delay.max-backoff", BACKOFF)
        .default("1 min")
        .means("The greatest delay.", CHANGES_RESTARTS),
    key(
        "restart-strategy.exponential-delay.backoff-multiplier",
        Kind::Float { min: 1.0, max: 1e6 },
    )
    .default("1.5")
    .means(
        "What the delay is multiplied with from failure to failure.",
        CHANGES_RESTARTS,
    ),
    key(
        "restart-strategy.exponential-delay.reset-backoff-threshold",
        BACKOFF,
    )
    .default("1 h")
    .means(
        "Time without a failure that makes the delay small again.",
        CHANGES_RESTARTS,
    ),
    key(
        "restart-strategy.exponential-delay.jitter-factor",
        Kind::Float { min: 0.0, max: 1.0 },
    )
    .default("0.1")
    .means(
        "Part of the delay by which it is made random, up and down.",
        CHANGES_RESTARTS,
    ),
    key(
        "restart-strategy.exponential-delay.attempts-before-reset-backoff",
        ATTEMPTS,
    )
    .default("unlimited")
    .means("Restarts allowed before a reset.", CHANGES_RESTARTS),
    key("slot.request.timeout", Kind::duration_from_millis(1))
        .cluster()
        .default("5 min")
        .means(
            "Time that a job waits for slots.",
            "Then it fails for want of resources, which the restart strategy answers.",
        ),
    key("parallelism.default", Kind::int(1, 32_768))
        .also(&["parallelism"])
        .default("1")
        .means(
            "Subtasks of each vertex that does not say otherwise.",
            "A job needs as many slots as its widest vertex.",
        ),
    key("pipeline.max-parallelism", Kind::int(1, 32_768)).means(
        "Number of key groups, the most a job can ever be scaled to.",
        "Unset, it is derived from the parallelism; it cannot change while state is kept.",
    ),
    key("pipeline.operator-chaining.enabled", Kind::Bool)
        .also(&["pipeline.operator-chaining"])
        .default("true")
        .means(
            "Whether operators that may share a task do.",
            "Off, each operator is a task of its own: slower, and easier to watch.",
        ),
    key("pipeline.require-uids", Kind::Bool)
        .default("false")
        .means(
            "Whether each operator with state needs a uid.",
            "A missing uid is an error and not a warning.",
        ),
    key("pipeline.allow-fault-injection", Kind::Bool)
        .default("false")
        .means(
            "Whether a job may hold `inject` steps.",
            "For tests and demonstrations: such steps fail, block or delay on purpose.",
        ),
    key("execution.buffer-timeout", Kind::DURATION)
        .also(&["execution.buffer-timeout.interval"])
        .default("5 ms")
        .means(
            "Time that rows wait for others to be sent together.",
            "Shorter is a lower latency, longer a higher throughput.",
        ),
    no_effect(
        "pipeline.object-reuse",
        "values are owned or shared, never copied between operators",
    ),
    no_effect(
        "execution.buffer-timeout.enabled",
        "rows are always sent after execution.buffer-timeout",
    ),
    later(
        "pipeline.auto-watermark-interval",
        "periodic watermarks; a watermark is sent with the rows",
    ),
    later(
        "pipeline.watermark-alignment.*",
        "aligning watermarks of sources",
    ),
    later(
        "jobmanager.execution.failover-strategy",
        "choosing between region and full restarts",
    ),
    later(
        "jobmanager.execution.attempts-history-size",
        "choosing how many attempts are remembered",
    ),
    later("jobmanager.scheduler", "the adaptive scheduler"),
    later("jobmanager.adaptive-scheduler.*", "the adaptive scheduler"),
    later("jobmanager.failure-enrichers", "labels on failures"),
    later(
        "web.exception-history-size",
        "choosing how many failures are remembered",
    ),
    later(
        "slot.idle.timeout",
        "giving idle slots back; slots belong to their taskmanager",
    ),
    later(
        "sink.committer.retries",
        "choosing how often a commit is tried again",
    ),
];
