//! What an operator does: its kind with its typed configuration.

use std::time::Duration;

use arrow::datatypes::{DataType, SchemaRef};

/// The operators a graph can hold.
#[derive(Clone, PartialEq, Debug)]
pub enum OperatorKind {
    /// Finds the splits of a file source and assigns them. Always parallelism 1.
    FileEnumerator(FileSource),
    /// Reads the splits of a file source.
    FileSource(FileSource),
    /// Makes rows up.
    Generator(GeneratorSource),
    /// Computes new columns; nothing else is kept.
    Select {
        /// The output columns in order.
        columns: Vec<NamedExpr>,
    },
    /// Keeps the rows for which the predicate is true (not false, not NULL).
    Filter {
        /// A boolean expression.
        predicate: String,
    },
    /// One row per element of a list expression. The row's other columns are repeated where
    /// `keep` is set.
    FlatMap {
        /// An expression of list type.
        expr: String,
        /// Name of the column that holds the element.
        name: String,
        /// Whether the input's columns stay in front of it.
        keep: bool,
    },
    /// Merges its inputs, which have the same schema, in the order of arrival.
    Union,
    /// Running aggregates per key.
    Aggregate {
        /// Key columns by position in the input; none for one global group.
        keys: Vec<usize>,
        /// The aggregates in the order of the output columns behind the keys.
        aggregates: Vec<AggregateColumn>,
        /// When results leave.
        emit: Emit,
    },
    /// Passes rows through and misbehaves as told, for demonstrations and tests.
    Inject(Inject),
    /// Writes each row as one line for people.
    Print {
        /// Put in front of each line.
        label: Option<String>,
    },
    /// Counts and forgets.
    Blackhole,
    /// Writes files that become visible when a checkpoint completes.
    FileSink(FileSink),
}

impl OperatorKind {
    /// The kind's name as job files and messages spell it.
    pub fn label(&self) -> &'static str {
        match self {
            Self::FileEnumerator(_) => "file enumerator",
            Self::FileSource(_) => "file source",
            Self::Generator(_) => "generator source",
            Self::Select { .. } => "select",
            Self::Filter { .. } => "filter",
            Self::FlatMap { .. } => "flat-map",
            Self::Union => "union",
            Self::Aggregate { .. } => "aggregate",
            Self::Inject(_) => "inject",
            Self::Print { .. } => "print sink",
            Self::Blackhole => "blackhole sink",
            Self::FileSink(_) => "file sink",
        }
    }

    /// Whether it has no input of rows.
    pub fn is_source(&self) -> bool {
        matches!(
            self,
            Self::FileEnumerator(_) | Self::FileSource(_) | Self::Generator(_)
        )
    }

    /// Whether it has no output.
    pub fn is_sink(&self) -> bool {
        matches!(
            self,
            Self::Print { .. } | Self::Blackhole | Self::FileSink(_)
        )
    }

    /// Whether its results depend on state that must survive a failure.
    pub fn is_stateful(&self) -> bool {
        match self {
            Self::FileEnumerator(_)
            | Self::FileSource(_)
            | Self::Generator(_)
            | Self::Aggregate { .. }
            | Self::FileSink(_)
            | Self::Inject(_) => true,
            Self::Select { .. }
            | Self::Filter { .. }
            | Self::FlatMap { .. }
            | Self::Union
            | Self::Print { .. }
            | Self::Blackhole => false,
        }
    }
}

/// An expression with the name of the column it makes.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct NamedExpr {
    /// Column name.
    pub name: String,
    /// SQL expression over the input's columns.
    pub expr: String,
}

/// The aggregate functions.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash, PartialOrd, Ord)]
pub enum AggregateFunction {
    /// Rows, or rows whose argument is not NULL.
    Count,
    /// Exact sum; overflow is an error.
    Sum,
    /// Lowest value that is not NULL.
    Min,
    /// Highest value that is not NULL.
    Max,
    /// Mean of the values that are not NULL.
    Avg,
    /// The last value that is not NULL, in the order of arrival.
    LastValue,
}

impl AggregateFunction {
    /// As expressions call it. State keeps the name too, so it never changes.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Count => "count",
            Self::Sum => "sum",
            Self::Min => "min",
            Self::Max => "max",
            Self::Avg => "avg",
            Self::LastValue => "last_value",
        }
    }
}

/// One aggregate of an aggregate step.
#[derive(Clone, PartialEq, Debug)]
pub struct AggregateColumn {
    /// Output column.
    pub name: String,
    /// The function.
    pub function: AggregateFunction,
    /// Its argument; none for `count(*)`.
    pub argument: Option<String>,
    /// Type of the argument; none for `count(*)`.
    pub input_type: Option<DataType>,
    /// Type of the output column.
    pub output_type: DataType,
}

/// When an aggregate's results leave it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Emit {
    /// One update for each input row.
    Each,
    /// One update per key and batch.
    Batch,
    /// One update per changed key and interval of processing time.
    Interval(Duration),
    /// One row per key when the input has ended.
    End,
}

/// What happens to a record that cannot be read.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum BadRecordPolicy {
    /// The job fails and names file, line and column.
    #[default]
    Fail,
    /// The record is left out and counted.
    Skip,
    /// The record goes to the source's dead-letter output and is counted.
    DeadLetter,
}

/// How a file's bytes become rows.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum FileFormat {
    /// One row with the column `line` per line.
    Text,
    /// One JSON object per line, read by the declared columns.
    JsonLines,
    /// Comma separated values with a header line.
    Csv {
        /// Field delimiter, one byte.
        delimiter: u8,
    },
    /// Apache Parquet, of which the declared columns are read.
    Parquet,
}

/// How the files of a source are packed.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Compression {
    /// As their names say: `.gz` and `.zst`, all others not at all.
    #[default]
    Auto,
    /// Not at all, whatever their names say.
    None,
    /// As one or more gzip members.
    Gzip,
    /// As one or more zstd frames.
    Zstd,
}

/// Configuration of a file source.
#[derive(Clone, PartialEq, Debug)]
pub struct FileSource {
    /// A path or glob pattern, absolute after planning for a local run.
    pub path: String,
    /// The format.
    pub format: FileFormat,
    /// Columns of the rows.
    pub schema: SchemaRef,
    /// Files above this size are cut into splits of about this many bytes.
    pub split_bytes: u64,
    /// What happens to bad records.
    pub on_error: BadRecordPolicy,
    /// Longest line accepted.
    pub max_line_bytes: u64,
    /// How the files are packed; Parquet files say so themselves.
    pub compression: Compression,
    /// Whether a JSON object without the field of a declared column is a bad record; otherwise the
    /// column is NULL.
    pub fail_on_missing_field: bool,
}

/// Configuration of a generator source.
#[derive(Clone, PartialEq, Debug)]
pub struct GeneratorSource {
    /// Rows in all over all subtasks; unbounded if none.
    pub rows: Option<u64>,
    /// Rows a second over all subtasks; as fast as possible if none.
    pub rate: Option<f64>,
    /// Everything random follows from it.
    pub seed: u64,
    /// The columns.
    pub columns: Vec<GeneratorColumn>,
}

/// One column of a generator.
#[derive(Clone, PartialEq, Debug)]
pub struct GeneratorColumn {
    /// Its name.
    pub name: String,
    /// How its values arise.
    pub value: GeneratorValue,
}

/// How the values of a generated column arise. All follow from the seed and the row's number, so
/// that a restored generator continues exactly.
#[derive(Clone, PartialEq, Debug)]
pub enum GeneratorValue {
    /// The row's global number plus `start` (BIGINT).
    Sequence {
        /// Value of the first row.
        start: i64,
    },
    /// The row's number modulo `keys` (BIGINT): every key comes equally often.
    RoundRobinKey {
        /// Number of distinct keys.
        keys: u64,
    },
    /// How often the round-robin key of this row came before, plus 1 (BIGINT): a sequence number
    /// per key.
    RoundRobinSequence {
        /// Number of distinct keys, as in the key column.
        keys: u64,
    },
    /// Uniform between both, both included (BIGINT).
    RandomInt {
        /// Lowest.
        min: i64,
        /// Highest.
        max: i64,
    },
    /// Uniform from `min` up to but not including `max` (DOUBLE).
    RandomDouble {
        /// Lowest.
        min: f64,
        /// Above the highest.
        max: f64,
    },
    /// `length` letters and digits (VARCHAR).
    RandomText {
        /// Length in characters.
        length: u32,
    },
    /// One of these, uniformly (VARCHAR).
    OneOf {
        /// The choices, at least one.
        values: Vec<String>,
    },
    /// Always the same (VARCHAR).
    Constant {
        /// The value.
        value: String,
    },
}

/// Configuration of a file sink.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct FileSink {
    /// Directory of the committed files.
    pub path: String,
    /// Their format.
    pub format: SinkFormat,
    /// A file is closed and another begun above this size.
    pub roll_bytes: u64,
}

/// How rows become the bytes of a file.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum SinkFormat {
    /// One JSON object per line.
    JsonLines,
    /// Comma separated values with a header line.
    Csv {
        /// Field delimiter, one byte.
        delimiter: u8,
    },
    /// Apache Parquet.
    Parquet {
        /// How its pages are packed.
        compression: ParquetCompression,
    },
}

/// How the pages of a Parquet file are packed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ParquetCompression {
    /// Zstandard.
    Zstd,
    /// Snappy.
    Snappy,
    /// Not at all.
    None,
}

impl SinkFormat {
    /// The ending of the files' names.
    pub fn extension(self) -> &'static str {
        match self {
            Self::JsonLines => "jsonl",
            Self::Csv { .. } => "csv",
            Self::Parquet { .. } => "parquet",
        }
    }
}

/// Configuration of an inject step.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Inject {
    /// What it does.
    pub fault: Fault,
    /// It strikes before it passes on its n-th row, counted from 1 in this subtask over all
    /// attempts that share its state.
    pub at_row: u64,
    /// Only this subtask (from 0); all if none.
    pub subtask: Option<u32>,
    /// How many attempts of the subtask it strikes; every one if none.
    pub times: Option<u32>,
}

/// A call of an operator by its task.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum OperatorCall {
    /// Before the first row.
    Open,
    /// Of a slice of rows.
    Process,
    /// For a checkpoint.
    Snapshot,
    /// At the end, of whatever kind.
    Close,
}

/// What an inject step does.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Fault {
    /// Fails with this message.
    Fail {
        /// The error's text.
        message: String,
    },
    /// Panics with this message.
    Panic {
        /// The panic's text.
        message: String,
    },
    /// Blocks in a read from a socket that never answers.
    BlockInSocketRead {
        /// Which of its calls does not return.
        during: OperatorCall,
    },
    /// Waits this long for every row from there on, in user code.
    Delay {
        /// Per row.
        per_row: Duration,
    },
    /// Refuses the next snapshot.
    RefuseSnapshot {
        /// The error's text.
        message: String,
    },
}
