//! Generated values.

use millstream_config::Kind;

use super::{Form, Key, Shape, key};

/// A generated value: exactly one of the keys.
pub(crate) const GENERATED: Form = Form {
    name: "generated value",
    means: "How the values of a generated column arise.",
    keys: &[KEYS],
    one_of: &[
        "sequence",
        "key",
        "sequence-per-key",
        "random-int",
        "random-double",
        "random-text",
        "one-of",
        "constant",
    ],
};

const SEQUENCE: Form = Form {
    name: "sequence",
    means: "Consecutive numbers.",
    keys: &[&[key("start", Shape::Integer, "Value of the first row.").default("0")]],
    one_of: &[],
};

const KEYS: &[Key] = &[
    key(
        "sequence",
        Shape::Form(&SEQUENCE),
        "The row's number plus `start` (BIGINT): `{ sequence: { start: 1 } }`.",
    ),
    key(
        "key",
        Shape::Scalar(Kind::int(1, i64::MAX as u64)),
        "The row's number modulo this many keys (BIGINT): every key comes equally often.",
    ),
    key(
        "sequence-per-key",
        Shape::Scalar(Kind::int(1, i64::MAX as u64)),
        "1, 2, 3, … for each key of a `key` column with the same number (BIGINT).",
    ),
    key(
        "random-int",
        Shape::Integers,
        "Uniform between both, both included (BIGINT).",
    ),
    key(
        "random-double",
        Shape::Floats,
        "Uniform from the first up to but not including the second (DOUBLE).",
    ),
    key(
        "random-text",
        Shape::Scalar(Kind::int(1, 65_536)),
        "So many letters and digits (VARCHAR).",
    ),
    key(
        "one-of",
        Shape::Scalar(Kind::List),
        "One of these, uniformly (VARCHAR).",
    ),
    key("constant", Shape::Message, "Always this (VARCHAR)."),
];
