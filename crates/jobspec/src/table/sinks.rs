//! Sinks.

use millstream_config::{Choice, Kind};

use super::{
    Connector, DELIMITER, Form, Forms, INPUT, Key, OPERATOR, Shape, Step, StepKind, key, word,
};

const CONNECTORS: &[Choice] = &[
    word("print", &[]),
    word("blackhole", &[]),
    word("file", &[]),
];
const FORMATS: &[Choice] = &[
    word("json", &["jsonl", "json-lines"]),
    word("csv", &[]),
    word("parquet", &[]),
];
const COMPRESSIONS: &[Choice] = &[word("zstd", &[]), word("snappy", &[]), word("none", &[])];

const CONNECTOR: &[Key] = &[key(
    "connector",
    Shape::Scalar(Kind::Choice(CONNECTORS)),
    "Where the rows go.",
)
.required()];

const PRINT: Form = Form {
    name: "print sink",
    means: "Writes each row as one line for people, with `n> ` in front if there are several \
            subtasks. After a restart rows may be printed again.",
    keys: &[
        CONNECTOR,
        &[key("label", Shape::Message, "Put in front of each line.")],
        OPERATOR,
        INPUT,
    ],
    one_of: &[],
};

const BLACKHOLE: Form = Form {
    name: "blackhole sink",
    means: "Counts the rows and forgets them.",
    keys: &[CONNECTOR, OPERATOR, INPUT],
    one_of: &[],
};

const FILE: Form = Form {
    name: "file sink",
    means: "Writes files that become visible when a checkpoint completes, or when the input has \
            ended: each row once, whatever fails in between.",
    keys: &[CONNECTOR, FILE_KEYS, OPERATOR, INPUT],
    one_of: &[],
};

const FILE_KEYS: &[Key] = &[
    key(
        "path",
        Shape::Directory,
        "Directory of the files; it is made if it does not exist.",
    )
    .required(),
    key(
        "format",
        Shape::Scalar(Kind::Choice(FORMATS)),
        "`json`: one object a line, with `null` for NULL and for a DOUBLE that is NaN or infinite, \
         which JSON has no number for; `csv`: values under a header line; `parquet`: Parquet files, \
         each whole with its footer when it becomes visible.",
    )
    .default("json"),
    DELIMITER,
    key(
        "compression",
        Shape::Scalar(Kind::Choice(COMPRESSIONS)),
        "How the pages of Parquet files are compressed.",
    )
    .default("zstd")
    .only_with("format", &["parquet"]),
    key(
        "roll-size",
        Shape::Scalar(Kind::Bytes {
            min: 1 << 10,
            max: 1 << 40,
        }),
        "Above this size a file is closed and another begun; every checkpoint does so too.",
    )
    .default("128 MiB"),
];

pub(super) const SINK: Step = Step {
    name: "sink",
    aliases: &[],
    kind: StepKind::Sink,
    forms: Forms::Connector(&[
        (Connector::Print, &PRINT),
        (Connector::Blackhole, &BLACKHOLE),
        (Connector::FileSink, &FILE),
    ]),
    examples: &[
        "\
checkpointing.interval: 10s
pipeline:
  - source: { uid: lines, connector: file, path: /data/in/*.log }
  - sink: { uid: shown, connector: print, label: seen }
  - sink: { uid: kept, connector: file, path: /data/out, format: csv, roll-size: 64 MiB, from: lines }
  - sink: { uid: counted, connector: blackhole, from: lines, parallelism: 2, chain: false }
",
    ],
};
