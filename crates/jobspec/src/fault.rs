//! What is wrong with a job file, where, and what to do about it.

use std::fmt;

use millstream_config::{ValueFault, Warning as SettingWarning};
use millstream_expr::ExprError;
use millstream_types::errors::{self, ErrorCode};

/// A place in a job file; both counts start at 1, columns count characters.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Place {
    /// The line.
    pub line: u32,
    /// The character in the line.
    pub column: u32,
}

/// One fault of a job file.
#[derive(Debug, Clone, PartialEq)]
pub struct Fault {
    /// The file as the caller named it.
    pub file: String,
    /// Where; `None` if it concerns no single place.
    pub place: Option<Place>,
    /// The key, such as `pipeline[2].filter.where`; empty if it concerns no single key.
    pub path: String,
    /// What is wrong.
    pub kind: FaultKind,
    /// The marked line of the file; empty without a place.
    pub(crate) excerpt: String,
}

/// What is wrong.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum FaultKind {
    /// The text is no YAML that is read.
    #[error("{message}")]
    Yaml {
        /// What the reader says.
        message: String,
        /// What to do.
        remedy: String,
    },
    /// A setting of the job that is not accepted.
    #[error("{message}")]
    Setting {
        /// Its code.
        code: ErrorCode,
        /// What the configuration says.
        message: String,
        /// What to do.
        remedy: String,
    },
    /// A step that does not exist.
    #[error("there is no step {name:?}")]
    UnknownStep {
        /// As written.
        name: String,
        /// The step that was probably meant.
        suggestion: Option<&'static str>,
        /// All steps.
        known: Vec<&'static str>,
    },
    /// A key that its step does not have.
    #[error("{of} has no key {name:?}")]
    UnknownKey {
        /// The step or value.
        of: String,
        /// As written.
        name: String,
        /// The key that was probably meant.
        suggestion: Option<&'static str>,
        /// All keys.
        known: Vec<&'static str>,
    },
    /// A key without which the step means nothing.
    #[error("{of} needs {key}")]
    MissingKey {
        /// The step or value.
        of: String,
        /// The key, or the keys of which one is needed.
        key: String,
        /// What it is.
        means: &'static str,
    },
    /// A known key without effect so far.
    #[error("{key} is known, not built yet: {what}")]
    NotBuilt {
        /// The key.
        key: &'static str,
        /// What it would be.
        what: &'static str,
    },
    /// A key that does nothing beside the other keys of its step.
    #[error("{key} has no effect with {other} {found:?}")]
    NoEffect {
        /// The key.
        key: &'static str,
        /// The key that decides.
        other: &'static str,
        /// Its value.
        found: String,
        /// The values with which `key` has an effect.
        allowed: &'static [&'static str],
    },
    /// A value that its key does not take.
    #[error("{}", fault.message(key))]
    Value {
        /// The key.
        key: String,
        /// Why.
        fault: ValueFault,
    },
    /// A column type that does not exist.
    #[error("{found:?} is not a column type{}", .why.map(|why| format!(": {why}")).unwrap_or_default())]
    Type {
        /// As written.
        found: String,
        /// What is wrong, where more can be said.
        why: Option<&'static str>,
        /// What to write instead, where it can be guessed.
        suggestion: Option<String>,
    },
    /// An expression that is not accepted.
    #[error("{}", .0.kind())]
    Expression(ExprError),
    /// A column that the input does not have.
    #[error("the input has no column {name:?}")]
    UnknownColumn {
        /// As written.
        name: String,
        /// The column that was probably meant.
        suggestion: Option<String>,
        /// The columns there are.
        columns: Vec<String>,
    },
    /// A `from` that leads nowhere.
    #[error("no step above has the uid {uid:?}")]
    UnknownUid {
        /// As written.
        uid: String,
        /// The uid that was probably meant.
        suggestion: Option<String>,
        /// The uids there are.
        known: Vec<String>,
    },
    /// One uid twice.
    #[error("uid {uid:?} is used by {first} and {second}")]
    DuplicateUid {
        /// The uid.
        uid: String,
        /// The first step and its line.
        first: String,
        /// The second step and its line.
        second: String,
    },
    /// An operator with state and without a uid, where the job asks for uids.
    #[error("{step} keeps state and has no uid")]
    MissingUid {
        /// The step.
        step: String,
    },
    /// Above a limit.
    #[error("{what}: {found}, above the limit of {limit}")]
    Limit {
        /// What is counted.
        what: &'static str,
        /// How many there are.
        found: u64,
        /// How many may be.
        limit: u64,
    },
    /// Steps or keys that are good alone and not together.
    #[error("{message}")]
    Structure {
        /// What does not go together.
        message: String,
        /// What to do.
        remedy: String,
    },
}

impl FaultKind {
    /// Its code.
    #[must_use]
    pub fn code(&self) -> ErrorCode {
        match self {
            Self::Yaml { .. } => errors::JOB_YAML,
            Self::Setting { code, .. } => *code,
            Self::UnknownStep { .. } => errors::JOB_UNKNOWN_STEP,
            Self::UnknownKey { .. } => errors::JOB_UNKNOWN_KEY,
            Self::MissingKey { .. } => errors::JOB_MISSING_KEY,
            Self::NotBuilt { .. } => errors::JOB_NOT_BUILT,
            Self::NoEffect { .. } => errors::JOB_NO_EFFECT,
            // What a setting may be too has the code it has there.
            Self::Value { fault, .. } => match fault.code() {
                errors::CONF_VALUE => errors::JOB_VALUE,
                code => code,
            },
            Self::Type { .. } => errors::JOB_TYPE,
            Self::Expression(error) => error.code(),
            Self::UnknownColumn { .. } => errors::JOB_UNKNOWN_COLUMN,
            Self::UnknownUid { .. } => errors::JOB_UNKNOWN_UID,
            Self::DuplicateUid { .. } => errors::JOB_DUPLICATE_UID,
            Self::MissingUid { .. } => errors::JOB_MISSING_UID,
            Self::Limit { .. } => errors::JOB_LIMIT,
            Self::Structure { .. } => errors::JOB_STRUCTURE,
        }
    }

    /// What to do about it.
    #[must_use]
    pub fn remedy(&self) -> String {
        match self {
            Self::Yaml { remedy, .. }
            | Self::Setting { remedy, .. }
            | Self::Structure { remedy, .. } => remedy.clone(),
            Self::UnknownStep {
                suggestion, known, ..
            } => meant(suggestion.as_deref(), || {
                format!("the steps are {}", known.join(", "))
            }),
            Self::UnknownKey {
                suggestion, known, ..
            } => meant(suggestion.as_deref(), || {
                format!("the keys are {}", known.join(", "))
            }),
            Self::MissingKey { key, means, .. } => format!("add {key}: {means}"),
            Self::NotBuilt { key, .. } => format!("remove {key}"),
            Self::NoEffect {
                key,
                other,
                allowed,
                ..
            } => format!("remove {key}, or set {other} to {}", allowed.join(" or ")),
            Self::Value { key, fault } => fault.remedy(key),
            Self::Type { suggestion, .. } => meant(suggestion.as_deref(), || {
                format!("the types are {}", crate::types::names().join(", "))
            }),
            Self::Expression(error) => error.remedy(),
            Self::UnknownColumn {
                suggestion,
                columns,
                ..
            } => meant(suggestion.as_deref(), || there_are("columns", columns)),
            Self::UnknownUid {
                suggestion, known, ..
            } => meant(suggestion.as_deref(), || match known.as_slice() {
                [] => "a step reads from steps above it, and there is none".to_owned(),
                known => there_are("uids above", known),
            }),
            Self::DuplicateUid { .. } => "give one of the two another uid".to_owned(),
            Self::MissingUid { .. } => {
                "add uid: a name that stays the same, its state is found by it".to_owned()
            }
            Self::Limit { .. } => "split the job".to_owned(),
        }
    }

    pub(crate) fn structure(message: impl Into<String>, remedy: impl Into<String>) -> Self {
        Self::Structure {
            message: message.into(),
            remedy: remedy.into(),
        }
    }
}

fn meant(suggestion: Option<&str>, otherwise: impl FnOnce() -> String) -> String {
    match suggestion {
        Some(name) => format!("did you mean {name}?"),
        None => otherwise(),
    }
}

fn there_are(what: &str, names: &[String]) -> String {
    const SHOWN: usize = 12;
    let shown = names[..names.len().min(SHOWN)].join(", ");
    match names.len().saturating_sub(SHOWN) {
        0 => format!("the {what} are {shown}"),
        more => format!("the {what} are {shown} and {more} more"),
    }
}

impl Fault {
    /// What to do about it.
    #[must_use]
    pub fn remedy(&self) -> String {
        self.kind.remedy()
    }

    /// The multi-line form: message, place, the line with carets under the place, remedy.
    #[must_use]
    pub fn render(&self) -> String {
        let code = self.kind.code();
        let mut text = format!("error[{code}]: {}\n  --> {}", self.kind, self.file);
        if let Some(place) = self.place {
            text.push_str(&format!(":{}:{}", place.line, place.column));
        }
        if !self.path.is_empty() {
            text.push_str(&format!(" ({})", self.path));
        }
        if !self.excerpt.is_empty() {
            text.push('\n');
            text.push_str(&self.excerpt);
        }
        text.push_str(&format!("\n  help: {}", self.remedy()));
        text
    }
}

impl fmt::Display for Fault {
    /// One line: `file:line:column: key path: what is wrong`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.file)?;
        if let Some(place) = self.place {
            write!(f, ":{}:{}", place.line, place.column)?;
        }
        // A setting's message names its key.
        let is_setting = matches!(self.kind, FaultKind::Setting { .. });
        if !self.path.is_empty() && !is_setting {
            write!(f, ": {}", self.path)?;
        }
        write!(f, ": {}", self.kind)
    }
}

/// All faults found in a job file, at least one, at most [`JobFileErrors::LIMIT`], in the order of
/// their places.
#[derive(Debug, Clone, PartialEq)]
pub struct JobFileErrors {
    faults: Vec<Fault>,
}

impl JobFileErrors {
    /// So many faults are collected; a longer list helps nobody.
    pub const LIMIT: usize = 20;

    pub(crate) fn new(mut faults: Vec<Fault>) -> Self {
        debug_assert!(!faults.is_empty(), "an error has a fault");
        faults.sort_by_key(|fault| fault.place);
        Self { faults }
    }

    /// The faults.
    #[must_use]
    pub fn faults(&self) -> &[Fault] {
        &self.faults
    }

    /// The code of the first fault.
    #[must_use]
    pub fn code(&self) -> ErrorCode {
        let first = self.faults.first();
        first.map_or(errors::JOB_STRUCTURE, |fault| fault.kind.code())
    }

    /// All faults in their multi-line form.
    #[must_use]
    pub fn render(&self) -> String {
        let mut parts: Vec<String> = self.faults.iter().map(Fault::render).collect();
        if self.faults.len() >= Self::LIMIT {
            parts.push(format!(
                "only the first {} faults are shown",
                self.faults.len()
            ));
        }
        parts.join("\n\n")
    }
}

impl fmt::Display for JobFileErrors {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let lines: Vec<String> = self.faults.iter().map(ToString::to_string).collect();
        f.write_str(&lines.join("; "))
    }
}

impl std::error::Error for JobFileErrors {}

/// What is accepted and yet worth saying; the caller logs each once at WARN.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub enum Warning {
    /// A setting.
    Setting(SettingWarning),
    /// An operator with state has a uid made of its kind and position: when steps are added or
    /// removed above it, its state is no longer found.
    GeneratedUid {
        /// File and place.
        at: String,
        /// The step.
        step: String,
        /// The uid it got.
        uid: String,
    },
    /// A file sink shows rows when a checkpoint completes, and nobody asked for checkpoints.
    NothingCommitted {
        /// File and place.
        at: String,
        /// The sink.
        step: String,
    },
}

impl fmt::Display for Warning {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Setting(warning) => warning.fmt(f),
            Self::GeneratedUid { at, step, uid } => write!(
                f,
                "{at}: {step} keeps state and has no uid, {uid} is used: \
                 its state is lost when steps above it are added or removed"
            ),
            Self::NothingCommitted { at, step } => write!(
                f,
                "{at}: {step} shows rows when a checkpoint completes, its input never ends and \
                 the job sets no checkpointing.interval: without the cluster's nothing becomes visible"
            ),
        }
    }
}
