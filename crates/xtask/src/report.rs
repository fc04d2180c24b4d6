//! What a task complains about.

use std::fmt;
use std::path::PathBuf;

/// Something in the tree that must change.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Violation {
    /// The file, from the root.
    pub path: PathBuf,
    /// The line, from 1; 0 for the file as a whole.
    pub line: usize,
    /// What is wrong and what to do.
    pub message: String,
}

impl Violation {
    /// At a line of a file.
    pub fn at(path: impl Into<PathBuf>, line: usize, message: impl Into<String>) -> Self {
        Self {
            path: path.into(),
            line,
            message: message.into(),
        }
    }

    /// About a file as a whole.
    pub fn of(path: impl Into<PathBuf>, message: impl Into<String>) -> Self {
        Self::at(path, 0, message)
    }
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.line {
            0 => write!(f, "{}: {}", self.path.display(), self.message),
            line => write!(f, "{}:{line}: {}", self.path.display(), self.message),
        }
    }
}

/// Why a task did not succeed.
#[derive(Debug, thiserror::Error)]
pub enum Failure {
    /// A step of CI failed.
    #[error("{step} failed. To run it again:\n  {rerun}")]
    Step {
        /// The step's name.
        step: String,
        /// The command that repeats it alone.
        rerun: String,
    },
    /// The tree is not tidy.
    #[error("{}\ntidy: {} to change. To run it again:\n  cargo xtask tidy", list(.0), .0.len())]
    Untidy(Vec<Violation>),
    /// A file or program could not be used.
    #[error("cannot {action}: {source}")]
    Io {
        /// What was tried.
        action: String,
        /// What the operating system said.
        source: std::io::Error,
    },
    /// A program's answer or a data file is not as expected.
    #[error("{0}")]
    Unexpected(String),
}

impl Failure {
    /// For `map_err` on I/O.
    pub fn io(action: impl Into<String>) -> impl FnOnce(std::io::Error) -> Self {
        let action = action.into();
        move |source| Self::Io { action, source }
    }
}

fn list(violations: &[Violation]) -> String {
    violations
        .iter()
        .map(|violation| format!("{violation}\n"))
        .collect()
}
