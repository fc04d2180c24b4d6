//! What can be wrong with an expression: at submission ([`ExprError`]) and with a row
//! ([`EvalError`]).

use std::fmt;
use std::sync::Arc;

use millstream_types::errors::{self, ErrorCode};

use crate::excerpt::{self, Position, Span};

/// An expression that is not accepted: what is wrong, where, and what to write instead.
///
/// The caller's reaction is one, to refuse the job; [`ErrorKind`] is for tests and for grouping.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ExprError(Box<Inner>);

#[derive(Debug, Clone, PartialEq, Eq)]
struct Inner {
    kind: ErrorKind,
    span: Span,
    text: Arc<str>,
}

/// What is wrong with an expression.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ErrorKind {
    /// The text is longer than an expression may be.
    #[error("the expression has {length_bytes} bytes, more than {max_bytes}")]
    TooLong {
        /// Bytes of the text.
        length_bytes: usize,
        /// Bytes allowed.
        max_bytes: usize,
    },
    /// Parentheses, CASE or operators are nested deeper than allowed.
    #[error("the expression is nested more than {max} levels deep")]
    TooDeep {
        /// Levels allowed.
        max: usize,
    },
    /// The text is not a SQL expression.
    #[error("{message}")]
    Syntax {
        /// What was expected and what was found.
        message: String,
    },
    /// No column of this name.
    #[error("unknown column {name:?}{}", did_you_mean(.suggestion))]
    UnknownColumn {
        /// The name as written.
        name: String,
        /// The column that was probably meant.
        suggestion: Option<String>,
        /// All columns, in their order.
        columns: Vec<String>,
    },
    /// Two columns of the input share a name, so that no expression can tell them apart.
    #[error("the input has two columns named {name:?}")]
    DuplicateColumn {
        /// The shared name.
        name: String,
    },
    /// No function of this name.
    #[error("unknown function {name:?}{}", did_you_mean(.suggestion))]
    UnknownFunction {
        /// The name as written.
        name: String,
        /// The function that was probably meant.
        suggestion: Option<String>,
    },
    /// Something that SQL has and an expression of a job must not have.
    #[error("{what} {why}")]
    Refused {
        /// The construct or function.
        what: String,
        /// Why it is refused.
        why: &'static str,
        /// What to do instead.
        remedy: String,
    },
    /// An operator or function does not take what it is given.
    #[error("{message}")]
    Type {
        /// The operator or function, and the types.
        message: String,
        /// What to do instead.
        remedy: String,
    },
    /// A regular expression that cannot be used.
    #[error("{message}")]
    Pattern {
        /// What is wrong with it.
        message: String,
        /// What to do instead.
        remedy: String,
    },
    /// A constant part of the expression fails for every row.
    #[error("this fails for every row: {fault}")]
    AlwaysFails {
        /// The failure.
        fault: EvalFault,
    },
    /// A condition that is not BOOLEAN.
    #[error("a condition must be BOOLEAN, this is {found}")]
    NotBoolean {
        /// The type of the expression.
        found: String,
    },
    /// The planner of the SQL library panicked: a fault of ours, never of the job's author alone.
    #[error("the expression cannot be planned: {message}")]
    Internal {
        /// The panic's message.
        message: String,
    },
}

/// The end of a sentence that offers a better name.
fn did_you_mean(suggestion: &Option<String>) -> String {
    suggestion
        .as_ref()
        .map(|name| format!(", did you mean {name:?}?"))
        .unwrap_or_default()
}

impl ExprError {
    /// An error about `span` of `text`.
    pub(crate) fn new(kind: ErrorKind, span: Span, text: &str) -> Self {
        Self(Box::new(Inner {
            kind,
            span,
            text: Arc::from(text),
        }))
    }

    /// What is wrong.
    pub fn kind(&self) -> &ErrorKind {
        &self.0.kind
    }

    /// Its code.
    pub fn code(&self) -> ErrorCode {
        match &self.0.kind {
            ErrorKind::Syntax { .. } => errors::EXPR_SYNTAX,
            ErrorKind::UnknownColumn { .. } => errors::EXPR_UNKNOWN_COLUMN,
            ErrorKind::UnknownFunction { .. } => errors::EXPR_UNKNOWN_FUNCTION,
            ErrorKind::Type { .. } | ErrorKind::NotBoolean { .. } => errors::EXPR_TYPE,
            ErrorKind::Refused { .. } => errors::EXPR_REFUSED,
            ErrorKind::TooLong { .. } | ErrorKind::TooDeep { .. } => errors::EXPR_SIZE,
            ErrorKind::Pattern { .. } => errors::EXPR_PATTERN,
            ErrorKind::AlwaysFails { .. } => errors::EXPR_ALWAYS_FAILS,
            ErrorKind::DuplicateColumn { .. } => errors::EXPR_DUPLICATE_COLUMN,
            ErrorKind::Internal { .. } => errors::EXPR_INTERNAL,
        }
    }

    /// Where it begins.
    pub fn position(&self) -> Position {
        self.0.span.start
    }

    /// The stretch of text that is wrong.
    pub fn span(&self) -> Span {
        self.0.span
    }

    /// What to do about it, one sentence.
    pub fn remedy(&self) -> String {
        match &self.0.kind {
            ErrorKind::TooLong { .. } => "Split it into several select or filter steps.".into(),
            ErrorKind::TooDeep { .. } => {
                "Use IN (...) for long chains of OR, or compute parts in a select step before."
                    .into()
            }
            ErrorKind::Syntax { .. } => {
                "An expression is what stands between SELECT and FROM in SQL.".into()
            }
            ErrorKind::UnknownColumn { columns, .. } => columns_there_are(columns),
            ErrorKind::DuplicateColumn { name } => {
                format!("Rename one of the columns {name:?} in a select step.")
            }
            ErrorKind::UnknownFunction { .. } => {
                "The reference of expressions lists all functions.".into()
            }
            ErrorKind::Refused { remedy, .. }
            | ErrorKind::Type { remedy, .. }
            | ErrorKind::Pattern { remedy, .. } => remedy.clone(),
            ErrorKind::AlwaysFails { fault } => fault.remedy().into(),
            ErrorKind::NotBoolean { .. } => {
                "Compare it with something, for example \"... > 0\" or \"... <> ''\".".into()
            }
            ErrorKind::Internal { .. } => "Please report this expression as a bug.".into(),
        }
    }

    /// The multi-line form: the message, the line of the text with carets under the place, and the
    /// remedy.
    pub fn render(&self) -> String {
        let excerpt = excerpt::render(&self.0.text, self.0.span);
        format!("{self}\n{excerpt}\n  help: {}", self.remedy())
    }
}

/// Names the columns, or says how many there are when there are too many to read.
fn columns_there_are(columns: &[String]) -> String {
    const SHOWN: usize = 12;
    let names: Vec<&str> = columns.iter().take(SHOWN).map(String::as_str).collect();
    match (columns.len(), columns.len().saturating_sub(SHOWN)) {
        (0, _) => "The input has no columns.".into(),
        (_, 0) => format!(
            "The columns are {}; text is written in single quotes.",
            names.join(", ")
        ),
        (_, more) => format!(
            "The columns are {} and {more} more; text is written in single quotes.",
            names.join(", ")
        ),
    }
}

impl fmt::Display for ExprError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} at {}", self.0.kind, self.0.span.start)
    }
}

impl std::error::Error for ExprError {}

/// A row, or a batch, that an accepted expression fails on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EvalError {
    /// The text of the expression.
    pub expression: Arc<str>,
    /// The first row of the batch that fails, from 0; absent when the failure is not one row's.
    pub row_index: Option<usize>,
    /// What happened.
    pub fault: EvalFault,
}

/// Expressions in messages are cut to this many characters.
const SHOWN_CHARS: usize = 120;

impl fmt::Display for EvalError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} in expression \"{}\"",
            self.fault,
            shortened(&self.expression, SHOWN_CHARS)
        )?;
        match self.row_index {
            Some(row_index) => write!(f, ", row {row_index} of the batch"),
            None => Ok(()),
        }
    }
}

impl std::error::Error for EvalError {}

impl EvalError {
    /// What to do about it, one sentence.
    pub fn remedy(&self) -> &'static str {
        self.fault.remedy()
    }
}

/// What went wrong with a value.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum EvalFault {
    /// An integer or decimal was divided by zero.
    #[error("division by zero")]
    DivisionByZero,
    /// A result does not fit its type.
    #[error("overflow: {detail}")]
    Overflow {
        /// The operation and its values.
        detail: String,
    },
    /// A value cannot be read as what it is cast to.
    #[error("{detail}")]
    InvalidValue {
        /// The value and the type.
        detail: String,
    },
    /// The batch is not of the schema that the expression was compiled for.
    #[error("column {column:?} is {found}, the expression was compiled for {expected}")]
    SchemaMismatch {
        /// The column.
        column: String,
        /// Its type in the batch.
        found: String,
        /// Its type at compile time.
        expected: String,
    },
    /// Anything else a function may object to.
    #[error("{detail}")]
    Other {
        /// The function's own words.
        detail: String,
    },
}

impl EvalFault {
    /// What to do about it, one sentence.
    pub fn remedy(&self) -> &'static str {
        match self {
            Self::DivisionByZero => {
                "Divide by NULLIF(x, 0) to get NULL, or keep such rows out with a filter step."
            }
            Self::Overflow { .. } => {
                "Cast an operand to a wider type: an integer to DECIMAL(38, 0), a DECIMAL, which \
                 has 38 digits at most, to DOUBLE."
            }
            Self::InvalidValue { .. } => {
                "Use TRY_CAST to get NULL, or keep such rows out with a filter step."
            }
            Self::SchemaMismatch { .. } => {
                "Please report this as a bug: the planner connected the wrong steps."
            }
            Self::Other { .. } => "Keep such rows out with a filter step.",
        }
    }
}

/// The text in one line and at most `max_chars` characters.
pub(crate) fn shortened(text: &str, max_chars: usize) -> String {
    let mut line: String = text
        .chars()
        .take(max_chars)
        .map(|c| if c.is_control() { ' ' } else { c })
        .collect();
    if text.chars().nth(max_chars).is_some() {
        line.push_str("...");
    }
    line
}
