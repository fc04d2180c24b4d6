//! Sources.

use millstream_config::{Choice, Kind};

use super::inject::FAULT;
use super::{Connector, DELIMITER, Form, Forms, Key, OPERATOR, Shape, Step, StepKind, key, word};

/// The one column of a text file's rows.
pub(crate) const TEXT_COLUMN: &str = "line";

const CONNECTORS: &[Choice] = &[word("file", &[]), word("generator", &["datagen"])];
const FORMATS: &[Choice] = &[
    word("text", &["raw"]),
    word("json", &["jsonl", "json-lines"]),
    word("csv", &[]),
    word("parquet", &[]),
];
const COMPRESSIONS: &[Choice] = &[
    word("auto", &[]),
    word("none", &[]),
    word("gzip", &["gz"]),
    word("zstd", &["zst"]),
];
const LINES: &[&str] = &["text", "json", "csv"];
const POLICIES: &[Choice] = &[
    word("fail", &[]),
    word("skip", &["ignore"]),
    word("dead-letter", &[]),
];

const CONNECTOR: &[Key] = &[
    key(
        "connector",
        Shape::Scalar(Kind::Choice(CONNECTORS)),
        "What the source reads.",
    )
    .required(),
    key(
        "inject",
        Shape::Form(&FAULT),
        "Makes the source misbehave: an inject step right behind it, in its task.",
    ),
];

const FILE: Form = Form {
    name: "file source",
    means: "Reads files once: each is cut into splits that the subtasks share. The source ends \
            when the last split was read. Text is UTF-8, with or without a byte order mark; a file \
            that starts with the mark of UTF-16 is refused, and other bytes that are not UTF-8 make \
            their record a bad one. A line ends with LF or CR LF, the last one also with the file; \
            a carriage return alone and a zero byte are characters like others. Numbers of JSON \
            keep all their digits, a number that does not fit its column makes the record a bad \
            one, as `1e400` and, for JSON, `NaN` do.",
    keys: &[CONNECTOR, FILE_KEYS, OPERATOR],
    one_of: &[],
};

const FILE_KEYS: &[Key] = &[
    key(
        "path",
        Shape::Pattern,
        "A file, or a pattern with `*`, `?`, `[…]` and `**` for any number of directories.",
    )
    .required(),
    key(
        "format",
        Shape::Scalar(Kind::Choice(FORMATS)),
        "`text`: one row with the VARCHAR column `line` a line; `json`: one object a line, nested at \
         most 64 deep; `csv`: values under a header line; `parquet`: Parquet files, of which only \
         the declared columns are read. What a Parquet column holds must fit the declared type \
         whatever the values are: an integer fits a longer one, a FLOAT a DOUBLE, a DECIMAL one \
         with as many digits or more on both sides of the point; of a time finer than microseconds \
         the rest is cut off.",
    )
    .default("text"),
    key(
        "columns",
        Shape::ColumnTypes,
        "The columns of the rows, by the names of the JSON fields, of the CSV header or of the \
         Parquet columns. A field that is missing or `null` is NULL, and of a JSON field that is \
         there twice the last one counts; a CSV or Parquet file without one of the columns is an \
         error.",
    )
    .only_with("format", &["json", "csv", "parquet"]),
    DELIMITER,
    key(
        "split-size",
        Shape::Scalar(Kind::Bytes {
            min: 1 << 10,
            max: 1 << 40,
        }),
        "Larger files are cut into splits of about this size. A CSV file is one split, and so is a \
         compressed one: where its subtask failed, it is read again from the start up to the place \
         where the subtask goes on. Parquet files are cut between row groups.",
    )
    .default("64 MiB"),
    key(
        "compression",
        Shape::Scalar(Kind::Choice(COMPRESSIONS)),
        "How the files are compressed. `auto` goes by the end of the name: `.gz` is gzip, of one or \
         several members, `.zst` is zstd, of one or several frames with a window of at most 128 MiB. \
         A file that ends early or is damaged fails the job by name.",
    )
    .default("auto")
    .only_with("format", LINES),
    key(
        "max-line",
        Shape::Scalar(Kind::Bytes {
            min: 1 << 7,
            max: 256 << 20,
        }),
        "A longer line is a bad record.",
    )
    .default("16 MiB")
    .only_with("format", LINES),
    key(
        "on-error",
        Shape::Scalar(Kind::Choice(POLICIES)),
        "What happens to a bad record: the job fails and names file, line and column; the record \
         is left out and counted; or it goes to the output `uid.dead-letter`, whose columns are \
         source, file, line, column, error and record.",
    )
    .default("fail")
    .only_with("format", LINES),
    key(
        "fail-on-missing-field",
        Shape::Scalar(Kind::Bool),
        "Whether an object without the field of a declared column is a bad record. A field that is \
         there and `null` is NULL all the same.",
    )
    .default("false")
    .only_with("format", &["json"]),
    key(
        "interval",
        Shape::Scalar(Kind::duration_from_millis(10)),
        "Time between two looks for new files.",
    )
    .later("watching a path for new files; files are read once"),
];

const GENERATOR: Form = Form {
    name: "generator source",
    means: "Makes rows up. All of them follow from the seed and the row's number, so that a \
            restored generator continues exactly.",
    keys: &[CONNECTOR, GENERATOR_KEYS, OPERATOR],
    one_of: &[],
};

const GENERATOR_KEYS: &[Key] = &[
    key(
        "rows",
        Shape::Scalar(Kind::int(1, i64::MAX as u64)),
        "Rows in all, over all subtasks; unset, the source never ends.",
    ),
    key(
        "rate",
        Shape::Rate,
        "Rows a second over all subtasks; `0.5` is one every two seconds.",
    )
    .default("unlimited"),
    key(
        "seed",
        Shape::Scalar(Kind::int(0, u64::MAX)),
        "Another seed gives other random values.",
    )
    .default("0"),
    key(
        "columns",
        Shape::Generated,
        "The columns of the rows; the values are listed under generated values.",
    )
    .required(),
];

pub(super) const SOURCE: Step = Step {
    name: "source",
    aliases: &[],
    kind: StepKind::Source,
    forms: Forms::Connector(&[
        (Connector::FileSource, &FILE),
        (Connector::Generator, &GENERATOR),
    ]),
    examples: &[
        "\
pipeline:
  - source: { uid: lines, connector: file, path: \"docs/**/*.md\" }
  - sink: { uid: out, connector: print }
",
        "\
pipeline:
  - source:
      uid: orders
      connector: file
      path: /data/orders-*.csv
      format: csv
      delimiter: \";\"
      columns: { id: BIGINT, customer: VARCHAR, amount: \"DECIMAL(12, 2)\", paid: BOOLEAN }
      on-error: dead-letter
  - sink: { uid: out, connector: file, path: /data/out, format: json }
  - sink: { uid: bad, connector: file, path: /data/bad, format: json, from: orders.dead-letter }
",
        "\
pipeline:
  - source:
      uid: trips
      connector: file
      path: /data/trips/*.parquet
      format: parquet
      columns: { id: BIGINT, fare: \"DECIMAL(10, 2)\" }
  - source: { uid: lines, connector: file, path: /data/log.1, compression: gzip }
  - sink: { uid: out, connector: file, path: /data/fares, format: parquet, from: trips }
  - sink: { uid: shown, connector: print, from: lines }
",
        "\
pipeline:
  - source:
      uid: numbers
      connector: generator
      rows: 1000
      rate: 100
      columns:
        id: { sequence: { start: 1 } }
        key: { key: 10 }
        n: { sequence-per-key: 10 }
        size: { random-int: [1, 6] }
        ratio: { random-double: [0, 1] }
        token: { random-text: 8 }
        colour: { one-of: [red, green, blue] }
        origin: { constant: generated }
  - sink: { uid: out, connector: blackhole }
",
    ],
};
