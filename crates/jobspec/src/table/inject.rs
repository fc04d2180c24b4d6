//! Faults on purpose.

use millstream_config::{Choice, Kind};

use super::{Form, Forms, INPUT, Key, OPERATOR, Shape, Step, StepKind, key, word};

const FORM: Form = Form {
    name: "inject",
    means: "Passes rows through and misbehaves as told, where user code runs: for demonstrations \
            and tests. Refused unless `pipeline.allow-fault-injection` is `true`.",
    keys: &[FAULTS, OPERATOR, INPUT],
    one_of: ONE_OF,
};

/// The same as an option of a source.
pub(super) const FAULT: Form = Form {
    name: "inject option",
    means: "The keys of an inject step without those of operators.",
    keys: &[FAULTS],
    one_of: ONE_OF,
};

const ONE_OF: &[&str] = &["fail", "panic", "block", "delay", "refuse-snapshot"];
const PLACES: &[Choice] = &[word("socket", &[])];

const CALLS: &[Choice] = &[
    word("process", &[]),
    word("open", &[]),
    word("snapshot", &[]),
    word("close", &[]),
];

const AT: Key = key(
    "at",
    Shape::Scalar(Kind::int(1, i64::MAX as u64)),
    "Strikes before this row is passed on, counted from 1 in each subtask, over restarts too.",
)
.required();

const FAIL: Form = Form {
    name: "fail",
    means: "Fails.",
    keys: &[&[
        AT,
        key("message", Shape::Message, "Text of the error.").default("injected failure"),
    ]],
    one_of: &[],
};

const PANIC: Form = Form {
    name: "panic",
    means: "Panics.",
    keys: &[&[
        AT,
        key("message", Shape::Message, "Text of the panic.").default("injected panic"),
    ]],
    one_of: &[],
};

const BLOCK: Form = Form {
    name: "block",
    means: "Blocks for ever.",
    keys: &[&[
        key(
            "at",
            Shape::Scalar(Kind::int(1, i64::MAX as u64)),
            "The row that it does not pass on. With `during: snapshot` or `close`, the row behind \
             which that call blocks; with `open` it has no effect.",
        )
        .default("1"),
        key(
            "in",
            Shape::Scalar(Kind::Choice(PLACES)),
            "What it blocks in: a read from a socket that never answers.",
        )
        .default("socket"),
        key(
            "during",
            Shape::Scalar(Kind::Choice(CALLS)),
            "Which call does not return: that with the row, the one before the first row, the next \
             snapshot, or the one at the end.",
        )
        .default("process"),
    ]],
    one_of: &[],
};

const DELAY: Form = Form {
    name: "delay",
    means: "Waits for every row from there on.",
    keys: &[&[
        key(
            "at",
            Shape::Scalar(Kind::int(1, i64::MAX as u64)),
            "The first row that waits.",
        )
        .default("1"),
        key(
            "per-row",
            Shape::Scalar(Kind::DURATION),
            "Time that each row waits.",
        )
        .required(),
    ]],
    one_of: &[],
};

const REFUSE: Form = Form {
    name: "refuse-snapshot",
    means: "Refuses the next snapshot.",
    keys: &[&[
        key(
            "at",
            Shape::Scalar(Kind::int(1, i64::MAX as u64)),
            "The snapshot after this row is refused.",
        )
        .default("1"),
        key("message", Shape::Message, "Text of the error.").default("injected refusal"),
    ]],
    one_of: &[],
};

const FAULTS: &[Key] = &[
    key(
        "fail",
        Shape::Form(&FAIL),
        "Fails: `{ at: 100, message: \"…\" }`.",
    ),
    key(
        "panic",
        Shape::Form(&PANIC),
        "Panics: `{ at: 100, message: \"…\" }`.",
    ),
    key(
        "block",
        Shape::Form(&BLOCK),
        "Blocks in a real read from a socket that never answers: `{ at: 100, in: socket, during: \
         process }`.",
    ),
    key(
        "delay",
        Shape::Form(&DELAY),
        "Waits for each row, in user code: `{ per-row: 10ms, at: 100 }`.",
    ),
    key(
        "refuse-snapshot",
        Shape::Form(&REFUSE),
        "Refuses the next snapshot: `{ at: 100, message: \"…\" }`.",
    ),
    key(
        "subtask",
        Shape::Scalar(Kind::int(0, 32_767)),
        "Strikes in this subtask only, from 0; unset, in all.",
    ),
    key(
        "times",
        Shape::Scalar(Kind::int(1, u32::MAX as u64)),
        "Strikes in so many attempts of the subtask; unset, in every one.",
    ),
];

pub(super) const INJECT: Step = Step {
    name: "inject",
    aliases: &[],
    kind: StepKind::Inject,
    forms: Forms::One(&FORM),
    examples: &[
        "\
checkpointing.interval: 1s
restart-strategy: { type: fixed-delay, attempts: 3, delay: 1s }
pipeline.allow-fault-injection: true
pipeline:
  - source: { uid: numbers, connector: generator, rate: 10, columns: { n: { sequence: {} } } }
  - inject: { uid: trouble, fail: { at: 50, message: disk on fire }, subtask: 0, times: 2 }
  - sink: { uid: out, connector: print }
",
        "\
pipeline.allow-fault-injection: true
pipeline:
  - source:
      uid: numbers
      connector: generator
      rows: 100
      columns: { n: { sequence: {} } }
      inject: { delay: { per-row: 10ms } }
  - sink: { uid: out, connector: print }
",
    ],
};
