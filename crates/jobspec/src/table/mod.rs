//! The tables of the job file: every step, every key, its shape, default and meaning. Parsing and
//! the reference are both driven by them, so that neither knows a key that the other does not.

mod generated;
mod inject;
mod sinks;
mod sources;
mod transforms;

use millstream_config::{Choice, Kind};

pub(crate) use generated::GENERATED;
pub(crate) use sources::TEXT_COLUMN;
pub(crate) use transforms::{EMIT_INTERVAL, EMITS};

/// A group of keys: a step, or a mapping inside a step.
#[derive(Debug)]
pub(crate) struct Form {
    /// What messages call it.
    pub(crate) name: &'static str,
    /// What it does, one or two sentences.
    pub(crate) means: &'static str,
    /// The keys, in parts so that common ones are written once.
    pub(crate) keys: &'static [&'static [Key]],
    /// If not empty: exactly one of these is given.
    pub(crate) one_of: &'static [&'static str],
}

impl Form {
    pub(crate) fn keys(&self) -> impl Iterator<Item = &'static Key> + use<> {
        self.keys.iter().copied().flatten()
    }

    pub(crate) fn key(&self, name: &str) -> Option<&'static Key> {
        self.keys().find(|key| key.name == name)
    }
}

/// One key of a form.
#[derive(Debug)]
pub(crate) struct Key {
    pub(crate) name: &'static str,
    pub(crate) shape: Shape,
    pub(crate) presence: Presence,
    /// What it means, one sentence.
    pub(crate) means: &'static str,
    /// If given: this other key must have one of these values, or the key would do nothing.
    pub(crate) only_with: Option<(&'static str, &'static [&'static str])>,
    /// If it has no effect so far: what it would be.
    pub(crate) not_built: Option<&'static str>,
}

/// Whether a key must be given.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Presence {
    Required,
    Optional,
    /// Optional, and read as this text where it is not given.
    Default(&'static str),
}

/// What a key's value looks like.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Shape {
    /// A single value of a type that settings have too.
    Scalar(Kind),
    /// A text that may have any characters, for output.
    Message,
    /// Identity of an operator.
    Uid,
    /// A path or pattern of files.
    Pattern,
    /// A directory.
    Directory,
    /// A whole number with a sign.
    Integer,
    /// `[lowest, highest]`, whole numbers.
    Integers,
    /// `[lowest, above the highest]`, numbers.
    Floats,
    /// Rows a second, or `unlimited`.
    Rate,
    /// One ASCII character.
    Byte,
    /// A SQL expression.
    Expression,
    /// One name, or a list of names.
    Names,
    /// `name: type`, each.
    ColumnTypes,
    /// `name: expression`, each, or a list of columns.
    Columns,
    /// `name: aggregate call`, each.
    Aggregates,
    /// `name: generated value`, each.
    Generated,
    /// `each`, `batch`, `end` or `{ interval: 5s }`.
    Emit,
    /// A mapping of its own.
    Form(&'static Form),
}

impl Shape {
    /// The shape in words, for the reference and for messages.
    pub(crate) fn describe(&self) -> String {
        let words = match self {
            Self::Scalar(kind) => return kind.describe(),
            Self::Form(form) => return format!("mapping, see {}", form.name),
            Self::Message => "text",
            Self::Uid => "1 to 244 letters, digits, `-`, `_`, `.`",
            Self::Pattern => "path or glob pattern",
            Self::Directory => "directory",
            Self::Integer => "whole number",
            Self::Integers => "`[lowest, highest]`, whole numbers",
            Self::Floats => "`[lowest, limit]`, numbers",
            Self::Rate => "number above 0, or `unlimited`",
            Self::Byte => "one ASCII character",
            Self::Expression => "SQL expression",
            Self::Names => "name, or list of names",
            Self::ColumnTypes => "mapping of column names to types",
            Self::Columns => "mapping of column names to SQL expressions, or list of columns",
            Self::Aggregates => "mapping of column names to aggregate calls",
            Self::Generated => "mapping of column names to generated values",
            Self::Emit => "`each`, `batch`, `end` or `{ interval: 5s }`",
        };
        words.to_owned()
    }
}

const fn key(name: &'static str, shape: Shape, means: &'static str) -> Key {
    Key {
        name,
        shape,
        presence: Presence::Optional,
        means,
        only_with: None,
        not_built: None,
    }
}

impl Key {
    const fn required(self) -> Self {
        Self {
            presence: Presence::Required,
            ..self
        }
    }

    const fn default(self, text: &'static str) -> Self {
        Self {
            presence: Presence::Default(text),
            ..self
        }
    }

    const fn only_with(self, other: &'static str, values: &'static [&'static str]) -> Self {
        Self {
            only_with: Some((other, values)),
            ..self
        }
    }

    const fn later(self, what: &'static str) -> Self {
        Self {
            not_built: Some(what),
            ..self
        }
    }
}

/// A step of the pipeline.
#[derive(Debug)]
pub(crate) struct Step {
    /// Its key in the file.
    pub(crate) name: &'static str,
    /// Other names for it.
    pub(crate) aliases: &'static [&'static str],
    pub(crate) kind: StepKind,
    /// Its forms: one, or one for each connector.
    pub(crate) forms: Forms,
    /// A whole `pipeline:` that shows it; `settings` stand in front of it.
    pub(crate) examples: &'static [&'static str],
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum StepKind {
    Source,
    Select,
    Filter,
    FlatMap,
    Union,
    KeyBy,
    Aggregate,
    Inject,
    Sink,
}

#[derive(Debug)]
pub(crate) enum Forms {
    One(&'static Form),
    /// By the word of the key `connector`.
    Connector(&'static [(Connector, &'static Form)]),
}

/// What a source or sink is connected to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Connector {
    FileSource,
    Generator,
    FileSink,
    Print,
    Blackhole,
}

impl Connector {
    pub(crate) fn word(self) -> &'static str {
        match self {
            Self::FileSource | Self::FileSink => "file",
            Self::Generator => "generator",
            Self::Print => "print",
            Self::Blackhole => "blackhole",
        }
    }
}

/// All steps, in the order of the reference.
pub(crate) const STEPS: &[Step] = &[
    sources::SOURCE,
    transforms::SELECT,
    transforms::FILTER,
    transforms::FLAT_MAP,
    transforms::UNION,
    transforms::KEY_BY,
    transforms::AGGREGATE,
    inject::INJECT,
    sinks::SINK,
];

/// The step of this name or alias.
pub(crate) fn step(name: &str) -> Option<&'static Step> {
    STEPS
        .iter()
        .find(|step| step.name == name || step.aliases.contains(&name))
}

/// Keys that every operator has.
const OPERATOR: &[Key] = &[
    key(
        "uid",
        Shape::Uid,
        "Identity of the operator's state, stable while the pipeline changes.",
    ),
    key(
        "name",
        Shape::Scalar(Kind::Text),
        "What people see; unset, the uid.",
    ),
    key(
        "parallelism",
        Shape::Scalar(Kind::int(1, 32_768)),
        "Number of subtasks; unset, the job's parallelism.",
    ),
    key(
        "slot-sharing-group",
        Shape::Scalar(Kind::Text),
        "Operators of one group may share a slot.",
    )
    .default("default"),
];

/// Keys of operators with one input.
const INPUT: &[Key] = &[
    key(
        "from",
        Shape::Names,
        "Uid of the step to read from, or `uid.dead-letter` of a source; unset, the step before.",
    ),
    CHAIN,
];

/// Whether an operator may run in the task of the operator in front of it.
const CHAIN: Key = key(
    "chain",
    Shape::Scalar(Kind::Bool),
    "Whether it may run in the task of the step it reads from.",
)
.default("true");

const DELIMITER: Key = key("delimiter", Shape::Byte, "What stands between two fields.")
    .default(",")
    .only_with("format", &["csv"]);

const fn word(name: &'static str, aliases: &'static [&'static str]) -> Choice {
    Choice::new(name, aliases)
}
