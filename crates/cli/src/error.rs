//! What can go wrong with a command, and what the user reads then.

use std::error::Error;

use millstream_config::ConfigErrors;
use millstream_jobspec::JobFileErrors;
use millstream_telemetry::chain;
use millstream_types::errors::ErrorCode;

/// Why a command did not do what it was asked.
#[derive(Debug, thiserror::Error)]
pub enum CliError {
    /// The job file has faults.
    #[error("the job file is refused")]
    JobFile(#[source] JobFileErrors),
    /// Settings of the command line have faults.
    #[error("the settings are refused")]
    Settings(#[source] ConfigErrors),
    /// Something that was given cannot be used.
    #[error("{what}")]
    Usage {
        /// Its code.
        code: ErrorCode,
        /// What, and why.
        what: String,
        /// What to do about it; empty where the catalogue says it.
        remedy: String,
    },
    /// The cluster refuses what was asked.
    #[error("{what}")]
    Refused {
        /// The code that the cluster said.
        code: ErrorCode,
        /// Why, perhaps with remedies.
        what: String,
    },
    /// The cluster does not answer.
    #[error("{what}")]
    Unreachable {
        /// Its code.
        code: ErrorCode,
        /// Where it should be, and what happened.
        what: String,
        /// What to do about it; empty where the catalogue says it.
        remedy: String,
    },
    /// The operation was begun and failed.
    #[error("{what}")]
    Failed {
        /// Its code.
        code: ErrorCode,
        /// What happened.
        what: String,
        /// Causes and remedies, a line each.
        details: Vec<String>,
    },
}

/// How a line begins that says what to do.
const HELP: &str = "help: ";

impl CliError {
    /// 1 for a mistake in what was given, 2 for a cluster out of reach, 3 for an operation that failed.
    pub fn exit_code(&self) -> u8 {
        match self {
            Self::JobFile(_) | Self::Settings(_) | Self::Usage { .. } | Self::Refused { .. } => 1,
            Self::Unreachable { .. } => 2,
            Self::Failed { .. } => 3,
        }
    }

    /// What the user reads: `error[CODE]: what`, causes, and what to do.
    pub fn render(&self) -> String {
        match self {
            Self::JobFile(errors) => errors.render(),
            Self::Settings(errors) => errors.render(),
            // The cluster may have said what to do.
            Self::Refused { code, what } if what.contains(HELP) => format!("error[{code}]: {what}"),
            Self::Refused { code, what } => code.render(what, ""),
            Self::Usage { code, what, remedy } | Self::Unreachable { code, what, remedy } => {
                code.render(what, remedy)
            }
            Self::Failed {
                code,
                what,
                details,
            } => {
                let (remedies, causes): (Vec<&str>, Vec<&str>) = details
                    .iter()
                    .map(String::as_str)
                    .partition(|detail| detail.starts_with(HELP));
                let lines = [&[what.as_str()][..], &causes[..]].concat();
                let what = lines.join("\n  ");
                let remedy = remedies.join("\n  ");
                code.render(&what, remedy.strip_prefix(HELP).unwrap_or_default())
            }
        }
    }

    /// An operation that failed with this error; without a remedy the catalogue's is said.
    pub(crate) fn failed(
        code: ErrorCode,
        what: &str,
        error: &(dyn Error + 'static),
        remedy: &str,
    ) -> Self {
        let mut details = vec![format!("caused by: {}", chain(error))];
        if !remedy.is_empty() {
            details.push(format!("{HELP}{remedy}"));
        }
        Self::Failed {
            code,
            what: what.to_owned(),
            details,
        }
    }
}

#[cfg(test)]
mod tests {
    use millstream_types::errors;

    use super::*;

    #[test]
    fn a_failure_is_told_with_its_causes_before_what_to_do() {
        let failed = |details: &[&str]| {
            let error = CliError::Failed {
                code: errors::JOB_CANCELLED,
                what: "it ended".to_owned(),
                details: details.iter().map(|&detail| detail.to_owned()).collect(),
            };
            error.render()
        };
        assert_eq!(
            failed(&["caused by: a", "help: one", "caused by: b", "help: two"]),
            "error[FAIL-0002]: it ended\n  caused by: a\n  caused by: b\n  help: one\n  help: two"
        );
        let general = errors::JOB_CANCELLED.entry().remedy;
        assert!(failed(&["caused by: a"]).ends_with(&format!("caused by: a\n  help: {general}")));
    }

    #[test]
    fn what_a_cluster_says_to_do_is_not_said_again() {
        let refused = |what: &str| {
            let (code, what) = (errors::SUBM_CLIENT_ID, what.to_owned());
            CliError::Refused { code, what }.render()
        };
        let said = "no\n  help: shorten it";
        assert_eq!(refused(said), format!("error[SUBM-0006]: {said}"));
        assert!(refused("no").contains("\n  help: "));
    }
}
