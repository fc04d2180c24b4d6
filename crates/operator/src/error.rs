//! Errors of operators, sources and sinks.

use std::error::Error;
use std::fmt;

use millstream_types::Disposition;

/// What went wrong, by who has to act.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ErrorKind {
    /// A record cannot be read or computed with; the same record fails again.
    BadRecord,
    /// An expression or function of the job failed.
    UserCode,
    /// State cannot be read or written.
    State,
    /// An outside system (file, broker, database) refused or is not there.
    External,
    /// Output that a completed checkpoint promised is gone.
    DataLoss,
    /// An operator will not take part in this checkpoint; the task goes on.
    SnapshotRefused,
    /// The engine's own rules were broken.
    Internal,
}

/// An error that fails a task, with what an operator of the cluster needs to act on it.
#[derive(Debug)]
pub struct OperatorError {
    kind: ErrorKind,
    what: String,
    remedy: Option<String>,
    source: Option<Box<dyn Error + Send + Sync>>,
}

impl OperatorError {
    /// An error of this kind; `what` names the object and what happened to it.
    pub fn new(kind: ErrorKind, what: impl Into<String>) -> Self {
        Self {
            kind,
            what: what.into(),
            remedy: None,
            source: None,
        }
    }

    /// Adds what to do about it.
    #[must_use]
    pub fn with_remedy(mut self, remedy: impl Into<String>) -> Self {
        self.remedy = Some(remedy.into());
        self
    }

    /// Adds the cause.
    #[must_use]
    pub fn with_source(mut self, source: impl Into<Box<dyn Error + Send + Sync>>) -> Self {
        self.source = Some(source.into());
        self
    }

    /// Who has to act.
    pub fn kind(&self) -> ErrorKind {
        self.kind
    }

    /// What to do about it, where known.
    pub fn remedy(&self) -> Option<&str> {
        self.remedy.as_deref()
    }

    /// Whether a restart may help: lost output and broken rules are final.
    pub fn disposition(&self) -> Disposition {
        match self.kind {
            ErrorKind::BadRecord
            | ErrorKind::UserCode
            | ErrorKind::State
            | ErrorKind::External
            | ErrorKind::SnapshotRefused
            | ErrorKind::Internal => Disposition::FailTask,
            ErrorKind::DataLoss => Disposition::FailJob,
        }
    }
}

impl fmt::Display for OperatorError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // What the committer says begins with it already.
        if self.kind == ErrorKind::DataLoss && !self.what.starts_with("DATA_LOSS: ") {
            f.write_str("DATA_LOSS: ")?;
        }
        f.write_str(&self.what)
    }
}

impl Error for OperatorError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        self.source
            .as_deref()
            .map(|source| source as &(dyn Error + 'static))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lost_data_is_said_once_however_often_the_error_is_wrapped() {
        let first = OperatorError::new(ErrorKind::DataLoss, "file x is gone").to_string();
        assert_eq!(first, "DATA_LOSS: file x is gone");
        let again = OperatorError::new(ErrorKind::DataLoss, first.clone()).to_string();
        assert_eq!(again, first);
    }
}
