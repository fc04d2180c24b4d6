//! Keys of the taskmanager and of the channels between tasks.

use super::{Key, key, later};
use crate::value::{Choice, Kind};

const ISOLATIONS: &[Choice] = &[Choice::new("process", &[]), Choice::new("thread", &[])];

pub(super) const KEYS: &[Key] = &[
    key("taskmanager.numberOfTaskSlots", Kind::int(1, 1_024))
        .cluster()
        .also(&["taskmanager.number-of-task-slots"])
        .default("1")
        .means(
            "Slots that the taskmanager offers.",
            "Its memory budget is divided by them.",
        ),
    key("taskmanager.resource-id", Kind::Text).cluster().means(
        "Name of the taskmanager.",
        "Stable across restarts if given; unset, one is generated.",
    ),
    key("taskmanager.host", Kind::Host).cluster().means(
        "Address that others connect to.",
        "Unset, the local address of its connection to the jobmanager.",
    ),
    key("taskmanager.bind-host", Kind::BindHost)
        .cluster()
        .default("127.0.0.1")
        .means(
            "Address that the data ports listen on.",
            "Other than loopback needs `security.transport`.",
        ),
    key("taskmanager.data.port-range", Kind::Ports)
        .cluster()
        .old(&["taskmanager.data.port"])
        .default("0")
        .means(
            "Ports of the job processes, one each.",
            "`0` lets the system choose; behind a firewall give a range.",
        ),
    key("taskmanager.isolation", Kind::Choice(ISOLATIONS))
        .cluster()
        .default("process")
        .means(
            "What the tasks of one job on one taskmanager run in.",
            "`process` keeps crashes, leaks and stuck calls of one job from another.",
        ),
    key(
        "taskmanager.registration.timeout",
        Kind::duration_from_millis(1),
    )
    .cluster()
    .default("5 min")
    .means(
        "Time to find and join a jobmanager.",
        "Then the taskmanager exits, so that its supervisor notices.",
    ),
    key(
        "taskmanager.memory.process.size",
        Kind::Bytes {
            min: 64 << 20,
            max: 1 << 50,
        },
    )
    .cluster()
    .means(
        "Memory of the taskmanager with all its job processes.",
        "Unset, the limit of the container, else that of the machine.",
    ),
    key(
        "taskmanager.memory.managed.fraction",
        Kind::Float {
            min: 0.05,
            max: 0.9,
        },
    )
    .cluster()
    .default("0.4")
    .means(
        "Part of the memory that keyed state in RocksDB may use.",
        "Caches and write buffers of a slot are bounded by it.",
    ),
    key("task.cancellation.interval", Kind::duration_from_millis(10))
        .default("30 s")
        .means(
            "Time after which a task that does not stop is named in the log, again and again.",
            "After the first such time its slot is given up and the task is replaced elsewhere.",
        ),
    key("task.cancellation.timeout", Kind::DURATION)
        .default("180 s")
        .means(
            "Time after which the process of a task that does not stop is killed.",
            "`0 s` never kills.",
        ),
    later(
        "task.cancellation.timers.timeout",
        "waiting for timer threads; there are none",
    ),
    later(
        "task.slow-call.warn",
        "a warning about a single slow call of user code",
    ),
    later(
        "taskmanager.rpc.port",
        "a port for control; the taskmanager connects to the jobmanager and listens for data only",
    ),
    later(
        "taskmanager.slot.timeout",
        "choosing when an unused reservation is given back",
    ),
    later(
        "taskmanager.load-balance.mode",
        "choosing how slots are spread; they are spread out",
    ),
    later(
        "taskmanager.memory.task.*",
        "separate heap budgets; use taskmanager.memory.process.size",
    ),
    later(
        "taskmanager.memory.flink.size",
        "separate heap budgets; use taskmanager.memory.process.size",
    ),
    later(
        "taskmanager.memory.managed.size",
        "a fixed size; use taskmanager.memory.managed.fraction",
    ),
];

pub(super) const NETWORK_KEYS: &[Key] = &[
    key(
        "taskmanager.network.memory.window",
        Kind::Bytes {
            min: 4 << 10,
            max: 256 << 20,
        },
    )
    .cluster()
    .default("256 KiB")
    .means(
        "Encoded bytes that a receiver lets a sender have on the way, per channel.",
        "Bounds the data in flight, and with it the time that a barrier waits.",
    ),
    later(
        "taskmanager.network.memory.*",
        "counting buffers; channels are bounded in bytes by taskmanager.network.memory.window",
    ),
    later(
        "taskmanager.memory.segment-size",
        "fixed buffers; channels are bounded in bytes by taskmanager.network.memory.window",
    ),
];
