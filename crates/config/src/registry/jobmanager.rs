//! Keys of the jobmanager, and those that both daemons share.

use super::{Key, key, later, no_effect};
use crate::value::{Choice, Kind};

const FORMATS: &[Choice] = &[Choice::new("text", &[]), Choice::new("json", &[])];

const TRANSPORTS: &[Choice] = &[
    Choice::new("plaintext", &[]),
    Choice::not_built("tls", "certificates for all connections"),
];

const ARTIFACTS: &[Choice] = &[
    Choice::new("refuse", &[]),
    Choice::not_built("allow", "jobs that ship as a binary of their own"),
];

pub(super) const KEYS: &[Key] = &[
    key("jobmanager.rpc.address", Kind::Host)
        .cluster()
        .default("localhost")
        .means(
            "Address that taskmanagers and clients connect to.",
            "A taskmanager looks for its jobmanager there.",
        ),
    key("jobmanager.rpc.port", Kind::int(0, 65_535))
        .cluster()
        .default("6123")
        .means("Port of gRPC.", "`0` lets the system choose, for tests."),
    key("jobmanager.bind-host", Kind::BindHost)
        .cluster()
        .default("127.0.0.1")
        .means(
            "Address that gRPC listens on.",
            "Other than loopback needs `security.transport`.",
        ),
    key("rest.address", Kind::Host).cluster().means(
        "Address of the web page for people and clients.",
        "Unset, it is `jobmanager.rpc.address`.",
    ),
    key("rest.port", Kind::int(0, 65_535))
        .cluster()
        .default("8081")
        .means(
            "Port of the web page and of REST.",
            "`0` lets the system choose, for tests.",
        ),
    key("rest.bind-host", Kind::BindHost)
        .cluster()
        .old(&["rest.bind-address"])
        .default("127.0.0.1")
        .means(
            "Address that the web page and REST listen on.",
            "Other than loopback needs `security.transport`.",
        ),
    key("high-availability.storageDir", Kind::Location)
        .cluster()
        .also(&["high-availability.storage-dir"])
        .means(
            "Where the jobmanager keeps submitted jobs and results.",
            "A restarted jobmanager finds its jobs there; unset, it is `checkpointing.dir`.",
        ),
    key("high-availability.cluster-id", Kind::Text)
        .cluster()
        .default("millstream")
        .means(
            "Name of the cluster that a storage directory belongs to.",
            "The first to use a directory has it for good: a jobmanager of another name is refused there.",
        ),
    key("jobs.native-artifacts", Kind::Choice(ARTIFACTS))
        .cluster()
        .default("refuse")
        .means(
            "Whether a job may ship a program of its own.",
            "Whoever may submit such a job may run anything as the user of the daemon.",
        ),
    no_effect(
        "web.backpressure.refresh-interval",
        "back-pressure is counted, not sampled",
    ),
    no_effect(
        "web.backpressure.num-samples",
        "back-pressure is counted, not sampled",
    ),
    no_effect(
        "web.backpressure.delay-between-samples",
        "back-pressure is counted, not sampled",
    ),
    later("rest.bind-port", "a bind port of its own; use rest.port"),
    later(
        "web.submit.enable",
        "submitting from the web page; it only shows",
    ),
    later(
        "web.cancel.enable",
        "cancelling from the web page; it only shows",
    ),
    later(
        "web.rescale.enable",
        "rescaling from the web page; it only shows",
    ),
    later(
        "web.refresh-interval",
        "choosing how often the web page is renewed",
    ),
    later(
        "high-availability.type",
        "several jobmanagers; one jobmanager finds its jobs again by itself",
    )
    .old(&["high-availability"]),
    later("job-result-store.*", "choosing how long results are kept"),
    later("jobstore.*", "choosing how long finished jobs are shown"),
    later("jobmanager.archive.fs.dir", "a history server"),
    later("jobmanager.memory.*", "a memory budget of the jobmanager"),
    later("metrics.*", "choosing reporters and details of metrics"),
    later("traces.*", "spans of checkpoints and recoveries"),
    later("blob.*", "a server for artifacts"),
];

pub(super) const COMMON_KEYS: &[Key] = &[
    key("heartbeat.interval", Kind::duration_from_millis(1)).cluster().default("2 s").means(
        "Time between two heartbeats.",
        "Shorter than a half of `heartbeat.timeout`, so that one lost message is no failure.",
    ),
    key("heartbeat.timeout", Kind::duration_from_millis(10)).cluster().default("10 s").means(
        "Silence after which a jobmanager or taskmanager counts as lost.",
        "The tasks of a lost taskmanager fail, and the restart strategy answers.",
    ),
    key("rpc.max-message-size", Kind::Bytes { min: 64 << 10, max: 1 << 30 })
        .cluster()
        .default("4 MiB")
        .means(
            "The largest gRPC message, in both directions.",
            "A larger job or acknowledgement is refused by name.",
        ),
    key("log.format", Kind::Choice(FORMATS))
        .cluster()
        .default("text")
        .means("Form of log lines.", "`json` is one object a line."),
    key("log.level", Kind::LogFilter).cluster().default("info").means(
        "What is logged: a level, and levels of single modules.",
        "`MILLSTREAM_LOG` does the same for one start.",
    ),
    key("log.json.static-fields", Kind::Map).cluster().means(
        "Fields in every JSON log line, such as `applicationARN`.",
        "Used with `log.format: json` only.",
    ),
    key("security.transport", Kind::Choice(TRANSPORTS)).cluster().means(
        "How connections are protected. `plaintext`: not at all.",
        "Without it nothing listens beyond loopback: whoever reaches the ports controls the cluster.",
    ),
    later("security.ssl.*", "certificates for all connections"),
    later("heartbeat.rpc-failure-threshold", "counting failed calls; a broken connection counts at once"),
    later("env.*", "options of a Java machine"),
];
