//! What is wrong with a configuration, and what is merely worth a warning.

use std::fmt;

use millstream_types::errors::{self, ErrorCode};

use crate::origin::Origin;
use crate::value::ValueFault;
use crate::yaml::YamlError;

/// One fault of a configuration.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ConfigError {
    /// The text is no YAML that is read.
    #[error("{file}: {fault}")]
    Yaml {
        /// The file.
        file: String,
        /// What is wrong.
        fault: YamlError,
    },
    /// The text is YAML, but no mapping.
    #[error("{file}: expected keys and values, found {found}")]
    NoMapping {
        /// The file.
        file: String,
        /// What stands there.
        found: &'static str,
    },
    /// A key that does not exist.
    #[error("{origin}: unknown key {key}")]
    UnknownKey {
        /// Where.
        origin: Origin,
        /// The key as written.
        key: String,
        /// The key that was probably meant.
        suggestion: Option<String>,
    },
    /// A value where keys belong.
    #[error("{origin}: {key} is {found}, expected a mapping: keys and values below it")]
    NotMapping {
        /// Where.
        origin: Origin,
        /// The section as written.
        key: String,
        /// What stands there.
        found: &'static str,
        /// One of its keys with a value, without the section: `interval: 10s`.
        example: String,
    },
    /// A `MILLSTREAM_…` variable that sets nothing.
    #[error("unknown environment variable {variable}")]
    UnknownVariable {
        /// Its name.
        variable: String,
        /// The variable that was probably meant.
        suggestion: Option<String>,
    },
    /// A flag without `=`.
    #[error("flag -D {flag} sets no value")]
    MalformedFlag {
        /// What was given.
        flag: String,
    },
    /// A key of the daemons in a job.
    #[error("{origin}: {key} is a key of the daemons, not of a job")]
    NotInJobs {
        /// Where.
        origin: Origin,
        /// The key as written.
        key: String,
    },
    /// A known key without effect so far.
    #[error("{origin}: {key} is known, not built yet: {what}")]
    NotBuilt {
        /// Where.
        origin: Origin,
        /// The key as written.
        key: String,
        /// What it would be.
        what: &'static str,
    },
    /// A value that the key does not take.
    #[error("{origin}: {}", fault.message(key))]
    Value {
        /// Where.
        origin: Origin,
        /// The key as written.
        key: String,
        /// Why.
        fault: ValueFault,
    },
    /// One key twice in one place, perhaps by two of its names.
    #[error("{key} is given twice: {first} and {second}")]
    Twice {
        /// The key in its short form.
        key: &'static str,
        /// The first spelling and place.
        first: String,
        /// The second spelling and place.
        second: String,
    },
    /// Values that are good alone and not together.
    #[error("{what}")]
    Conflict {
        /// Which keys, their values and where they come from.
        what: String,
        /// What to change.
        remedy: String,
    },
    /// A daemon would listen beyond this machine without anything said about its protection.
    #[error("{key} is {host}: listening beyond loopback without security.transport is refused")]
    Unprotected {
        /// The key of the address.
        key: &'static str,
        /// The address.
        host: String,
    },
    /// A key without a default that is needed here.
    #[error("{key} is not set: {because}")]
    Missing {
        /// The key.
        key: &'static str,
        /// Why it is needed.
        because: &'static str,
    },
}

impl ConfigError {
    /// Its code.
    #[must_use]
    pub fn code(&self) -> ErrorCode {
        match self {
            Self::Yaml { .. } => errors::CONF_YAML,
            Self::NoMapping { .. } | Self::NotMapping { .. } => errors::CONF_SHAPE,
            Self::UnknownKey { .. } => errors::CONF_UNKNOWN_KEY,
            Self::UnknownVariable { .. } => errors::CONF_UNKNOWN_VARIABLE,
            Self::MalformedFlag { .. } => errors::CONF_FLAG,
            Self::NotInJobs { .. } => errors::CONF_NOT_IN_JOBS,
            Self::NotBuilt { .. } => errors::CONF_NOT_BUILT,
            Self::Value { fault, .. } => fault.code(),
            Self::Twice { .. } => errors::CONF_TWICE,
            Self::Conflict { .. } => errors::CONF_CONFLICT,
            Self::Unprotected { .. } => errors::CONF_UNPROTECTED,
            Self::Missing { .. } => errors::CONF_MISSING,
        }
    }

    /// What to do about it.
    #[must_use]
    pub fn remedy(&self) -> String {
        match self {
            Self::Yaml { fault, .. } => fault.remedy(),
            Self::NoMapping { .. } => "write one `key: value` a line".to_owned(),
            Self::UnknownKey {
                suggestion: Some(meant),
                ..
            }
            | Self::UnknownVariable {
                suggestion: Some(meant),
                ..
            } => {
                format!("did you mean {meant}?")
            }
            Self::UnknownKey {
                suggestion: None, ..
            }
            | Self::UnknownVariable {
                suggestion: None, ..
            } => "remove it; --print-config lists all keys".to_owned(),
            Self::NotMapping { key, example, .. } => {
                format!("write {key}: {{ {example} }}, or {key}.{example}")
            }
            Self::MalformedFlag { .. } => "write -D key=value".to_owned(),
            Self::NotInJobs { key, .. } => {
                format!("move {key} to the configuration of the jobmanager and taskmanagers")
            }
            Self::NotBuilt { key, .. } => format!("remove {key}"),
            Self::Value { key, fault, .. } => fault.remedy(key),
            Self::Twice { .. } => "keep one of the two".to_owned(),
            Self::Conflict { remedy, .. } => remedy.clone(),
            Self::Unprotected { key, .. } => format!(
                "set {key} to 127.0.0.1, or set security.transport: plaintext if the network is closed"
            ),
            Self::Missing { key, .. } => format!("set {key}"),
        }
    }
}

/// All faults found, at least one, at most [`ConfigErrors::LIMIT`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConfigErrors(Vec<ConfigError>);

impl ConfigErrors {
    /// So many faults are collected; a longer list helps nobody.
    pub const LIMIT: usize = 20;

    /// The faults.
    #[must_use]
    pub fn faults(&self) -> &[ConfigError] {
        &self.0
    }

    /// One fault a line with its remedy, for people.
    #[must_use]
    pub fn report(&self) -> String {
        let lines = self
            .0
            .iter()
            .map(|fault| format!("{fault} ({})", fault.remedy()));
        lines.collect::<Vec<_>>().join("\n")
    }

    /// All faults as a terminal shows them, each with its code and remedy.
    #[must_use]
    pub fn render(&self) -> String {
        let parts = self.0.iter();
        let parts = parts.map(|fault| fault.code().render(&fault.to_string(), &fault.remedy()));
        parts.collect::<Vec<_>>().join("\n")
    }

    /// The code of the first fault.
    #[must_use]
    pub fn code(&self) -> ErrorCode {
        self.0.first().map_or(errors::CONF_VALUE, ConfigError::code)
    }

    /// `Ok` if nothing was found.
    pub(crate) fn check(faults: Vec<ConfigError>) -> Result<(), Self> {
        if faults.is_empty() {
            Ok(())
        } else {
            Err(Self(faults))
        }
    }
}

impl From<ConfigError> for ConfigErrors {
    fn from(fault: ConfigError) -> Self {
        Self(vec![fault])
    }
}

impl fmt::Display for ConfigErrors {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let lines: Vec<String> = self.0.iter().map(ToString::to_string).collect();
        f.write_str(&lines.join("; "))
    }
}

impl std::error::Error for ConfigErrors {}

/// What is accepted and yet worth saying; the caller logs each once at WARN.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Warning {
    /// An old name of Flink.
    OldName {
        /// Where.
        origin: Origin,
        /// The name as written.
        spelled: String,
        /// The name to write.
        name: &'static str,
    },
    /// A key that does nothing.
    NoEffect {
        /// Where.
        origin: Origin,
        /// The key as written.
        spelled: String,
        /// Why nothing is lost.
        why: &'static str,
    },
    /// A value that another one changed.
    Adjusted {
        /// The key.
        key: &'static str,
        /// What was given.
        given: String,
        /// What is in effect.
        effective: String,
        /// Why.
        because: &'static str,
    },
}

impl fmt::Display for Warning {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::OldName {
                origin,
                spelled,
                name,
            } => {
                write!(f, "{origin}: {spelled} is an old name, write {name}")
            }
            Self::NoEffect {
                origin,
                spelled,
                why,
            } => {
                write!(f, "{origin}: {spelled} has no effect: {why}")
            }
            Self::Adjusted {
                key,
                given,
                effective,
                because,
            } => {
                write!(f, "{key} is {given}, in effect is {effective}: {because}")
            }
        }
    }
}
