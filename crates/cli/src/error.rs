//! What can go wrong with a command, and what the user reads then.

use millstream_jobspec::JobFileErrors;

/// Why a command did not do what it was asked.
#[derive(Debug, thiserror::Error)]
pub enum CliError {
    /// The job file has faults.
    #[error("the job file is refused")]
    JobFile(#[source] JobFileErrors),
    /// Something that was given cannot be used.
    #[error("{what}")]
    Usage {
        /// What, and why.
        what: String,
        /// What to do about it.
        remedy: String,
    },
    /// The cluster refuses what was asked.
    #[error("{what}")]
    Refused {
        /// Why, with remedies.
        what: String,
    },
    /// The cluster does not answer.
    #[error("{what}")]
    Unreachable {
        /// Where it should be, and what happened.
        what: String,
        /// What to do about it.
        remedy: String,
    },
    /// The operation was begun and failed.
    #[error("{what}")]
    Failed {
        /// What happened.
        what: String,
        /// Causes and remedies, a line each.
        details: Vec<String>,
    },
}

impl CliError {
    /// 1 for a mistake in what was given, 2 for a cluster out of reach, 3 for an operation that failed.
    pub fn exit_code(&self) -> u8 {
        match self {
            Self::JobFile(_) | Self::Usage { .. } | Self::Refused { .. } => 1,
            Self::Unreachable { .. } => 2,
            Self::Failed { .. } => 3,
        }
    }

    /// What the user reads.
    pub fn render(&self) -> String {
        match self {
            Self::JobFile(errors) => errors.render(),
            Self::Refused { what } => format!("error: {what}"),
            Self::Usage { what, remedy } | Self::Unreachable { what, remedy } => {
                format!("error: {what}\n  help: {remedy}")
            }
            Self::Failed { what, details } => {
                let mut text = format!("error: {what}");
                for detail in details {
                    text.push_str("\n  ");
                    text.push_str(detail);
                }
                text
            }
        }
    }

    /// An operation that failed with this error.
    pub(crate) fn failed(what: &str, error: &dyn std::error::Error, remedy: &str) -> Self {
        let cause = format!("caused by: {}", millstream_telemetry::chain(error));
        let details = match remedy.is_empty() {
            true => vec![cause],
            false => vec![cause, format!("help: {remedy}")],
        };
        Self::Failed {
            what: what.to_owned(),
            details,
        }
    }
}
