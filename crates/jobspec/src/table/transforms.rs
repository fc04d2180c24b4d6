//! Steps between sources and sinks.

use millstream_config::{Choice, Kind};

use super::{CHAIN, Form, Forms, INPUT, OPERATOR, Shape, Step, StepKind, key};

const SELECT_FORM: Form = Form {
    name: "select",
    means: "Computes new columns; nothing else is kept.",
    keys: &[
        &[key(
            "columns",
            Shape::Columns,
            "The columns of the result in order: `{ total: \"price * amount\" }`, or \
             `[id, name, { total: \"price * amount\" }]` where `id` and `name` are kept as they are.",
        )
        .required()],
        OPERATOR,
        INPUT,
    ],
    one_of: &[],
};

pub(super) const SELECT: Step = Step {
    name: "select",
    aliases: &["map"],
    kind: StepKind::Select,
    forms: Forms::One(&SELECT_FORM),
    examples: &["\
pipeline:
  - source: { uid: lines, connector: file, path: /data/*.txt }
  - select: { uid: measured, columns: [line, { length: \"length(line)\" }] }
  - map: { uid: upper, columns: { shout: \"upper(line)\", length: length } }
  - sink: { uid: out, connector: print }
"],
};

const FILTER_FORM: Form = Form {
    name: "filter",
    means: "Keeps the rows for which a condition is true; false and NULL rows are left out.",
    keys: &[
        &[key(
            "where",
            Shape::Expression,
            "The condition, a BOOLEAN expression.",
        )
        .required()],
        OPERATOR,
        INPUT,
    ],
    one_of: &[],
};

pub(super) const FILTER: Step = Step {
    name: "filter",
    aliases: &[],
    kind: StepKind::Filter,
    forms: Forms::One(&FILTER_FORM),
    examples: &["\
pipeline:
  - source: { uid: lines, connector: file, path: /data/*.txt }
  - filter: { uid: errors, where: \"line LIKE '%ERROR%'\" }
  - sink: { uid: out, connector: print }
"],
};

const FLAT_MAP_FORM: Form = Form {
    name: "flat-map",
    means: "One row for each element of a list; none for an empty list or NULL.",
    keys: &[
        &[
            key(
                "expr",
                Shape::Expression,
                "An expression that gives a list.",
            )
            .required(),
            key(
                "as",
                Shape::Scalar(Kind::Text),
                "Name of the column that holds the element.",
            )
            .required(),
            key(
                "keep",
                Shape::Scalar(Kind::Bool),
                "Whether the columns of the input stay in front of it.",
            )
            .default("false"),
        ],
        OPERATOR,
        INPUT,
    ],
    one_of: &[],
};

pub(super) const FLAT_MAP: Step = Step {
    name: "flat-map",
    aliases: &[],
    kind: StepKind::FlatMap,
    forms: Forms::One(&FLAT_MAP_FORM),
    examples: &["\
pipeline:
  - source: { uid: lines, connector: file, path: /data/*.txt }
  - flat-map: { uid: words, expr: \"regexp_split(lower(line), '[^a-z0-9]+')\", as: word, keep: true }
  - sink: { uid: out, connector: print }
"],
};

const UNION_FORM: Form = Form {
    name: "union",
    means: "Merges the rows of several steps, which have the same columns, as they arrive.",
    keys: &[
        &[
            key(
                "from",
                Shape::Names,
                "Uids of the steps to read from, two or more.",
            )
            .required(),
            CHAIN,
        ],
        OPERATOR,
    ],
    one_of: &[],
};

pub(super) const UNION: Step = Step {
    name: "union",
    aliases: &[],
    kind: StepKind::Union,
    forms: Forms::One(&UNION_FORM),
    examples: &["\
pipeline:
  - source: { uid: today, connector: file, path: /data/today/*.log }
  - source: { uid: older, connector: file, path: /data/older/*.log }
  - union: { uid: all, from: [today, older] }
  - sink: { uid: out, connector: print }
"],
};

const KEY_BY_FORM: Form = Form {
    name: "key-by",
    means: "Brings the rows of one key together for the aggregate step that follows. NULL is a \
            key like any other: the rows whose key is NULL form one group. -0.0 and 0.0 are one \
            key, and so are all NaNs. Also written as a list: `key-by: [word]`.",
    keys: &[&[
        key("columns", Shape::Names, "The key columns, one or more.").required(),
        key(
            "from",
            Shape::Names,
            "Uid of the step to read from; unset, the step before.",
        ),
    ]],
    one_of: &[],
};

pub(super) const KEY_BY: Step = Step {
    name: "key-by",
    aliases: &["key_by", "keyby"],
    kind: StepKind::KeyBy,
    forms: Forms::One(&KEY_BY_FORM),
    examples: &[],
};

/// The words of `emit`.
pub(crate) const EMITS: &[Choice] = &[
    Choice::new("each", &[]),
    Choice::new("batch", &[]),
    Choice::new("end", &[]),
];

/// The mapping of `emit`.
pub(crate) const EMIT_INTERVAL: Form = Form {
    name: "emit",
    means: "Results leave in intervals of processing time.",
    keys: &[&[key(
        "interval",
        Shape::Scalar(Kind::duration_from_millis(1)),
        "Time between two updates of a key that changed.",
    )
    .required()]],
    one_of: &[],
};

const AGGREGATE_FORM: Form = Form {
    name: "aggregate",
    means: "Running aggregates per key: `count(*)`, `count(x)`, `sum(x)`, `min(x)`, `max(x)`, \
            `avg(x)`, `last_value(x)`, each without the NULLs. The result has the key columns and behind them the aggregates. Integer sums \
            that overflow BIGINT fail the job. Without a `key-by` in front there is one group, \
            and one subtask.",
    keys: &[
        &[
            key(
                "select",
                Shape::Aggregates,
                "The aggregates: `{ n: \"count(*)\" }`.",
            )
            .required(),
            key(
                "emit",
                Shape::Emit,
                "When results leave: an update for each row, one per key and batch, one per \
                 changed key and interval, or one row per key when the input has ended. Unset, \
                 `end` if the input ends, else `each`.",
            ),
        ],
        OPERATOR,
        INPUT,
    ],
    one_of: &[],
};

pub(super) const AGGREGATE: Step = Step {
    name: "aggregate",
    aliases: &[],
    kind: StepKind::Aggregate,
    forms: Forms::One(&AGGREGATE_FORM),
    examples: &[
        "\
pipeline:
  - source:
      uid: orders
      connector: file
      path: /data/orders.csv
      format: csv
      columns: { customer: VARCHAR, amount: DOUBLE }
  - key-by: [customer]
  - aggregate: { uid: totals, select: { orders: \"count(*)\", spent: \"sum(amount)\" } }
  - sink: { uid: out, connector: print }
",
        "\
pipeline:
  - source: { uid: events, connector: generator, rate: 1000, columns: { user: { key: 50 } } }
  - key-by: { columns: [user], from: events }
  - aggregate: { uid: per-user, select: { n: \"count(*)\" }, emit: { interval: 5s } }
  - sink: { uid: out, connector: print }
  - aggregate: { uid: in-all, select: { n: \"count(*)\" }, emit: batch, from: events }
  - sink: { uid: sum, connector: print, label: all }
",
    ],
};
